"""What a sample of a text says of the whole: texts drawn from known laws, and the ends of the scale."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from distembed.corpus.growth_blocks import (
    SpreadLaw,
    expected_counts,
    expected_pairs,
    heaps_exponent,
    mean_window,
    n_types,
    n_types_at_least,
    spread_law,
)
from distembed.corpus.repetition_blocks import BORDER, n_distinct_pairs, repetition_of
from distembed.counting import blocks as counting_blocks

COUNTS = st.lists(st.integers(1, 1000), min_size=1, max_size=50).map(np.array)


def law_of(counts: np.ndarray) -> SpreadLaw:
    """Return the law of a text that is one document."""
    return spread_law(counts, np.sign(counts), 1)


def zipf_text(n_tokens: int, exponent: float, *, n_words: int = 200_000) -> np.ndarray:
    """Return a text of words whose shares fall as a power of their rank."""
    share = np.arange(1, n_words + 1) ** -exponent
    return np.random.default_rng(0).choice(n_words, n_tokens, p=share / share.sum())


@pytest.mark.parametrize("exponent", [1.1, 1.5])
@pytest.mark.parametrize("least", [1, 5, 40])
def test_a_tenth_of_a_text_tells_the_words_of_all_of_it(exponent: float, least: int) -> None:
    text = zipf_text(400_000, exponent)
    sample, whole = (np.bincount(partition) for partition in (text[:40_000], text))
    found = n_types_at_least(sample, least, 10.0, law_of(sample))
    assert np.count_nonzero(whole >= least) == pytest.approx(found, rel=0.2)
    if least > 1:  # the shuffled control of an estimate: taking the sample for the whole
        assert abs(np.count_nonzero(sample >= least) - found) > 0.5 * found


@given(COUNTS, st.integers(1, 50))
def test_a_sample_that_is_the_whole_is_counted(counts: np.ndarray, least: int) -> None:
    assert n_types_at_least(counts, least, 1.0, law_of(counts)) == np.count_nonzero(counts >= least)
    ranked = expected_counts(counts, len(counts), 1.0, law_of(counts))
    np.testing.assert_array_equal(ranked, np.sort(counts)[::-1])


@given(COUNTS, st.integers(1, 50), st.floats(1, 1e4))
def test_estimates_grow_with_the_text(counts: np.ndarray, least: int, growth: float) -> None:
    law = law_of(counts)
    assert n_types(counts, growth, law) >= len(counts)
    fewer = n_types_at_least(counts, 2 * least, growth, law)
    assert n_types_at_least(counts, least, 1e3 * growth, law) >= 0.99 * fewer
    expected = expected_counts(counts, 3 * len(counts), growth, law)
    assert len(expected) == 3 * len(counts)
    assert (np.diff(expected) <= 0).all()
    assert (expected >= 1).all()


def test_words_that_all_came_twice_are_all_there_are() -> None:
    counts = np.full(1000, 7)
    assert heaps_exponent(counts) == 0
    assert n_types_at_least(counts, 1, 1e6, law_of(counts)) == 1000


def test_words_that_are_all_new_stay_new() -> None:
    counts = np.ones(1000, int)
    assert n_types_at_least(counts, 1, 100.0, law_of(counts)) == pytest.approx(100_000, rel=0.01)
    assert n_types_at_least(counts, 5, 100.0, law_of(counts)) < 1000


def test_words_that_come_in_bursts_are_drawn_by_the_document() -> None:
    """Each document repeats each of its words, so that hardly a word of it occurs once."""
    rng = np.random.default_rng(0)
    texts = np.split(zipf_text(200_000, 1.1), 2000)
    documents = [np.repeat(text, rng.integers(2, 5, len(text))) for text in texts]

    def counted(some: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        held = [np.unique(document) for document in some]
        return np.bincount(np.concatenate(some)), np.bincount(np.concatenate(held))

    sample, document_counts = counted(documents[:200])
    whole, _ = counted(documents)
    found = n_types_at_least(sample, 5, 10.0, spread_law(sample, document_counts, 200))
    by_tokens = n_types_at_least(sample, 5, 10.0, spread_law(sample, document_counts, 1))
    assert found == pytest.approx(np.count_nonzero(whole >= 5), rel=0.15)
    assert by_tokens < 0.8 * found
    ranked = expected_counts(sample, 10_000, 10.0, spread_law(sample, document_counts, 200))
    assert ranked[[100, 1000]] == pytest.approx(np.sort(whole)[::-1][[100, 1000]], rel=0.25)


@pytest.mark.parametrize("mirrored", [False, True])
def test_the_pairs_of_independent_words_are_as_many_as_expected(mirrored: bool) -> None:
    text = zipf_text(100_000, 1.1, n_words=500)
    found = repetition_of(text, 3, 500, mirrored=mirrored)
    assert found.spread < 0.05
    assert found.n_tokens == 100_000
    assert found.at(1e9) < 0.3


def test_a_text_that_repeats_itself_has_few_pairs_and_fewer_as_it_grows() -> None:
    rng = np.random.default_rng(0)
    phrases = zipf_text(1000 * 8, 1.1, n_words=500).reshape(1000, 8)
    text = phrases[rng.integers(1000, size=10_000)].ravel()
    found = repetition_of(text, 3, 500)
    assert found.spread > 0.5
    assert found.at(4e5) > found.spread > found.at(1e4)


@pytest.mark.parametrize("n_parts", [4, 16])
def test_the_pairs_of_a_text_are_expected_from_a_part_of_it(n_parts: int) -> None:
    """Words that prefer some partners, by a gamma variable for each pair, and a text 4 or 16 times as long."""
    rng, n_words = np.random.default_rng(0), 400
    shares = 1 / np.arange(1, n_words + 1)
    rates = np.outer(shares, shares) * rng.gamma(0.4, 1 / 0.4, (n_words, n_words))
    text = np.stack([rng.choice(n_words**2, 400_000, p=rates.ravel() / rates.sum())] * 3)
    text = np.stack([text[0] // n_words, text[1] % n_words, np.full(text.shape[1], BORDER)]).T.ravel()
    part = repetition_of(text[: len(text) // n_parts], 1, n_words)
    counts = np.bincount(text[text >= 0]).astype(float)
    window, n_tokens = 0.5, float(counts.sum())
    expected = expected_pairs(counts, window, n_tokens=n_tokens, spread=part.at(n_tokens))
    counted = n_distinct_pairs(text, 1, n_words)
    assert expected == pytest.approx(counted, rel=0.1)
    assert expected_pairs(counts, window, n_tokens=n_tokens) > 1.25 * counted


@pytest.mark.parametrize("mirrored", [False, True])
def test_pairs_are_counted_as_a_set_and_not_across_borders(
    monkeypatch: pytest.MonkeyPatch, mirrored: bool
) -> None:
    assert BORDER == counting_blocks.BORDER
    text = np.append(zipf_text(2000, 1.1, n_words=50), np.tile([BORDER, -1, 3], 50))
    seen = {
        (left, right)
        for distance in (1, 2)
        for at, (left, right) in enumerate(zip(text, text[distance:], strict=False))
        if min(left, right) >= 0 and BORDER not in text[at : at + distance]
    }
    seen |= {(right, left) for left, right in seen} if mirrored else set()
    assert n_distinct_pairs(text, 2, 50, mirrored=mirrored) == len(seen)
    monkeypatch.setattr("distembed.corpus.repetition_blocks.COUNTED_PAIRS", 1000)
    assert n_distinct_pairs(text, 2, 50, mirrored=mirrored) == pytest.approx(len(seen), rel=0.2)


@pytest.mark.parametrize("lengths", [[1], [2, 5, 1], [30, 4]])
@pytest.mark.parametrize("window", [1, 3, 10])
def test_the_mean_window_is_that_of_every_token(lengths: list[int], window: int) -> None:
    before = [min(k, window) for length in lengths for k in range(length)]
    assert mean_window(np.array(lengths), window) == pytest.approx(np.mean(before))


def test_no_text_has_no_window() -> None:
    assert mean_window(np.zeros(0, int), 3) == 0
    assert heaps_exponent(np.zeros(3, int)) == 0
