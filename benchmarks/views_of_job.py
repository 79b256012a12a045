"""Score the vectors of a finished job with sides: each part alone, joined, and with the direction of its spelling.

``python -m benchmarks.views_of_job WORKSPACE SETS [--folder FOLDER] [--removed 1]`` prints a row for each,
by halves of the sets, and keeps each as a vector file in FOLDER, for
``benchmarks.paired_difference``. The spelling of a part is its columns of the job's map of n-grams.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import distembed as de
from benchmarks.halves import half_of
from benchmarks.measures import run_main, tell_head, tell_row
from benchmarks.rival_table import EIGHT
from distembed.evaluation.analogies import answer_analogies
from distembed.evaluation.scoring import Policy, ask, known_cosines, spearman
from distembed.evaluation.words import choice_credits
from distembed.evaluation.wordsets import find_sets
from distembed.execution import compute
from distembed.factorization.joined_vectors import centered_directions
from distembed.job.opening import open_job
from distembed.job.stage import read_subwords
from distembed.stages.corpus import vocabulary_of
from distembed.systems.psdvec.sides import parts_of, weights_of

Rows = NDArray[np.float32]
Scores = dict[str, dict[str, float]]

HALVES = ("A", "B", "all")
OTHERS = ("EN-RW-STANFORD", "EN-MEN-TR-3k", "EN-WS-353-REL", "simlex999")
ANALOGIES = {"google": 4, "msr": 2}
"""Of the analogies, every how many are asked."""


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


def unit(rows: Rows) -> Rows:
    """Return rows scaled to unit length; a row of zeros stays zero."""
    lengths = np.sqrt(np.einsum("ij,ij->i", rows, rows))[:, None]
    return rows / np.where(lengths > 0, lengths, 1)


class Judge:
    """The sets, looked up once in a vocabulary; it scores vectors of its words by halves of the sets."""

    def __init__(self, words: Sequence[str], sets: str, halves: Sequence[str] = HALVES) -> None:
        self.words, self.halves = words, halves
        wanted = {*EIGHT, *OTHERS, *ANALOGIES}
        found = [one for one in find_sets(sets.split(",")).sets if one.name in wanted]
        space = de.WordVectors(words, np.zeros((len(words), 1), np.float32))
        self.others = [
            (half, one.name, _looked_up(space, _half(one, half)))
            for half in halves
            for one in found
            if one.task != "analogy"
        ]
        analogies = [(h, one) for h in halves for one in found if one.task == "analogy"]
        self.analogies = [(h, one.name, _known_questions(space, _half(one, h))) for h, one in analogies]

    def __call__(self, rows: Rows, *, n_removed: int = 1) -> Scores:
        """Return the scores by half: similarity and synonyms without principal components, analogies with them."""
        vectors = de.WordVectors(self.words, rows)
        cleaned = vectors.postprocess(n_components_removed=n_removed) if n_removed else vectors
        scores: Scores = {half: {} for half in self.halves}
        for half, name, (asked, human) in self.others:
            if human is None:
                questions = ask(cleaned, asked, Policy())
                scores[half][name] = float(choice_credits(questions)[questions.known].mean())
            else:
                scores[half][name] = float(spearman(known_cosines(cleaned, asked), human))
        for half in self.halves:
            scores[half]["mean"] = float(np.mean([scores[half][name] for name in EIGHT]))
        distinct, places = np.unique(
            np.concatenate([asked for *_, asked in self.analogies]), axis=0, return_inverse=True
        )
        answers = answer_analogies(vectors, distinct[:, :3])
        stops = np.cumsum([len(asked) for *_, asked in self.analogies])[:-1]
        for (half, name, asked), at in zip(self.analogies, np.split(places, stops), strict=True):
            scores[half][f"{name} +"] = float((answers.add_row[at] == asked[:, 3]).mean())
            scores[half][f"{name} x"] = float((answers.mul_row[at] == asked[:, 3]).mean())
        return scores


def _half(word_set: Any, half: str) -> Any:
    return word_set if half == "all" else half_of(word_set, development=half == "A")


def _looked_up(space: Any, word_set: Any) -> tuple[Any, Any]:
    """Return the rows of the known pairs and their human scores, or questions and None."""
    if word_set.task == "synonym":
        return word_set, None
    asked = ask(space, word_set, Policy())
    return asked.rows[asked.known], word_set.values[asked.known]


def _known_questions(space: Any, word_set: Any) -> Any:
    some = np.arange(len(word_set.items)) % ANALOGIES[word_set.name] == 0
    asked = ask(space, word_set.part(some), Policy())
    return asked.rows[asked.known]


COLUMNS = ("mean", *OTHERS, *(f"{name} {sign}" for name in ANALOGIES for sign in "+x"))


def tell_scores(name: str, scores: Scores, halves: Sequence[str] = HALVES) -> None:
    """Print one row of a table: for each column its score on each half."""
    cells = ("; ".join(f"{100 * scores[half].get(c, np.nan):.1f}" for half in halves) for c in COLUMNS)
    tell_row(name, *cells)


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
