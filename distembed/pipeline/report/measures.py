"""Figures of the package's own measurements: rank and frequency, sparsity, eigenvalues, objectives."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from distembed.display import plural
from distembed.pipeline.quantities import format_number
from distembed.pipeline.report.figures import line_chart, spread_points
from distembed.pipeline.report.page import Floats, Section, finite_values, paragraph


def zipf_curve(counts: ArrayLike, *, title: str = "Rank and frequency", first_rank: int = 10) -> Section:
    """Draw word counts against rank on logarithmic axes, with a fitted power law.

    The exponent s of count = c / rank^s is the least-squares slope over ranks spaced evenly in their
    logarithm, from `first_rank` on: the most frequent words lie below the line (Mandelbrot's shift).

    Parameters
    ----------
    counts
        Occurrences of each word, in any order; zeros are left out.
    title
        Title of the section.
    first_rank
        First rank used by the fit.
    """
    ordered = np.sort(finite_values(counts))[::-1]
    ordered = ordered[ordered > 0]
    ranks = np.arange(1.0, ordered.size + 1)
    series: dict[str, Any] = {"counts": (ranks, ordered)}
    said = f"{plural(ordered.size, 'word')}, {format_number(float(ordered.sum()))} occurrences."
    fit = _power_law(ranks[first_rank - 1 :], ordered[first_rank - 1 :])
    if fit is not None:
        exponent, scale = fit
        name = f"fit, exponent {exponent:.2f}"
        series[name] = (ranks, scale * ranks**-exponent)
        said += f" Dashed: count ∝ rank^−{exponent:.2f}, fitted from rank {first_rank} on."
    dashed = [name for name in series if name != "counts"]
    axes: dict[str, Any] = {"xlabel": "rank of the word", "ylabel": "occurrences"}
    return line_chart(series, title, x_scale="log", y_scale="log", caption=said, dashed=dashed, **axes)


def _power_law(ranks: Floats, counts: Floats) -> tuple[float, float] | None:
    """Fit count = scale * rank^-exponent; None where too few different values are left to fit."""
    chosen = spread_points(ranks.size, "log")
    if np.unique(counts[chosen]).size < 3:
        return None
    slope, intercept = np.polyfit(np.log(ranks[chosen]), np.log(counts[chosen]), 1)
    return -float(slope), math.exp(intercept)


def count_sparsity(
    row_nnz: ArrayLike, n_words: int, *, title: str = "Sparsity of the counts", bins: int = 60
) -> Section:
    """Draw how many different words each word occurs with, against its rank.

    Parameters
    ----------
    row_nnz
        Non-zero counts in each row, the most frequent word first.
    n_words
        Columns of the matrix.
    title
        Title of the section.
    bins
        Ranks are put into at most this many bins of equal width in the logarithm; the median and the middle
        four fifths of each are drawn.
    """
    nnz = np.asarray(row_nnz, dtype=np.float64).ravel()
    if not nnz.size:
        return Section(title, paragraph("Nothing to draw: the matrix has no rows."))
    edges = np.unique(np.rint(np.geomspace(1, nnz.size + 1, bins + 1)).astype(np.int64)) - 1
    parts = [nnz[low:high] for low, high in pairwise(edges)]
    ranks = np.sqrt((edges[:-1] + 1.0) * edges[1:])
    low, median, high = (np.array([np.percentile(part, q) for part in parts]) for q in (10, 50, 90))
    total = float(nnz.sum())
    filled = f"{100 * total / (nnz.size * n_words):.3g} %" if n_words else "none"
    caption = f"{format_number(total)} non-zero counts in {nnz.size:,} × {n_words:,}: {filled} filled. "
    caption += "Line: median of the words near a rank; tint: four fifths of them."
    band = (ranks, np.maximum(low, 0.5), high)
    return line_chart(
        {"": (ranks, median)},
        title,
        xlabel="rank of the word",
        ylabel="non-zero counts in its row",
        x_scale="log",
        y_scale="log",
        caption=caption,
        band=band,
    )


def eigenvalue_spectrum(eigenvalues: ArrayLike, *, title: str = "Eigenvalues") -> Section:
    """Draw eigenvalues in falling order, on a logarithmic axis if they are positive and span a decade."""
    values = np.sort(finite_values(eigenvalues))[::-1]
    wide = bool(values.size and values[-1] > 0 and values[0] > 10 * values[-1])
    caption = f"{plural(values.size, 'eigenvalue')}, {int((values < 0).sum()):,} of them negative."
    axes: dict[str, Any] = {"xlabel": "rank of the eigenvalue", "ylabel": "eigenvalue"}
    return line_chart({"": values}, title, y_scale="log" if wide else "linear", caption=caption, **axes)


def objective_curve(
    objective: ArrayLike, *, title: str = "Objective", ylabel: str = "objective", xlabel: str = "round"
) -> Section:
    """Draw the value of an objective after each round."""
    values = np.asarray(objective, dtype=np.float64).ravel()
    finite = finite_values(values)
    if not finite.size:
        return Section(title, paragraph("Nothing to draw: there is no finite value."))
    change = 100 * (finite[-1] / finite[0] - 1) if finite[0] else math.nan
    caption = f"From {format_number(float(finite[0]))} to {format_number(float(finite[-1]))}"
    caption += f" ({change:+.2f} %)".replace("-", "−") if finite.size > 1 and math.isfinite(change) else ""
    return line_chart({"": values}, title, xlabel=xlabel, ylabel=ylabel, caption=f"{caption}.")
