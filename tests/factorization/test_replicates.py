"""Words solved in samples of documents equal those solved from the samples' own counts."""

from __future__ import annotations

import dask.array as da
import numpy as np
import pytest
import scipy.sparse as sp

from distembed.execution import compute
from distembed.factorization import blocks
from distembed.factorization.blocks import PairWeighting
from distembed.factorization.replicate_blocks import (
    Design,
    Regression,
    Totals,
    cosine_distances,
    differences,
    group_samples,
    sample_vectors,
)
from distembed.factorization.replicates import Part, measures_of, part_vectors, word_differences

N_WORDS, D, N_GROUPS = 40, 6, 5
DESIGN = Design(n_halves=3, n_draws=8, confidence=0.9)
RULES = Regression(PairWeighting(0.1, 3.0, 3.0), ridge=2.0, uniform_weight=0.1)


def counted(seed: int, n_tokens: int = 4000) -> tuple[list[sp.csr_array], Totals]:
    """Return symmetric counts of each group, and the totals of its words."""
    rng = np.random.default_rng(seed)
    share = 1 / np.arange(1, N_WORDS + 1)
    groups, words = [], []
    for _ in range(N_GROUPS):
        pairs = rng.multinomial(n_tokens, np.outer(share, share).ravel() / share.sum() ** 2)
        counts = pairs.reshape(N_WORDS, N_WORDS)
        groups.append(sp.csr_array(counts + counts.T))
        words.append(counts.sum(axis=0) + 1)
    pairs = np.stack([np.asarray(group.sum(axis=1)).ravel() for group in groups], axis=1)
    return groups, Totals(pairs.astype(float), np.stack(words, axis=1))


def solved_alone(groups, totals, core, weights):
    """Return the vectors of all words from the sum of the groups, by the solver of noncore words."""
    counts = sp.csr_array(sum(weight * group for weight, group in zip(weights, groups, strict=True)))
    pairs, words = totals.pairs @ weights, totals.counts @ weights
    share = words / words.sum()
    found = blocks.weigh_pairs(counts, counts, pairs, share, pairs, share, weighting=RULES.weighting)
    ridge = np.full(N_WORDS, RULES.ridge)
    return blocks.solve_words(
        found, core, core.T @ core, ridge, background_weight=0, uniform_weight=RULES.uniform_weight
    )


@pytest.fixture
def core() -> np.ndarray:
    return np.random.default_rng(9).standard_normal((N_WORDS, D)).astype(np.float32)


@pytest.mark.parametrize("transposed", [False, True])
def test_every_sample_is_solved_as_if_it_were_the_text(core, transposed):
    groups, totals = counted(0)
    samples = group_samples(N_GROUPS, DESIGN, [3])
    found = np.zeros((N_WORDS, samples.shape[1], D))
    for word, vectors in sample_vectors(
        groups,
        [sp.csr_array(group.T) for group in groups] if transposed else None,
        totals,
        totals,
        samples,
        core,
        (core.T @ core).astype(float),
        RULES,
        wanted=np.ones(N_WORDS, bool),
        n_all=totals.counts.sum(axis=0) @ samples,
    ):
        found[word] = vectors
    for column in range(samples.shape[1]):
        alone = solved_alone(groups, totals, core, samples[:, column])
        np.testing.assert_allclose(found[:, column], alone, atol=2e-3)


def test_halves_are_halves_and_draws_take_as_many_groups_as_there_are():
    samples = group_samples(7, DESIGN, [1, 2])
    assert samples.shape == (7, DESIGN.n_samples)
    np.testing.assert_array_equal(samples[:, 1:4] + samples[:, 4:7], 1)
    assert set(samples[:, 1:4].sum(axis=0)) == {3}
    assert set(samples[:, 7:].sum(axis=0)) == {7}
    np.testing.assert_array_equal(samples, group_samples(7, DESIGN, [1, 2]))


def test_equal_parts_differ_by_no_more_than_their_noise():
    rng = np.random.default_rng(0)
    mean = rng.standard_normal(20)

    def sampled(n_times: float) -> np.ndarray:
        noise = rng.standard_normal((DESIGN.n_samples, 20))
        return (mean + 0.1 * noise * np.sqrt(n_times)).astype(np.float32)

    one, other, absent = differences([sampled(1), sampled(1), None], DESIGN)[:3]
    assert np.isnan(absent)
    assert 0 < one < 0.1
    assert 0 < other < 0.1
    measured = differences([sampled(1), -sampled(1)], DESIGN)
    distance, low, high, of_halves = measured[2:]
    assert distance > 1.9
    assert 1.9 < low <= high
    assert of_halves > 1.8


def test_a_word_that_is_judged_in_one_part_alone_has_no_difference(core):
    made = [counted(seed) for seed in (0, 1)]
    parts = [
        Part(
            [da.from_array(group.toarray(), chunks=(7, -1)).map_blocks(sp.csr_array) for group in groups],
            totals,
            group_samples(N_GROUPS, DESIGN, [seed]),
        )
        for seed, (groups, totals) in enumerate(made)
    ]
    vectors = da.from_array(core, chunks=(9, D))
    judged = np.ones((N_WORDS, 2), bool)
    judged[3, 1] = False
    found = compute(word_differences(parts, vectors, RULES, DESIGN, judged, batch_words=11))
    columns = measures_of(2)
    assert found.shape == (N_WORDS, len(columns))
    assert np.isnan(found[3]).all()
    assert np.isfinite(np.delete(found, 3, axis=0)).all()
    swapped = compute(word_differences(parts[::-1], vectors, RULES, DESIGN, judged[:, ::-1], batch_words=40))
    np.testing.assert_allclose(swapped[:, 2:4], found[:, 2:4], atol=1e-5)
    whole = [compute(part_vectors(part, vectors, RULES, batch_words=11)) for part in parts]
    distances = cosine_distances(*whole)
    np.testing.assert_allclose(np.delete(found[:, 2], 3), np.delete(distances, 3), atol=1e-3)
