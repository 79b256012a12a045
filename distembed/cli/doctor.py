"""The command `distembed doctor`: what an installation has, and whether a small job keeps its promises here."""

from __future__ import annotations

import platform
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, metadata, requires, version
from pathlib import Path
from typing import Any, NamedTuple

from packaging.requirements import Requirement

import distembed
from distembed.cli.command_line import answer_target, command, save_answer
from distembed.cli.failures import fail
from distembed.display import format_seconds
from distembed.job.status import verify_job
from distembed.job.terminal import write
from distembed.job.workers import Workers
from distembed.storage.blocks import kernel
from distembed.views.answers import Answer
from distembed.views.finished_job import run_job
from distembed.views.report.page import ShownTable


@command(
    "distembed doctor",
    "distembed doctor --to doctor.json",
)
@answer_target()
def doctor(*, target: str | None) -> None:
    """Check this installation.

    The command prints the versions and the extras, with the line that installs a missing one, and runs a small job. The
    exit code is 1 if something that jobs need is wrong. The first self check of an installation also compiles, which
    takes up to half a minute.
    """
    tables, wrong = list[ShownTable](), list[Finding]()
    for section, findings in examine():
        rows = [{"what": one.name, "found": one.value, "note": one.note or None} for one in findings]
        tables.append(ShownTable(section, rows))
        wrong += [one for one in findings if one.is_wrong]
        write(tables[-1].text() + "\n")
    save_answer(Answer("doctor", tables=tables), target)
    if wrong:
        fail("; ".join(f"{each.name}: {each.value}; {each.note}" for each in wrong), code=1)
    write("nothing is wrong that jobs need")


class Finding(NamedTuple):
    """A fact about the installation.

    `note` says what is missing and what to type, "" where nothing is; `is_wrong` is true where jobs cannot run.
    """

    name: str
    value: str
    note: str = ""
    is_wrong: bool = False


FOR_CONTRIBUTORS = ("test", "docs", "dev")
"""The extras that no user needs."""


def examine() -> Iterator[tuple[str, list[Finding]]]:
    """Yield the name and the findings of each section, the self check last.

    Where a package that is needed is missing or too old, the sections after the first are left out: they import it.
    """
    requirements = requires("distembed") or []
    program = [
        Finding("distembed", f"{distembed.__version__} in {Path(distembed.__file__).parent}"),
        Finding("python", f"{platform.python_version()}, {sys.executable}"),
        Finding("processor", kernel()),
        *needed_packages(requirements),
    ]
    yield "program", program
    if any(finding.is_wrong for finding in program):
        return
    extras = metadata("distembed").get_all("Provides-Extra") or []
    yield "extras", [_extra(name, requirements) for name in extras if name not in FOR_CONTRIBUTORS]
    yield "self check", [self_check()]


def installed(requirements: Iterable[str], extra: str = "") -> dict[Requirement, str]:
    """Return the version of each package that is required or, with an extra, that it adds; "" where it is missing.

    Parameters
    ----------
    requirements : iterable of str
        As the metadata of a package lists them.
    extra : str, optional
        Extras that it includes are passed over.
    """
    versions: dict[Requirement, str] = {}
    for needed in sorted(map(Requirement, requirements), key=lambda one: one.name.lower()):
        is_required = needed.marker is None or needed.marker.evaluate({"extra": ""})
        is_added = needed.marker is not None and not is_required and needed.marker.evaluate({"extra": extra})
        if is_added and needed.name != "distembed" if extra else is_required:
            versions[needed] = ""
            with suppress(PackageNotFoundError):
                versions[needed] = version(needed.name)
    return versions


def needed_packages(requirements: Iterable[str]) -> Iterator[Finding]:
    """Yield the version of each required package, wrong where it is missing or older than required."""
    for needed, found in installed(requirements).items():
        is_wrong = not (found and needed.specifier.contains(found, prereleases=True))
        advice = f"it is needed: pip install '{needed.name}{needed.specifier}'"
        yield Finding(needed.name, found or "missing", advice if is_wrong else "", is_wrong)


def _extra(name: str, requirements: Iterable[str]) -> Finding:
    found = {needed.name: each for needed, each in installed(requirements, name).items()}
    value = ", ".join(f"{package} {each or 'missing'}" for package, each in found.items())
    return Finding(name, value, "" if all(found.values()) else f"pip install 'distembed[{name}]'")


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
    """Return what is wrong with vectors of the 60 words in 400 lines of a text, "" if nothing is, and their digest."""
    words = [first + second + "o" for first in "bcdfghklmn" for second in "aeiouy"]
    lines = (" ".join(words[(i * i + 3 * j * i + j * j) % 60] for j in range(12)) for i in range(400))
    text = folder / "text.txt"
    text.write_text("\n".join(lines), encoding="utf-8")
    job: dict[str, Any] = {
        "job": {"system": "psdvec", "title": "self check", "workspace": str(folder / "0")},
        "corpus": {"paths": [str(text)], "partition_bytes": "8KiB"},
        "vocabulary": {"min_count": 1},
        "psdvec": {"n_components": 5},
        "resources": {"block_memory": "1MiB"},
    }
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
