"""The counts of groups of documents, kept apart in one array: a row for each word of each group.

Sums of the groups are the counts of parts of a corpus, of halves of it, and of draws of documents, exactly, without
counting again. No pair has words of two groups, since no window crosses a document: the array holds the columns of a
row's own group alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import add

import dask.array as da
import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from distembed.corpus.partitions import Tokens
from distembed.corpus.vocabulary import Vocabulary
from distembed.counting.documents import count_document_terms
from distembed.lift import block, fold, lift, total
from distembed.linalg.csr import canonical_csr


def group_row_blocks(row_blocks: Sequence[int], n_groups: int) -> tuple[int, ...]:
    """Return the row boundaries of all groups, each of which has those of the words.

    Examples
    --------
    >>> from distembed.counting.document_groups import group_row_blocks
    >>> group_row_blocks((0, 3, 5), 2)
    (0, 3, 5, 8, 10)
    """
    n_words = row_blocks[-1]
    return (
        *(group * n_words + row for group in range(n_groups) for row in row_blocks[:-1]),
        n_groups * n_words,
    )


def own_columns(counts: da.Array, n_groups: int) -> da.Array:
    """Return the counts of groups with the columns of each row's own group alone, (groups x words, words)."""
    n_words = counts.shape[0] // n_groups
    sizes = {"c": n_words}
    return lift(_own_columns, "wg->wc", counts, dtype=counts.dtype, sparse=True, sizes=sizes, n_words=n_words)


@block(temporaries=0)
def _own_columns(block: csr_array, *, n_words: int) -> csr_array:
    """Return a block of rows of one group without the columns of the others."""
    return csr_array((block.data, block.indices % n_words, block.indptr), shape=(block.shape[0], n_words))


def counts_of_groups(counts: da.Array, n_groups: int) -> list[da.Array]:
    """Return the counts of each group, lazily, (words, words)."""
    n_words = counts.shape[0] // n_groups
    return [counts[first : first + n_words] for first in range(0, n_groups * n_words, n_words)]


def sum_of_groups(groups: Sequence[da.Array]) -> da.Array:
    """Return the sum of the counts of groups, lazily, (words, words)."""
    indices = ",".join(["wc"] * len(groups)) + "->wc"
    return lift(sum_of_blocks, indices, *groups, dtype=groups[0].dtype, sparse=True)


@block(temporaries=3)
def sum_of_blocks(*blocks: csr_array) -> csr_array:
    """Return the sum of the same rows of each group."""
    return canonical_csr(reduce(add, blocks))


def words_of_groups(
    tokens: Tokens, vocabulary: Vocabulary, groups: NDArray[np.int32], n_groups: int
) -> da.Array:
    """Return how often each word occurs in each group, and in how many of its documents.

    Parameters
    ----------
    tokens : Tokens
    vocabulary : Vocabulary
    groups : int32 array (documents,)
        The group of each document.
    n_groups : int

    Returns
    -------
    Dask array (2, groups, words) int64
    """
    terms, shape = count_document_terms(tokens, vocabulary), (2, n_groups, len(vocabulary))
    return fold(total(words_of_block), "dw,d", terms, groups, shape=shape, dtype=np.int64, n_groups=n_groups)


@block(temporaries=2)
def words_of_block(terms: csr_array, groups: NDArray[np.int32], *, n_groups: int) -> NDArray[np.int64]:
    """Return the occurrences and the documents of each word in each group of a block, (2, groups, words)."""
    n_words = terms.shape[1]
    places = np.repeat(groups.astype(np.int64), np.diff(terms.indptr)) * n_words + terms.indices
    sizes = n_groups * n_words
    occurrences = np.bincount(places, terms.data, sizes).astype(np.int64)
    found = np.concatenate([occurrences, np.bincount(places, minlength=sizes)])
    return found.reshape(2, n_groups, n_words)
