"""Every format, layout and compression, whole and split anywhere, gives the same documents in the same order."""

from __future__ import annotations

import codecs
import gzip
import json
import tracemalloc
from dataclasses import replace
from pathlib import Path

import dask
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import distembed as de
from distembed.corpus import inspection, planning, records, tables
from distembed.corpus.inspection import TextSample, inspect_corpus, sample_text
from distembed.corpus.partitions import open_partition, tokenize_partition
from distembed.corpus.readers import Corpus, read_corpus
from distembed.corpus.records import TEXT_BYTES, CorpusError
from distembed.corpus.tokenizer import Tokenizer
from tests.corpus.conftest import COMPRESS, total, write
from tests.references.tokens import ids_of


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
    """In several partitions, with a null text, behind a file without any row group."""
    texts = [f"Text {k} é" for k in range(50)]
    table = pa.table({"body": pa.array([*texts, None]), "id": list(range(51)), "label": ["x"] * 51})
    pq.ParquetWriter(tmp_path / "a.parquet", table.schema).close()
    pq.write_table(table, tmp_path / "d.parquet", row_group_size=7)
    options = {"text_field": "body", "id_field": "id", "label_field": "label"}
    corpus = read_corpus(tmp_path, partition_bytes=200, **options)
    assert len(corpus.partitions) > 2
    assert list(corpus.documents()) == [(str(k), "", "x", text) for k, text in enumerate([*texts, ""])]


def test_files_of_one_name_have_their_folders_in_the_ids(tmp_path):
    """Below the folder that was given, or, where several were, below the one that they have in common."""
    names = ["d/a/x.txt", "d/b/c/x.txt", "d/x.txt", "y.txt"]
    for name in names:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("one\ntwo\n")
    for paths, layout, ids in (
        (tmp_path, "line", [f"{name}:{offset}" for name in names for offset in (0, 4)]),
        ([tmp_path / "d/a", tmp_path / "y.txt"], "blocks", ["x.txt:0", "y.txt:0"]),
        ([tmp_path / "d/a", tmp_path / "d/b/c"], "file", ["a/x.txt", "b/c/x.txt"]),
    ):
        assert [document.id for document in read_corpus(paths, layout=layout).documents()] == ids


def test_remote_files(monkeypatch):
    import fsspec

    filesystem = fsspec.filesystem("memory")
    filesystem.pipe("/corpus/x.txt", b"one two\nthree\n")
    corpus = read_corpus("memory://corpus/*.txt", partition_bytes=4)
    assert [d.text for d in corpus.documents()] == ["one two", "three"]
    summary = tokenize_partition(corpus.partitions[0], corpus.tokenizer, "memory://parts/part-0")
    assert summary.n_tokens == 2
    assert filesystem.exists("/parts/part-0.tokens.parquet")
    assert not [name for name in filesystem.ls("/parts", detail=False) if "partial" in name]

    def fail(*_args, **_options):
        raise OSError(5, "SlowDown")

    monkeypatch.setattr("fsspec.implementations.memory.MemoryFileSystem.exists", fail)
    message = r"store of memory://parts/part-0\.tokens\.parquet failed.*SlowDown"
    with pytest.raises(ConnectionError, match=message):
        open_partition("memory://parts/part-0", "tokens")


def test_parts_hold_what_the_oracle_gives(tmp_path):
    rng = np.random.default_rng(0)
    lines = [" ".join(f"w{chr(97 + k)}" for k in rng.zipf(1.5, n) % 26) for n in rng.integers(1, 40, 300)]
    lines[7] = "long " * 200_000
    path = write(tmp_path / "t.txt", "\n".join(lines).encode())
    tokens = read_corpus(path, tokenizer=Tokenizer(pattern="ascii")).tokenize()
    expected, words, counts, document_counts = ids_of(lines, pattern="ascii")
    [partition] = tokens.partitions
    rows = [(batch.document, batch.ids) for batch in tokens.iter_partition(partition, n_ids=100)]
    documents, ids = map(np.concatenate, zip(*rows, strict=True))
    assert [ids[documents == k].tolist() for k in range(len(lines))] == expected
    table = {"word": words, "count": counts, "document_count": document_counts}
    assert tokens.words(partition).to_pydict() == table
    assert tokens.documents(partition)["n_tokens"].to_pylist() == [len(ids) for ids in expected]
    stored = pq.read_table(partition + ".tokens.parquet").column("ids").combine_chunks()
    assert max(stored.value_lengths().to_pylist()) == 1 << 16


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
    assert list(tmp_path.iterdir()) == [tmp_path / "t.txt"]


@pytest.mark.parametrize("name", ["line.txt", "blocks.txt", "line.txt.gz"])
def test_memory_does_not_grow_with_a_line(tmp_path, name, monkeypatch):
    monkeypatch.setattr(records, "TEXT_BYTES", TEXT_BYTES // 8)
    unit = b"some words of one endless line " * 33
    path = tmp_path / name
    with gzip.open(path, "wb", 1) if name.endswith("gz") else path.open("wb") as file:
        for _ in range(60):
            file.write(unit * 512)
    layout = "blocks" if name.startswith("blocks") else "line"
    corpus = read_corpus(path, layout=layout, partition_bytes=1 << 20)
    partitions = [replace(one, piece_bytes=1 << 17) for one in corpus.partitions[:3]]
    tokenize_partition(partitions[0], corpus.tokenizer, str(tmp_path / "warm"))
    tracemalloc.start()
    summaries = [tokenize_partition(one, corpus.tokenizer, str(tmp_path / "part")) for one in partitions]
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert sum(summary.n_documents for summary in summaries) == 30  # of 1 MiB each
    assert total(summaries).n_tokens > 60 * 512 * 33 * 6 - 1200
    assert peak < 20 << 20  # the line has 30 MiB


def test_split_inside_a_line_reads_no_further_than_itself(tmp_path):
    path = write(tmp_path / "t.txt", b"x" * 100_000)
    partition = read_corpus(path, partition_bytes=1000).partitions[5]
    summary = tokenize_partition(partition, Tokenizer(), str(tmp_path / "part"))
    assert (summary.n_documents, summary.n_tokens, summary.n_bytes_text) == (0, 0, 0)
    assert summary.n_bytes_read <= 100_000 - 5000  # a piece of it, to see that no line begins


def test_null_text_is_an_empty_document_everywhere(tmp_path):
    records = [{"text": None, "id": "a"}, {"text": "two", "id": None}]
    write(tmp_path / "t.jsonl", "\n".join(map(json.dumps, records)).encode())
    pq.write_table(pa.table({"text": [None, "two"], "id": ["a", None]}), tmp_path / "t.parquet")
    for name, place in (("t.jsonl", "t.jsonl:26"), ("t.parquet", "t.parquet:0.1")):
        corpus = read_corpus(tmp_path / name, id_field="id", title_field="id")
        assert list(corpus.documents()) == [("a", "a", None, ""), (place, "", None, "two")]


def test_a_row_too_long_to_be_held(tmp_path, monkeypatch):
    monkeypatch.setattr(tables, "RECORD_BYTES", 50)
    monkeypatch.setattr(records, "RECORD_BYTES", 50)
    monkeypatch.setattr(records.blocks_of, "__kwdefaults__", {"limit": 50})
    lines = [b'{"text": "one"}', b'{"text": "' + b"long " * 40 + b'"}', b'{"text": "two"}']
    path = write(tmp_path / "t.jsonl", b"\n".join(lines))
    partition = replace(read_corpus(path, bad_records="skip").partitions[0], piece_bytes=16)
    assert [document.text for document in Corpus((partition,)).documents()] == ["one", "two"]
    table = write(tmp_path / "t.csv", b"text\none\n" + b"long " * 40)
    message = r"line [23], has over .* give the text as plain text or Parquet"
    for long in (replace(partition, bad_records="error"), read_corpus(table).partitions[0]):
        with pytest.raises(CorpusError, match=message):
            list(Corpus((replace(long, piece_bytes=16),)).documents())


def test_several_text_fields_are_one_text(tmp_path):
    """A text whose fields are all null keeps its place: those after it got the ids of the texts before them."""
    rows = [
        ("One", "two", "a"),
        (None, "three", "b"),
        ("four", None, "c"),
        (None, None, "d"),
        ("e", "f", "e"),
    ]
    records = [dict(zip(("title", "body", "id"), row, strict=True)) for row in rows]
    (tmp_path / "a.jsonl").write_text("\n".join(json.dumps(record) for record in records) + "\n")
    pq.write_table(pa.Table.from_pylist(records), tmp_path / "a.parquet")
    texts = [("a", "One\ntwo"), ("b", "three"), ("c", "four"), ("d", ""), ("e", "e\nf")]
    for name in ("a.jsonl", "a.parquet"):
        corpus = read_corpus(tmp_path / name, text_field=("title", "body"), id_field="id")
        assert [(document.id, document.text) for document in corpus.documents()] == texts


def test_a_look_at_the_files_says_what_they_are_taken_for(tmp_path):
    write(tmp_path / "a.txt", b"some words\n")
    write(tmp_path / "b.md", b"# other words\n")
    taken = "no known extension, taken for text (format= sets the format): 1 .md (b.md)"
    found = inspect_corpus(read_corpus([tmp_path / "a.txt", tmp_path / "b.md"]))
    assert found == ["files: 2 text", taken, "words: other, words"]
    late = b'{"body": "a"}\n' * 3000 + b'{"text": "a"}\n'
    for name, data, bad_records, message in (
        ("c.jsonl", late, "error", 'has no field "text"'),
        ("c.jsonl", late, "skip", 'has no field "text"'),  # after a thousand bad ones it is no good beginning
        ("d.jsonl", b'{"body": "a"}\n', "skip", 'byte 0, has no field "text"'),
        ("e.txt", b"some caf\xe9\n", "error", "line 1, byte 0xe9 at offset 8"),
    ):
        with pytest.raises(CorpusError, match=message):
            inspect_corpus(read_corpus(write(tmp_path / name, data), bad_records=bad_records))


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


# ---- samples -------------------------------------------------------------------------------------------------------


N_DOCUMENTS = 4000


@pytest.fixture(scope="module")
def sample_files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Documents of ten tokens as four formats: eight of two words of their own, one of all, and one that comes once."""
    folder = tmp_path_factory.mktemp("corpus")
    texts = [
        f"{'abcdefghij'[number % 10] * 3} {'klmnopqrst'[number % 10] * 3} " * 4
        + "all new"
        + "".join(chr(97 + int(digit)) for digit in str(number))
        for number in range(N_DOCUMENTS)
    ]
    (folder / "a.txt").write_text("\n".join(texts) + "\n")
    (folder / "a.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    (folder / "a.txt.gz").write_bytes(gzip.compress("\n".join(texts).encode()))
    pq.write_table(pa.table({"text": texts}), folder / "a.parquet", compression="none", use_dictionary=False)
    return folder


def sampled(path: Path, **options: object) -> TextSample:
    corpus = de.read_corpus(path, **options)  # type: ignore[arg-type]
    return sample_text(corpus.bundles, corpus.tokenizer)


@pytest.mark.parametrize("name", ["a.txt", "a.jsonl", "a.txt.gz", "a.parquet"])
def test_a_small_corpus_is_counted_whole_and_a_part_of_one_stands_for_its_share_of_the_bytes(
    sample_files: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    n_bytes = (sample_files / name).stat().st_size
    # A named function is not called.
    sample = sampled(sample_files / name, tokenizer=de.Tokenizer(pattern="no.such.module:function"))
    assert (sample.n_documents, sample.n_tokens) == (N_DOCUMENTS, 10 * N_DOCUMENTS)
    assert sample.n_bytes == pytest.approx(n_bytes, rel=0.01)
    assert len(sample.counts) == 21 + N_DOCUMENTS
    assert sample.counts.max() == sample.document_counts.max() == N_DOCUMENTS
    if name in ("a.txt", "a.jsonl"):  # which are divided
        monkeypatch.setattr(inspection, "SAMPLE_BYTES", 1 << 15)
        monkeypatch.setattr(inspection, "SAMPLE_PIECE", 1 << 12)
        part, again = (sampled(sample_files / name, partition_bytes=1 << 14) for _ in range(2))
        assert part.n_bytes < n_bytes / 2
        assert pytest.approx(part.n_tokens * n_bytes / part.n_bytes, rel=0.3) == 10 * N_DOCUMENTS
        np.testing.assert_array_equal(part.counts, again.counts)


def test_empty_documents_end_a_sample_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inspection, "SAMPLE_BYTES", 1 << 17)
    pq.write_table(pa.table({"text": pa.repeat("", 1_000_000)}), tmp_path / "empty.parquet")
    sample = sampled(tmp_path / "empty.parquet")
    assert sample.n_tokens == 0
    assert inspection.SAMPLE_BYTES <= sample.n_documents < 1_000_000
