"""Why an imputed vector is what it is: the weights of the known vectors that add up to it, neighbors and columns."""

from __future__ import annotations

from typing import Any, NamedTuple

import dask.array as da
import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from distembed.display import plural
from distembed.execution import compute
from distembed.job.stage import names_in_table
from distembed.linalg.operators import whole_csr
from distembed.manifold.imputation_shares import known_shares, strongest_paths
from distembed.storage.workspace import Workspace
from distembed.systems.imputation import outputs
from distembed.systems.imputation.job import ImputationJob
from distembed.systems.imputation.stages import METHODS
from distembed.views.explain import Asked, Explanation, TermTable, refuse_unknown


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
        weights = whole_csr(outputs.WEIGHTS.read(workspace))
        table = outputs.VOCABULARY.read(workspace).slice(0, weights.shape[0])
        known = np.array(table["origin"].to_pylist(), object) == "known"
        words, labels = (
            ["" if one is None else one for one in table[name].to_pylist()] for name in ("word", "label")
        )
        return cls(words, known, labels, weights, whole_csr(outputs.GRAPH.read(workspace)))


def explain(job: ImputationJob, workspace: Workspace, asked: Asked) -> Explanation:  # noqa: ARG001 - the same for every job
    """Explain the vector of an imputed name: the weights of known names that add up to it, its neighbors and columns.

    Raises
    ------
    KeyError
        If the table has no such name.
    ValueError
        If more than one name is asked for, the name is not an imputed one, or the vectors are not those of the graph.
    """
    if len(asked.names) != 1:
        raise ValueError(
            f"{plural(len(asked.names), 'name')} given: name one imputed name; spaces stand in quotes"
        )
    names = _Names.of(workspace)
    row = _imputed_row(asked.names[0], names, workspace)
    method = workspace.stages()["vectors"].facts["method"]
    if method != "graph":
        raise ValueError(
            f"the vectors are those of {METHODS[method]}, which are no mixtures of known vectors along the graph: "
            'explain takes those of imputation.method = "graph"'
        )
    shares = known_shares(names.weights, names.known, row)
    order = np.argsort(-shares, kind="stable")[: min(asked.n, int((shares > 0).sum()))]
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
    return Explanation(
        f"{names.words[row]}: a mixture of {plural(int((shares > 0).sum()), 'known name')}",
        _sentences(shares),
        {"name": names.words[row], "difference": _difference(outputs.VECTORS.read(workspace), shares, row)},
        [TermTable("known names", rows, {"share %": 2, "path %": 2}, caption), _neighbor_table(names, row)],
    )


def _imputed_row(name: str, names: _Names, workspace: Workspace) -> int:
    name = name if name in names.words else names_in_table(workspace).get(name, name)
    if name not in names.words:
        left_out = {one["name"]: one["reason"] for one in outputs.LEFT_OUT.read(workspace).to_pylist()}
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


def _difference(vectors: da.Array, shares: NDArray[np.float64], row: int) -> float:
    """Return the largest difference of the mixture and the stored vector, relative to the vector's largest value."""
    mixed = np.flatnonzero(shares)
    found, *rest = compute((vectors[[row]], vectors[mixed]))
    value = np.asarray(found[0], np.float64)
    mixture = shares[mixed] @ np.asarray(rest[0], np.float64)
    return float(np.abs(mixture - value).max() / max(np.abs(value).max(), np.finfo(float).tiny))


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
