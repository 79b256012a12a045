"""What was withdrawn from a workspace: the record of it, which has only digests, and the job that does not read it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any, TypeVar

from distembed.corpus.withdrawn import DocumentDigest, FileDigest, Withdrawal
from distembed.job.inputs import FILES, Stamps
from distembed.job.model import Job
from distembed.storage.schema import WITHDRAWN_FILE, ManifestError, digest_of_json, seal, unseal
from distembed.storage.workspace import Workspace

WITHDRAWN = "withdrawn"
"""The parameter of the stage that reads a corpus which says that documents are left out."""

OneJob = TypeVar("OneJob", bound=Job)


def read_withdrawals(workspace: Workspace | None) -> tuple[Withdrawal, ...]:
    """Return what was withdrawn from a workspace, the first first.

    Raises
    ------
    ManifestError
        If the record is damaged: a run would read again what was withdrawn.
    """
    data = None if workspace is None else workspace.read_file(WITHDRAWN_FILE)
    if workspace is None or data is None:
        return ()
    try:
        return tuple(map(_withdrawal, unseal(data, WITHDRAWN_FILE)["withdrawals"]))
    except (ManifestError, KeyError, TypeError, ValueError):
        raise ManifestError(
            f"{workspace.path(WITHDRAWN_FILE)}, which says what must not be read again, is damaged: bring it back from "
            "a copy, or make another workspace"
        ) from None


def _withdrawal(body: Mapping[str, Any]) -> Withdrawal:
    documents = tuple(DocumentDigest(*each) for each in body["documents"])
    return Withdrawal(
        str(body["time"]), str(body["salt"]), documents, tuple(FileDigest(*each) for each in body["files"])
    )


def write_withdrawals(workspace: Workspace, withdrawals: tuple[Withdrawal, ...]) -> None:
    """Record what was withdrawn from a workspace, nothing where that is nothing."""
    if not withdrawals or read_withdrawals(workspace) == withdrawals:
        return
    workspace.write_file(WITHDRAWN_FILE, seal({"withdrawals": [asdict(one) for one in withdrawals]}))


def without_withdrawn(job: OneJob, workspace: Workspace | None) -> OneJob:
    """Return a job that reads nothing of what was withdrawn from its workspace."""
    withdrawals = read_withdrawals(workspace)
    section = getattr(job, "corpus", None)
    if not withdrawals or section is None or section.withdrawals == withdrawals:
        return job
    return job.model_copy(update={"corpus": section.without(withdrawals)})


def stamps_left(look: Callable[[str], Stamps], job: Job) -> Callable[[str], Stamps]:
    """Return what stamps the inputs of a job without the files that were withdrawn."""
    section = getattr(job, "corpus", None)
    withdrawals = () if section is None else section.withdrawals
    if not any(one.files for one in withdrawals):
        return look

    def left(path: str) -> Stamps:
        found = look(path).items()
        return {
            name: stamp
            for name, stamp in found
            if not any(one.holds_file(name, str(stamp[1])) for one in withdrawals)
        }

    return left


def withdrawn_documents(job: Job) -> dict[str, str]:
    """Return the parameter that says which documents a job leaves out, nothing where it leaves out none."""
    section = getattr(job, "corpus", None)
    digests = [] if section is None else [each for one in section.withdrawals for each in one.documents]
    return {WITHDRAWN: digest_of_json(sorted(map(list, digests)))} if digests else {}


def found_again(workspace: Workspace, withdrawals: Sequence[Withdrawal]) -> Iterator[str]:
    """Yield a sentence for each thing that a workspace holds although it was withdrawn, from it or from another."""
    done = workspace.stages()
    if "tokens" not in done:
        return
    by_id = [one for one in withdrawals if any(not document.text for document in one.documents)]
    if by_id and "vocabulary" in done:
        for batch in workspace.batches("documents", columns=["id"]):
            for ident in batch.column("id").to_pylist():
                if any(one.holds_id(ident) for one in by_id):
                    yield f"document {ident!r} was withdrawn and is in the workspace: withdraw it"
    for files in done["tokens"].parameters.get(FILES, {}).values():
        for name, (_, version) in files.items():
            if any(one.holds_file(name, version) for one in withdrawals):
                yield f"file {name!r} was withdrawn and is in the workspace: withdraw it"
