"""What judges the candidates of `distembed tune`: a set of words or sentences, or what a job finds of its own items.

The items are divided into two halves by a hash of their words. One half chooses, and the other one, which no choice
has seen, tells what was gained.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, NamedTuple, Protocol
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from distembed.evaluation.scoring import Policy, Score
from distembed.evaluation.sentences import evaluate_sentences
from distembed.evaluation.words import evaluate_sets
from distembed.evaluation.wordsets import EvaluationSet, find_sets
from distembed.job.model import Job, JobError
from distembed.job.outputs import TableOutput
from distembed.job.stage import OwnItems, read_vectors, system_of
from distembed.storage.workspace import Workspace
from distembed.urls import opened
from distembed.views.texts import open_encoder

HALVES = ("chosen", "held out")

MEASURES = ("value", "low", "high", "known", "total")
"""What is kept of a score; the interval is NaN where none is computed."""


class Judge(Protocol):
    """Scores the halves of the items by a candidate that has run to the stage `last`; candidates may share `shared`."""

    @property
    def shared(self) -> str:
        """The stage whose outputs candidates share where they are equal."""

    @property
    def last(self) -> str:
        """The stage that a candidate runs to."""

    @property
    def identity(self) -> list[str]:
        """What tells the items from others."""

    def scores(self, job: Job) -> dict[str, Any]:
        """Return what is measured, and the measures of each half."""


def judge_of(base: Job, on: str | None) -> Judge:
    """Return what judges the candidates of a job: a file, or for a job that judges itself the names of a file, or all.

    Raises
    ------
    JobError
        If a job does not judge itself and no file is given.
    """
    own = system_of(base).own_items
    if own is not None:
        return OwnJudge(own, () if on is None else _names(on))
    if on is None:
        raise JobError(
            f"a job of the method {base.job.system} does not judge itself: give --on FILE, an evaluation set"
        )
    return WordJudge(_one_set(on))


def _names(path: str) -> tuple[str, ...]:
    with opened(path, "r", encoding="utf-8-sig") as file:
        names = tuple(dict.fromkeys(filter(None, map(str.strip, file))))
    if not names:
        raise ValueError(f"{path} holds no names: write one on each line")
    return names


class OwnJudge(NamedTuple):
    """Judges a candidate by the items of which its job knows the truth; of some `names` by these alone."""

    own: OwnItems
    names: tuple[str, ...]

    @property
    def shared(self) -> str:
        """The stage that reads the tables."""
        return self.own.shared

    @property
    def last(self) -> str:
        """The stage that judges."""
        return self.own.last

    @property
    def identity(self) -> list[str]:
        """The names."""
        return [self.own.measure, *self.names]

    def scores(self, job: Job) -> dict[str, Any]:
        """Return the mean over the items of each half, with its interval by the deviation of the items."""
        found: Mapping[str, float] = import_module(self.own.module).judged_items(
            Workspace.open(job.job.workspace)
        )
        names = self.names or tuple(found)
        halves = [crc32(name.encode()) >> 16 & 1 for name in names]
        scores = {
            half: _of_names([name for name, own in zip(names, halves, strict=True) if own == number], found)
            for number, half in enumerate(HALVES)
        }
        for half, score in scores.items():
            if score["known"] < 2:
                raise ValueError(
                    f"of the half of the names that is {half}, {score['known']} of {score['total']} were judged: give "
                    "more names whose truth the job knows, or raise evaluation.max_names"
                )
        return {"measure": self.own.measure, **scores}


def _of_names(names: list[str], found: Mapping[str, float]) -> dict[str, float]:
    values = np.array([found[name] for name in names if name in found])
    mean = float(values.mean()) if values.size else math.nan
    reach = 1.96 * float(values.std(ddof=1)) / math.sqrt(values.size) if values.size > 1 else math.nan
    return dict(zip(MEASURES, (mean, mean - reach, mean + reach, values.size, len(names)), strict=True))


class Collector(NamedTuple):
    """A judge that also keeps a table of each candidate, which runs to its end for that."""

    judge: Judge
    table: str
    last: str

    @property
    def shared(self) -> str:
        """That of the judge."""
        return self.judge.shared

    @property
    def identity(self) -> list[str]:
        """The items of the judge, and the table."""
        return [*self.judge.identity, f"table {self.table}"]

    def scores(self, job: Job) -> dict[str, Any]:
        """Return what the judge says, and the rows of the table."""
        rows = Workspace.open(job.job.workspace).table(self.table).to_pylist()
        return {**self.judge.scores(job), "rows": rows}


def collecting(judge: Judge, base: Job, table: str) -> Collector:
    """Return a judge that also keeps a table of each candidate.

    Raises
    ------
    JobError
        If jobs of this method have no table of the name.
    """
    system = system_of(base)
    names = [output.name for output in system.outputs if isinstance(output, TableOutput)]
    if table not in names:
        raise JobError(
            f"a job of the method {base.job.system} has no table {table!r}: it has {', '.join(names)}"
        )
    return Collector(judge, table, system.stages(base)[-1].name)


class WordJudge(NamedTuple):
    """Judges a candidate by its word vectors on a set."""

    word_set: EvaluationSet
    """Of words, or of pairs of sentences with human scores."""

    shared: str = "cooccurrence"
    last: str = "vectors"

    @property
    def identity(self) -> list[str]:
        """The items of the set."""
        return [self.word_set.name, *(repr(field) for field in self.word_set)]

    def scores(self, job: Job) -> dict[str, Any]:
        """Return what is measured, and the measures of each half."""
        score_of, halves = _scoring(job, self.word_set), item_halves(self.word_set)
        scores = {name: score_of(self.word_set.part(halves == number)) for number, name in enumerate(HALVES)}
        for name, score in scores.items():
            if not score.known or math.isnan(score.value):
                raise ValueError(
                    f"of the half of {self.word_set.name} that is {name}, {score.known} of {score.total} items are "
                    "known: give a set with more items, or of the language of the corpus"
                )
        one = scores["chosen"]
        measure = f"{self.word_set.name}, {one.task}, {one.metric}"
        return {"measure": measure, **{half: _measures(score) for half, score in scores.items()}}


def _measures(score: Score) -> dict[str, float]:
    low, high = score.interval or (math.nan, math.nan)
    return dict(zip(MEASURES, (score.value, low, high, score.known, score.total), strict=True))


def item_halves(word_set: EvaluationSet) -> NDArray[np.int64]:
    """Return the half, 0 or 1, that each item of a set is in: it depends on the words of the item alone."""
    return np.array([crc32(repr(item).encode()) >> 16 & 1 for item in word_set.items], dtype=np.int64)


def _scoring(job: Job, items: EvaluationSet) -> Callable[[Any], Score]:
    """Return what scores a part of a set by the vectors of a finished candidate."""
    place = Workspace.open(job.job.workspace)
    vectors = read_vectors(place)
    if items.task == "sentences":
        encoder = open_encoder(place, vectors=vectors)
        return lambda part: evaluate_sentences(encoder, [part])[0]
    policy = Policy(getattr(job, "evaluation").case)  # noqa: B009 - not of every job
    return lambda part: evaluate_sets(vectors, [part], policy)[0]


def _one_set(path: str) -> EvaluationSet:
    found = [one for one in find_sets(path, sentences=True).sets if one.task != "classification"]
    if len(found) != 1:
        raise ValueError(f"{path} holds {len(found)} evaluation sets: name the file of one, which chooses")
    return found[0]
