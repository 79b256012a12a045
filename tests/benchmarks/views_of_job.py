"""Score the vectors of a finished job with views: each view alone, joined, and with the direction of its spelling.

``python -m tests.benchmarks.views_of_job WORKSPACE SETS [--folder FOLDER] [--removed 1]`` prints a row for each,
by halves of the sets, as ``tests.benchmarks.views`` does, and keeps each as a vector file in FOLDER, for
``tests.benchmarks.paired_difference``. The spelling of a view is its columns of the job's map of n-grams.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import distembed as de
from distembed.execution import compute
from distembed.factorization.join_blocks import centered_directions
from distembed.job.opening import open_job
from distembed.job.word_vectors import read_subwords
from distembed.stages.corpus import vocabulary_of
from distembed.systems.psdvec.stages import parts_of, weights_of
from tests.benchmarks.measures import run_main, tell_head
from tests.benchmarks.views import COLUMNS, Judge, Rows, tell_scores, unit


def candidates(workspace: str) -> Iterator[tuple[str, NDArray[np.floating]]]:
    """Yield the name and the vectors of each row."""
    job, opened = open_job(workspace), de.Workspace.open(workspace)
    names = ["psdvec", *job.views]
    parts = [np.asarray(compute(part)) for part in parts_of(job, opened)]
    bounds = list(pairwise(np.cumsum([0, *(part.shape[1] for part in parts)]).tolist()))
    table, words = read_subwords(opened), vocabulary_of(opened).words
    spelled = table.compose(words) - table.mean
    for name, part, (first, last) in zip(names, parts, bounds, strict=True):
        yield name, part
        yield f"{name}, spelling", with_direction(part, spelled[:, first:last])
    joined = np.hstack(
        [
            weight * centered_directions(part, part.mean(axis=0)).astype(np.float32)
            for weight, part in zip(weights_of(job), parts, strict=True)
        ]
    )
    yield "joined", joined
    yield "the job", np.asarray(compute(opened.array("vectors")))


def with_direction(rows: Rows, spelled: Rows) -> Rows:
    """Return the directions of rows about their mean with those of their spelling added."""
    return unit(rows - rows.mean(axis=0)) + unit(spelled)


def main(workspace: str, sets: str, *, folder: Path | None = None, removed: int = 1) -> None:
    words: Sequence[str] = vocabulary_of(de.Workspace.open(workspace)).words
    judge = Judge(words, sets)
    tell_head("x 100: half A; half B; all", *COLUMNS)
    for name, rows in candidates(workspace):
        tell_scores(name, judge(rows, n_removed=removed))
        if folder:
            folder.mkdir(parents=True, exist_ok=True)
            de.WordVectors(words, rows).save(
                folder / f"{name.replace(', ', '-').replace(' ', '-')}.safetensors"
            )


if __name__ == "__main__":
    run_main(main)
