"""Compare cosines of texts with human ratings: ``python -m tests.benchmarks.lee_documents WORKSPACE FILE.svg``.

WORKSPACE has word vectors. The texts are the fifty news stories of Lee, Pincombe and Welsh (2005), which gensim's wheel
carries with the mean rating of how alike any two are.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import spearmanr
from sklearn.feature_extraction.text import TfidfVectorizer

import distembed as de
from distembed.job.opening import load_vectors, parse_source
from distembed.views.report.figures import Drawing, save_figure
from tests.benchmarks.measures import needed, run_main

Floats = NDArray[np.floating]


def cosines(rows: Any) -> Floats:
    """Return the cosine of every pair of rows, the upper triangle row by row."""
    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray((unit @ unit.T)[np.triu_indices(len(rows), 1)])


def draw(axes: Any, *, ratings: Floats, found: Floats) -> None:
    axes.scatter(ratings, found, s=6, alpha=0.35, linewidths=0, rasterized=True)
    axes.set(xlabel="mean rating by people (1: the same)", ylabel="cosine of the text vectors")


def main(workspace: str, target: str) -> None:
    """Print the correlation of each encoder and of its controls with the ratings, and draw the last encoder."""
    datapath = needed("gensim.test.utils").datapath
    vectors = load_vectors(parse_source(workspace))
    counts = de.Workspace.open(workspace).table("vocabulary")["count"].to_numpy()
    texts = Path(datapath("lee.cor")).read_text(encoding="latin-1").splitlines()
    rated = np.triu(np.loadtxt(datapath("similarities0-1.txt")), 1)
    ratings = rated[np.triu_indices(len(texts), 1)]
    print(f"{len(texts)} texts, {len(ratings)} pairs; Spearman x 100 with the ratings")
    tf_idf = TfidfVectorizer(stop_words="english").fit_transform(texts).toarray()
    print(f"  tf-idf of the words themselves {100 * spearmanr(cosines(tf_idf), ratings)[0]:.1f}")
    for weighting, whitening in [("mean", "none"), ("sif", "none"), ("sif", "half"), ("sif", "full")]:
        encoder = de.TextEncoder(vectors, weighting=weighting, counts=counts, whitening=whitening)
        found = cosines(encoder.fit().transform(texts).astype(np.float64))
        print(f"  {weighting}, whitening {whitening} {100 * spearmanr(found, ratings)[0]:.1f}")
    order = np.random.default_rng(0).permutation(len(texts))
    shuffled = cosines(encoder.transform([texts[i] for i in order]).astype(np.float64))
    print(f"  the last with the texts shuffled {100 * spearmanr(shuffled, ratings)[0]:.1f}")
    save_figure(target, Drawing(partial(draw, ratings=ratings, found=found)))


if __name__ == "__main__":
    run_main(main)
