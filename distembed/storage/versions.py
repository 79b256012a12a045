"""The next content of a workspace, made in a folder inside it, and the moment at which it takes the place of the last.

A run that counts another corpus writes a whole workspace into the folder `NEXT`. Whoever opens the workspace meanwhile
reads what was committed last. When the next content is complete, one atomic write of the workspace's first file says
so: from then on every reader is sent to the folder. Its files then get the names of the old ones, by hard links where
the file system has them, and a second write of the first file sends the readers back. A run that was killed between the
two writes is finished by the next one that takes the lock.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from distembed.storage import lock
from distembed.storage import manifest as records
from distembed.storage.files import Folder
from distembed.storage.schema import (
    FORMAT,
    LOCK_FILE,
    MANIFEST,
    NEXT,
    VERSION,
    WITHDRAWN_FILE,
    WORKSPACE_FILE,
    seal,
)

KEPT_ALONE = (WORKSPACE_FILE, LOCK_FILE, WITHDRAWN_FILE, NEXT)
"""What stays of a workspace whose next content is to be the only one."""


def beside(folder: Folder) -> Folder:
    """Return the folder of the next content of a workspace."""
    return replace(folder, url=f"{folder.url}/{NEXT}")


def current(folder: Folder) -> Folder:
    """Return the folder that holds what was committed last: that of the workspace, or that of its next content."""
    return beside(folder) if _points_to_next(folder) else folder


def write_first_file(folder: Folder, **more: Any) -> None:
    """Write the file that says what the folder is."""
    folder.write(WORKSPACE_FILE, seal({"format": FORMAT, "version": VERSION, **more}), durable=True)


def take_place(folder: Folder, *, alone: bool) -> None:
    """Put the next content of a workspace in the place of the last, at once for all who read it from now on.

    Parameters
    ----------
    folder : Folder
        The workspace.
    alone : bool
        Whether nothing but the next content stays: no page, no file that was put there by hand.
    """
    following = beside(folder)
    following.sync(following.find())
    write_first_file(folder, content=NEXT, alone=alone)
    finish(folder)


def finish(folder: Folder) -> None:
    """Finish what `take_place` began, if it was interrupted after the next content became the valid one."""
    if not _points_to_next(folder):
        return
    following = beside(folder)
    if _first_file(folder).get("alone"):
        _remove_others(folder)
    else:
        files = folder.find(MANIFEST)
        for stage in {*records.committed_names(files), *records.begun_names(files)}:
            records.remove_stage(folder, stage)
    names = sorted(set(following.find()) - {WORKSPACE_FILE})
    for name in names:
        folder.take(following.path(name), name)
    folder.sync(names)
    write_first_file(folder)
    folder.remove(NEXT)


def _remove_others(folder: Folder) -> None:
    for entry in folder.fs.ls(folder.root, detail=False):
        name = entry.rstrip("/").rsplit("/", 1)[-1]
        if name not in KEPT_ALONE and not lock.is_beat_file(name):
            folder.remove(name)


def _points_to_next(folder: Folder) -> bool:
    return _first_file(folder).get("content") == NEXT


def _first_file(folder: Folder) -> dict[str, Any]:
    return records.tolerant(records.read_sealed, folder, WORKSPACE_FILE) or {}
