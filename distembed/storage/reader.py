"""What can be read of a workspace without its lock: committed outputs, plain files, and the state of its stages."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime

import dask.array as da
import pyarrow as pa
import pyarrow.parquet as pq
from scipy.sparse import csr_array

from distembed.display import html_view
from distembed.dtypes import Floats
from distembed.formats.parquet import ParquetFile, read_batches, whole_table
from distembed.storage import arrays, lock, verify
from distembed.storage import manifest as records
from distembed.storage.file_items import FileItem, file_items
from distembed.storage.files import Folder
from distembed.storage.schema import (
    Begun,
    DamagedError,
    FileRecord,
    LockedError,
    OutputRecord,
    Problem,
    StageManifest,
    digest_of_json,
    new_digest,
)

CHECKED_BYTES = 1 << 26
"""An output of no more bytes is compared with its digests when it is read: a fifteenth of a second for the largest."""
BATCH_ROWS = 1 << 16
"""Rows of a table that are read at a time, at most."""
BATCH_BYTES = 1 << 20
"""Bytes of a column that are read ahead."""
READERS = {"dense": "array", "csr": "array", "table": "table", "bytes": "read_bytes", "files": "files"}
"""The method that reads an output, by its kind."""


def is_small(record: OutputRecord) -> bool:
    """Return whether an output is compared with its digests wherever it is read, because that takes no time."""
    files = (file for block in record.blocks for file in block.files.values())
    return sum(file.size for file in files) <= CHECKED_BYTES


class _Stages(dict[str, StageManifest]):
    """The committed stages of a workspace; one that is missing, which a run may be making again, is a sentence."""

    def __init__(self, url: str, found: dict[str, StageManifest]) -> None:
        super().__init__(found)
        self._url = url

    def __missing__(self, name: str) -> StageManifest:
        raise KeyError(_absent(self._url, f"stage {name!r}", self))


def _absent(url: str, what: str, others: Iterable[str]) -> str:
    return (
        f"{url} has no committed {what}, only {', '.join(sorted(others)) or 'none yet'}; if its job is not finished, "
        f"run it first: distembed run {url}"
    )


class WorkspaceReader:
    """What `Workspace` reads: committed outputs, plain files, and the state of the stages.

    Attributes
    ----------
    url : str
        The absolute path, or the URL, of the workspace.
    """

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self.url = folder.url

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
        return _Stages(self.url, records.committed(self._folder))

    @contextmanager
    def of_one_run(self) -> Iterator[None]:
        """Let several outputs be read together: those that are read inside are of one run.

        Raises
        ------
        LockedError
            At the end, if a run has replaced what was committed at the beginning.

        Examples
        --------
        >>> import distembed as de
        >>> workspace = de.Workspace.open("runs/titles")  # made by the example of de.run_job
        >>> with workspace.of_one_run():
        ...     words, vectors = workspace.table("vocabulary"), workspace.array("vectors").compute()
        >>> len(words) == len(vectors)
        True
        """
        before = records.committed(self._folder)
        yield
        now = records.committed(self._folder)
        is_same = all(name in now and now[name].content == made.content for name, made in before.items())
        if not is_same or before.keys() & {*records.outdated(self._folder)}:
            raise LockedError(f"A run replaced the content of {self.url} while it was read: read it again.")

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

    def read_file(self, name: str, *, most: int | None = None) -> bytes | None:
        """Read a plain file that belongs to no stage; None if it does not exist.

        Parameters
        ----------
        name : str
            The file.
        most : int, optional
            The bytes that it may have.

        Raises
        ------
        DamagedError
            If it has more bytes than `most`.

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
            return self._folder.read(name, most=most)
        except FileNotFoundError:
            return None

    def files_below(self, folder: str) -> list[str]:
        """Return the names of the files in a folder of the workspace and below it, sorted; none where it is absent.

        Examples
        --------
        >>> import distembed as de
        >>> workspace = de.Workspace.open("runs/titles")  # made by the example of de.run_job
        >>> workspace.files_below("report")
        ['report/index.html', 'report/index.json']
        """
        return sorted(self._folder.find(folder))

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
            others = [spec.name for spec in outputs if not spec.temporary]
            raise KeyError(_absent(self.url, f"output {name!r}", others))
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
        record = self._committed(name, "array")
        digests = [block.digest for block in record.blocks] if is_small(record) else None
        return arrays.open_array(self._folder, record.spec, record.digest, digests=digests)

    def block(self, name: str, index: int) -> Floats | csr_array:
        """Read one row block of a committed array: a NumPy array, or a `scipy.sparse.csr_array`.

        Raises
        ------
        DamagedError
            If it is not what was written.

        Examples
        --------
        >>> import distembed as de
        >>> workspace = de.Workspace.open("runs/titles")  # made by the example of de.run_job
        >>> workspace.block("vectors", 0).shape
        (16, 3)
        """
        spec = self._committed(name).spec
        found: Floats | csr_array = arrays.read_block(self._folder, spec, index, spec.row_blocks[index])
        return found

    def is_whole(self, names: Iterable[str]) -> bool:
        """Return whether every file of some committed outputs holds its digest; all are read.

        Examples
        --------
        >>> import distembed as de
        >>> workspace = de.Workspace.open("runs/titles")  # made by the example of de.run_job
        >>> workspace.is_whole(["tokens", "cooccurrence"])
        True
        """
        kept = [self._committed(name) for name in names]
        todo = [check for record in kept for check in verify.checks(self._folder, record, decode=False)]
        return not verify.run_checks(todo)

    def table(self, name: str) -> pa.Table:
        """Read a committed table.

        Parameters
        ----------
        name : str
            The name of the table, such as ``vocabulary``.

        Returns
        -------
        pyarrow.Table

        Raises
        ------
        KeyError
            If no committed stage has it.
        ValueError
            If it is no table.

        Examples
        --------
        >>> import distembed as de
        >>> workspace = de.Workspace.open("runs/titles")  # made by the example of de.run_job
        >>> workspace.table("vocabulary").slice(0, 1).to_pylist()
        [{'word': 'of', 'count': 7, 'document_count': 6}]
        """
        return whole_table(io.BytesIO(self._whole(self._committed(name, "table"))))

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
        record = self._committed(name, "table")
        path = self._folder.regular(record.spec.location)
        with (
            io.BytesIO(self._whole(record)) if is_small(record) else self._folder.fs.open(path, "rb") as raw,
            ParquetFile(raw, buffer_bytes=BATCH_BYTES) as file,
        ):
            yield from read_batches(file, n_rows, columns=columns)

    def schema(self, name: str) -> pa.Schema:
        """Return the names and types of the columns of a committed table.

        Examples
        --------
        >>> import distembed as de
        >>> workspace = de.Workspace.open("runs/titles")  # made by the example of de.run_job
        >>> workspace.schema("vocabulary").names
        ['word', 'count', 'document_count']
        """
        with self._folder.fs.open(
            self._folder.regular(self._committed(name, "table").spec.location), "rb"
        ) as file:
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
        record = self._committed(name)
        todo = verify.checks(self._folder, record, decode=False) if is_small(record) else []
        for problem in verify.run_checks(todo):
            if problem.what != verify.MISSING:  # whoever opens a missing file sees that it is
                raise self._damaged(record, problem.file)
        return file_items(self._folder, record)

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
        """Return all problems by file: of outputs, records, and stages that are not committed; an empty list if none.

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
        found = verify.verify(self._folder, progress)
        if not self.writer():
            verify.remember(self._folder, None if found else self.digest())
        return found

    def verified(self) -> tuple[datetime, bool] | None:
        """Return when `verify` last found all content whole, and whether it is still the same.

        Returns
        -------
        (datetime, bool) or None
            The time, and False where stages were committed or replaced since. None where `verify` never found all
            whole, could not write that it did, or has found a fault since.

        Examples
        --------
        >>> import distembed as de
        >>> workspace = de.Workspace.open("runs/titles")  # made by the example of de.run_job
        >>> workspace.verify()
        []
        >>> time, is_current = workspace.verified()
        >>> is_current
        True
        """
        found = verify.remembered(self._folder)
        return None if found is None else (found[0], found[1] == self.digest())

    def _whole(self, record: OutputRecord) -> bytes:
        """Return the bytes of a committed file, compared with its digest where it is small.

        Raises
        ------
        DamagedError
            If it is another.
        """
        data = self._folder.read(record.spec.location)
        if is_small(record):
            known = record.blocks[0].files[record.spec.location]
            if known != FileRecord(len(data), new_digest(data).hexdigest()):
                raise self._damaged(record, record.spec.location)
        return data

    def _damaged(self, record: OutputRecord, file: str) -> DamagedError:
        return DamagedError(
            f"{self._folder.path(file)} is not the file that stage {record.spec.stage!r} wrote: 'distembed run' writes "
            "it again."
        )

    def _committed(self, name: str, reader: str | None = None) -> OutputRecord:
        """Return the record of an output, which is of the kind that the named method reads."""
        record = self.describe(name)
        own = READERS[record.spec.kind]
        if reader not in (None, own):
            raise ValueError(f"{name!r} in {self.url} is not read by {reader}: call {own}({name!r})")
        if record.dropped:
            raise FileNotFoundError(
                f"Temporary output {name!r} was dropped: run stage {record.spec.stage!r} again."
            )
        return record
