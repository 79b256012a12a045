"""Compares the content of the disk with the records, file by file and block by block."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from functools import partial
from typing import NamedTuple

from distembed.files import PARTIAL, failures_told
from distembed.storage import manifest as records
from distembed.storage.arrays import content_digest, read_block
from distembed.storage.files import Folder
from distembed.storage.lock import owner_of
from distembed.storage.schema import (
    ARRAYS,
    MANIFEST,
    VERIFIED_FILE,
    WORKSPACE_FILE,
    DamagedError,
    FileRecord,
    Output,
    OutputRecord,
    Problem,
    StageManifest,
    seal,
)
from distembed.storage.tasks import run_each

Progress = Callable[[int, int], None]
Text = Callable[[], bytes]
TASK_BYTES, TASK_BLOCKS = 1 << 23, 100
"""A task checks blocks of so many bytes, or so many blocks: a small file is read faster than Dask starts a task."""
FLIPPED = "flipped or damaged"
TRUNCATED = "truncated"
MISSING = "missing"
UNEXPECTED = "unexpected file"
UNCOMMITTED = "missing: the stage is not committed"
GROUP = {"attributes": {}, "zarr_format": 3, "node_type": "group"}
"""What Zarr writes into the folders above the arrays."""
READ_THREADS = 8
"""Records that are read at once: of tens of thousands in an object store each is an answer to wait for."""


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
    """Return all problems of a workspace, sorted: of its blocks, its records, and stages that are not committed.

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
    found += _problems_of_stages(folder, files, stages)
    found += _problems_beside(folder, files, stages, _texts(stages))
    return sorted(_still_so(folder, found, stages) if writing or owner_of(folder) else found)


def mend(folder: Folder) -> list[Problem]:
    """Write the records of committed stages that are damaged, remove files that no record accounts for; return them."""
    files, stages = folder.find(), records.committed(folder)
    texts = _texts(stages)
    found = _problems_beside(folder, files, stages, texts)
    for problem in found:
        if problem.file in texts:
            folder.write(problem.file, texts[problem.file]())
        else:
            folder.remove(problem.file)
    folder.sync(problem.file for problem in found if problem.file in texts)
    return found


def remember(folder: Folder, digest: str | None) -> None:
    """Record that all content, of this digest, was found whole just now; forget that it ever was where it is None.

    Where nothing may be written, neither is done.
    """
    now = datetime.now(UTC).isoformat(timespec="seconds")
    with contextlib.suppress(OSError):
        unlocked = Folder(folder.url)  # it is no part of what the lock guards
        if digest is None:
            unlocked.remove(VERIFIED_FILE)
        else:
            unlocked.write(VERIFIED_FILE, seal({"time": now, "digest": digest}), durable=True)


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
    try:
        block = read_block(check.folder, check.output, check.block, check.rows)
        return content_digest(block) == check.digest
    except DamagedError:
        return False


def _problems_of_stages(
    folder: Folder, files: Iterable[str], stages: Mapping[str, StageManifest]
) -> Iterator[Problem]:
    """Yield the stages without a whole manifest, and those that rest on another content of an input than there is."""
    if records.tolerant(records.read_sealed, folder, WORKSPACE_FILE) is None:
        yield Problem("", "", -1, WORKSPACE_FILE, FLIPPED if folder.exists(WORKSPACE_FILE) else MISSING)
    damaged = set(records.committed_names(files)) - stages.keys()
    read = {name for each in stages.values() for name, known in each.input_digests.items() if known}
    for stage in damaged:
        yield Problem(stage, "", -1, records.manifest_file(stage), FLIPPED)
    for stage in {*records.begun_names(files), *read} - stages.keys() - damaged:
        yield Problem(stage, "", -1, records.manifest_file(stage), UNCOMMITTED)
    for stage, manifest in stages.items():
        for name in records.replaced(manifest, stages):
            what = f"computed from another {name} than there is now"
            yield Problem(stage, "", -1, records.manifest_file(stage), what)


def _problems_beside(
    folder: Folder, files: Mapping[str, int], stages: Mapping[str, StageManifest], texts: Mapping[str, Text]
) -> list[Problem]:
    """Return the damaged records and groups of committed stages, and the files that no record accounts for."""
    with ThreadPoolExecutor(READ_THREADS) as pool:
        each = map if folder.is_local else pool.map
        holds = dict(zip(texts, each(partial(_holds, folder), texts, texts.values()), strict=True))
    damaged = [
        Problem(_stage_of(name), "", -1, name, FLIPPED if name in files else MISSING)
        for name in texts
        if not holds[name]
    ]
    return damaged + _unexpected(folder, files, stages, texts)


def _texts(stages: Mapping[str, StageManifest]) -> dict[str, Text]:
    """Return what makes the content of each file of committed stages beside their manifests and blocks."""
    found: dict[str, Text] = {}
    for stage in stages.values():
        found[records.begun_file(stage.stage)] = partial(records.begun_text, stage)
        for record in stage.outputs.values():
            found[records.output_file(record.spec)] = partial(records.output_text, record.spec, record.files)
            for block in record.blocks:
                found[records.block_file(record.spec, block.index)] = partial(records.block_text, block)
            found |= dict.fromkeys(_groups_above(record), _group_text)
    return found


def _group_text() -> bytes:
    return json.dumps(GROUP, indent=2).encode()


def _groups_above(record: OutputRecord) -> list[str]:
    """Return the files of the Zarr groups that an array lies in; none of one that was dropped."""
    if record.dropped or not record.spec.is_array:
        return []
    parts = record.spec.location.split("/")
    return ["/".join([*parts[:n], "zarr.json"]) for n in range(1, len(parts))]


def _stage_of(name: str) -> str:
    """Return the stage that a file of records belongs to; "" for a group."""
    return name.split("/")[1] if name.startswith(f"{MANIFEST}/") else ""


def _holds(folder: Folder, name: str, text: Text) -> bool:
    """Return whether a file holds its text."""
    try:
        data = folder.read_record(name)
    except FileNotFoundError:
        return False
    if not name.startswith(f"{MANIFEST}/"):
        return _is_group(data)
    return data == text()


def _is_group(data: bytes) -> bool:
    try:
        body = json.loads(data)
    except (ValueError, RecursionError):
        return False
    return body in (GROUP, {**GROUP, "consolidated_metadata": None})  # as Zarr 3.1.3 writes it


def lasting_files(stage: StageManifest) -> list[str]:
    """Return the files that a commit must find on disk: its records, and all outputs except temporary ones."""
    kept = [record for record in stage.outputs.values() if not record.spec.temporary]
    data = [name for record in kept for files in _files_of(record) for name in files]
    return sorted({*data, *_texts({stage.stage: stage})})


def _files_of(record: OutputRecord) -> list[Mapping[str, FileRecord]]:
    return [record.files, *(block.files for block in record.blocks)]


def _unexpected(
    folder: Folder, files: Iterable[str], stages: Mapping[str, StageManifest], texts: Iterable[str]
) -> list[Problem]:
    """Return files inside the workspace's own folders, and named as its own, that no record accounts for."""
    begun = set(records.begun_names(files)) - set(stages)
    specs = [record.spec for stage in begun for record in records.announced(folder, stage).values()]
    in_progress = tuple(f"{spec.location}/" for spec in specs) + tuple(
        f"{MANIFEST}/{stage}/" for stage in begun
    )
    known, owners = _known_files(stages)
    known.update(texts)
    found = []
    for name in files:
        owner = next(
            (
                spec
                for place, spec in owners.items()
                if name.startswith(place) and records.may_own(spec, name)
            ),
            None,
        )
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
        for record in stage.outputs.values():
            owners[f"{record.spec.location}/"] = record.spec
            if not record.dropped:
                known.update(*_files_of(record))
    return known, owners


def _is_plain_group(folder: Folder, name: str, owner: Output | None) -> bool:
    """Return whether a file is a Zarr group above outputs that were dropped or are not committed; it holds no data."""
    if owner is not None or not name.startswith(f"{ARRAYS}/") or not name.endswith("/zarr.json"):
        return False
    try:
        return _is_group(folder.read_record(name))
    except FileNotFoundError:  # removed since it was listed
        return True
