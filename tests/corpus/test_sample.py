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
from distembed.corpus import inspection
from distembed.corpus.inspection import TextSample, sample_text

N_DOCUMENTS = 4000


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
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
    files: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    n_bytes = (files / name).stat().st_size
    # A named function is not called.
    sample = sampled(files / name, tokenizer=de.Tokenizer(pattern="no.such.module:function"))
    assert (sample.n_documents, sample.n_tokens) == (N_DOCUMENTS, 10 * N_DOCUMENTS)
    assert sample.n_bytes == pytest.approx(n_bytes, rel=0.01)
    assert len(sample.counts) == 21 + N_DOCUMENTS
    assert sample.counts.max() == sample.document_counts.max() == N_DOCUMENTS
    if name in ("a.txt", "a.jsonl"):  # which are divided
        monkeypatch.setattr(inspection, "SAMPLE_BYTES", 1 << 15)
        monkeypatch.setattr(inspection, "SAMPLE_PIECE", 1 << 12)
        part, again = (sampled(files / name, partition_bytes=1 << 14) for _ in range(2))
        assert part.n_bytes < n_bytes / 2
        assert pytest.approx(part.n_tokens * n_bytes / part.n_bytes, rel=0.3) == 10 * N_DOCUMENTS
        np.testing.assert_array_equal(part.counts, again.counts)


def test_empty_documents_end_a_sample_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inspection, "SAMPLE_BYTES", 1 << 17)
    pq.write_table(pa.table({"text": pa.repeat("", 1_000_000)}), tmp_path / "empty.parquet")
    sample = sampled(tmp_path / "empty.parquet")
    assert sample.n_tokens == 0
    assert inspection.SAMPLE_BYTES <= sample.n_documents < 1_000_000
