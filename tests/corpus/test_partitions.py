"""Partitions of tokens: what the oracle gives on any scheduler, in bounded memory, of a part of a file or of many."""

from __future__ import annotations

import gzip
import json
import tracemalloc
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import distembed as de
from distembed.corpus import readers, records
from distembed.corpus.partitions import tokenize_partition
from distembed.corpus.readers import read_corpus
from distembed.corpus.records import TEXT_BYTES, CorpusError
from distembed.corpus.tokenizer import Tokenizer
from tests.corpus.conftest import total, write
from tests.references.tokens import ids_of


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


N_FILES = 80


@pytest.fixture
def small_files(tmp_path, monkeypatch):
    """80 files of four formats, of a document or two each, which are 20 tasks or a few more."""
    monkeypatch.setattr(readers, "FEWEST_BUNDLES", 20)
    rng, folder = np.random.default_rng(0), tmp_path / "files"
    words = np.array([f"w{'abcdefgh'[n % 8]}{'xyz'[n % 3]}{'klmno'[n % 5]}" for n in range(120)])
    folder.mkdir()
    for number in range(N_FILES):
        texts = [" ".join(words[rng.integers(0, len(words), 20)]) for _ in range(1 + number % 2)]
        place, kind = folder / f"{number:04d}", number % 4
        if kind == 3:
            pq.write_table(pa.table({"text": texts}), place.with_suffix(".parquet"))
        elif kind == 2:
            place.with_suffix(".jsonl").write_text("".join(json.dumps({"text": t}) + "\n" for t in texts))
        else:
            data = ("\n".join(texts) + "\n").encode()
            place.with_suffix(".txt.gz" if kind else ".txt").write_bytes(
                gzip.compress(data) if kind else data
            )
    return folder


def test_small_files_are_read_several_in_a_task_and_counted_as_by_a_task_for_each(small_files, monkeypatch):
    docs = de.read_corpus(small_files)
    assert 10 <= len(docs.bundles) < len(docs.partitions) == N_FILES
    assert tuple(one for bundle in docs.bundles for one in bundle) == docs.partitions
    room = 2 * sum(one.n_bytes for one in docs.partitions) // 20
    for most, bundles in (
        (room, docs.bundles),
        (400, de.read_corpus(small_files, partition_bytes=400).bundles),
    ):
        assert all(len(bundle) == 1 or sum(one.n_bytes for one in bundle) <= most for bundle in bundles)
    bundled = docs.tokenize()
    monkeypatch.setattr(readers, "FEWEST_BUNDLES", N_FILES)
    single = de.read_corpus(small_files).tokenize()
    assert len(bundled.partitions) < len(single.partitions) == N_FILES
    vocabulary = de.build_vocabulary(single)
    assert de.build_vocabulary(bundled).to_pandas().equals(vocabulary.to_pandas())
    for count in (de.count_document_terms, de.count_cooccurrences):
        one, other = (count(tokens, vocabulary).compute() for tokens in (bundled, single))
        assert (one != other).nnz == 0
    found, wanted = (
        [row for part in tokens.partitions for row in tokens.documents(part).to_pylist()]
        for tokens in (bundled, single)
    )
    assert found == wanted
    one, other = (total(tokens.summaries) for tokens in (bundled, single))
    assert replace(one, n_words=0) == replace(other, n_words=0)


def test_files_that_are_added_leave_most_bundles_as_they_are(small_files, monkeypatch):
    monkeypatch.setattr(readers, "FEWEST_BUNDLES", 10)  # where bundles are long, all would move
    files = sorted(small_files.iterdir())
    before, now = (
        {tuple(one.url for one in bundle) for bundle in de.read_corpus(some).bundles}
        for some in (files[:5] + files[10:], files)
    )
    others = {url for bundle in now - before for url in bundle}
    assert others >= {str(file) for file in files[5:10]}
    assert len(others) < 30


@pytest.mark.parametrize("pattern", ["unicode", "shlex:split"])
def test_an_error_names_the_file_in_its_bundle(tmp_path, pattern):
    good, bad = tmp_path / "a.txt", tmp_path / "bad.txt"
    good.write_text("good words\n")
    bad.write_bytes(b"good words\n" * 30_000 + b"bad \xff byte\n")
    docs = de.read_corpus([good, bad], encoding="utf-8", tokenizer=de.Tokenizer(pattern=pattern))
    first, broken = docs.partitions
    with pytest.raises(CorpusError, match=r"bad\.txt"):
        tokenize_partition([first, broken, first], docs.tokenizer, str(tmp_path / "part"))
    assert not list(tmp_path.glob("part*"))
    tokenize_partition([replace(broken, stop=1000), first], docs.tokenizer, str(tmp_path / "part"))
