"""Print how well spaces tell associated words from others, where both stand in a document and where none has both.

``python -m tests.benchmarks.second_order WORKSPACE NORMS`` reads a word spaces job with documents, and a set of
association norms. For each cue and target a further target of the norms is drawn that is not associated with the cue,
and that likewise shares a document with it or does not. A line for each space has the share of pairs whose cosine is
above that of their control (0.5 is chance, ties count half): of the first order, and of those that share no document,
which only words beside both can bring together.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

import distembed as de
from distembed.evaluation.wordsets import AssociationSet, find_word_sets
from distembed.execution import compute
from distembed.job.stage import whole_sparse
from tests.benchmarks.measures import run_main, tell

TRIES = 200
"""Targets that are drawn as the control of a pair until one fits."""

Pairs = NDArray[np.int64]


def shared(has: sp.csc_array, first: Pairs, second: Pairs) -> NDArray[np.bool_]:
    """Return whether a document has both words of each pair."""
    products = has[:, first].multiply(has[:, second])
    return np.asarray(products.sum(axis=0)).ravel() > 0


def controls(has: sp.csc_array, cues: Pairs, targets: Pairs, direct: NDArray[np.bool_]) -> Pairs:
    """Return for each pair another target that shares a document with the cue or does not, -1 where none was found."""
    generator, found = np.random.default_rng(0), np.full(cues.size, -1)
    associated = set(zip(cues.tolist(), targets.tolist(), strict=True))
    left = np.arange(cues.size)
    for _ in range(TRIES):
        drawn = generator.choice(targets, left.size)
        others = [
            (cue, target) not in associated
            for cue, target in zip(cues[left].tolist(), drawn.tolist(), strict=True)
        ]
        fits = others & (shared(has, cues[left], drawn) == direct[left]) & (cues[left] != drawn)
        found[left[fits]] = drawn[fits]
        left = left[~fits]
    return found


def cosines(rows: Any, first: Pairs, second: Pairs) -> NDArray[np.float64]:
    """Return the cosines of pairs of rows, 0 where a row is."""
    matrix = sp.csr_array(rows, dtype=np.float64)
    norms = np.sqrt(np.asarray(matrix.multiply(matrix).sum(axis=1)).ravel())
    products = np.asarray(matrix[first].multiply(matrix[second]).sum(axis=1)).ravel()
    sizes = norms[first] * norms[second]
    return np.divide(products, sizes, out=np.zeros_like(products), where=sizes > 0)


def main(place: str, norms: str) -> None:
    workspace = de.Workspace.open(place)
    has = sp.csc_array(whole_sparse(workspace.array("document_terms")).astype(bool).astype(np.float32))
    row_of = {word: row for row, word in enumerate(workspace.table("vocabulary")["word"].to_pylist())}
    [word_set] = find_word_sets([norms])
    assert isinstance(word_set, AssociationSet)
    lower = [(cue.lower(), target.lower()) for cue, target in word_set.pairs]
    known = np.array([(row_of[a], row_of[b]) for a, b in lower if a in row_of and b in row_of])
    cues, targets = known.T
    direct = shared(has, cues, targets)
    others = controls(has, cues, targets, direct)
    kept = others >= 0
    tell(
        f"{known.shape[0]:,} of {len(lower):,} pairs known; with a control {(kept & direct).sum():,} that share a "
        f"document, and {(kept & ~direct).sum():,} that share none"
    )
    for name in [name for name in workspace.stages() if name.startswith("space_")]:
        rows = compute(workspace.array("spaces/" + name.removeprefix("space_")))
        own, other = (cosines(rows, cues[kept], ends[kept]) for ends in (targets, others))
        wins = np.where(own == other, 0.5, own > other)
        shares = [wins[some].mean() for some in (direct[kept], ~direct[kept])]
        tell(
            f"{name.removeprefix('space_')}: {shares[0]:.3f} of the first order, {shares[1]:.3f} of the others"
        )


if __name__ == "__main__":
    run_main(main)
