"""Words that set topics apart, what the documents of a topic share, and how well other starts find it again."""

from __future__ import annotations

import math

import dask.array as da
import numpy as np
import pyarrow as pa
import pytest
from scipy import stats
from scipy.sparse import csr_array

from distembed.evaluation.topics import (
    found_again,
    largest_parts,
    mean_shares,
    standardized_log_odds,
    telling_words,
)


@pytest.mark.parametrize("rows", [(9,), (4, 5), (1, 1, 7)])
def test_telling_words_are_those_that_other_documents_lack(rows):
    """A word of all documents tells nothing, however often it occurs; a document without a topic is left out."""
    counts = np.zeros((9, 6), np.int32)
    counts[:, 0] = 50
    counts[:4, 1] = 1
    counts[4:8, 2] = 1
    counts[0, 3] = counts[4, 3] = 7
    counts[8, 4] = 1
    counts[0, 5] = 1
    counts[4:7, 5] = 1  # a word of both topics tells of that which holds it more often
    matrix = da.from_array(counts, chunks=(rows, -1)).map_blocks(
        csr_array, meta=csr_array((0, 0), dtype=np.int32)
    )
    labels = np.array([0] * 4 + [1] * 4 + [-1])
    assert telling_words(matrix, labels, 2, 3) == [[1], [2, 5]]
    assert telling_words(matrix, labels, 3, 3)[2] == []


def test_the_log_odds_are_those_of_a_table_of_four_cells():
    held, n_documents = np.array([[3, 0], [1, 5]]), np.array([4, 10])
    a, b, c, d = 3.5, 1.5, 1.5, 9.5
    expected = math.log(a * d / (b * c)) / math.sqrt(1 / a + 1 / b + 1 / c + 1 / d)
    found = standardized_log_odds(held, n_documents)
    assert found[0, 0] == pytest.approx(expected)
    np.testing.assert_allclose(found[0], -found[1])


def test_what_most_documents_of_a_topic_have():
    """Null and "" are no value, and a value of one document is nothing in common."""
    values = pa.chunked_array([["Emma", "Emma", None], ["", "", "", "Emma", "Persuasion"]])
    labels = np.array([0, 0, 0, 0, 1, 1, 1, 2])
    first, *others = largest_parts("title", values, labels, 3)
    assert first is not None
    assert first == ("title", "Emma", 0.5, 3 / 8)
    assert others == [None, None]


def test_a_topic_is_found_again_by_the_overlap_of_its_documents():
    labels = np.array([0, 0, 0, 1, 1, -1])
    same = np.array([1, 1, 1, 0, 0, -1])
    apart = np.array([0, 0, 1, 1, 2, 2])
    np.testing.assert_allclose(found_again(labels, same[np.newaxis], 3), [1, 1, np.nan])
    np.testing.assert_allclose(found_again(labels, np.stack([same, apart]), 2), [5 / 6, 2 / 3])
    assert np.isnan(found_again(labels, np.empty((0, 6), np.int64), 2)).all()


def test_mean_shares_count_the_documents_of_one_source_as_one():
    """The mean is that of the documents; the interval is that of the mean of sources of equal size."""
    shares = np.array([[0.2, 0.8], [0.4, 0.6], [0.9, 0.1], [0.7, 0.3], [0.5, 0.5], [1.0, 0.0]])
    values = ["a", "a", "a", "a", "b", ""]
    sources = ["x", "x", "y", "y", "z", "z"]
    found = mean_shares(values, sources, [shares[:2], shares[2:5], shares[5:]], 2)
    assert found.values == ["a", "b"]
    assert found.n_documents.tolist() == [4, 1]
    assert found.n_sources.tolist() == [2, 1]
    np.testing.assert_allclose(found.means, [[0.55, 0.45], [0.5, 0.5]])
    of_sources = np.array([0.3, 0.8])  # the mean of the first topic in x and in y
    expected = stats.t.ppf(0.975, 1) * of_sources.std(ddof=1) / math.sqrt(2)
    np.testing.assert_allclose(found.errors[0], expected)
    assert np.isnan(found.errors[1]).all()
