"""The stored factorization of a topics job, and the documents that it was fitted to.

The caller gives the store: any object with arrays and tables by name.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import dask.array as da
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from scipy.sparse import csr_array

from distembed.execution import compute, readers, shared
from distembed.factorization import nmf_blocks as blocks
from distembed.factorization.clustering import document_rows
from distembed.factorization.consensus import Array
from distembed.lift import block, lift
from distembed.linalg.operators import whole_rows


class TopicStore(Protocol):
    """The store that a model is read from, such as an opened `distembed.Workspace`."""

    def array(self, name: str) -> da.Array:
        """Return an array, lazily."""

    def table(self, name: str) -> pa.Table:
        """Return a table."""


class SeenDocuments(NamedTuple):
    """The documents of a fit, looked up by the digests of their rows.

    A fit treats rows one by one, so that equal rows have equal factors.
    """

    digests: NDArray[np.uint64]
    """Uint64 array (n,), rising."""
    rows: NDArray[np.int64]
    """The row of each digest. Int64 array (n,)."""
    factors: da.Array
    """Their document factors. Dask array (n, k)."""

    @classmethod
    def of(cls, X: da.Array, factors: da.Array) -> SeenDocuments:
        """Return the documents of a matrix with the factors that a fit gave them."""
        form: dict[str, Any] = {"dtype": np.uint64, "sizes": {"l": 1}}
        digests = compute(lift(blocks.row_digests, "wd->wl", document_rows(X), **form)).ravel()
        rows = np.argsort(digests, kind="stable")
        return cls(digests[rows], rows, factors)

    def replace_seen(self, found: Array, matrix: Array) -> Array:
        """Return document factors in which documents of the fit have the factors of the fit; lazily of Dask arrays.

        A task reads the blocks of the fit that hold its documents, one after the other.
        """
        factors = whole_rows(self.factors)
        fit = StoredFit(self.digests, self.rows, np.cumsum([0, *factors.chunks[0]]), readers(factors))
        given = shared(fit) if isinstance(found, da.Array) else fit
        return lift(_keep_seen, "wk,wd->wk", found, matrix, dtype=found.dtype, fit=given)


class StoredFit(NamedTuple):
    """What a task needs of the documents of a fit: see `SeenDocuments`."""

    digests: NDArray[np.uint64]
    rows: NDArray[np.int64]
    bounds: NDArray[np.int64]
    """The first row of each block of factors, and the number of rows."""
    blocks: list[Callable[[], NDArray[Any]]]
    """What reads each block."""


@block(temporaries=4)
def _keep_seen(found: NDArray[Any], matrix: csr_array, fit: StoredFit) -> NDArray[Any]:
    """Return the factors found for a block of documents, those of the fit for documents of the fit."""
    digests = blocks.row_digests(matrix).ravel()
    place = np.minimum(np.searchsorted(fit.digests, digests), len(fit.digests) - 1)
    seen = np.flatnonzero(fit.digests[place] == digests)
    rows = fit.rows[place[seen]]
    owner = np.searchsorted(fit.bounds, rows, side="right") - 1
    kept = found.copy()
    for number in np.unique(owner):
        of_block = owner == number
        kept[seen[of_block]] = fit.blocks[number]()[rows[of_block] - fit.bounds[number]]
    return kept


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
        "seen_": SeenDocuments.of(store.array("tf_idf"), factors),
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
    """Return what a topics job knows of each row of its array of labels.

    A job of one start has no table of starts, and one that was run before there was a choice kept the smallest loss.
    """
    try:
        return [StartRow(**row) for row in store.table("starts").to_pylist()]
    except KeyError:
        pass
    last = {key: curve[-1] for key, curve in loss_curves(store).items()}
    least: dict[str, float] = {}
    for (method, _), loss in last.items():
        least[method] = min(loss, least.get(method, np.inf))
    return [
        StartRow(method, start, loss, np.nan, np.nan, loss == least[method])
        for (method, start), loss in last.items()
    ]


def loss_curves(store: TopicStore) -> dict[tuple[str, int], list[float]]:
    """Return the losses of each method and start by round, method by method."""
    curves: dict[tuple[str, int], list[float]] = {}
    for row in store.table("losses").to_pylist():
        curves.setdefault((row["method"], row["start"]), []).append(row["loss"])
    return curves
