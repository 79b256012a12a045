"""Why an imputed name has its vector: the known names that it is the mixture of, and the way to each."""

from __future__ import annotations

from typing import Any, NamedTuple

import dask.array as da
import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from distembed.display import plural
from distembed.execution import compute
from distembed.manifold.imputation_shares import known_shares, strongest_paths
from distembed.pipeline.context import stored_sparse
from distembed.pipeline.explain.record import Asked, Explanation, TermTable, refuse_unknown
from distembed.pipeline.systems.imputation.config import ImputationJob
from distembed.storage.workspace import Workspace


class _Names(NamedTuple):
    """The names of the table, in the order of its rows, with what the graph has of them."""

    words: list[str]
    known: NDArray[np.bool_]
    labels: list[str]
    weights: sp.csr_array
    graph: sp.csr_array

    @classmethod
    def of(cls, workspace: Workspace) -> _Names:
        """Return the names of a workspace."""
        weights = stored_sparse(workspace, "weights")
        table = workspace.table("vocabulary").slice(0, weights.shape[0])
        known = np.array(table["origin"].to_pylist(), object) == "known"
        words, labels = (
            ["" if one is None else one for one in table[name].to_pylist()] for name in ("word", "label")
        )
        return cls(words, known, labels, weights, stored_sparse(workspace, "graph"))


def explain(job: ImputationJob, workspace: Workspace, asked: Asked) -> Explanation:  # noqa: ARG001 - as all systems
    """Explain the vector of an imputed name: the shares of known names that add up to it, and its neighbors.

    Raises
    ------
    KeyError
        If the table has no such name.
    ValueError
        If more than one name is asked for, or the name is not an imputed one.
    """
    if len(asked.names) != 1:
        raise ValueError(
            f"{plural(len(asked.names), 'name')} given: name one imputed name; blanks stand in quotes"
        )
    facts = workspace.stages()["vectors"].facts
    if facts["method"] == "linear_map":
        raise ValueError(
            "the vectors of this workspace are those of a linear map of the table, and no mixtures of known ones: "
            'imputation.method = "graph" or "combined" makes mixtures'
        )
    names = _Names.of(workspace)
    row = _imputed_row(asked.names[0], names, workspace)
    shares = known_shares(names.weights, names.known, row)
    difference = _difference(workspace.array("vectors"), shares, row)
    return Explanation(
        f"{names.words[row]}: a mixture of {plural(int((shares > 0).sum()), 'known name')}",
        [*_sentences(shares), *_departure(facts["method"], difference)],
        {"name": names.words[row], "difference": difference},
        [_known_table(names, shares, row, asked.n), _neighbor_table(names, row)],
    )


def _imputed_row(name: str, names: _Names, workspace: Workspace) -> int:
    if name not in names.words:
        left_out = {one["name"]: one["reason"] for one in workspace.table("left_out").to_pylist()}
        if name in left_out:
            raise ValueError(f"{name!r} was left out of the table: {left_out[name]}")
        refuse_unknown("name", name, names.words)
    row = names.words.index(name)
    if names.known[row]:
        raise ValueError(f"{name!r} has a known vector, which the job took as it is: choose an imputed name")
    return row


def _sentences(shares: NDArray[np.float64]) -> list[str]:
    largest = -np.sort(-shares)
    n_half = int(np.argmax(np.cumsum(largest) >= 0.5)) + 1
    return [
        "The imputed vector is the sum of the known vectors, each times its share. The shares add up to one; "
        f"half of it is reached by {plural(n_half, 'name')}."
    ]


def _departure(method: str, difference: float) -> list[str]:
    """Return what the linear map adds to the mixture, in a sentence, where it adds something."""
    if method == "graph":
        return []
    return [
        "To this mixture comes the linear map of what the name's row of the table differs from the same mixture of "
        f"rows: at most {difference:.1%} of the vector's largest value in a component."
    ]


def _difference(vectors: da.Array, shares: NDArray[np.float64], row: int) -> float:
    """Return the largest difference of the mixture and the stored vector, relative to the vector's largest value."""
    mixed = np.flatnonzero(shares)
    found, *rest = compute((vectors[[row]], vectors[mixed]))
    value = np.asarray(found[0], np.float64)
    mixture = shares[mixed] @ np.asarray(rest[0], np.float64)
    return float(np.abs(mixture - value).max() / max(np.abs(value).max(), np.finfo(float).tiny))


def _known_table(names: _Names, shares: NDArray[np.float64], row: int, n: int) -> TermTable:
    order = np.argsort(-shares, kind="stable")[: min(n, int((shares > 0).sum()))]
    paths = strongest_paths(names.weights, names.known, row, order.tolist())
    rows: list[dict[str, Any]] = [
        {
            "known name": names.words[at],
            "label": names.labels[at],
            "share %": 100 * float(shares[at]),
            "path %": 100 * path.probability,
            "strongest path": " → ".join(names.words[step] for step in path.rows),
        }
        for at, path in zip(order.tolist(), paths, strict=True)
    ]
    if not any(names.labels):
        rows = [{key: value for key, value in one.items() if key != "label"} for one in rows]
    n_others = int((shares > 0).sum()) - len(order)
    if n_others:
        others = 100 * float(shares.sum() - shares[order].sum())
        rows.append({"known name": f"{n_others:,} other known names", "share %": others})
    rows.append({"known name": "sum", "share %": 100 * float(shares.sum())})
    caption = (
        "A share is the probability that a walk over the weights, from the name on, ends at the known name; the "
        "strongest path is the most probable of these walks, and its percentage that of this one path."
    )
    return TermTable("known names", rows, {"share %": 2, "path %": 2}, caption)


def _neighbor_table(names: _Names, row: int) -> TermTable:
    own, near = names.weights[[row]], names.graph[[row]]
    distance = dict(zip(near.indices.tolist(), near.data.tolist(), strict=True))
    order = np.argsort(-own.data, kind="stable")
    rows = [
        {
            "neighbor": names.words[at],
            "origin": "known" if names.known[at] else "imputed",
            "weight": weight,
            "distance": distance.get(at),
        }
        for at, weight in zip(own.indices[order].tolist(), own.data[order].tolist(), strict=True)
    ]
    caption = "The names that the name is rebuilt from in the table, their weights, which sum to one, and distances."
    return TermTable("neighbors", rows, {"weight": 3, "distance": 3}, caption)
