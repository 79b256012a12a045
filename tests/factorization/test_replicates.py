"""Words solved in samples of documents equal those solved from the samples' own counts."""

from __future__ import annotations

import dask.array as da
import numpy as np
import pytest
import scipy.sparse as sp

from distembed.execution import compute
from distembed.factorization import blocks
from distembed.factorization.blocks import PairWeighting
from distembed.factorization.replicates import (
    Design,
    Part,
    Regression,
    Samples,
    Totals,
    cosine_distances,
    differences,
    equal_sizes,
    group_samples,
    measures_of,
    part_vectors,
    sample_vectors,
    word_differences,
)

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
    shares = np.stack([pairs, words / words.sum()], axis=1)
    ridge, gram = np.full(N_WORDS, RULES.ridge), core.T @ core
    rules = {"weighting": RULES.weighting, "uniform_weight": RULES.uniform_weight}
    return blocks.solve_new_words(counts, counts, shares, shares, ridge, core, gram, **rules)


@pytest.fixture
def core() -> np.ndarray:
    return np.random.default_rng(9).standard_normal((N_WORDS, D)).astype(np.float32)


def test_every_sample_is_solved_as_if_it_were_the_text(core):
    groups, totals = counted(0)
    samples = Samples(group_samples(N_GROUPS, DESIGN, [3]), totals.counts.sum(axis=0).astype(float))
    sizes = np.arange(N_WORDS) % len(samples.of_sizes)
    found = np.zeros((N_WORDS, samples.n_samples, D))
    for word, vectors in sample_vectors(
        groups,
        totals,
        totals,
        samples,
        core,
        (core.T @ core).astype(float),
        RULES,
        wanted=np.ones(N_WORDS, bool),
        sizes=sizes,
    ):
        found[word] = vectors
    assert len(samples.of_sizes) == 2
    for size, of_size in enumerate(samples.of_sizes):
        for column in range(samples.n_samples):
            alone = solved_alone(groups, totals, core, of_size[:, column])
            own = sizes == size
            np.testing.assert_allclose(found[own, column], alone[own], atol=2e-3)


def test_halves_quarters_and_draws_take_the_groups_they_should():
    sizes = group_samples(9, DESIGN, [1, 2])
    assert [one.shape for one in sizes] == [(9, DESIGN.n_samples)] * 4
    for k, samples in enumerate(sizes, start=1):
        first, second, *quarters = (side.T for side in DESIGN.sides(samples.T))
        last = 9 if k == 4 else 2 * k
        assert set(first.sum(axis=0)) == {k}
        assert set(second.sum(axis=0)) == {last - k}
        assert (first + second).max() == 1
        fixed = quarters[0] + quarters[1]
        assert (fixed == fixed[:, :1]).all()
        np.testing.assert_array_equal(sum(quarters), 1)
        assert set(DESIGN.draws(samples.T).sum(axis=1)) == {last}
    np.testing.assert_array_equal(sizes, group_samples(9, DESIGN, [1, 2]))
    few = group_samples(3, DESIGN, [0])[0]
    assert not few[:, 7:19].any()


def test_equal_parts_differ_by_no_more_than_their_noise():
    rng = np.random.default_rng(0)
    mean = rng.standard_normal(20)

    def sampled(n_times: float) -> np.ndarray:
        noise = rng.standard_normal((DESIGN.n_samples, 20))
        return (mean + 0.1 * noise * np.sqrt(n_times)).astype(np.float32)

    measured = differences([sampled(1), sampled(1), None], DESIGN)
    noise, chance, distance, change = measured[[0, 1, 6, 7]]
    assert np.isnan(measured[4:6]).all()
    assert np.isnan(measured[10:]).all()
    assert 0 < noise < 0.1
    assert abs(chance) < 0.5
    assert distance > 0
    assert abs(change) < 0.5 * noise
    distance, change, low, high = differences([sampled(1), -sampled(1)], DESIGN)[4:]
    assert distance > 1.9
    assert 1.7 < low < change < high


def test_a_word_that_is_judged_in_one_part_alone_has_no_difference(core):
    made = [counted(seed) for seed in (0, 1)]
    parts = [
        Part(
            [da.from_array(group.toarray(), chunks=(7, -1)).map_blocks(sp.csr_array) for group in groups],
            totals,
            Samples(group_samples(N_GROUPS, DESIGN, [seed]), totals.counts.sum(axis=0).astype(float)),
        )
        for seed, (groups, totals) in enumerate(made)
    ]
    vectors = da.from_array(core, chunks=(9, D))
    judged = np.ones((N_WORDS, 2), bool)
    judged[3, 1] = False
    sizes = equal_sizes(np.stack([part.words.counts.sum(axis=1) for part in parts], axis=1), judged, [5, 5])
    found = compute(word_differences(parts, vectors, RULES, DESIGN, judged, sizes, batch_words=11))
    columns = measures_of(2)
    assert found.shape == (N_WORDS, len(columns))
    assert np.isnan(found[3]).all()
    assert np.isfinite(np.delete(found, 3, axis=0)).all()
    turned = parts[::-1], vectors, RULES, DESIGN, judged[:, ::-1], sizes[:, ::-1]
    swapped = compute(word_differences(*turned, batch_words=40))
    np.testing.assert_allclose(swapped[:, 4:], found[:, 4:], atol=1e-5)
    whole = [compute(part_vectors(part, vectors, RULES, batch_words=11)) for part in parts]
    distances = cosine_distances(*whole)
    np.testing.assert_allclose(np.delete(found[:, 4], 3), np.delete(distances, 3), atol=1e-3)
