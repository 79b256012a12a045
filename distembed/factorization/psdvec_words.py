"""The noncore words of PSDVec: each a ridge regression against fixed core vectors, by its counts with core words."""

from __future__ import annotations

from functools import partial
from typing import Any

import dask.array as da
import numpy as np

from distembed.display import plural
from distembed.dtypes import Floats, Int64s
from distembed.execution import one_blas_thread
from distembed.factorization.blocks import PairWeighting, solve_new_words
from distembed.factorization.psdvec_core import pairs_between, weighting_of
from distembed.lift import lift
from distembed.linalg.operators import column_products, gathered, transpose_row_blocks
from distembed.states import keep

MOST_WORDS = 1000
"""Words of a task, at most. It has those of one row block of the counts, which bounds their pairs."""


def solve_words(
    counts: da.Array,
    word_counts: Floats,
    row_totals: Floats,
    new: Int64s | slice,
    core: Int64s | slice,
    vectors: Any,
    options: Any,
) -> tuple[da.Array, PairWeighting]:
    """Return the vectors of some words of a vocabulary, solved against those of all others, and how they were weighed.

    Parameters
    ----------
    counts : Dask array (n, n) of csr_array row blocks
    word_counts, row_totals : (n,) arrays
        The occurrences of all words, and the bigrams with each on the left.
    new, core : slice or (k,) int64
        Which of them are solved, and which have the vectors.
    vectors : array or Dask array (k, d)
    options : PSDVec
        The estimator, for its options.

    Raises
    ------
    ValueError
        If there is not one ridge for each band of words.
    """
    rows, columns = pairs_between(counts, new, core), pairs_between(counts, core, new)
    shares = word_counts / (word_counts.sum() or 1)
    own, facing = (row_totals[new], shares[new]), np.stack([row_totals[core], shares[core]], axis=1)
    ridge = ridge_of_words(options, len(rows))
    with one_blas_thread():
        # The cut-off comes from the counts of core words left of new ones, as in the program, and the
        # largest weight from both orders.
        weighting = weighting_of(options, columns, columns, rows)
        make = partial(regress, rows, columns, own, facing, vectors, ridge, weighting, options.uniform_weight)
        return keep("noncore", make), weighting


def ridge_of_words(options: Any, n: int) -> Floats:
    """Return the ridge of each of n words, by bands, of which the last takes what is left.

    Raises
    ------
    ValueError
        If there is not one ridge for each band.
    """
    ridges = np.atleast_1d(np.asarray(options.ridge, float))
    sizes = [n] if options.bands is None or not len(options.bands) else options.bands
    if len(ridges) != len(sizes):
        raise ValueError(
            f"ridge has {plural(len(ridges), 'value')} and bands has {plural(len(sizes), 'size')}; give one ridge for "
            "each band"
        )
    return np.repeat(ridges, [*sizes[:-1], n])[:n]


def regress(
    rows: da.Array,
    columns: da.Array,
    own: tuple[Any, Floats],
    facing: Floats,
    vectors: Any,
    ridge: Floats,
    weighting: PairWeighting,
    uniform_weight: float,
) -> da.Array:
    """Return the ridge solutions (m, d) of new words against core vectors, float32, lazily.

    Parameters
    ----------
    rows, columns : Dask arrays (m, c), (c, m) of csr_array row blocks
        The counts with the new word on the left of the core word, and on the right.
    own : two arrays (m,)
        The bigrams with a new word on the left, which may be lazy, and its share of all occurrences: n and u.
    facing : (c, 2) array
        Those of the core words.
    vectors : array or Dask array (c, d)
    ridge : (m,) array
    weighting : PairWeighting
    uniform_weight : float
    """
    pieces = [np.linspace(0, size, -(-size // MOST_WORDS) + 1).astype(int) for size in rows.chunks[0]]
    batches = tuple(int(size) for piece in pieces for size in np.diff(piece))
    (totals, shares), core = own, gathered(vectors) if isinstance(vectors, da.Array) else vectors
    return lift(
        solve_new_words, "wc,wc,w,w,cf,w,cr,rs->wr",
        rows.rechunk((batches, -1)), transpose_row_blocks(columns, row_chunks=batches),
        totals.rechunk((batches,)) if isinstance(totals, da.Array) else totals, shares,
        facing, ridge, core, column_products(core, core),
        weighting=weighting, uniform_weight=uniform_weight,
    )  # fmt: skip
