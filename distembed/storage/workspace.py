"""A workspace: a folder or URL with everything that a job has computed, written by one process and checksummed."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING

from distembed.display import html_view
from distembed.files import PARTIAL
from distembed.libraries import Deferred, da, pa, pq
from distembed.storage import lock, verify
from distembed.storage import manifest as records
from distembed.storage.file_items import FileItem, file_items
from distembed.storage.files import Folder
from distembed.storage.schema import (
    FORMAT,
    LOCK_FILE,
    RESERVED,
    VERSION,
    WORKSPACE_FILE,
    Begun,
    NewerFormatError,
    OutputRecord,
    Problem,
    StageManifest,
    digest_of_json,
    seal,
)
from distembed.storage.stage import Stage

if TYPE_CHECKING:
    from distembed.storage import arrays
else:
    arrays = Deferred("distembed.storage.arrays")  # zarr takes a third of a second

BATCH_ROWS = 1 << 16
"""Rows of a table that are read at a time, at most."""
BATCH_BYTES = 1 << 20
"""Bytes of a column that are read ahead."""


class Workspace:
    """Everything that a job keeps on disk.

    `Workspace.open` reads and takes no lock. `Workspace.create` writes; it is a context manager that holds
    the lock of the single writer until it exits, also after an error or Ctrl-C.

    Attributes
    ----------
    url : str
        The absolute path, or the URL, of the workspace.

    Examples
    --------
    >>> import distembed as de
    >>> workspace = de.Workspace.open("runs/titles")  # made by the example of de.run_job
    >>> sorted(workspace.stages())
    ['cooccurrence', 'core', 'evaluation', 'partial_counts', 'pmi', 'tokens', 'vectors', 'vocabulary']
    >>> workspace.array("vectors").shape
    (16, 3)
    >>> workspace.table("vocabulary").column_names
    ['word', 'count', 'document_count']
    >>> workspace.verify()
    []
    """

    def __init__(self, folder: Folder, held: lock.Lock | None = None) -> None:
        self._folder = folder
        self._lock = held
        self.url = folder.url

    @classmethod
    def open(
        cls, url: str | os.PathLike[str], *, storage_options: Mapping[str, object] | None = None
    ) -> Workspace:
        """Open a workspace for reading.

        Parameters
        ----------
        url : str or path
            A folder or fsspec URL.
        storage_options : mapping, optional
            Options of the fsspec file system.

        Returns
        -------
        Workspace

        Raises
        ------
        FileNotFoundError
            If there is no workspace there.
        ManifestError
            If it was written by a newer format version, or its first file is damaged.

        Examples
        --------
        >>> import distembed as de
        >>> workspace = de.Workspace.open("runs/titles")  # made by the example of de.run_job
        >>> workspace.array("vectors").shape
        (16, 3)
        """
        folder = Folder.at(url, storage_options)
        if not _check_format(folder):
            raise FileNotFoundError(
                f"There is no distembed workspace at {folder.url}: run a job there first."
            )
        return cls(folder)

    @classmethod
    def create(
        cls,
        url: str | os.PathLike[str],
        *,
        owner: str,
        storage_options: Mapping[str, object] | None = None,
        watching: Callable[[str], None] | None = None,
    ) -> Workspace:
        """Open a workspace for writing, making it if need be, and take its lock.

        Parameters
        ----------
        url : str or path
            Folder or fsspec URL.
        owner : str
            Name of the job, shown to whoever finds the workspace locked.
        storage_options : mapping, optional
            Options of the fsspec file system.
        watching : callable, optional
            Called with a sentence before the heartbeat of a run on another machine or in another container
            is watched, which takes up to `lock.STALE_SECONDS`: it may be alive, or gone without a word.

        Raises
        ------
        LockedError
            If another run holds the lock.
        NotADirectoryError, PermissionError
            If the place is a file, or cannot be written.
        FileExistsError
            If the folder holds something that is no workspace.
        ManifestError
            If a newer version wrote it.

        Examples
        --------
        >>> import dask.array as da
        >>> import distembed as de
        >>> with de.Workspace.create("runs/squares", owner="example") as workspace:
        ...     stage = workspace.stage("squares", parameters={"n": 6}, inputs={})
        ...     squares = da.arange(6, chunks=3)[:, None] ** 2
        ...     _ = stage.store("squares", squares, dims=["row", "column"], units="1", meaning="Squares.")
        ...     _ = stage.commit()
        >>> de.Workspace.open("runs/squares").array("squares").compute().ravel().tolist()
        [0, 1, 4, 9, 16, 25]
        """
        folder = Folder.at(url, storage_options)
        _check_place(folder)
        try:
            folder.fs.makedirs(folder.root, exist_ok=True)
            held = lock.acquire(folder, owner, watching=watching)
        except PermissionError as error:
            message = (
                f"Workspace {folder.url} cannot be written: {error.strerror or error}. Choose another folder."
            )
            raise PermissionError(error.errno, message) from error
        workspace = cls(folder, held)
        try:
            workspace._prepare()
        except BaseException:
            workspace.close()
            raise
        return workspace

    @classmethod
    def exists(
        cls, url: str | os.PathLike[str], *, storage_options: Mapping[str, object] | None = None
    ) -> bool:
        """Return whether there is a workspace at a folder or URL.

        Parameters
        ----------
        url : str or path
            A folder or fsspec URL.
        storage_options : mapping, optional
            Options of the fsspec file system.

        Returns
        -------
        bool

        Examples
        --------
        >>> import distembed as de
        >>> de.Workspace.exists("runs/titles"), de.Workspace.exists("runs/elsewhere")
        (True, False)
        """
        return Folder.at(url, storage_options).exists(WORKSPACE_FILE)

    def writer(self) -> str:
        """Return a description of the run that is writing the workspace; "" if there is none.

        Examples
        --------
        >>> import distembed as de
        >>> workspace = de.Workspace.open("runs/titles")  # made by the example of de.run_job
        >>> workspace.writer()  # nobody writes it
        ''
        >>> with de.Workspace.create("runs/titles", owner="a second run"):
        ...     print(workspace.writer())
        a second run (process ...)
        """
        return lock.owner_of(self._folder)

    def __repr__(self) -> str:
        return f"Workspace({self.url!r}, open for {'reading' if self._lock is None else 'writing'})"

    def _repr_html_(self) -> str:
        records = [record for stage in self.stages().values() for record in stage.outputs.values()]
        rows = [
            (
                record.spec.name,
                record.spec.stage,
                record.spec.kind,
                record.spec.shape or "",
                record.spec.meaning,
            )
            for record in records
            if not record.dropped
        ]
        return html_view(f"Workspace {self.url}", ("output", "stage", "kind", "shape", "meaning"), rows)

    def __enter__(self) -> Workspace:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Release the lock; the workspace can still be read through this object.

        Examples
        --------
        >>> import distembed as de
        >>> workspace = de.Workspace.create("runs/mine", owner="example")
        >>> workspace.close()
        >>> workspace
        Workspace('...mine', open for reading)
        """
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def path(self, name: str) -> str:
        """Return the full path or URL of a plain file inside.

        Examples
        --------
        >>> import distembed as de
        >>> workspace = de.Workspace.open("runs/titles")  # made by the example of de.run_job
        >>> workspace.path("report/index.html").endswith("runs/titles/report/index.html")
        True
        """
        return self._folder.path(name)

    def stage(
        self,
        name: str,
        *,
        parameters: Mapping[str, object],
        inputs: Mapping[str, str],
        made_with: Mapping[str, str] | None = None,
    ) -> Stage:
        """Return the stage `name` as computed from `parameters` and the fingerprints of its input stages.

        `made_with` holds the versions that compute it: a stage that was begun by other versions is started
        again. Nothing is written until something is stored.

        Examples
        --------
        >>> import distembed as de
        >>> import pyarrow as pa
        >>> with de.Workspace.create("runs/mine", owner="example") as workspace:
        ...     stage = workspace.stage("words", parameters={"n": 2}, inputs={})
        ...     stage.store_table("words", pa.table({"word": ["cat", "dog"]}))
        ...     _ = stage.commit()
        ...     print(workspace.stage("words", parameters={"n": 2}, inputs={}).is_committed)
        ...     print(workspace.stage("words", parameters={"n": 3}, inputs={}).is_committed)
        True
        False
        """
        return Stage(
            self._folder,
            name,
            parameters=parameters,
            inputs=inputs,
            made_with=made_with or {},
            check_writable=self._check_writable,
        )

    def progress(self, stage: str) -> dict[str, tuple[int, int]]:
        """Return the number of recorded blocks, and of all blocks, of each output of a stage that has begun.

        Examples
        --------
        >>> import distembed as de
        >>> workspace = de.Workspace.open("runs/titles")  # made by the example of de.run_job
        >>> workspace.progress("vectors")  # nothing is under way: the stage is committed
        {'vectors': (1, 1)}
        """
        return records.blocks_done(self._folder, stage)

    def stages(self) -> dict[str, StageManifest]:
        """Return the committed stages by name.

        Examples
        --------
        >>> import distembed as de
        >>> workspace = de.Workspace.open("runs/titles")  # made by the example of de.run_job
        >>> vectors = workspace.stages()["vectors"]
        >>> sorted(vectors.outputs), sorted(vectors.inputs)
        (['vectors'], ['core'])
        """
        return records.committed(self._folder)

    def begun(self) -> dict[str, Begun]:
        """Return the stages that have begun and are not committed, by name.

        Examples
        --------
        >>> import distembed as de
        >>> workspace = de.Workspace.open("runs/titles")  # made by the example of de.run_job
        >>> workspace.begun()
        {}
        """
        return records.interrupted(self._folder)

    def read_file(self, name: str) -> bytes | None:
        """Read a plain file that belongs to no stage; None if it does not exist.

        Examples
        --------
        >>> import distembed as de
        >>> workspace = de.Workspace.open("runs/titles")  # made by the example of de.run_job
        >>> workspace.read_file("report/index.html")[:15]
        b'<!DOCTYPE html>'
        >>> workspace.read_file("notes.txt") is None
        True
        """
        try:
            return self._folder.read(name)
        except FileNotFoundError:
            return None

    def write_file(self, name: str, data: bytes) -> None:
        """Write a plain file that belongs to no stage, in one atomic step.

        Raises
        ------
        ValueError
            If the name is reserved for the workspace itself.
        OutsideError
            If the name or a symbolic link leads out of the workspace.

        Examples
        --------
        >>> import distembed as de
        >>> with de.Workspace.create("runs/mine", owner="example") as workspace:
        ...     workspace.write_file("notes.txt", b"Nine titles.")
        ...     workspace.read_file("notes.txt")
        b'Nine titles.'
        """
        self._check_writable()
        if name.split("/", maxsplit=1)[0] in RESERVED:
            raise ValueError(f"{name!r} would lie among the workspace's own files: give it another name.")
        self._folder.write(name, data)

    def remove_file(self, name: str) -> None:
        """Remove a plain file that belongs to no stage, if it exists.

        Examples
        --------
        >>> import distembed as de
        >>> with de.Workspace.create("runs/mine", owner="example") as workspace:
        ...     workspace.write_file("notes.txt", b"Nine titles.")
        ...     workspace.remove_file("notes.txt")
        ...     print(workspace.read_file("notes.txt"))
        None
        """
        self._check_writable()
        self._folder.remove(name)

    def describe(self, name: str) -> OutputRecord:
        """Return the record of a committed output: its kind, shape, dims, units, meaning, blocks and digest.

        Parameters
        ----------
        name : str
            The name of the output.

        Returns
        -------
        OutputRecord

        Raises
        ------
        KeyError
            If no committed stage has it.

        Examples
        --------
        >>> import distembed as de
        >>> workspace = de.Workspace.open("runs/titles")  # made by the example of de.run_job
        >>> record = workspace.describe("cooccurrence")
        >>> record.spec.kind, record.spec.shape, record.spec.units
        ('csr', (16, 16), 'occurrences')
        """
        found = records.committed_output(self._folder, name)
        if found is None:
            outputs = [record.spec for stage in self.stages().values() for record in stage.outputs.values()]
            others = ", ".join(sorted(spec.name for spec in outputs if not spec.temporary))
            raise KeyError(f"{self.url} has no committed output {name!r}; it has {others or 'none yet'}.")
        return found

    def array(self, name: str) -> da.Array:
        """Open a committed array lazily, one chunk per row block, dense or with csr_array chunks.

        Dask's own reductions call NumPy on each chunk, and SciPy's sparse arrays refuse that: ``sum``, ``mean``,
        ``max`` and products along an axis raise TypeError or ValueError where chunks are sparse. Sums of rows and
        columns are `distembed.weighting.pmi.marginals`; anything else is a function of one block, as in
        ``counts.map_blocks(lambda block: block.max(axis=1).toarray(), drop_axis=1, dtype=counts.dtype,
        meta=np.empty(0))``.

        Parameters
        ----------
        name : str
            The name of the array, such as ``vectors``.

        Returns
        -------
        dask.array.Array

        Raises
        ------
        KeyError
            If no committed stage has it.
        ValueError
            If it is no array.
        FileNotFoundError
            If it was temporary and has been dropped.

        Examples
        --------
        >>> import distembed as de
        >>> workspace = de.Workspace.open("runs/titles")  # made by the example of de.run_job
        >>> counts = workspace.array("cooccurrence")
        >>> counts.shape, counts.dtype
        ((16, 16), dtype('int32'))
        >>> vocabulary = de.Vocabulary.from_table(workspace.table("vocabulary"))
        >>> response, time = vocabulary.index(["response", "time"])
        >>> int(counts.compute()[response, time])  # "response time" stands in two titles
        2
        """
        record = self._committed(name)
        if not record.spec.is_array:
            raise ValueError(f"{name!r} in {self.url} is {record.spec.kind}, not an array.")
        return arrays.open_array(self._folder, record.spec, record.digest)

    def table(self, name: str) -> pa.Table:
        """Read a committed table.

        Parameters
        ----------
        name : str
            The name of the table, such as ``vocabulary``.

        Returns
        -------
        pyarrow.Table

        Examples
        --------
        >>> import distembed as de
        >>> workspace = de.Workspace.open("runs/titles")  # made by the example of de.run_job
        >>> workspace.table("vocabulary").slice(0, 1).to_pylist()
        [{'word': 'of', 'count': 7, 'document_count': 6}]
        """
        data = io.BytesIO(self._folder.read(self._committed(name).spec.location))
        return pq.read_table(data, page_checksum_verification=True)

    def batches(
        self, name: str, *, columns: Sequence[str] | None = None, n_rows: int = BATCH_ROWS
    ) -> Iterator[pa.RecordBatch]:
        """Yield a committed table some rows at a time, without holding it whole.

        Parameters
        ----------
        name : str
        columns : sequence of str, optional
            The columns to read, in the order of the table; all by default.
        n_rows : int
            The largest number of rows of a batch.

        Raises
        ------
        KeyError
            If no committed stage has it.

        Examples
        --------
        >>> import distembed as de
        >>> workspace = de.Workspace.open("runs/titles")  # made by the example of de.run_job
        >>> [batch.num_rows for batch in workspace.batches("vocabulary", columns=["word"], n_rows=10)]
        [10, 6]
        """
        path = self._folder.inside(self._committed(name).spec.location)
        with (
            self._folder.fs.open(path, "rb") as raw,
            pq.ParquetFile(
                raw, pre_buffer=False, buffer_size=BATCH_BYTES, page_checksum_verification=True
            ) as file,
        ):
            yield from file.iter_batches(n_rows, columns=columns, use_threads=False)

    def schema(self, name: str) -> pa.Schema:
        """Return the names and types of the columns of a committed table.

        Examples
        --------
        >>> import distembed as de
        >>> workspace = de.Workspace.open("runs/titles")  # made by the example of de.run_job
        >>> workspace.schema("vocabulary").names
        ['word', 'count', 'document_count']
        """
        with self._folder.fs.open(self._folder.inside(self._committed(name).spec.location), "rb") as file:
            return pq.read_schema(file)

    def read_bytes(self, name: str) -> bytes:
        """Read a committed plain file.

        Examples
        --------
        >>> import distembed as de
        >>> with de.Workspace.create("runs/mine", owner="example") as workspace:
        ...     stage = workspace.stage("note", parameters={}, inputs={})
        ...     stage.store_bytes("note.txt", b"Nine titles.")
        ...     _ = stage.commit()
        >>> de.Workspace.open("runs/mine").read_bytes("note.txt")
        b'Nine titles.'
        """
        return self._folder.read(self._committed(name).spec.location)

    def files(self, name: str) -> list[FileItem]:
        """Return the committed items of `Stage.store_files`, in order.

        Examples
        --------
        >>> import distembed as de
        >>> workspace = de.Workspace.open("runs/titles")  # made by the example of de.run_job
        >>> [len(item.paths) for item in workspace.files("tokens")]  # the files of each partition
        [3]
        """
        return file_items(self._folder, self.describe(name))

    def digest(self, stages: Iterable[str] | None = None) -> str:
        """Return the digest of the committed content of all or some stages, without times, facts and temporaries.

        Parameters
        ----------
        stages : iterable of str, optional
            The stages; by default all.

        Returns
        -------
        str
            32 hexadecimal digits.

        Examples
        --------
        >>> import distembed as de
        >>> workspace = de.Workspace.open("runs/titles")  # made by the example of de.run_job
        >>> len(workspace.digest()), workspace.digest() == workspace.digest(sorted(workspace.stages()))
        (32, True)
        """
        done = self.stages()
        chosen = done.keys() if stages is None else done.keys() & set(stages)
        return digest_of_json({name: done[name].digest for name in done if name in chosen})

    def verify(self, *, progress: verify.Progress | None = None) -> list[Problem]:
        """Return all problems of the committed outputs, by file; an empty list if there are none.

        Parameters
        ----------
        progress : callable, optional
            Called with the number of files that were read and that of all files.

        Returns
        -------
        list of Problem

        Examples
        --------
        >>> import distembed as de
        >>> workspace = de.Workspace.open("runs/titles")  # made by the example of de.run_job
        >>> workspace.verify()
        []
        >>> from pathlib import Path
        >>> block = next(Path("runs/titles/arrays.zarr/vectors").rglob("c/0/0"))
        >>> _ = block.write_bytes(block.read_bytes()[:-1])  # a byte is lost
        >>> for problem in workspace.verify():
        ...     print(problem.output, problem.block, problem.what)
        vectors 0 truncated
        """
        return verify.verify(self._folder, progress)

    def copy_to(self, url: str | os.PathLike[str]) -> None:
        """Copy everything to a new workspace, which then has a single writer of its own.

        A copy that was stopped is a workspace with missing blocks: a run there finds them and computes them again.

        Raises
        ------
        FileExistsError
            If there is something at `url`.

        Examples
        --------
        >>> import distembed as de
        >>> workspace = de.Workspace.open("runs/titles")  # made by the example of de.run_job
        >>> workspace.copy_to("runs/copy")
        >>> de.Workspace.open("runs/copy").digest() == workspace.digest()
        True
        """
        target = Folder.at(url)
        if target.exists(""):
            raise FileExistsError(f"{target.url} is there already: choose a new folder.")
        own = (name for name in sorted(self._folder.find()) if not name.endswith(PARTIAL))
        names = [name for name in own if name != LOCK_FILE and not lock.is_beat_file(name)]
        for name in sorted(names, key=lambda name: name != WORKSPACE_FILE):
            target.write(name, self._folder.read(name))

    def drop_temporary(self, stage: str) -> None:
        """Remove the temporary outputs of a committed stage, once a later stage no longer needs them.

        Examples
        --------
        >>> import dask.array as da
        >>> import distembed as de
        >>> with de.Workspace.create("runs/mine", owner="example") as workspace:
        ...     stage = workspace.stage("sums", parameters={}, inputs={})
        ...     ones, what = da.ones((4, 2), chunks=(2, 2)), {"units": "1", "meaning": "Ones."}
        ...     _ = stage.store("ones", ones, dims=["row", "column"], temporary=True, **what)
        ...     _ = stage.commit()
        ...     workspace.drop_temporary("sums")
        ...     print(workspace.describe("ones").dropped)
        True
        """
        self._check_writable()
        manifest = self.stages()[stage]
        outputs = {
            name: replace(record, dropped=record.dropped or record.spec.temporary)
            for name, record in manifest.outputs.items()
        }
        records.write_manifest(self._folder, replace(manifest, outputs=outputs))
        for record in outputs.values():
            if record.dropped:
                self._folder.remove(record.spec.location)

    def _committed(self, name: str) -> OutputRecord:
        record = self.describe(name)
        if record.dropped:
            raise FileNotFoundError(
                f"Temporary output {name!r} was dropped: run stage {record.spec.stage!r} again."
            )
        return record

    def _check_writable(self) -> None:
        """Refuse to write without the lock, or with one that another run has taken over."""
        if self._lock is None:
            raise PermissionError(
                f"{self.url} is open for reading only: open it with Workspace.create to write."
            )
        self._lock.check()

    def _prepare(self) -> None:
        """Write the format file and complete what an interrupted run left unfinished."""
        assert self._lock is not None
        if not _check_format(self._folder):
            self._folder.write(WORKSPACE_FILE, seal({"format": FORMAT, "version": VERSION}))
        for name in self._folder.find():
            if name.endswith(PARTIAL) or (lock.is_beat_file(name) and not self._lock.is_own_file(name)):
                self._folder.remove(name)
        for manifest in self.stages().values():
            for record in manifest.outputs.values():
                if record.dropped:
                    self._folder.remove(record.spec.location)


def _check_place(folder: Folder) -> None:
    if folder.is_local and folder.fs.isfile(folder.root):
        raise NotADirectoryError(f"{folder.url} is a file: a workspace needs a folder of its own.")
    if folder.exists("") and not folder.exists(WORKSPACE_FILE):
        names = {entry.rsplit("/", 1)[-1] for entry in folder.fs.ls(folder.root, detail=False)}
        others = [n for n in sorted(names) if n not in (LOCK_FILE, "job.toml") and not n.endswith(PARTIAL)]
        others = [n for n in others if not lock.is_beat_file(n)]
        if others:
            raise FileExistsError(
                f"{folder.url} is no workspace and holds other things ({others[0]}): choose a new folder."
            )


def _check_format(folder: Folder) -> bool:
    """Return False where there is no workspace, True where there is one this version can read."""
    body = records.read_sealed(folder, WORKSPACE_FILE)
    if body is None:
        return False
    version = body.get("version")
    if body.get("format") != FORMAT or not isinstance(version, int) or version > VERSION:
        raise NewerFormatError(
            f"{folder.path(WORKSPACE_FILE)} has format version {version}, this distembed "
            f"reads up to {VERSION}: install a newer distembed."
        )
    return True
