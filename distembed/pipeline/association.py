"""Reads the matrix of smoothed PMI that a workspace keeps."""

from __future__ import annotations

import os

from distembed.storage.workspace import Workspace
from distembed.weighting.pmi import SmoothedPMI


def read_pmi(workspace: str | os.PathLike[str]) -> SmoothedPMI:
    """Open the smoothed PMI that a job with ``[psdvec] keep_pmi = true`` has kept, lazily.

    Row i and column j are words i (left) and j of the workspace's vocabulary; their PMI is
    ``constant + excess[i, j]``. `Workspace.array("pmi")` is the sparse part alone.

    Raises
    ------
    FileNotFoundError
        If there is no workspace.
    KeyError
        If the workspace keeps no PMI.

    Examples
    --------
    >>> pmi = read_pmi("runs/quickstart")  # doctest: +SKIP
    >>> pmi.constant + pmi.excess.blocks[0].compute().toarray()  # the rows of the most frequent words  # doctest: +SKIP
    """
    place = Workspace.open(workspace)
    if "pmi" not in place.stages():
        raise KeyError(f"{place.url} keeps no PMI: run its job with --set psdvec.keep_pmi=true")
    return SmoothedPMI(place.describe("pmi").spec.constant, place.array("pmi"))
