"""What a sample of a text says of the whole: texts drawn from known laws, and the ends of the scale."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from distembed.corpus.growth_blocks import (
    expected_counts,
    heaps_exponent,
    mean_window,
    n_types,
    n_types_at_least,
)

COUNTS = st.lists(st.integers(1, 1000), min_size=1, max_size=50).map(np.array)


def zipf_text(n_tokens: int, exponent: float, *, n_words: int = 200_000) -> np.ndarray:
    """Return a text of words whose shares fall as a power of their rank."""
    share = np.arange(1, n_words + 1) ** -exponent
    return np.random.default_rng(0).choice(n_words, n_tokens, p=share / share.sum())


@pytest.mark.parametrize("exponent", [1.1, 1.5])
@pytest.mark.parametrize("least", [1, 5, 40])
def test_a_tenth_of_a_text_tells_the_words_of_all_of_it(exponent: float, least: int) -> None:
    text = zipf_text(400_000, exponent)
    sample, whole = (np.bincount(partition) for partition in (text[:40_000], text))
    found = n_types_at_least(sample, least, 10.0)
    assert np.count_nonzero(whole >= least) == pytest.approx(found, rel=0.2)
    if least > 1:  # the shuffled control of an estimate: taking the sample for the whole
        assert abs(np.count_nonzero(sample >= least) - found) > 0.5 * found


@given(COUNTS, st.integers(1, 50))
def test_a_sample_that_is_the_whole_is_counted(counts: np.ndarray, least: int) -> None:
    assert n_types_at_least(counts, least, 1.0) == np.count_nonzero(counts >= least)
    np.testing.assert_array_equal(expected_counts(counts, len(counts), 1.0), np.sort(counts)[::-1])


@given(COUNTS, st.integers(1, 50), st.floats(1, 1e4))
def test_estimates_grow_with_the_text(counts: np.ndarray, least: int, growth: float) -> None:
    assert n_types(counts, growth) >= len(counts)
    assert n_types_at_least(counts, least, 1e3 * growth) >= 0.99 * n_types_at_least(counts, 2 * least, growth)
    expected = expected_counts(counts, 3 * len(counts), growth)
    assert len(expected) == 3 * len(counts)
    assert (np.diff(expected) <= 0).all()
    assert (expected >= 1).all()


def test_words_that_all_came_twice_are_all_there_are() -> None:
    counts = np.full(1000, 7)
    assert heaps_exponent(counts) == 0
    assert n_types_at_least(counts, 1, 1e6) == 1000


def test_words_that_are_all_new_stay_new() -> None:
    assert n_types_at_least(np.ones(1000, int), 1, 100.0) == pytest.approx(100_000, rel=0.01)
    assert n_types_at_least(np.ones(1000, int), 5, 100.0) < 1000


@pytest.mark.parametrize("lengths", [[1], [2, 5, 1], [30, 4]])
@pytest.mark.parametrize("window", [1, 3, 10])
def test_the_mean_window_is_that_of_every_token(lengths: list[int], window: int) -> None:
    before = [min(k, window) for length in lengths for k in range(length)]
    assert mean_window(np.array(lengths), window) == pytest.approx(np.mean(before))


def test_no_text_has_no_window() -> None:
    assert mean_window(np.zeros(0, int), 3) == 0
    assert heaps_exponent(np.zeros(3, int)) == 0
