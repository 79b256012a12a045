"""The journal of a stage that runs: what it is made from, what each output is going to be, and each block on disk.

It is what a run that was interrupted goes on from. It ends with the commit of the stage, and its temporary outputs
with it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow.parquet as pq

from distembed.execution import tell
from distembed.storage import blocks, records, verify
from distembed.storage.catalog import (
    Catalog,
    announced,
    begun_file,
    block_file,
    files_above,
    output_file,
    read_announced,
    read_record,
    seconds_worked,
)
from distembed.storage.folder import Folder


@dataclass
class Stored:
    """An output in the journal: its description, the files of the whole, and its blocks that are on disk."""

    spec: records.Output
    files: dict[str, records.FileRecord] = field(default_factory=dict)
    blocks: dict[int, records.Block] = field(default_factory=dict)

    def record(self, *, whole: bool = True) -> records.OutputRecord:
        """Return its record with all its blocks, or with those that there are.

        Raises
        ------
        ValueError
            If it is to be whole, and lacks some.
        """
        spec, n_blocks = self.spec, len(self.spec.row_blocks)
        if whole and len(self.blocks) != n_blocks:
            raise ValueError(
                f"Output {spec.name!r} of stage {spec.stage!r} has {len(self.blocks)} of {n_blocks} blocks: store it."
            )
        there = tuple(self.blocks[index] for index in sorted(self.blocks))
        return records.OutputRecord(spec=spec, blocks=there, files=self.files)


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
        # Outputs of which this object has read, or written, each block that it knows.
        self._checked: set[str] = set()
        self._since, self._earlier = time.monotonic(), 0.0

    # --- the stage -----------------------------------------------------------------------------------------

    def resumes(self) -> bool:
        """Return whether this run has begun, or an interrupted one left usable records."""
        if not self._is_begun:
            begun = read_record(self._folder, begun_file(self.stage), records.Begun)
            known = None if begun is None else (begun.fingerprint, begun.made_with)
            if known == (self.made_from.fingerprint, self.made_from.made_with):
                self._earlier = seconds_worked(self._folder, self.stage)
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
        self._is_begun, self.outputs, self._checked = False, {}, set()

    def reopen(self, manifest: records.StageManifest, damaged: Sequence[records.Problem]) -> None:
        """Begin with the blocks of a commit that are not damaged, and withdraw the commit.

        None is kept where other versions have made them.
        """
        bad = {(problem.output, problem.block) for problem in damaged}
        for name, record in manifest.outputs.items():
            if manifest.made_with == self.made_from.made_with:
                good = tuple(block for block in record.blocks if (name, block.index) not in bad)
                kept = records.OutputRecord(spec=record.spec, blocks=good, files=record.files)
                self._folder.write(output_file(record.spec), records.dumped(kept))
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
        return list(announced(self._folder, self.stage)) if self.resumes() else []

    def find(self, name: str) -> Stored | None:
        """Return an output that this run or an interrupted one has begun."""
        if name not in self.outputs and self.resumes():
            found = read_announced(self._folder, self.stage, name)
            if found is not None:
                blocks = {block.index: block for block in found.blocks}
                self.outputs[name] = self._with_attributes(Stored(found.spec, found.files, blocks))
        return self.outputs.get(name)

    def announce(self, spec: records.Output, kept: Mapping[int, records.Block] | None = None) -> Stored:
        """Record an output before its first block; another output of the same name and another shape is removed.

        Parameters
        ----------
        spec : Output
            What it is going to be.
        kept : mapping, optional
            The items that it has from before, by number (`kept_items`).
        """
        if len(spec.row_blocks) * records.BLOCK_BYTES > records.RECORD_BYTES:
            raise ValueError(
                f"Output {spec.name!r} would have {len(spec.row_blocks):,} blocks, more than a manifest may name: make "
                "larger ones."
            )
        self.begin(spec if kept else None)
        self._catalog.take_place(spec)
        stored = self.find(spec.name)
        if stored is None or stored.spec != spec:
            self._checked.discard(spec.name)
            if kept:  # of the items of before only they stay
                wanted = {spec.block_location(0, item.key) for item in kept.values()}
                for place in _item_folders(spec, self._folder.find(spec.location)) - wanted:
                    self._folder.remove(place)
            else:
                for old in [spec, *([] if stored is None else [stored.spec])]:
                    remove_data(self._folder, old)
            self._folder.remove(spec.journal)
            stored = Stored(spec, blocks=dict(kept or {}))
            self._folder.write(output_file(spec), records.dumped(stored.record(whole=False)))
        self.outputs[spec.name] = stored = self._with_attributes(stored)
        return stored

    def kept_items(self, spec: records.Output, keys: Sequence[str]) -> dict[int, records.Block]:
        """Return the items of other parameters or inputs that have a key of this output, by their new number.

        Items that other versions made are not taken.
        """
        if self.resumes():
            return {}
        old: records.Begun | None = self._catalog.manifests().get(self.stage)
        if isinstance(old, records.StageManifest):
            before = old.outputs.get(spec.name)
        else:
            old = read_record(self._folder, begun_file(self.stage), records.Begun)
            before = read_announced(self._folder, self.stage, spec.name)
        if before is None or old is None or old.made_with != self.made_from.made_with:
            return {}
        there = self._folder.find(spec.location)
        known = {item.key: item for item in before.blocks if item.files.keys() <= there.keys()}
        return {
            index: known[key].model_copy(update={"index": index, "seconds": 0.0})
            for index, key in enumerate(keys)
            if key in known
        }

    def _with_attributes(self, stored: Stored) -> Stored:
        """Write what Zarr says of an array that lasts, and of the groups above it, where it is absent or damaged."""
        spec = stored.spec
        if not spec.is_array or spec.temporary:
            return stored
        name = f"{spec.location}/zarr.json"
        known = stored.files.get(name)
        if known is None or verify.what_is_wrong(self._folder, name, known):
            for place in files_above(spec):
                if not self._folder.exists(place):
                    self._folder.write(place, blocks.group_text())
            stored.files = {name: self._folder.write(name, blocks.attributes_text(spec))}
            self._folder.write(output_file(spec), records.dumped(stored.record(whole=False)))
        return stored

    def missing(self, stored: Stored) -> list[int]:
        """Return the blocks to compute, after checking the files of those that an earlier run has recorded."""
        spec = stored.spec
        if spec.name not in self._checked:
            there = records.OutputRecord(spec=spec, blocks=stored.record(whole=False).blocks)
            for problem in verify.run_checks(verify.checks(self._folder, there)):
                stored.blocks.pop(problem.block, None)
            self._checked.add(spec.name)
        _tell(stored)
        return [index for index in range(len(spec.row_blocks)) if index not in stored.blocks]

    def recorder(self, stored: Stored) -> Callable[[records.Block], None]:
        """Return the function that is called with each block as it completes."""

        def record(block: records.Block) -> None:
            seconds = round(self._earlier + time.monotonic() - self._since, 3)
            block = block.model_copy(update={"seconds": seconds})
            self._folder.write(block_file(stored.spec, block.index), records.dumped(block))
            stored.blocks[block.index] = block
            _tell(stored)

        self._checked.add(stored.spec.name)
        return record

    def forget(self, name: str) -> None:
        """Remove an output, with all that is known of it."""
        found = self.outputs.pop(name, None) or read_announced(self._folder, self.stage, name)
        if found is not None:
            remove_data(self._folder, found.spec)
            self._folder.remove(found.spec.journal)
        self._catalog.give_places(self.stage, name)
        self._checked.discard(name)


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
