"""Counts of each position apart equal the plain double loop, and add up to the counts of all positions together."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distembed.corpus import Tokens
from distembed.corpus.costs import TextSizes
from distembed.corpus.growth_blocks import Repetition
from distembed.counting import (
    CooccurrenceOptions,
    blocks,
    cooccurrence,
    cooccurrence_row_blocks,
    count_cooccurrences,
    count_partition,
    merge_row_block,
    partial_counts,
    partition_rows,
)
from distembed.counting.cooccurrence_options import check_sums
from distembed.counting.costs import PairModel, merged_counts_cost, partial_counts_cost, run_sizes
from tests.counting.partitions import vocabulary_of, write_partition
from tests.counting.test_cooccurrence import DOCUMENTS, WORDS, as_float, count, documents
from tests.references import counting as plain

APART = {"direction": "left", "positions": "apart"}


@settings(max_examples=40, deadline=None)
@given(
    documents=documents,
    window=st.integers(1, 6),
    oov=st.sampled_from(["keep_position", "remove"]),
    row_tokens=st.integers(1, 40),
    cuts=st.sets(st.integers(1, 4)),
    n_pairs=st.integers(6, 60),
    key_type=st.sampled_from([np.uint32, np.uint64]),
)
def test_equals_the_plain_loop_however_the_text_is_cut(
    tmp_path_factory, documents, window, oov, row_tokens, cuts, n_pairs, key_type
):
    folder = tmp_path_factory.mktemp("cut")
    partitions = [documents[a:b] for a, b in itertools.pairwise(sorted({0, len(documents), *cuts}))]
    options = {"window": window, "oov": oov, **APART}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blocks, "key_type", lambda n_words, window: np.dtype(key_type))
        patch.setattr(partial_counts, "pairs_per_piece", lambda options, n_words: n_pairs)
        patch.setattr(partial_counts, "run_bytes", lambda runs: 2**40)  # every buffer spills
        patch.setattr(partition_rows, "_row_batch", lambda about, batch_bytes: 1)
        found = count(folder, [part for part in partitions if part], row_tokens=row_tokens, **options)
    assert found.has_canonical_format
    assert found.dtype == np.int32
    expected = plain.cooccurrences(documents, WORDS, **options)
    assert found.shape == expected.shape == (len(WORDS), window * len(WORDS))
    np.testing.assert_array_equal(found.toarray(), expected.astype(int))


@pytest.mark.parametrize("options", [{}, {"subsample": 0.05, "seed": 7}, {"oov": "remove"}])
def test_positions_add_up_to_the_counts_together(tmp_path, options):
    """Also where tokens are dropped at random: by the same numbers, so that a token is dropped at every position."""
    rng = np.random.default_rng(0)
    text = [list(rng.choice([*WORDS, "odd"], 400)) for _ in range(3)]
    vocabulary = vocabulary_of(WORDS, [60, 30, 10, 5, 1])
    together = count(tmp_path, [text], vocabulary, window=3, direction="left", **options)
    apart = count(tmp_path, [text], vocabulary, window=3, **APART, **options)
    positions = np.split(apart.toarray(), 3, axis=1)
    np.testing.assert_array_equal(sum(positions), together.toarray())
    assert not np.array_equal(positions[0], positions[1])


@pytest.mark.parametrize("row_blocks", [(0, 11), (0, 2, 4, 11), tuple(range(12))])
def test_row_blocks_and_groups_of_files_stack_to_the_whole(tmp_path, row_blocks):
    vocabulary = vocabulary_of([*WORDS, "on", "odd", "x", "y", "z", "w"])
    options, partials = CooccurrenceOptions(window=4, **APART), []
    for number, document in enumerate(DOCUMENTS):
        partition = write_partition(f"{tmp_path}/p{number}", [document])
        target = f"{tmp_path}/{number}.counts"
        partials.append(count_partition(partition, vocabulary, options, row_blocks, target))
    groups = [
        cooccurrence.merge_files(partials[start : start + 4], row_blocks, f"{tmp_path}/m{start}")
        for start in (0, 4)
    ]
    expected = as_float(plain.cooccurrences(DOCUMENTS, vocabulary.words, window=4, **APART))
    for some in (partials, groups):
        parts = [merge_row_block(some, row_blocks, block) for block in range(len(row_blocks) - 1)]
        np.testing.assert_array_equal(np.vstack([part.toarray() for part in parts]), expected)


def test_columns_of_more_than_two_bytes(tmp_path):
    """30,000 words have 90,000 columns at three positions: their numbers take four bytes in a file of runs."""
    words = [f"w{number}" for number in range(30_000)]
    text = [words[-1], words[-2], words[-1], words[-3]]
    found = count(tmp_path, [[text]], vocabulary_of(words), window=3, **APART).tocoo()
    cells = {
        (int(row), int(column)): int(n)
        for row, column, n in zip(found.row, found.col, found.data, strict=True)
    }
    first, second, third = 29_999, 29_998, 29_997
    assert cells == {
        (first, second): 1,
        (second, first): 1,
        (first, third): 1,
        (first, 30_000 + first): 1,
        (second, 30_000 + third): 1,
        (first, 60_000 + third): 1,
    }


def test_lazy_and_in_blocks_of_the_wider_matrix(tmp_path):
    rng = np.random.default_rng(3)
    words = [f"w{number}" for number in range(300)]
    text = list(np.array(words)[rng.zipf(1.2, 60_000) % 300])
    vocabulary = vocabulary_of(words, [text.count(word) for word in words])
    tokens = Tokens((write_partition(f"{tmp_path}/p", [text]),))
    options = {"window": 4, "direction": "left", "block_memory": 2**17}
    together = count_cooccurrences(tokens, vocabulary, **options)
    apart = count_cooccurrences(tokens, vocabulary, positions="apart", **options)
    assert apart.numblocks[0] > 1.5 * together.numblocks[0]
    assert apart.chunks[1] == (1200,)
    sizes = [block.compute(scheduler="sync").nnz for block in apart.blocks]
    assert max(sizes) * 12 < 2 * 2**17 / 8


def test_row_blocks_have_equal_shares_of_all_positions():
    counts = (1e7 / np.arange(1, 20_001)).astype(np.int64)
    edges = cooccurrence_row_blocks(counts, window=3, direction="left", positions="apart", block_memory=2**26)
    share = counts / counts.sum()
    expected = np.array([-3 * np.expm1(-counts.sum() * p * share).sum() for p in share])
    sizes = np.add.reduceat(expected, edges[:-1])
    assert sizes.max() < 1.2 * sizes.mean()
    assert 0.8 * 2**26 / 8 < sizes.max() * 12 < 1.2 * 2**26 / 8


def test_a_count_of_one_position_has_its_own_bound():
    """A token meets one word at each distance, so that fewer counts need eight bytes."""
    options = {"window": 10, "direction": "left"}
    assert check_sums(CooccurrenceOptions(**options), 10**9, "a count") == 10**10
    assert check_sums(CooccurrenceOptions(positions="apart", **options), 10**9, "a count") == 10**9


def test_a_plan_counts_the_pairs_and_the_sums_of_each_position():
    """Pairs that are rare enough are all different at each position, and so as many as together; frequent ones not."""
    n, word_counts = 10**6, 1e5 / np.arange(1, 1_001)
    one = PairModel(word_counts, 9.0, n, Repetition(0.0, n, 0.0))
    apart = one._replace(n_positions=9)
    assert 1.5 * one.n_pairs() < apart.n_pairs() < 9 * one.n_pairs()
    assert apart.n_pairs() == 9 * one._replace(window=1.0).n_pairs()
    costs = []
    for model, positions in ((one, "together"), (apart, "apart")):
        options = CooccurrenceOptions(window=9, direction="left", positions=positions, block_memory=2**20)
        runs = run_sizes(model, word_counts, [n // 3] * 3, options)
        text = TextSizes(10**7, 3, n, 10**4, 10)
        costs.append(
            (
                partial_counts_cost(text, 1_000, runs, options),
                merged_counts_cost(model.n_pairs(), runs, options),
            )
        )
    for together, wider in zip(*costs, strict=True):
        assert wider.task_bytes == together.task_bytes + 8 * 8 * 1_000
        assert wider.written_bytes > 1.5 * together.written_bytes


@pytest.mark.parametrize(
    "options",
    [{"direction": "symmetric"}, {"direction": "right"}, {"weighting": "harmonic"}, {"weighting": "ramp"}],
)
def test_other_sides_and_weights_are_refused(options):
    with pytest.raises(ValueError, match=r'positions="apart" needs direction="left" and weighting="flat"'):
        CooccurrenceOptions(**{**APART, **options})


def test_more_columns_than_an_index_holds_are_refused():
    counts = np.ones(1_000, np.int64)
    with pytest.raises(ValueError, match=r"3,000,000 distances apart have 3,000,000,000 columns"):
        cooccurrence_row_blocks(counts, window=3_000_000, direction="left", positions="apart")
