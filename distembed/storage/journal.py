"""The journal of a stage that runs: what it is made from, what each output is going to be, and each block on disk.

It is what a run that was interrupted goes on from. It ends with the commit of the stage, and its temporary outputs
with it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pyarrow.parquet as pq

from distembed.execution import tell
from distembed.storage import records, verify
from distembed.storage.catalog import (
    Catalog,
    announced,
    announced_names,
    begun_file,
    block_file,
    output_file,
    read_announced,
    recorded_blocks,
    worked_file,
)
from distembed.storage.folder import Folder

WORKED_SECONDS = 1.0
"""How long a stage has worked is written once in so many seconds."""


@dataclass
class Stored:
    """An output in the journal: its description, and its blocks that are on disk.

    It is checked when this run has read, or written, each of these blocks.
    """

    spec: records.Output
    blocks: dict[int, records.Block]
    is_checked: bool = False

    def record(self) -> records.OutputRecord:
        """Return its record with the blocks that there are."""
        there = tuple(self.blocks[index] for index in sorted(self.blocks))
        return records.OutputRecord(spec=self.spec, blocks=there)


class Journal:
    """The journal of a stage, as it is on disk and as its single writer keeps it.

    Attributes
    ----------
    made_from : Begun
        What the stage is made from; an interrupted run of something else is no part of it.
    outputs : dict
        What this run has stored, or found, by name.
    """

    def __init__(self, catalog: Catalog, made_from: records.Begun) -> None:
        self.made_from, self.stage = made_from, made_from.stage
        self.outputs: dict[str, Stored] = {}
        self._catalog, self._folder = catalog, catalog.folder
        self._is_begun = False
        self._beginning = threading.Lock()
        self._since, self._written = time.monotonic(), 0.0

    # --- the stage -----------------------------------------------------------------------------------------

    def resumes(self) -> bool:
        """Return whether this run has begun, or an interrupted one left usable records."""
        if not self._is_begun:
            begun, own = self._catalog.begun_of(self.stage), self.made_from
            if begun and (begun.fingerprint, begun.made_with) == (own.fingerprint, own.made_with):
                self._since -= begun.seconds
                self._is_begun = True  # never False again, which another thread has set
        return self._is_begun

    def begin(self, kept: records.Output | None = None) -> None:
        """Begin, and remove what the stage had before but for the data of one output."""
        with self._beginning:  # threads of one stage may begin at once
            if not self.resumes():
                # A record stays wherever a run is killed: by it the folder is known for a workspace.
                self._write_begun(self.made_from.model_copy(update={"fingerprint": ""}))
                remove_stage(self._catalog, self.stage, kept=kept, has_begun=True)
                self.clear()
                self._write_begun(self.made_from)
                self._is_begun = True

    def clear(self) -> None:
        """Forget what this object knows."""
        self._is_begun, self.outputs = False, {}

    def reopen(self, manifest: records.StageManifest, damaged: Iterable[records.Problem]) -> None:
        """Begin with the blocks of a commit that are not damaged, and withdraw the commit.

        None is kept where other versions have made them.
        """
        bad = {(problem.output, problem.block) for problem in damaged}
        for name, record in manifest.outputs.items():
            if manifest.made_with == self.made_from.made_with:
                good = {block.index: block for block in record.blocks if (name, block.index) not in bad}
                self._announce(Stored(record.spec, good))
            else:
                remove_data(self._folder, record.spec)
        self._write_begun(self.made_from)
        self._catalog.remove(self.stage)
        self.clear()

    def _write_begun(self, made_from: records.Begun) -> None:
        digests = self._catalog.digests(made_from.inputs)
        begun, name = made_from.model_copy(update={"input_digests": digests}), begun_file(self.stage)
        self._folder.write(name, records.dumped(begun))
        self._folder.sync([name])  # it tells, where nothing is committed, that what lies here is a workspace

    # --- its outputs ---------------------------------------------------------------------------------------

    def names(self) -> list[str]:
        """Return the names of the outputs that this run or an interrupted one has begun."""
        return announced_names(self._folder, self.stage) if self.resumes() else []

    def find(self, name: str) -> Stored | None:
        """Return an output that this run or an interrupted one has begun."""
        if name not in self.outputs and self.resumes():
            found = read_announced(self._folder, self.stage, name)
            if found is not None:
                self.outputs[name] = Stored(found.spec, recorded_blocks(self._folder, found))
        return self.outputs.get(name)

    def announce(self, spec: records.Output, keys: Sequence[str] = ()) -> list[int]:
        """Record an output before its first block, and return the blocks to be made.

        Another output of the same name and another shape is removed.

        Of items with keys those stay that the stage has from before, made of other parameters or inputs.
        """
        if len(spec.row_blocks) * records.BLOCK_BYTES > records.RECORD_BYTES:
            raise ValueError(
                f"Output {spec.name!r} would have {len(spec.row_blocks):,} blocks, more than a manifest may name: make "
                "larger ones."
            )
        kept = self._kept_items(spec, keys)
        self.begin(spec if kept else None)
        self._catalog.take_place(spec)
        stored = self.find(spec.name)
        if stored is None or stored.spec != spec:
            if kept:
                wanted = {spec.block_location(0, item.key) for item in kept.values()}
                for place in _item_folders(spec, self._folder.find(spec.location)) - wanted:
                    self._folder.remove(place)
            else:
                for old in [spec, *([] if stored is None else [stored.spec])]:
                    remove_data(self._folder, old)
            self._folder.remove(spec.journal)
            stored = Stored(spec, kept)
            self._announce(stored)
        self.outputs[spec.name] = stored
        return self.missing(stored)

    def _announce(self, stored: Stored) -> None:
        self._folder.write(output_file(stored.spec), records.dumped(stored.record()))

    def _kept_items(self, spec: records.Output, keys: Sequence[str]) -> dict[int, records.Block]:
        """Return the items of other parameters or inputs that have a key of this output, by their new number.

        Items that other versions made are not taken.
        """
        if not keys or self.resumes():
            return {}
        old: records.Begun | None = self._catalog.manifests().get(self.stage)
        if isinstance(old, records.StageManifest):
            before = old.outputs[spec.name].blocks if spec.name in old.outputs else ()
        else:
            old, found = (
                self._catalog.begun_of(self.stage),
                read_announced(self._folder, self.stage, spec.name),
            )
            before = tuple(recorded_blocks(self._folder, found).values()) if found else ()
        if old is None or old.made_with != self.made_from.made_with:
            return {}
        there = self._folder.find(spec.location)
        known = {item.key: item for item in before if item.files.keys() <= there.keys()}
        return {
            index: known[key].model_copy(update={"index": index})
            for index, key in enumerate(keys)
            if key in known
        }

    def missing(self, stored: Stored) -> list[int]:
        """Return the blocks to compute, after checking the files of those that an earlier run has recorded."""
        if not stored.is_checked:
            for problem in verify.check_blocks(self._folder, [stored.record()]):
                stored.blocks.pop(problem.block, None)
            stored.is_checked = True
        _tell(stored)
        return [index for index in range(len(stored.spec.row_blocks)) if index not in stored.blocks]

    def add(self, spec: records.Output, block: records.Block) -> None:
        """Record a block that is on disk."""
        stored = self.outputs[spec.name]
        self._folder.write(block_file(spec, block.index), records.dumped(block))
        stored.blocks[block.index] = block
        seconds = time.monotonic() - self._since
        if seconds - self._written >= WORKED_SECONDS:
            self._written = seconds
            self._folder.write(
                worked_file(self.stage), records.dumped(records.Worked(seconds=round(seconds, 3)))
            )
        _tell(stored)

    def forget(self, name: str) -> None:
        """Remove an output, with all that is known of it."""
        found = self.outputs.pop(name, None) or read_announced(self._folder, self.stage, name)
        if found is not None:
            remove_data(self._folder, found.spec)
            self._folder.remove(found.spec.journal)
        self._catalog.give_places(self.stage, name)


def _tell(stored: Stored) -> None:
    """Report how many blocks of a large output are on disk; states report their rounds."""
    spec = stored.spec
    if spec.kind == "files" or (spec.is_array and not spec.temporary):
        words = spec.name.rpartition("/")[2].replace("_", " ")
        tell(f"blocks of {words}", len(stored.blocks), len(spec.row_blocks))


# --- what is removed -------------------------------------------------------------------------------------------


def remove_stage(
    catalog: Catalog, stage: str, *, kept: records.Output | None = None, has_begun: bool = False
) -> None:
    """Remove a stage: first the commit, then the data, but for those of one output, and last its journal.

    Of the journal of a stage that has begun again the head stays.
    """
    manifest, folder = catalog.manifests().get(stage), catalog.folder
    outputs = [*announced(folder, stage).values(), *(manifest.outputs.values() if manifest else ())]
    catalog.remove(stage)
    for record in outputs:
        if kept is None or record.spec.name != kept.name:
            remove_data(folder, record.spec)
    if has_begun:
        for name in folder.find(f"{records.JOURNAL}/{stage}").keys() - {begun_file(stage)}:
            folder.remove(name)
    else:
        _remove_ended(folder, stage)
    catalog.give_places(stage)


def remove_journal(catalog: Catalog, stage: str) -> None:
    """Remove the journal of a committed stage, with the temporary outputs that it names."""
    for name, record in announced(catalog.folder, stage).items():
        if record.spec.temporary:
            remove_data(catalog.folder, record.spec)
            catalog.give_places(stage, name)
    _remove_ended(catalog.folder, stage)


def _remove_ended(folder: Folder, stage: str) -> None:
    """Remove the folder of the states of a stage, and then its journal, which names them."""
    folder.remove(f"{records.ARRAYS}/{records.STATES}/{stage}")
    if folder.is_local and not folder.find(f"{records.ARRAYS}/{records.STATES}"):
        folder.remove(
            f"{records.ARRAYS}/{records.STATES}"
        )  # an empty folder is nothing that readers of Zarr know
    folder.remove(f"{records.JOURNAL}/{stage}")


def remove_data(folder: Folder, spec: records.Output) -> None:
    """Remove the data of an output, and no folder or file of the user that lies where a record names one."""
    if spec.kind == "files":
        names = folder.find(spec.location)
        for place in {spec.location} if all(map(spec.may_own, names)) else _item_folders(spec, names):
            folder.remove(place)
    elif spec.is_array or _is_as_announced(folder, spec):
        folder.remove(spec.location)


def _item_folders(spec: records.Output, names: Iterable[str]) -> set[str]:
    """Return the folders of the items that some files are of; others are the user's."""
    depth = spec.location.count("/") + 2
    return {"/".join(name.split("/")[:depth]) for name in names if spec.may_own(name)}


def _is_as_announced(folder: Folder, spec: records.Output) -> bool:
    """Return whether a file has the bytes, or the rows and columns, of the output that was announced in its place."""
    try:
        path = folder.readable(spec.location)
        if spec.kind in ("bytes", "page"):
            return bool(folder.fs.size(path) == spec.shape[0])
        with folder.fs.open(path, "rb") as file:
            found = pq.read_metadata(file)
        return (found.num_rows, len(found.schema.to_arrow_schema())) == spec.shape
    except (OSError, ValueError):
        return False
