"""Compares the content of the disk with the manifests, file by file."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from typing import NamedTuple

from distembed.files import PARTIAL, RefusedError
from distembed.storage.blocks import group_text
from distembed.storage.catalog import (
    Catalog,
    announced,
    begun_file,
    copy_file,
    files_above,
    manifest_file,
    replaced,
    stages_in,
)
from distembed.storage.folder import Folder
from distembed.storage.records import (
    ARRAYS,
    COPIES,
    FORMAT,
    JOURNAL,
    MANIFEST,
    VERSION,
    WORKSPACE_FILE,
    FileRecord,
    Header,
    Output,
    OutputRecord,
    Problem,
    StageManifest,
    dumped,
)
from distembed.storage.tasks import run_each

Progress = Callable[[int, int], None]
TASK_BYTES, TASK_BLOCKS = 1 << 23, 100
"""A task checks blocks of so many bytes, or so many blocks: a small file is read faster than Dask starts a task."""
READ_THREADS = 8
FLIPPED = "flipped or damaged"
TRUNCATED = "truncated"
MISSING = "missing"
NO_FILE = "a link, a folder or another thing in place of a file"
UNREADABLE = "unreadable: permission denied"
UNEXPECTED = "unexpected file"
UNCOMMITTED = "missing: the stage is not committed"


class Check(NamedTuple):
    """The files of one block to check, small enough to be sent to a worker; -1 stands for those of the whole."""

    folder: Folder
    stage: str
    output: str
    block: int
    files: Mapping[str, FileRecord]


def checks(folder: Folder, record: OutputRecord) -> list[Check]:
    """Return one check per block of an output, after one for the files of the whole."""
    spec = record.spec
    return [Check(folder, spec.stage, spec.name, index, files) for index, files in record.all_files()]


def run_checks(todo: Sequence[Check], progress: Progress | None = None) -> list[Problem]:
    """Check files in parallel with Dask, in memory bounded by a piece of one per task; problems are returned sorted."""
    found: list[Problem] = []
    done = 0

    def finished(result: tuple[int, list[Problem]]) -> None:
        nonlocal done
        done += result[0]
        found.extend(result[1])
        if progress is not None:
            progress(done, len(todo))

    run_each(check_files, list(_groups(todo)), finished)
    return sorted(found)


def check_files(todo: Sequence[Check]) -> tuple[int, list[Problem]]:
    """Return how many blocks were checked, and the problems of their files.

    Raises
    ------
    ConnectionError, RefusedError
        If the store failed: what could not be read is not damaged.
    """
    return len(todo), [
        Problem(check.stage, check.output, check.block, name, what)
        for check in todo
        for name, expected in check.files.items()
        if (what := what_is_wrong(check.folder, name, expected))
    ]


def what_is_wrong(folder: Folder, name: str, expected: FileRecord) -> str:
    """Return what is wrong with a file, "" where it is the one that was written."""
    try:
        actual = folder.record(name)
    except OSError as error:
        return _fault(error)
    if actual.size < expected.size:
        return TRUNCATED
    return "" if actual[:2] == expected[:2] else FLIPPED


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


def damage(
    folder: Folder, records: Iterable[OutputRecord], progress: Progress | None = None
) -> list[Problem]:
    """Return the problems of the files of outputs.

    Files of this machine are read. Of those in an object store only the ones are that its listing tells from what was
    committed, or does not tell.
    """
    todo = [check for record in records for check in checks(folder, record)]
    if not folder.is_local:
        listed: dict[str, tuple[int, str]] = {}
        for place in {record.spec.location for record in records}:
            listed |= folder.find(place)
        todo = [
            check
            for check in todo
            if not all(_is_listed(file, listed.get(n)) for n, file in check.files.items())
        ]
    return run_checks(todo, progress)


def _is_listed(file: FileRecord, listed: tuple[int, str] | None) -> bool:
    return bool(file.version) and listed == (file.size, file.version)


def verify(folder: Folder, writer: Callable[[], str], progress: Progress | None = None) -> list[Problem]:
    """Return all problems of a workspace, sorted: of its blocks, its records, and stages that are not committed.

    While a run is writing, only stages that are committed both before and after the check are judged: the run
    may have withdrawn a stage, and an output that it is about to commit has no record yet.
    """
    writing, catalog = bool(writer()), Catalog(folder, is_writer=False)
    files, stages = folder.find(), catalog.manifests()
    todo = [
        check
        for made in stages.values()
        for record in made.outputs.values()
        for check in checks(folder, record)
    ]
    found = run_checks(todo, progress)
    found += _uncommitted(catalog, files)
    found += _damaged_records(folder, stages)
    found += _unexpected(catalog, files)
    if writing or writer():
        now = catalog.manifests()
        found = [
            each
            for each in found
            if each.stage and stages.get(each.stage) == now.get(each.stage) and (each.stage in now)
        ]
    return sorted(found)


def repair(catalog: Catalog, files: Iterable[str]) -> list[Problem]:
    """Write damaged records of committed stages, remove files that no record accounts for; return what was found.

    Parameters
    ----------
    catalog : Catalog
        Of a workspace that is open for writing.
    files : iterable of str
        All its files.
    """
    folder, stages = catalog.folder, catalog.manifests()
    damaged, texts = _damaged_records(folder, stages), record_texts(stages)
    for problem in damaged:
        folder.write(problem.file, texts[problem.file](), durable=True)
    unexpected = _unexpected(catalog, files)
    for problem in unexpected:
        folder.remove(problem.file)
    return damaged + unexpected


def record_texts(stages: Mapping[str, StageManifest]) -> dict[str, Callable[[], bytes]]:
    """Return what makes the content of each file of a workspace beside its outputs, by name."""
    texts: dict[str, Callable[[], bytes]] = {WORKSPACE_FILE: header_text}
    for stage, made in stages.items():
        texts |= dict.fromkeys((manifest_file(stage), copy_file(stage)), cache(partial(dumped, made)))
        for record in made.outputs.values():
            texts |= dict.fromkeys(files_above(record.spec), group_text)
    return texts


def header_text() -> bytes:
    """Return the content of the first file of a workspace."""
    return dumped(Header(format=FORMAT, version=VERSION))


def _damaged_records(folder: Folder, stages: Mapping[str, StageManifest]) -> list[Problem]:
    texts = record_texts(stages)
    with ThreadPoolExecutor(READ_THREADS) as pool:  # of an object store each is an answer to wait for
        each = map if folder.is_local else pool.map
        wrong = each(partial(_wrong_record, folder), texts, texts.values())
        return [Problem(_stage_of(n), "", -1, n, what) for n, what in zip(texts, wrong, strict=True) if what]


def _wrong_record(folder: Folder, name: str, text: Callable[[], bytes]) -> str:
    try:
        return "" if folder.read_record(name) == text() else FLIPPED
    except OSError as error:
        return _fault(error)


def _fault(error: OSError) -> str:
    """Return what an error says of the file that was read.

    Raises
    ------
    ConnectionError, RefusedError
        If it says nothing of it, because its store failed.
    """
    if isinstance(error, ConnectionError | RefusedError):
        raise error
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        return MISSING
    return UNREADABLE if isinstance(error, PermissionError) else NO_FILE


def _uncommitted(catalog: Catalog, files: Iterable[str]) -> Iterator[Problem]:
    """Yield the stages without a readable manifest, and those whose input has another content now."""
    stages = catalog.manifests()
    named = stages_in(files, MANIFEST) | stages_in(files, COPIES)
    read = {name for each in stages.values() for name, known in each.input_digests.items() if known}
    for stage in sorted(named - stages.keys()):
        yield Problem(stage, "", -1, manifest_file(stage), FLIPPED)
    for stage in sorted((read | catalog.begun().keys()) - stages.keys() - named):
        yield Problem(stage, "", -1, manifest_file(stage), UNCOMMITTED)
    for stage, made in stages.items():
        for name in replaced(made, stages):
            what = f"computed from another {name} than there is now"
            yield Problem(stage, "", -1, manifest_file(stage), what)


def _stage_of(name: str) -> str:
    """Return the stage that a manifest or its copy belongs to; "" for another file."""
    is_manifest = name.startswith(f"{MANIFEST}/")
    return name.rpartition("/")[2].removesuffix(".json") if is_manifest else ""


def _unexpected(catalog: Catalog, files: Iterable[str]) -> list[Problem]:
    """Return files inside the workspace's own folders, and named as its own, that no record accounts for."""
    stages, begun = catalog.manifests(), catalog.begun()
    known = {*record_texts(stages), *(begun_file(stage) for stage in begun)}
    owners: list[Output] = []
    for made in stages.values():
        for record in made.outputs.values():
            known.update(name for _, own in record.all_files() for name in own)
            owners.append(record.spec)
    running = tuple(f"{JOURNAL}/{stage}/" for stage in begun)
    for stage in begun:
        specs = [record.spec for record in announced(catalog.folder, stage).values()]
        running += tuple(f"{spec.location}/" for spec in specs)
        known.update(name for spec in specs for name in files_above(spec))
    found = []
    for name in files:
        owner = next((spec for spec in owners if spec.may_own(name)), None)
        ours = owner is not None or name.startswith((f"{ARRAYS}/", f"{MANIFEST}/", f"{JOURNAL}/"))
        if not ours or name in known or name.startswith(running):
            continue
        if (_is_commit(name, stages) and not name.endswith(PARTIAL)) or _is_plain_group(
            catalog.folder, name, owner
        ):
            continue  # its damage has been told, or it holds no data
        found.append(Problem(owner.stage if owner else "", owner.name if owner else "", -1, name, UNEXPECTED))
    return found


def _is_commit(name: str, stages: Mapping[str, StageManifest]) -> bool:
    """Return whether a file is the manifest of a stage, which is damaged."""
    places = (manifest_file(_stage_of(name)), copy_file(_stage_of(name)))
    return name in places and _stage_of(name) not in stages


def _is_plain_group(folder: Folder, name: str, owner: Output | None) -> bool:
    """Return whether a file is the Zarr group above outputs that were removed or are not committed."""
    is_group = owner is None and name.startswith(f"{ARRAYS}/") and name.endswith("/zarr.json")
    return is_group and not _wrong_record(folder, name, group_text)
