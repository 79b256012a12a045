"""The storage of a workspace: schema, workspace, sparse blocks, manifests.

`Workspace` opens or creates a workspace; `Stage` writes one stage of it block by block and commits it.
"""

from distembed.storage.file_items import FileItem
from distembed.storage.schema import (
    BlockRecord,
    DamagedError,
    LockedError,
    ManifestError,
    Output,
    OutputRecord,
    OutsideError,
    Problem,
    StageManifest,
)
from distembed.storage.stage import Stage
from distembed.storage.workspace import Workspace

__all__ = [
    "BlockRecord",
    "DamagedError",
    "FileItem",
    "LockedError",
    "ManifestError",
    "Output",
    "OutputRecord",
    "OutsideError",
    "Problem",
    "Stage",
    "StageManifest",
    "Workspace",
]
