"""A workspace: a folder or URL with everything that a job has computed, written by one process and checksummed."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from types import TracebackType

from distembed.files import PARTIAL
from distembed.storage import lock, verify
from distembed.storage import manifest as records
from distembed.storage.files import Folder
from distembed.storage.reader import WorkspaceReader
from distembed.storage.schema import (
    FORMAT,
    LOCK_FILE,
    RESERVED,
    VERSION,
    WORKSPACE_FILE,
    ManifestError,
    NewerFormatError,
    Output,
    Problem,
    seal,
)
from distembed.storage.stage import Stage


class Workspace(WorkspaceReader):
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
    ['cooccurrence', 'core', 'distances', 'evaluation', 'partial_counts', 'pmi', 'tokens', 'vectors', 'vocabulary']
    >>> workspace.array("vectors").shape
    (16, 3)
    >>> workspace.table("vocabulary").column_names
    ['word', 'count', 'document_count']
    >>> workspace.verify()
    []
    """

    def __init__(self, folder: Folder, held: lock.Lock | None = None) -> None:
        check = partial(lock.refuse_to_write, folder.url) if held is None else held
        super().__init__(replace(folder, check=check))
        self._lock = held
        self._announced: dict[str, Output] = {}

    @classmethod
    def open(cls, url: str | os.PathLike[str]) -> Workspace:
        """Open a workspace for reading.

        Parameters
        ----------
        url : str or path
            A folder or fsspec URL.

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
        folder = Folder.at(url)
        if not _is_workspace(folder):
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
        folder = Folder.at(url)
        if folder.is_local and folder.fs.isfile(folder.root):
            raise NotADirectoryError(f"{folder.url} is a file: a workspace needs a folder of its own.")
        if folder.exists("") and not _is_workspace(folder):
            own = (WORKSPACE_FILE, LOCK_FILE, "job.toml")
            names = sorted({entry.rsplit("/", 1)[-1] for entry in folder.fs.ls(folder.root, detail=False)})
            others = [n for n in names if not (n in own or n.endswith(PARTIAL) or lock.is_beat_file(n))]
            if others:
                raise FileExistsError(
                    f"{folder.url} is no workspace and holds other things ({others[0]}): choose a new folder."
                )
        try:
            folder.fs.makedirs(folder.root, exist_ok=True)
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
        """Return whether there is a workspace at a folder or URL.

        Parameters
        ----------
        url : str or path
            A folder or fsspec URL.

        Returns
        -------
        bool

        Examples
        --------
        >>> import distembed as de
        >>> de.Workspace.exists("runs/titles"), de.Workspace.exists("runs/elsewhere")
        (True, False)
        """
        folder = Folder.at(url)
        return folder.exists(WORKSPACE_FILE) or (folder.is_local and records.has_any(folder))

    def __repr__(self) -> str:
        return f"Workspace({self.url!r}, open for {'reading' if self._lock is None else 'writing'})"

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

    @property
    def check_lock(self) -> Callable[[], None]:
        """Return a function that raises `LockedError` in a process that does not see this run's lock.

        It can be pickled.

        Examples
        --------
        >>> import distembed as de
        >>> with de.Workspace.create("runs/mine", owner="example") as workspace:
        ...     workspace.check_lock()
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
        return Stage(
            self._folder,
            name,
            parameters=parameters,
            inputs=inputs,
            made_with=made_with or {},
            announced=self._announced,
        )

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
        if name.split("/", maxsplit=1)[0] in RESERVED:
            raise ValueError(f"{name!r} would lie among the workspace's own files: give it another name.")
        self._folder.write(name, data, durable=True)

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
        self._folder.remove(name)

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
        target.sync(names)

    def mend(self) -> list[Problem]:
        """Write damaged records again, remove files that no record accounts for, and return what was found.

        The records of a committed stage are written from its manifest. Blocks are not read: `Stage.damaged_blocks`
        finds those that are damaged, and `Stage.reopen` lets them be computed again.

        Examples
        --------
        >>> import distembed as de
        >>> from pathlib import Path
        >>> with de.Workspace.create("runs/mine", owner="example") as workspace:
        ...     stage = workspace.stage("note", parameters={}, inputs={})
        ...     stage.store_bytes("note.txt", b"Nine titles.")
        ...     _ = stage.commit()
        ...     Path("runs/mine/manifest/note/note.txt/blocks/000000.json").unlink()
        ...     for problem in workspace.mend():
        ...         print(problem.file, problem.what)
        ...     print(workspace.verify())
        manifest/note/note.txt/blocks/000000.json missing
        []
        """
        return verify.mend(self._folder)

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
        self._folder.check()
        manifest = records.tolerant(records.read_manifest, self._folder, stage)
        if manifest is None:
            raise KeyError(f"{self.url} has no committed stage {stage!r}.")
        outputs = {
            name: replace(record, dropped=record.dropped or record.spec.temporary)
            for name, record in manifest.outputs.items()
        }
        if outputs == manifest.outputs:
            return
        records.write_manifest(self._folder, replace(manifest, outputs=outputs))
        for record in outputs.values():
            if record.dropped:
                records.remove_data(self._folder, record.spec)

    def _prepare(self) -> None:
        """Write the format file and complete what an interrupted run left unfinished."""
        assert self._lock is not None
        if records.tolerant(records.read_sealed, self._folder, WORKSPACE_FILE) is None:
            self._folder.write(WORKSPACE_FILE, seal({"format": FORMAT, "version": VERSION}), durable=True)
        for name in self._folder.find():
            if name.endswith(PARTIAL) or (lock.is_beat_file(name) and not self._lock.is_own_file(name)):
                self._folder.remove(name)
        for manifest in self.stages().values():
            for record in manifest.outputs.values():
                if record.dropped:
                    records.remove_data(self._folder, record.spec)
        for stage in records.outdated(self._folder):
            records.remove_stage(self._folder, stage)


def _is_workspace(folder: Folder) -> bool:
    """Return whether there is a workspace that this version can read.

    Where its first file was deleted, or emptied by a power cut, the records of its stages tell.
    """
    try:
        body = records.read_sealed(folder, WORKSPACE_FILE)
    except NewerFormatError:
        raise
    except ManifestError:
        if records.has_any(folder):
            return True
        if folder.read(WORKSPACE_FILE).strip(b"\0"):
            raise
        return False
    if body is None:
        return records.has_any(folder)
    if body.get("format") != FORMAT or not isinstance(body.get("version"), int):
        raise ManifestError(
            f"{folder.path(WORKSPACE_FILE)} is that of another program: choose another folder."
        )
    return True
