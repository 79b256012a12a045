"""Noncore words of PSDVec: each is a ridge regression against the fixed core vectors, by its counts with core words."""

from __future__ import annotations

from typing import Any, NamedTuple

import dask.array as da
import numpy as np
from numpy.typing import NDArray

from distembed.factorization.blocks import PairWeighting
from distembed.factorization.psdvec_inputs import check_length
from distembed.factorization.psdvec_lifts import PairCounts, solve_words, weighting_of
from distembed.linalg.chunks import batches
from distembed.linalg.operators import transpose_row_blocks
from distembed.typing import VectorLike
from distembed.weighting.pmi import CutoffRule, corner_count, largest_count, weight_cutoff

Floats = NDArray[np.floating]


class NewWords(NamedTuple):
    """Words that are solved against the core."""

    rows: da.Array
    """Their counts with the new word on the left of the core word. Dask array (m, n_core) of csr_array row blocks."""
    columns: da.Array
    """The counts with the new word on the right. Dask array (n_core, m) of csr_array row blocks."""
    counts: Floats
    row_totals: Floats
    """Their occurrences, and the bigrams with the word on the left. Shape (m,), float64."""
    ridge: Floats
    """The ridge of each word. Shape (m,), float64."""
    prior: da.Array | None = None
    """The vectors that the ridge draws them towards; zero where there is none. Dask array (m, d)."""


class CoreWords(NamedTuple):
    """The core words that others are solved against."""

    vectors: Any
    """Their vectors, in memory or as a Dask array. Array (n_core, d)."""
    counts: Floats
    row_totals: Floats
    """Their occurrences, and the bigrams with the word on the left. Shape (n_core,), float64."""
    total_count: float
    """The occurrences of all words, core and noncore."""


def count_in_corpus(core: CoreWords, counts: VectorLike | None, row_totals: VectorLike | None) -> CoreWords:
    """Return the core words with their counts or totals in another corpus than that of the fit.

    The occurrences of all words of the other corpus are estimated from those of its core words.
    """
    n = len(core.counts)
    here = core.counts if counts is None else check_length(counts, n, "core_counts")
    totals = core.row_totals if row_totals is None else check_length(row_totals, n, "core_row_totals")
    own, found = float(core.counts.sum()), float(here.sum())
    return CoreWords(core.vectors, here, totals, core.total_count * (found / own) if own else found)


class NoncoreOptions(NamedTuple):
    """The options of `PSDVec` that its noncore words need."""

    background_weight: float
    uniform_weight: float
    batch_words: int


def noncore_weighting(words: NewWords, smoothing: float, rule: CutoffRule) -> PairWeighting:
    """Return how the counts of new words with core words become weights."""
    # The cut-off comes from the counts of core words left of new ones, as in the program, and the
    # largest weight from both orders.
    cutoff = weight_cutoff(words.columns, rule, corner=corner_count(words.columns))
    return weighting_of(smoothing, cutoff, max(largest_count(words.columns), largest_count(words.rows)))


def noncore_vectors(
    words: NewWords, core: CoreWords, weighting: PairWeighting, options: NoncoreOptions
) -> da.Array:
    """Return the vectors (m, d) of new words, float32, lazily, in batches of words."""
    return solve_words(
        _pairs(words, core, options.batch_words),
        weighting,
        core.vectors,
        words.ridge,
        background_weight=options.background_weight,
        uniform_weight=options.uniform_weight,
        prior=words.prior,
    )


def _pairs(words: NewWords, core: CoreWords, batch_words: int) -> PairCounts:
    forward = words.rows.rechunk((batches(words.rows.shape[0], batch_words), -1))
    n_all = max(core.total_count, 1e-300)
    backward = transpose_row_blocks(words.columns).rechunk(forward.chunks)
    return PairCounts(
        forward, backward, words.row_totals, core.row_totals, words.counts / n_all, core.counts / n_all
    )
