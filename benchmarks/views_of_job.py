"""Write the vectors of a finished job with sides: each part alone, joined, and with the direction of its spelling.

``python -m benchmarks.views_of_job WORKSPACE FOLDER`` writes a vector file of each, for ``benchmarks.rival_table`` and
``benchmarks.paired_difference``. The spelling of a part is its columns of the job's map of n-grams.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import distembed as de
from benchmarks.measures import run_main, tell
from distembed.execution import compute
from distembed.factorization.joined_vectors import centered_directions
from distembed.job.opening import open_job
from distembed.job.stage import read_subwords
from distembed.linalg.csr import unit_rows
from distembed.stages.corpus import vocabulary_of
from distembed.systems.psdvec.sides import parts_of, weights_of

Rows = NDArray[np.float32]


def candidates(workspace: str) -> Iterator[tuple[str, NDArray[np.floating]]]:
    """Yield the name and the vectors of each row."""
    job, opened = open_job(workspace), de.Workspace.open(workspace)
    names = ["psdvec", "sides"]
    parts = [np.asarray(compute(part)) for part in parts_of(opened)]
    bounds = list(pairwise(np.cumsum([0, *(part.shape[1] for part in parts)]).tolist()))
    table, words = read_subwords(opened), vocabulary_of(opened).words
    spelled = table.compose(words) - table.mean
    for name, part, (first, last) in zip(names, parts, bounds, strict=True):
        yield name, part
        yield f"{name}, spelling", with_direction(part, spelled[:, first:last])
    directions = (centered_directions(part, part.mean(axis=0)).astype(np.float32) for part in parts)
    joined = np.hstack([weight * rows for weight, rows in zip(weights_of(job), directions, strict=True)])
    yield "joined", joined
    yield "the job", np.asarray(compute(opened.array("vectors")))


def with_direction(rows: Rows, spelled: Rows) -> Rows:
    """Return the directions of rows about their mean with those of their spelling added."""
    return unit_rows(rows - rows.mean(axis=0)) + unit_rows(spelled)


def main(workspace: str, folder: Path) -> None:
    words = vocabulary_of(de.Workspace.open(workspace)).words
    folder.mkdir(parents=True, exist_ok=True)
    for name, rows in candidates(workspace):
        file = folder / f"{name.replace(', ', '-').replace(' ', '-')}.safetensors"
        de.WordVectors(words, rows).save(file)
        tell(file)


if __name__ == "__main__":
    run_main(main)
