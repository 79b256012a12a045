"""Which neighborhoods, weights and ridge make a better Locality Preserving Projection; printed, never asserted.

Chosen on one half of each set, confirmed on the other: `pytest -m slow -s tests/benchmarks/test_lpp_variants.py`
(LPP_WORDS and LPP_COMPONENTS in the environment change the size). Needs data/english and data/wordeval beside the
checkout.
"""

from __future__ import annotations

import os
from typing import NamedTuple

import dask.array as da
import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

import distembed as de
from distembed.evaluation.words import evaluate_sets
from distembed.evaluation.wordsets import find_word_sets, half_of
from distembed.linalg.csr import unit_rows
from distembed.manifold.eigenmaps import laplacian_eigenmaps
from distembed.manifold.projection import (
    LocalityPreservingProjection,
    neighborhood_graph,
)
from distembed.weighting.documents import log_entropy
from distembed.weighting.pmi import ppmi
from distembed.weighting.spaces import chosen_columns
from tests.benchmarks.inputs import gathered

N_WORDS, N_COMPONENTS = int(os.environ.get("LPP_WORDS", "8000")), int(os.environ.get("LPP_COMPONENTS", "200"))
MOST_NEIGHBORS = 50
MIN_ITEMS = 30  # known items of a set that takes part in the mean: with fewer the set decides by chance
SETS = (
    "association/usf_free_association.tsv.xz",
    "similarity/EN-MEN-TR-3k.txt",
    "similarity/EN-WS-353-ALL.txt",
    "synonym/EN-TOEFL-80.txt",
    "categorization/ap.csv",
    "priming/spp_assoc-related_181205.csv",
)


class Variant(NamedTuple):
    """A projection: the base space, its graph, the ridge, and what the eigenvectors are multiplied with."""

    base: str = "WC"
    graph_of: str = ""
    n_neighbors: int = 20
    affinity: str = "cosine"
    symmetry: str = "union"
    unit: bool = False
    alpha: float = 0.01
    scale: str = "none"


class Bench:
    """The spaces, their neighbors and eigenvectors, each made once."""

    def __init__(self, shared):
        files = [shared / "data/english" / f"{name}.txt.xz" for name in ("enwiki2018-0", "simplewiki2021-0")]
        corpus = de.read_corpus(
            [str(file) for file in files], layout="blocks", tokenizer=de.Tokenizer(pattern="ascii")
        )
        tokens = corpus.tokenize()
        vocabulary = de.build_vocabulary(tokens, min_count=5, max_size=N_WORDS)
        self.words = list(vocabulary.words)
        pairs = de.count_cooccurrences(tokens, vocabulary, window=5, direction="symmetric").persist()
        terms = de.count_document_terms(tokens, vocabulary).persist()
        without = chosen_columns(pairs, self.words, without=ENGLISH_STOP_WORDS)
        self.spaces = {
            "WC": gathered(without),
            "WC log": gathered(without.map_blocks(np.log1p, dtype=float)),
            "WC PPMI": gathered(ppmi(pairs)),
            "WC PPMI .75": gathered(ppmi(pairs, context_smoothing=0.75)),
            "VSM": gathered(terms).T.tocsr(),
            "VSM LE": gathered(log_entropy(terms)).T.tocsr(),
        }
        self.spaces["LSA"] = de.LSA(N_COMPONENTS).fit_transform(self.spaces["VSM LE"])
        self.lists, self.graphs, self.maps = {}, {}, {}
        sets = find_word_sets([shared / "data/wordeval" / name for name in SETS])
        self.halves = [[half_of(one, development=first) for one in sets] for first in (True, False)]

    def graph(self, variant):
        """Return the graph of a variant, from the longest lists of neighbors there are."""
        source = variant.graph_of or variant.base

        def shortened(name, make):
            if source not in self.lists:
                self.lists[source] = make().compute()
            return da.from_array(self.lists[source][:, :, : variant.n_neighbors], chunks=-1)

        options = {"affinity": variant.affinity, "symmetry": variant.symmetry, "checkpoint": shortened}
        if source not in self.lists:
            neighborhood_graph(self.spaces[source], n_neighbors=MOST_NEIGHBORS, **options)
        return neighborhood_graph(self.spaces[source], n_neighbors=variant.n_neighbors, **options)

    def projected(self, variant):
        key = variant._replace(
            base=variant.graph_of or variant.base, graph_of="", unit=False, alpha=0, scale="none"
        )
        if key not in self.maps:
            self.graphs[key] = self.graph(variant)
            kept = []
            laplacian_eigenmaps(
                self.graphs[key], N_COMPONENTS, checkpoint=lambda _, make: kept.append(make()) or kept[0]
            )
            self.maps[key] = kept[0]
        rows = sp.csr_array(self.spaces[variant.base])
        rows = unit_rows(rows) if variant.unit else rows
        model = LocalityPreservingProjection(
            N_COMPONENTS,
            alpha=variant.alpha,
            checkpoint=lambda name, make: self.maps[key] if name == "eigenmaps" else make(),
        )
        vectors = model.fit(rows, graph=self.graphs[key]).transform(rows)
        return vectors * scales(variant.scale, model.eigenvalues_)

    def scores(self, vectors, half):
        """Return the scores x 100 of one half of the items: normed priming, reaction times, the other sets."""
        found = evaluate_sets(de.WordVectors(self.words, vectors), self.halves[half])
        return {
            f"{score.metric if 'priming' in score.task else score.set}".replace(" spearman", ""): 100
            * score.value
            for score in found
            if not score.task.startswith("priming effect") and score.known >= MIN_ITEMS
        }


def scales(name, eigenvalues):
    if name == "1 - lambda":
        return 1 - eigenvalues
    if name == "1 / sqrt(lambda)":
        return 1 / np.sqrt(np.maximum(eigenvalues, 1e-3))
    return np.ones_like(eigenvalues)


STEPS = {
    "base": [Variant(base) for base in ("WC", "WC log", "WC PPMI", "WC PPMI .75", "VSM", "VSM LE")],
    "rows of unit length": [{"unit": True}],
    "graph": [{"graph_of": "LSA"}, {"graph_of": "WC PPMI .75"}, {"graph_of": "VSM LE"}],
    "neighbors": [{"n_neighbors": 10}, {"n_neighbors": 50}],
    "weights": [{"affinity": name} for name in ("binary", "gaussian", "local")],
    "mutual": [{"symmetry": "mutual"}],
    "ridge": [{"alpha": 0.1}, {"alpha": 1.0}, {"alpha": 10.0}, {"alpha": 100.0}],
    "scale": [{"scale": "1 - lambda"}, {"scale": "1 / sqrt(lambda)"}],
}
"""One thing after the other; each step starts from the best variant so far."""


@pytest.mark.slow
def test_variants(shared):
    bench = Bench(shared)
    print(
        f"\n{len(bench.words):,} words, {N_COMPONENTS} components; mean of the development half, then its scores"
    )
    best, best_mean = None, -np.inf
    for step, changes in STEPS.items():
        variants = changes if step == "base" else [best._replace(**change) for change in changes]
        for variant in variants:
            found = bench.scores(bench.projected(variant), 0)
            mean = float(np.mean(list(found.values())))
            print(f"{step:<20}{mean:7.2f}  {tuple(variant)}  {shown(found)}", flush=True)
            if mean > best_mean:
                best, best_mean = variant, mean
    print("confirmed on the other half:")
    for variant in (best, Variant("WC"), Variant("VSM")):
        found = bench.scores(bench.projected(variant), 1)
        print(f"{np.mean(list(found.values())):7.2f}  {tuple(variant)}  {shown(found)}")
    for name in ("LSA", "VSM", "WC", "WC PPMI .75"):
        space = bench.spaces[name]
        found = bench.scores(space.toarray() if sp.issparse(space) else space, 1)
        print(f"{np.mean(list(found.values())):7.2f}  {name} itself  {shown(found)}")


def shown(scores):
    return "  ".join(f"{name} {value:.1f}" for name, value in scores.items())
