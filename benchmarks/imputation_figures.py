"""Table 1 and the figures of the paper on imputation (Yao, Yu & Xiao, KDD 2019), the authors' figures beside ours.

``python -m benchmarks.imputation_figures FOLDER --to FIGURES`` reads the authors' tables (`data/lsi`), prints
each table in Markdown and draws figures 2, 3 and 4 as SVG. ``--only 1 3`` does some of them, 1 for Table 1.
"""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl
import numpy as np

mpl.use("Agg")
from matplotlib import pyplot as plt

from benchmarks.company_tables import SPACES, authors_table, company_vectors, frequencies, read_prices
from benchmarks.measures import run_main, tell, tell_head, tell_row
from distembed.evaluation.imputation import NEIGHBOR_COUNTS, VOTES, neighbor_label_accuracy
from distembed.manifold.imputation import LatentSemanticImputation

AUTHORS = {"weights": "normalise_after", "solver": "power", "tol": 1e-2}
"""The options with which the estimator computes what the authors' program does."""

SOLVERS = {"default": {}, "authors' options": AUTHORS}

TABLE_1 = {
    "full": (0.154, 0.170, 0.150, 0.150, 0.144, 0.138, 0.135),
    "part": (0.180, 0.190, 0.172, 0.167, 0.157, 0.157, 0.157),
    "part+aff": (0.556, 0.472, 0.396, 0.359, 0.302, 0.261, 0.187),
    "google": (0.220, 0.297, 0.271, 0.305, 0.280, 0.280, 0.186),
    "google+aff": (0.838, 0.803, 0.784, 0.768, 0.725, 0.678, 0.626),
    "glove": (0.417, 0.466, 0.490, 0.500, 0.500, 0.505, 0.451),
    "glove+aff": (0.832, 0.766, 0.690, 0.653, 0.606, 0.542, 0.405),
    "fast": (0.443, 0.496, 0.527, 0.500, 0.511, 0.470, 0.447),
    "fast+aff": (0.811, 0.749, 0.713, 0.684, 0.641, 0.608, 0.595),
}
"""The paper's Table 1, at k = 2, 5, 8, 10, 15, 20, 30; "full" is its self, "part" its self(hf)."""

THRESHOLDS = (0, 5, 20, 40, 60, 80, 99)
DEGREES, ETAS = (3, 5, 8, 10, 15, 20), (1e-1, 1e-2, 1e-3, 1e-4, 1e-5)


def tell_figures(name: str, figures) -> None:
    tell_row(name, *(f"{figure:.3f}" for figure in figures))


def imputed(domain, Y, **options):
    return LatentSemanticImputation(**options).fit(domain.matrix, Y)


def show_table_1(folder: Path, domain) -> None:
    """Print Table 1, before and after, by both votes, with the default and with the authors' options."""
    labels = np.array(domain.labels)
    tell_head("space", *(f"k = {k}" for k in NEIGHBOR_COUNTS))
    for space in SPACES:
        Y = company_vectors(folder, domain, space)
        known = ~np.isnan(Y[:, 0])
        tell_figures(f"**{space}**, the paper", TABLE_1[space])
        for votes in VOTES:
            found = neighbor_label_accuracy(Y[known], labels[known], weights=votes)
            tell_figures(f"{space}, {votes} votes", found.values())
        if f"{space}+aff" in TABLE_1:
            tell_figures(f"**{space}+aff**, the paper", TABLE_1[f"{space}+aff"])
        for name, options in SOLVERS.items():
            vectors = imputed(domain, Y, **options).vectors_
            for votes in VOTES:
                found = neighbor_label_accuracy(vectors, labels, weights=votes)
                tell_figures(f"{space}+aff, {name}, {votes} votes", found.values())


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


def main(folder: Path, *, to: Path = Path(), only: tuple[str, ...] = ("1", "2", "3", "4")) -> None:
    to.mkdir(parents=True, exist_ok=True)
    domain = read_prices(folder)
    if "1" in only:
        show_table_1(folder, domain)
    for number, draw in {"2": draw_figure_2, "3": draw_figure_3, "4": draw_figure_4}.items():
        if number in only:
            tell(f"\nFigure {number}")
            draw(folder, domain, to)


if __name__ == "__main__":
    run_main(main)
