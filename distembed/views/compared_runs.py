"""Two finished jobs side by side: the keys in which they differ, and their scores with paired intervals."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from distembed.evaluation.blocks import spearman
from distembed.evaluation.scoring import (
    MIN_ANSWERED,
    Policy,
    bootstrap_interval,
    known_cosines,
    row_table,
    text_table,
)
from distembed.evaluation.words import compare, format_comparison, percent
from distembed.evaluation.wordsets import SimilaritySet, find_word_sets
from distembed.job.model import Job
from distembed.job.state import value_changes
from distembed.job.status import NOT_OF_RESULTS
from distembed.stages.words import judged_vectors
from distembed.storage.workspace import Workspace
from distembed.vectors import WordVectors


def compared_runs(first: Job, second: Job) -> list[str]:
    """Return which keys of two finished jobs differ, and their scores on the words that both have.

    A difference of similarities has the 95 % interval of draws of pairs that are the same for both sides.
    """
    trees = [job.model_dump(mode="json", exclude={*NOT_OF_RESULTS}) for job in (first, second)]
    changes = list(value_changes(*trees))
    told = [f"keys that differ: {'; '.join(changes)}"] if changes else ["no key differs that changes results"]
    sections = [getattr(job, "evaluation", None) for job in (first, second)]
    sets = getattr(sections[0], "sets", ()) and getattr(sections[1], "sets", ())
    if not sets:
        return told
    try:
        read = find_word_sets(sets)
    except FileNotFoundError as error:
        return [*told, f"no scores: {error}"]
    sides = {
        job.job.workspace: judged_vectors(job, Workspace.open(job.job.workspace)) for job in (first, second)
    }
    scores = compare(sides, sets, case=getattr(sections[0], "case", "auto"))
    shown = {place: [score.in_report for score in found] for place, found in scores.items()}
    return [
        *told,
        format_comparison(shown),
        *_paired(sides, [s for s in read if isinstance(s, SimilaritySet)]),
    ]


def _paired(sides: Mapping[str, WordVectors], sets: list[SimilaritySet]) -> Iterator[str]:
    """Yield a table of the differences on sets of similarities, where enough pairs are known to both sides."""
    rows = [("set", "second less first", "95 %", "pairs")]
    for one in sets:
        places = [row_table(vectors, one.pairs, Policy()) for vectors in sides.values()]
        known = np.all([(found >= 0).all(axis=1) for found in places], axis=0)
        if known.sum() < MIN_ANSWERED:
            continue
        before, after = (
            known_cosines(vectors, found[known])
            for vectors, found in zip(sides.values(), places, strict=True)
        )
        rows.append(_difference(one.name, before, after, one.scores[known]))
    if len(rows) > 1:
        yield text_table(rows)


def _difference(
    name: str, before: NDArray[np.float64], after: NDArray[np.float64], scores: NDArray[np.float64]
) -> tuple[str, str, str, str]:
    def gained(draw: NDArray[np.int64]) -> NDArray[np.float64]:
        return spearman(after[draw], scores[draw]) - spearman(before[draw], scores[draw])

    ends = bootstrap_interval(gained, len(scores), Policy(), max_items=len(scores))
    interval = "" if ends is None else f"{percent(ends[0])}..{percent(ends[1])}"
    return name, percent(float(gained(np.arange(len(scores))))), interval, str(len(scores))
