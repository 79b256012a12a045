"""Vectors of several files are joined by word, in every format; their rows are the same for any blocks and workers."""

from pathlib import Path

import dask.array as da
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import distembed as de
from distembed.factorization import joined_vectors
from distembed.factorization.joined_vectors import principal_axes, view_mean
from distembed.linalg.operators import times_matrix
from distembed.vectors.word_vectors import WordVectors
from tests.references import joining as reference

WORDS = [f"word{number}" for number in range(30)]


def a_view(seed, words=WORDS, d=4):
    """Return vectors of words in an order of their own, which agree in part with those of other seeds."""
    random = np.random.default_rng(seed)
    order = random.permutation(len(words))
    hidden = {word: np.random.default_rng(WORDS.index(word)).normal(size=3) for word in words}
    mixing = random.normal(size=(3, d))
    rows = [hidden[words[place]] @ mixing + 0.3 * random.normal(size=d) + 1 for place in order]
    return WordVectors([words[place] for place in order], np.array(rows, np.float32))


def as_dictionary(view):
    return dict(zip(view.words, view.vectors.astype(float), strict=True))


def assert_joined(found, views, weights, words):
    expected = reference.join([as_dictionary(view) for view in views], weights, words)
    assert found.words == tuple(words)
    np.testing.assert_allclose(found.vectors, [*expected.values()], atol=1e-6)


@given(data=st.data(), n_views=st.integers(2, 3))
@settings(deadline=None, max_examples=40)
def test_words_are_matched_whatever_their_order_and_number(data, n_views):
    views, weights = [], []
    for seed in range(n_views):
        others = data.draw(st.sets(st.sampled_from(WORDS[1:]), min_size=1))
        views.append(a_view(seed, [WORDS[0], *sorted(others)], d=2 + seed))
        weights.append(data.draw(st.floats(0.1, 10)))
    common = [word for word in views[0].words if all(word in view for view in views)]
    assert_joined(de.join_vectors(views, weights=weights), views, weights, common)
    every = list(dict.fromkeys(word for view in views for word in view.words))
    assert_joined(de.join_vectors(views, weights=weights, words="union"), views, weights, every)


def test_fewer_components_keep_the_nearest_inner_products():
    views = [a_view(1), a_view(2, d=3)]
    full, low = de.join_vectors(views), de.join_vectors(views, n_components=3)
    expected = reference.nearest_of_rank(full.vectors, 3)
    np.testing.assert_allclose(low.vectors @ low.vectors.T, expected, atol=1e-5)
    assert low.words == full.words


def test_a_table_of_ngrams_is_left_out():
    view = a_view(1)
    table = de.SubwordTable(view.vectors, view.vectors[0], min_n=3, max_n=3)
    with_table = WordVectors(view.words, view.vectors, subwords=table)
    assert de.join_vectors([with_table, a_view(2)]).subwords is None


A, B = a_view(1), a_view(2, d=3)
UPPER = WordVectors([word.upper() for word in B.words], B.vectors)


ONE_THING, NOT_POSITIVE = "give a list of two or more", r"\]: give a list, each a number above 0"


@pytest.mark.parametrize(
    ("views", "options", "message"),
    [
        *((one, {}, ONE_THING) for one in ("a.txt", Path("a.txt"), A)),
        ([A, np.eye(3)], {}, r"view 2 is a ndarray: give WordVectors\(words, vectors\)"),
        (["absent.txt", "absent.bin"], {"weights": [1, 0]}, "weights is"),  # before a file is read
        ([A], {}, "there are 1 view and 1 weight: give two views or more"),
        ([], {}, "there are 0 views and 0 weights"),
        ([A, UPPER], {}, "view 1, which begins with .*, has no word in common with the others"),
        ([A, UPPER], {"words": "union"}, "has no word in common .* in the same case"),
        ([A, B, UPPER], {"words": "union"}, "view 3, which begins with 'WORD"),
        (
            [a_view(1, WORDS[:20]), a_view(2, WORDS[10:]), a_view(3, [*WORDS[:10], *WORDS[20:]])],
            {},
            'no word is in all views: give words="union"',
        ),
        ([A, WordVectors(B.words, B.vectors[:, :1])], {}, "view 2 has one component"),
        ([A, B], {"weights": [1]}, "there are 2 views and 1 weight"),
        *(
            ([A, B], {"weights": [n, 1]}, rf"weights is \[{n}, 1{NOT_POSITIVE}")
            for n in (0, np.nan, -1, np.inf)
        ),
        ([A, B], {"words": "all"}, 'words is \'all\': give "intersection" or "union"'),
        ([A, B], {"n_components": 8}, "n_components is 8, .* 30 x 7: give 1 to 7"),
        ([A, B], {"n_components": 0}, "n_components is 0"),
    ],
)
def test_what_cannot_be_joined_is_refused_in_a_sentence(views, options, message):
    with pytest.raises((ValueError, TypeError), match=message):
        de.join_vectors(views, **options)


def parts_of(rows=None, n=40):
    """Return three views that agree in part, of which each lacks other rows; in blocks of some rows, or in memory."""
    random = np.random.default_rng(0)
    hidden, parts = random.normal(size=(n, 4)), []
    for number, d in enumerate((5, 3, 4)):
        part = (hidden @ random.normal(size=(4, d)) + random.normal(size=(n, d)) + 3).astype(np.float32)
        part[number :: 7 + number] = 0
        parts.append(da.from_array(part, chunks=(rows, -1)) if rows else part)
    return parts


def joined_rows(parts, weights, of=None):
    means = [view_mean(part.rechunk({1: -1}) if isinstance(part, da.Array) else part) for part in of or parts]
    return joined_vectors.joined_rows(parts, weights, means)


def test_parts_in_other_blocks_and_in_memory_are_joined_in_the_blocks_of_the_first():
    parts = parts_of()
    mixed = [da.from_array(parts[0], chunks=(13, 2)), da.from_array(parts[1], chunks=(7, -1)), parts[2]]
    joined = joined_rows(mixed, (1, 2, 3))
    assert joined.chunks == ((13, 13, 13, 1), (12,))
    np.testing.assert_allclose(joined.compute(), joined_rows(parts, (1, 2, 3)).compute(), atol=1e-6)


def test_rows_that_are_all_equal_have_no_direction():
    """The mean of three rows of .1 is no .1: what is left is rounding."""
    equal = np.full((3, 2), 0.1)
    assert equal.mean(axis=0)[0] != 0.1
    other = np.array([[1.0, 2], [3, 4], [5, 7]])
    assert not joined_rows([equal, other], (1, 1)).compute()[:, :2].any()


def test_new_rows_are_joined_by_the_means_of_earlier_ones():
    new, before = [part[:5] for part in parts_of()], parts_of(11)
    expected = joined_rows(before, (1, 2, 3)).compute()[:5]
    np.testing.assert_array_equal(joined_rows(new, (1, 2, 3), of=before).compute(), expected)


def test_all_axes_keep_every_inner_product_and_have_the_sign_of_their_cubes():
    joined = joined_rows(parts_of(11), (1, 0.5, 2))
    axes = principal_axes(joined, 12, np.zeros(12))
    assert ((axes**3).sum(axis=0) > 0).all()
    rows, full = times_matrix(joined, axes).compute(), joined.compute()
    np.testing.assert_allclose(rows @ rows.T, full @ full.T, atol=1e-5)
