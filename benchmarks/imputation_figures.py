"""Figures 2 to 4 of the paper on imputation (Yao, Yu & Xiao, KDD 2019), with the authors' numbers and ours.

``python -m benchmarks.imputation_figures FOLDER --to FIGURES`` reads the authors' tables (`data/lsi`), prints
the numbers of each figure and draws it as SVG.
"""

from __future__ import annotations

import csv
from pathlib import Path

import matplotlib as mpl
import numpy as np

mpl.use("Agg")
from matplotlib import pyplot as plt

from benchmarks.inputs import open_text
from benchmarks.measures import run_main, tell, tell_head, tell_row
from distembed.evaluation.imputation import NEIGHBOR_COUNTS, neighbor_label_accuracy
from distembed.manifold.imputation import LatentSemanticImputation
from distembed.tables.domain import read_domain, read_known
from distembed.tables.names import match_names
from distembed.tables.sections import KnownSection, MatchingSection, PricesSection

AUTHORS = {"weights": "normalise_after", "solver": "power", "tol": 1e-2}
"""The options with which the estimator computes what the authors' program does."""

SPACES = {"google": 300, "glove": 300, "fast": 300, "part": 200, "full": 200}
"""The number of components of each space; a label and a frequency follow them."""

THRESHOLDS = (0, 5, 20, 40, 60, 80, 99)
DEGREES, ETAS = (3, 5, 8, 10, 15, 20), (1e-1, 1e-2, 1e-3, 1e-4, 1e-5)


def read_prices(folder: Path):
    """Return the correlations of the daily returns of 480 companies over the paper's two years."""
    prices = PricesSection(
        path=str(folder / "sp500_close_2015_2018.csv.xz"), transform="return_correlation",
        first="2016-08-24", last="2018-08-27",
        names=str(folder / "sp500_token.csv"), names_from="Symbol", names_to="nGram", names_label="Sector",
    )  # fmt: skip
    return read_domain(prices)


def company_vectors(folder: Path, domain, space: str):
    """Return Y of the names, NaN where the space does not know them."""
    size = SPACES[space]
    known, _ = read_known(
        KnownSection(path=str(folder / f"{space}Mat.csv.xz"), drop=(str(size), str(size + 1)))
    )
    rows = match_names(domain.names, known.words, MatchingSection())
    return np.where((rows >= 0)[:, None], known.vectors[rows], np.nan).astype(np.float64)


def frequencies(folder: Path) -> dict[str, float]:
    """Return how often each name stands in the authors' corpus."""
    with open_text(folder / "fullMat.csv.xz") as lines:
        return {row[0]: float(row[-1]) for row in list(csv.reader(lines))[1:]}


def authors_table(folder: Path, name: str):
    """Return a table of the authors' results: accuracies by row and column, as texts to numbers."""
    with (folder / "visual_results" / name).open(encoding="utf-8") as lines:
        (_, *columns), *rows = csv.reader(lines)
    return {row[0]: dict(zip(columns, map(float, row[1:]), strict=True)) for row in rows}


def tell_figures(name: str, figures) -> None:
    tell_row(name, *(f"{figure:.3f}" for figure in figures))


def imputed(domain, Y, **options):
    return LatentSemanticImputation(**options).fit(domain.matrix, Y)


def draw_figure_2(folder: Path, domain, target: Path) -> None:
    """Draw the eigenvalues of the weights, before and after known rows become the identity, and the convergence."""
    Y = company_vectors(folder, domain, "google")
    known = ~np.isnan(Y[:, 0])
    model = imputed(domain, Y, solver="power", tol=1e-6)
    W = model.weights_.toarray()
    fixed = np.where(known[:, None], np.eye(len(W)), W)
    figure, axes = plt.subplots(1, 3, figsize=(12, 3.4), layout="constrained")
    for axis, matrix, title in zip(
        axes, (W, fixed), ("(a) W", "(b) known rows of W the identity"), strict=False
    ):
        sizes = np.sort(np.abs(np.linalg.eigvals(matrix)))[::-1]
        axis.plot(np.arange(1, len(sizes) + 1), sizes)
        axis.set(title=title, xlabel="eigenvalue", ylabel="modulus")
        below = sizes[sizes < 1 - 1e-9]
        n_one = f"{len(sizes) - len(below)} of {len(sizes)} eigenvalues"
        tell(f"{title}: {n_one} have modulus one, the next {below[0]:.4f}")
    axes[2].semilogy(*model.history_.T)
    axes[2].set(title="(c) power iteration", xlabel="sweep", ylabel="share of the vectors that a sweep moved")
    n_sweeps = int((model.history_[:, 1] >= 1e-2).sum()) + 1
    tell(f"(c): eta 1e-2 after {n_sweeps} sweeps, 1e-6 after {model.n_iter_}")
    save(figure, target / "figure_2.svg")


def draw_figure_3(folder: Path, domain, target: Path) -> None:
    """Draw the accuracy by the least frequency of the names, without and with imputation."""
    seen, labels = frequencies(folder), np.array(domain.labels)
    counts = np.array([seen.get(name, 0.0) for name in domain.names])
    plain = company_vectors(folder, domain, "full")
    part = imputed(domain, company_vectors(folder, domain, "part"), **AUTHORS).vectors_
    figure, axes = plt.subplots(1, 2, figsize=(12, 4), layout="constrained", sharey=True)
    tell_head("names of at least", *(f"k = {k}" for k in (1, *NEIGHBOR_COUNTS)))
    for axis, name, file, vectors in zip(
        axes, ("(a) self", "(b) self(hf)+aff"), ("heat.csv", "heat_PQ.csv"), (plain, part), strict=True
    ):
        theirs, grid = authors_table(folder, file), []
        for least in THRESHOLDS:
            rows = (counts >= least) & ~np.isnan(vectors[:, 0])
            ours = neighbor_label_accuracy(vectors[rows], labels[rows], n_neighbors=(1, *NEIGHBOR_COUNTS))
            grid.append(list(ours.values()))
            tell_figures(f"{name}, {least}, the authors", (theirs[str(k)][str(least)] for k in ours))
            tell_figures(f"{name}, {least}, ours, {rows.sum()} names", ours.values())
        image = axis.imshow(np.array(grid).T, aspect="auto", vmin=0.1, vmax=0.6)
        axis.set(title=name, xlabel="least frequency of a name", ylabel="neighbors k")
        axis.set_xticks(range(len(THRESHOLDS)), map(str, THRESHOLDS))
        axis.set_yticks(range(len(ours)), map(str, ours))
    figure.colorbar(image, ax=axes, label="accuracy, uniform votes")
    save(figure, target / "figure_3.svg")


def draw_figure_4(folder: Path, domain, target: Path) -> None:
    """Draw the accuracy by degree and by eta; the authors' tables are of their self(hf)+aff."""
    settings = {
        "degree": ([{**AUTHORS, "min_degree": degree} for degree in DEGREES], DEGREES, "ksens.csv"),
        "eta": ([{**AUTHORS, "tol": eta} for eta in ETAS], ETAS, "etasens.csv"),
    }
    figure, axes = plt.subplots(2, len(SPACES), figsize=(16, 6), layout="constrained", sharex=True)
    tell_head("space", *(f"k = {k}" for k in NEIGHBOR_COUNTS))
    for row, (what, (options, values, file)) in enumerate(settings.items()):
        theirs = authors_table(folder, file)
        for axis, space in zip(axes[row], SPACES, strict=True):
            Y = company_vectors(folder, domain, space)
            for value, each in zip(values, options, strict=True):
                vectors = imputed(domain, Y, **each).vectors_
                ours = neighbor_label_accuracy(vectors, domain.labels, weights="distance")
                axis.plot(list(ours), list(ours.values()), label=f"{value:g}")
                tell_figures(f"{space}+aff, {what} {value:g}", ours.values())
                if space == "part":
                    authors = theirs[f"{value:g}"]
                    name = f"{space}+aff, {what} {value:g}, the authors"
                    tell_figures(name, (authors[str(k)] for k in ours))
            axis.set(title=f"{space}+aff", xlabel="neighbors k", ylabel="accuracy")
            axis.legend(title=what, fontsize=7)
    save(figure, target / "figure_4.svg")


def save(figure, path: Path) -> None:
    figure.savefig(path)
    plt.close(figure)


def main(folder: Path, *, to: Path = Path()) -> None:
    to.mkdir(parents=True, exist_ok=True)
    domain = read_prices(folder)
    for number, draw in enumerate((draw_figure_2, draw_figure_3, draw_figure_4), 2):
        tell(f"\nFigure {number}")
        draw(folder, domain, to)


if __name__ == "__main__":
    run_main(main)
