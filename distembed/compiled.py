"""Where numba keeps the compiled kernels: beside the modules, in the user's cache, or else in a temporary folder.

numba refuses to compile where it can write neither of the first two, as in a container that runs as any user with a
read-only file system, or for a user without a home in an installation of somebody else.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

VARIABLE = "NUMBA_CACHE_DIR"
"""The variable that numba reads, and that worker processes inherit."""


def find_place(package: Path) -> None:
    """Let numba keep its kernels in a temporary folder where it can write neither a package nor the user's cache.

    Parameters
    ----------
    package : Path
        The folder of the package.
    """
    if os.environ.get(VARIABLE) or os.access(package, os.W_OK) or _can_make(user_cache() / "numba"):
        return
    os.environ[VARIABLE] = _temporary()
    if "numba" in sys.modules:  # it has read the variable already
        sys.modules["numba"].config.CACHE_DIR = os.environ[VARIABLE]


def user_cache() -> Path:
    """Return the folder of the caches of the user, such as that of what numba compiles."""
    home = os.path.expanduser("~")  # noqa: PTH111 - Path.home raises where there is none
    if sys.platform == "darwin":
        return Path(home, "Library", "Caches")
    return Path(os.environ.get("XDG_CACHE_HOME") or Path(home, ".cache"))


def _can_make(folder: Path) -> bool:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return False
    return os.access(folder, os.W_OK | os.X_OK)


def _temporary() -> str:
    """Return a temporary folder that nobody else can write: what lies in it is run."""
    user = os.getuid()
    folder = Path(tempfile.gettempdir(), f"distembed-numba-{user}")
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        found = folder.lstat()
        is_own = not folder.is_symlink() and found.st_uid == user and not found.st_mode & 0o022
    except OSError:
        is_own = False
    return str(folder) if is_own else tempfile.mkdtemp(prefix="distembed-numba-")
