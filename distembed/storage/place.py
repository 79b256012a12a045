"""What lies in a folder where a workspace is looked for: a workspace, other things, or nothing."""

from __future__ import annotations

import json
import os
from pathlib import Path

from distembed.files import PARTIAL, RefusedError
from distembed.storage import lock
from distembed.storage.catalog import has_records
from distembed.storage.folder import Folder
from distembed.storage.records import (
    ARRAYS,
    COPIES,
    FORMAT,
    JOURNAL,
    MANIFEST,
    RESERVED,
    WORKSPACE_FILE,
    Header,
    ManifestError,
    NewerFormatError,
    OutsideError,
    loaded,
)


def is_workspace(folder: Folder) -> bool:
    """Return whether there is a workspace that this version can read.

    Where its first file was deleted, or emptied by a power cut, the records of its stages tell.
    """
    if folder.is_local:
        links = [
            name for name in (MANIFEST, COPIES, JOURNAL, ARRAYS) if Path(folder.inside(name)).is_symlink()
        ]
        if links:
            raise OutsideError(
                f"{folder.path(links[0])} is a symbolic link: a workspace holds its files itself; copy it as a whole."
            )
    try:
        found = loaded(folder.read_record(WORKSPACE_FILE), Header, folder.path(WORKSPACE_FILE))
    except (NewerFormatError, ConnectionError, RefusedError):
        raise
    except FileNotFoundError:
        return has_records(folder)
    except (ManifestError, OSError) as error:
        return has_records(folder) or _has_emptied_header(folder, error)
    if found.format != FORMAT:
        raise ManifestError(
            f"{folder.path(WORKSPACE_FILE)} is that of another program: choose another folder."
        )
    return True


def check_place(url: str | os.PathLike[str]) -> Folder:
    """Return the folder of a workspace that there may be, or be made.

    Raises
    ------
    NotADirectoryError, FileExistsError
        If it is a file, or holds something that is no workspace.
    """
    folder = Folder.at(url)
    if folder.is_local and folder.fs.isfile(folder.root):
        raise NotADirectoryError(f"{folder.url} is a file: a workspace needs a folder of its own.")
    if folder.exists(""):
        refuse_other_things(folder)
    return folder


def _has_emptied_header(folder: Folder, error: ManifestError | OSError) -> bool:
    """Return False of a folder whose first file is empty or of zeros, as after a power cut; raise of any other file.

    Raises
    ------
    ManifestError
        If the file is damaged, or that of another version of distembed.
    """
    if isinstance(error, OSError):
        raise error
    data = folder.read(WORKSPACE_FILE)
    try:
        is_of_another_version = json.loads(data)["format"] == FORMAT
    except (ValueError, LookupError, TypeError, RecursionError):
        is_of_another_version = False
    if is_of_another_version:
        raise ManifestError(
            f"{folder.url} was made by another version of distembed, whose files lie otherwise: choose another "
            "folder, or remove this one and run the job again."
        ) from error
    if data.strip(b"\0"):
        raise error
    return False


def refuse_other_things(folder: Folder) -> None:
    """Refuse to write where a folder holds other things than a workspace; a planted first file vouches for none."""
    if is_workspace(folder) and (folder.find(MANIFEST) or folder.find(JOURNAL)):
        return
    own = (*RESERVED, "job.toml", "inputs.json", "scratch")
    names = sorted(
        {entry.rstrip("/").rsplit("/", 1)[-1] for entry in folder.fs.ls(folder.root, detail=False)}
    )
    others = [n for n in names if not (n in own or n.endswith(PARTIAL) or lock.is_beat_file(n))]
    if others:
        raise FileExistsError(
            f"{folder.url} is no workspace and holds other things ({others[0]}): choose a new folder."
        )
