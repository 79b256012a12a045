"""Why an imputed vector is what it is: the weights of the known vectors that add up to it, neighbors and columns."""

from __future__ import annotations

from typing import Any

import numpy as np

from distembed.display import plural
from distembed.execution import compute
from distembed.job.stage import names_in_table
from distembed.linalg.operators import whole_csr
from distembed.manifold.imputation import known_shares, strongest_paths
from distembed.storage.workspace import Workspace
from distembed.systems.imputation import outputs
from distembed.systems.imputation.job import ImputationJob
from distembed.systems.imputation.stages import METHODS
from distembed.views.answers import Answer, TermTable, known_words
from distembed.views.explain import Request, refuse_unknown


def explain(job: ImputationJob, workspace: Workspace, request: Request) -> Answer:  # noqa: ARG001 - the same for every job
    """Explain the vector of an imputed name: the weights of known names that add up to it, its neighbors and columns.

    Raises
    ------
    KeyError
        If the table has no such name.
    ValueError
        If more than one name is asked for, the name is not an imputed one, or the vectors are not those of the graph.
    """
    if len(request.names) != 1:
        raise ValueError(
            f"{plural(len(request.names), 'name')} given: name one imputed name; spaces stand in quotes"
        )
    weights, graph = (whole_csr(one.read(workspace)) for one in (outputs.WEIGHTS, outputs.GRAPH))
    table = outputs.VOCABULARY.read(workspace).slice(0, weights.shape[0])
    known = np.array(table["origin"].to_pylist(), object) == "known"
    words, labels = ([one or "" for one in table[name].to_pylist()] for name in ("word", "label"))
    row = _imputed_row(request.names[0], words, workspace)
    if known[row]:
        raise ValueError(
            f"{words[row]!r} has a known vector, which the job took as it is: choose an imputed name"
        )
    method = workspace.stages()["vectors"].facts["method"]
    if method != "graph":
        raise ValueError(
            f"the vectors are those of {METHODS[method]}, which are no mixtures of known vectors along the graph: "
            'explain takes those of imputation.method = "graph"'
        )
    shares = known_shares(weights, known, row)
    n_shares = int((shares > 0).sum())
    order = np.argsort(-shares, kind="stable")[: min(request.n, n_shares)].tolist()
    rows: list[dict[str, Any]] = []
    for at, (steps, chance) in zip(order, strongest_paths(weights, known, row, order), strict=True):
        label = {"label": labels[at]} if any(labels) else {}
        share = {"share %": 100 * float(shares[at]), "path %": 100 * chance}
        path = " → ".join(words[step] for step in steps)
        rows.append({"known name": words[at], **label, **share, "strongest path": path})
    if n_shares > len(order):
        others = 100 * float(shares.sum() - shares[order].sum())
        rows.append({"known name": f"{n_shares - len(order):,} other known names", "share %": others})
    rows.append({"known name": "sum", "share %": 100 * float(shares.sum())})
    caption = (
        "A share is the probability that a walk over the weights, from the name on, ends at the known name; the "
        "strongest path is the most probable of these walks, and its percentage that of this one path."
    )
    # The largest difference of the mixture and the stored vector, relative to the vector's largest value.
    vectors, mixed = outputs.VECTORS.read(workspace), np.flatnonzero(shares)
    found, parts = (np.asarray(one, np.float64) for one in compute((vectors[[row]], vectors[mixed])))
    largest = max(np.abs(found).max(), np.finfo(float).tiny)
    difference = float(np.abs(shares[mixed] @ parts - found[0]).max() / largest)
    n_half = int(np.argmax(np.cumsum(-np.sort(-shares)) >= 0.5)) + 1
    sentence = (
        "The imputed vector is the sum of the known vectors, each times its share. The shares add up to one; "
        f"half of it is reached by {plural(n_half, 'name')}."
    )
    near, distance = weights[[row]], dict(zip(*(graph[[row]].indices, graph[[row]].data), strict=True))
    neighbors = [
        {
            "neighbor": words[at],
            "origin": "known" if known[at] else "imputed",
            "weight": weight,
            "distance": distance.get(at),
        }
        for weight, at in sorted(
            zip(near.data.tolist(), near.indices.tolist(), strict=True), key=lambda one: -one[0]
        )
    ]
    of_neighbors = (
        "The names that it is rebuilt from in the table, their weights, which sum to one, and distances."
    )
    return Answer(
        f"{words[row]}: a mixture of {plural(n_shares, 'known name')}",
        [sentence],
        {"name": words[row], "difference": difference},
        [
            TermTable("known names", rows, {"share %": 2, "path %": 2}, caption),
            TermTable("neighbors", neighbors, {"weight": 3, "distance": 3}, of_neighbors),
        ],
    )


def _imputed_row(name: str, words: list[str], workspace: Workspace) -> int:
    (name,), _ = known_words([name], words, names_in_table(workspace))
    if name not in words:
        left_out = {one["name"]: one["reason"] for one in outputs.LEFT_OUT.read(workspace).to_pylist()}
        if name in left_out:
            raise ValueError(f"{name!r} was left out of the table: {left_out[name]}")
        refuse_unknown("name", name, words)
    return words.index(name)
