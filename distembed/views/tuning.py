"""The keys of a job chosen by an evaluation set: every candidate is a run, and what candidates share is made once.

A candidate is a whole job, with a plan of its memory, a graph of its own, and blocks that survive a kill. Candidates
share what they have in common through the store: those with equal counts have one workspace, in which the stages that
do not change are kept, and the job's own finished stages are copied there first. Each takes all workers.

A set of words or sentences, or what a job finds of its own items, judges the candidates. The items are divided into two
halves by a hash of their words. One half chooses, and the other one, which no choice has seen, tells what was gained.
"""

from __future__ import annotations

import json
import math
import shlex
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from importlib import import_module
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np
import tomli_w
from numpy.typing import NDArray
from sklearn.model_selection import ParameterGrid

from distembed.evaluation.scoring import Policy
from distembed.evaluation.sentences import evaluate_sentences
from distembed.evaluation.words import evaluate_sets
from distembed.evaluation.wordsets import EvaluationSet, find_sets
from distembed.files import replacing
from distembed.job.inputs import stamps_at
from distembed.job.model import Job, JobError
from distembed.job.opening import workspace_of
from distembed.job.progress import Reporter
from distembed.job.run import run_stages
from distembed.job.stage import OwnItems, read_vectors, system_of
from distembed.job.state import stage_states
from distembed.job.workers import Workers
from distembed.storage.records import digest_of_json
from distembed.storage.workspace import Workspace
from distembed.urls import opened, url_to_fs
from distembed.views.report.sections import set_score
from distembed.views.texts import open_encoder

SCORES = "scores.json"
"""The file, among the workspaces of the candidates, with the scores of those that are finished."""

HALVES = ("chosen", "held out")

MEASURES = ("value", "low", "high", "known", "total")
"""What is stored of a score; the interval is NaN where none is computed."""

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


def tune(
    job_of: JobOf,
    grid: Mapping[str, Sequence[Any]],
    on: str | None = None,
    *,
    place: str | None = None,
    scheduler: str | None = None,
    n_workers: int | None = None,
    reporter: Reporter | None = None,
    allow_code: bool = False,
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
        that judges itself, as an imputation by hidden names, takes none.
    place : str, optional
        Where the workspaces of the candidates lie; by default at the place of the job's own, its name with ``.tune``.
    scheduler, n_workers : str, int, optional
        Where the tasks of each candidate run, and on how many workers; by default as the job says.
    reporter : Reporter, optional
    allow_code : bool
        Let the job call the Python functions that it names.

    Raises
    ------
    JobError
        If a key is unknown or a value not allowed, a key changes no vectors, or the job makes no word vectors.
    ValueError
        If the file holds no set, or no item of one of its halves is known.
    """
    base, reporter = job_of(()), reporter or Reporter()
    place = place or f"{base.job.workspace.rstrip('/')}.tune"
    (shared, last, identity, judge), own = judge_of(base, on), workspace_of(base)

    def job_with(keys: Keys) -> tuple[Job, dict[str, str]]:
        """Return a job with some keys, and the fingerprint of each stage up to the one that is judged.

        Where a file that was read is gone, what the workspace of the base job recorded of it stands in for it.
        """
        job = job_of(tuple(map("=".join, as_settings(keys))))
        specs = system_of(job).stages(job)
        names = [spec.name for spec in specs]
        if shared not in names or last not in names:
            raise JobError(
                f"a job of the method {job.job.system} has no stages {shared} and {last}: tune chooses "
                "among word vectors of counts, as those of the method psdvec, and among imputations"
            )
        wanted = specs[: names.index(last) + 1]
        states = stage_states(job, own, specs=wanted, look=stamps_at)
        return job, {state.spec.name: state.fingerprint for state in states}

    for name, values in grid.items():  # before anything runs: unknown keys, values not allowed, idle keys
        made = [job_with({name: value}) for value in values]
        judged = {(stages[last], str(getattr(job, "evaluation", ""))) for job, stages in made}
        if len(values) > 1 and len(judged) == 1:
            raise JobError(
                f"{name} changes neither the {last} nor how they are judged: leave it out of the grid"
            )
    found, measure, known = list[Candidate](), "", dict[str, Any]()
    filesystem, path = url_to_fs(f"{place}/{SCORES}")
    if filesystem.exists(path):
        with opened(f"{place}/{SCORES}", "r", encoding="utf-8") as file:
            known = json.load(file)
    for keys in ({}, *ParameterGrid({name: list(values) for name, values in grid.items()})):
        job, stages = job_with(keys)
        section = getattr(job, "evaluation", None)
        options = {} if section is None else section.model_dump(mode="json", exclude={"sets"})
        name = digest_of_json([stages[last], options, identity])
        if name not in known:
            reporter.note(f"candidate {in_words(keys) or 'the job as it is'}")
            workspace = f"{place}/{stages[shared][:12]}"
            if own is not None and not Workspace.exists(workspace):
                done = own.stages().get(shared)
                if done is not None and done.fingerprint == stages[shared]:
                    own.copy_to(workspace)
            job = job.model_copy(update={"job": job.job.model_copy(update={"workspace": workspace})})
            n, limit = n_workers or job.resources.workers, job.resources.memory_limit
            by = Workers(scheduler=scheduler, n_workers=n, memory_limit=limit)
            run_stages(job, workers=by, reporter=reporter, until=last, allow_code=allow_code, replace=True)
            known[name] = judge(job)
            with (
                replacing(path, filesystem=filesystem) as partial_path,
                filesystem.open(partial_path, "w") as file,
            ):
                json.dump(known, file, indent=1)
        scores = known[name]
        found.append(Candidate(dict(keys), scores["chosen"], scores["held out"]))
        measure = scores["measure"]
    as_it_is, *others = found
    return Tuned(sorted(others, key=lambda one: -one.chosen["value"]), as_it_is, measure)


def parse_grids(texts: Iterable[str]) -> dict[str, list[Any]]:
    """Return the values of each key of grids ``section.key=value,value``, each value written as in TOML.

    Those of one key are joined.

    Raises
    ------
    JobError
        If a text is not of that form.
    """
    found: dict[str, list[Any]] = {}
    for text in texts:
        key, equals, values = text.partition("=")
        if not (equals and "." in key and values.strip()):
            raise JobError(
                f"the grid {text!r} is not of the form section.key=value,value, as psdvec.smoothing=0.02,0.1"
            )
        try:
            parsed = tomllib.loads(f"values = [{values}]")["values"]
        except ValueError:
            parsed = [value.strip() for value in values.split(",")]
        known = found.setdefault(key.strip(), [])
        for value in parsed:
            known += [] if value in known else [value]
    return found


def in_words(keys: Keys) -> str:
    """Return values of keys as the options of a command that sets them."""
    return " ".join(f"--set {shlex.quote(f'{name}={value}')}" for name, value in as_settings(keys))


def as_settings(keys: Keys) -> list[tuple[str, str]]:
    """Return keys and their values as `--set` takes them: text as it is, everything else as in TOML."""
    written = {
        name: value if isinstance(value, str) else tomli_w.dumps({"v": value}).removeprefix("v = ")
        for name, value in keys.items()
    }
    return [(name, " ".join(text.split())) for name, text in written.items()]


# --- what judges -----------------------------------------------------------------------------------------------


def judge_of(base: Job, on: str | None) -> tuple[str, str, list[str], Callable[[Job], dict[str, Any]]]:
    """Return what judges the candidates of a job: the set of a file, or what the job finds of its own items.

    Returns
    -------
    tuple
        The stage whose outputs candidates share where they are equal, the one that a candidate runs to, what tells the
        items from others, and what returns the measure and the scores of each half by a job that has run.

    Raises
    ------
    JobError
        If a job does not judge itself and no file is given, or does and one is.
    ValueError
        If the file holds not one set.
    """
    own = system_of(base).own_items
    if own is not None:
        if on is not None:
            raise JobError(
                f"a job of the method {base.job.system} judges itself by its {own.measure}: leave out --on"
            )
        return own.shared, own.last, [own.measure], partial(_scores_of_own, own)
    if on is None:
        raise JobError(
            f"a job of the method {base.job.system} does not judge itself: give --on FILE, an evaluation set"
        )
    found = [one for one in find_sets(on, sentences=True).sets if one.task != "classification"]
    if len(found) != 1:
        raise ValueError(f"{on} holds {len(found)} evaluation sets: name the file of one, which chooses")
    # The values once more: of a long array repr leaves out the middle.
    identity = [*map(repr, found[0]), repr(found[0].values.tolist())]
    return "cooccurrence", "vectors", identity, partial(_scores_of_set, found[0])


def halves_of(keys: Iterable[str]) -> NDArray[np.int64]:
    """Return the half, 0 or 1, that each item is in: it depends on the words of the item alone."""
    return np.array([crc32(key.encode()) >> 16 & 1 for key in keys], dtype=np.int64)


def _scores_of_own(own: OwnItems, job: Job) -> dict[str, Any]:
    """Return the mean over the job's own items of each half, with its interval by the deviation of the items."""
    found = import_module(own.module).judged_items(Workspace.open(job.job.workspace))
    every = np.array(list(found.values()))
    scores, halves = dict[str, Any](), halves_of(found)
    for number, half in enumerate(HALVES):
        values = every[halves == number]
        if values.size < 2:
            raise ValueError(
                f"of the half of the names that is {half}, {values.size} were judged: give a job of more names whose "
                "truth it knows, or raise evaluation.max_names"
            )
        mean, reach = float(values.mean()), 1.96 * float(values.std(ddof=1)) / math.sqrt(values.size)
        scores[half] = dict(
            zip(MEASURES, (mean, mean - reach, mean + reach, values.size, values.size), strict=True)
        )
    return {"measure": own.measure, **scores}


def _scores_of_set(word_set: EvaluationSet, job: Job) -> dict[str, Any]:
    """Return the score of each half of a set, of words or of pairs of sentences, by the vectors of a candidate."""
    workspace = Workspace.open(job.job.workspace)
    vectors = read_vectors(workspace)
    if word_set.task == "sentences":
        encoder = open_encoder(job, vectors=vectors, allow_code=True)  # whose code has just run
        score_of = partial(evaluate_sentences, encoder)
    else:
        section: Any = getattr(job, "evaluation")  # noqa: B009 - not of every job
        policy = Policy(section.case, getattr(section, "unknown", "skip"))
        score_of = partial(evaluate_sets, vectors, policy=policy)
    scores, halves = dict[str, Any](), halves_of(map(repr, word_set.items))
    for number, half in enumerate(HALVES):
        one = set_score(score_of(sets=[word_set.part(halves == number)]))
        if not one.known + one.composed or math.isnan(one.value):
            raise ValueError(
                f"of the half of {word_set.name} that is {half}, {one.known} of {one.total} items are "
                "known: give a set with more items, or of the language of the corpus"
            )
        measures = (one.value, *(one.interval or (math.nan, math.nan)), one.known, one.total)
        scores[half] = dict(zip(MEASURES, measures, strict=True))
    return {"measure": f"{word_set.name}, {one.task}, {one.metric}", **scores}
