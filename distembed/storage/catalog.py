"""The manifests and journals of a workspace, and what follows from them.

What rests on what, what has been replaced, and whether there is a workspace at all.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress

from distembed.files import PARTIAL_NAME, RefusedError
from distembed.storage import records
from distembed.storage.folder import Folder
from distembed.storage.lock import is_beat_file

_MANIFEST = re.compile(rf"{records.MANIFEST}/(?:copies/)?([^/]+)\.json")
_BLOCK = re.compile(r"(\d{6,})\.json")


def manifest_files(stage: str) -> tuple[str, str]:
    """Return the name of the file whose presence commits a stage, and that of its copy."""
    return f"{records.MANIFEST}/{stage}.json", f"{records.COPIES}/{stage}.json"


def begun_file(stage: str) -> str:
    """Return the name of the file written when a stage begins."""
    return f"{records.JOURNAL}/{stage}/stage.json"


def stages_in(files: Iterable[str]) -> set[str]:
    """Return the stages of which there is a manifest, or its copy, among some files."""
    return {found[1] for name in files if (found := _MANIFEST.fullmatch(name))}


def read_record(folder: Folder, name: str, kind: type[records.AnyRecord]) -> records.AnyRecord | None:
    """Return a sealed record; None if it is absent, damaged, or no file: it counts as never written.

    Raises
    ------
    ConnectionError, RefusedError
        If its object store failed: that says nothing of the record.
    """
    try:
        return records.loaded(folder.read(name, most=records.RECORD_BYTES), kind, folder.path(name))
    except (ConnectionError, RefusedError):
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
        self.places: dict[tuple[str, str], records.Output] = {}
        """What stages that are not committed have announced in this process, by stage and name."""

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
        self.folder.sync(manifest_files(manifest.stage))  # the folders, too, which the first commit has made
        self._read[manifest.stage] = None, manifest

    def remove(self, stage: str) -> None:
        """Withdraw the commit of a stage; its outputs stay where they are."""
        if stage in self._read:
            for name in reversed(manifest_files(stage)):
                self.folder.remove(name)
            del self._read[stage]

    def forget_places(self, stage: str) -> None:
        """Forget what a stage has announced: it is committed, or was removed."""
        self.places = {key: spec for key, spec in self.places.items() if key[0] != stage}

    def begun(self) -> dict[str, records.Begun]:
        """Return what every stage that has begun and is not committed is made from."""
        files, done = self.folder.find(records.JOURNAL), self.manifests()
        stages = {name.split("/")[1] for name in files if name.count("/") == 2} - done.keys()
        return {stage: begun for stage in sorted(stages) if (begun := self.begun_of(stage))}

    def begun_of(self, stage: str) -> records.Begun | None:
        """Return what the journal of a stage says that it is made from, and how long it has worked."""
        begun = read_record(self.folder, begun_file(stage), records.Begun)
        worked = begun and read_record(self.folder, f"{records.JOURNAL}/{stage}/worked.json", records.Worked)
        return begun.model_copy(update={"worked": worked}) if begun and worked else begun

    def outdated(self) -> list[str]:
        """Return every stage that rests on a commit which has been replaced, each before those it depends on.

        Such a stage was computed from something else than what is committed of an input, or depends on such a commit.
        What rests on a stage that is not committed is judged when that is.
        """
        done = self.manifests()
        known: dict[str, records.Begun] = {**self.begun(), **done}
        front = {name for name, made in known.items() if replaced(made, done)}
        found, below = sorted(front), front & done.keys()
        while front:
            front = below = {n for n, made in known.items() if n not in found and made.inputs.keys() & below}
            found += sorted(front)
        return found[::-1]


def replaced(made: records.Begun, done: Mapping[str, records.StageManifest]) -> list[str]:
    """Return the inputs of a stage of which something else is committed now than it was computed from."""
    return [
        name
        for name, known in made.inputs.items()
        if name in done
        and (done[name].fingerprint != known or done[name].digest != made.input_digests.get(name))
    ]


def read_journal(folder: Folder, stage: str, *, reading: bool = True) -> dict[str, records.OutputRecord]:
    """Return the outputs that a stage has announced, by name, with the blocks that are on disk.

    Without `reading` the blocks have their numbers only, by the names of their records.
    """
    listed: dict[str, list[str]] = {}
    for file in sorted(folder.find(f"{records.JOURNAL}/{stage}")):
        place, _, name = file.rpartition("/")
        listed.setdefault(place, []).append(name)
    found = {}
    for place, names in listed.items():
        is_output = "output.json" in names
        record = read_record(folder, f"{place}/output.json", records.OutputRecord) if is_output else None
        if record is None or record.spec.journal != place:
            continue
        spec, blocks = record.spec, {block.index: block for block in record.blocks}
        for name in filter(_BLOCK.fullmatch, names):
            index = int(name.partition(".")[0])
            block = read_record(folder, f"{place}/{name}", records.Block) if reading else None
            with suppress(ValueError):  # a file of it lies elsewhere
                if not reading:
                    blocks[index] = records.Block(index=index, files={})
                elif block is not None and block.index == index < len(spec.row_blocks):
                    records.check_block(spec, block)
                    blocks[index] = block
        found[spec.name] = record.model_copy(update={"blocks": tuple(blocks[n] for n in sorted(blocks))})
    return found


def has_records(folder: Folder) -> bool:
    """Return whether a folder holds a whole record that a stage has begun or is committed."""
    try:
        catalog = Catalog(folder, is_writer=False)
        return bool(catalog.manifests() or catalog.begun())
    except FileNotFoundError:  # a bucket that is not there
        return False


# --- whether there is a workspace ------------------------------------------------------------------------------


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
    for name in (records.COPIES, records.JOURNAL, records.ARRAYS):
        folder.readable(name)  # which refuses links
    data, place = b"", folder.path(records.WORKSPACE_FILE)
    try:
        data = folder.read(records.WORKSPACE_FILE, most=records.RECORD_BYTES)
        found = records.loaded(data, records.Header, place)
    except (ConnectionError, RefusedError):
        raise
    except (records.ManifestError, OSError) as error:
        is_gone = isinstance(error, FileNotFoundError)
        if has_records(folder):
            return True
        if is_gone or (not isinstance(error, OSError) and not data.strip(b"\0")):
            return False  # empty or of zeros, as after a power cut
        raise
    if (found.format, found.version) != (records.FORMAT, records.VERSION):
        raise records.ManifestError(
            f"{place} is that of another program, or of another version of distembed: choose another folder, or remove "
            "this one and run the job again."
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
    if folder.is_local and folder.exists("") and not folder.fs.isdir(folder.url):
        raise NotADirectoryError(f"{folder.url} is a file: a workspace needs a folder of its own.")
    if not folder.exists("") or (
        is_workspace(folder) and (folder.find(records.MANIFEST) or folder.find(records.JOURNAL))
    ):
        return folder
    own = [*records.RESERVED, "inputs.json", "scratch"]
    names = {entry.rstrip("/").rsplit("/", 1)[-1] for entry in folder.fs.ls(folder.url, detail=False)}
    if records.WORKSPACE_FILE in names:  # else it is the job of a user, whose folder this is
        own.append("job.toml")
    if others := sorted(n for n in names if not (n in own or PARTIAL_NAME.search(n) or is_beat_file(n))):
        raise FileExistsError(
            f"{folder.url} is no workspace and holds other things ({others[0]}): choose a new folder."
        )
    return folder
