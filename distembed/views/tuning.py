"""The keys of a job chosen by an evaluation set: every candidate is a run, and what candidates share is made once.

`dask_ml.model_selection.GridSearchCV` holds the search: the product of the grids, the two halves of the set as its
splits, and the results. A candidate is not one of its tasks among others but a whole job, with a plan of its memory, a
graph of its own, and blocks that survive a kill. Candidates share what they have in common through the store: those
with equal counts have one workspace, in which the stages that do not change are kept, and the job's own finished stages
are copied there first. Where there are workers and memory for several, they run at the same time (`candidates`).

What judges them is in `distembed.views.tuning_judges`.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import tomli_w
from dask_ml.model_selection import GridSearchCV
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.model_selection import ParameterGrid

from distembed.display import plural
from distembed.files import replacing
from distembed.job.inputs import stamps_at
from distembed.job.model import Job, JobError
from distembed.job.opening import existing_workspace
from distembed.job.progress import Reporter
from distembed.job.run import run_stages
from distembed.job.stage import StageSpec, system_of
from distembed.job.state import stage_states
from distembed.job.tables import Piece, Table
from distembed.job.workers import LOCAL_SCHEDULERS, Workers
from distembed.storage.records import digest_of_json
from distembed.storage.workspace import Workspace
from distembed.urls import opened, url_to_fs
from distembed.views.candidates import branches_of, most_at_once, run_at_once
from distembed.views.tuning_judges import HALVES, MEASURES, Judge, collecting, judge_of

SCORES = "scores.json"
"""The file, beside the workspaces of the candidates, with the scores of those that are finished."""

Keys = Mapping[str, Any]
"""Values of keys of a job, by "section.key"."""

JobOf = Callable[[tuple[str, ...]], Job]
"""Returns a job with some keys set, each as ``section.key=value``."""


class Candidate(NamedTuple):
    """Values of the keys, the scores of the half that chooses and of the half that is held out, and collected rows.

    A score is value, lower and upper end of the interval, known and all items.
    """

    keys: dict[str, Any]
    chosen: dict[str, float]
    held_out: dict[str, float]
    rows: Sequence[dict[str, Any]] = ()


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
    on: str | None = None,
    *,
    place: str | None = None,
    workers: Callable[[Job], Workers] | None = None,
    reporter: Reporter | None = None,
    allow_code: bool = False,
    at_once: int | None = 1,
    collect: str | None = None,
) -> Tuned:
    """Run a job with every combination of some values of its keys, and score each on a set of words.

    Parameters
    ----------
    job_of : callable
        Returns the job with some keys set, each as ``section.key=value``; without any, the job as it is.
    grid : mapping of str to sequence
        The values of each "section.key".
    on : str, optional
        A file of an evaluation set, of words or of pairs of sentences; its items are divided into two halves. A job
        that judges itself, as an imputation by hidden names, needs none; of a file with a name on each line only those
        names judge it.
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
    collect : str, optional
        A table of the job that is kept of each candidate, which then runs to its end.

    Raises
    ------
    JobError
        If a key is unknown or a value not allowed, a key changes no vectors, or the job makes no word vectors, or no
        table `collect`.
    ValueError
        If the file holds no set, or no item of one of its halves is known.
    """
    base = job_of(())
    place = place or f"{base.job.workspace.rstrip('/')}.tune"
    by = judge_of(base, on) if collect is None else collecting(judge_of(base, on), base, collect)
    search = Search(job_of, base, place, by, workers or _threads, reporter or Reporter(), allow_code)
    _check_grid(grid, search)
    if at_once != 1:
        search.make_together(
            [{}, *ParameterGrid({name: list(values) for name, values in grid.items()})], at_once
        )
    found = [one._replace(rows=search.judge(one.keys).get("rows", ())) for one in _searched(search, grid)]
    scores = search.judge({})
    best_first = sorted(found, key=lambda one: -one.chosen["value"])
    return Tuned(best_first, Candidate({}, scores["chosen"], scores["held out"]), scores["measure"])


class Search(NamedTuple):
    """What all candidates of a search share; see `tune`. `base` is the job as it is."""

    job_of: JobOf
    base: Job
    place: str
    by: Judge
    workers: Callable[[Job], Workers]
    reporter: Reporter
    allow_code: bool

    def job_with(self, keys: Keys) -> Job:
        """Return the job with some keys set."""
        return self.job_of(tuple(map("=".join, _as_settings(keys))))

    def judge(self, keys: Keys) -> dict[str, Any]:
        """Return the scores of each half, and what they measure; the job is run unless they are known."""
        job = self.job_with(keys)
        known, name = _read_scores(self.place), _identity(job, self.base, self.by)
        if name not in known:
            self.reporter.note(f"candidate {in_words(keys) or 'the job as it is'}")
            own = _in_place(job, self.place, self.base, self.by)
            made = _made(own, self.workers(own), self.by, self.allow_code, self.reporter)
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
            name = _identity(job, self.base, self.by)
            if name not in known:
                named[name] = f"candidate {in_words(keys) or 'the job as it is'}"
                candidates[name] = (
                    _in_place(job, self.place, self.base, self.by),
                    _fingerprints(job, self.base, self.by),
                )
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
            partial(_made, by=self.by, allow_code=self.allow_code),
            lambda name, scores: _write_scores(self.place, {**_read_scores(self.place), name: scores}),
            begun=lambda name: self.reporter.note(named[name]),
        )

    def _most_at_once(self) -> int:
        with self.workers(self.base) as workers:
            if workers.scheduler not in {None, *LOCAL_SCHEDULERS}:
                workers.start()
            return most_at_once(self.base, workers)


def _made(
    job: Job, workers: Workers, by: Judge, allow_code: bool, reporter: Reporter | None = None
) -> dict[str, Any]:
    """Run a candidate in its workspace, and return its scores."""
    _run_to(job, by.last, workers, allow_code, reporter)
    return by.scores(job)


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


def collected_rows(tuned: Tuned) -> Table:
    """Return the collected rows of all candidates as a table, each after the keys of its candidate."""
    rows = [{**dict(_as_settings(one.keys)), **row} for one in tuned.candidates for row in one.rows]
    batch = pa.RecordBatch.from_pylist(rows)
    return Table(batch.schema, None, len(rows), [Piece(batch, None)], plural(len(rows), "row"))


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
    except ValueError:
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
    halves = np.arange(len(HALVES))

    def judge(keys: Keys) -> dict[str, Any]:  # scikit-learn copies its parameters, but for functions
        return search.judge(keys)

    model = GridSearchCV(
        JobVectors(judge),
        {name: list(values) for name, values in grid.items()},
        scoring={name: _scorer(name) for name in MEASURES},
        cv=[(halves, halves[[number]]) for number in halves],
        refit=False,
        scheduler="synchronous",
    )
    results = model.fit(halves).cv_results_
    scores = [
        [{name: float(results[f"split{half}_test_{name}"][row]) for name in MEASURES} for half in range(2)]
        for row in range(len(results["params"]))
    ]
    return [
        Candidate(dict(keys), chosen, held_out)
        for keys, (chosen, held_out) in zip(results["params"], scores, strict=True)
    ]


def _scorer(name: str) -> Callable[[JobVectors, NDArray[np.int64], Any], float]:
    """Return what reads one measure of the half that the tested items are of."""

    def score(estimator: JobVectors, X: NDArray[np.int64], _y: Any = None) -> float:
        return float(estimator.scores_[HALVES[int(X[0])]][name])

    return score


def _check_grid(grid: Mapping[str, Sequence[Any]], search: Search) -> None:
    """Refuse a grid before anything runs: unknown keys, values not allowed, keys that change no vectors."""
    for name, values in grid.items():
        made = {
            _fingerprints(search.job_with({name: value}), search.base, search.by)[search.by.last]: value
            for value in values
        }
        judged = {str(getattr(search.job_with({name: value}), "evaluation", "")) for value in values}
        if len(values) > 1 and len(made) == len(judged) == 1:
            raise JobError(
                f"{name} changes neither the {search.by.last} nor how they are judged: leave it out of the grid"
            )


def _fingerprints(job: Job, base: Job, by: Judge) -> dict[str, str]:
    """Return the fingerprint of each stage up to the one that is judged.

    Where a file that was read is gone, what the workspace of the base job recorded of it stands in for it.
    """
    specs = system_of(job).stages(job)
    names = [spec.name for spec in specs]
    if by.shared not in names or by.last not in names:
        raise JobError(
            f"a job of the method {job.job.system} has no stages {by.shared} and {by.last}: tune chooses among word "
            "vectors of counts, as those of the method psdvec, and among imputations"
        )
    wanted: tuple[StageSpec, ...] = specs[: names.index(by.last) + 1]
    recorded = existing_workspace(base.job.workspace)
    found = stage_states(job, recorded, specs=wanted, look=stamps_at)
    return {state.spec.name: state.fingerprint for state in found}


def _in_place(job: Job, place: str, base: Job, by: Judge) -> Job:
    """Return a job in the workspace of the candidates that share a stage; at first a copy of the base job's."""
    shared = _fingerprints(job, base, by)[by.shared]
    workspace = f"{place}/{shared[:12]}"
    own = existing_workspace(base.job.workspace)
    if own is not None and not Workspace.exists(workspace):
        done = own.stages()
        if by.shared in done and done[by.shared].fingerprint == shared:
            own.copy_to(workspace)
    return job.model_copy(update={"job": job.job.model_copy(update={"workspace": workspace})})


# --- what is kept ----------------------------------------------------------------------------------------------


def _identity(job: Job, base: Job, by: Judge) -> str:
    """Return what a score depends on: what is judged, how, and the items."""
    judged = getattr(job, "evaluation", None)
    options = judged.model_dump(mode="json", exclude={"sets"}) if judged is not None else {}
    return digest_of_json([_fingerprints(job, base, by)[by.last], options, by.identity])


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
