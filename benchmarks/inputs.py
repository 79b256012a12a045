"""What the benchmarks are given: text, counts, drawn matrices, and halves of evaluation sets."""

from __future__ import annotations

import lzma
import re
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any
from zlib import crc32

import dask
import numpy as np
from scipy.sparse import csr_array, vstack

import distembed as de
from distembed.evaluation.wordsets import EvaluationSet


def open_text(path: str | Path) -> IO[str]:
    """Open a text file, compressed by xz or not."""
    path = Path(path)
    return lzma.open(path, "rt", encoding="utf-8") if path.suffix == ".xz" else path.open(encoding="utf-8")


def articles_of(*paths: str | Path) -> Iterator[list[str]]:
    """Yield the lower-case words of each article of some files; a blank line stands between two articles."""
    for path in paths:
        with open_text(path) as file:
            for article in file.read().lower().split("\n\n"):
                yield re.findall("[a-z]+", article)


def gathered(array: Any) -> csr_array:
    """Return a Dask array of sparse blocks of rows as one sparse array."""
    return csr_array(vstack(dask.compute(*array.to_delayed().ravel()), format="csr"))


def counts_of(workspace: str) -> tuple[csr_array, np.ndarray, list[str]]:
    opened = de.Workspace.open(workspace)
    table = opened.table("vocabulary")
    return gathered(opened.array("cooccurrence")), table["count"].to_numpy(), table["word"].to_pylist()


def drawn_words(n_words: int, n_features: int) -> csr_array:
    """Return words of 40 topics whose features fall off as word frequencies do."""
    rng = np.random.default_rng(0)
    topics = rng.dirichlet(np.full(40, 0.05), n_words) @ rng.dirichlet(np.full(n_features, 0.02), 40)
    return csr_array(np.log1p(rng.poisson(2_000 * topics)).astype(np.float32))


def half_of(word_set: EvaluationSet, *, development: bool) -> EvaluationSet:
    """Return one half of a set: the one to choose by, or the one to confirm the choice on.

    Items of the same first word (a cue, a prime, a question) are in the same half, by a checksum of the word.
    """
    first = [item[0].lower() for item in word_set.items]
    return word_set.part(
        np.array([crc32(word.encode()) % 2 == int(development) for word in first], dtype=bool)
    )
