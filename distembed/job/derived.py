"""The pages that are drawn from what a workspace holds: its report, and the page to explore.

They lie in one folder of the workspace, and a seal beside each says of which content it was made. A page without a
seal that fits is stale: a run removes it and `verify` names it. Other files are written outside of workspaces. So what
was taken out of the corpus is nowhere in a workspace when its job has been run again.
"""

from __future__ import annotations

import json
from pathlib import Path, PurePosixPath

from distembed.files import RefusedError
from distembed.storage.records import WORKSPACE_FILE, ManifestError, canonical_json, new_digest, seal, unseal
from distembed.storage.workspace import Workspace

SEAL_BYTES = 1 << 12
"""A seal, four digests by their names, has no more bytes."""
FOLDER = "report"
REPORT, EXPLORER = f"{FOLDER}/index.html", f"{FOLDER}/explore.html"


def keep(workspace: Workspace, name: str, page: bytes, *, shown: str = "") -> str:
    """Write a page and then its seal, and return its place; `shown` is a digest of what else it was made from."""
    workspace.write_file(name, page)
    body = {"made_from": workspace.digest(), "content": new_digest(page).hexdigest(), "shown": shown}
    workspace.write_file(_seal_file(name), seal(canonical_json(body)))
    return workspace.path(name)


def is_kept(workspace: Workspace, name: str, *, shown: str | None = None) -> bool:
    """Return whether a page is there, whole, and of what the workspace holds, and of `shown` where that is given."""
    page, seal_text = _read(workspace, name), _read(workspace, _seal_file(name), most=SEAL_BYTES)
    if page is None or seal_text is None:
        return False
    try:
        known = json.loads(unseal(seal_text, _seal_file(name)))
    except ManifestError:
        return False
    is_whole = known.get("content") == new_digest(page).hexdigest()
    return is_whole and known.get("made_from") == workspace.digest() and shown in (None, known.get("shown"))


def stale(workspace: Workspace) -> list[str]:
    """Return the pages, and their seals, that were not made from what the workspace holds now, or are gone.

    Other files in their folder are the user's.
    """
    there = {f"{FOLDER}/{name.split('/')[1]}" for name in workspace.files_below(FOLDER)}
    pairs = [(name, _seal_file(name)) for name in (REPORT, EXPLORER) if not is_kept(workspace, name)]
    return [name for pair in pairs if there & set(pair) for name in pair]


def remove_stale(workspace: Workspace) -> list[str]:
    """Remove the stale files in the folder of pages, and return their names."""
    found = stale(workspace)
    for name in found:
        workspace.remove_file(name)
    return found


def check_outside(target: str) -> None:
    """Refuse to write a file, or a folder, into a workspace: no run would know what it was made from.

    Raises
    ------
    ValueError
        If it is a workspace, or a folder above it is one; the message names it.
    """
    place = Path(target).absolute()
    for folder in [] if "://" in target else (place, *place.parents):
        if (folder / WORKSPACE_FILE).is_file():
            raise ValueError(
                f"{target} lies in the workspace {folder}, which holds only what its job makes: name a place "
                "outside of it"
            )


def _read(workspace: Workspace, name: str, *, most: int | None = None) -> bytes | None:
    """Return the bytes of a file; None of one that is absent, unreadable, too long, or no file."""
    try:
        return workspace.read_file(name, most=most)
    except (ConnectionError, RefusedError):
        raise
    except OSError:
        return None


def _seal_file(name: str) -> str:
    return str(PurePosixPath(name).with_suffix(".json"))
