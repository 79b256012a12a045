"""The parts common to all word-level evaluations: the policy, the score, word lookup, bootstrap intervals."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, issparse

from distembed.evaluation import blocks
from distembed.evaluation.sparse_space import SparseSpace
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

N_BOOTSTRAP = 1000  # resamples: the ends of a 95 % interval to about a tenth of its width
MAX_BOOTSTRAP_PAIRS = 1000  # above it the interval of a rank correlation is under +-0.06 and costs seconds


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


def word_rows(vectors: Space, words: Sequence[str], policy: Policy) -> NDArray[np.int64]:
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


def form_to_compose(word: str, policy: Policy) -> str:
    """Return the form in which an unknown word is composed: the first spelling that the policy tries."""
    return word.lower() if SPELLINGS[policy.case][0] == "lower case" else word


def row_table(vectors: Space, items: Sequence[Sequence[str]], policy: Policy) -> NDArray[np.int64]:
    """Return the rows (n, k) of n items of k words each."""
    flat = word_rows(vectors, [word for item in items for word in item], policy)
    return flat.reshape(len(items), -1)


def known_and_used(rows: NDArray[np.int64], policy: Policy) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return which items (n, k) have all their words, and which of them count under the policy."""
    known = np.asarray((rows >= 0).all(axis=1))
    return known, known if policy.unknown == "skip" else np.ones(len(rows), dtype=np.bool_)


def known_cosines(vectors: Space, rows: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the cosine of each pair of rows (n, 2); 0 where a word is unknown."""
    known = (rows >= 0).all(axis=1)
    cosines = np.zeros(len(rows))
    cosines[known] = vectors.similarities(rows[known])
    return cosines


def units(vectors: Space, rows: NDArray[np.int64]) -> NDArray[np.float32] | csr_array:
    """Return unit vectors (k, d) of rows, sparse where the space is."""
    return vectors.units(rows) if isinstance(vectors, SparseSpace) else unit_rows(vectors, rows)


def unit_rows(vectors: WordVectors, rows: NDArray[np.int64]) -> NDArray[np.float32]:
    """Return unit vectors (k, d) of rows; zero for a zero vector and for row -1."""
    norms = np.where(rows >= 0, vectors.norms[rows], 0)[:, None]
    units = np.zeros((len(rows), vectors.vectors.shape[1]), dtype=np.float32)
    return np.divide(vectors.vectors[rows], norms, out=units, where=norms > 0)


def cosine_table(vectors: Space, rows: NDArray[np.int64], columns: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the cosines (r, c) of rows with others; 0 for a zero vector and for row -1."""
    first, second = (units(vectors, side).astype(np.float64) for side in (rows, columns))
    with one_blas_thread():
        table: Any = first @ second.T
    return np.asarray(table.toarray() if issparse(table) else table)


def bootstrap_interval(
    statistic: Callable[[NDArray[np.int64]], NDArray[np.float64]],
    n_items: int,
    policy: Policy,
    *,
    max_items: int = MAX_BOOTSTRAP_PAIRS,
) -> tuple[float, float] | None:
    """Return the 95 % percentile interval of a statistic over resampled items (rows of the argument)."""
    if not 2 < n_items <= max_items:
        return None
    draws = np.random.default_rng(policy.seed).integers(n_items, size=(N_BOOTSTRAP, n_items))
    values = statistic(draws)
    low, high = np.nanpercentile(values, [2.5, 97.5]) if np.isfinite(values).any() else (math.nan, math.nan)
    return None if math.isnan(low) else (float(low), float(high))


def mean_score(
    set_name: str,
    task_metric: tuple[str, str],
    points: NDArray[np.float64],
    counts: tuple[int, int],
    policy: Policy,
    *,
    max_items: int = MAX_BOOTSTRAP_PAIRS,
) -> Score:
    """Score the mean of the points; `counts` are the items known and all items."""
    value = float(points.mean()) if points.size else math.nan
    interval = bootstrap_interval(
        lambda draw: points[draw].mean(axis=1), points.size, policy, max_items=max_items
    )
    return Score(set_name, *task_metric, value, *counts, str(policy), interval)


def correlation_score(
    names: tuple[str, str, str],
    x: NDArray[np.float64],
    y: NDArray[np.float64],
    counts: tuple[int, int],
    policy: Policy,
    *,
    max_items: int = MAX_BOOTSTRAP_PAIRS,
    correlation: Callable[[NDArray[np.float64], NDArray[np.float64]], NDArray[np.float64]] = blocks.spearman,
) -> Score:
    """Score the correlation of x and y, Spearman's if none is given; `names` are the set, the task and the metric."""
    value = float(correlation(x, y)) if x.size > 1 else math.nan
    interval = None
    if not math.isnan(value):
        interval = bootstrap_interval(
            lambda draw: correlation(x[draw], y[draw]), x.size, policy, max_items=max_items
        )
    return Score(*names, value, *counts, str(policy), interval)


def text_table(rows: Sequence[Sequence[str]]) -> str:
    """Return rows of text as one aligned table, the first of them as its heading."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]
    lines.insert(1, "  ".join("-" * width for width in widths))
    return "\n".join(line.rstrip() for line in lines)
