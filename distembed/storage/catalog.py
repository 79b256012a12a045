"""The manifests of a workspace, and what follows from them: what rests on what, and what has been replaced."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import datetime

from distembed.files import RefusedError
from distembed.storage.folder import Folder
from distembed.storage.records import (
    COPIES,
    JOURNAL,
    MANIFEST,
    AnyRecord,
    Begun,
    Block,
    ManifestError,
    NewerFormatError,
    Output,
    OutputRecord,
    StageManifest,
    check_block,
    dumped,
    loaded,
)

_BLOCK = re.compile(r"/(\d{6,})\.json$")


def manifest_file(stage: str) -> str:
    """Return the name of the file whose presence commits a stage."""
    return f"{MANIFEST}/{stage}.json"


def copy_file(stage: str) -> str:
    """Return the name of the second copy of the commit of a stage."""
    return f"{COPIES}/{stage}.json"


def begun_file(stage: str) -> str:
    """Return the name of the file written when a stage begins."""
    return f"{JOURNAL}/{stage}/stage.json"


def read_record(folder: Folder, name: str, kind: type[AnyRecord]) -> AnyRecord | None:
    """Return a sealed record; None if it is absent, damaged, or no file: it counts as never written.

    Raises
    ------
    NewerFormatError
        If a newer version wrote it.
    ConnectionError, RefusedError
        If its object store failed: that says nothing of the record.
    """
    try:
        return loaded(folder.read_record(name), kind, folder.path(name))
    except (NewerFormatError, ConnectionError, RefusedError):
        raise
    except (ManifestError, OSError):
        return None


def stages_in(files: Iterable[str], folder: str) -> set[str]:
    """Return the stages of which there is a file in a folder of manifests."""
    inner = (name.removeprefix(f"{folder}/") for name in files if name.startswith(f"{folder}/"))
    return {name[: -len(".json")] for name in inner if "/" not in name and name.endswith(".json")}


class Catalog:
    """The committed stages of a workspace by name, as the single writer keeps them and a reader finds them.

    A reader looks at each question whether a file has changed since it was read; the writer, which alone changes them,
    does not.
    """

    def __init__(self, folder: Folder, *, is_writer: bool) -> None:
        self.folder, self.is_writer = folder, is_writer
        self._read: dict[str, tuple[object, StageManifest | None]] = {}
        self._is_read = False
        self._places: dict[str, Output] | None = None

    def manifests(self) -> dict[str, StageManifest]:
        """Return the readable commits by stage."""
        if not (self.is_writer and self._is_read):
            self._look()
            self._is_read = True
        return {stage: found for stage, (_, found) in sorted(self._read.items()) if found is not None}

    def _look(self) -> None:
        files = self.folder.find(MANIFEST)
        found = dict[str, tuple[object, StageManifest | None]]()
        for stage in stages_in(files, MANIFEST) | stages_in(files, COPIES):
            stamp = [files.get(name) for name in (manifest_file(stage), copy_file(stage))]
            before = self._read.get(stage)
            is_known = all(each is None or each[1] for each in stamp)  # a store may tell no versions
            if before is not None and is_known and before[0] == stamp:
                found[stage] = before
            else:
                found[stage] = stamp, self._stored(stage)
        self._read = found

    def _stored(self, stage: str) -> StageManifest | None:
        for name in (manifest_file(stage), copy_file(stage)):
            found = read_record(self.folder, name, StageManifest)
            if found is not None and found.stage == stage:
                return found
        return None

    def put(self, manifest: StageManifest) -> None:
        """Commit a stage in one atomic write, and write the copy after it."""
        data = dumped(manifest)
        for name in (manifest_file(manifest.stage), copy_file(manifest.stage)):
            self.folder.write(name, data, durable=True)
        self._read[manifest.stage] = None, manifest

    def remove(self, stage: str) -> None:
        """Withdraw the commit of a stage; its outputs stay where they are."""
        for name in (copy_file(stage), manifest_file(stage)):
            self.folder.remove(name)
        self._read.pop(stage, None)

    def begun(self) -> dict[str, Begun]:
        """Return what every stage that has begun and is not committed is made from."""
        files, done = self.folder.find(JOURNAL), self.manifests()
        stages = {
            name.split("/")[1] for name in files if name.count("/") == 2 and name.endswith("/stage.json")
        }
        found = {
            stage: read_record(self.folder, begun_file(stage), Begun)
            for stage in sorted(stages - done.keys())
        }
        return {stage: begun for stage, begun in found.items() if begun is not None}

    def output(self, name: str) -> OutputRecord | None:
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
        known: dict[str, Begun] = {**self.begun(), **done}
        found: dict[str, None] = {}
        for name, made in known.items():
            if replaced(made, done):
                found.update(dict.fromkeys([*(_dependents(known, name) if name in done else ()), name]))
        return list(found)

    def take_place(self, spec: Output) -> None:
        """Note the place of an output that will be written.

        Raises
        ------
        ValueError
            If it is taken, or inside that of another; the message names the other output.
        """
        if self._places is None:
            committed = [
                record.spec for made in self.manifests().values() for record in made.outputs.values()
            ]
            begun = [
                record.spec for stage in self.begun() for record in announced(self.folder, stage).values()
            ]
            self._places = {output_file(each): each for each in (*committed, *begun)}
        for name, other in self._places.items():
            if name != output_file(spec) and _collide(spec, other):
                raise ValueError(
                    f"Output {spec.name!r} of stage {spec.stage!r} would share its place with "
                    f"{other.name!r} of stage {other.stage!r}: give it another name."
                )
        self._places[output_file(spec)] = spec

    def give_places(self, stage: str, name: str | None = None) -> None:
        """Forget the places of the outputs of a stage, or of one of them."""
        places = self._places or {}
        for file, spec in list(places.items()):
            if spec.stage == stage and name in (None, spec.name):
                del places[file]


def replaced(made: Begun, done: Mapping[str, StageManifest]) -> list[str]:
    """Return the inputs of a stage of which something else is committed now than it was computed from."""
    return [
        name
        for name, known in made.inputs.items()
        if name in done
        and (done[name].fingerprint != known or done[name].digest != made.input_digests.get(name))
    ]


def _dependents(known: Mapping[str, Begun], stage: str) -> list[str]:
    found: list[str] = []
    front = {stage}
    while front:
        front = {
            name for name, made in known.items() if made.inputs.keys() & front and name not in (*found, stage)
        }
        found.extend(sorted(front))
    return found[::-1]


def _collide(one: Output, other: Output) -> bool:
    pairs = ((f"{one.name}/", f"{other.name}/"), (f"{one.location}/", f"{other.location}/"))
    return any(a.startswith(b) or b.startswith(a) for a, b in pairs)


# --- the journal of a stage ------------------------------------------------------------------------------------


def block_file(output: Output, index: int) -> str:
    """Return the name of the file with the record of a block."""
    return f"{output.journal}/{index:06d}.json"


def output_file(output: Output) -> str:
    """Return the name of the file that announces an output."""
    return f"{output.journal}/output.json"


def announced(folder: Folder, stage: str) -> dict[str, OutputRecord]:
    """Return the outputs that a stage has announced, by name, with the blocks that they began with."""
    names = sorted(name for name in folder.find(f"{JOURNAL}/{stage}") if name.endswith("/output.json"))
    found = (read_record(folder, name, OutputRecord) for name in names)
    return {
        record.spec.name: record
        for name, record in zip(names, found, strict=True)
        if record is not None and output_file(record.spec) == name
    }


def read_announced(folder: Folder, stage: str, name: str) -> OutputRecord | None:
    """Return an output that a stage has announced with all its blocks that are recorded, None where it has not."""
    file = f"{JOURNAL}/{stage}/{name}/output.json"
    record = read_record(folder, file, OutputRecord)
    if record is None or output_file(record.spec) != file:
        return None
    blocks = {block.index: block for block in record.blocks}
    for index, place in sorted(_block_files(folder.find(record.spec.journal), record.spec).items()):
        block = read_record(folder, place, Block)
        if block is not None and block.index == index and is_block_of(record.spec, block):
            blocks[index] = block
    return record.model_copy(update={"blocks": tuple(blocks[index] for index in sorted(blocks))})


def is_block_of(output: Output, block: Block) -> bool:
    """Return whether all files of a block lie in its place."""
    try:
        check_block(output, block)
    except ValueError:
        return False
    return block.index < len(output.row_blocks)


def _block_files(files: Iterable[str], output: Output) -> dict[int, str]:
    """Return the files of a journal that record blocks of an output, by the number of the block."""
    own = (name for name in files if name.rpartition("/")[0] == output.journal)
    return {int(found[1]): name for name in own if (found := _BLOCK.search(name))}


def blocks_done(folder: Folder, stage: str) -> dict[str, tuple[int, int]]:
    """Return how many blocks of each announced output of a stage are recorded, and of how many."""
    files = folder.find(f"{JOURNAL}/{stage}")
    return {
        name: (
            len({block.index for block in record.blocks} | _block_files(files, record.spec).keys()),
            len(record.spec.row_blocks),
        )
        for name, record in announced(folder, stage).items()
    }


def seconds_worked(folder: Folder, stage: str) -> float:
    """Return how long an interrupted stage had worked when its newest block was done; pauses do not count."""
    infos = folder.fs.find(folder.inside(f"{JOURNAL}/{stage}"), detail=True)
    times = {
        name: info.get("mtime") or info.get("LastModified") or info.get("updated") or info.get("created")
        for name, info in infos.items()
        if _BLOCK.search(name)
    }
    known = {
        name: time.timestamp() if isinstance(time, datetime) else float(time)
        for name, time in times.items()
        if time is not None
    }
    if not known:
        return 0.0
    newest = max(known, key=lambda name: known[name])
    block = read_record(folder, newest[len(folder.root) + 1 :], Block)
    return 0.0 if block is None else block.seconds


def files_above(spec: Output) -> list[str]:
    """Return the files of the Zarr groups that an array lies in."""
    if not spec.is_array:
        return []
    parts = spec.location.split("/")
    return ["/".join([*parts[:n], "zarr.json"]) for n in range(1, len(parts))]


def has_records(folder: Folder) -> bool:
    """Return whether a folder holds a whole record that a stage has begun or is committed."""
    try:
        catalog = Catalog(folder, is_writer=False)
        return bool(catalog.manifests() or catalog.begun())
    except FileNotFoundError:  # a bucket that is not there
        return False
