"""The versions and the processor that decide the last bits of what a stage computes."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from functools import cache
from importlib.metadata import version
from pathlib import Path

import llvmlite.binding
from distributed import Client
from threadpoolctl import threadpool_info

import distembed
from distembed.storage.blocks import kernel
from distembed.storage.records import new_digest

PACKAGES = ("numpy", "scipy", "numba", "dask", "zarr", "pyarrow", "scikit-learn")


CODE = ("distembed", "python", *PACKAGES)
"""What must be the same in every process of a run."""


def made_with() -> dict[str, str]:
    """Return the versions of the package and its libraries, which each process of a run shares."""
    own = of_this_process()
    return {key: own[key] for key in CODE}


@cache
def of_this_process() -> dict[str, str]:
    """Return the versions, the processor and the BLAS kernels of this process."""
    pools = threadpool_info()
    kernels = {
        f"{pool['internal_api']} {pool['version']} {pool.get('architecture', '')}".strip()
        for pool in pools
        if pool["user_api"] == "blas"
    }
    return {
        "distembed": f"{distembed.__version__} (source {source_digest()})",
        "python": platform.python_version(),
        **{name: version(name) for name in PACKAGES},
        "processor": llvmlite.binding.get_host_cpu_name(),
        "blas": ", ".join(sorted(kernels)),
    }


@cache
def source_digest() -> str:
    """Return the digest of the source of this package: a checkout changes without a new version number."""
    root = Path(distembed.__file__).parent
    digest = new_digest()
    for file in sorted(root.rglob("*.py")):
        digest.update(file.relative_to(root).as_posix().encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()[:12]


def differences(before: Mapping[str, str], now: Mapping[str, str]) -> str:
    """Return in words what differs between two records of versions, "" where nothing does."""
    changed = [key for key in {**before, **now} if before.get(key) != now.get(key)]
    words = (f"{key} {before.get(key, 'unknown')}, now {now.get(key, 'unknown')}" for key in changed)
    return "; ".join(words)


def other_code(worker: Mapping[str, str], own: Mapping[str, str]) -> str:
    """Return in words which versions of the code a worker has that are not `own`, "" where all are the same."""
    other = [key for key in CODE if worker.get(key) != own.get(key)]
    return "; ".join(
        f"{key} {worker.get(key, 'unknown')} where this run has {own.get(key, 'unknown')}" for key in other
    )


def kinds(client: Client | None) -> str:
    """Return a sentence if the workers of a cluster differ in processor or BLAS kernel, "" if they do not."""
    found = [] if client is None else sorted(set(client.run(kernel, on_error="ignore").values()))
    if len(found) < 2:
        return ""
    return (
        f"the workers are of more than one kind ({'; '.join(found)}): the last bits of a block depend on which of "
        "them computes it, so another run may print another digest"
    )
