"""A workspace: a folder or URL with everything that a job has computed, written by one process and checksummed."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from types import TracebackType

import dask.array as da
import pyarrow as pa
import pyarrow.parquet as pq

from distembed.display import html_view
from distembed.files import PARTIAL_NAME, damage_told, failures_told
from distembed.formats.parquet import ParquetFile, read_batches, whole_table
from distembed.storage import blocks, catalog, lock, records, verify
from distembed.storage.folder import Folder, record_of
from distembed.storage.journal import remove_journal, remove_stage
from distembed.storage.stage import FileItem, Stage, file_items

CHECKED_BYTES = 1 << 26
"""A table or file of no more bytes is compared with its digests when it is read: a fifteenth of a second at most."""
RUN_AGAIN = "'distembed run' writes it again"
"""The remedy for what is damaged."""
BATCH_ROWS = 1 << 16
"""Rows of a table that are read at a time, at most."""
BATCH_BYTES = 1 << 20
"""Bytes of a column that are read ahead."""


class _Stages(dict[str, records.StageManifest]):
    """The committed stages of a workspace; one that is missing, which a run may be making again, is a sentence."""

    def __init__(self, url: str, found: dict[str, records.StageManifest]) -> None:
        super().__init__(found)
        self._url = url

    def __missing__(self, name: str) -> records.StageManifest:
        raise KeyError(_absent(self._url, f"stage {name!r}", self))


def _absent(url: str, what: str, others: Iterable[str]) -> str:
    return (
        f"{url} has no committed {what}, only {', '.join(sorted(others)) or 'none yet'}; if its job is not finished, "
        f"run it first: distembed run {url}"
    )


class Workspace:
    """Everything that a job keeps on disk.

    `Workspace.open` reads and takes no lock. `Workspace.create` writes; it is a context manager that holds
    the lock of the single writer until it exits, also after an error or Ctrl-C.

    Attributes
    ----------
    url : str
        The absolute path, or the URL, of the workspace.
    repaired : list of Problem
        The records that were written again, and the files that no record accounts for and that were removed, when the
        workspace was opened for writing.

    Examples
    --------
    >>> import distembed as de
    >>> workspace = de.Workspace.open("runs/titles")  # made by the example of de.run_job
    >>> sorted(workspace.stages())
    ['cooccurrence', 'core', 'distances', 'documents', 'evaluation', 'pmi', 'report', 'tokens', 'vectors', 'vocabulary']
    >>> workspace.array("vectors").shape, workspace.schema("vocabulary").names, workspace.writer()
    ((16, 3), ['word', 'count', 'document_count'], '')
    >>> workspace.table("vocabulary").slice(0, 1).to_pylist()
    [{'word': 'of', 'count': 7, 'document_count': 6}]
    >>> workspace.verify(), len(workspace.digest()), workspace.begun()
    ([], 32, {})
    >>> workspace.read_bytes("report/index.html")[:15], workspace.read_file("job.toml")[:5]
    (b'<!DOCTYPE html>', b'[job]')
    >>> mine = de.Workspace.create("runs/mine", owner="example")
    >>> stage = mine.stage("note", parameters={}, inputs={})
    >>> stage.store_bytes("note.txt", b"Nine titles.")
    >>> mine.progress("note"), mine.path("note.txt").endswith("runs/mine/note.txt")
    ({'note.txt': (1, 1)}, True)
    >>> _ = stage.commit()
    >>> mine.write_file("draft.txt", b"Ten titles?")
    >>> mine.close()
    >>> mine.copy_to("runs/copy")
    >>> de.Workspace.exists("runs/mine"), mine.read_bytes("note.txt")
    (True, b'Nine titles.')
    """

    def __init__(self, folder: Folder, held: lock.Lock | None = None) -> None:
        if not isinstance(folder, Folder):
            raise TypeError(f"call Workspace.open({str(folder)!r}) to read a workspace")
        check = partial(lock.refuse_to_write, folder.url) if held is None else held
        self._folder = replace(folder, check=check)
        self._catalog = catalog.Catalog(self._folder, is_writer=held is not None)
        self._lock = held
        self.url = folder.url
        self.repaired: list[records.Problem] = []

    def __fspath__(self) -> str:
        return self.url

    @classmethod
    def open(cls, url: str | os.PathLike[str], *, lease: object = None) -> Workspace:
        """Open a workspace, a folder or fsspec URL, for reading; `lease` lives as long as what reads it.

        Raises
        ------
        FileNotFoundError
            If there is no workspace there.
        ManifestError
            If it was written by a newer format version, or its first file is damaged.
        OutsideError
            If a folder of its own is a symbolic link: its digest would cover files elsewhere.
        """
        folder = Folder.at(url)
        if not catalog.is_workspace(folder):
            raise FileNotFoundError(
                f"There is no distembed workspace at {folder.url}: run a job there first."
            )
        return cls(replace(folder, lease=lease))

    @classmethod
    def create(
        cls,
        url: str | os.PathLike[str],
        *,
        owner: str,
        watching: Callable[[str], None] | None = None,
    ) -> Workspace:
        """Open a workspace for writing, making it if need be, and take its lock.

        Parameters
        ----------
        url : str or path
            Folder or fsspec URL.
        owner : str
            Name of the job, shown to whoever finds the workspace locked.
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
            If another version wrote it.

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
        folder = catalog.check_place(url)
        try:
            folder.fs.makedirs(folder.url, exist_ok=True)
            held = lock.acquire(folder, owner, watching=watching)
        except PermissionError as error:
            if not folder.is_local:
                raise
            message = (
                f"Workspace {folder.url} cannot be written by this user (permission denied): ask its owner for it, or "
                "choose another folder."
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
    def exists(cls, url: str | os.PathLike[str]) -> bool:
        """Return whether there is a workspace at a folder or URL."""
        folder = Folder.at(url)
        return folder.exists(records.WORKSPACE_FILE) or (folder.is_local and catalog.has_records(folder))

    def __repr__(self) -> str:
        return f"Workspace({self.url!r}, open for {'reading' if self._lock is None else 'writing'})"

    def _repr_html_(self) -> str:
        specs = [record.spec for stage in self.stages().values() for record in stage.outputs.values()]
        rows = [(spec.name, spec.stage, spec.kind, spec.shape or "", spec.meaning) for spec in specs]
        return html_view(f"Workspace {self.url}", ("output", "stage", "kind", "shape", "meaning"), rows)

    def __enter__(self) -> Workspace:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Release the lock; the workspace can still be read through this object."""
        if self._lock is not None:
            self._lock.release()
            self._lock = None
            self._catalog = catalog.Catalog(self._folder, is_writer=False)

    # --- written -------------------------------------------------------------------------------------------

    @property
    def check_lock(self) -> Callable[[], object]:
        """Return a function that raises `LockedError` in a process that does not see this run's lock.

        It can be pickled.
        """
        return self._folder.check

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

        Raises
        ------
        ValueError
            If a name, its own or that of an input, is no name of a stage.

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
        return Stage(self._catalog, name, parameters=parameters, inputs=inputs, made_with=made_with or {})

    def write_file(self, name: str, data: bytes) -> None:
        """Write a plain file that belongs to no stage, in one atomic step.

        Raises
        ------
        ValueError
            If the name is reserved for the workspace itself.
        OutsideError
            If the name or a symbolic link leads out of the workspace.
        """
        records.check_free(name)
        self._folder.write(name, data, durable=True)

    def copy_to(self, url: str | os.PathLike[str]) -> None:
        """Copy everything to a new workspace, which then has a single writer of its own.

        A copy that was stopped is a workspace with missing blocks: a run there finds them and computes them again.
        Records are therefore copied first.

        Raises
        ------
        FileExistsError
            If there is something at `url`.
        """
        target = catalog.check_place(url)
        if Workspace.exists(url):
            raise FileExistsError(f"{target.url} is there already: choose a new folder.")
        own = (name for name in sorted(self._folder.find()) if not PARTIAL_NAME.search(name))
        names = [name for name in own if name != records.LOCK_FILE and not lock.is_beat_file(name)]
        first = (records.WORKSPACE_FILE, records.MANIFEST, records.JOURNAL)
        for name in sorted(names, key=lambda name: (name != first[0], not name.startswith(first))):
            with (
                target.writing(name) as copy,
                self._folder.fs.open(self._folder.readable(name), "rb") as file,
            ):
                while piece := file.read(BATCH_BYTES):
                    copy.write(piece)
        target.sync(names)

    def _prepare(self) -> None:
        """Complete what an interrupted run left unfinished, and write damaged records again: `repaired` tells which."""
        assert self._lock is not None
        self._folder.remove("scratch")  # of a run that was killed
        files, own = self._folder.find(), lock.beat_file(self._lock.token)
        for name in list(files):
            if PARTIAL_NAME.search(name) or (lock.is_beat_file(name) and name != own):
                self._folder.remove(name)
                del files[name]
        is_new = records.WORKSPACE_FILE not in files and not self.stages()
        ended = [
            stage
            for stage in self.stages()
            if any(n.startswith(f"{records.JOURNAL}/{stage}/") for n in files)
        ]
        for stage in ended:  # before what they name is removed as unexpected, and nothing knows it any more
            named = catalog.read_journal(self._folder, stage, reading=False).values()
            remove_journal(self._folder, stage, [record.spec for record in named])
        found = verify.repair(self._catalog, self._folder.find() if ended else files)
        self.repaired = [] if is_new else found
        for stage in self._catalog.outdated():
            remove_stage(self._catalog, stage)

    # --- the state of the stages -----------------------------------------------------------------------------

    def writer(self) -> str:
        """Return a description of the run that is writing the workspace; "" if there is none."""
        return lock.owner_of(self._folder)

    def progress(self, stage: str) -> dict[str, tuple[int, int]]:
        """Return the number of recorded blocks, and of all blocks, of each output of a stage that is not committed."""
        found = catalog.read_journal(self._folder, stage, reading=False)
        return {name: (len(one.blocks), len(one.spec.row_blocks)) for name, one in found.items()}

    def stages(self) -> dict[str, records.StageManifest]:
        """Return the committed stages by name."""
        return _Stages(self.url, self._catalog.manifests())

    def begun(self) -> dict[str, records.Begun]:
        """Return the stages that have begun and are not committed, by name."""
        return self._catalog.begun()

    @contextmanager
    def of_one_run(self) -> Iterator[None]:
        """Let several outputs be read together: those that are read inside are of one run.

        Raises
        ------
        LockedError
            If a run has replaced them meanwhile, or is about to: what was read is to be discarded.

        Examples
        --------
        >>> import distembed as de
        >>> workspace = de.Workspace.open("runs/titles")  # made by the example of de.run_job
        >>> with workspace.of_one_run():
        ...     words, vectors = workspace.table("vocabulary"), workspace.array("vectors").compute()
        >>> len(words) == len(vectors)
        True
        """
        before = self._catalog.manifests()
        yield
        now = self._catalog.manifests()
        is_same = all(name in now and now[name].digest == made.digest for name, made in before.items())
        if not is_same or before.keys() & {*self._catalog.outdated()}:
            raise records.LockedError(
                f"A run replaced the content of {self.url} while it was read: read it again."
            )

    def digest(self, stages: Iterable[str] | None = None) -> str:
        """Return the digest of the content of all or some stages, 32 hexadecimal digits: no times, facts and pages."""
        done = self._catalog.manifests()
        chosen = done.keys() if stages is None else done.keys() & set(stages)
        drawn = {n for n, made in done.items() if any(r.spec.kind == "page" for r in made.outputs.values())}
        return records.digest_of_json({name: done[name].digest for name in done if name in chosen - drawn})

    def verify(self, *, progress: verify.Progress | None = None) -> list[records.Problem]:
        """Return all problems by file: of outputs, records, and stages that are not committed; an empty list if none.

        Parameters
        ----------
        progress : callable, optional
            Called with the number of blocks that were read and that of all blocks.

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
        return verify.verify(self._folder, self.writer, progress)

    # --- outputs -------------------------------------------------------------------------------------------

    def path(self, name: str) -> str:
        """Return the full path or URL of a plain file inside."""
        return self._folder.path(name)

    def read_file(self, name: str, *, most: int | None = None) -> bytes | None:
        """Read a plain file that belongs to no stage; None if it does not exist.

        Raises
        ------
        DamagedError
            If it has more bytes than `most`.
        """
        try:
            return self._folder.read(name, most=most)
        except (FileNotFoundError, NotADirectoryError):
            return None

    def describe(self, name: str) -> records.OutputRecord:
        """Return the record of a committed output: its kind, shape, dims, units, meaning, blocks and digest.

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
        outputs = {n: one for made in self._catalog.manifests().values() for n, one in made.outputs.items()}
        if name not in outputs:
            raise KeyError(_absent(self.url, f"output {name!r}", outputs))
        return outputs[name]

    def array(self, name: str) -> da.Array:
        """Open a committed array lazily, one chunk per row block, dense or with csr_array chunks.

        A block that is read after a run has replaced it is a `DamagedError`: open the array again.

        Dask's own reductions call NumPy on each chunk, and SciPy's sparse arrays refuse that: ``sum``, ``mean``,
        ``max`` and products along an axis raise TypeError or ValueError where chunks are sparse. Sums of rows and
        columns are `distembed.weighting.pmi.marginals`; anything else is a function of one block, as in
        ``counts.map_blocks(lambda block: block.max(axis=1).toarray(), drop_axis=1, dtype=counts.dtype,
        meta=np.empty(0))``.

        Raises
        ------
        KeyError
            If no committed stage has it.
        ValueError
            If it is no array.

        Examples
        --------
        >>> import distembed as de
        >>> workspace = de.Workspace.open("runs/titles")  # made by the example of de.run_job
        >>> counts = workspace.array("cooccurrence")
        >>> counts.shape, counts.dtype
        ((16, 16), dtype('int32'))
        >>> vocabulary = de.Vocabulary.from_table(workspace.table("vocabulary"))
        >>> response, time = vocabulary.index(["response", "time"])
        >>> int(counts.compute()[response, time])  # "response time" occurs in two titles
        2
        """
        return blocks.open_array(self._folder, self._committed(name, "array"))

    def table(self, name: str) -> pa.Table:
        """Read a committed table.

        Raises
        ------
        KeyError
            If no committed stage has it.
        ValueError
            If it is no table.
        """
        record = self._committed(name, "table")
        with self._damage_told(record):
            return whole_table(io.BytesIO(self._whole(record)))

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

        Examples
        --------
        >>> import distembed as de
        >>> workspace = de.Workspace.open("runs/titles")  # made by the example of de.run_job
        >>> [batch.num_rows for batch in workspace.batches("vocabulary", columns=["word"], n_rows=10)]
        [10, 6]
        """
        record = self._committed(name, "table")
        path = self._folder.readable(record.spec.location)
        is_small = record.n_bytes <= CHECKED_BYTES
        with (
            self._damage_told(record),
            io.BytesIO(self._whole(record)) if is_small else self._folder.fs.open(path, "rb") as raw,
            ParquetFile(raw, buffer_bytes=BATCH_BYTES) as file,
        ):
            yield from read_batches(file, n_rows, columns=columns)

    def schema(self, name: str) -> pa.Schema:
        """Return the names and types of the columns of a committed table."""
        record = self._committed(name, "table")
        path = self._folder.readable(record.spec.location)
        with self._damage_told(record), self._folder.fs.open(path, "rb") as file:
            return pq.read_schema(file)

    def read_bytes(self, name: str) -> bytes:
        """Read a committed plain file."""
        return self._whole(self._committed(name, "read_bytes"))

    def files(self, name: str) -> list[FileItem]:
        """Return the committed items of `Stage.store_files`, in order; small ones are compared with their digests.

        Raises
        ------
        DamagedError
            If a file is not what was written.

        Examples
        --------
        >>> import distembed as de
        >>> workspace = de.Workspace.open("runs/titles")  # made by the example of de.run_job
        >>> [len(item.paths) for item in workspace.files("tokens")]  # the files of each partition
        [3]
        """
        record = self._committed(name, "files")
        if record.n_bytes <= CHECKED_BYTES:
            for problem in verify.check_blocks(self._folder, [record]):
                if problem.what != verify.MISSING:  # whoever opens a missing file sees that it is
                    raise self._damaged(record, problem.file)
        return file_items(self._folder, record)

    def _whole(self, record: records.OutputRecord) -> bytes:
        """Return the bytes of a committed file, compared with its digest where it is small.

        Raises
        ------
        DamagedError
            If it is another.
        """
        name = record.spec.location
        expected = record.blocks[0].files[name]
        if record.n_bytes > CHECKED_BYTES:
            return self._folder.read(name)
        with suppress(FileNotFoundError, NotADirectoryError, IsADirectoryError, records.DamagedError):
            data = self._folder.read(name, most=expected.size)
            if record_of(data)[:2] == expected[:2]:
                return data
        raise self._damaged(record, name)

    @contextmanager
    def _damage_told(self, record: records.OutputRecord) -> Iterator[None]:
        """Name a table that is too large to be compared with its digest where it cannot be read."""
        url = self._folder.path(record.spec.location)
        with failures_told(url), damage_told(url, records.DamagedError, "a table", RUN_AGAIN):
            yield

    def _damaged(self, record: records.OutputRecord, file: str) -> records.DamagedError:
        return records.DamagedError(
            f"{self._folder.path(file)} is not the file that stage {record.spec.stage!r} wrote: {RUN_AGAIN}."
        )

    def _committed(self, name: str, reader: str | None = None) -> records.OutputRecord:
        """Return the record of an output, which is of the kind that the named method reads."""
        record = self.describe(name)
        kind = record.spec.kind
        own = "array" if record.spec.is_array else kind if kind in ("table", "files") else "read_bytes"
        if reader not in (None, own):
            raise ValueError(f"{name!r} in {self.url} is not read by {reader}: call {own}({name!r})")
        return record
