"""The parts common to all word-level evaluations: the policy, the score, word lookup, bootstrap intervals."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, Literal, NamedTuple

import numpy as np
from scipy.sparse import csr_array, diags_array, issparse
from scipy.stats import rankdata

from distembed.dtypes import Float64s, Int64s, Mask
from distembed.evaluation.sparse_space import SparseSpace
from distembed.evaluation.wordsets import EvaluationSet
from distembed.execution import one_blas_thread
from distembed.vectors import WordVectors

Space = WordVectors | SparseSpace

Unknown = Literal["skip", "zero", "subwords"]
"""How items with unknown words count: left out, as wrong, or answered with vectors composed from n-grams."""

Case = Literal["auto", "lower", "keep", "ignore"]
"""Which spellings of a word of a set are looked up; see `SPELLINGS`."""

SPELLINGS: dict[Case, tuple[str, ...]] = {
    "auto": ("as written", "lower case"),
    "lower": ("lower case",),
    "keep": ("as written",),
    "ignore": ("as written", "lower case", "any case"),
}
"""The spellings that are tried for each word of a set, in their order; the first that is known counts."""

N_BOOTSTRAP = 1000
"""Samples of the items: they give the ends of a 95 % interval to about a tenth of its width."""
SAMPLES_AT_ONCE = 100
"""Samples that are held at a time: tens of megabytes."""
MAX_BOOTSTRAP_ITEMS = 10_000
"""Of more items no interval is computed: it is under one point wide on either side, and a rank correlation of so many
takes seconds."""


MIN_ANSWERED = 10
"""Of fewer answered items a report shows no score: one pair right of one known is no accuracy of 100 %."""
FEW_KNOWN = f"No score is shown of fewer than {MIN_ANSWERED} known items."
"""The sentence beside a table of scores that says of which sets there is none."""


class Policy(NamedTuple):
    """How words are looked up, how unknown words count, and the seed of random choices."""

    case: Case = "auto"
    unknown: Unknown = "skip"
    seed: int = 0

    def __str__(self) -> str:
        return f"{', then '.join(SPELLINGS[self.case])}, unknown {self.unknown}"

    def for_words(self, words: Iterable[str]) -> Policy:
        """Return the policy as it acts on a vocabulary: only lower case can be known where all its words are."""
        is_lower = self.case == "auto" and all(word == word.lower() for word in words)
        return self._replace(case="lower") if is_lower else self


class Score(NamedTuple):
    """The score of one metric on one set.

    `value` is NaN if no item is answered, and `interval` None if none is computed. `known` items have all their words
    among the vectors; `composed` ones were answered too, with at least one vector composed from n-grams.
    """

    set: str
    task: str
    metric: str
    value: float
    known: int
    total: int
    policy: str
    interval: tuple[float, float] | None
    composed: int = 0

    @property
    def answered(self) -> str:
        """How many items were answered, `known/total` or `known+composed/total`, as text."""
        return f"{self.known}{f'+{self.composed}' if self.composed else ''}/{self.total}"

    @property
    def in_report(self) -> Score:
        """The score as a report shows it: without a value where fewer than `MIN_ANSWERED` items were answered."""
        is_few = self.known + self.composed < MIN_ANSWERED
        return self._replace(value=math.nan, interval=None) if is_few else self


def word_rows(vectors: Space, words: Sequence[str], policy: Policy) -> Int64s:
    """Return the row of each word, -1 where it is unknown: each spelling is tried as it is, then with underscores."""
    rows = np.full(len(words), -1, dtype=np.int64)
    for spelling in SPELLINGS[policy.case]:
        for blank in (" ", "_"):
            unknown = np.flatnonzero(rows < 0).tolist()
            forms = [words[place].replace(" ", blank) for place in unknown]
            if spelling == "any case":
                rows[unknown] = vectors.index(forms, ignore_case=True)
            else:
                rows[unknown] = vectors.index(
                    form.lower() if spelling == "lower case" else form for form in forms
                )
    return rows


class Asked(NamedTuple):
    """A set as some vectors know it.

    Attributes
    ----------
    space : the vectors
    one : the set
    policy : how words are looked up
    rows : int64 array (n, k)
        The row of each word, -1 where it is unknown, `NO_WORD` after the last word of an item.
    known, used : bool arrays (n,)
        Which items have all their words, and which of them count under the policy.
    """

    space: Space
    one: EvaluationSet
    policy: Policy
    rows: Int64s
    known: Mask
    used: Mask

    @property
    def cosines(self) -> Float64s:
        """The cosine of the two words of each item, float64 (n,); 0 where one is unknown."""
        return known_cosines(self.space, self.rows)


NO_WORD = -2


def ask(space: Space, one: EvaluationSet, policy: Policy) -> Asked:
    """Look the words of a set up."""
    lengths = np.array([len(item) for item in one.items], dtype=np.int64)
    is_word = np.arange(lengths.max(initial=0)) < lengths[:, None]
    rows = np.full(is_word.shape, NO_WORD, dtype=np.int64)
    rows[is_word] = word_rows(space, [word for item in one.items for word in item], policy)
    known = np.asarray((rows != -1).all(axis=1))
    return Asked(space, one, policy, rows, known, known if policy.unknown == "skip" else np.ones_like(known))


def known_cosines(vectors: Space, rows: Int64s) -> Float64s:
    """Return the cosine of each pair of rows (n, 2); 0 where a word is unknown."""
    known = (rows >= 0).all(axis=1)
    cosines = np.zeros(len(rows))
    cosines[known] = vectors.similarities(rows[known])
    return cosines


def unit_rows(space: Space, rows: Int64s) -> Any:
    """Return unit vectors of rows, float32 (k, d), CSR where the space is; zero for a zero vector and for row -1."""
    norms = np.where(rows >= 0, space.norms[rows], 0)
    if isinstance(space, SparseSpace):
        scale = np.divide(1, norms, out=np.zeros(len(rows)), where=norms > 0)
        return csr_array(diags_array(scale) @ space.rows[rows]).astype(np.float32)
    units = np.zeros((len(rows), space.vectors.shape[1]), dtype=np.float32)
    return np.divide(space.vectors[rows], norms[:, None], out=units, where=norms[:, None] > 0)


def cosine_table(vectors: Space, rows: Int64s, columns: Int64s) -> Float64s:
    """Return the cosines (r, c) of rows with others; 0 for a zero vector and for row -1."""
    first, second = (unit_rows(vectors, side).astype(np.float64) for side in (rows, columns))
    with one_blas_thread():
        table: Any = first @ second.T
    return np.asarray(table.toarray() if issparse(table) else table)


def spearman(x: Float64s, y: Float64s) -> Float64s:
    """Return Spearman's correlation along the last axis, ties with their mean rank; NaN for a constant.

    Equal to scipy.stats.spearmanr, for many samples at once.
    """
    return pearson(rankdata(x, axis=-1), rankdata(y, axis=-1))


def pearson(x: Float64s, y: Float64s) -> Float64s:
    """Return Pearson's correlation along the last axis; NaN for a constant.

    Equal to scipy.stats.pearsonr, for many samples at once.
    """
    dx = x - x.mean(axis=-1, keepdims=True)
    dy = y - y.mean(axis=-1, keepdims=True)
    spread = np.sqrt((dx * dx).sum(axis=-1) * (dy * dy).sum(axis=-1))
    covariance = (dx * dy).sum(axis=-1)
    return np.divide(covariance, spread, out=np.full_like(spread, np.nan), where=spread > 0)


class Measure(NamedTuple):
    """A metric of a set: the items that count, and the statistic that is the score.

    Attributes
    ----------
    metric : str
    columns : float64 arrays (n,)
        One, or two of which the statistic is a correlation.
    statistic : function
        Takes the columns, or samples of them (m, n), and reduces the last axis.
    counts : (int, int), optional
        The items known and all items, if not those of the set.
    task : str
        If not that of the set.
    has_interval : bool
    """

    metric: str
    columns: tuple[Float64s, ...]
    statistic: Callable[..., Any] = partial(np.mean, axis=-1)
    counts: tuple[int, int] | None = None
    task: str = ""
    has_interval: bool = True

    def score(self, name: str, task: str, counts: tuple[int, int], policy: Policy) -> Score:
        """Return the score of a set: NaN, without an interval, where no item counts."""
        n = self.columns[0].size
        value = float(self.statistic(*self.columns)) if n else math.nan
        interval = None
        if self.has_interval and n <= MAX_BOOTSTRAP_ITEMS and not math.isnan(value):
            interval = bootstrap_interval(self.statistic, self.columns, policy.seed)
        return Score(
            name, self.task or task, self.metric, value, *(self.counts or counts), str(policy), interval
        )


def bootstrap_interval(
    statistic: Callable[..., Any], columns: Sequence[Float64s], seed: int
) -> tuple[float, float] | None:
    """Return the 95 % percentile interval of a statistic of columns (n,) over resampled items, None for fewer than 3.

    This is the interval of every score here, for at most `MAX_BOOTSTRAP_ITEMS` items of a set: `N_BOOTSTRAP` samples of
    the same number with replacement, from one seed. The statistic takes the samples (m, n), and reduces the last axis.
    """
    n_items = columns[0].size
    if n_items < 3:
        return None
    generator, values = np.random.default_rng(seed), list[Float64s]()
    for _ in range(N_BOOTSTRAP // SAMPLES_AT_ONCE):
        draws = generator.integers(n_items, size=(SAMPLES_AT_ONCE, n_items))
        values.append(statistic(*(column[draws] for column in columns)))
    if not np.isfinite(values).any():
        return None
    low, high = np.nanpercentile(values, [2.5, 97.5])
    return float(low), float(high)
