"""Words solved in parts of a text, and in samples of each part, against one core, over row blocks of words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import dask.array as da
import numpy as np

from distembed.dtypes import Floats, Int64s, Mask
from distembed.execution import shared
from distembed.factorization import replicate_blocks as blocks
from distembed.factorization.replicate_blocks import (
    PAIR_MEASURES,
    PART_MEASURES,
    Design,
    Regression,
    Samples,
    Totals,
)
from distembed.lift import block, lift
from distembed.linalg.operators import column_products


class Part(NamedTuple):
    """A part of a text: the counts of its groups of documents, in both orders."""

    groups: Sequence[da.Array]
    """The counts of each group with core words. Dask arrays (words, c) of csr_array row blocks."""
    words: Totals
    """Of all words, in memory."""
    samples: Samples
    """How often each sample takes each group."""


class _PartOfBlock(NamedTuple):
    """What a task needs of a part beside the rows of its words."""

    n_groups: int
    core: Totals
    samples: Samples


def part_vectors(part: Part, core: da.Array, rules: Regression, *, batch_words: int = 500) -> da.Array:
    """Return the vectors of all words in a part, lazily, (words, d) float32; zero without pairs.

    Parameters
    ----------
    part : Part
        Its first sample alone is used.
    core : Dask array (c, d)
        Vectors of the first c words, from all text.
    rules : Regression
    batch_words : int
        The words of a task.
    """
    whole_part = part.samples._replace(of_sizes=(part.samples.of_sizes[0][:, :1],))
    own, wanted = part._replace(samples=whole_part), np.ones((part.words.counts.shape[0], 1), bool)
    return _of_words(
        samples_of_words, [own], core, rules, wanted, np.zeros_like(wanted, int), core.shape[1], batch_words
    )


def word_differences(
    parts: Sequence[Part],
    core: da.Array,
    rules: Regression,
    design: Design,
    judged: Mask,
    sizes: Int64s,
    *,
    batch_words: int = 200,
) -> da.Array:
    """Return the noise of each word in each part, and its differences between each two, lazily.

    Parameters
    ----------
    parts : sequence of Part
    core : Dask array (c, d)
        Vectors of the first c words, from all text.
    rules : Regression
    design : Design
        What the samples of the parts are.
    judged : bool array (words, parts)
        Where a word occurs often enough.
    sizes : int64 array (words, parts)
        The size of the samples of each word in each part (`equal_sizes`).
    batch_words : int
        The words of a task.

    Returns
    -------
    Dask array (words, measures) float32
        The columns of `measures_of`; NaN where a word is not judged.
    """
    width = len(measures_of(len(parts)))
    return _of_words(
        differences_of_words, parts, core, rules, judged, sizes, width, batch_words, design=design
    )


def measures_of(n_parts: int) -> list[tuple[str, int, int]]:
    """Return the columns of `word_differences`: what is measured, and the numbers of the parts, the second -1 for none.

    Examples
    --------
    >>> from distembed.factorization.replicates import measures_of
    >>> measures_of(2)[:3]
    [('noise', 0, -1), ('chance', 0, -1), ('noise', 1, -1)]
    """
    pairs = [(one, other) for one in range(n_parts) for other in range(one + 1, n_parts)]
    alone = [(name, part, -1) for part in range(n_parts) for name in PART_MEASURES]
    return alone + [(name, *pair) for pair in pairs for name in PAIR_MEASURES]


def _of_words(
    function: Any,
    parts: Sequence[Part],
    core: da.Array,
    rules: Regression,
    judged: Mask,
    sizes: Int64s,
    width: int,
    batch_words: int,
    **options: Any,
) -> da.Array:
    """Return what a function finds of batches of words, from the rows that all groups have of them."""
    n_core = core.shape[0]
    counts = [group.rechunk((batch_words, -1)) for part in parts for group in part.groups]
    totals = [np.concatenate([part.words[side] for part in parts], axis=1) for side in (0, 1)]
    of_block = [
        _PartOfBlock(
            len(part.groups),
            Totals(*(side[:n_core] for side in part.words)),
            part.samples,
        )
        for part in parts
    ]
    vectors = core.rechunk((-1, -1))
    indices = ["wp", "wp", "wg", "wg", "cd", "de", *("wc" for _ in counts)]
    return lift(
        function, f"{','.join(indices)}->wm", judged, sizes, *totals, vectors,
        column_products(vectors, vectors), *counts, sizes={"m": width},
        of_parts=shared(of_block), rules=rules, **options,
    )  # fmt: skip


def _solved(
    judged: Mask,
    sizes: Int64s,
    pairs: Floats,
    counts: Floats,
    arrays: Any,
    parts: Any,
    rules: Regression,
) -> list[Iterator[tuple[int, Floats]]]:
    """Return an iterator over the words of each part that are judged, and their vectors in all samples."""
    core, core_gram, *groups = arrays
    solved, first = [], 0
    for place, part in enumerate(parts):
        own = slice(first, first + part.n_groups)
        solved.append(
            blocks.sample_vectors(
                groups[own],
                Totals(pairs[:, own], counts[:, own]),
                part.core,
                part.samples,
                core,
                core_gram,
                rules,
                wanted=judged[:, place],
                sizes=sizes[:, place],
            )
        )
        first = own.stop
    return solved


@block(temporaries=0.5)
def samples_of_words(
    judged: Mask,
    sizes: Int64s,
    pairs: Floats,
    counts: Floats,
    *arrays: Any,
    of_parts: Any,
    rules: Regression,
) -> Floats:
    """Return the vectors of some words in all samples of one part, side by side, (words, samples x d)."""
    width = of_parts[0].samples.n_samples * arrays[0].shape[1]
    found = np.zeros((len(judged), width), np.float32)
    for word, vectors in _solved(judged, sizes, pairs, counts, arrays, of_parts, rules)[0]:
        found[word] = vectors.ravel()
    return found


@block(temporaries=2)
def differences_of_words(
    judged: Mask,
    sizes: Int64s,
    pairs: Floats,
    counts: Floats,
    *arrays: Any,
    of_parts: Any,
    rules: Regression,
    design: Design,
) -> Floats:
    """Return the measures of some words, solved in all samples of all parts, (words, measures)."""
    judged = judged & (judged.sum(axis=1, keepdims=True) > 1)
    solved = _solved(judged, sizes, pairs, counts, arrays, of_parts, rules)
    found = np.full((len(judged), len(measures_of(len(of_parts)))), np.nan, np.float32)
    for word in np.flatnonzero(judged.any(axis=1)):
        vectors = [next(own)[1] if judged[word, place] else None for place, own in enumerate(solved)]
        found[word] = blocks.differences(vectors, design)
    return found
