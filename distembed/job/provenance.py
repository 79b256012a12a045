"""The versions of the code that computes a stage, of which each process of a run must have the same."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from functools import cache
from importlib.metadata import version
from pathlib import Path

from distributed import Client

import distembed
from distembed.storage.blocks import kernel
from distembed.storage.records import new_digest

PACKAGES = ("numpy", "scipy", "numba", "dask", "zarr", "pyarrow", "scikit-learn")


@cache
def made_with() -> dict[str, str]:
    """Return the versions of the package, of Python and of the libraries of this process."""
    return {
        "distembed": f"{distembed.__version__} (source {source_digest()})",
        "python": platform.python_version(),
        **{name: version(name) for name in PACKAGES},
    }


@cache
def source_digest() -> str:
    """Return the digest of the source of this package: a checkout changes without a new version number."""
    root = Path(distembed.__file__).parent
    digest = new_digest()
    for file in sorted(root.rglob("*.py")):
        digest.update(file.relative_to(root).as_posix().encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()[:12]


def differences(found: Mapping[str, str], own: Mapping[str, str], between: str = ", now ") -> str:
    """Return in words what differs between two records of versions, "" where nothing does."""
    changed = [key for key in {**found, **own} if found.get(key) != own.get(key)]
    words = (f"{key} {found.get(key, 'unknown')}{between}{own.get(key, 'unknown')}" for key in changed)
    return "; ".join(words)


def kinds(client: Client | None) -> str:
    """Return a sentence if the workers of a cluster differ in processor or BLAS kernel, "" if they do not."""
    found = [] if client is None else sorted(set(client.run(kernel, on_error="ignore").values()))
    if len(found) < 2:
        return ""
    return (
        f"the workers are of more than one kind ({'; '.join(found)}): the last bits of a block depend on which of "
        "them computes it, so another run may print another digest"
    )
