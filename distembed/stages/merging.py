"""Merges workspaces that were counted apart into one, with the bits of counting together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from distembed.corpus.withdrawn import Withdrawal
from distembed.job.inputs import FILES, Stamps, path_names, stamps_at
from distembed.job.model import JobError
from distembed.job.opening import JOB_FILE, existing_workspace, job_of
from distembed.job.progress import Reporter, Silent
from distembed.job.run import Asked, Outcome, run_specs
from distembed.job.stage import Context, nothing_to_check, system_of
from distembed.job.withdrawals import found_again, read_withdrawals
from distembed.job.workers import Workers
from distembed.stages import outputs
from distembed.stages.corpus import token_facts
from distembed.stages.corpus_growth import KeptItem, items_of
from distembed.stages.corpus_sections import CorpusJob
from distembed.storage.workspace import Workspace

SAME = ("corpus", "vocabulary", "counting")
"""The sections of a job that must say the same in workspaces that are merged."""
OF_A_MACHINE = ("job", "resources", "report")
"""Sections that say nothing of the results."""


def merge(
    places: Sequence[str],
    *,
    to: str,
    workers: Workers | None = None,
    reporter: Reporter | None = None,
    until: str | None = None,
) -> Outcome:
    """Merge workspaces that were counted apart: tokens and counts as if their corpora had been read together.

    Their files need not be there. Later stages are computed with the settings of the first workspace.

    Parameters
    ----------
    places : sequence of str
        Two or more workspaces, in the order in which their corpora are to stand.
    to : str
        The workspace to make. A merge that was stopped goes on there.
    workers, reporter, until
        As of `run_stages`.

    Raises
    ------
    JobError
        If a workspace is named twice, has counted nothing, is of another system or of other settings, or holds a file
        that another holds, too.
    """
    reporter = reporter or Silent()
    found = [Workspace.open(place) for place in places]
    _check_apart(found, to)
    jobs = [_job(workspace) for workspace in found]
    _check_settings(jobs, places, reporter)
    _check_files(found, places)
    withdrawals = tuple(one for workspace in found for one in read_withdrawals(workspace))
    _check_withdrawn(found, withdrawals)
    job = _merged_job(jobs, to)
    _check_target(job, to)
    take = partial(_take_tokens, earlier=found)
    specs = tuple(
        spec._replace(run=take, check=nothing_to_check) if spec.name == "tokens" else spec
        for spec in system_of(job).stages(job)
    )
    asked = Asked(
        until=until,
        earlier=tuple(found),
        look=partial(_stamps_at, every=_stamps(found)),
        withdrawals=withdrawals,
    )
    return run_specs(job, specs, asked, workers=workers or Workers(), reporter=reporter)


# --- what can be merged ----------------------------------------------------------------------------------------


def _check_apart(found: Sequence[Workspace], to: str) -> None:
    if len(found) < 2:
        raise JobError("one workspace was named: name two or more to merge")
    places = Counter(workspace.url for workspace in found)
    twice = [url for url, n in places.items() if n > 1]
    if twice:
        raise JobError(f"{twice[0]} is named twice: a workspace cannot be merged with itself")
    if Workspace.exists(to) and Workspace.open(to).url in places:
        raise JobError(f"{to} is one of the workspaces to merge: name another for the result")


def _check_target(job: CorpusJob, to: str) -> None:
    """Refuse a workspace that holds something else than this merge, whole or begun."""
    there = existing_workspace(to)
    recorded = None if there is None or not there.read_file(JOB_FILE) else job_of(there)
    if recorded is not None and recorded.model_dump(mode="json") != job.model_dump(mode="json"):
        raise JobError(f"{to} holds another job: name a new folder for the merged workspace")


def _job(workspace: Workspace) -> CorpusJob:
    job = job_of(workspace)
    if not isinstance(job, CorpusJob):
        raise JobError(f"{workspace.url} is of a job that reads no corpus: it cannot be merged")
    if not {"tokens", "vocabulary"} <= workspace.stages().keys():
        raise JobError(f"{workspace.url} has read no corpus yet: run its job first")
    return job


def _check_settings(jobs: Sequence[CorpusJob], places: Sequence[str], reporter: Reporter) -> None:
    """Refuse workspaces that were counted otherwise, and note which later settings differ."""
    first = _settings(jobs[0])
    for job, place in zip(jobs[1:], places[1:], strict=True):
        other = _settings(job)
        if job.job.system != jobs[0].job.system:
            raise JobError(
                f"{places[0]} is of method {jobs[0].job.system} and {place} of {job.job.system}: they cannot be merged"
            )
        differing = [key for key in {**first, **other} if first.get(key) != other.get(key)]
        refused = [key for key in differing if key.split(".")[0] in SAME]
        if refused:
            words = "; ".join(f"{key} is {first.get(key)!r} and {other.get(key)!r}" for key in refused)
            raise JobError(
                f"{places[0]} and {place} were counted with other settings and cannot be merged: {words}"
            )
        for key in differing:
            reporter.note(
                f"{key} is {first.get(key)!r} in {places[0]} and {other.get(key)!r} in {place}: the first is taken"
            )


def _settings(job: CorpusJob) -> dict[str, Any]:
    """Return every setting that decides a result by its dotted key, without the paths of the corpus."""
    body = job.model_dump(mode="json", exclude={*OF_A_MACHINE})
    return {
        f"{section}.{key}": value
        for section, values in body.items()
        for key, value in (values if isinstance(values, Mapping) else {"": values}).items()
        if (section, key) != ("corpus", "paths")
    }


def _stamps(found: Sequence[Workspace]) -> dict[str, Stamps]:
    """Return the stamps that the workspaces have recorded of the paths of their jobs, by path."""
    every: dict[str, Stamps] = {}
    for workspace in found:
        recorded: Any = workspace.stages()["tokens"].parameters
        for path, name in path_names(_job(workspace).corpus.paths).items():
            every.setdefault(path, {}).update(recorded.get(FILES, {}).get(name, {}))
    return every


def _stamps_at(path: str, *, every: Mapping[str, Stamps]) -> Stamps:
    return every.get(path) or stamps_at(path)


def _check_withdrawn(found: Sequence[Workspace], withdrawals: Sequence[Withdrawal]) -> None:
    """Refuse a workspace that holds what was withdrawn from another."""
    for workspace in found:
        again = next(found_again(workspace, withdrawals), None)
        if again is not None:
            raise JobError(f"{workspace.url}: {again}")


def _check_files(found: Sequence[Workspace], places: Sequence[str]) -> None:
    """Refuse workspaces of which two have read a file of the same name or content."""
    names: dict[str, str] = {}
    for workspace, place in zip(found, places, strict=True):
        recorded: Any = workspace.stages()["tokens"].parameters
        own = [
            (name.rsplit("/", 1)[-1], str(stamp[1]))
            for files in recorded.get(FILES, {}).values()
            for name, stamp in files.items()
        ]
        for name, content in own:
            other = names.get(name) or names.get(content)
            if other:
                raise JobError(
                    f"{other} and {place} both hold the file {name}, or its text under another name, which would be "
                    "counted twice: take it out of one, or rename it"
                )
        names |= {key: place for pair in own for key in pair}


# --- the merged job --------------------------------------------------------------------------------------------


def _merged_job(jobs: Sequence[CorpusJob], to: str) -> CorpusJob:
    """Return the job of the first workspace with the paths of all."""
    paths = tuple(dict.fromkeys(path for job in jobs for path in job.corpus.paths))
    first = jobs[0]
    update = {
        "job": first.job.model_copy(update={"workspace": to}),
        "corpus": first.corpus.model_copy(update={"paths": paths}),
    }
    job = first.model_copy(update=update)
    job._recorded = False  # what it reads beside texts is opened
    return job


def _take_tokens(ctx: Context, *, earlier: Sequence[Workspace]) -> dict[str, Any]:
    """Take the tokens of all workspaces over, those of one after those of another."""
    items = [pair for workspace in earlier for pair in items_of(workspace, ctx.workspace)]
    make = partial(_take, items=[item for _, item in items])
    partitions = ctx.store_files(outputs.TOKENS, len(items), make)
    return token_facts(ctx, partitions, [key for key, _ in items])


def _take(index: int, prefix: str, *, items: Sequence[KeptItem]) -> Mapping[str, Any]:
    if not items[index].take(prefix):
        raise OSError(
            f"{items[index].prefix} is damaged: run the job of its workspace again, and merge again after that"
        )
    return items[index].summary
