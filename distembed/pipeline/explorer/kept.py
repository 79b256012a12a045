"""Where a workspace keeps its page to explore, and whether the page is that of what the workspace holds."""

from __future__ import annotations

from distembed.storage.schema import ManifestError, new_digest, seal, unseal
from distembed.storage.workspace import Workspace

NAME = "explore.html"
"""The page, beside the report that links to it."""

PAGE = f"report/{NAME}"
SEAL = "report/explore.json"
"""What the page was made from and its digest, written after it: a page without it is not linked."""


def keep(workspace: Workspace, page: str) -> str:
    """Write the page into the workspace, and return its place."""
    data = page.encode()
    workspace.write_file(PAGE, data)
    workspace.write_file(
        SEAL, seal({"made_from": workspace.digest(), "content": new_digest(data).hexdigest()})
    )
    return workspace.path(PAGE)


def is_kept(workspace: Workspace) -> bool:
    """Return whether the workspace has a whole page that was made from what it holds now."""
    made, page = workspace.read_file(SEAL), workspace.read_file(PAGE)
    if made is None or page is None:
        return False
    try:
        known = unseal(made, SEAL)
    except ManifestError:
        return False
    return known == {"made_from": workspace.digest(), "content": new_digest(page).hexdigest()}
