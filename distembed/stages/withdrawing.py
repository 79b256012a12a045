"""Withdraws documents and files from a finished workspace: it is made again without them, and holds nothing else."""

from __future__ import annotations

import secrets
from collections.abc import Collection, Iterator, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any

from distembed.corpus.partitions import read_batches
from distembed.corpus.withdrawn import (
    DocumentDigest,
    FileDigest,
    Withdrawal,
    digest,
    document_texts,
    has_own_ids,
)
from distembed.display import first_words, plural
from distembed.job.inputs import FILES
from distembed.job.model import Job, JobError
from distembed.job.opening import open_job
from distembed.job.progress import Reporter
from distembed.job.run import Outcome, run_stages
from distembed.job.stage import system_of
from distembed.job.withdrawals import read_withdrawals, without_withdrawn, write_withdrawals
from distembed.job.workers import Workers
from distembed.stages.corpus import document_tables, tokens_of
from distembed.stages.corpus_sections import CorpusJob, corpus_of
from distembed.storage.workspace import Workspace


def withdraw(
    place: str,
    *,
    documents: Sequence[str] = (),
    files: Sequence[str] = (),
    workers: Workers | None = None,
    reporter: Reporter | None = None,
    allow_code: bool = False,
) -> Outcome:
    """Make a workspace again without some documents and files, and remove all else that it holds.

    The tokens and counts of the others are kept. The workspace records when this was done and digests of what was
    withdrawn, and no later run reads that again. Until all is done, it stays as it was.

    Parameters
    ----------
    place : str
        The workspace, a folder or URL, or its job file.
    documents : sequence of str
        Ids of documents, as in the table `documents`.
    files : sequence of str
        Names of files of the corpus, or their paths.
    workers, reporter, allow_code
        As of `run_stages`.

    Raises
    ------
    JobError
        If there is no such document or file, it was withdrawn before, nothing was counted yet, or the workspace is of a
        job that reads no corpus.
    """
    job = open_job(place)
    if not isinstance(job, CorpusJob):
        raise JobError(f"{place} is of a job that reads no corpus: there is nothing to withdraw from it")
    if not documents and not files:
        raise JobError("nothing was named: give the ids of documents or the names of files to withdraw")
    record = partial(_record, job=job, documents=documents, files=files)
    return run_stages(
        job,
        workers=workers,
        reporter=reporter,
        until=_last_stage(job, place),
        allow_code=allow_code,
        replace=True,
        withdraw=record,
    )


def _last_stage(job: Job, place: str) -> str | None:
    """Return the last stage that is committed, None where all are."""
    names = [spec.name for spec in system_of(job).stages(job)]
    done = Workspace.open(job.job.workspace).stages()
    if "vocabulary" not in done:
        raise JobError(f"{place} has read no corpus yet: there is nothing to withdraw from it")
    return None if names[-1] in done else [name for name in names if name in done][-1]


def _record(
    last: Workspace,
    following: Workspace,
    *,
    job: CorpusJob,
    documents: Sequence[str],
    files: Sequence[str],
) -> None:
    """Record in the next content what is withdrawn from the last; a record that an interrupted run left is kept."""
    before, found = read_withdrawals(last), read_withdrawals(following)
    if (
        found[: len(before)] == before
        and len(found) == len(before) + 1
        and _is_of(found[-1], documents, files)
    ):
        return
    job = without_withdrawn(job, last)
    salt = secrets.token_hex(16)
    made = Withdrawal(
        datetime.now(UTC).isoformat(timespec="seconds"),
        salt,
        tuple(_documents(job, last, documents, salt)),
        tuple(_files(last, files, salt)),
    )
    write_withdrawals(following, (*before, made))


def _is_of(made: Withdrawal, documents: Sequence[str], files: Sequence[str]) -> bool:
    """Return whether a withdrawal is of these documents and files."""
    is_of_them = all(map(made.holds_id, documents)) and all(map(made.holds_file, files))
    return is_of_them and (len(made.documents), len(made.files)) == (len({*documents}), len({*files}))


# --- documents -------------------------------------------------------------------------------------------------


def _documents(
    job: CorpusJob, workspace: Workspace, ids: Sequence[str], salt: str
) -> Iterator[DocumentDigest]:
    wanted = dict.fromkeys(ids)
    there = {
        ident
        for table in document_tables(tokens_of(workspace))
        for ident in table["id"].to_pylist()
        if ident in wanted
    }
    for ident in wanted:
        if ident not in there:
            raise JobError(_not_there("document", ident, workspace, _times_of_id(workspace, ident)))
    texts = _texts(job, wanted) if wanted else {}
    for ident in wanted:
        yield DocumentDigest(digest(salt, ident), digest(salt, texts[ident]) if ident in texts else "")


def _times_of_id(workspace: Workspace, ident: str) -> list[str]:
    return [one.time for one in read_withdrawals(workspace) if one.holds_id(ident)]


def _not_there(kind: str, name: str, workspace: Workspace, times: Sequence[str]) -> str:
    if times:
        return f"{kind} {name!r} was withdrawn from {workspace.url} on {times[-1][:10]} already"
    return f"{workspace.url} has no {kind} {name!r}: name one as its table of documents or its job does"


def _texts(job: CorpusJob, ids: Collection[str]) -> dict[str, bytes]:
    """Return the texts of the documents whose ids are only their places.

    Raises
    ------
    JobError
        If the file of one is not there as it was read, or a document is a whole file, whose name is to go, too.
    """
    partitions = corpus_of(job.corpus).partitions
    placed = [partition for partition in partitions if not has_own_ids(partition)]
    found: dict[str, bytes] = {}
    for partition in placed:
        if partition.is_one_document and partition.name in ids:
            raise JobError(
                f"document {partition.name!r} is a whole file: withdraw it by --files {partition.name}"
            )
        here = {ident for ident in ids if ident.startswith(f"{partition.name}:")}
        texts = document_texts(read_batches(partition)) if here else ()
        found |= {ident: text for ident, text in texts if ident in here}
    lost = sorted(set(ids) - found.keys())
    if lost and len(placed) == len(partitions):
        raise JobError(
            f"the text of {first_words(lost)} is not where it was read: bring its file back, or withdraw the file "
            "(--files)"
        )
    return found


# --- files -----------------------------------------------------------------------------------------------------


def _files(workspace: Workspace, names: Sequence[str], salt: str) -> Iterator[FileDigest]:
    parameters: Any = workspace.stages()["tokens"].parameters
    known = {
        name: str(stamp[1]) for files in parameters.get(FILES, {}).values() for name, stamp in files.items()
    }
    for name in dict.fromkeys(names):
        last = name.rstrip("/").rsplit("/", 1)[-1]
        found = [one for one in known if one == name or one.rsplit("/", 1)[-1] == last]
        if not found:
            times = [one.time for one in read_withdrawals(workspace) if one.holds_file(name)]
            raise JobError(_not_there("file", name, workspace, times))
        if len(found) > 1:
            raise JobError(
                f"{plural(len(found), 'file')} of the corpus are named {last}: withdraw their documents by ids, or "
                "rename the files and run the job first"
            )
        yield FileDigest(digest(salt, last), known[found[0]])
