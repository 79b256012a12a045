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

from collections.abc import Callable, Sequence
from itertools import combinations
from typing import Any, NamedTuple

import dask.array as da
import numba
import numpy as np
from scipy.linalg import lapack

from distembed.dtypes import Float64s, Floats, Int64s, Mask
from distembed.execution import shared
from distembed.factorization.blocks import PairWeighting
from distembed.lift import block, lift
from distembed.linalg.blocks import row_cosines
from distembed.linalg.csr import canonical_csr
from distembed.linalg.operators import column_products
from distembed.weighting.blocks import excess_of_pair

_jit = numba.njit(cache=True, nogil=True)

BATCH_WORDS = 200
"""Words of a task."""

MOST_STEPS, TOLERANCE = 30, 1e-8
"""Steps of conjugate gradients, and the part of a solution's squared length, in the norm of A, that may be missing.

A tenth of a thousandth of the length is a hundredth of what the noise of a word with thousands of occurrences moves it.
"""


class Part(NamedTuple):
    """A part of a text: what is counted in each group of its documents, and how often its samples take each group."""

    counts: Sequence[da.Array]
    """The counts of each group with core words, in both orders. Dask arrays (words, c) of csr_array row blocks."""
    pairs: Floats
    """The pairs with each word on the left. Array (words, groups)."""
    occurrences: Int64s
    """How often each word occurs. Array (words, groups)."""
    samples: Sequence[Floats]
    """Of several sizes, arrays (groups, samples); the first sample of each takes every group once."""


class Regression(NamedTuple):
    """What all words of a job are solved by."""

    weighting: PairWeighting
    ridge: float
    uniform_weight: float


def words_in_samples(
    measure: Callable[[list[Floats | None]], Any],
    width: int,
    parts: Sequence[Part],
    core: da.Array,
    rules: Regression,
    *,
    wanted: Mask | None = None,
    sizes: Int64s | None = None,
    batch_words: int = BATCH_WORDS,
) -> da.Array:
    """Return what is measured of each word from its vectors in all samples of the parts, lazily.

    Parameters
    ----------
    measure : callable
        Takes the vectors (samples, d) of a word in each part, None in one where it is not wanted: `whole_vector`, or
        `differences` of a design.
    width : int
        How many numbers it returns.
    parts : sequence of Part
    core : Dask array (c, d)
        Vectors of the first c words, from all text.
    rules : Regression
        How counts become weights, and the ridge.
    wanted : bool array (words, parts), optional
        The words that are solved in each part, by default all.
    sizes : int64 array (words, parts), optional
        The size of the samples of each word in each part (`equal_sizes`), by default the first.
    batch_words : int
        The words of a task.

    Returns
    -------
    Dask array (words, width) float32
        NaN where a word is wanted in no part.
    """
    pairs, occurrences = (np.concatenate([part[side] for part in parts], axis=1) for side in (1, 2))
    wanted = np.ones((len(pairs), len(parts)), bool) if wanted is None else wanted
    sizes = np.zeros(wanted.shape, np.int64) if sizes is None else sizes
    # of each part its samples, the occurrences of all words in each group, and the pairs and occurrences of core words
    known = [
        (
            part.samples,
            part.occurrences.sum(axis=0).astype(np.float64),
            part.pairs[: core.shape[0]].astype(np.float32),
            part.occurrences[: core.shape[0]].astype(np.float32),
        )
        for part in parts
    ]
    counts = [group.rechunk((batch_words, -1)) for part in parts for group in part.counts]
    vectors = core.rechunk((-1, -1))
    indices = ",".join(["wp", "wp", "wg", "wg", "cd", "de", *["wc"] * len(counts)])
    return lift(
        measured_words, f"{indices}->wm", wanted, sizes, pairs, occurrences, vectors,
        column_products(vectors, vectors), *counts, sizes={"m": width},
        parts=shared(known), rules=rules, measure=measure, width=width,
    )  # fmt: skip


@block(temporaries=1)
def measured_words(
    wanted: Mask,
    sizes: Int64s,
    pairs: Floats,
    occurrences: Int64s,
    core: Floats,
    core_gram: Floats,
    *counts: Any,
    parts: list[Any],
    rules: Regression,
    measure: Callable[[list[Floats | None]], Any],
    width: int,
) -> Floats:
    """Return what is measured of some words, each solved in all samples of all parts, (words, width)."""
    system = 2 * rules.uniform_weight * core_gram + rules.ridge * np.identity(len(core_gram))
    found, groups = np.full((len(wanted), width), np.nan, np.float32), [canonical_csr(one) for one in counts]
    ends = np.cumsum([0, *(len(samples[0]) for samples, *_ in parts)]).tolist()
    for word in np.flatnonzero(wanted.any(axis=1)):
        rows = [slice(*group.indptr[word : word + 2]) for group in groups]
        each = [(group.indices[row], group.data[row]) for group, row in zip(groups, rows, strict=True)]
        vectors = list[Floats | None]()
        for place, (samples, *facing) in enumerate(parts):
            own, taken = slice(*ends[place : place + 2]), samples[sizes[word, place]]
            given = each[own], pairs[word, own], occurrences[word, own], facing, taken
            is_wanted = wanted[word, place]
            vectors.append(sample_vectors(*given, core, system, rules) if is_wanted else None)
        found[word] = measure(vectors)
    return found


def sample_vectors(
    rows: Sequence[tuple[Any, Any]],
    pairs: Floats,
    occurrences: Int64s,
    facing: Sequence[Floats],
    samples: Floats,
    core: Floats,
    system: Floats,
    rules: Regression,
) -> Floats:
    """Return the vectors of a word in all samples of a part, (samples, d) float32.

    A sample is weighed as a text of its own: with the shares of the context words in the whole part, the few documents
    of a half would differ from the part in all frequent words together, and this would count as noise.

    Parameters
    ----------
    rows : sequence of pairs of arrays
        The core words that the word has pairs with in each group of documents of the part, and their counts.
    pairs, occurrences : arrays (groups,)
        Of the word.
    facing : sequence of arrays (groups,), (c, groups), (c, groups)
        The occurrences of all words in each group, and the pairs and the occurrences of the core words.
    samples : (groups, samples) float64
        How often each sample takes each group.
    core : (c, d) float32
        V1.
    system : (d, d) float64
        What all words have in common: ``E + mu I``.
    rules : Regression
    """
    support = np.unique(np.concatenate([columns for columns, _ in rows]))
    if not support.size:
        return np.zeros((samples.shape[1], core.shape[1]), np.float32)
    place = np.empty(len(core), np.int32)
    place[support] = np.arange(len(support), dtype=np.int32)
    counts = np.zeros((len(support), len(rows)), np.float32)
    for group, (columns, values) in enumerate(rows):
        counts[place[columns], group] = values
    n_tokens, core_pairs, core_occurrences = facing
    taken, n_tokens = samples.astype(np.float32), np.maximum(n_tokens @ samples, 1.0)
    weights, moments = _weights_and_moments(
        counts @ taken, pairs @ samples, occurrences @ samples / n_tokens,
        core_pairs[support] @ taken, core_occurrences[support] @ taken / n_tokens,
        rules.uniform_weight, *rules.weighting,
    )  # fmt: skip
    return _solve_samples(core[support], weights, moments, system).T


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
    normal = system + (half.T @ half).astype(np.float64)
    try:
        factor = np.linalg.cholesky(normal).T
    except np.linalg.LinAlgError:  # of few pairs and almost no ridge: indefinite to the precision of the core
        shift = np.finfo(np.float32).eps * np.trace(normal)
        factor = np.linalg.cholesky(normal + shift * np.identity(len(normal))).T
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
        curvature = (step * forward).sum(axis=0)  # rounding may leave none where a step hardly moves
        length = np.divide(gain, curvature, out=np.zeros_like(gain), where=curvature > 0)
        solution = solution + length * step
        left = left - length * forward
        inner, before = lapack.dpotrs(factor, left)[0], gain
        gain = (left * inner).sum(axis=0)
        step = inner + gain / np.maximum(before, 1e-300) * step
    return solution.astype(np.float32)


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

    def divided(self, vectors: Floats) -> tuple[Floats, Floats, Floats]:
        """Return the vectors of both halves of each division, of the quarters of either fixed half, and of the draws.

        Arrays (2, divisions, d), (4, divisions, d) and (draws, d).
        """
        end = 1 + 6 * self.n_halves
        sides = vectors[1:end].reshape(6, self.n_halves, -1)
        return sides[:2], sides[2:], vectors[end:]


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
    quarters = list[Int64s]()
    for own in fixed:
        divided, middle = [rng.permutation(own) for _ in range(design.n_halves)], len(own) // 2
        quarters += [*(one[:middle] for one in divided), *(one[middle:] for one in divided)]
    drawn = rng.integers(0, n_groups, (design.n_draws, n_groups))
    found = []
    for k in range(1, half + 1):
        last = n_groups if k == half else 2 * k
        halves = [*(one[:k] for one in mixed), *(one[k:last] for one in mixed)]
        samples = [every, *halves, *quarters, *(one[:last] for one in drawn)]
        counts = [np.bincount(one, minlength=n_groups) for one in samples]
        found.append(np.stack(counts, axis=1).astype(np.float64))
    return tuple(found)


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


def whole_vector(vectors: Sequence[Floats | None]) -> Floats:
    """Return the vector of a word in the first sample of one part, which is the part itself."""
    [of_samples] = vectors
    assert of_samples is not None
    return of_samples[0]


def differences(vectors: Sequence[Floats | None], design: Design) -> Float64s:
    """Return `PART_MEASURES` of a word in each part, and `PAIR_MEASURES` of each two parts.

    The *noise* is the mean cosine distance between random halves of a part. The *change* between two parts is the mean
    distance between a half of one and a half of the other, less the mean noise of both: texts of equal size are
    compared, so that a word that does not differ has a change of 0 on average. *Chance* is the change between two fixed
    halves of one part, over the noise: no change at all, whose distribution over the words says how large a change must
    be. The interval is the change plus what the draws of the bootstrap deviate from their mean.

    Parameters
    ----------
    vectors : sequence of (samples, d) array or None
        Those of the word in all samples of each part; None where it cannot be judged there.
    design : Design
        What the samples are.
    """
    found, tail = list[float](), (1 - design.confidence) / 2
    for one in vectors:
        if one is None:
            found += [np.nan] * len(PART_MEASURES)
            continue
        halves, quarters, _ = design.divided(one)
        changes, inner = _excesses(quarters[:2], quarters[2:])
        noise = _mean(inner)
        found += [_mean(_distances(*halves)), _mean(changes) / noise if noise > 0 else np.nan]
    for one, other in combinations(vectors, 2):
        if one is None or other is None:
            found += [np.nan] * len(PAIR_MEASURES)
            continue
        (halves, _, draws), (other_halves, _, other_draws) = design.divided(one), design.divided(other)
        change = _mean(_excesses(halves, other_halves)[0])
        # beside each draw the next one, which is independent of it
        each = _excesses(*([drawn, np.roll(drawn, 1, axis=0)] for drawn in (draws, other_draws)))[0]
        known = each[np.isfinite(each)]
        ends = np.quantile(known - known.mean(), [tail, 1 - tail]) if known.size else np.full(2, np.nan)
        found += [_distances(one[:1], other[:1])[0], change, *(change + ends)]
    return np.array(found)


def _excesses(one: Any, other: Any) -> tuple[Float64s, Float64s]:
    """Return the mean distance across two pairs of samples less that within them, row by row, and those within.

    A pair is two arrays (n, d), or one (2, n, d).
    """
    across = [_distances(first, second) for first in one for second in other]
    within = np.stack([_distances(*one), _distances(*other)])
    return np.mean(across, axis=0) - within.mean(axis=0), within


def _distances(first: Floats, second: Floats) -> Float64s:
    """Return ``1 - cos`` of the rows of two arrays, (rows,); NaN where a row is zero."""
    return np.clip(1 - row_cosines(first, second, of_zeros=np.nan), 0, 2)


def _mean(values: Floats) -> float:
    known = values[np.isfinite(values)]
    return float(known.mean()) if known.size else np.nan


def measures_of(n_parts: int) -> list[tuple[str, int, int]]:
    """Return the columns of `differences`: what is measured, and the numbers of the parts, the second -1 for none.

    Examples
    --------
    >>> from distembed.factorization.replicates import measures_of
    >>> measures_of(2)[:3]
    [('noise', 0, -1), ('chance', 0, -1), ('noise', 1, -1)]
    """
    alone = [(name, part, -1) for part in range(n_parts) for name in PART_MEASURES]
    return alone + [(name, *pair) for pair in combinations(range(n_parts), 2) for name in PAIR_MEASURES]
