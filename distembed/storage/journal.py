"""The journal of a stage that runs: what it is made from, what each output is going to be, and each block on disk.

It is what a run that was interrupted goes on from. It ends with the commit of the stage, and its temporary outputs
with it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

import pyarrow.parquet as pq

from distembed.execution import tell
from distembed.storage import records, verify
from distembed.storage.catalog import Catalog, begun_file, read_journal
from distembed.storage.folder import Folder

WORKED_SECONDS = 1.0
"""How long a stage has worked is written once in so many seconds."""


@dataclass
class Stored:
    """An output in the journal: its description, and its blocks that are on disk."""

    spec: records.Output
    blocks: dict[int, records.Block]
    is_checked: bool = False
    """Whether this run has read, or written, each of these blocks."""
    is_used: bool = False
    """Whether this run has stored it, or asked for it: else it is what an interrupted one has left."""

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
        What this run or an interrupted one has begun, by name.
    """

    def __init__(self, catalog: Catalog, made_from: records.Begun) -> None:
        self.made_from, self.stage = made_from, made_from.stage
        self.outputs: dict[str, Stored] = {}
        self._catalog, self._folder = catalog, catalog.folder
        self._is_begun = False
        self._beginning = threading.RLock()  # threads of one stage may begin at once
        self._since, self._written = time.monotonic(), 0.0
        self._worked, self._first = (
            records.Worked(),
            (0.0, 0),
        )  # when the present rounds began, and how many were done

    # --- the stage -----------------------------------------------------------------------------------------

    def resumes(self) -> bool:
        """Return whether this run has begun, or an interrupted one left usable records."""
        with self._beginning:
            if not self._is_begun:
                begun, own = self._catalog.begun_of(self.stage), self.made_from
                if begun and (begun.fingerprint, begun.made_with) == (own.fingerprint, own.made_with):
                    self._since -= begun.worked.seconds
                    self.outputs = {
                        name: Stored(record.spec, {block.index: block for block in record.blocks})
                        for name, record in read_journal(self._folder, self.stage).items()
                    }
                    self._is_begun = True
            return self._is_begun

    def begin(self, kept: Stored | None = None) -> None:
        """Begin, and remove what the stage had before but for some items of one output."""
        with self._beginning:
            if not self.resumes():
                # A record stays wherever a run is killed: by it the folder is known for a workspace.
                self._write_begun(self.made_from.model_copy(update={"fingerprint": ""}))
                if kept is not None:  # recorded before the commit goes that has recorded them so far
                    self._write_output(kept)
                    self.outputs[kept.spec.name] = kept
                remove_stage(self._catalog, self.stage, kept=kept, has_begun=True)
                self._write_begun(self.made_from)
                self._is_begun = True

    def reopen(self, manifest: records.StageManifest, damaged: Iterable[records.Problem]) -> None:
        """Begin with the blocks of a commit that are not damaged, and withdraw the commit.

        None is kept where other versions have made them.
        """
        bad = {(problem.output, problem.block) for problem in damaged}
        for name, record in manifest.outputs.items():
            if manifest.made_with == self.made_from.made_with:
                good = {block.index: block for block in record.blocks if (name, block.index) not in bad}
                self._write_output(Stored(record.spec, good))
            else:
                remove_data(self._folder, record.spec)
        self._write_begun(self.made_from)
        self._catalog.remove(self.stage)
        self._is_begun = False

    def _write_begun(self, made_from: records.Begun) -> None:
        done, name = self._catalog.manifests(), begun_file(self.stage)
        digests = {stage: done[stage].digest if stage in done else "" for stage in made_from.inputs}
        self._folder.write(name, records.dumped(made_from.model_copy(update={"input_digests": digests})))
        self._folder.sync([name])  # it tells, where nothing is committed, that what lies here is a workspace

    def _write_output(self, stored: Stored) -> None:
        self._folder.write(f"{stored.spec.journal}/output.json", records.dumped(stored.record()))

    # --- its outputs ---------------------------------------------------------------------------------------

    def announce(self, spec: records.Output, keys: Sequence[str] = ()) -> list[int]:
        """Record an output before its first block, and return the blocks to be made.

        Another output of the same name and another shape is removed.

        Of items with keys those stay that the stage has from before, made of other parameters or inputs.

        Raises
        ------
        ValueError
            If it has too many blocks, or would lie where another output does.
        """
        if len(spec.row_blocks) * records.BLOCK_BYTES > records.RECORD_BYTES:
            raise ValueError(
                f"Output {spec.name!r} would have {len(spec.row_blocks):,} blocks, more than a manifest may name: make "
                "larger ones."
            )
        kept = self._kept_items(spec, keys)
        self.begin(Stored(spec, kept) if kept else None)
        self._take_place(spec)
        stored = self.outputs.get(spec.name)
        if stored is None or stored.spec != spec:
            if stored is not None:
                remove_data(self._folder, spec)
                remove_data(self._folder, stored.spec)
                self._folder.remove(spec.journal)
            stored = Stored(spec, {})
            self._write_output(stored)
            self.outputs[spec.name] = stored
        return self.missing(stored)

    def _take_place(self, spec: records.Output) -> None:
        done = [each for made in self._catalog.manifests().values() for each in made.outputs.values()]
        for other in (*(each.spec for each in done), *self._catalog.places.values()):
            pairs = ((f"{spec.name}/", f"{other.name}/"), (f"{spec.location}/", f"{other.location}/"))
            collides = any(a.startswith(b) or b.startswith(a) for a, b in pairs)
            if collides and (other.stage, other.name) != (spec.stage, spec.name):
                raise ValueError(
                    f"Output {spec.name!r} of stage {spec.stage!r} would share its place with "
                    f"{other.name!r} of stage {other.stage!r}: give it another name."
                )
        self._catalog.places[spec.stage, spec.name] = spec

    def _kept_items(self, spec: records.Output, keys: Sequence[str]) -> dict[int, records.Block]:
        """Return the items of other parameters or inputs that have a key of this output, by their new number.

        Items that other versions made are not taken.
        """
        if not keys or self.resumes():
            return {}
        manifest = self._catalog.manifests().get(self.stage)
        old = manifest or self._catalog.begun_of(self.stage)
        if old is None or old.made_with != self.made_from.made_with:
            return {}
        outputs = manifest.outputs if manifest else read_journal(self._folder, self.stage)
        before, there = outputs.get(spec.name), self._folder.find(spec.location)
        known = {
            item.key: item for item in (before.blocks if before else ()) if item.files.keys() <= there.keys()
        }
        return {
            index: known[key].model_copy(update={"index": index})
            for index, key in enumerate(keys)
            if key in known
        }

    def missing(self, stored: Stored) -> list[int]:
        """Return the blocks to compute, after checking the files of those that an earlier run has recorded."""
        stored.is_used = True
        if not stored.is_checked:
            for problem in verify.check_blocks(self._folder, [stored.record()]):
                stored.blocks.pop(problem.block, None)
            stored.is_checked = True
        _tell(stored)
        return [index for index in range(len(stored.spec.row_blocks)) if index not in stored.blocks]

    def add(self, spec: records.Output, block: records.Block) -> None:
        """Record a block that is on disk."""
        stored = self.outputs[spec.name]
        self._folder.write(f"{spec.journal}/{block.index:06d}.json", records.dumped(block))
        stored.blocks[block.index] = block
        self._write_worked()
        _tell(stored)

    def note(self, unit: str, done: int, total: int | None) -> None:
        """Record that so many rounds, blocks or the like of a total are done, and about how long the others take."""
        seconds = time.monotonic() - self._since
        if unit != self._worked.unit or done < self._worked.done:
            self._first = seconds, done
        began, n_before = self._first
        each = (seconds - began) / (done - n_before) if done > n_before else None
        left = None if total is None or each is None else max(0.0, round(each * (total - done), 3))
        self._worked = records.Worked(unit=unit, done=done, total=total, left=left)
        self._write_worked()

    def _write_worked(self) -> None:
        seconds = time.monotonic() - self._since
        if self._is_begun and seconds - self._written >= WORKED_SECONDS:
            self._written = seconds
            worked = self._worked.model_copy(update={"seconds": round(seconds, 3)})
            self._folder.write(f"{records.JOURNAL}/{self.stage}/worked.json", records.dumped(worked))

    def forget(self, name: str) -> None:
        """Remove an output, with all that is known of it."""
        if self.resumes() and (found := self.outputs.pop(name, None)):
            remove_data(self._folder, found.spec)
            self._folder.remove(found.spec.journal)
            self._catalog.places.pop((self.stage, name), None)


def _tell(stored: Stored) -> None:
    """Report how many blocks of a large output are on disk; states report their rounds."""
    spec = stored.spec
    if spec.kind == "files" or (spec.is_array and not spec.temporary):
        words = spec.name.rpartition("/")[2].replace("_", " ")
        tell(f"blocks of {words}", len(stored.blocks), len(spec.row_blocks))


# --- what is removed -------------------------------------------------------------------------------------------


def remove_stage(
    catalog: Catalog, stage: str, *, kept: Stored | None = None, has_begun: bool = False
) -> None:
    """Remove a stage: first the commit, then the data, but for some items of one output, and last its journal.

    Of the journal of a stage that has begun again the head stays, and the record of what is kept.
    """
    manifest, folder = catalog.manifests().get(stage), catalog.folder
    outputs = [
        *read_journal(folder, stage, reading=False).values(),
        *(manifest.outputs.values() if manifest else ()),
    ]
    catalog.remove(stage)
    stays = {begun_file(stage)}
    if kept is not None:
        stays.add(f"{kept.spec.journal}/output.json")
        places = {kept.spec.block_location(0, item.key) for item in kept.blocks.values()}
        remove_data(folder, kept.spec, places)
    for record in outputs:
        if kept is None or record.spec.name != kept.spec.name:
            remove_data(folder, record.spec)
    if has_begun:
        for name in folder.find(f"{records.JOURNAL}/{stage}").keys() - stays:
            folder.remove(name)
    else:
        _remove_ended(folder, stage)
    catalog.forget_places(stage)


def remove_journal(folder: Folder, stage: str, specs: Iterable[records.Output]) -> None:
    """Remove the journal of a committed stage, with the temporary ones of the outputs that it names."""
    for spec in specs:
        if spec.temporary:
            remove_data(folder, spec)
    _remove_ended(folder, stage)


def _remove_ended(folder: Folder, stage: str) -> None:
    """Remove the folder of the states of a stage, and then its journal, which names them."""
    states = f"{records.ARRAYS}/{records.STATES}"
    folder.remove(f"{states}/{stage}")
    if folder.is_local and not folder.find(states):
        folder.remove(states)  # an empty folder is nothing that readers of Zarr know
    folder.remove(f"{records.JOURNAL}/{stage}")


def remove_data(folder: Folder, spec: records.Output, kept: Collection[str] = ()) -> None:
    """Remove the data of an output but for some items, and nothing of the user that lies where a record names it."""
    if spec.kind == "files":
        names = folder.find(spec.location)
        depth = spec.location.count("/") + 2
        own = {"/".join(name.split("/")[:depth]) for name in names if spec.may_own(name)}
        is_whole = not kept and all(map(spec.may_own, names))
        for place in {spec.location} if is_whole else own.difference(kept):
            folder.remove(place)
    elif spec.is_array or _is_as_announced(folder, spec):
        folder.remove(spec.location)


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
