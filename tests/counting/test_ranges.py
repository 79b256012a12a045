"""A partition that is counted in bundles of its documents has the counts of one that is counted whole."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import distembed as de
from distembed.corpus.tokenizer import Tokenizer
from distembed.counting import partition_rows
from distembed.counting.cooccurrence import CooccurrenceOptions, count_bundle
from distembed.counting.partition_rows import span_documents, token_bundles, token_rows
from distembed.job.load import load_job
from distembed.job.run import run_stages
from distembed.stages import corpus
from distembed.storage.workspace import Workspace
from tests.counting.partitions import merged_block, vocabulary_of, write_partition

WORDS = [f"w{number}" for number in range(12)]


def documents_of(seed: int) -> list[list[str | None]]:
    """Return documents of unequal lengths, some empty, with borders and words outside the vocabulary."""
    rng = np.random.default_rng(seed)
    pool = [*WORDS, "unknown", None]
    return [[pool[k] for k in rng.integers(0, len(pool), n)] for n in (0, 30, 1, 0, 200, 3, 50, 9, 0, 7, 0)]


def test_bundles_follow_from_the_tokens_of_partitions_alone(monkeypatch):
    assert token_bundles(["a", "b"], [0, 0]) == [[]]
    assert token_bundles(["a", "b", "c"], [0, 10**6, 1]) == [[("b", 0, 10**6, 1), ("c", 0, 1, 2)]]
    assert len(token_bundles(["a", "b"], [10**12, 5])) == partition_rows.MOST_BUNDLES
    monkeypatch.setattr(partition_rows, "BUNDLE_TOKENS", 4)
    assert token_bundles(["a", "b", "c"], [5, 3, 4]) == [
        [("a", 0, 4, 0)],
        [("a", 4, 5, 0), ("b", 0, 3, 1)],
        [("c", 0, 4, 2)],
    ]


@pytest.mark.parametrize("n_bundles", [1, 2, 3, 7, 50])
@pytest.mark.parametrize("documents", [documents_of(0), [["w0"] * 10] * 6])
def test_each_document_is_in_one_bundle(tmp_path, monkeypatch, documents, n_bundles):
    partition = write_partition(f"{tmp_path}/p", documents, row_tokens=13)
    lengths = [sum(word is not None for word in document) for document in documents]
    numbers, n_ids = [], 0
    monkeypatch.setattr(partition_rows, "BUNDLE_TOKENS", sum(lengths) / n_bundles)
    bundles = token_bundles([partition], [sum(lengths)])
    assert len(bundles) == n_bundles
    for [span] in bundles:
        found, before = span_documents(span)
        assert before == sum(lengths[: found.start])
        numbers += found
        n_ids += sum(int(np.diff(offsets).sum()) for _, offsets, _ in token_rows(partition, 64, found))
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
def test_bundles_add_up_to_the_counts_of_the_partition(tmp_path, monkeypatch, options):
    vocabulary, chosen = vocabulary_of(WORDS, range(12, 0, -1)), CooccurrenceOptions(window=4, **options)
    documents = documents_of(1)
    partition = write_partition(f"{tmp_path}/p", documents, row_tokens=13)
    n_tokens = sum(word is not None for document in documents for word in document)

    def counted(n_bundles: int) -> list[Any]:
        monkeypatch.setattr(partition_rows, "BUNDLE_TOKENS", n_tokens / n_bundles)
        partials = [
            count_bundle(
                bundle, vocabulary, chosen, (0, 5, 12), f"{tmp_path}/{n_bundles}-{n}", block_memory=2**20
            )
            for n, bundle in enumerate(token_bundles([partition], [n_tokens]))
        ]
        assert sum(one.largest_cell for one in partials) == partials[0].largest_cell
        return [merged_block(partials, (0, 5, 12), block) for block in range(2)]

    whole = counted(1)
    assert sum(block.sum() for block in whole) > 50
    for n_bundles in (2, 5):
        for one, other in zip(whole, counted(n_bundles), strict=True):
            assert one.dtype == other.dtype
            assert (one != other).nnz == 0
            assert one.data.tobytes() == other.data.tobytes()


def test_a_corpus_is_counted_in_ranges(tmp_path, monkeypatch):
    path = tmp_path / "text.txt"
    path.write_text("\n".join(" ".join(word or "" for word in document) for document in documents_of(2)))
    tokens = de.read_corpus(path, tokenizer=Tokenizer(numbers=True)).tokenize()
    vocabulary = de.build_vocabulary(tokens)
    whole = de.count_cooccurrences(tokens, vocabulary, subsample=0.1, scratch=f"{tmp_path}/whole").compute()
    monkeypatch.setattr(partition_rows, "BUNDLE_TOKENS", 60)
    parts = de.count_cooccurrences(tokens, vocabulary, subsample=0.1, scratch=f"{tmp_path}/parts").compute()
    assert [len(list((tmp_path / name).iterdir())) for name in ("whole", "parts")] == [1, 5]
    assert parts.data.tobytes() == whole.data.tobytes()
    assert parts.indices.tobytes() == whole.indices.tobytes()


def test_a_job_counts_its_partitions_in_ranges(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is counted has the digest of partitions that are counted whole."""
    counted: list[int] = []
    count = corpus.count_bundle_of

    def note(index: int, *given: Any, **more: Any) -> Any:
        counted.append(index)
        return count(index, *given, **more)

    monkeypatch.setattr(corpus, "count_bundle_of", note)
    monkeypatch.setattr(partition_rows, "BUNDLE_TOKENS", 500)
    run_stages(load_job(tiny / "job.toml", workspace=str(tiny / "ranges")), until="cooccurrence")
    digests = (Workspace.open(tiny / name).stages()["cooccurrence"].digest for name in ("w", "ranges"))
    assert len(set(digests)) == 1
    assert sorted(counted) == list(range(8))
