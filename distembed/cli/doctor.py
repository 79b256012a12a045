"""What this installation and this machine have, what they lack, and whether a small job keeps its promises here.

Each section is a list of findings. A finding is a fact with, where something is missing, what that costs and what
to type; it is `wrong` where jobs cannot run without it.
"""

from __future__ import annotations

import os
import platform
import shutil
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import Any, NamedTuple

import psutil
from dask.system import CPU_COUNT
from packaging.requirements import Requirement

import distembed
from distembed.display import format_bytes, format_seconds
from distembed.job.provenance import of_this_process
from distembed.job.status import verify_job
from distembed.job.workers import Workers, memory_of_machine
from distembed.views.finished_job import run_job

ROOM = 2**30
"""Fewer free bytes on a disk than this are pointed out: no job beyond a demo fits."""

MEMORY = 2**31
"""Less memory than this is pointed out: it is the default of `resources.memory_limit`."""


class Finding(NamedTuple):
    """A fact about the installation or the machine.

    `note` says what is missing and what to do, "" where nothing is; `is_wrong` is true where jobs cannot run.
    """

    name: str
    value: str
    note: str = ""
    is_wrong: bool = False


EXTRAS: Mapping[str, tuple[tuple[str, ...], str]] = {
    "demo": (("gensim", "bokeh", "openTSNE"), "most demos lack their data"),
    "explore": (
        ("bokeh", "openTSNE"),
        "distembed explore, the maps of a report and t-SNE figures are not drawn",
    ),
    "icu": (("icu4py",), 'corpus.pattern = "icu" cuts no Chinese, Japanese, Thai or Khmer'),
    "excel": (("openpyxl",), "workbooks (.xlsx) are neither read nor written"),
    "neighbors": (("pynndescent",), "neighbors are exact, never approximate"),
    "lda": (("gensim",), "online LDA is missing among the topic models"),
    "anndata": (("h5py",), "AnnData files (.h5ad) cannot be read"),
    "cluster": (
        ("dask-jobqueue", "dask-kubernetes"),
        "Python programs cannot start Dask clusters on Slurm or Kubernetes; --scheduler reaches any that runs",
    ),
    "cloud": (("s3fs", "gcsfs"), "paths that begin with s3:// (s3fs) or gs:// (gcsfs) cannot be reached"),
}
"""The packages of each extra that a user may want (no contributor's, as `test`), and what cannot be done without."""


def examine() -> Iterator[tuple[str, list[Finding]]]:
    """Yield the name and the findings of each section, the self check last.

    Where a package that is needed is missing or too old, the sections after the first are left out: they import it.
    """
    program = [
        Finding("distembed", f"{distembed.__version__} in {Path(distembed.__file__).parent}"),
        Finding("python", f"{platform.python_version()}, {sys.executable}"),
        *needed_packages(requires("distembed") or ()),
    ]
    yield "program", program
    if any(finding.is_wrong for finding in program):
        return
    yield "machine", list(_machine())
    yield "places", list(_places())
    yield "extras", list(_extras())
    yield "self check", [self_check()]


def needed_packages(requirements: Iterable[str]) -> Iterator[Finding]:
    """Yield the version of each required package, wrong where it is missing or older than required.

    Parameters
    ----------
    requirements : iterable of str
        As the metadata of a package lists them; those of extras are passed over.
    """
    for needed in sorted(map(Requirement, requirements), key=lambda one: one.name.lower()):
        if needed.marker and not needed.marker.evaluate({"extra": ""}):
            continue
        found = _version(needed.name)
        if found and needed.specifier.contains(found, prereleases=True):
            yield Finding(needed.name, found)
        else:
            advice = f"it is needed: pip install '{needed.name}{needed.specifier}'"
            yield Finding(needed.name, found or "missing", advice, is_wrong=True)


def _version(package: str) -> str:
    """Return the version of an installed package, "" where it is not installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def _machine() -> Iterator[Finding]:
    made, memory, usable = of_this_process(), psutil.virtual_memory(), memory_of_machine()
    cores = os.cpu_count() or 1
    share = "" if cores == CPU_COUNT else f", of which this process may use {CPU_COUNT}"
    limit = "" if usable == memory.total else f", limited to {format_bytes(usable)} by the container"
    available = format_bytes(min(memory.available, usable))
    yield Finding("processor", made["processor"])
    yield Finding("BLAS", made["blas"])
    yield Finding("cores", f"{cores}{share}")
    yield Finding(
        "memory",
        f"{format_bytes(memory.total)}{limit}, {available} available",
        "" if usable >= MEMORY else "lower resources.memory_limit and resources.block_memory of your jobs",
    )


def _places() -> Iterator[Finding]:
    yield _place("current folder", Path.cwd(), "give --workspace a place with room", is_needed=False)
    try:
        folder = Path(tempfile.gettempdir())
    except FileNotFoundError:
        yield Finding("temporary folder", "none", "set TMPDIR to a folder that you may write", is_wrong=True)
    else:
        yield _place("temporary folder", folder, "set TMPDIR to a folder with room", is_needed=True)


def _place(name: str, folder: Path, advice: str, *, is_needed: bool) -> Finding:
    """Return the free bytes of a folder, with advice where it cannot be written or is almost full."""
    writable, free = os.access(folder, os.W_OK), shutil.disk_usage(folder).free
    value = f"{folder}, {format_bytes(free)} free{'' if writable else ', not writable'}"
    good = writable and free >= ROOM
    return Finding(name, value, "" if good else advice, is_wrong=is_needed and not writable)


def _extras() -> Iterator[Finding]:
    for name, (packages, lack) in EXTRAS.items():
        versions = {package: _version(package) for package in packages}
        value = ", ".join(f"{package} {found or 'missing'}" for package, found in versions.items())
        note = "" if all(versions.values()) else f"{lack}: pip install 'distembed[{name}]'"
        yield Finding(name, value, note)


def self_check() -> Finding:
    """Run a small job in a temporary folder by one worker and by two, and look for a damaged byte.

    Returns
    -------
    Finding
        Wrong where the job fails, the two digests differ, or the damage is not found.
    """
    began = time.monotonic()
    try:
        with tempfile.TemporaryDirectory(prefix="distembed-doctor-") as folder:
            wrong, digest = _promises_kept(Path(folder))
    except Exception as error:  # noqa: BLE001 - whatever goes wrong here is what a job would meet
        name = type(error).__name__
        return Finding("a small job", f"failed: {name}: {error}", "no job can run before this", is_wrong=True)
    if wrong:
        return Finding("a small job", wrong, "do not trust what this machine computes", is_wrong=True)
    took = format_seconds(time.monotonic() - began)
    what = "the same bytes by one worker and by two, a damaged byte found"
    return Finding("a small job", f"{what}, in {took}; digest {digest}")


def _promises_kept(folder: Path) -> tuple[str, str]:
    """Return what is wrong with a small job, "" if nothing is, and its digest."""
    job = _small_job(folder)
    runs = [run_job(job, workspace=folder / f"{n}", workers=Workers(n_workers=n)).job for n in (1, 2)]
    (faults, one), (more, two) = map(verify_job, runs)
    if faults or more:
        return f"its files are damaged: {(faults + more)[0]}", ""
    if one != two:
        return f"one worker and two made different bytes, {one} and {two}", ""
    # The last byte of the largest file is changed.
    files = (path for path in (folder / "2" / "arrays.zarr" / "vectors").rglob("*") if path.is_file())
    file = max(files, key=lambda path: path.stat().st_size)
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)
    return ("" if verify_job(runs[1])[0] else "a damaged byte was not found"), one


def _small_job(folder: Path) -> dict[str, Any]:
    """Write a text of 60 words in 400 lines, and return a job that makes vectors of its words."""
    words = [first + second + "o" for first in "bcdfghklmn" for second in "aeiouy"]
    lines = (" ".join(words[(i * i + 3 * j * i + j * j) % 60] for j in range(12)) for i in range(400))
    text = folder / "text.txt"
    text.write_text("\n".join(lines), encoding="utf-8")
    return {
        "job": {"system": "psdvec", "title": "self check", "workspace": str(folder / "0")},
        "corpus": {"paths": [str(text)], "partition_bytes": "8KiB"},
        "vocabulary": {"min_count": 1},
        "psdvec": {"n_components": 5},
        "resources": {"block_memory": "1MiB"},
    }
