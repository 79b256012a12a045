"""Every format, layout and compression, whole and split anywhere, gives the same documents in the same
order."""

from __future__ import annotations

import bz2
import codecs
import gzip
import json
import lzma
import re
import tracemalloc
from dataclasses import replace
from pathlib import Path

import dask
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from distembed.corpus import planning, records, tables
from distembed.corpus.inspection import inspect_corpus
from distembed.corpus.partitions import open_partition, tokenize_partition
from distembed.corpus.readers import Corpus, read_corpus
from distembed.corpus.records import TEXT_BYTES, CorpusError
from distembed.corpus.tokenizer import Tokenizer
from tests.corpus.conftest import total, write
from tests.references.tokens import ids_of

COMPRESS = {
    "": bytes,
    ".bz2": bz2.compress,
    ".gz": gzip.compress,
    ".xz": lzma.compress,
    ".zst": lambda data: pa.compress(data, "zstd", asbytes=True),
}


@pytest.mark.parametrize("extension", COMPRESS)
def test_compressed_text(tmp_path, extension):
    lines = [f"line {k} with words" for k in range(5000)]
    path = write(tmp_path / f"text.txt{extension}", COMPRESS[extension]("\n".join(lines).encode()))
    assert [document.text for document in read_corpus(path).documents()] == lines


def test_json_lines(tmp_path):
    rows = [(str(k), f"n{k}", None if k % 2 else "c", f"Text {k}\nzweite é") for k in range(50)]
    records = [json.dumps(dict(zip(("key", "name", "class", "text"), row, strict=True))) for row in rows]
    path = write(tmp_path / "d.jsonl", codecs.BOM_UTF8 + "\n".join(records).encode() + b"\n\n")
    options = {"id_field": "key", "title_field": "name", "label_field": "class"}
    whole = list(read_corpus(path, **options).documents())
    assert [tuple(document) for document in whole] == rows
    corpus = read_corpus(path, partition_bytes=300, **options)
    assert len(corpus.partitions) > 5
    assert list(corpus.documents()) == whole


def test_parquet(tmp_path):
    texts = [f"Text {k} é" for k in range(50)]
    table = pa.table({"body": pa.array([*texts, None]), "id": list(range(51)), "label": ["x"] * 51})
    path = str(tmp_path / "d.parquet")
    pq.write_table(table, path, row_group_size=7)
    corpus = read_corpus(path, text_field="body", id_field="id", label_field="label", partition_bytes=200)
    assert len(corpus.partitions) > 1
    found = list(corpus.documents())
    assert [d.text for d in found] == [*texts, ""]
    assert [d.id for d in found] == [str(k) for k in range(51)]
    assert corpus.tokenize().partitions


def test_files_of_one_name_have_their_folders_in_the_ids(tmp_path):
    """Below the folder that was given, or, where several were, below the one that they have in common."""
    for name in ("d/a/x.txt", "d/b/c/x.txt", "d/x.txt", "y.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("one\ntwo\n")
    ids = [document.id for document in read_corpus(tmp_path).documents()]
    names = ["d/a/x.txt", "d/b/c/x.txt", "d/x.txt", "y.txt"]
    assert ids == [f"{name}:{offset}" for name in names for offset in (0, 4)]
    alone = read_corpus([tmp_path / "d/a", tmp_path / "y.txt"], layout="blocks")
    assert [document.id for document in alone.documents()] == ["x.txt:0", "y.txt:0"]
    several = read_corpus([tmp_path / "d/a", tmp_path / "d/b/c"], layout="file")
    assert [document.id for document in several.documents()] == ["a/x.txt", "b/c/x.txt"]


def test_remote_url():
    import fsspec

    filesystem = fsspec.filesystem("memory")
    filesystem.pipe("/corpus/x.txt", b"one two\nthree\n")
    corpus = read_corpus("memory://corpus/*.txt", partition_bytes=4)
    assert [d.text for d in corpus.documents()] == ["one two", "three"]
    summary = tokenize_partition(corpus.partitions[0], corpus.tokenizer, "memory://parts/part-0")
    assert summary.n_tokens == 2
    assert filesystem.exists("/parts/part-0.tokens.parquet")
    assert not [name for name in filesystem.ls("/parts", detail=False) if "partial" in name]


def test_a_store_of_token_ids_that_fails_is_named(monkeypatch):
    import fsspec

    fsspec.filesystem("memory").pipe("/corpus/y.txt", b"one two")
    corpus = read_corpus("memory://corpus/y.txt")
    tokenize_partition(corpus.partitions[0], corpus.tokenizer, "memory://parts/y")

    def fail(*_args, **_options):
        raise OSError(5, "SlowDown")

    monkeypatch.setattr("fsspec.implementations.memory.MemoryFileSystem.exists", fail)
    with pytest.raises(ConnectionError, match=r"store of memory://parts/y\.tokens\.parquet failed.*SlowDown"):
        open_partition("memory://parts/y", "tokens")


def ids_and_words(corpus: Corpus) -> tuple[list[list[int]], list[str]]:
    tokens = corpus.tokenize()
    (partition,) = tokens.partitions
    rows = [(batch.document, batch.ids) for batch in tokens.iter_partition(partition, n_ids=100)]
    document = np.concatenate([d for d, _ in rows])
    ids = np.concatenate([i for _, i in rows])
    n = tokens.documents(partition).num_rows
    return [ids[document == k].tolist() for k in range(n)], tokens.words(partition).column("word").to_pylist()


def test_parts_hold_what_the_oracle_gives(tmp_path):
    rng = np.random.default_rng(0)
    lines = [" ".join(f"w{chr(97 + k)}" for k in rng.zipf(1.5, n) % 26) for n in rng.integers(1, 40, 300)]
    lines[7] = "long " * 200_000
    path = write(tmp_path / "t.txt", "\n".join(lines).encode())
    corpus = read_corpus(path, tokenizer=Tokenizer(pattern="ascii"))
    expected, words, counts, document_counts = ids_of(lines, pattern="ascii")
    assert ids_and_words(corpus) == (expected, words)
    tokens = corpus.tokenize()
    table = tokens.words(tokens.partitions[0])
    assert table.column("count").to_pylist() == counts
    assert table.column("document_count").to_pylist() == document_counts
    sizes = tokens.documents(tokens.partitions[0]).column("n_tokens").to_pylist()
    assert sizes == [len(ids) for ids in expected]
    rows = pq.read_table(tokens.partitions[0] + ".tokens.parquet").column("ids").combine_chunks()
    assert max(rows.value_lengths().to_pylist()) == 1 << 16


@pytest.mark.parametrize("scheduler", ["threads", "processes", "synchronous"])
def test_same_bytes_on_any_scheduler(tmp_path, process_pool, scheduler):
    path = write(tmp_path / "t.txt", "\n".join(f"line {k} of words" for k in range(400)).encode())
    corpus = read_corpus(path, partition_bytes=3000)
    pool = process_pool if scheduler == "processes" else None
    with dask.config.set(scheduler=scheduler, num_workers=2, pool=pool):
        tokens = corpus.tokenize(tmp_path / "parts")
    target = tmp_path / "again"
    for source, partition in zip(corpus.partitions, tokens.partitions, strict=True):
        tokenize_partition(source, corpus.tokenizer, str(target))
        for kind in ("tokens", "words", "documents"):
            first, second = (Path(f"{prefix}.{kind}.parquet").read_bytes() for prefix in (partition, target))
            assert first == second
    assert total(tokens.summaries).n_tokens == 400 * 3
    assert not list(tmp_path.glob("parts/*partial*"))


def test_result_is_kept_and_removed_with_its_last_user(tmp_path):
    path = write(tmp_path / "t.txt", b"some words\n")
    corpus = read_corpus(path, scratch=tmp_path)
    tokens = corpus.tokenize()
    assert corpus.tokenize() is tokens
    partition = Path(tokens.partitions[0] + ".tokens.parquet")
    del corpus
    assert partition.exists()
    del tokens
    assert not partition.exists()
    assert list(tmp_path.iterdir()) == [tmp_path / "t.txt"]


@pytest.mark.parametrize("name", ["line.txt", "blocks.txt", "line.txt.gz"])
def test_memory_does_not_grow_with_a_line(tmp_path, name):
    unit = b"some words of one endless line " * 33
    path = tmp_path / name
    with gzip.open(path, "wb", 1) if name.endswith("gz") else path.open("wb") as file:
        for _ in range(60):
            file.write(unit * 1024)
    layout = "blocks" if name.startswith("blocks") else "line"
    corpus = read_corpus(path, layout=layout, partition_bytes=1 << 22)
    tokenize_partition(corpus.partitions[0], corpus.tokenizer, str(tmp_path / "warm"))
    tracemalloc.start()
    target = str(tmp_path / "part")
    summaries = [tokenize_partition(one, corpus.tokenizer, target) for one in corpus.partitions[:3]]
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert sum(summary.n_documents for summary in summaries) == 8  # of 8 MiB each
    assert total(summaries).n_tokens > 60 * 1024 * 33 * 6 - 1200
    assert peak < 10 * TEXT_BYTES


def test_split_inside_a_line_reads_no_further_than_itself(tmp_path):
    path = write(tmp_path / "t.txt", b"x" * 100_000)
    partition = read_corpus(path, partition_bytes=1000).partitions[5]
    summary = tokenize_partition(partition, Tokenizer(), str(tmp_path / "part"))
    assert (summary.n_documents, summary.n_tokens) == (0, 0)
    assert summary.n_bytes_read <= 100_000 - 5000  # a piece of it, to see that no line begins
    assert summary.n_bytes_text == 0


# Bad input


@pytest.mark.parametrize("extension", [".bz2", ".gz", ".xz", ".zst"])
def test_truncated(tmp_path, extension):
    data = COMPRESS[extension](np.random.default_rng(0).bytes(1 << 16).hex().encode())
    path = write(tmp_path / f"t.txt{extension}", data[: len(data) // 2])
    place = r".*compressed byte \d+" if extension == ".bz2" else ".*"
    with pytest.raises(CorpusError, match=rf"t\.txt\{extension} cannot be read to its end \(.*{place}"):
        read_corpus(path).tokenize()
    if extension == ".gz":  # or its checksum is wrong
        data = bytearray(gzip.compress(b"some words\n" * 100))
        data[-8] ^= 1
        with pytest.raises(CorpusError, match=r"t\.txt\.gz cannot be read .*incorrect data check"):
            read_corpus(write(tmp_path / "t.txt.gz", bytes(data))).tokenize()


@pytest.mark.parametrize(("line", "column"), [(4, 0), (5, 6)], ids=["title", "text"])
def test_latin_1_in_blocks(tmp_path, line, column):
    lines = b"A title\nsome text of it\n\nAnother title\nmore text\nof it\n\nThird\nend".split(b"\n")
    lines[line - 1] = lines[line - 1][:column] + b"\xef" + lines[line - 1][column + 1 :]
    offset = sum(len(each) + 1 for each in lines[: line - 1]) + column
    path = write(tmp_path / "t.txt", b"\n".join(lines))
    message = rf"t\.txt is not UTF-8: line {line}, byte 0xef at offset {offset} of the text; .*give encoding="
    for partition_bytes in (7, 1 << 20):
        options = {"layout": "blocks", "partition_bytes": partition_bytes}
        with pytest.raises(CorpusError, match=message):
            read_corpus(path, **options)
        for partition in read_corpus(path, errors="replace", **options).partitions[-1:]:
            with pytest.raises(CorpusError, match=message):
                list(Corpus((replace(partition, errors="strict", start=0, stop=None),)).documents())
    lenient = read_corpus(path, errors="replace", layout="blocks").tokenize()
    assert sum(summary.n_documents for summary in lenient.summaries) == 3


def test_nothing_to_read(tmp_path):
    with pytest.raises(CorpusError, match=r"t\.txt is empty"):
        read_corpus(write(tmp_path / "t.txt", b""))
    with pytest.raises(CorpusError, match="empty"):
        read_corpus(write(tmp_path / "u.txt.bz2", b""))
    with pytest.raises(CorpusError, match=r"v\.txt: no document found"):
        read_corpus(write(tmp_path / "v.txt", b"\n\n\n")).tokenize()
    with pytest.raises(FileNotFoundError, match=r"\*\.xml matches no file"):
        read_corpus(tmp_path / "*.xml")
    gone = read_corpus(write(tmp_path / "w.txt", b"words\n"))
    (tmp_path / "w.txt").unlink()
    with pytest.raises(FileNotFoundError, match=r"w\.txt: there is no such file; check its name"):
        gone.tokenize()


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b'{"text": "x"', r"line 3, is not JSON"),
        (b'{"body": "x"}', r'line 3, has no field "text" \(it has body\); give text_field='),
        (b'{"text": 5}', r'line 3, holds int in "text"'),
        (b"[1]", r"line 3, is a JSON list"),
        (b'{"text": "a", "key": "\\ud800"}', r"line 3, holds \\ud800, half of a character"),
        (b'{"text": "a \\udfff"}', r"line 3, holds \\udfff, half of a character"),
        (b'{"text": "a", "name": "\\ud8ff"}', r"line 3, holds \\ud8ff, half of a character"),
        (b'{"text": "a", "class": "\\ud8ff"}', r"line 3, holds \\ud8ff, half of a character"),
        (b'{"text": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", r"line 3, is not JSON \(maximum recursion"),
        (b'{"text": "a", "n": ' + b"9" * 5000 + b"}", r"line 3, is not JSON \(.*limit \(4300 digits\)"),
        (b'{"text": "", "class": ["x", "y"]}', r'line 3, holds list in "class", not one value; give label_field='),
        (b'{"text": "", "name": {"k": 1}}', r'line 3, holds dict in "name", not one value; give title_field='),
        (b'{"text": "na\xefve"}', r"line 3, is not UTF-8 \(byte 0xef at column 13\)"),
    ],
)  # fmt: skip
def test_bad_json(tmp_path, line, message):
    path = write(tmp_path / "t.jsonl", b'{"text": "a b"}\n{"text": "c"}\n' + line + b"\n")
    options = {"id_field": "key", "title_field": "name", "label_field": "class", "encoding": "utf-8"}
    for partition_bytes in (1 << 20, 20):
        with pytest.raises(CorpusError, match=message):
            read_corpus(path, partition_bytes=max(partition_bytes, len(line)), **options).tokenize()
    tokens = read_corpus(path, bad_records="skip", **options).tokenize()
    assert (total(tokens.summaries).n_documents, total(tokens.summaries).n_bad_records) == (2, 1)
    (skipped,) = total(tokens.summaries).bad_records
    assert (skipped.file, skipped.place) == (path, "byte 30")
    assert re.search(message.partition(", ")[2], skipped.reason)


def test_bad_records_are_all_counted_and_the_first_named_in_short(tmp_path):
    long = json.dumps({f"{number:04}": 1 for number in range(999)})
    path = write(tmp_path / "a.jsonl", (f"{long}\n" * 25 + "x" * 600 + '\n{"text": "good"}\n').encode())
    corpus = read_corpus(path, bad_records="skip")
    summary = tokenize_partition(corpus.partitions[0], Tokenizer(), str(tmp_path / "part"))
    assert (summary.n_bad_records, summary.n_documents) == (26, 1)
    assert len(summary.bad_records) == 20
    assert max(len(record.reason) for record in summary.bad_records) < 200
    assert len(total([summary, summary]).bad_records) == 20


def test_null_text_is_an_empty_document_everywhere(tmp_path):
    records = [{"text": None, "id": "a"}, {"text": "two", "id": None}]
    write(tmp_path / "t.jsonl", "\n".join(map(json.dumps, records)).encode())
    pq.write_table(pa.table({"text": [None, "two"], "id": ["a", None]}), tmp_path / "t.parquet")
    for name, place in (("t.jsonl", "t.jsonl:26"), ("t.parquet", "t.parquet:0.1")):
        corpus = read_corpus(tmp_path / name, id_field="id", title_field="id")
        assert list(corpus.documents()) == [("a", "a", None, ""), (place, "", None, "two")]


def test_json_line_too_long_to_be_held(tmp_path, monkeypatch):
    monkeypatch.setattr(tables, "RECORD_BYTES", 50)
    monkeypatch.setattr(records, "RECORD_BYTES", 50)
    monkeypatch.setattr(records.blocks_of, "__kwdefaults__", {"limit": 50})
    lines = [b'{"text": "one"}', b'{"text": "' + b"long " * 40 + b'"}', b'{"text": "two"}']
    path = write(tmp_path / "t.jsonl", b"\n".join(lines))
    partition = replace(read_corpus(path, bad_records="skip").partitions[0], piece_bytes=16)
    assert [document.text for document in Corpus((partition,)).documents()] == ["one", "two"]
    table = write(tmp_path / "t.csv", b"text\none\n" + b"long " * 40)
    for long in (replace(partition, bad_records="error"), read_corpus(table).partitions[0]):
        with pytest.raises(
            CorpusError, match=r"line [23], has over .* give the text as plain text or Parquet"
        ):
            list(Corpus((replace(long, piece_bytes=16),)).documents())


def test_parquet_rows_that_are_not_utf_8(tmp_path):
    raw = pa.array([b"one", b"tw\xff", None, b"\xfe", b"five"])
    text = pa.StringArray.from_buffers(5, *(raw.buffers()[k] for k in (1, 2, 0)))
    path = str(tmp_path / "t.parquet")
    pq.write_table(pa.table({"text": text, "name": text}), path, row_group_size=2)
    with pytest.raises(CorpusError, match=r't\.parquet, row 2, is not UTF-8 in column "text"'):
        read_corpus(path).tokenize()
    corpus = read_corpus(path, bad_records="skip")
    found = [(document.id, document.text) for document in corpus.documents()]
    assert found == [("t.parquet:0.0", "one"), ("t.parquet:1.0", ""), ("t.parquet:2.0", "five")]
    tokens = corpus.tokenize()
    assert [record.place for record in total(tokens.summaries).bad_records] == ["row 2", "row 4"]


def test_parquet_without_row_groups_has_no_documents(tmp_path):
    empty, full = tmp_path / "a.parquet", tmp_path / "b.parquet"
    pq.ParquetWriter(empty, pa.schema([("text", pa.string())])).close()
    pq.write_table(pa.table({"text": ["one"]}), full)
    assert [d.text for d in read_corpus([empty, full]).documents()] == ["one"]
    with pytest.raises(CorpusError, match=r"a\.parquet: no document found"):
        read_corpus(empty).tokenize()


def test_a_name_that_the_locale_cannot_spell(tmp_path, monkeypatch):
    monkeypatch.setattr("os.fsencode", lambda name: name.encode("ascii"))
    monkeypatch.setattr("sys.getfilesystemencoding", lambda: "ascii")
    with pytest.raises(OSError, match=r"cannot be represented in ascii.*set PYTHONUTF8=1"):
        read_corpus(tmp_path / "ä*.txt")


def test_parquet_without_the_column(tmp_path):
    path = str(tmp_path / "t.parquet")
    pq.write_table(pa.table({"body": ["x"]}), path)
    with pytest.raises(CorpusError, match=r'no column "text" \(it has body\); give text_field='):
        read_corpus(path).tokenize()
    pq.write_table(pa.table({"text": ["a"], "body": [["x"]]}), path)
    with pytest.raises(CorpusError, match=r'column "body" is list<.*>, not text; give id_field='):
        read_corpus(path, id_field="body").tokenize()
    with pytest.raises(CorpusError, match=r"cannot be read as a Parquet file \(\w+ .*\)"):
        read_corpus(write(tmp_path / "u.parquet", b"no parquet"))


def test_options(tmp_path):
    wrong = {
        "format": "pdf",
        "layout": "page",
        "errors": "ignore",
        "bad_records": "drop",
        "partition_bytes": 0,
    }
    for option, value in wrong.items():
        with pytest.raises(ValueError, match=f"{option} is"):
            read_corpus(write(tmp_path / "t.txt", b"x"), **{option: value})


def test_several_text_fields_are_one_text(tmp_path):
    records = [{"title": "One", "body": "two"}, {"title": None, "body": "three"}, {"title": "four"}]
    (tmp_path / "a.jsonl").write_text("\n".join(json.dumps(record) for record in records) + "\n")
    columns = {name: [record.get(name) for record in records] for name in ("title", "body")}
    pq.write_table(pa.table(columns), tmp_path / "a.parquet")
    for name in ("a.jsonl", "a.parquet"):
        corpus = read_corpus(tmp_path / name, text_field=("title", "body"))
        assert [document.text for document in corpus.documents()] == ["One\ntwo", "three", "four"]
    with pytest.raises(CorpusError, match='has no field "a" or "b"'):
        read_corpus(tmp_path / "a.jsonl", text_field=("a", "b")).tokenize()
    with pytest.raises(CorpusError, match='no column "b"'):
        read_corpus(tmp_path / "a.parquet", text_field=("title", "b")).tokenize()


def test_a_look_at_the_files_says_what_they_are_taken_for(tmp_path):
    write(tmp_path / "a.txt", b"some words\n")
    write(tmp_path / "b.md", b"# other words\n")
    write(tmp_path / "c.jsonl", b'{"body": "a"}\n' * 3000 + b'{"text": "a"}\n')
    taken = "no known extension, taken for text (format= sets the format): 1 .md (b.md)"
    assert inspect_corpus(read_corpus([tmp_path / "a.txt", tmp_path / "b.md"])) == [
        "files: 2 text",
        taken,
        "words: other, words",
    ]
    for bad_records in ("error", "skip"):  # a good record after a thousand bad ones is no good beginning
        corpus = read_corpus(tmp_path / "c.jsonl", bad_records=bad_records)
        with pytest.raises(CorpusError, match=r'has no field "text"'):
            inspect_corpus(corpus)
    few = write(tmp_path / "d.jsonl", b'{"body": "a"}\n')
    bytes_of = write(tmp_path / "e.txt", b"some caf\xe9\n")
    for path, message in (few, 'byte 0, has no field "text"'), (bytes_of, "line 1, byte 0xe9 at offset 8"):
        with pytest.raises(CorpusError, match=message):
            inspect_corpus(read_corpus(path, bad_records="skip" if path == few else "error"))


def test_the_beginning_of_a_file_is_read_once_until_the_file_changes(tmp_path, monkeypatch):
    """A plan asks for the corpus of its job six times."""
    path, looked, look = tmp_path / "a.txt", [], planning._plan_file
    monkeypatch.setattr(
        planning, "_plan_file", lambda file, *a, **k: looked.append(file) or look(file, *a, **k)
    )
    path.write_text("naïve\n", encoding="utf-8")
    assert {read_corpus(path).partitions[0].encoding for _ in range(3)} == {"utf-8"}
    assert len(looked) == 1
    path.write_bytes("naïve ones\n".encode("utf-16"))
    assert read_corpus(path).partitions[0].encoding == "utf-16"
    assert len(looked) == 2


def test_rows_without_any_text_keep_their_place(tmp_path):
    """The texts after a row whose fields are all null got the ids of the rows before them."""
    table = pa.table({"title": ["a", None, None, "d"], "body": [None, None, "c", "e"], "id": list("1234")})
    pq.write_table(table, tmp_path / "t.parquet")
    docs = read_corpus(tmp_path / "t.parquet", text_field=("title", "body"), id_field="id")
    assert [(d.id, d.text) for d in docs.documents()] == [("1", "a"), ("2", ""), ("3", "c"), ("4", "d\ne")]
    tokens = docs.tokenize()
    assert tokens.documents(tokens.partitions[0])["n_tokens"].to_pylist() == [1, 0, 1, 2]
