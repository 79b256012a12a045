"""Reads the matrix of smoothed PMI that a workspace keeps."""

from __future__ import annotations

import os

from distembed.storage.workspace import Workspace
from distembed.weighting.pmi import SmoothedPMI


def read_pmi(workspace: str | os.PathLike[str]) -> SmoothedPMI:
    """Open the smoothed PMI that a job with ``[psdvec] keep_pmi = true`` has kept, lazily.

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
        raise KeyError(f"{place.url} keeps no PMI: run its job with --set psdvec.keep_pmi=true")
    return SmoothedPMI(place.describe("pmi").spec.constant, place.array("pmi"))
