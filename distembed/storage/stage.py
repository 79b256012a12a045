"""Writes one stage: stored and resumed block by block, and committed by a manifest that is written last."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from typing import Any

import dask.array as da
import pyarrow as pa
import pyarrow.parquet as pq

from distembed.storage import arrays, tasks
from distembed.storage.file_items import FileItem, MakeFiles, file_items, make_item
from distembed.storage.files import Folder
from distembed.storage.ledger import Ledger, Progress
from distembed.storage.schema import (
    BlockRecord,
    Output,
    Problem,
    StageManifest,
)


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
        announced: dict[str, Output],
    ) -> None:
        self._folder = folder
        self._ledger = Ledger(
            folder,
            name,
            parameters=parameters,
            inputs=inputs,
            made_with=made_with,
            announced=announced,
        )
        self.name = self._ledger.name
        self.parameters = self._ledger.parameters
        self.inputs = self._ledger.inputs
        self.made_with = self._ledger.made_with
        self.fingerprint = self._ledger.fingerprint

    @property
    def is_committed(self) -> bool:
        """Return whether the stage is committed with these parameters and inputs; no data are read."""
        return self._ledger.manifest is not None

    @property
    def begun_with(self) -> Mapping[str, str] | None:
        """Return the versions with which this stage was begun but not finished; None if it has not begun."""
        return self._ledger.begun_with

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
        spec = arrays.output_of(
            self.name,
            name,
            array,
            dims=tuple(dims),
            units=units,
            meaning=meaning,
            temporary=temporary,
            constant=constant,
        )
        if not self._ledger.keeps(spec):
            whole = array if array.ndim < 2 else array.rechunk(dict.fromkeys(range(1, array.ndim), -1))
            self._ledger.announce(spec)
            missing = self._ledger.missing(spec, progress)
            if missing:
                work = arrays.store_blocks(self._folder, spec, whole, missing)
                with tasks.run_here() if arrays.is_held(array) else nullcontext():
                    tasks.run_blocks(work, self._ledger.recorder(spec, progress), name=_names(spec, missing))
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
        return self._ledger.announced()

    def forget(self, name: str) -> None:
        """Remove a temporary output that nothing reads any more."""
        self._ledger.forget(name)

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
        if self._ledger.keeps(spec) or self._ledger.holds(spec):
            return
        self._ledger.announce(spec)
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
        self._ledger.recorder(spec, None)(BlockRecord(0, written.digest, {spec.location: written}))

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
        keys: Sequence[str] = (),
        temporary: bool = False,
        progress: Progress | None = None,
    ) -> list[FileItem]:
        """Run `n` independent tasks that each write files, resumed by the item; return the items in order.

        ``make(index, prefix)`` writes one or more files whose full names are `prefix` followed by anything
        but a digit (``prefix + ".parquet"``), on the workspace's own store, and returns a small JSON-able
        summary. It must be picklable for a distributed scheduler and a deterministic function of its index, or
        of its key, where there are `keys`: a text for each item that says what it is made from. When the parameters
        or inputs of the stage have changed, it keeps the items of the keys that it is to have, under their new
        numbers, and removes all others.

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
        if not self._ledger.keeps(spec):
            if keys:
                self._ledger.take_over(spec, keys)
            self._ledger.announce(spec)
            missing = self._ledger.missing(spec, progress)
            work = partial(make_item, folder=self._folder, spec=spec, make=make)
            record = self._ledger.recorder(spec, progress)

            def done(item: BlockRecord) -> None:
                record(replace(item, key=keys[item.index]) if keys else item)

            tasks.run_each(work, missing, done, name=_names(spec, missing), step=f"{name}-write")
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
        return self._ledger.is_stored(name)

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
        record = self._ledger.record(name)
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
        record = self._ledger.record(name)
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
        return file_items(self._folder, self._ledger.record(name))

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
        return self._ledger.damaged_blocks(progress)

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
        self._ledger.reopen(damaged)

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
        committed = self._ledger.manifest
        return self._ledger.commit(facts or {}) if committed is None else committed

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
        self._ledger.discard()

    def _store_one_file(self, spec: Output, data: bytes) -> None:
        if self._ledger.keeps(spec):
            return
        self._ledger.announce(spec)
        written = self._folder.write(spec.location, data)
        self._ledger.recorder(spec, None)(BlockRecord(0, written.digest, {spec.location: written}))


def _names(spec: Output, blocks: Sequence[int]) -> Callable[[int], str]:
    """Return the function that describes the task of a given number: the block that it computes."""
    return lambda number: f"block {blocks[number]} of {spec.name}"


class StageStates:
    """The states of a stage by name: the `distembed.states.States` of a job."""

    def __init__(self, stage: Stage, in_memory: bool) -> None:
        self._stage, self.in_memory = stage, in_memory
        self._begin = f"checkpoints/{stage.name}/"

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
