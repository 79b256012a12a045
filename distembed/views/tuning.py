"""The keys of a job chosen by an evaluation set: every candidate is a run, and what candidates share is made once.

`dask_ml.model_selection.GridSearchCV` holds the search: the product of the grids, the two halves of the set as its
splits, and the results. A candidate is not one of its tasks among others but a whole job, with a plan of its memory, a
graph of its own, and blocks that survive a kill. Candidates share what they have in common through the store: those
with equal counts have one workspace, in which the stages that do not change are kept, and the job's own finished stages
are copied there first. Where there are workers and memory for several, they run at the same time (`candidates`).

The items of the set are divided into two halves by a hash of their words. One half chooses, and the other one, which
no choice has seen, tells what was gained.
"""

from __future__ import annotations

import json
import math
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np
import pyarrow as pa
import tomli_w
from dask_ml.model_selection import GridSearchCV
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.model_selection import ParameterGrid

from distembed.evaluation.scoring import Policy, Score
from distembed.evaluation.sentence_files import SentencePairs, read_sentences
from distembed.evaluation.sentences import evaluate_sentences
from distembed.evaluation.words import evaluate_sets
from distembed.evaluation.wordsets import WordSet, find_word_sets, some_items
from distembed.files import replacing
from distembed.job.inputs import stamps_at
from distembed.job.model import Job, JobError
from distembed.job.opening import existing_workspace
from distembed.job.progress import Reporter, Silent
from distembed.job.run import run_stages
from distembed.job.stage import StageSpec, system_of
from distembed.job.state import standings
from distembed.job.tables import Piece, Table
from distembed.job.workers import LOCAL_SCHEDULERS, Workers
from distembed.stages.words import judged_vectors
from distembed.storage.schema import digest_of_json
from distembed.storage.workspace import Workspace
from distembed.urls import opened, url_to_fs
from distembed.views.candidates import branches_of, most_at_once, run_at_once
from distembed.views.texts import open_encoder

COUNTS, VECTORS = "cooccurrence", "vectors"
"""The stage whose outputs candidates share, and the one that a candidate runs to."""

SCORES = "scores.json"
"""The file, beside the workspaces of the candidates, with the scores of those that are finished."""

HALVES = ("chosen", "held out")

MEASURES = ("value", "low", "high", "known", "total")
"""What is kept of a score; the interval is NaN where none is computed."""

Items = WordSet | SentencePairs
"""A set that can choose: of words, or of pairs of sentences with human scores."""

Keys = Mapping[str, Any]
"""Values of keys of a job, by "section.key"."""

JobOf = Callable[[tuple[str, ...]], Job]
"""Returns a job with some keys set, each as ``section.key=value``."""


class Candidate(NamedTuple):
    """Values of the keys, and the scores of the half that chooses and of the half that is held out.

    A score is value, lower and upper end of the interval, known and all items.
    """

    keys: dict[str, Any]
    chosen: dict[str, float]
    held_out: dict[str, float]


class Tuned(NamedTuple):
    """What a search has found.

    Attributes
    ----------
    candidates : list of Candidate
        The best of the half that chooses first.
    as_it_is : Candidate
        The job without a change.
    measure : str
        Set, task and metric.
    """

    candidates: list[Candidate]
    as_it_is: Candidate
    measure: str


class JobVectors(BaseEstimator):
    """The word vectors of a job as an estimator of scikit-learn, whose parameters are keys of the job.

    Parameters
    ----------
    judge : callable
        Takes the values of the keys, and returns the scores of each half: it runs the job where that is needed.
    **keys
        By "section.key".
    """

    def __init__(self, judge: Callable[[Keys], Mapping[str, Any]], **keys: Any) -> None:
        self.judge = judge
        self.keys = keys

    def get_params(self, deep: bool = True) -> dict[str, Any]:  # noqa: ARG002 - scikit-learn's signature
        """Return the parameters by name."""
        return {"judge": self.judge, **self.keys}

    def set_params(self, **params: Any) -> JobVectors:
        """Change some parameters."""
        self.judge = params.pop("judge", self.judge)
        self.keys = {**self.keys, **params}
        return self

    def fit(self, X: Any = None, y: Any = None) -> JobVectors:  # noqa: ARG002 - scikit-learn's signature
        """Make the vectors and score both halves."""
        self.scores_ = self.judge(self.keys)
        return self


def tune(
    job_of: JobOf,
    grid: Mapping[str, Sequence[Any]],
    on: str,
    *,
    place: str | None = None,
    workers: Callable[[Job], Workers] | None = None,
    reporter: Reporter | None = None,
    allow_code: bool = False,
    at_once: int | None = 1,
) -> Tuned:
    """Run a job with every combination of some values of its keys, and score each on a set of words.

    Parameters
    ----------
    job_of : callable
        Returns the job with some keys set, each as ``section.key=value``; without any, the job as it is.
    grid : mapping of str to sequence
        The values of each "section.key".
    on : str
        A file of an evaluation set, of words or of pairs of sentences; its items are divided into two halves.
    place : str, optional
        Where the workspaces of the candidates lie; by default beside the job's own, its name with ``.tune``.
    workers : callable, optional
        Makes the workers of a job.
    reporter : Reporter, optional
    allow_code : bool
        Let the job call the Python functions that it names.
    at_once : int, optional
        How many candidates run at the same time, each in a process of its own and with a share of the workers. None
        lets each have two workers, as far as memory allows.

    Raises
    ------
    JobError
        If a key is unknown or a value not allowed, a key changes no vectors, or the job makes no word vectors.
    ValueError
        If the file holds no set, or no item of one of its halves is known.
    """
    base = job_of(())
    place = place or f"{base.job.workspace.rstrip('/')}.tune"
    search = Search(job_of, base, place, _one_set(on), workers or _threads, reporter or Silent(), allow_code)
    _check_grid(grid, search)
    if at_once != 1:
        search.make_together(
            [{}, *ParameterGrid({name: list(values) for name, values in grid.items()})], at_once
        )
    found = _searched(search, grid)
    scores = search.judge({})
    best_first = sorted(found, key=lambda one: -one.chosen["value"])
    return Tuned(best_first, Candidate({}, scores["chosen"], scores["held out"]), scores["measure"])


class Search(NamedTuple):
    """What all candidates of a search share; see `tune`. `base` is the job as it is."""

    job_of: JobOf
    base: Job
    place: str
    word_set: Items
    workers: Callable[[Job], Workers]
    reporter: Reporter
    allow_code: bool

    def job_with(self, keys: Keys) -> Job:
        """Return the job with some keys set."""
        return self.job_of(tuple(map("=".join, _as_settings(keys))))

    def judge(self, keys: Keys) -> dict[str, Any]:
        """Return the scores of each half, and what they measure; the job is run unless they are known."""
        job = self.job_with(keys)
        known, name = _read_scores(self.place), _identity(job, self.base, self.word_set)
        if name not in known:
            self.reporter.note(f"candidate {in_words(keys) or 'the job as it is'}")
            own = _in_place(job, self.place, self.base)
            made = _made(own, self.workers(own), self.word_set, self.allow_code, self.reporter)
            known = {**known, name: made}
            _write_scores(self.place, known)
        scores: dict[str, Any] = known[name]
        return scores

    def make_together(self, every: Sequence[Keys], at_once: int | None) -> None:
        """Run the candidates without scores, so many at the same time, and keep their scores."""
        known, named = _read_scores(self.place), dict[str, str]()
        candidates: dict[str, tuple[Job, dict[str, str]]] = {}
        for keys in every:
            job = self.job_with(keys)
            name = _identity(job, self.base, self.word_set)
            if name not in known:
                named[name] = f"candidate {in_words(keys) or 'the job as it is'}"
                candidates[name] = _in_place(job, self.place, self.base), _fingerprints(job, self.base)
        branches = branches_of(candidates)
        n = at_once or self._most_at_once()
        if min(n, len(branches)) < 2:
            return
        for job, until in {one.shared.job.workspace: one[:2] for one in branches if one.is_copy}.values():
            _run_to(job, until, self.workers(job), self.allow_code, self.reporter)
        run_at_once(
            branches,
            n,
            self.workers,
            partial(_made, word_set=self.word_set, allow_code=self.allow_code),
            lambda name, scores: _write_scores(self.place, {**_read_scores(self.place), name: scores}),
            begun=lambda name: self.reporter.note(named[name]),
        )

    def _most_at_once(self) -> int:
        with self.workers(self.base) as workers:
            if workers.scheduler not in {None, *LOCAL_SCHEDULERS}:
                workers.start()
            return most_at_once(self.base, workers)


def _made(
    job: Job, workers: Workers, word_set: Items, allow_code: bool, reporter: Reporter | None = None
) -> dict[str, Any]:
    """Run a candidate in its workspace, and return its scores."""
    _run_to(job, VECTORS, workers, allow_code, reporter)
    scores = _halves(job, word_set)
    one = scores["chosen"]
    return {
        "measure": f"{word_set.name}, {one.task}, {one.metric}",
        **{half: _measures(score) for half, score in scores.items()},
    }


def _run_to(job: Job, until: str, workers: Workers, allow_code: bool, reporter: Reporter | None) -> None:
    run_stages(job, workers=workers, reporter=reporter, until=until, allow_code=allow_code, replace=True)


def candidates_table(tuned: Tuned) -> Table:
    """Return the candidates as a table: each key, and the measures of the half that chooses."""
    names = list(tuned.candidates[0].keys)
    columns = {
        name: pa.array([dict(_as_settings(one.keys))[name] for one in tuned.candidates]) for name in names
    }
    columns |= {name: pa.array([one.chosen[name] for one in tuned.candidates]) for name in MEASURES}
    batch = pa.record_batch(columns)
    n = len(tuned.candidates)
    return Table(batch.schema, None, n, [Piece(batch, None)], f"{n} candidates")


def parse_grids(texts: Iterable[str]) -> dict[str, list[Any]]:
    """Return the values of each key of some grids; those of one key are joined.

    Raises
    ------
    JobError
        As `parse_grid`.
    """
    found: dict[str, list[Any]] = {}
    for key, values in map(parse_grid, texts):
        known = found.setdefault(key, [])
        for value in values:
            known += [] if value in known else [value]
    return found


def parse_grid(text: str) -> tuple[str, list[Any]]:
    """Return the key and the values of ``section.key=value,value``, each value written as in TOML.

    Raises
    ------
    JobError
        If the text is not of that form.
    """
    key, equals, values = text.partition("=")
    if not (equals and "." in key and values.strip()):
        raise JobError(
            f"the grid {text!r} is not of the form section.key=value,value, as psdvec.smoothing=0.02,0.1"
        )
    try:
        parsed = tomllib.loads(f"values = [{values}]")["values"]
    except tomllib.TOMLDecodeError:
        parsed = [value.strip() for value in values.split(",")]
    return key.strip(), parsed


def in_words(keys: Keys) -> str:
    """Return values of keys as the options of a command that sets them."""
    return " ".join(f"--set {name}={value}" for name, value in _as_settings(keys))


def _as_settings(keys: Keys) -> list[tuple[str, str]]:
    """Return keys and their values as `--set` takes them: text as it is, everything else as in TOML."""
    written = {
        name: value if isinstance(value, str) else tomli_w.dumps({"v": value}).removeprefix("v = ")
        for name, value in keys.items()
    }
    return [(name, " ".join(text.split())) for name, text in written.items()]


def _threads(job: Job) -> Workers:
    return Workers(n_workers=job.resources.workers, memory_limit=job.resources.memory_limit)


# --- the search ----------------------------------------------------------------------------------------------


def _searched(search: Search, grid: Mapping[str, Sequence[Any]]) -> list[Candidate]:
    """Return every candidate of a grid with its scores."""
    halves = item_halves(search.word_set)
    every = np.arange(len(halves))

    def judge(keys: Keys) -> dict[str, Any]:  # scikit-learn copies its parameters, but for functions
        return search.judge(keys)

    model = GridSearchCV(
        JobVectors(judge),
        {name: list(values) for name, values in grid.items()},
        scoring={name: _scorer(name) for name in MEASURES},
        cv=[(every, np.flatnonzero(halves == number)) for number in range(len(HALVES))],
        refit=False,
        scheduler="synchronous",
    )
    results = model.fit(halves).cv_results_
    scores = [
        [{name: float(results[f"split{half}_test_{name}"][row]) for name in MEASURES} for half in range(2)]
        for row in range(len(results["params"]))
    ]
    return [Candidate(dict(keys), *pair) for keys, pair in zip(results["params"], scores, strict=True)]


def _scorer(name: str) -> Callable[[JobVectors, NDArray[np.int64], Any], float]:
    """Return what reads one measure of the half that the tested items are of."""

    def score(estimator: JobVectors, X: NDArray[np.int64], _y: Any = None) -> float:
        return float(estimator.scores_[HALVES[int(X[0])]][name])

    return score


def _check_grid(grid: Mapping[str, Sequence[Any]], search: Search) -> None:
    """Refuse a grid before anything runs: unknown keys, values not allowed, keys that change no vectors."""
    for name, values in grid.items():
        made = {
            _fingerprints(search.job_with({name: value}), search.base)[VECTORS]: value for value in values
        }
        judged = {str(getattr(search.job_with({name: value}), "evaluation", "")) for value in values}
        if len(values) > 1 and len(made) == len(judged) == 1:
            raise JobError(
                f"{name} changes neither the vectors nor how they are judged: leave it out of the grid"
            )


def _fingerprints(job: Job, base: Job) -> dict[str, str]:
    """Return the fingerprint of each stage up to the vectors.

    Where a file that was read is gone, what the workspace of the base job recorded of it stands in for it.
    """
    specs = system_of(job).stages(job)
    names = [spec.name for spec in specs]
    if COUNTS not in names or VECTORS not in names:
        raise JobError(
            f"a job of the method {job.job.system} has no stages {COUNTS} and {VECTORS}: tune chooses among word "
            "vectors of counts, as those of the method psdvec"
        )
    wanted: tuple[StageSpec, ...] = specs[: names.index(VECTORS) + 1]
    recorded = existing_workspace(base.job.workspace)
    found = standings(job, recorded, specs=wanted, look=stamps_at)
    return {standing.spec.name: standing.fingerprint for standing in found}


def _in_place(job: Job, place: str, base: Job) -> Job:
    """Return a job in the workspace of the candidates with its counts; at first a copy of the base job's."""
    counts = _fingerprints(job, base)[COUNTS]
    workspace = f"{place}/{counts[:12]}"
    own = existing_workspace(base.job.workspace)
    if own is not None and not Workspace.exists(workspace):
        done = own.stages()
        if COUNTS in done and done[COUNTS].fingerprint == counts:
            own.copy_to(workspace)
    return job.model_copy(update={"job": job.job.model_copy(update={"workspace": workspace})})


# --- the scores ----------------------------------------------------------------------------------------------


def item_halves(word_set: Items) -> NDArray[np.int64]:
    """Return the half, 0 or 1, that each item of a set is in: it depends on the words of the item alone."""
    items = list(zip(*word_set[2:], strict=True)) if isinstance(word_set, SentencePairs) else word_set[1]
    return np.array([crc32(repr(item).encode()) >> 16 & 1 for item in items], dtype=np.int64)


def _halves(job: Job, word_set: Items) -> dict[str, Score]:
    """Return the score of a finished candidate on each half."""
    score_of, halves = _scoring(job, word_set), item_halves(word_set)
    scores = {name: score_of(some_items(word_set, halves == number)) for number, name in enumerate(HALVES)}
    for name, score in scores.items():
        if not score.known or math.isnan(score.value):
            raise ValueError(
                f"of the half of {word_set.name} that is {name}, {score.known} of {score.total} items are known: give "
                "a set with more items, or of the language of the corpus"
            )
    return scores


def _scoring(job: Job, items: Items) -> Callable[[Any], Score]:
    """Return what scores a part of a set by the vectors of a finished candidate."""
    place = Workspace.open(job.job.workspace)
    vectors = judged_vectors(job, place)
    if isinstance(items, SentencePairs):
        encoder = open_encoder(place, vectors=vectors)
        return lambda part: evaluate_sentences(encoder, [part])[0]
    policy = Policy(getattr(job, "evaluation").case)  # noqa: B009 - not of every job
    return lambda part: evaluate_sets(vectors, [part], policy)[0]


def _one_set(path: str) -> Items:
    sentences = read_sentences(Path(path)) if Path(path).is_file() else None
    if isinstance(sentences, SentencePairs):
        return sentences
    found = find_word_sets(path)
    if len(found) != 1:
        raise ValueError(f"{path} holds {len(found)} evaluation sets: name the file of one, which chooses")
    return found[0]


def _identity(job: Job, base: Job, word_set: Items) -> str:
    """Return what a score depends on: the vectors, how they are judged, and the items."""
    judged = getattr(job, "evaluation", None)
    options = judged.model_dump(mode="json", exclude={"sets"}) if judged is not None else {}
    items = [word_set.name, *(repr(field) for field in word_set)]
    return digest_of_json([_fingerprints(job, base)[VECTORS], options, items])


def _measures(score: Score) -> dict[str, float]:
    low, high = score.interval or (math.nan, math.nan)
    return dict(zip(MEASURES, (score.value, low, high, score.known, score.total), strict=True))


def _read_scores(place: str) -> dict[str, Any]:
    try:
        with opened(f"{place}/{SCORES}", "r", encoding="utf-8") as file:
            found: dict[str, Any] = json.load(file)
    except FileNotFoundError:
        return {}
    return found


def _write_scores(place: str, scores: Mapping[str, Any]) -> None:
    filesystem, path = url_to_fs(f"{place}/{SCORES}")
    with replacing(path, filesystem=filesystem) as partial, filesystem.open(partial, "w") as file:
        json.dump(scores, file, indent=1)
