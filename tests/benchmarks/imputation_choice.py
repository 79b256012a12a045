"""What hidden vectors are found by each method of imputation, by their choice, and by scikit-learn's tuned methods.

    python -m tests.benchmarks.imputation_choice FOLDER_OF_DATA [FIRST_SEED [LAST_SEED]]

A fifth of the known rows of each table is hidden for each seed. Every method chooses among the others by hiding some of
them in turn: what is printed, the mean centered cosine of the hidden rows and the processor seconds of all seeds, chose
nothing. The folder is that of `lsi/` and `embeddings/`; the other tables are scikit-learn's.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_wine
from sklearn.kernel_ridge import KernelRidge
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsRegressor

import distembed as de
from distembed.linalg.blocks import row_cosines
from distembed.neighbors.blocks import accurate_squares, typical_square
from tests.benchmarks.company_tables import SPACES, company_vectors, read_prices

SHARE_HIDDEN = 0.2
GRAPH = {"method": "graph"}
MAPS = {
    f"{method}, {kernel}": {"method": method, "kernel": kernel}
    for kernel in ("linear", "rbf")
    for method in ("linear_map", "combined")
}
CHOSEN = {f"auto, {kernel}": {"method": "auto", "kernel": kernel} for kernel in ("linear", "rbf", "auto")}


def standardized(X):
    spread = X.std(axis=0)
    return (X - X.mean(axis=0)) / np.where(spread > 0, spread, 1)


def halves(X, cut):
    return standardized(X[:, :cut]), standardized(X[:, cut:])


def words_of_both(folder):
    """Return the vectors that GloVe and the British National Corpus have of the same words."""
    glove = de.WordVectors.load(folder / "embeddings" / "glove50_4k.txt.xz", max_words=4196)
    bnc = de.WordVectors.load(folder / "embeddings" / "wordspace_bnc_5k_10k_svd100.txt.xz")
    row_of = {word.rsplit("_", 1)[0]: row for row, word in reversed([*enumerate(bnc.words)])}
    both = [(row, row_of[word]) for row, word in enumerate(glove.words) if word in row_of]
    here, there = map(list, zip(*both, strict=True))
    return glove.vectors[here].astype(float), bnc.vectors[there].astype(float)


def tables(folder):
    """Return X and Y of every table by name; of a name that has no vector, Y is NaN."""
    glove, bnc = words_of_both(folder)
    prices = read_prices(folder / "lsi")
    digits = load_digits().data
    found = {
        f"prices to {space}": (prices.matrix, company_vectors(folder / "lsi", prices, space))
        for space in SPACES
    }
    one_hot = (np.array(prices.labels)[:, None] == np.unique(prices.labels)).astype(float)
    return found | {
        "sectors to fast": (standardized(one_hot), found["prices to fast"][1]),
        "GloVe to BNC": (standardized(glove), bnc),
        "BNC to GloVe": (standardized(bnc), glove),
        "halves of digits": (digits[:, :32], digits[:, 32:]),
        "halves of diabetes": halves(load_diabetes().data, 5),
        "halves of wine": halves(load_wine().data, 6),
        "halves of cancer": halves(load_breast_cancer().data, 15),
    }


def by_scikit_learn(model, X, Y):
    known = ~np.isnan(Y[:, 0])
    mean = Y[known].mean(axis=0)
    return model.fit(X[known], Y[known] - mean).predict(X) + mean


def tuned(X, Y):
    """Return scikit-learn's methods, whose options it chooses in five folds of the known rows."""
    known = X[~np.isnan(Y[:, 0])]
    scale = typical_square(accurate_squares(known, known), known, known)
    ridge = {"alpha": 10.0 ** np.arange(-4, 3), "gamma": np.array([0.25, 1, 4]) / scale}
    near = {"n_neighbors": [1, 2, 3, 5, 8, 12, 20, 30], "weights": ["uniform", "distance"]}
    return {
        "KernelRidge, tuned": GridSearchCV(KernelRidge(kernel="rbf"), ridge),
        "KNN, tuned": GridSearchCV(KNeighborsRegressor(), near),
    }


def methods(X, Y):
    """Return by name what fills in the rows of Y that are NaN."""
    ours = {"graph": GRAPH, **MAPS, **CHOSEN}
    fits = {
        name: lambda options=options: de.LatentSemanticImputation(**options).fit(X, Y).vectors_
        for name, options in ours.items()
    }
    return fits | {
        name: lambda model=model: by_scikit_learn(model, X, Y) for name, model in tuned(X, Y).items()
    }


def judged(X, Y, seed):
    """Return by method the mean centered cosine of the hidden rows, and its processor seconds."""
    known = np.flatnonzero(~np.isnan(Y[:, 0]))
    hidden = np.random.default_rng(seed).permutation(known)[: round(SHARE_HIDDEN * known.size)]
    kept = Y.copy()
    kept[hidden] = np.nan
    mean, found = np.nanmean(kept, axis=0), {}
    for name, fit in methods(X, kept).items():
        start = time.process_time()
        vectors = fit()[hidden]
        spent = time.process_time() - start
        found[name] = row_cosines(vectors - mean, Y[hidden] - mean).mean(), spent
    return found


def main(folder, first=0, last=4):
    everything = tables(Path(folder))
    judged(*everything["halves of wine"], 0)  # what is compiled once does not count
    for table, (X, Y) in everything.items():
        draws = [judged(X, Y, seed) for seed in range(int(first), int(last) + 1)]
        print(
            f"\n{table}: {X.shape[0]} x {X.shape[1]}, {(~np.isnan(Y[:, 0])).sum()} known, {Y.shape[1]} components"
        )
        for name in draws[0]:
            scores, seconds = np.array([draw[name] for draw in draws]).T
            print(f"  {name:<22}{scores.mean():7.3f} +- {scores.std():.3f}{seconds.sum():8.1f} s", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
