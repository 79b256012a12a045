"""Writes one stage: stored and resumed block by block, and committed by a manifest that is written last.

While a stage runs, its journal names each output before its first block, and each block when it is on disk, so that a
run that was interrupted goes on. The commit writes the manifest, and the journal ends with the temporary outputs.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Literal, NamedTuple

import dask.array as da
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from distembed.files import PARTIAL_NAME, asking
from distembed.storage import blocks, records, tasks, verify
from distembed.storage.blocks import kernel
from distembed.storage.catalog import Catalog, begun_file, read_record, replaced
from distembed.storage.folder import Folder, record_of
from distembed.storage.journal import Journal, remove_journal, remove_stage

MakeFiles = Callable[[int, str], Mapping[str, Any]]
"""A function that writes the files of an item, named a prefix plus a suffix, and returns a JSON summary."""


class FileItem(NamedTuple):
    """One item of `Stage.store_files`: the full paths or URLs of its files, sorted, and its summary."""

    paths: list[str]
    summary: Mapping[str, Any]


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
        self.name, self.parameters = name, dict(parameters)
        self.inputs, self.made_with = dict(inputs), dict(made_with)
        self.fingerprint = records.fingerprint(name, parameters, inputs)
        self.states = f"{records.STATES}/{name}/"  # what the names of states begin with (`distembed.states`)
        made_from = records.Begun(
            version=records.VERSION, stage=name, fingerprint=self.fingerprint, parameters=self.parameters,
            inputs=self.inputs, made_with=self.made_with,
        )  # fmt: skip
        self._journal = Journal(catalog, made_from)
        done = catalog.manifests()
        found = done.get(name)
        fits = found is not None and found.fingerprint == self.fingerprint and not replaced(found, done)
        self.manifest = found if fits else None

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
        if missing := self._missing(spec):
            rows = {0: spec.row_blocks, **dict.fromkeys(range(1, array.ndim), -1)}
            work = blocks.store_blocks(self._folder, spec, array.rechunk(rows), missing)
            # Of an array that this process holds whole, the graph that took it to a cluster would be as large.
            layers = list(array.dask.layers.values())
            is_here = len(layers) == 1 and all(isinstance(v, np.ndarray) for v in layers[0].values())
            add = partial(self._journal.add, spec)
            tasks.run_blocks(work, add, is_here=is_here)
        return self.array(name)

    def _missing(self, spec: records.Output, keys: Sequence[str] = ()) -> list[int]:
        """Announce an output, and return the blocks to be written; of a committed stage none is."""
        self._folder.check()
        if self.manifest is None:
            return self._journal.announce(spec, keys)
        if spec.name not in self.manifest.outputs:
            raise ValueError(
                f"Stage {self.name!r} is committed and does not hold {spec.name!r}: call reopen() before storing to it."
            )
        return []

    def announced(self) -> list[str]:
        """Return the names of the outputs that this run or an interrupted one has begun."""
        return list(self._journal.outputs) if self._journal.resumes() else []

    def note(self, unit: str, done: int, total: int | None) -> None:
        """Record how far the stage is, as `tell` says it, for those who ask for its status."""
        self._journal.note(unit, done, total)

    def forget(self, name: str) -> None:
        """Remove an output of a stage that is not committed, and that nothing reads any more."""
        if self.manifest is None:
            self._journal.forget(name)

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
        spec = records.Output(
            stage=self.name, name=name, kind="table", row_blocks=(n_rows,), shape=(n_rows, len(schema))
        )
        if not self._missing(spec):
            return
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
        self._journal.add(spec, records.Block(index=0, files={spec.location: file.record}))

    def store_bytes(self, name: str, data: bytes, *, is_page: bool = False) -> None:
        """Store one plain file, such as vectors in a text format, or a page, which takes part in no digest."""
        kind: Literal["page", "bytes"] = "page" if is_page else "bytes"
        spec = records.Output(stage=self.name, name=name, kind=kind, row_blocks=(1,), shape=(len(data),))
        self.forget(name)  # an interrupted run may have stored other bytes
        if self._missing(spec):
            written = self._folder.write(spec.location, data)
            self._journal.add(spec, records.Block(index=0, files={spec.location: written}))

    def store_files(
        self,
        name: str,
        n: int,
        make: MakeFiles,
        *,
        keys: Sequence[str] = (),
        temporary: bool = False,
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
        spec = records.Output(
            stage=self.name, name=name, kind="files", row_blocks=(1,) * n, shape=(n,), temporary=temporary
        )
        first: dict[str, list[int]] = {}  # items of equal keys share a folder, which one task makes
        for index in self._missing(spec, keys):
            first.setdefault(keys[index] if keys else str(index), []).append(index)

        def done(item: records.Block) -> None:
            for index in first[item.key or str(item.index)]:
                self._journal.add(spec, item.model_copy(update={"index": index}))

        work = partial(_make_item, self._folder, spec, make, keys)
        tasks.run_each(work, [indices[0] for indices in first.values()], done, step=f"{name}-write")
        return self.files(name)

    def is_stored(self, name: str) -> bool:
        """Return whether every block of an output is recorded and undamaged."""
        if self.manifest is not None:
            return name in self.manifest.outputs
        stored = self._journal.outputs.get(name) if self._journal.resumes() else None
        return stored is not None and not self._journal.missing(stored)

    def array(self, name: str) -> da.Array:
        """Open a stored array of this stage, committed or not, lazily."""
        return blocks.open_array(self._folder, self.record(name))

    def row_nonzeros(self, name: str) -> da.Array:
        """Return the number of stored values of each row of a sparse array, int64 (rows,), without reading them."""
        return blocks.open_array(self._folder, self.record(name), row_nonzeros=True)

    def files(self, name: str) -> list[FileItem]:
        """Return the items of `store_files`, in order."""
        return file_items(self._folder, self.record(name))

    def record(self, name: str) -> records.OutputRecord:
        """Return the record of an output, committed or not, with all its blocks.

        Raises
        ------
        ValueError
            If it is unknown or incomplete.
        """
        if self.manifest is not None and name in self.manifest.outputs:
            return self.manifest.outputs[name]
        stored = self._journal.outputs.get(name)
        if stored is None or not stored.is_used:
            raise ValueError(f"Stage {self.name!r} has stored no output {name!r} in this run.")
        if len(stored.blocks) != (n_blocks := len(stored.spec.row_blocks)):
            raise ValueError(
                f"Output {name!r} of stage {self.name!r} has {len(stored.blocks)} of {n_blocks} blocks: store it."
            )
        return stored.record()

    def damaged_blocks(self) -> list[records.Problem]:
        """Return the problems of a committed stage's files, which are read in parallel.

        In an object store only the files are read that its listing does not tell from what was committed.
        """
        outputs = [] if self.manifest is None else list(self.manifest.outputs.values())
        listed: dict[str, tuple[int, str]] = {}
        for record in [] if self._folder.is_local else outputs:
            listed |= self._folder.find(record.spec.location)
        return verify.check_blocks(self._folder, outputs, listed=listed)

    def reopen(self, damaged: Sequence[records.Problem] | None = None) -> None:
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
        self._journal.reopen(self.manifest, self.damaged_blocks() if damaged is None else damaged)
        self.manifest = None

    def commit(self, facts: Mapping[str, Any] | None = None) -> records.StageManifest:
        """Write the manifest of what this run has stored, and remove the stages that it leaves without their input.

        Temporary outputs are removed. `facts` are stored in the manifest and belong to no digest.

        Raises
        ------
        ValueError
            If an output of this run is not complete.
        """
        if self.manifest is not None:
            return self.manifest
        self._journal.begin()
        stored = self._journal.outputs
        for name in [name for name, each in stored.items() if not each.is_used]:
            self._journal.forget(name)  # of an interrupted run
        lasting = {
            name: self.record(name) for name, each in sorted(stored.items()) if not each.spec.temporary
        }
        if not self._folder.is_local:
            lasting = {name: _with_versions(self._folder, record) for name, record in lasting.items()}
        begun = read_record(self._folder, begun_file(self.name), records.Begun)
        if begun is None:  # it was removed with the commit of an input
            raise ValueError(
                f"Stage {self.name!r} cannot be committed, because an input of it was replaced since it began: store "
                "it again."
            )
        manifest = records.StageManifest(
            **begun.model_dump(exclude={"worked"}),
            outputs=lasting,
            facts=json.loads(records.canonical_json(dict(facts or {}), f"facts of stage {self.name!r}")),
        )
        texts = {name: text for one in lasting.values() for name, text in blocks.zarr_texts(one.spec).items()}
        for name, text in texts.items():
            if verify.what_is_wrong(self._folder, name, record_of(text)):
                self._folder.write(name, text)
        self._folder.sync({*texts}.union(*(record.files for record in lasting.values())))
        self._catalog.put(manifest)
        self.manifest = manifest
        remove_journal(self._folder, self.name, [each.spec for each in stored.values()])
        self._catalog.forget_places(self.name)
        outdated, known = self._catalog.outdated(), self._catalog.manifests()
        if any(known[name].inputs.get(self.name) == self.fingerprint for name in outdated if name in known):
            warnings.warn(
                f"Stage {self.name!r} was repaired, but its content differs from before: another processor or library "
                f"version? The stages that depend on it ({', '.join(outdated)}) are removed: run the job again to "
                "compute them.",
                stacklevel=2,
            )
        for stage in outdated:
            remove_stage(self._catalog, stage)
        return manifest


def file_items(folder: Folder, record: records.OutputRecord) -> list[FileItem]:
    """Return the items of a files output."""
    return [FileItem([folder.path(name) for name in sorted(b.files)], b.summary) for b in record.blocks]


def _make_item(
    folder: Folder, spec: records.Output, make: MakeFiles, keys: Sequence[str], index: int
) -> records.Block:
    """Make the files of an item in a folder that is empty, and return their record.

    Raises
    ------
    ValueError
        If it writes no file.
    """
    key = keys[index] if keys else ""
    place = spec.block_location(index, key)
    folder.remove(place)
    prefix = folder.writable(f"{place}/part")
    with asking(folder.check):
        summary = dict(make(index, prefix))
    folder.check()  # it may have taken hours
    files = {
        name: folder.record(name) for name in sorted(folder.find(place)) if not PARTIAL_NAME.search(name)
    }
    if not files:
        raise ValueError(f"Item {index} of {spec.name!r} wrote no file that begins with {prefix}.")
    return records.Block(index=index, files=files, summary=summary, key=key, kernel=kernel())


def _with_versions(folder: Folder, record: records.OutputRecord) -> records.OutputRecord:
    """Return a record with what an object store calls the content of each file, so that it need not be read again."""
    listed = folder.find(record.spec.location)

    def version(name: str, file: records.FileRecord) -> str:
        size, found = listed.get(name, (-1, ""))
        return found if size == file.size else ""  # of another size it is another content

    made = tuple(
        block.model_copy(
            update={"files": {n: f._replace(version=version(n, f)) for n, f in block.files.items()}}
        )
        for block in record.blocks
    )
    return record.model_copy(update={"blocks": made})
