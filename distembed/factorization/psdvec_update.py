"""Vectors of PSDVec after the counts changed: known words keep theirs, or start from them; new words are solved.

The vector of a new word is a ridge regression against words that have vectors, by its counts with them, as that of a
noncore word is. Old vectors are not touched by it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import dask.array as da
import numpy as np
from numpy.typing import NDArray

from distembed.execution import compute
from distembed.factorization.psdvec import PSDVec
from distembed.factorization.psdvec_core import pairs_between


class KnownVectors(NamedTuple):
    """The vectors that some of the words have already.

    Attributes
    ----------
    vectors : float32 array (n, d)
        Rows of words without one are zero.
    is_known : bool array (n,)
    is_core : bool array (n,)
        The known words that others are solved against.
    """

    vectors: NDArray[np.float32]
    is_known: NDArray[np.bool_]
    is_core: NDArray[np.bool_]


def completed_vectors(
    model: PSDVec,
    counts: da.Array,
    word_counts: NDArray[np.floating],
    row_totals: NDArray[np.floating],
    known: KnownVectors,
    *,
    learned: Mapping[str, float] | None = None,
) -> NDArray[np.float32]:
    """Return the vectors of all words: the known ones as they are, the others solved against the core.

    Parameters
    ----------
    model : PSDVec
        The estimator, for its options; it keeps the core, and what it learned of the new words.
    counts : Dask array (n, n) of csr_array row blocks
    word_counts, row_totals : (n,) arrays
    known : KnownVectors
    learned : mapping, optional
        `noncore_cutoff` and `noncore_scale` of the fit that the known vectors come from: the vector of a new word then
        does not depend on the other new words. By default they are learned from the new words.

    Raises
    ------
    ValueError
        If no word is known.
    """
    core, new = np.flatnonzero(known.is_core), np.flatnonzero(~known.is_known)
    if not len(core):
        raise ValueError("none of the words has a vector already: solve them from scratch")
    total = float(np.sum(word_counts))
    scale = {} if learned is None else {**learned, "total_count": total}
    model.set_core(da.from_array(known.vectors[core]), word_counts[core], row_totals[core], **scale)
    vectors = known.vectors.copy()
    if len(new):
        pairs = pairs_between(counts, new, core), pairs_between(counts, core, new)
        totals = word_counts[new], row_totals[new]
        if learned is None:
            solved = model.fit_noncore(*pairs, *totals)
        else:
            solved = model.transform(*pairs, totals[0], new_row_totals=totals[1])
        vectors[new] = compute(solved)
    return vectors
