"""A program of a user, which `mypy --strict` checks: what it knows of the public names, and what it refuses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_type

import dask.array as da
import numpy as np
from numpy.typing import NDArray

import distembed as de
from distembed.storage.workspace import Workspace

Floats = NDArray[np.floating]


def from_text_to_vectors(dump: str) -> de.WordVectors:
    """Count the words of a dump, factorize the counts, and name the vectors."""
    docs = de.read_corpus(dump, min_bytes=2)  # type: ignore[call-arg]
    docs = de.read_corpus(dump)
    vocabulary = de.build_vocabulary(docs, min_count=100)
    assert_type(vocabulary.counts, NDArray[np.int64])
    counts = de.count_cooccurrences(docs, vocabulary, window=3)
    assert_type(counts, da.Array)
    assert_type(de.ppmi(counts, context_smoothing=0.75), da.Array)
    de.ppmi(counts, smoothing=0.75)  # type: ignore[call-arg]
    model = de.PSDVec(n_components=500).fit(counts, vocabulary.counts)
    assert_type(model, de.PSDVec)
    vectors = de.WordVectors(vocabulary.words, np.asarray(model.vectors_))
    assert_type(vectors["king"], NDArray[np.float32])
    assert_type(vectors.index("king"), int)
    assert_type(vectors.similarity("king", "queen"), float)
    return vectors


def in_memory_and_lazy(X: NDArray[np.float32], lazy: da.Array, table: list[list[float]]) -> None:
    """Get an array in memory for one in memory, and a Dask array for a Dask array."""
    assert_type(de.LSA(10).fit_transform(X), Floats)
    assert_type(de.LSA(10).fit_transform(lazy), da.Array)
    assert_type(de.NMF(10).fit(table).transform(X), Floats)
    assert_type(de.SemanticNMF(10).fit_transform(lazy, X), da.Array)
    assert_type(de.SphericalKMeans(10).fit(X).predict(lazy), da.Array)
    assert_type(de.NMF(10).fit(X).predict(X), NDArray[np.int64])
    assert_type(de.LatentSemanticImputation().fit_transform(X, table), Floats)
    assert_type(de.LocalityPreservingProjection().fit(X).transform(lazy), da.Array)
    de.LSA("ten")  # type: ignore[arg-type]
    de.LSA(10).fit("documents.txt")  # type: ignore[arg-type]
    de.NMF(10, init="randomly")  # type: ignore[arg-type]
    de.PSDVec().fit(X)  # type: ignore[call-arg]


def evaluated(vectors: de.WordVectors, texts: Sequence[str]) -> list[float]:
    """Evaluate vectors, and encode texts with them."""
    encoder = de.TextEncoder(vectors, weighting="sif")
    assert_type(encoder.fit().transform(texts), NDArray[np.float32])
    encoder.transform(5)  # type: ignore[call-overload]
    joined = de.join_vectors([vectors, "other.bin"], weights=[1, 0.5], words="union")
    de.join_vectors([vectors, vectors], words="all")  # type: ignore[arg-type]
    return [score.value for score in de.evaluate(joined, "sets")]


def jobs(folder: str) -> Workspace:
    """Run a job with a section of one's own, and open its workspace."""
    de.run_job("jobs/topics.toml", topics={"n_topics": 5})
    de.run_job("jobs/topics.toml", topics=5)  # type: ignore[arg-type]
    return de.Workspace.open(folder)
