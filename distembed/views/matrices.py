"""Reads the matrices of a workspace: its PMI and distances."""

from __future__ import annotations

import os
from typing import NamedTuple

import dask.array as da

from distembed.neighbors.distances import Metric
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

    They are between the words of a job of `psdvec` or `wordspaces`, or the names of one of `imputation`.
    `Workspace.array("distances")` is the array alone.

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
