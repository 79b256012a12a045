"""Samples of a corpus: a part that stands for its share of the bytes, the same each time."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import distembed as de
from distembed.corpus import inspection as sampling
from distembed.corpus.inspection import TextSample, sample_text

N_DOCUMENTS = 4000


def text_of(number: int) -> str:
    """Return a document of ten tokens: eight of its own two words, one of all, and one that comes once."""
    own = f"{'abcdefghij'[number % 10] * 3} {'klmnopqrst'[number % 10] * 3} "
    return own * 4 + "all new" + "".join(chr(97 + int(digit)) for digit in str(number))


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the same documents as text, JSON lines, gzip and Parquet."""
    folder = tmp_path_factory.mktemp("corpus")
    texts = [text_of(number) for number in range(N_DOCUMENTS)]
    (folder / "a.txt").write_text("\n".join(texts) + "\n")
    (folder / "a.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    (folder / "a.txt.gz").write_bytes(gzip.compress("\n".join(texts).encode()))
    pq.write_table(pa.table({"text": texts}), folder / "a.parquet", compression="none", use_dictionary=False)
    return folder


def sampled(path: Path, *, partition_bytes: int = 1 << 24) -> TextSample:
    corpus = de.read_corpus(path, partition_bytes=partition_bytes)
    return sample_text(corpus.bundles, corpus.tokenizer)


@pytest.mark.parametrize("name", ["a.txt", "a.jsonl", "a.txt.gz", "a.parquet"])
def test_a_small_corpus_is_counted_whole(files: Path, name: str) -> None:
    sample = sampled(files / name)
    assert (sample.n_documents, sample.n_tokens) == (N_DOCUMENTS, 10 * N_DOCUMENTS)
    assert sample.n_bytes == pytest.approx((files / name).stat().st_size, rel=0.01)
    assert len(sample.counts) == 21 + N_DOCUMENTS
    assert sample.counts.max() == sample.document_counts.max() == N_DOCUMENTS


@pytest.mark.parametrize("name", ["a.txt", "a.jsonl"])
def test_a_part_of_a_corpus_stands_for_its_share_of_the_bytes(
    files: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sampling, "SAMPLE_BYTES", 1 << 15)
    monkeypatch.setattr(sampling, "SAMPLE_PIECE", 1 << 12)
    sample, again = (sampled(files / name, partition_bytes=1 << 14) for _ in range(2))
    n_bytes = (files / name).stat().st_size
    assert sample.n_bytes < n_bytes / 2
    assert pytest.approx(sample.n_tokens * n_bytes / sample.n_bytes, rel=0.3) == 10 * N_DOCUMENTS
    np.testing.assert_array_equal(sample.counts, again.counts)


def test_a_named_function_is_not_called(files: Path) -> None:
    tokenizer = de.Tokenizer(pattern="no.such.module:function")
    corpus = de.read_corpus(files / "a.txt", tokenizer=tokenizer)
    assert sample_text(corpus.bundles, tokenizer).n_tokens == 10 * N_DOCUMENTS


def test_empty_documents_end_a_sample_too(tmp_path: Path) -> None:
    pq.write_table(pa.table({"text": pa.repeat("", 3_000_000)}), tmp_path / "empty.parquet")
    sample = sample_text(de.read_corpus(tmp_path / "empty.parquet").bundles, de.Tokenizer())
    assert sample.n_tokens == 0
    assert sampling.SAMPLE_BYTES <= sample.n_documents < 3_000_000
