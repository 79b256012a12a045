"""The manifests and journals of a workspace, and what follows from them.

What rests on what, what has been replaced, and whether there is a workspace at all.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from distembed.files import PARTIAL, RefusedError
from distembed.storage import records
from distembed.storage.folder import Folder
from distembed.storage.lock import is_beat_file

_MANIFEST = re.compile(rf"{records.MANIFEST}/(?:copies/)?([^/]+)\.json")
_BLOCK = re.compile(r"/(\d{6,})\.json$")


def manifest_files(stage: str) -> tuple[str, str]:
    """Return the name of the file whose presence commits a stage, and that of its copy."""
    return f"{records.MANIFEST}/{stage}.json", f"{records.COPIES}/{stage}.json"


def begun_file(stage: str) -> str:
    """Return the name of the file written when a stage begins."""
    return f"{records.JOURNAL}/{stage}/stage.json"


def worked_file(stage: str) -> str:
    """Return the name of the file that says how long a stage that runs has worked."""
    return f"{records.JOURNAL}/{stage}/worked.json"


def stages_in(files: Iterable[str]) -> set[str]:
    """Return the stages of which there is a manifest, or its copy, among some files."""
    return {found[1] for name in files if (found := _MANIFEST.fullmatch(name))}


def read_record(folder: Folder, name: str, kind: type[records.AnyRecord]) -> records.AnyRecord | None:
    """Return a sealed record; None if it is absent, damaged, or no file: it counts as never written.

    Raises
    ------
    NewerFormatError
        If a newer version wrote it.
    ConnectionError, RefusedError
        If its object store failed: that says nothing of the record.
    """
    try:
        return records.loaded(folder.read_record(name), kind, folder.path(name))
    except (records.NewerFormatError, ConnectionError, RefusedError):
        raise
    except (records.ManifestError, OSError):
        return None


class Catalog:
    """The committed stages of a workspace by name, as the single writer keeps them and a reader finds them.

    A reader looks at each question whether a file has changed since it was read; the writer, which alone changes them,
    does not.
    """

    def __init__(self, folder: Folder, *, is_writer: bool) -> None:
        self.folder, self.is_writer = folder, is_writer
        self._read: dict[str, tuple[object, records.StageManifest | None]] = {}
        self._is_read = False
        self._announced: dict[str, dict[str, records.Output]] = {}

    def manifests(self) -> dict[str, records.StageManifest]:
        """Return the readable commits by stage."""
        if not (self.is_writer and self._is_read):
            self._look()
            self._is_read = True
        return {stage: found for stage, (_, found) in sorted(self._read.items()) if found is not None}

    def _look(self) -> None:
        files = self.folder.find(records.MANIFEST)
        now = dict[str, tuple[object, records.StageManifest | None]]()
        for stage in stages_in(files):
            names = manifest_files(stage)
            stamp = [files.get(name) for name in names]
            if all(each is None or each[1] for each in stamp):  # a store may tell no versions
                now[stage] = self._read.get(stage, (None, None))
            if now.get(stage, (None, None))[0] != stamp:
                found = (read_record(self.folder, name, records.StageManifest) for name in names)
                now[stage] = stamp, next((each for each in found if each and each.stage == stage), None)
        self._read = now

    def put(self, manifest: records.StageManifest) -> None:
        """Commit a stage in one atomic write, and write the copy after it."""
        data = records.dumped(manifest)
        for name in manifest_files(manifest.stage):
            self.folder.write(name, data, durable=True)
        self._read[manifest.stage] = None, manifest

    def remove(self, stage: str) -> None:
        """Withdraw the commit of a stage; its outputs stay where they are."""
        for name in reversed(manifest_files(stage)):
            self.folder.remove(name)
        self._read.pop(stage, None)

    def begun(self) -> dict[str, records.Begun]:
        """Return what every stage that has begun and is not committed is made from."""
        files, done = self.folder.find(records.JOURNAL), self.manifests()
        stages = {name.split("/")[1] for name in files if name.count("/") == 2} - done.keys()
        return {stage: begun for stage in sorted(stages) if (begun := self.begun_of(stage))}

    def begun_of(self, stage: str) -> records.Begun | None:
        """Return what the journal of a stage says that it is made from, and how long it has worked."""
        begun = read_record(self.folder, begun_file(stage), records.Begun)
        worked = begun and read_record(self.folder, worked_file(stage), records.Worked)
        return begun.model_copy(update={"seconds": worked.seconds}) if begun and worked else begun

    def output(self, name: str) -> records.OutputRecord | None:
        """Return the record of a committed output; None if no stage has it."""
        return next((m.outputs[name] for m in self.manifests().values() if name in m.outputs), None)

    def digests(self, stages: Iterable[str]) -> dict[str, str]:
        """Return the digest of what each stage has committed, "" of one that is not committed."""
        done = self.manifests()
        return {stage: done[stage].digest if stage in done else "" for stage in stages}

    def dependents(self, stage: str) -> list[str]:
        """Return every stage that has `stage` among its inputs, directly or through others, the most distant first."""
        return _dependents({**self.begun(), **self.manifests()}, stage)

    def outdated(self) -> list[str]:
        """Return every stage that rests on a commit which has been replaced, each before those it depends on.

        Such a stage was computed from something else than what is committed of an input, or depends on such a commit.
        What rests on a stage that is not committed is judged when that is.
        """
        done = self.manifests()
        known: dict[str, records.Begun] = {**self.begun(), **done}
        found: dict[str, None] = {}
        for name, made in known.items():
            if replaced(made, done):
                found.update(dict.fromkeys([*(_dependents(known, name) if name in done else ()), name]))
        return list(found)

    def take_place(self, spec: records.Output) -> None:
        """Note the place of an output that will be written.

        Raises
        ------
        ValueError
            If it is taken, or inside that of another; the message names the other output.
        """
        done = (record.spec for made in self.manifests().values() for record in made.outputs.values())
        begun = (each for outputs in self._announced.values() for each in outputs.values())
        for other in (*done, *begun):
            pairs = ((f"{spec.name}/", f"{other.name}/"), (f"{spec.location}/", f"{other.location}/"))
            collides = any(a.startswith(b) or b.startswith(a) for a, b in pairs)
            if collides and (other.stage, other.name) != (spec.stage, spec.name):
                raise ValueError(
                    f"Output {spec.name!r} of stage {spec.stage!r} would share its place with "
                    f"{other.name!r} of stage {other.stage!r}: give it another name."
                )
        self._announced.setdefault(spec.stage, {})[spec.name] = spec

    def give_places(self, stage: str, name: str | None = None) -> None:
        """Forget the places of the outputs of a stage, or of one of them."""
        if name is None:
            self._announced.pop(stage, None)
        else:
            self._announced.get(stage, {}).pop(name, None)


def replaced(made: records.Begun, done: Mapping[str, records.StageManifest]) -> list[str]:
    """Return the inputs of a stage of which something else is committed now than it was computed from."""
    return [
        name
        for name, known in made.inputs.items()
        if name in done
        and (done[name].fingerprint != known or done[name].digest != made.input_digests.get(name))
    ]


def _dependents(known: Mapping[str, records.Begun], stage: str) -> list[str]:
    found: list[str] = []
    front = {stage}
    while front:
        front = {
            name for name, made in known.items() if made.inputs.keys() & front and name not in (*found, stage)
        }
        found.extend(sorted(front))
    return found[::-1]


# --- the journal of a stage ------------------------------------------------------------------------------------


def block_file(output: records.Output, index: int) -> str:
    """Return the name of the file with the record of a block."""
    return f"{output.journal}/{index:06d}.json"


def output_file(output: records.Output) -> str:
    """Return the name of the file that announces an output."""
    return f"{output.journal}/output.json"


def announced_names(folder: Folder, stage: str) -> list[str]:
    """Return the names of the outputs that a stage has announced."""
    begin, end = f"{records.JOURNAL}/{stage}/", "/output.json"
    return [name[len(begin) : -len(end)] for name in sorted(folder.find(begin[:-1])) if name.endswith(end)]


def announced(folder: Folder, stage: str) -> dict[str, records.OutputRecord]:
    """Return the outputs that a stage has announced, by name, with the blocks that they began with."""
    found = {name: read_announced(folder, stage, name) for name in announced_names(folder, stage)}
    return {name: record for name, record in found.items() if record is not None}


def read_announced(folder: Folder, stage: str, name: str) -> records.OutputRecord | None:
    """Return an output that a stage has announced with the blocks that it began with, None where it has not."""
    file = f"{records.JOURNAL}/{stage}/{name}/output.json"
    record = read_record(folder, file, records.OutputRecord)
    return record if record is not None and output_file(record.spec) == file else None


def recorded_blocks(folder: Folder, record: records.OutputRecord) -> dict[int, records.Block]:
    """Return, by number, the blocks that an announced output began with, and those that are recorded since."""
    spec, blocks = record.spec, {block.index: block for block in record.blocks}
    for index, place in sorted(_block_files(folder.find(spec.journal), spec).items()):
        block = read_record(folder, place, records.Block)
        with suppress(ValueError):  # a file of it lies elsewhere
            if block is not None and block.index == index < len(spec.row_blocks):
                records.check_block(spec, block)
                blocks[index] = block
    return blocks


def _block_files(files: Iterable[str], output: records.Output) -> dict[int, str]:
    """Return the files of a journal that record blocks of an output, by the number of the block."""
    own = (name for name in files if name.rpartition("/")[0] == output.journal)
    return {int(found[1]): name for name in own if (found := _BLOCK.search(name))}


def blocks_done(folder: Folder, stage: str) -> dict[str, tuple[int, int]]:
    """Return how many blocks of each announced output of a stage are recorded, and of how many."""
    files = folder.find(f"{records.JOURNAL}/{stage}")
    return {
        name: (
            len({block.index for block in record.blocks} | _block_files(files, record.spec).keys()),
            len(record.spec.row_blocks),
        )
        for name, record in announced(folder, stage).items()
    }


def has_records(folder: Folder) -> bool:
    """Return whether a folder holds a whole record that a stage has begun or is committed."""
    try:
        catalog = Catalog(folder, is_writer=False)
        return bool(catalog.manifests() or catalog.begun())
    except FileNotFoundError:  # a bucket that is not there
        return False


# --- whether there is a workspace ------------------------------------------------------------------------------


def _refuse_links(folder: Folder) -> None:
    """Refuse a workspace of which a folder of its own is a symbolic link."""
    own = (records.MANIFEST, records.COPIES, records.JOURNAL, records.ARRAYS)
    for name in own if folder.is_local else ():
        if Path(folder.inside(name)).is_symlink():
            raise records.OutsideError(
                f"{folder.path(name)} is a symbolic link: a workspace holds its files itself; copy it as a whole."
            )


def is_workspace(folder: Folder) -> bool:
    """Return whether there is a workspace that this version can read.

    Where its first file was deleted, or emptied by a power cut, the records of its stages tell.

    Raises
    ------
    ManifestError
        If its first file is damaged, or that of another program or of another version of distembed.
    OutsideError
        If a folder of its own is a symbolic link.
    """
    _refuse_links(folder)
    data, place = b"", folder.path(records.WORKSPACE_FILE)
    try:
        data = folder.read_record(records.WORKSPACE_FILE)
        found = records.loaded(data, records.Header, place)
    except (records.NewerFormatError, ConnectionError, RefusedError):
        raise
    except FileNotFoundError:
        return has_records(folder)
    except (records.ManifestError, OSError) as error:
        if has_records(folder):
            return True
        if isinstance(error, OSError) or (data.strip(b"\0") and records.FORMAT.encode() not in data):
            raise
        if not data.strip(b"\0"):
            return False  # empty or of zeros, as after a power cut
        found = records.Header(format=records.FORMAT, version=0)
    if found.format != records.FORMAT:
        raise records.ManifestError(f"{place} is that of another program: choose another folder.")
    if found.version < records.VERSION:
        raise records.ManifestError(
            f"{folder.url} was made by another version of distembed, whose files lie otherwise: choose another folder, "
            "or remove this one and run the job again."
        )
    return True


def check_place(url: str | os.PathLike[str]) -> Folder:
    """Return the folder of a workspace that there may be, or be made; a planted first file vouches for none.

    Raises
    ------
    NotADirectoryError, FileExistsError
        If it is a file, or holds something that is no workspace.
    """
    folder = Folder.at(url)
    if folder.is_local and folder.fs.isfile(folder.root):
        raise NotADirectoryError(f"{folder.url} is a file: a workspace needs a folder of its own.")
    if not folder.exists("") or (
        is_workspace(folder) and (folder.find(records.MANIFEST) or folder.find(records.JOURNAL))
    ):
        return folder
    own = (*records.RESERVED, "job.toml", "inputs.json", "scratch")
    names = {entry.rstrip("/").rsplit("/", 1)[-1] for entry in folder.fs.ls(folder.root, detail=False)}
    if others := sorted(n for n in names if not (n in own or n.endswith(PARTIAL) or is_beat_file(n))):
        raise FileExistsError(
            f"{folder.url} is no workspace and holds other things ({others[0]}): choose a new folder."
        )
    return folder
