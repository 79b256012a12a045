"""A partition that is counted in ranges of its documents has the counts of one that is counted whole."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import distembed as de
from distembed.corpus.tokenizer import Tokenizer
from distembed.counting import partition_rows
from distembed.counting.cooccurrence_options import CooccurrenceOptions
from distembed.counting.partial_counts import count_partition
from distembed.counting.partition_rows import TokenRange, range_documents, token_ranges, token_rows
from distembed.job.load import load_job
from distembed.job.run import run_stages
from distembed.stages import corpus
from distembed.storage.workspace import Workspace
from tests.counting.partitions import merged_block, vocabulary_of, write_partition
from tests.tiny_job import make_tiny_job

WORDS = [f"w{number}" for number in range(12)]


def documents_of(seed: int) -> list[list[str | None]]:
    """Return documents of unequal lengths, some empty, with borders and words outside the vocabulary."""
    rng = np.random.default_rng(seed)
    pool = [*WORDS, "unknown", None]
    return [[pool[k] for k in rng.integers(0, len(pool), n)] for n in (0, 30, 1, 0, 200, 3, 50, 9, 0, 7, 0)]


def test_ranges_follow_from_the_tokens_of_partitions_alone():
    million = 10**6
    assert token_ranges([0, million, 1]) == [
        (number, TokenRange(0, 1, n)) for number, n in enumerate([0, million, 1])
    ]
    assert [number for number, _ in token_ranges([5 * million, million])] == [0] * 5 + [1]
    sizes = [part for number, part in token_ranges([10_000 * million] + [million] * 5) if number == 0]
    assert sizes == [TokenRange(place, 64, 10_000 * million) for place in range(64)]
    # A corpus in many partitions of about one size is not divided further.
    assert len(token_ranges([20 * million] * 300)) == 300


@pytest.mark.parametrize("n_ranges", [1, 2, 3, 7, 50])
@pytest.mark.parametrize("documents", [documents_of(0), [["w0"] * 10] * 6])
def test_each_document_is_in_one_range(tmp_path, documents, n_ranges):
    partition = write_partition(f"{tmp_path}/p", documents, row_tokens=13)
    lengths = [sum(word is not None for word in document) for document in documents]
    numbers, n_ids = [], 0
    for place in range(n_ranges):
        found, before = range_documents(partition, TokenRange(place, n_ranges, sum(lengths)))
        assert before == sum(lengths[: found.start])
        numbers += found
        n_ids += sum(int(np.diff(rows.offsets).sum()) for rows in token_rows(partition, 64, documents=found))
    assert numbers == list(range(len(numbers)))
    assert sum(lengths[len(numbers) :]) == 0  # the rest are empty
    assert n_ids == sum(map(len, documents))


@pytest.mark.parametrize(
    "options",
    [
        {"direction": "left", "weighting": "harmonic"},
        {"oov": "remove", "subsample": 0.05},
        {"weighting": "dynamic", "direction": "right"},
    ],
)
def test_ranges_add_up_to_the_counts_of_the_partition(tmp_path, options):
    vocabulary, chosen = vocabulary_of(WORDS, range(12, 0, -1)), CooccurrenceOptions(window=4, **options)
    documents = documents_of(1)
    partition = write_partition(f"{tmp_path}/p", documents, row_tokens=13)
    n_tokens = sum(word is not None for document in documents for word in document)

    def counted(n_ranges: int) -> list[Any]:
        partials = [
            count_partition(
                partition, vocabulary, chosen, (0, 5, 12), f"{tmp_path}/{n_ranges}-{place}", number=3,
                span=TokenRange(place, n_ranges, n_tokens),
            )
            for place in range(n_ranges)
        ]  # fmt: skip
        assert sum(one.largest_cell for one in partials) == partials[0].largest_cell
        assert sum(one.n_tokens for one in partials) == partials[0].n_tokens
        return [merged_block(partials, (0, 5, 12), block) for block in range(2)]

    whole = counted(1)
    assert sum(block.sum() for block in whole) > 50
    for n_ranges in (2, 5):
        for one, other in zip(whole, counted(n_ranges), strict=True):
            assert one.dtype == other.dtype
            assert (one != other).nnz == 0
            assert one.data.tobytes() == other.data.tobytes()


def test_a_corpus_is_counted_in_ranges(tmp_path, monkeypatch):
    path = tmp_path / "text.txt"
    path.write_text("\n".join(" ".join(word or "" for word in document) for document in documents_of(2)))
    tokens = de.read_corpus(path, tokenizer=Tokenizer(numbers=True)).tokenize()
    vocabulary = de.build_vocabulary(tokens)
    whole = de.count_cooccurrences(tokens, vocabulary, subsample=0.1, scratch=f"{tmp_path}/whole").compute()
    monkeypatch.setattr(partition_rows, "RANGE_TOKENS", 60)
    parts = de.count_cooccurrences(tokens, vocabulary, subsample=0.1, scratch=f"{tmp_path}/parts").compute()
    assert [len(list((tmp_path / name).iterdir())) for name in ("whole", "parts")] == [1, 5]
    assert parts.data.tobytes() == whole.data.tobytes()
    assert parts.indices.tobytes() == whole.indices.tobytes()


def test_a_job_counts_its_partitions_in_ranges(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is counted has the digest of partitions that are counted whole."""
    counted: list[int] = []
    count = corpus.count_range
    monkeypatch.setattr(
        corpus,
        "count_range",
        lambda index, *given, **more: counted.append(index) or count(index, *given, **more),
    )
    make_tiny_job(tmp_path)
    whole = Workspace.open(tmp_path / "w").stages()
    monkeypatch.setattr(partition_rows, "RANGE_TOKENS", 500)
    monkeypatch.setattr(partition_rows, "MOST_RANGES", 10)
    job = load_job(tmp_path / "job.toml", workspace=str(tmp_path / "ranges"))
    run_stages(job, until="cooccurrence")
    ranges = Workspace.open(tmp_path / "ranges").stages()
    assert ranges["cooccurrence"].digest == whole["cooccurrence"].digest
    assert counted[0] == 0
    assert sorted(counted[1:]) == list(range(8))
