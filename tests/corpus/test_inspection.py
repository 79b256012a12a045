"""What a plan says of a corpus before it reads it: the files by kind, the words, and a sample of the text."""

from __future__ import annotations

import gzip
import json
import tarfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import distembed as de
from distembed.corpus import inspection, planning
from distembed.corpus.inspection import inspect_corpus, sample_text
from distembed.corpus.readers import read_corpus
from distembed.corpus.records import CorpusError
from tests.corpus.conftest import write


def test_files_are_listed_by_kind_and_those_left_out_with_the_reason(tmp_path):
    """An archive, a page, and a text whose beginning does not decode are left out; the others are read."""
    for name in ("a.txt", "run.log", "old.log", "README"):
        (tmp_path / name).write_text("a line of text\n")
    (tmp_path / "page.html").write_text("<!doctype html><p>Ships sail.")
    with tarfile.open(tmp_path / "b.tar.gz", "w:gz") as archive:
        archive.add(tmp_path / "a.txt", "a.txt")
    (tmp_path / "bad.txt").write_bytes("äöü".encode() * 9 + b"\xff\n")
    with pytest.warns(UserWarning, match="left out"):
        corpus = read_corpus(tmp_path, bad_records="skip")
    found = inspect_corpus(corpus)
    assert {"files: 4 text", "words: a, line, of, text"} < {*found}
    [unknown] = [note for note in found if "no known extension, taken for text (format= sets" in note]
    assert unknown.endswith("): 2 .log (old.log, run.log), 1 without extension (README)")
    assert [Path(record.file).name for record in corpus.refused] == ["b.tar.gz", "bad.txt", "page.html"]
    assert "byte 0xff at offset 54" in corpus.refused[1].reason
    assert corpus.tokenize().n_documents == 4


@pytest.mark.parametrize(
    ("name", "data", "bad_records", "message"),
    [
        ("c.jsonl", b'{"body": "a"}\n' * 3000 + b'{"text": "a"}\n', "error", 'has no field "text"'),
        # after a thousand bad ones it is no good beginning
        ("c.jsonl", b'{"body": "a"}\n' * 3000 + b'{"text": "a"}\n', "skip", 'has no field "text"'),
        ("d.jsonl", b'{"body": "a"}\n', "skip", 'byte 0, has no field "text"'),
        ("e.txt", b"some caf\xe9\n", "error", "line 1, byte 0xe9 at offset 8"),
    ],
)
def test_a_look_at_the_files_refuses_what_a_run_would(tmp_path, name, data, bad_records, message):
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


N_DOCUMENTS = 4000


def sampled(path, **options):
    corpus = de.read_corpus(path, **options)
    return sample_text(corpus.bundles, corpus.tokenizer)


@pytest.mark.parametrize("name", ["a.txt", "a.jsonl", "a.txt.gz", "a.parquet"])
def test_a_small_corpus_is_counted_whole_and_a_part_of_one_stands_for_its_share_of_the_bytes(
    tmp_path, name, monkeypatch
):
    """Of documents of ten tokens: eight of two words of their own, one of all, and one that comes once."""
    texts = []
    for number in range(N_DOCUMENTS):
        own = f"{'abcdefghij'[number % 10] * 3} {'klmnopqrst'[number % 10] * 3} "
        texts.append(own * 4 + "all new" + "".join(chr(97 + int(digit)) for digit in str(number)))
    path, lines = tmp_path / name, "\n".join(texts).encode()
    if name == "a.parquet":
        pq.write_table(pa.table({"text": texts}), path, compression="none", use_dictionary=False)
    elif name == "a.jsonl":
        write(path, "\n".join(json.dumps({"text": text}) for text in texts))
    else:
        write(path, gzip.compress(lines) if name == "a.txt.gz" else lines)
    n_bytes = path.stat().st_size
    # A named function is not called.
    sample = sampled(path, tokenizer=de.Tokenizer(pattern="no.such.module:function"))
    assert (sample.n_documents, sample.n_tokens) == (N_DOCUMENTS, 10 * N_DOCUMENTS)
    assert sample.n_bytes == pytest.approx(n_bytes, rel=0.01)
    assert len(sample.counts) == 21 + N_DOCUMENTS
    assert sample.counts.max() == sample.document_counts.max() == N_DOCUMENTS
    if name in ("a.txt", "a.jsonl"):  # which are divided
        monkeypatch.setattr(inspection, "SAMPLE_BYTES", 1 << 15)
        monkeypatch.setattr(inspection, "SAMPLE_PIECE", 1 << 12)
        part, again = (sampled(path, partition_bytes=1 << 14) for _ in range(2))
        assert part.n_bytes < n_bytes / 2
        assert pytest.approx(part.n_tokens * n_bytes / part.n_bytes, rel=0.3) == 10 * N_DOCUMENTS
        np.testing.assert_array_equal(part.counts, again.counts)


def test_empty_documents_end_a_sample_too(tmp_path, monkeypatch):
    monkeypatch.setattr(inspection, "SAMPLE_BYTES", 1 << 17)
    pq.write_table(pa.table({"text": pa.repeat("", 1_000_000)}), tmp_path / "empty.parquet")
    sample = sampled(tmp_path / "empty.parquet")
    assert sample.n_tokens == 0
    assert inspection.SAMPLE_BYTES <= sample.n_documents < 1_000_000
