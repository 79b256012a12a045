"""Compares the content of the disk with the records, file by file and block by block."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from distembed.files import PARTIAL, failures_told
from distembed.storage import manifest as records
from distembed.storage.files import Folder
from distembed.storage.lock import owner_of
from distembed.storage.schema import (
    ARRAYS,
    MANIFEST,
    VERIFIED_FILE,
    BlockRecord,
    DamagedError,
    FileRecord,
    Output,
    OutputRecord,
    Problem,
    StageManifest,
    block_to_json,
    seal,
    unseal,
)
from distembed.storage.tasks import run_each

Progress = Callable[[int, int], None]
TASK_BYTES, TASK_BLOCKS = 1 << 23, 100
"""A task checks blocks of so many bytes, or so many blocks: a small file is read faster than Dask starts a task."""
FLIPPED = "flipped or damaged"
TRUNCATED = "truncated"
MISSING = "missing"
UNEXPECTED = "unexpected file"


class Check(NamedTuple):
    """A description of one block to check, small enough to be sent to a worker."""

    folder: Folder
    output: Output
    block: int
    rows: int
    digest: str
    files: Mapping[str, FileRecord]
    decode: bool


def checks(folder: Folder, record: OutputRecord, *, decode: bool) -> list[Check]:
    """Return one check per block of an output, after one for the files of the whole."""
    spec = record.spec.without_rows
    decoded = decode and spec.is_array
    rows = record.spec.row_blocks
    blocks = [Check(folder, spec, b.index, rows[b.index], b.digest, b.files, decoded) for b in record.blocks]
    return own_checks(folder, record) + blocks


def own_checks(folder: Folder, record: OutputRecord) -> list[Check]:
    """Return the check of the files that belong to an output as a whole, none where it has none."""
    return [Check(folder, record.spec.without_rows, -1, 0, "", record.files, False)] if record.files else []


def check_block(check: Check) -> list[Problem]:
    """Return the problems of one block: the size and digest of each file, then the decoded content.

    Raises
    ------
    ConnectionError
        If the store failed: what could not be read is not damaged.
    PermissionError
        If a file may not be read.
    """
    found = [
        Problem(check.output.stage, check.output.name, check.block, name, what)
        for name, expected in check.files.items()
        if (what := _compare(check.folder, name, expected))
    ]
    if not found and check.decode and not _decodes(check):
        place = check.output.block_location(check.block)
        found = [Problem(check.output.stage, check.output.name, check.block, place, FLIPPED)]
    return found


def check_blocks(todo: Sequence[Check]) -> list[list[Problem]]:
    """Return the problems of each of some blocks, which are checked one after the other."""
    return [check_block(check) for check in todo]


def run_checks(todo: list[Check], progress: Progress | None = None) -> list[Problem]:
    """Check blocks in parallel with Dask, in memory bounded by one block per task; problems are returned sorted."""
    found: list[Problem] = []
    done = 0

    def finished(problems: list[list[Problem]]) -> None:
        nonlocal done
        for each in problems:
            done += 1
            found.extend(each)
            if progress is not None:
                progress(done, len(todo))

    run_each(check_blocks, list(_groups(todo)), finished)
    return sorted(found)


def _groups(todo: Iterable[Check]) -> Iterator[tuple[Check, ...]]:
    """Yield the blocks of each task: one large block, or many small ones."""
    group: list[Check] = []
    n_bytes = 0
    for check in todo:
        group.append(check)
        n_bytes += sum(file.size for file in check.files.values())
        if n_bytes >= TASK_BYTES or len(group) >= TASK_BLOCKS:
            yield tuple(group)
            group, n_bytes = [], 0
    if group:
        yield tuple(group)


def verify(folder: Folder, progress: Progress | None = None) -> list[Problem]:
    """Return all problems of the committed outputs of a workspace, sorted.

    While a run is writing, only stages that are committed both before and after the check are judged: the run
    may have withdrawn a stage or removed temporary outputs, and an output that it is about to commit has no
    record yet.
    """
    writing = bool(owner_of(folder))
    files = folder.find()
    stages = records.committed(folder)
    kept = [r for m in stages.values() for r in m.outputs.values() if not r.dropped]
    todo = [check for record in kept for check in checks(folder, record, decode=True)]
    found = run_checks(todo, progress)
    found += _damaged_records(folder, files, stages)
    found += _unexpected(folder, files, stages)
    return sorted(_still_so(folder, found, stages) if writing or owner_of(folder) else found)


def remember(folder: Folder, digest: str) -> None:
    """Record that all content, of this digest, was found whole just now; where nothing may be written, do not."""
    now = datetime.now(UTC).isoformat(timespec="seconds")
    with contextlib.suppress(OSError):
        folder.write(VERIFIED_FILE, seal({"time": now, "digest": digest}), durable=True)


def remembered(folder: Folder) -> tuple[datetime, str] | None:
    """Return when all content was last found whole, and its digest; None if never, or if the record is damaged."""
    try:
        body = records.tolerant(records.read_sealed, folder, VERIFIED_FILE) or {}
        return datetime.fromisoformat(body["time"]).astimezone(UTC), str(body["digest"])
    except (KeyError, TypeError, ValueError, OverflowError, OSError):
        return None


def _still_so(
    folder: Folder, found: Iterable[Problem], before: Mapping[str, StageManifest]
) -> Iterator[Problem]:
    """Yield the problems of those stages whose commit has not changed, whether it is readable or not."""
    now = records.committed(folder)
    for problem in found:
        stage = problem.stage
        if stage and before.get(stage) == now.get(stage) and (stage in now or folder.exists(problem.file)):
            yield problem


def _compare(folder: Folder, name: str, expected: FileRecord) -> str:
    try:
        with failures_told(folder.path(name)):
            actual = folder.record(name)
    except FileNotFoundError:
        return MISSING
    except (ConnectionError, PermissionError):
        raise
    except OSError:
        return FLIPPED
    if actual.size < expected.size:
        return TRUNCATED
    return "" if actual == expected else FLIPPED


def _decodes(check: Check) -> bool:
    from distembed.storage.arrays import content_digest, read_block  # noqa: PLC0415 - zarr takes a third of a second

    try:
        block = read_block(check.folder, check.output, check.block, check.rows)
        return content_digest(block) == check.digest
    except DamagedError:
        return False


def _damaged_records(
    folder: Folder, files: Iterable[str], stages: Mapping[str, StageManifest]
) -> list[Problem]:
    """Return manifests that do not unseal and block records that differ from their manifest."""
    found = [
        Problem(name, "", -1, records.manifest_file(name), FLIPPED)
        for name in records.committed_names(files)
        if name not in stages
    ]
    for stage in stages.values():
        for name, block in _record_files(stage).items():
            if not _is_recorded(folder, name, block):
                what = FLIPPED if folder.exists(name) else MISSING
                found.append(Problem(stage.stage, "", -1, name, what))
    return found


def _is_recorded(folder: Folder, name: str, block: BlockRecord | None) -> bool:
    """Return whether a file of records has its seal and says of a block what the manifest says."""
    try:
        data = folder.read_record(name)
    except FileNotFoundError:
        return False
    expected = None if block is None else block_to_json(block)
    if expected is not None and data == seal(expected):
        return True
    body = records.tolerant(unseal, data, folder.path(name))
    return body is not None and expected in (None, body)


def _record_files(stage: StageManifest) -> dict[str, BlockRecord | None]:
    """Return a committed stage's record files, each with the block that it records."""
    found: dict[str, BlockRecord | None] = {records.begun_file(stage.stage): None}
    for record in stage.outputs.values():
        found[records.output_file(record.spec)] = None
        found |= {records.block_file(record.spec, block.index): block for block in record.blocks}
    return found


def lasting_files(stage: StageManifest) -> list[str]:
    """Return the files that a commit must find on disk: its records, and all outputs except temporary ones."""
    kept = [record for record in stage.outputs.values() if not record.spec.temporary]
    data = [name for record in kept for files in _files_of(record) for name in files]
    return sorted({*data, *_record_files(stage)})


def _files_of(record: OutputRecord) -> list[Mapping[str, FileRecord]]:
    return [record.files, *(block.files for block in record.blocks)]


def _unexpected(folder: Folder, files: Iterable[str], stages: Mapping[str, StageManifest]) -> list[Problem]:
    """Return files inside the workspace's own folders that no record accounts for."""
    begun = set(records.begun_names(files)) - set(stages)
    specs = [record.spec for stage in begun for record in records.announced(folder, stage).values()]
    in_progress = tuple(f"{spec.location}/" for spec in specs) + tuple(
        f"{MANIFEST}/{stage}/" for stage in begun
    )
    known, owners = _known_files(stages)
    found = []
    for name in files:
        owner = next((spec for place, spec in owners.items() if name.startswith(place)), None)
        ours = owner is not None or name.startswith((f"{ARRAYS}/", f"{MANIFEST}/"))
        if not ours or name in known or name.startswith(in_progress) or _is_plain_group(folder, name, owner):
            continue
        if name.startswith(f"{MANIFEST}/") and name.count("/") == 1 and not name.endswith(PARTIAL):
            continue
        found.append(Problem(owner.stage if owner else "", owner.name if owner else "", -1, name, UNEXPECTED))
    return found


def _known_files(stages: Mapping[str, StageManifest]) -> tuple[set[str], dict[str, Output]]:
    known: set[str] = set()
    owners: dict[str, Output] = {}
    for stage in stages.values():
        known |= _record_files(stage).keys()
        for record in stage.outputs.values():
            owners[f"{record.spec.location}/"] = record.spec
            if not record.dropped:
                known.update(*_files_of(record))
    return known, owners


def _is_plain_group(folder: Folder, name: str, owner: Output | None) -> bool:
    """Return whether a file is a Zarr group above the outputs, which holds no data."""
    return (
        owner is None
        and name.startswith(f"{ARRAYS}/")
        and name.endswith("/zarr.json")
        and b'"group"' in folder.read_record(name)
    )
