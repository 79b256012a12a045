"""Compares the content of the disk with the manifests, file by file."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from itertools import accumulate, groupby
from types import MappingProxyType

from distembed.files import RefusedError
from distembed.storage import records
from distembed.storage.blocks import group_text, zarr_texts
from distembed.storage.catalog import Catalog, manifest_files, read_journal, replaced, stages_in
from distembed.storage.folder import READ_BYTES, Folder, record_of
from distembed.storage.tasks import run_each
from distembed.urls import NoFileError

Progress = Callable[[int, int], None]
TASK_BYTES, TASK_BLOCKS = 1 << 23, 100
"""A task checks blocks of so many bytes, or so many blocks: a small file is read faster than Dask starts a task."""
READ_THREADS = 8
FLIPPED = "flipped or damaged"
TRUNCATED = "truncated"
MISSING = "missing"
NO_FILE = "a link, a folder or another thing in place of a file"
UNREADABLE = "unreadable: permission denied"
NO_RECORD = (
    FileNotFoundError, NotADirectoryError, IsADirectoryError, NoFileError, records.DamagedError, records.OutsideError,
)  # fmt: skip
"""The errors that say that there is no record, and not that it cannot be read for the moment."""
PASSING = {errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ESTALE, errno.ETIMEDOUT}
"""The errors of a process or a network, which say nothing of a file."""
UNEXPECTED = "unexpected file"
UNCOMMITTED = "missing: the stage is not committed"


def check_blocks(
    folder: Folder,
    outputs: Iterable[records.OutputRecord],
    *,
    listed: Mapping[str, tuple[int, str]] = MappingProxyType({}),
    progress: Progress | None = None,
) -> list[records.Problem]:
    """Read the files of outputs in parallel with Dask, a piece at a time, and return their problems, sorted.

    A block is not read whose files an object store has `listed` in the versions that were committed.

    Raises
    ------
    ConnectionError, RefusedError
        If the store failed: what could not be read is not damaged.
    """

    def is_listed(name: str, file: records.FileRecord) -> bool:
        return bool(file.version) and listed.get(name) == (file.size, file.version)

    todo = [
        (record.spec.stage, record.spec.name, block)
        for record in outputs
        for block in record.blocks
        if not (listed and all(is_listed(*file) for file in block.files.items()))
    ]
    found: list[records.Problem] = []
    done = 0

    def finished(result: tuple[int, list[records.Problem]]) -> None:
        nonlocal done
        done += result[0]
        found.extend(result[1])
        if progress is not None:
            progress(done, len(todo))

    ends = accumulate(max(block.n_bytes, TASK_BYTES // TASK_BLOCKS) for *_, block in todo)
    groups = groupby(zip(ends, todo, strict=True), key=lambda pair: pair[0] // TASK_BYTES)
    tasks = [
        [(stage, output, block.index, block.files) for _, (stage, output, block) in group]
        for _, group in groups
    ]
    run_each(partial(_check_some, folder), tasks, finished)
    return sorted(found)


def _check_some(
    folder: Folder, todo: list[tuple[str, str, int, Mapping[str, records.FileRecord]]]
) -> tuple[int, list[records.Problem]]:
    """Return how many blocks were checked, and the problems of their files."""
    return len(todo), [
        records.Problem(stage, output, index, name, what)
        for stage, output, index, files in todo
        for name, expected in files.items()
        if (what := what_is_wrong(folder, name, expected))
    ]


def what_is_wrong(folder: Folder, name: str, expected: records.FileRecord) -> str:
    """Return what is wrong with a file, "" where it is the one that was written.

    Raises
    ------
    ConnectionError, RefusedError
        If its store failed, which says nothing of it.
    """
    try:
        is_small = expected.size <= READ_BYTES  # the whole file comes at one request
        actual = record_of(folder.read(name, most=expected.size)) if is_small else folder.record(name)
    except (ConnectionError, RefusedError):
        raise
    except records.DamagedError:  # it is longer
        return FLIPPED
    except (FileNotFoundError, NotADirectoryError):
        return MISSING
    except PermissionError:
        return UNREADABLE
    except OSError as error:
        if error.errno in PASSING:
            raise
        return f"unreadable: {error.strerror}" if error.errno == errno.EIO else NO_FILE
    if actual.size < expected.size:
        return TRUNCATED
    return "" if actual[:2] == expected[:2] else FLIPPED


def verify(
    folder: Folder, writer: Callable[[], str], progress: Progress | None = None
) -> list[records.Problem]:
    """Return all problems of a workspace, sorted: of its blocks, its records, and stages that are not committed.

    While a run is writing, only stages that are committed both before and after the check are judged: the run
    may have withdrawn a stage, and an output that it is about to commit has no record yet.
    """
    writing, catalog = bool(writer()), Catalog(folder, is_writer=False)
    files, stages = folder.find(), catalog.manifests()
    outputs = [record for made in stages.values() for record in made.outputs.values()]
    found = check_blocks(folder, outputs, progress=progress)
    texts = record_texts(stages)
    found += [
        *_uncommitted(catalog, files),
        *_damaged_records(folder, texts),
        *_unexpected(catalog, files, texts),
    ]
    if writing or writer():
        now = catalog.manifests()
        found = [each for each in found if each.stage in now and stages.get(each.stage) == now[each.stage]]
    return sorted(found)


def repair(catalog: Catalog, files: Iterable[str]) -> list[records.Problem]:
    """Write damaged records of committed stages, remove files that no record accounts for; return what was found.

    Parameters
    ----------
    catalog : Catalog
        Of a workspace that is open for writing.
    files : iterable of str
        All its files.

    Raises
    ------
    OSError
        If the records of a stage may not or cannot be read for the moment: that says nothing of them.
    """
    folder, texts = catalog.folder, record_texts(catalog.manifests())
    for stage in stages_in(files) - catalog.manifests().keys():  # else its arrays would be removed below
        for name in manifest_files(stage):
            with suppress(*NO_RECORD):
                folder.read(name, most=records.RECORD_BYTES)
    damaged, unexpected = _damaged_records(folder, texts), _unexpected(catalog, files, texts)
    for problem in unexpected:  # first: it may be a link where a folder of the workspace belongs
        folder.remove(problem.file)
    for problem in damaged:
        folder.write(problem.file, texts[problem.file][1], durable=True)
    return damaged + unexpected


def record_texts(stages: Mapping[str, records.StageManifest]) -> dict[str, tuple[str, bytes]]:
    """Return, by name, the stage and the content of each file beside the outputs."""
    texts = {records.WORKSPACE_FILE: ("", header_text())}
    for stage, made in stages.items():
        texts |= dict.fromkeys(manifest_files(stage), (stage, records.dumped(made)))
        for record in made.outputs.values():
            texts |= {name: (stage, text) for name, text in zarr_texts(record.spec).items()}
    return texts


def header_text() -> bytes:
    """Return the content of the first file of a workspace."""
    return records.dumped(records.Header(format=records.FORMAT, version=records.VERSION))


def _damaged_records(folder: Folder, texts: Mapping[str, tuple[str, bytes]]) -> list[records.Problem]:
    with ThreadPoolExecutor(READ_THREADS) as pool:  # of an object store each is an answer to wait for
        each = map if folder.is_local else pool.map
        wrong = each(lambda name: what_is_wrong(folder, name, record_of(texts[name][1])), texts)
        return [
            records.Problem(texts[n][0], "", -1, n, what)
            for n, what in zip(texts, wrong, strict=True)
            if what
        ]


def _uncommitted(catalog: Catalog, files: Iterable[str]) -> Iterator[records.Problem]:
    """Yield the stages without a readable manifest, and those whose input has another content now."""
    stages, named = catalog.manifests(), stages_in(files)
    read = {name for each in stages.values() for name, known in each.input_digests.items() if known}
    for stage in sorted(named - stages.keys()):
        yield records.Problem(stage, "", -1, manifest_files(stage)[0], FLIPPED)
    for stage in sorted((read | catalog.begun().keys()) - stages.keys() - named):
        yield records.Problem(stage, "", -1, manifest_files(stage)[0], UNCOMMITTED)
    for stage, made in stages.items():
        for name in replaced(made, stages):
            what = f"computed from another {name} than there is now"
            yield records.Problem(stage, "", -1, manifest_files(stage)[0], what)


def _unexpected(catalog: Catalog, files: Iterable[str], texts: Iterable[str]) -> list[records.Problem]:
    """Return files inside the workspace's own folders, and named as its own, that no record accounts for."""
    stages, begun, files = catalog.manifests(), catalog.begun(), list(files)
    outputs = [record for made in stages.values() for record in made.outputs.values()]
    known = {*texts}.union(*(record.files for record in outputs))
    for stage in stages_in(files) - stages.keys():  # their damage is told by `_uncommitted`
        known.update(manifest_files(stage))
    running = [f"{records.JOURNAL}/{stage}/" for stage in begun]
    running += [
        f"{one.spec.location}/"
        for stage in begun
        for one in read_journal(catalog.folder, stage, reading=False).values()
    ]
    found = []
    for name in files:
        owner = next((record.spec for record in outputs if record.spec.may_own(name)), None)
        is_ours = owner is not None or name.startswith(
            (f"{records.ARRAYS}/", f"{records.MANIFEST}/", f"{records.JOURNAL}/")
        )
        if not is_ours or name in known or name.startswith(tuple(running)):
            continue
        is_group = owner is None and name.startswith(f"{records.ARRAYS}/") and name.endswith("/zarr.json")
        if is_group and not what_is_wrong(catalog.folder, name, record_of(group_text())):
            continue  # it lies above outputs that were removed or are not committed, and holds no data
        found.append(
            records.Problem(owner.stage if owner else "", owner.name if owner else "", -1, name, UNEXPECTED)
        )
    return found
