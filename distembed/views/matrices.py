"""Reads the matrices of a workspace: its PMI, distances and neighbor graph."""

from __future__ import annotations

import os
from typing import NamedTuple

import dask.array as da
import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from distembed.execution import compute
from distembed.neighbors.distances import Metric
from distembed.neighbors.search import Measure, edge_values
from distembed.storage.workspace import Workspace
from distembed.weighting.pmi import SmoothedPMI


def read_pmi(workspace: str | os.PathLike[str]) -> SmoothedPMI[da.Array]:
    """Open the smoothed PMI that a job with ``[matrices] keep = ["pmi"]`` has kept, lazily.

    Row i and column j are words i (left) and j of the workspace's vocabulary; their PMI is
    ``constant + excess[i, j]``. `Workspace.array("pmi")` is the sparse part alone.

    Parameters
    ----------
    workspace : str or path
        A folder or URL.

    Returns
    -------
    SmoothedPMI

    Raises
    ------
    FileNotFoundError
        If there is no workspace.
    KeyError
        If the workspace keeps no PMI.

    Examples
    --------
    The workspace is the one that the example of `run_job` makes:

    >>> import distembed as de
    >>> pmi = de.read_pmi("runs/titles")
    >>> round(pmi.constant, 2)  # log 0.1
    -2.3
    >>> vocabulary = de.Vocabulary.from_table(de.Workspace.open("runs/titles").table("vocabulary"))
    >>> graph, minors = vocabulary.index(["graph", "minors"])
    >>> round(float(pmi.constant + pmi.excess.compute()[graph, minors]), 2)
    2.06
    """
    place = Workspace.open(workspace)
    if "pmi" not in place.stages():
        raise KeyError(f"{place.url} keeps no PMI: run its job with matrices.keep = ['pmi']")
    return SmoothedPMI(place.describe("pmi").spec.constant, place.array("pmi"))


class Distances(NamedTuple):
    """The distances between n named rows, ‖x - y‖ or 1 - cos(x, y) as the metric says.

    `values` is a Dask array (n, n), float32, in blocks of whole rows.
    """

    names: list[str]
    values: da.Array
    metric: Metric


def read_distances(workspace: str | os.PathLike[str]) -> Distances:
    """Open the distances that a job with ``[matrices] keep = ["distances"]`` has kept, lazily.

    They are between the words of a job of `psdvec` or `wordspaces`, the names of one of `imputation`, or the rows of
    one of `neighbors`. `Workspace.array("distances")` is the array alone.

    Parameters
    ----------
    workspace : str or path
        A folder or URL.

    Returns
    -------
    Distances

    Raises
    ------
    FileNotFoundError
        If there is no workspace.
    KeyError
        If the workspace keeps no distances.

    Examples
    --------
    The workspace is the one that the example of `run_job` makes:

    >>> import distembed as de
    >>> distances = de.read_distances("runs/titles")
    >>> distances.metric, distances.values.shape == (len(distances.names),) * 2
    ('cosine', True)
    >>> graph = distances.names.index("graph")
    >>> row = distances.values[graph].compute()  # reads one block of rows
    >>> [distances.names[i] for i in row.argsort(kind="stable")[1:3]]
    ['minors', 'a']
    """
    place = Workspace.open(workspace)
    stage = place.stages().get("distances")
    if stage is None or "distances" not in stage.outputs:
        raise KeyError(f"{place.url} keeps no distances: run its job with matrices.keep = ['distances']")
    values = place.array("distances")
    names = place.table("vocabulary")["word"].slice(0, len(values)).to_pylist()
    return Distances(names, values, stage.parameters["metric"])


class NeighborGraph(NamedTuple):
    """The nearest neighbors of n named rows, nearest first, equal ones by row number.

    `values` are distances in the metric (1 - cosine for "cosine"), or for "inner_product" the products, which fall.
    Where an approximate search found fewer than k, a row ends in -1 and infinity.
    """

    names: list[str]
    indices: NDArray[np.int64]  # (n, k)
    values: NDArray[np.float64]  # (n, k)
    metric: Measure

    @property
    def csr(self) -> sp.csr_array:
        """The values as a sparse array, (n × n): a row for each row, its entries nearest first, zeros stored."""
        found = self.indices >= 0
        indptr = np.concatenate([[0], np.cumsum(found.sum(axis=1))])
        n = len(self.names)
        return sp.csr_array((self.values[found], self.indices[found], indptr), shape=(n, n))


def read_neighbors(workspace: str | os.PathLike[str]) -> NeighborGraph:
    """Return the neighbor graph of a finished workspace of `system = "neighbors"`, in memory.

    `Workspace.open(workspace).array("neighbors")` is the same graph as a lazy array of CSR chunks.

    Parameters
    ----------
    workspace : str or path
        A folder or URL.

    Returns
    -------
    NeighborGraph

    Raises
    ------
    FileNotFoundError
        If there is no workspace.
    KeyError
        If the workspace holds no neighbor lists.

    Examples
    --------
    >>> import distembed as de
    >>> import numpy as np
    >>> np.save("points.npy", np.array([[0.0, 0.0], [1.0, 0.0], [3.0, 0.0], [3.0, 1.5]]))
    >>> job = {"job": {"system": "neighbors"}, "input": {"path": "points.npy"}}
    >>> job["neighbors"] = {"n_neighbors": 2, "metric": "euclidean"}
    >>> run = de.run_job(job, workspace="runs/points")
    >>> graph = de.read_neighbors("runs/points")
    >>> print(graph.indices)
    [[1 2]
     [0 2]
     [3 1]
     [2 1]]
    >>> print(graph.values.round(2))
    [[1.  3. ]
     [1.  2. ]
     [1.5 2. ]
     [1.5 2.5]]
    """
    place = Workspace.open(workspace)
    lists = compute(place.array("neighbor_lists"))
    metric: Measure = place.stages()["search"].parameters["neighbors"]["metric"]
    names = place.table("vocabulary")["word"].to_pylist()
    return NeighborGraph(names, lists[:, 1].astype(np.int64), edge_values(lists[:, 0], metric), metric)
