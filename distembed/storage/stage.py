"""Writes one stage: stored and resumed block by block, and committed by a manifest that is written last."""

from __future__ import annotations

import posixpath
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from distembed.libraries import Deferred, da, pa, pq, sp
from distembed.storage import manifest as records
from distembed.storage import tasks, verify
from distembed.storage.files import Folder
from distembed.storage.schema import (
    MANIFEST,
    BlockRecord,
    FileRecord,
    Output,
    OutputRecord,
    Problem,
    StageManifest,
    check_stage,
    digest_of_json,
    fingerprint,
)

if TYPE_CHECKING:
    from distembed.storage import arrays
else:
    arrays = Deferred("distembed.storage.arrays")  # zarr takes a third of a second

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


class Stage:
    """A stage of a workspace that is being written. It is created by `Workspace.stage`.

    A stage is committed when its manifest exists and was written for equal parameters and inputs; storing to
    a committed stage computes nothing. An interrupted stage keeps every recorded block whose digest is still
    right, if it was begun with the same `made_with`; otherwise it starts again, so that a stage never holds
    blocks of two versions. A stage whose parameters or inputs have changed removes its own old blocks when it
    begins to write. The stages that depend on it are removed when it is committed; until then they stay
    unchanged.

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
    >>> _ = stage.commit()
    >>> stage.is_committed
    True
    >>> workspace.array("numbers").compute().tolist()
    [0, 1, 2, 3]
    >>> workspace.close()
    """

    def __init__(
        self,
        folder: Folder,
        name: str,
        *,
        parameters: Mapping[str, Any],
        inputs: Mapping[str, str],
        made_with: Mapping[str, str],
        check_writable: Callable[[], None],
    ) -> None:
        self._folder = folder
        self.name = check_stage(name)
        self.parameters = dict(parameters)
        self.inputs = dict(inputs)
        self.made_with = dict(made_with)
        self.fingerprint = fingerprint(name, parameters, inputs)
        self._check_writable = check_writable
        self._manifest: StageManifest | None = records.tolerant(records.read_manifest, folder, name)
        self._begun = False
        self._outputs: dict[str, OutputRecord] = {}
        self._before: StageManifest | None = None
        # Recorded blocks that were written or checked in this run, by output; blocks found sound by
        # damaged_blocks.
        self._good: dict[str, dict[int, BlockRecord]] = {}
        self._sound: set[tuple[str, int]] = set()
        self._announced: dict[str, Output] = {}

    @property
    def is_committed(self) -> bool:
        """Return whether the stage is committed with these parameters and inputs; no data are read."""
        return self._manifest is not None and self._manifest.fingerprint == self.fingerprint

    @property
    def begun_with(self) -> Mapping[str, str] | None:
        """Return the versions with which this stage was begun but not finished; None if it has not begun."""
        begun = None if self.is_committed else records.read_begun(self._folder, self.name)
        return (
            None if begun is None or begun["fingerprint"] != self.fingerprint else begun.get("made_with", {})
        )

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
            row block is the unit of storing and must fit a worker.
        dims, units, meaning
            One name per axis; the unit of the values; a sentence saying what a value is.
        temporary : bool
            Mark the output as one that `Workspace.drop_temporary` may remove; it takes no part in digests.
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
        spec = _array_spec(
            self.name, name, array, dims=tuple(dims), units=units, meaning=meaning, temporary=temporary
        )
        spec = replace(spec, constant=constant)
        if not self._keeps(spec):
            whole = array if array.ndim < 2 else array.rechunk(dict.fromkeys(range(1, array.ndim), -1))
            self._announce(spec)
            missing = self._missing(spec, progress)
            if missing:
                work = arrays.store_blocks(self._folder, spec, whole, missing)
                with tasks.run_here() if _is_held(array) else nullcontext():
                    tasks.run_blocks(work, self._recorder(spec, progress), name=_names(spec, missing))
        return self.array(name)

    def checkpoint(self, name: str, make: Callable[[], da.Array]) -> da.Array:
        """Return the array stored as ``checkpoints/<stage>/<name>``; store ``make()`` if it is not stored yet.

        This is the `execution.Checkpoint` of a job. Checkpoints are temporary outputs.

        Examples
        --------
        >>> import dask.array as da
        >>> import distembed as de
        >>> workspace = de.Workspace.create("runs/mine", owner="example")
        >>> stage = workspace.stage("numbers", parameters={"n": 4}, inputs={})
        >>> squares = stage.checkpoint("squares", lambda: da.arange(4, chunks=2) ** 2)
        >>> squares.compute().tolist()
        [0, 1, 4, 9]
        >>> stage.checkpoint("squares", lambda: 1 / 0).compute().tolist()  # it is there, and not made again
        [0, 1, 4, 9]
        >>> workspace.close()
        """
        full = f"checkpoints/{self.name}/{name}"
        if self.is_stored(full):
            return self.array(full)
        array = make()
        dims = ("row", "column", *(f"axis_{axis}" for axis in range(2, array.ndim)))[: array.ndim]
        meaning = f"State {name} of stage {self.name}."
        return self.store(full, array, dims=dims, units="", meaning=meaning, temporary=True)

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

        Examples
        --------
        >>> import distembed as de
        >>> import pyarrow as pa
        >>> workspace = de.Workspace.create("runs/mine", owner="example")
        >>> stage = workspace.stage("numbers", parameters={"n": 4}, inputs={})
        >>> pieces = (pa.table({"word": [word]}) for word in ["cat", "dog"])
        >>> stage.store_batches("words", pa.schema({"word": pa.string()}), pieces, n_rows=2)
        >>> _ = stage.commit()
        >>> workspace.table("words")["word"].to_pylist()
        ['cat', 'dog']
        >>> workspace.close()
        """
        spec = Output(self.name, name, "table", (n_rows,), (n_rows, len(schema)))
        if self._keeps(spec):
            return
        self._announce(spec)
        found = 0
        with (
            self._folder.writing(spec.location) as file,
            pq.ParquetWriter(file, schema, compression="zstd", write_page_checksum=True) as writer,
        ):
            for table in tables:
                writer.write_table(table)
                found += table.num_rows
        if found != n_rows:
            raise ValueError(f"the table {name} was said to have {n_rows} rows, and its pieces have {found}")
        written = file.record
        self._recorder(spec, None)(BlockRecord(0, written.digest, {spec.location: written}))

    def store_bytes(self, name: str, data: bytes) -> None:
        """Store one plain file, such as a report or vectors in a text format.

        Examples
        --------
        >>> import distembed as de
        >>> workspace = de.Workspace.create("runs/mine", owner="example")
        >>> stage = workspace.stage("numbers", parameters={"n": 4}, inputs={})
        >>> stage.store_bytes("note.txt", b"Four numbers.")
        >>> _ = stage.commit()
        >>> workspace.read_bytes("note.txt")
        b'Four numbers.'
        >>> workspace.close()
        """
        self._store_one_file(Output(self.name, name, "bytes", (1,), (len(data),)), data)

    def store_files(
        self,
        name: str,
        n: int,
        make: MakeFiles,
        *,
        temporary: bool = False,
        progress: Progress | None = None,
    ) -> list[FileItem]:
        """Run `n` independent tasks that each write files, resumed by the item; return the items in order.

        ``make(index, prefix)`` writes one or more files whose full names are `prefix` followed by anything
        but a digit (``prefix + ".parquet"``), on the workspace's own store, and returns a small JSON-able
        summary. It must be picklable for a distributed scheduler and a deterministic function of its index.

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
        >>> [item.summary["n_characters"] for item in items]
        [0, 1, 2]
        >>> workspace.close()
        """
        spec = Output(self.name, name, "files", (1,) * n, (n,), temporary=temporary)
        if not self._keeps(spec):
            self._announce(spec)
            missing = self._missing(spec, progress)
            work = partial(_make_item, folder=self._folder, spec=spec, make=make)
            tasks.run_each(work, missing, self._recorder(spec, progress), name=_names(spec, missing))
        return self.files(name)

    def is_stored(self, name: str) -> bool:
        """Return whether every block of an output is recorded and undamaged.

        Examples
        --------
        >>> import dask.array as da
        >>> import distembed as de
        >>> workspace = de.Workspace.create("runs/mine", owner="example")
        >>> stage = workspace.stage("numbers", parameters={"n": 4}, inputs={})
        >>> options = {"dims": ["number"], "units": "1", "meaning": "The first numbers."}
        >>> stored = stage.store("numbers", da.arange(4, chunks=2), **options)
        >>> stage.is_stored("numbers"), stage.is_stored("letters")
        (True, False)
        >>> workspace.close()
        """
        if self.is_committed:
            record = self._committed_outputs().get(name)
            return record is not None and not record.dropped
        if not self._resumes():
            return False
        found = self._outputs.get(name) or records.read_output(
            self._folder, f"{MANIFEST}/{self.name}/{name}/output.json"
        )
        if found is None:
            return False
        self._outputs[name] = found
        return not self._missing(found.spec, None)

    def array(self, name: str) -> da.Array:
        """Open a stored array of this stage, committed or not, lazily.

        Examples
        --------
        >>> import dask.array as da
        >>> import distembed as de
        >>> workspace = de.Workspace.create("runs/mine", owner="example")
        >>> stage = workspace.stage("numbers", parameters={"n": 4}, inputs={})
        >>> options = {"dims": ["number"], "units": "1", "meaning": "The first numbers."}
        >>> stored = stage.store("numbers", da.arange(4, chunks=2), **options)
        >>> stage.array("numbers").chunks
        ((2, 2),)
        >>> workspace.close()
        """
        record = self._record(name)
        return arrays.open_array(self._folder, record.spec, record.digest)

    def row_nonzeros(self, name: str) -> da.Array:
        """Return the number of stored values of each row of a sparse array, int64 (rows,), without reading them.

        Examples
        --------
        >>> import dask.array as da
        >>> import distembed as de
        >>> from scipy.sparse import csr_array
        >>> workspace = de.Workspace.create("runs/mine", owner="example")
        >>> stage = workspace.stage("numbers", parameters={"n": 4}, inputs={})
        >>> options = {"dims": ["row", "column"], "units": "1", "meaning": "Numbers."}
        >>> matrix = da.ones((3, 2), chunks=(3, 2)).map_blocks(csr_array)
        >>> _ = stage.store("matrix", matrix, **options)
        >>> stage.row_nonzeros("matrix").compute().tolist()
        [2, 2, 2]
        >>> workspace.close()
        """
        record = self._record(name)
        return arrays.open_row_nonzeros(self._folder, record.spec, record.digest)

    def files(self, name: str) -> list[FileItem]:
        """Return the items of `store_files`, in order.

        Examples
        --------
        >>> import distembed as de
        >>> workspace = de.Workspace.create("runs/mine", owner="example")
        >>> stage = workspace.stage("numbers", parameters={"n": 4}, inputs={})
        >>> from pathlib import Path
        >>> def write(index, prefix):
        ...     return {"n_characters": Path(prefix + ".txt").write_text("x" * index)}
        >>> items = stage.store_files("texts", 3, write)
        >>> [len(item.paths) for item in stage.files("texts")]
        [1, 1, 1]
        >>> workspace.close()
        """
        return file_items(self._folder, self._record(name))

    def damaged_blocks(self, *, progress: Progress | None = None) -> list[Problem]:
        """Return the problems of a committed stage's files, each of which is read and digested, in parallel.

        Examples
        --------
        >>> import dask.array as da
        >>> import distembed as de
        >>> workspace = de.Workspace.create("runs/mine", owner="example")
        >>> stage = workspace.stage("numbers", parameters={"n": 4}, inputs={})
        >>> options = {"dims": ["number"], "units": "1", "meaning": "The first numbers."}
        >>> stored = stage.store("numbers", da.arange(4, chunks=2), **options)
        >>> _ = stage.commit()
        >>> stage.damaged_blocks()
        []
        >>> workspace.close()
        """
        kept = [record for record in self._committed_outputs().values() if not record.dropped]
        todo = [check for record in kept for check in verify.checks(self._folder, record, decode=False)]
        found = verify.run_checks(todo, progress)
        bad = {(problem.output, problem.block) for problem in found}
        self._sound = {(check.output.name, check.block) for check in todo} - bad
        return found

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
        self._check_writable()
        found = self.damaged_blocks() if damaged is None else list(damaged)
        bad = {(problem.output, problem.block) for problem in found}
        for record in self._committed_outputs().values():
            self._reopen_output(record, {index for output, index in bad if output == record.spec.name})
        self._write_begun()
        self._folder.remove(records.manifest_file(self.name))
        self._before, self._manifest = self._manifest, None
        # What this object knew from before the damage counts no more.
        self._good, self._outputs = {}, {}

    def commit(self, facts: Mapping[str, Any] | None = None) -> StageManifest:
        """Write the manifest, which commits the stage. `facts` are stored in it and belong to no digest.

        Raises
        ------
        ValueError
            If an output of this run is not complete.

        Examples
        --------
        >>> import dask.array as da
        >>> import distembed as de
        >>> workspace = de.Workspace.create("runs/mine", owner="example")
        >>> stage = workspace.stage("numbers", parameters={"n": 4}, inputs={})
        >>> options = {"dims": ["number"], "units": "1", "meaning": "The first numbers."}
        >>> stored = stage.store("numbers", da.arange(4, chunks=2), **options)
        >>> manifest = stage.commit({"sum": 6})
        >>> sorted(manifest.outputs), dict(manifest.facts)
        (['numbers'], {'sum': 6})
        >>> workspace.close()
        """
        if self.is_committed and self._manifest is not None:
            return self._manifest
        self._begin()
        outputs = {name: self._record(name) for name in sorted(self._outputs)}
        self._forget_others(set(outputs))
        manifest = StageManifest(
            self.name,
            self.fingerprint,
            self.parameters,
            self.inputs,
            outputs,
            dict(facts or {}),
            self.made_with,
        )
        self._folder.sync(verify.lasting_files(manifest))
        self._check_writable()
        records.write_manifest(self._folder, manifest)
        self._remove_outdated(manifest)
        self._manifest = manifest
        return manifest

    def discard(self) -> None:
        """Remove every output and record of this stage and of the stages that depend on it.

        Examples
        --------
        >>> import dask.array as da
        >>> import distembed as de
        >>> workspace = de.Workspace.create("runs/mine", owner="example")
        >>> stage = workspace.stage("numbers", parameters={"n": 4}, inputs={})
        >>> options = {"dims": ["number"], "units": "1", "meaning": "The first numbers."}
        >>> stored = stage.store("numbers", da.arange(4, chunks=2), **options)
        >>> stage.discard()
        >>> stage.is_stored("numbers")
        False
        >>> workspace.close()
        """
        self._check_writable()
        for stage in [*records.dependents(self._folder, self.name), self.name]:
            records.remove_stage(self._folder, stage)
        self._forget()

    def _forget(self) -> None:
        """Discard what this object knows of a commit and of blocks."""
        self._manifest, self._begun = None, False
        self._outputs, self._good, self._sound = {}, {}, set()

    def _committed_outputs(self) -> Mapping[str, OutputRecord]:
        return self._manifest.outputs if self.is_committed and self._manifest is not None else {}

    def _keeps(self, spec: Output) -> bool:
        """Return whether a committed stage already holds this output; refuse to add a new one to it."""
        self._check_writable()
        if not self.is_committed:
            return False
        kept = self._committed_outputs().get(spec.name)
        if kept is None or kept.dropped:
            raise ValueError(
                f"Stage {self.name!r} is committed and does not hold {spec.name!r} (or it was dropped): "
                "call reopen() before storing to it."
            )
        return True

    def _resumes(self) -> bool:
        """Return whether an interrupted run of this stage left usable records."""
        return self.begun_with == self.made_with

    def _write_begun(self) -> None:
        records.write_begun(
            self._folder,
            self.name,
            parameters=self.parameters,
            inputs=self.inputs,
            made_with=self.made_with,
        )

    def _begin(self) -> None:
        if self._begun:
            return
        self._check_writable()
        if not self._resumes():
            records.remove_stage(self._folder, self.name)
            self._forget()
            self._write_begun()
        self._begun = True

    def _announce(self, spec: Output) -> None:
        """Record an output before its first block; another output of the same name and another shape is removed."""
        self._begin()
        records.check_place(self._folder, spec, self._announced)
        kept = records.read_output(self._folder, records.output_file(spec))
        if kept is None or kept.spec != spec:
            kept = self._start_over(spec, kept)
        if spec.is_array and (not kept.files or verify.run_checks(verify.own_checks(self._folder, kept))):
            kept = replace(kept, files=arrays.write_attributes(self._folder, spec))
            records.write_output(self._folder, spec, kept.files)
        self._outputs[spec.name] = kept

    def _start_over(self, spec: Output, kept: OutputRecord | None) -> OutputRecord:
        """Remove everything stored under an output's name and announce the output, so that a rerun resumes it."""
        for old in {spec, spec if kept is None else kept.spec}:
            records.remove_output(self._folder, old)
        self._good.pop(spec.name, None)
        records.write_output(self._folder, spec, {})
        return OutputRecord(spec, ())

    def _missing(self, spec: Output, progress: Progress | None) -> list[int]:
        """Return the blocks to compute, after checking the files of the recorded ones."""
        if spec.name not in self._good:
            found = records.read_blocks(self._folder, spec)
            fresh = tuple(block for block in found.values() if (spec.name, block.index) not in self._sound)
            todo = verify.checks(self._folder, OutputRecord(spec, fresh), decode=False)
            bad = {problem.block for problem in verify.run_checks(todo)}
            self._good[spec.name] = {index: block for index, block in found.items() if index not in bad}
        good = self._good[spec.name]
        if progress is not None:
            progress(len(good), len(spec.row_blocks))
        return [index for index in range(len(spec.row_blocks)) if index not in good]

    def _recorder(self, spec: Output, progress: Progress | None) -> Callable[[BlockRecord], None]:
        """Return the function that is called with each block as it completes."""
        good = self._good.setdefault(spec.name, {})

        def record(block: BlockRecord) -> None:
            self._check_writable()
            records.write_block_record(self._folder, spec, block)
            good[block.index] = block
            if progress is not None:
                progress(len(good), len(spec.row_blocks))

        return record

    def _record(self, name: str) -> OutputRecord:
        """Return an output with all its blocks.

        Raises
        ------
        ValueError
            If it is unknown or incomplete.
        """
        if name in self._committed_outputs():
            return self._committed_outputs()[name]
        if name not in self._outputs:
            raise ValueError(f"Stage {self.name!r} has stored no output {name!r} in this run.")
        announced, good = self._outputs[name], self._good.get(name, {})
        n_blocks = len(announced.spec.row_blocks)
        if len(good) != n_blocks:
            raise ValueError(
                f"Output {name!r} of stage {self.name!r} has {len(good)} of {n_blocks} blocks: store it."
            )
        return OutputRecord(announced.spec, tuple(good[index] for index in sorted(good)), announced.files)

    def _store_one_file(self, spec: Output, data: bytes) -> None:
        if self._keeps(spec):
            return
        self._announce(spec)
        written = self._folder.write(spec.location, data)
        self._recorder(spec, None)(BlockRecord(0, written.digest, {spec.location: written}))

    def _reopen_output(self, record: OutputRecord, damaged: set[int]) -> None:
        """Restore the records of an output from the manifest, without its damaged blocks."""
        spec = record.spec
        others_made_it = self._manifest is not None and self._manifest.made_with != self.made_with
        if record.dropped or others_made_it:
            records.remove_output(self._folder, spec)
            return
        records.write_output(self._folder, spec, record.files)
        for block in record.blocks:
            if block.index in damaged:
                self._folder.remove(records.block_file(spec, block.index))
            else:
                records.write_block_record(self._folder, spec, block)

    def _forget_others(self, kept: set[str]) -> None:
        """Remove outputs that an interrupted run announced and this one did not store."""
        for name, record in records.announced(self._folder, self.name).items():
            if name not in kept:
                records.remove_output(self._folder, record.spec)

    def _remove_outdated(self, manifest: StageManifest) -> None:
        """Remove the stages that depend on content which this commit replaced."""
        outdated = records.outdated(self._folder)
        before = self._before
        if before is not None and before.digest != manifest.digest:
            outdated = records.dependents(self._folder, self.name)
            warnings.warn(
                f"Stage {self.name!r} was repaired, but its content differs from before ({before.digest} became "
                f"{manifest.digest}): another processor or library version? The stages that depend on it "
                f"({', '.join(outdated) or 'none'}) are removed: run the job again to compute them.",
                stacklevel=3,
            )
        for stage in outdated:
            records.remove_stage(self._folder, stage)


def file_items(folder: Folder, record: OutputRecord) -> list[FileItem]:
    """Return the items of a files output.

    Raises
    ------
    FileNotFoundError
        If the output was temporary and has been dropped.
    """
    if record.dropped:
        raise FileNotFoundError(f"Temporary output {record.spec.name!r} was dropped: run its stage again.")
    return [FileItem([folder.path(name) for name in sorted(b.files)], b.summary) for b in record.blocks]


def _array_spec(
    stage: str,
    name: str,
    array: da.Array,
    *,
    dims: tuple[str, ...],
    units: str,
    meaning: str,
    temporary: bool,
) -> Output:
    if array.ndim == 0 or len(dims) != array.ndim:
        raise ValueError(
            f"Array {name!r} with {array.ndim} axes needs at least one axis and a name for each: {dims}."
        )
    if any(np.isnan(size) for sizes in array.chunks for size in sizes):
        raise ValueError(
            f"Array {name!r} has chunks of unknown size: call compute_chunk_sizes() before storing it."
        )
    kind = "csr" if sp.issparse(array._meta) else "dense"
    rows = tuple(int(size) for size in array.chunks[0])
    shape = tuple(int(size) for size in array.shape)
    dtype = np.dtype(array.dtype).newbyteorder("<")
    if dtype.kind not in "biufc":
        raise ValueError(f"Array {name!r} has dtype {array.dtype}: only numbers and booleans are stored.")
    return Output(stage, name, kind, rows, shape, dtype.str, dims, units, meaning, temporary)


def _is_held(array: da.Array) -> bool:
    """Return whether this process holds an array whole: a graph that took it to a cluster would be as large."""
    layers = list(array.dask.layers.values())
    return len(layers) == 1 and all(isinstance(value, np.ndarray) for value in layers[0].values())


def _names(spec: Output, blocks: Sequence[int]) -> Callable[[int], str]:
    """Return the function that describes the task of a given number: the block that it computes."""
    return lambda number: f"block {blocks[number]} of {spec.name}"


def _make_item(index: int, *, folder: Folder, spec: Output, make: MakeFiles) -> BlockRecord:
    prefix = spec.block_location(index)
    for name in folder.beginning(prefix):
        folder.remove(name)
    folder.make_folder(posixpath.dirname(prefix))
    summary = dict(make(index, folder.path(prefix)))
    files: dict[str, FileRecord] = {name: folder.record(name) for name in sorted(folder.beginning(prefix))}
    if not files:
        raise ValueError(
            f"Item {index} of {spec.name!r} wrote no file that begins with {folder.path(prefix)}."
        )
    return BlockRecord(
        index, digest_of_json([[files[name].digest for name in files], summary]), files, summary
    )
