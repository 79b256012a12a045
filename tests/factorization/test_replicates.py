"""Words solved in samples of documents equal those solved from the samples' own counts."""

from functools import partial

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
    differences,
    equal_sizes,
    group_samples,
    measures_of,
    whole_vector,
    words_in_samples,
)

N_WORDS, D, N_GROUPS = 40, 6, 5
DESIGN = Design(n_halves=3, n_draws=8, confidence=0.9)
RULES = Regression(PairWeighting(0.1, 3.0, 3.0), ridge=2.0, uniform_weight=0.1)


def counted(seed, n_tokens=4000):
    """Return a part of symmetric counts of each group, in several row blocks."""
    rng = np.random.default_rng(seed)
    share = 1 / np.arange(1, N_WORDS + 1)
    groups, words = [], []
    for _ in range(N_GROUPS):
        counts = rng.multinomial(n_tokens, np.outer(share, share).ravel() / share.sum() ** 2)
        counts = counts.reshape(N_WORDS, N_WORDS)
        groups.append(da.from_array(counts + counts.T, chunks=(7, -1)).map_blocks(sp.csr_array))
        words.append(counts.sum(axis=0) + 1)
    pairs = np.stack([group.compute().sum(axis=1) for group in groups], axis=1)
    return Part(groups, pairs.astype(float), np.stack(words, axis=1), group_samples(N_GROUPS, DESIGN, [seed]))


def solved_alone(part, core, weights):
    """Return the vectors of all words from the sum of the groups, by the solver of noncore words."""
    counts = sum(weight * group.compute() for weight, group in zip(weights, part.counts, strict=True))
    pairs, words = part.pairs @ weights, part.occurrences @ weights
    shares = np.stack([pairs, words / words.sum()], axis=1)
    ridge, gram = np.full(N_WORDS, RULES.ridge), core.T @ core
    rules = {"weighting": RULES.weighting, "uniform_weight": RULES.uniform_weight}
    both = [sp.csr_array(counts)] * 2
    return blocks.solve_new_words(*both, *shares.T, shares, ridge, core, gram, **rules)


@pytest.fixture
def core():
    return np.random.default_rng(9).standard_normal((N_WORDS, D)).astype(np.float32)


def all_samples(vectors):
    return vectors[0].ravel()


def test_every_sample_is_solved_as_if_it_were_the_text(core):
    part, given = counted(0), da.from_array(core, chunks=(9, D))
    sizes = np.arange(N_WORDS) % len(part.samples)
    found = compute(
        words_in_samples(
            all_samples, DESIGN.n_samples * D, [part], given, RULES, sizes=sizes[:, None], batch_words=11
        )
    ).reshape(N_WORDS, DESIGN.n_samples, D)
    assert len(part.samples) == 2
    for size, of_size in enumerate(part.samples):
        for column in range(DESIGN.n_samples):
            alone = solved_alone(part, core, of_size[:, column])
            np.testing.assert_allclose(found[sizes == size, column], alone[sizes == size], atol=2e-3)


@pytest.mark.parametrize("ridge", [1e-2, 1e-7])
def test_words_of_few_pairs_are_finite_whatever_rounding_makes_of_their_systems(core, ridge):
    rules = RULES._replace(ridge=ridge, uniform_weight=0.0)
    given = [counted(0, n_tokens=20)], da.from_array(core, chunks=(9, D)), rules
    found = compute(
        words_in_samples(all_samples, DESIGN.n_samples * D, *given, sizes=np.arange(40)[:, None] % 2)
    )
    assert abs(found).max() < 100


def test_halves_quarters_and_draws_take_the_groups_they_should():
    sizes = group_samples(9, DESIGN, [1, 2])
    assert [one.shape for one in sizes] == [(9, DESIGN.n_samples)] * 4
    for k, samples in enumerate(sizes, start=1):
        (first, second), quarters, draws = DESIGN.divided(samples.T)
        last = 9 if k == 4 else 2 * k
        assert set(first.sum(axis=1)) == {k}
        assert set(second.sum(axis=1)) == {last - k}
        assert (first + second).max() == 1
        fixed = quarters[0] + quarters[1]
        assert (fixed == fixed[:1]).all()
        np.testing.assert_array_equal(quarters.sum(axis=0), 1)
        assert set(draws.sum(axis=1)) == {last}
    np.testing.assert_array_equal(sizes, group_samples(9, DESIGN, [1, 2]))
    few = group_samples(3, DESIGN, [0])[0]
    assert not DESIGN.divided(few.T)[1].any()


def test_a_word_that_is_judged_in_one_part_alone_has_no_difference(core):
    parts, given = [counted(seed) for seed in (0, 1)], da.from_array(core, chunks=(9, D))
    judged = np.ones((N_WORDS, 2), bool)
    judged[3] = False
    sizes = equal_sizes(np.stack([part.occurrences.sum(axis=1) for part in parts], axis=1), judged, [5, 5])
    measure, width = partial(differences, design=DESIGN), len(measures_of(2))

    def measured(order, **options):
        places = {"wanted": judged[:, order], "sizes": sizes[:, order]}
        chosen = [parts[place] for place in order]
        return compute(words_in_samples(measure, width, chosen, given, RULES, **places, **options))

    found = measured([0, 1], batch_words=11)
    assert found.shape == (N_WORDS, width)
    assert np.isnan(found[3]).all()
    assert np.isfinite(np.delete(found, 3, axis=0)).all()
    np.testing.assert_allclose(measured([1, 0], batch_words=40)[:, 4:], found[:, 4:], atol=1e-5)
    one, other = (compute(words_in_samples(whole_vector, D, [part], given, RULES)) for part in parts)
    lengths = np.linalg.norm(one, axis=1) * np.linalg.norm(other, axis=1)
    distances = 1 - (one * other).sum(axis=1) / lengths
    np.testing.assert_allclose(np.delete(found[:, 4], 3), np.delete(distances, 3), atol=1e-3)
