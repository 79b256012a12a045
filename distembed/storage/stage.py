"""Writes one stage: stored and resumed block by block, and committed by a manifest that is written last.

While a stage runs, its journal names each output before its first block, and each block when it is on disk, so that a
run that was interrupted goes on. The commit writes the manifest, and the journal ends with the temporary outputs.
"""

from __future__ import annotations

import json
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple, Protocol

import dask.array as da
import pyarrow as pa
import pyarrow.parquet as pq

from distembed.storage import blocks, tasks, verify
from distembed.storage.blocks import kernel
from distembed.storage.catalog import (
    Catalog,
    announced,
    begun_file,
    block_file,
    files_above,
    output_file,
    read_announced,
    read_record,
    replaced,
    seconds_worked,
)
from distembed.storage.folder import Folder
from distembed.storage.records import (
    ARRAYS,
    BLOCK_BYTES,
    JOURNAL,
    RECORD_BYTES,
    STATES,
    VERSION,
    Begun,
    Block,
    FileRecord,
    Output,
    OutputRecord,
    Problem,
    StageManifest,
    canonical_json,
    check_stage,
    dumped,
    fingerprint,
)

Progress = Callable[[int, int], None]


class MakeFiles(Protocol):
    """A function that writes the files of an item, named `prefix` plus a suffix, and returns a JSON summary."""

    def __call__(self, index: int, prefix: str, /) -> Mapping[str, Any]:
        """Write the files and return the summary."""
        ...


class FileItem(NamedTuple):
    """One item of `Stage.store_files`: the full paths or URLs of its files, sorted, and its summary."""

    paths: list[str]
    summary: Mapping[str, Any]


@dataclass
class _Stored:
    """An output in the journal: its description, the files of the whole, and its blocks that are on disk."""

    spec: Output
    files: dict[str, FileRecord] = field(default_factory=dict)
    blocks: dict[int, Block] = field(default_factory=dict)

    def record(self) -> OutputRecord:
        """Return its record with all its blocks.

        Raises
        ------
        ValueError
            If it lacks some.
        """
        n_blocks = len(self.spec.row_blocks)
        if len(self.blocks) != n_blocks:
            raise ValueError(
                f"Output {self.spec.name!r} of stage {self.spec.stage!r} has {len(self.blocks)} of {n_blocks} blocks: "
                "store it."
            )
        made = tuple(self.blocks[index] for index in sorted(self.blocks))
        return OutputRecord(spec=self.spec, blocks=made, files=self.files)


class Stage:
    """A stage of a workspace that is being written. It is created by `Workspace.stage`.

    A stage is committed when its manifest exists and was written for equal parameters and inputs, and each input
    still has the content that it had then; storing to a committed stage computes nothing. An interrupted stage
    keeps every recorded block whose digest is still right, if it was begun with the same `made_with`; otherwise
    it starts again, so that a stage never holds blocks of two versions. A stage whose parameters or inputs have
    changed removes its own old blocks when it begins to write, but for items that `store_files` knows by their keys.
    The stages that depend on it are removed when it is committed; until then they stay unchanged.

    Examples
    --------
    >>> import dask.array as da
    >>> import distembed as de
    >>> workspace = de.Workspace.create("runs/mine", owner="example")
    >>> stage = workspace.stage("numbers", parameters={"n": 4}, inputs={})
    >>> options = {"dims": ["number"], "units": "1", "meaning": "The first numbers."}
    >>> stored = stage.store("numbers", da.arange(4, chunks=2), **options)
    >>> stage.is_committed
    False
    >>> manifest = stage.commit({"sum": 6})
    >>> stage.is_committed, sorted(manifest.outputs), dict(manifest.facts)
    (True, ['numbers'], {'sum': 6})
    >>> workspace.array("numbers").compute().tolist()
    [0, 1, 2, 3]
    >>> workspace.close()
    """

    def __init__(
        self,
        catalog: Catalog,
        name: str,
        *,
        parameters: Mapping[str, Any],
        inputs: Mapping[str, str],
        made_with: Mapping[str, str],
    ) -> None:
        self._catalog, self._folder = catalog, catalog.folder
        self.name = check_stage(name)
        self.parameters = dict(parameters)
        self.inputs = {check_stage(each): known for each, known in inputs.items()}
        self.made_with = dict(made_with)
        self.fingerprint = fingerprint(name, parameters, inputs)
        done = catalog.manifests()
        found = done.get(name)
        fits = found is not None and found.fingerprint == self.fingerprint and not replaced(found, done)
        self.manifest = found if fits else None
        self._is_begun = False
        self._beginning = threading.Lock()
        self._stored: dict[str, _Stored] = {}
        self._checked: set[str] = set()  # outputs of which no block is unread since this object knows them
        self._since, self._earlier = time.monotonic(), 0.0

    @property
    def is_committed(self) -> bool:
        """Return whether the stage is committed with these parameters and inputs; no data are read."""
        return self.manifest is not None

    def store(
        self,
        name: str,
        array: da.Array,
        *,
        dims: Sequence[str],
        units: str,
        meaning: str,
        temporary: bool = False,
        constant: float = 0.0,
        progress: Progress | None = None,
    ) -> da.Array:
        """Store an array row block by row block and return it opened lazily from disk.

        Only blocks that are not recorded, or no longer what was recorded, are computed; each is written by
        its own task, and recorded here as it completes.

        Parameters
        ----------
        name : str
            Name of the array; ``/`` makes nested groups.
        array : da.Array
            Dense with at least one axis, or with csr_array chunks. Chunks along further axes are joined: a
            row block is the unit of storing and must fit a worker. The row blocks of a dense array are cut again
            where they are of several sizes.
        dims, units, meaning
            One name per axis; the unit of the values; a sentence saying what a value is.
        temporary : bool
            Remove the output when the stage is committed.
        constant : float
            What is to be added to every cell of a sparse array to have the matrix that it stands for.
        progress : callable, optional
            Called with blocks done and blocks in all.

        Raises
        ------
        ValueError
            If chunk sizes are unknown, the array has no axis, dims do not fit, or another stage owns the
            name.
        OSError
            If a block cannot be written.

        Examples
        --------
        >>> import dask.array as da
        >>> import distembed as de
        >>> workspace = de.Workspace.create("runs/mine", owner="example")
        >>> stage = workspace.stage("numbers", parameters={"n": 4}, inputs={})
        >>> options = {"dims": ["number"], "units": "1", "meaning": "The first numbers."}
        >>> stored = stage.store("numbers", da.arange(4, chunks=2), **options)
        >>> stored.compute().tolist()
        [0, 1, 2, 3]
        >>> workspace.close()
        """
        said = {"units": units, "meaning": meaning, "constant": constant}
        spec = blocks.output_of(self.name, name, array, dims=tuple(dims), temporary=temporary, **said)
        if not self._is_kept(spec):
            stored = self._announce(spec)
            if missing := self._missing(stored, progress):
                rows = {0: spec.row_blocks, **dict.fromkeys(range(1, array.ndim), -1)}
                work = blocks.store_blocks(self._folder, spec, array.rechunk(rows), missing)
                with tasks.run_here() if blocks.is_held(array) else nullcontext():
                    tasks.run_blocks(work, self._recorder(stored, progress), name=_names(spec, missing))
        return self.array(name)

    def states(self, *, in_memory: bool = False) -> StageStates:
        """Return where the states of a computation lie while the stage is written: temporary outputs of it.

        Parameters
        ----------
        in_memory : bool
            Whether there is room in memory for the states that are forgotten before the stage ends.
        """
        return StageStates(self, in_memory)

    def announced(self) -> list[str]:
        """Return the names of the outputs that this run or an interrupted one has begun."""
        return list(announced(self._folder, self.name)) if self._resumes() else []

    def forget(self, name: str) -> None:
        """Remove a temporary output that nothing reads any more."""
        found = self._stored.pop(name, None) or read_announced(self._folder, self.name, name)
        if found is not None:
            self._remove_output(found.spec)

    def store_table(self, name: str, table: pa.Table) -> None:
        """Store a table as ``<name>.parquet``.

        Examples
        --------
        >>> import distembed as de
        >>> import pyarrow as pa
        >>> workspace = de.Workspace.create("runs/mine", owner="example")
        >>> stage = workspace.stage("numbers", parameters={"n": 4}, inputs={})
        >>> stage.store_table("words", pa.table({"word": ["cat", "dog"]}))
        >>> _ = stage.commit()
        >>> workspace.table("words")["word"].to_pylist()
        ['cat', 'dog']
        >>> workspace.close()
        """
        self.store_batches(name, table.schema, [table], n_rows=table.num_rows)

    def store_batches(self, name: str, schema: pa.Schema, tables: Iterable[pa.Table], *, n_rows: int) -> None:
        """Store a table that comes in pieces, one of which is in memory at a time, as ``<name>.parquet``.

        Raises
        ------
        ValueError
            If the pieces do not have `n_rows` rows together.
        """
        spec = Output(
            stage=self.name, name=name, kind="table", row_blocks=(n_rows,), shape=(n_rows, len(schema))
        )
        if self._is_kept(spec) or (self.is_stored(name) and self._stored[name].spec == spec):
            return
        stored, found = self._announce(spec), 0
        with (
            self._folder.writing(spec.location) as file,
            pq.ParquetWriter(file, schema, compression="zstd", write_page_checksum=True) as writer,
        ):
            for table in tables:
                writer.write_table(table)
                found += table.num_rows
        if found != n_rows:
            raise ValueError(f"the table {name} was said to have {n_rows} rows, and its pieces have {found}")
        self._recorder(stored, None)(Block(index=0, files={spec.location: file.record}))

    def store_bytes(self, name: str, data: bytes) -> None:
        """Store one plain file, such as a report or vectors in a text format."""
        spec = Output(stage=self.name, name=name, kind="bytes", row_blocks=(1,), shape=(len(data),))
        if not self._is_kept(spec):
            stored = self._announce(spec)
            written = self._folder.write(spec.location, data)
            self._recorder(stored, None)(Block(index=0, files={spec.location: written}))

    def store_files(
        self,
        name: str,
        n: int,
        make: MakeFiles,
        *,
        keys: Sequence[str] = (),
        temporary: bool = False,
        progress: Progress | None = None,
    ) -> list[FileItem]:
        """Run `n` independent tasks that each write files, resumed by the item; return the items in order.

        ``make(index, prefix)`` writes one or more files whose full names are `prefix` followed by anything
        (``prefix + ".parquet"``), in the folder of the item, and returns a small JSON-able summary. It must be
        picklable for a distributed scheduler and a deterministic function of its index, or of its key, where there
        are `keys`: the digest of what each item is made from, hexadecimal digits that name its folder. When the
        parameters or inputs of the stage have changed, it keeps the items of the keys that it is to have, and removes
        all others.

        Raises
        ------
        ValueError
            If an item writes no file, or another stage owns the name.

        Examples
        --------
        >>> import distembed as de
        >>> workspace = de.Workspace.create("runs/mine", owner="example")
        >>> stage = workspace.stage("numbers", parameters={"n": 4}, inputs={})
        >>> from pathlib import Path
        >>> def write(index, prefix):
        ...     return {"n_characters": Path(prefix + ".txt").write_text("x" * index)}
        >>> items = stage.store_files("texts", 3, write)
        >>> [(len(item.paths), item.summary["n_characters"]) for item in items]
        [(1, 0), (1, 1), (1, 2)]
        >>> workspace.close()
        """
        spec = Output(
            stage=self.name, name=name, kind="files", row_blocks=(1,) * n, shape=(n,), temporary=temporary
        )
        if not self._is_kept(spec):
            kept = self._kept_items(spec, keys) if keys else {}
            stored = self._announce(spec, kept)
            missing = self._missing(stored, progress)
            first: dict[str, list[int]] = {}  # items of equal keys share a folder, which one task makes
            for index in missing:
                first.setdefault(keys[index] if keys else str(index), []).append(index)
            record, work = (
                self._recorder(stored, progress),
                partial(_make_item, self._folder, spec, make, keys),
            )

            def done(item: Block) -> None:
                for index in first[item.key or str(item.index)]:
                    record(item.model_copy(update={"index": index}))

            todo = [indices[0] for indices in first.values()]
            tasks.run_each(work, todo, done, name=_names(spec, todo), step=f"{name}-write")
        return self.files(name)

    def is_stored(self, name: str) -> bool:
        """Return whether every block of an output is recorded and undamaged."""
        if self.manifest is not None:
            return name in self.manifest.outputs
        if not self._resumes():
            return False
        if name not in self._stored:
            found = read_announced(self._folder, self.name, name)
            if found is None:
                return False
            self._stored[name] = self._with_attributes(_journaled(found))
        return not self._missing(self._stored[name], None)

    def array(self, name: str) -> da.Array:
        """Open a stored array of this stage, committed or not, lazily."""
        return blocks.open_array(self._folder, self.record(name))

    def row_nonzeros(self, name: str) -> da.Array:
        """Return the number of stored values of each row of a sparse array, int64 (rows,), without reading them."""
        return blocks.open_row_nonzeros(self._folder, self.record(name))

    def files(self, name: str) -> list[FileItem]:
        """Return the items of `store_files`, in order."""
        return file_items(self._folder, self.record(name))

    def record(self, name: str) -> OutputRecord:
        """Return the record of an output, committed or not, with all its blocks.

        Raises
        ------
        ValueError
            If it is unknown or incomplete.
        """
        if self.manifest is not None and name in self.manifest.outputs:
            return self.manifest.outputs[name]
        if name not in self._stored:
            raise ValueError(f"Stage {self.name!r} has stored no output {name!r} in this run.")
        return self._stored[name].record()

    def damaged_blocks(self, *, progress: Progress | None = None) -> list[Problem]:
        """Return the problems of a committed stage's files, which are read in parallel.

        In an object store only the files are read that its listing does not tell from what was committed.
        """
        outputs = {} if self.manifest is None else self.manifest.outputs
        return verify.damage(self._folder, list(outputs.values()), progress)

    def reopen(self, damaged: Sequence[Problem] | None = None) -> None:
        """Withdraw the commit, so that storing again computes the damaged blocks and only those.

        If the stage was made with other versions (`made_with`), all its blocks are computed again.

        Parameters
        ----------
        damaged : sequence of Problem, optional
            The problems found by `damaged_blocks` or `Workspace.verify`; by default everything is read again.

        Examples
        --------
        >>> import dask.array as da
        >>> import distembed as de
        >>> workspace = de.Workspace.create("runs/mine", owner="example")
        >>> stage = workspace.stage("numbers", parameters={"n": 4}, inputs={})
        >>> options = {"dims": ["number"], "units": "1", "meaning": "The first numbers."}
        >>> stored = stage.store("numbers", da.arange(4, chunks=2), **options)
        >>> _ = stage.commit()
        >>> stage.reopen()
        >>> stage.is_committed, stage.is_stored("numbers")
        (False, True)
        >>> workspace.close()
        """
        self._folder.check()
        if self.manifest is None:
            return
        found = self.damaged_blocks() if damaged is None else damaged
        bad = {(problem.output, problem.block) for problem in found}
        for name, record in self.manifest.outputs.items():
            if self.manifest.made_with == self.made_with:
                good = tuple(block for block in record.blocks if (name, block.index) not in bad)
                kept = record.model_copy(update={"blocks": good})
                self._folder.write(output_file(record.spec), dumped(kept))
            else:
                remove_data(self._folder, record.spec)
        self._write_begun()
        self._catalog.remove(self.name)
        self.manifest, self._is_begun = None, False
        self._stored, self._checked = {}, set()

    def commit(self, facts: Mapping[str, Any] | None = None) -> StageManifest:
        """Write the manifest of what this run has stored, and remove the stages that it leaves without their input.

        Temporary outputs are removed. `facts` are stored in the manifest and belong to no digest.

        Raises
        ------
        ValueError
            If an output of this run is not complete.
        """
        if self.manifest is not None:
            return self.manifest
        self._begin()
        for name, found in announced(self._folder, self.name).items():
            if name not in self._stored:  # of an interrupted run, and this one did not store it
                self._remove_output(found.spec)
        lasting = {n: each.record() for n, each in sorted(self._stored.items()) if not each.spec.temporary}
        begun = read_record(self._folder, begun_file(self.name), Begun)
        if begun is None:  # it was removed with the commit of an input
            raise ValueError(
                f"Stage {self.name!r} cannot be committed, because an input of it was replaced since it began: store "
                "it again."
            )
        manifest = StageManifest(
            **begun.model_dump(exclude={"seconds"}),
            outputs=lasting if self._folder.is_local else _with_versions(self._folder, lasting),
            facts=json.loads(canonical_json(dict(facts or {}), f"facts of stage {self.name!r}")),
        )
        names = {name for record in lasting.values() for _, files in record.all_files() for name in files}
        self._folder.sync(names.union(*(files_above(record.spec) for record in lasting.values())))
        self._catalog.put(manifest)
        self.manifest = manifest
        remove_journal(self._catalog, self.name)
        self._remove_outdated()
        return manifest

    def discard(self) -> None:
        """Remove every output and record of this stage and of the stages that depend on it."""
        self._folder.check()
        for stage in [*self._catalog.dependents(self.name), self.name]:
            remove_stage(self._catalog, stage)
        self.manifest, self._is_begun, self._stored, self._checked = None, False, {}, set()

    # --- the journal ---------------------------------------------------------------------------------------

    def _is_kept(self, spec: Output) -> bool:
        """Return whether a committed stage already holds this output; refuse to add a new one to it."""
        self._folder.check()
        if self.manifest is None:
            return False
        if spec.name not in self.manifest.outputs:
            raise ValueError(
                f"Stage {self.name!r} is committed and does not hold {spec.name!r}: call reopen() before storing to it."
            )
        return True

    def _resumes(self) -> bool:
        """Return whether an interrupted run of this stage left usable records."""
        if not self._is_begun:
            begun = read_record(self._folder, begun_file(self.name), Begun)
            fits = begun is not None and begun.fingerprint == self.fingerprint
            if fits and begun is not None and begun.made_with == self.made_with:
                self._earlier = seconds_worked(self._folder, self.name)
                self._is_begun = True  # never False again, which another thread has set
        return self._is_begun

    def _begin(self, kept: Output | None = None) -> None:
        """Begin the journal, and remove what the stage had before but for one output."""
        with self._beginning:  # threads of one stage may begin at once
            if not self._resumes():
                remove_stage(self._catalog, self.name, kept=kept)
                self.manifest, self._stored, self._checked = None, {}, set()
                self._write_begun()
                self._is_begun = True

    def _write_begun(self) -> None:
        begun = Begun(
            version=VERSION,
            stage=self.name,
            fingerprint=self.fingerprint,
            parameters=self.parameters,
            inputs=self.inputs,
            input_digests=self._catalog.digests(self.inputs),
            made_with=self.made_with,
        )
        self._folder.write(begun_file(self.name), dumped(begun))

    def _kept_items(self, spec: Output, keys: Sequence[str]) -> dict[int, Block]:
        """Return the items of other parameters or inputs that have a key of this output, by their new number.

        Items that other versions made are not taken.
        """
        if self._resumes():
            return {}
        old: Begun | None = self._catalog.manifests().get(self.name)
        if isinstance(old, StageManifest):
            before = old.outputs.get(spec.name)
        else:
            old = read_record(self._folder, begun_file(self.name), Begun)
            before = read_announced(self._folder, self.name, spec.name)
        if before is None or old is None or old.made_with != self.made_with:
            return {}
        there, known = self._folder.find(spec.location), {item.key: item for item in before.blocks}
        found = {index: known[key] for index, key in enumerate(keys) if key in known}
        return {
            index: item.model_copy(update={"index": index, "seconds": 0.0})
            for index, item in found.items()
            if item.files.keys() <= there.keys()
        }

    def _announce(self, spec: Output, kept: Mapping[int, Block] | None = None) -> _Stored:
        """Record an output before its first block; another output of the same name and another shape is removed."""
        if len(spec.row_blocks) * BLOCK_BYTES > RECORD_BYTES:
            raise ValueError(
                f"Output {spec.name!r} would have {len(spec.row_blocks):,} blocks, more than a manifest may name: make "
                "larger ones."
            )
        self._begin(spec if kept else None)
        self._catalog.take_place(spec)
        stored = self._stored.get(spec.name)
        found = None if stored is not None else read_announced(self._folder, self.name, spec.name)
        stored = stored if found is None else _journaled(found)
        if stored is None or stored.spec != spec:
            self._checked.discard(spec.name)
            stored = _Stored(spec, blocks=dict(kept or {}))
            if kept:
                places = tuple(f"{spec.block_location(0, item.key)}/" for item in kept.values())
                for name in self._folder.find(spec.location):
                    if spec.may_own(name) and not name.startswith(places):
                        self._folder.remove(name)
            else:
                for old in [spec, *([] if found is None else [found.spec])]:
                    remove_data(self._folder, old)
            self._folder.remove(spec.journal)
            self._write_announced(stored)
        self._stored[spec.name] = stored = self._with_attributes(stored)
        return stored

    def _write_announced(self, stored: _Stored) -> None:
        blocks = tuple(stored.blocks[index] for index in sorted(stored.blocks))
        record = OutputRecord(spec=stored.spec, blocks=blocks, files=stored.files)
        self._folder.write(output_file(stored.spec), dumped(record))

    def _with_attributes(self, stored: _Stored) -> _Stored:
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
            self._write_announced(stored)
        return stored

    def _missing(self, stored: _Stored, progress: Progress | None) -> list[int]:
        """Return the blocks to compute, after checking the files of those that an earlier run has recorded."""
        spec = stored.spec
        if spec.name not in self._checked:
            todo = [
                verify.Check(self._folder, spec.stage, spec.name, block.index, block.files)
                for block in stored.blocks.values()
            ]
            for problem in verify.run_checks(todo):
                stored.blocks.pop(problem.block, None)
            self._checked.add(spec.name)
        if progress is not None:
            progress(len(stored.blocks), len(spec.row_blocks))
        return [index for index in range(len(spec.row_blocks)) if index not in stored.blocks]

    def _recorder(self, stored: _Stored, progress: Progress | None) -> Callable[[Block], None]:
        """Return the function that is called with each block as it completes."""

        def record(block: Block) -> None:
            seconds = round(self._earlier + time.monotonic() - self._since, 3)
            block = block.model_copy(update={"seconds": seconds})
            self._folder.write(block_file(stored.spec, block.index), dumped(block))
            stored.blocks[block.index] = block
            if progress is not None:
                progress(len(stored.blocks), len(stored.spec.row_blocks))

        self._checked.add(stored.spec.name)
        return record

    def _remove_output(self, spec: Output) -> None:
        remove_data(self._folder, spec)
        self._folder.remove(spec.journal)
        self._catalog.give_places(self.name, spec.name)
        self._checked.discard(spec.name)

    def _remove_outdated(self) -> None:
        """Remove the stages that rest on content which this commit replaced."""
        outdated, known = self._catalog.outdated(), self._catalog.manifests()
        if any(known[name].inputs.get(self.name) == self.fingerprint for name in outdated if name in known):
            warnings.warn(
                f"Stage {self.name!r} was repaired, but its content differs from before: another processor or library "
                f"version? The stages that depend on it ({', '.join(outdated)}) are removed: run the job again to "
                "compute them.",
                stacklevel=3,
            )
        for stage in outdated:
            remove_stage(self._catalog, stage)


def remove_stage(catalog: Catalog, stage: str, *, kept: Output | None = None) -> None:
    """Remove a stage: first the commit, then the data, but for those of one output, and last its journal."""
    manifest, folder = catalog.manifests().get(stage), catalog.folder
    records = [*announced(folder, stage).values(), *(manifest.outputs.values() if manifest else ())]
    catalog.remove(stage)
    for record in records:
        if kept is None or record.spec.name != kept.name:
            remove_data(folder, record.spec)
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
    folder.remove(f"{ARRAYS}/{STATES}/{stage}")
    folder.remove(f"{JOURNAL}/{stage}")


def remove_data(folder: Folder, spec: Output) -> None:
    """Remove the data of an output, and no folder or file of the user that lies where a record names one."""
    if spec.kind == "files":
        names = list(folder.find(spec.location))
        own = [name for name in names if spec.may_own(name)]
        for name in own if len(own) < len(names) else [spec.location]:
            folder.remove(name)
    elif spec.is_array or _is_as_announced(folder, spec):
        folder.remove(spec.location)


def _is_as_announced(folder: Folder, spec: Output) -> bool:
    """Return whether a file has the bytes, or the rows and columns, of the output that was announced in its place."""
    try:
        path = folder.readable(spec.location)
        if spec.kind == "bytes":
            return bool(folder.fs.size(path) == spec.shape[0])
        with folder.fs.open(path, "rb") as file:
            found = pq.read_metadata(file)
        return (found.num_rows, len(found.schema.to_arrow_schema())) == spec.shape
    except (OSError, ValueError):
        return False


def file_items(folder: Folder, record: OutputRecord) -> list[FileItem]:
    """Return the items of a files output."""
    return [FileItem([folder.path(name) for name in sorted(b.files)], b.summary) for b in record.blocks]


def _make_item(folder: Folder, spec: Output, make: MakeFiles, keys: Sequence[str], index: int) -> Block:
    """Make the files of an item in a folder that is empty, and return their record.

    Raises
    ------
    ValueError
        If it writes no file.
    """
    key = keys[index] if keys else ""
    place = spec.block_location(index, key)
    folder.remove(place)
    prefix = f"{folder.make_folder(place)}/part"
    summary = dict(make(index, prefix))
    folder.check()  # it may have taken hours
    files = {name: folder.record(name) for name in sorted(folder.find(place))}
    if not files:
        raise ValueError(f"Item {index} of {spec.name!r} wrote no file that begins with {prefix}.")
    return Block(index=index, files=files, summary=summary, key=key, kernel=kernel())


def _with_versions(folder: Folder, outputs: Mapping[str, OutputRecord]) -> dict[str, OutputRecord]:
    """Return records with what an object store calls the content of each file, so that it need not be read again."""
    found: dict[str, OutputRecord] = {}
    for name, record in outputs.items():
        listed = folder.find(record.spec.location)

        def versions(files: Mapping[str, FileRecord], listed: Any = listed) -> dict[str, FileRecord]:
            return {n: file._replace(version=listed.get(n, (0, ""))[1]) for n, file in files.items()}

        made = tuple(block.model_copy(update={"files": versions(block.files)}) for block in record.blocks)
        found[name] = record.model_copy(update={"blocks": made, "files": versions(record.files)})
    return found


def _journaled(record: OutputRecord) -> _Stored:
    return _Stored(record.spec, record.files, {block.index: block for block in record.blocks})


def _names(spec: Output, numbers: Sequence[int]) -> Callable[[int], str]:
    """Return the function that describes the task of a given number: the block that it computes."""
    return lambda number: f"block {numbers[number]} of {spec.name}"


class StageStates:
    """The states of a stage by name: the `distembed.states.States` of a job."""

    def __init__(self, stage: Stage, in_memory: bool) -> None:
        self._stage, self.in_memory = stage, in_memory
        self._begin = f"{STATES}/{stage.name}/"

    def find(self, name: str) -> da.Array | None:
        """Return the array of a name, None if it is not stored as a whole."""
        full = f"{self._begin}{name}"
        return self._stage.array(full) if self._stage.is_stored(full) else None

    def store(self, name: str, array: da.Array) -> da.Array:
        """Store an array and return it opened."""
        dims = ("row", "column", *(f"axis_{axis}" for axis in range(2, array.ndim)))[: array.ndim]
        meaning = f"State {name} of stage {self._stage.name}."
        return self._stage.store(
            f"{self._begin}{name}", array, dims=dims, units="", meaning=meaning, temporary=True
        )

    def names(self) -> list[str]:
        """Return the names of all states, those too that are not stored as a whole."""
        return [
            name.removeprefix(self._begin) for name in self._stage.announced() if name.startswith(self._begin)
        ]

    def forget(self, name: str) -> None:
        """Remove an array."""
        self._stage.forget(f"{self._begin}{name}")
