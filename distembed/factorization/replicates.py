"""The vectors of words in parts of a text and in samples of their documents, and how far these differ.

Documents lie in groups whose counts are known. A *sample* takes each group a whole number of times: once each is the
text itself, half of the groups are a half of it, and groups drawn with replacement are a draw of the bootstrap. The
counts of a sample are sums of those of its groups, so that nothing is counted again.

Symbols as in `distembed.factorization.blocks`: the vector of a word in a sample solves ``A v = V1ᵀ m``,
``A = E + mu I + sum w_j v_j v_jᵀ`` over its pairs, ``E = 2 a V1ᵀV1``. The systems of all samples are near that of the
text, whose factor preconditions them: conjugate gradients for all samples at once take few products of the word's
core vectors, where a factor of each would take the rank times as many.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import Any, NamedTuple

import dask.array as da
import numba
import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack

from distembed.dtypes import Float64s, Floats, Int64s, Mask
from distembed.execution import shared
from distembed.factorization.blocks import PairWeighting
from distembed.lift import block, lift
from distembed.linalg.csr import canonical_csr
from distembed.linalg.operators import column_products
from distembed.weighting.blocks import excess_of_pair

_jit = numba.njit(cache=True, nogil=True)

MOST_STEPS, TOLERANCE = 30, 1e-8
"""Steps of conjugate gradients, and the part of a solution's squared length, in the norm of A, that may be missing.

A tenth of a thousandth of the length is a hundredth of what the noise of a word with thousands of occurrences moves it.
"""


class Totals(NamedTuple):
    """What is known of words in each group of documents, beside their pairs."""

    pairs: NDArray[Any]
    """The pairs with the word on the left. Array (words, groups)."""
    counts: NDArray[Any]
    """Its occurrences. Array (words, groups)."""


class Samples(NamedTuple):
    """How often samples of a part take each of its groups, in several sizes."""

    of_sizes: tuple[Floats, ...]
    """Arrays (groups, samples); the first sample of each takes every group once."""
    n_all: Floats
    """The occurrences of all words in each group. Array (groups,)."""

    @property
    def n_samples(self) -> int:
        """The samples of each size."""
        return int(self.of_sizes[0].shape[1])


class Regression(NamedTuple):
    """What all words of a job are solved by."""

    weighting: PairWeighting
    ridge: float
    uniform_weight: float


def sample_vectors(
    groups: Sequence[Any],
    words: Totals,
    core_words: Totals,
    samples: Samples,
    core: Floats,
    core_gram: Floats,
    rules: Regression,
    *,
    wanted: Mask,
    sizes: Int64s,
) -> Iterator[tuple[int, Floats]]:
    """Yield the number of each wanted word of a block, and its vectors (samples, d) in all samples.

    A sample is weighed as a text of its own: with the shares of the context words in the whole part, the few documents
    of a half would differ from the part in all frequent words together, and this would count as noise.

    Parameters
    ----------
    groups : sequence of csr_array (words, c)
        The counts with core words of each group of documents, in both orders.
    words, core_words : Totals
        Those of the words of the block, and of the core words.
    samples : Samples
        How often each sample takes each group.
    core : (c, d) float32
        V1.
    core_gram : (d, d) float64
        V1ᵀV1.
    rules : Regression
        How counts become weights, and the ridge.
    wanted : (words,) bool
        The words that are solved.
    sizes : (words,) int64
        Which of the sizes of samples is that of each word.
    """
    weighting, ridge, uniform = rules
    n_all = np.array([samples.n_all @ one for one in samples.of_sizes])
    core_pairs, core_counts = (side.astype(np.float32) for side in core_words)
    of_groups = [canonical_csr(block) for block in groups]
    system = 2 * uniform * core_gram + ridge * np.identity(len(core_gram))
    place = np.full(len(core), -1, np.int32)
    single = [one.astype(np.float32) for one in samples.of_sizes]
    for word in np.flatnonzero(wanted).tolist():
        size = sizes[word]
        # the core words that the word has pairs with in any group, and its counts with them in each sample
        rows = [slice(group.indptr[word], group.indptr[word + 1]) for group in of_groups]
        columns = [group.indices[row] for group, row in zip(of_groups, rows, strict=True)]
        support = np.unique(np.concatenate(columns))
        place[support] = np.arange(len(support), dtype=np.int32)
        counts = np.zeros((len(support), len(of_groups)), np.float32)
        for number, (group, row) in enumerate(zip(of_groups, rows, strict=True)):
            counts[place[columns[number]], number] = group.data[row]
        counts = counts @ single[size]
        if not support.size:
            yield word, np.zeros((samples.n_samples, core.shape[1]), np.float32)
            continue
        n_tokens = np.maximum(n_all[size], 1.0)
        own = (
            words.pairs[word] @ samples.of_sizes[size],
            words.counts[word] @ samples.of_sizes[size] / n_tokens,
        )
        facing = core_pairs[support] @ single[size], core_counts[support] @ single[size] / n_tokens
        weights, moments = _weights_and_moments(counts, *own, *facing, uniform, *weighting)
        yield word, _solve_samples(core[support], weights, moments, system).T


@_jit
def _weights_and_moments(  # type: ignore[no-untyped-def]
    counts, n_i, u_i, n_j, u_j, uniform, smoothing, cutoff, scale
):
    weights, moments = np.zeros(counts.shape, np.float32), np.zeros(counts.shape, np.float32)
    base = np.log(smoothing)
    for entry in range(counts.shape[0]):
        for sample in range(counts.shape[1]):
            x = counts[entry, sample]
            if x > 0:
                w = min(np.sqrt(x), cutoff) / scale
                g = base + excess_of_pair(x, n_i[sample], u_j[entry, sample], smoothing)
                h = base + excess_of_pair(x, n_j[entry, sample], u_i[sample], smoothing)
                weights[entry, sample] = w + w
                moments[entry, sample] = (w + uniform) * g + (w + uniform) * h
    return weights, moments


def _solve_samples(rows: Floats, weights: Floats, moments: Floats, system: Floats) -> Floats:
    """Return the solutions (d, samples), float32, of ``(B + Pᵀ diag(w) P) v = Pᵀ m`` for each column of w and m."""
    half = rows * np.sqrt(weights[:, :1])
    factor = np.linalg.cholesky(system + (half.T @ half).astype(np.float64)).T
    right = (rows.T @ moments).astype(np.float64)

    def product(vectors: Floats) -> Floats:
        own = rows.T @ (weights * (rows @ vectors.astype(np.float32)))
        return system @ vectors + own

    solution = lapack.dpotrs(factor, right)[0]
    size = np.maximum((right * solution).sum(axis=0), 1e-300)
    left = right - product(solution)
    inner = step = lapack.dpotrs(factor, left)[0]
    gain = (left * inner).sum(axis=0)
    for _ in range(MOST_STEPS):
        if (gain <= TOLERANCE * size).all():
            break
        forward = product(step)
        length = gain / np.maximum((step * forward).sum(axis=0), 1e-300)
        solution = solution + length * step
        left = left - length * forward
        inner, before = lapack.dpotrs(factor, left)[0], gain
        gain = (left * inner).sum(axis=0)
        step = inner + gain / np.maximum(before, 1e-300) * step
    return solution.astype(np.float32)


def cosine_distances(first: Floats, second: Floats) -> Float64s:
    """Return ``1 - cos`` of the rows of two arrays, (rows,); NaN where a row is zero.

    Examples
    --------
    >>> import numpy as np
    >>> from distembed.factorization.replicates import cosine_distances
    >>> cosine_distances(np.eye(2), np.array([[1.0, 0.0], [1.0, 0.0]])).tolist()
    [0.0, 1.0]
    """
    one, other = first.astype(np.float64), second.astype(np.float64)
    lengths = np.sqrt((one**2).sum(axis=1) * (other**2).sum(axis=1))
    cosines = np.divide((one * other).sum(axis=1), lengths, out=np.full(len(one), np.nan), where=lengths > 0)
    return np.clip(1 - cosines, 0, 2)


# --- differences between parts ---------------------------------------------------------------------------------


class Design(NamedTuple):
    """The samples of each part: the whole, random halves, random halves of two fixed halves (quarters), and draws.

    Quarters are to the fixed halves of one part what halves are to two parts.
    """

    n_halves: int
    """Random divisions."""
    n_draws: int
    confidence: float

    @property
    def n_samples(self) -> int:
        """The samples of a part."""
        return 1 + 6 * self.n_halves + self.n_draws

    def sides(self, vectors: Floats) -> tuple[Floats, ...]:
        """Return the vectors of the two halves of each division, and of the quarters of either fixed half."""
        n = self.n_halves
        return tuple(vectors[first : first + n] for first in range(1, 1 + 6 * n, n))

    def draws(self, vectors: Floats) -> Floats:
        """Return the vectors of the draws."""
        return vectors[1 + 6 * self.n_halves :]


FEWEST_GROUPS = 4
"""Groups that quarters of a part need."""


def group_samples(n_groups: int, design: Design, seed: Sequence[int]) -> tuple[Floats, ...]:
    """Return how often each sample of a part takes each of its groups, in rising sizes, (groups, samples) float64.

    Halves of size number k have k + 1 groups, and draws twice as many, with replacement; halves of the last size are
    halves of the part. The smaller are for words that the other parts have less often. Quarters have the same size in
    all, and are empty where there are fewer than `FEWEST_GROUPS` groups.

    Examples
    --------
    >>> from distembed.factorization.replicates import Design, group_samples
    >>> small, large = group_samples(4, Design(1, 2, 0.95), [0])
    >>> large[:, 0].tolist(), large[:, 1:3].sum(axis=1).tolist(), large[:, 3:7].sum(axis=1).tolist()
    ([1.0, 1.0, 1.0, 1.0], [1.0, 1.0, 1.0, 1.0], [1.0, 1.0, 1.0, 1.0])
    >>> small[:, 1:3].sum(axis=0).tolist(), small[:, 7:].sum(axis=0).tolist(), large[:, 7:].sum(axis=0).tolist()
    ([1.0, 1.0], [2.0, 2.0], [4.0, 4.0])
    """
    rng, half = np.random.default_rng(seed), n_groups // 2
    every = rng.permutation(n_groups)
    fixed = [own[:0] if n_groups < FEWEST_GROUPS else own for own in (every[:half], every[half:])]
    mixed = [rng.permutation(n_groups) for _ in range(design.n_halves)]
    quarters = []
    for own in fixed:
        divided, middle = [rng.permutation(own) for _ in range(design.n_halves)], len(own) // 2
        quarters += [_taken(n_groups, [one[:middle] for one in divided])]
        quarters += [_taken(n_groups, [one[middle:] for one in divided])]
    drawn = rng.integers(0, n_groups, (design.n_draws, n_groups))
    found = []
    for k in range(1, half + 1):
        last = n_groups if k == half else 2 * k
        halves = [
            _taken(n_groups, [one[:k] for one in mixed]),
            _taken(n_groups, [one[k:last] for one in mixed]),
        ]
        draws = _taken(n_groups, [one[:last] for one in drawn])
        found.append(np.concatenate([np.ones((n_groups, 1)), *halves, *quarters, draws], axis=1))
    return tuple(found)


def _taken(n_groups: int, samples: Sequence[Int64s]) -> Floats:
    """Return how often each of some samples has each group, (groups, samples)."""
    return np.stack([np.bincount(one, minlength=n_groups) for one in samples], axis=1).astype(np.float64)


def equal_sizes(counts: Int64s, judged: Mask, n_groups: Sequence[int]) -> Int64s:
    """Return which size of samples each word has in each part, so that all samples of it are of about equal counts.

    A vector from few occurrences differs from one of many, of the same usage, so that a word is compared by as many of
    its occurrences in each part as it has in the part where it is rarest.

    Parameters
    ----------
    counts : int64 array (words, parts)
    judged : bool array (words, parts)
        Where a word can be judged: the others do not count.
    n_groups : sequence of int
        The groups of each part.

    Examples
    --------
    >>> import numpy as np
    >>> from distembed.factorization.replicates import equal_sizes
    >>> equal_sizes(np.array([[400, 100], [100, 100]]), np.ones((2, 2), bool), [20, 20]).tolist()
    [[1, 9], [9, 9]]
    """
    rarest = np.where(judged, counts, np.iinfo(np.int64).max).min(axis=1, keepdims=True)
    share = np.minimum(rarest / np.maximum(counts, 1), 1.0)
    halves = np.asarray(n_groups) // 2
    return np.clip(np.rint(share * np.asarray(n_groups) / 2).astype(np.int64), 1, halves) - 1


PART_MEASURES = ("noise", "chance")
"""What is measured of a word in a part."""

PAIR_MEASURES = ("distance", "change", "low", "high")
"""What is measured of a word between two parts."""


def differences(vectors: Sequence[Floats | None], design: Design) -> Float64s:
    """Return `PART_MEASURES` of a word in each part, and `PAIR_MEASURES` of each two parts.

    The *noise* is the mean cosine distance between random halves of a part. The *change* between two parts is the mean
    distance between a half of one and a half of the other, less the mean noise of both: texts of equal size are
    compared, so that a word that does not differ has a change of 0 on average. *Chance* is the change between two fixed
    halves of one part, over the noise: no change at all, whose distribution over the words says how large a change must
    be. The interval is that of the bootstrap, whose draws deviate from their mean as the change does from the true one.

    Parameters
    ----------
    vectors : sequence of (samples, d) array or None
        Those of the word in all samples of each part; None where it cannot be judged there.
    design : Design
        What the samples are.
    """
    found: list[float] = []
    for one in vectors:
        if one is None:
            found += [np.nan] * len(PART_MEASURES)
            continue
        first, second, *quarters = design.sides(one)
        change, inner = _excess(quarters[:2], quarters[2:])
        found += [_mean([cosine_distances(first, second)]), change / inner if inner > 0 else np.nan]
    for one, other in combinations(vectors, 2):
        if one is None or other is None:
            found += [np.nan] * len(PAIR_MEASURES)
            continue
        distance = cosine_distances(one[:1], other[:1])[0]
        change, _ = _excess(design.sides(one)[:2], design.sides(other)[:2])
        drawn = [design.draws(side) for side in (one, other)]
        # beside each draw the next one, which is independent of it
        each = _excesses(*((draws, np.roll(draws, 1, axis=0)) for draws in drawn))
        known = each[np.isfinite(each)]
        tail = (1 - design.confidence) / 2
        ends = np.quantile(known - known.mean(), [tail, 1 - tail]) if known.size else np.full(2, np.nan)
        found += [distance, change, *(change + ends)]
    return np.array(found)


def _excesses(one: Sequence[Floats], other: Sequence[Floats]) -> Float64s:
    """Return the mean distance across two pairs of samples, less that within them, row by row."""
    across = [cosine_distances(first, second) for first in one for second in other]
    within = [cosine_distances(*one), cosine_distances(*other)]
    return np.asarray(np.mean(across, axis=0) - np.mean(within, axis=0))


def _excess(one: Sequence[Floats], other: Sequence[Floats]) -> tuple[float, float]:
    """Return the mean of `_excesses`, and the mean distance within the pairs."""
    return _mean([_excesses(one, other)]), _mean([cosine_distances(*one), cosine_distances(*other)])


def _mean(values: Sequence[Floats]) -> float:
    every = np.concatenate(values)
    known = every[np.isfinite(every)]
    return float(known.mean()) if known.size else np.nan


# --- parts of a text --------------------------------------------------------------------------------------------


class Part(NamedTuple):
    """A part of a text: the counts of its groups of documents, in both orders."""

    groups: Sequence[da.Array]
    """The counts of each group with core words. Dask arrays (words, c) of csr_array row blocks."""
    words: Totals
    """Of all words, in memory."""
    samples: Samples
    """How often each sample takes each group."""


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
        (len(part.groups), Totals(*(side[:n_core] for side in part.words)), part.samples) for part in parts
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
    for place, (n_groups, core_words, samples) in enumerate(parts):
        own = slice(first, first + n_groups)
        words = Totals(pairs[:, own], counts[:, own])
        rest = core_words, samples, core, core_gram, rules
        solved.append(
            sample_vectors(groups[own], words, *rest, wanted=judged[:, place], sizes=sizes[:, place])
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
    width = of_parts[0][2].n_samples * arrays[0].shape[1]
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
        found[word] = differences(vectors, design)
    return found
