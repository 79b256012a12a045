"""The stored factorization of a topics job.

The caller gives the store: any object with arrays and tables by name.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import dask.array as da
import numpy as np
import pyarrow as pa

from distembed.execution import compute


class TopicStore(Protocol):
    """The store that a model is read from, such as an opened `distembed.Workspace`."""

    def array(self, name: str) -> da.Array:
        """Return an array, lazily."""

    def table(self, name: str) -> pa.Table:
        """Return a table."""


def read_topics(store: TopicStore, method: str) -> dict[str, Any]:
    """Return what a topics job has kept of the starts of a method, as the attributes of an estimator.

    Raises
    ------
    TypeError
        If the store has no arrays and tables.
    ValueError
        If the job has not run the method.
    """
    if not (hasattr(store, "array") and hasattr(store, "table")):
        raise TypeError(f"{store!r} is no opened workspace: give distembed.Workspace.open({str(store)!r})")
    rows = start_rows(store)
    kept = next((place for place, row in enumerate(rows) if row.method == method and row.kept), None)
    if kept is None:
        methods = ", ".join(dict.fromkeys(row.method for row in rows))
        raise ValueError(f"{store!r} holds no topics of {method}, but of {methods}: take that one's class")
    # the factors of a job's own method, which is its first, have no prefix
    prefix = "" if method == rows[0].method else f"{method}_"
    factors = store.array(f"{prefix}document_factors")
    number = rows[kept].start
    objective = np.array([rows[kept].loss] if number is None else loss_curves(store)[method, number])
    found = {
        "word_factors_": compute(store.array(f"{prefix}vectors")).astype(np.float64),
        "word_shares_": store.table("vocabulary")["document_count"].to_numpy() / factors.shape[0],
        "document_factors_": factors,
        "labels_": np.asarray(compute(store.array("labels")[kept])),
        "objective_": objective,
        "n_iter_": len(objective),
    }
    if method == "semantic_nmf":
        found["core_"] = compute(store.array(f"{prefix}core")).astype(np.float64)
    return found


class StartRow(NamedTuple):
    """What a topics job knows of the labels in a row of its array of labels."""

    method: str
    start: int | None  # None: the consensus of all starts of the method
    loss: float  # after the last round
    nmi: float  # the mean of the agreement with the labels of the other starts
    ari: float
    kept: bool  # whether the factors that are stored are of this row


def start_rows(store: TopicStore) -> list[StartRow]:
    """Return what a topics job knows of each row of its array of labels."""
    return [StartRow(**row) for row in store.table("starts").to_pylist()]


def loss_curves(store: TopicStore) -> dict[tuple[str, int], list[float]]:
    """Return the losses of each method and start by round, method by method."""
    curves: dict[tuple[str, int], list[float]] = {}
    for row in store.table("losses").to_pylist():
        curves.setdefault((row["method"], row["start"]), []).append(row["loss"])
    return curves
