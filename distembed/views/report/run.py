"""What every report has around the sections of its system: the facts of the run, figures as files, and last lines."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import tomli_w

import distembed
from distembed.display import format_bytes, format_seconds, measured, plural
from distembed.job.model import Job
from distembed.job.stage import REPORT, system_of
from distembed.job.terminal import shown
from distembed.stages.corpus import left_out, omissions
from distembed.stages.words import lacking_facts
from distembed.storage.workspace import Workspace
from distembed.views.report.figures import Figure, FigureFormat
from distembed.views.report.page import Fold, Note, Page, Part, Section, ShownTable, short
from distembed.views.report.sections import PAPER_TITLE

MOST_FILES = 500
"""Files that a report lists: 100,000 would make a page of 21 MB."""


def page_of(
    job: Job,
    workspace: Workspace,
    summary: str,
    facts: Mapping[str, Any],
    sections: Iterable[Part],
    *,
    details: Iterable[Part] = (),
    closing: Iterable[str | ShownTable],
    ways: Mapping[str, str],
    explorer: bool = True,
) -> Page:
    """Return the report of a job: what its system shows, and what every report says of its run.

    Parameters
    ----------
    job, workspace
    summary
        Sentences; the digest of the content is added.
    facts
        Key figures; what was left out, and words of `report.words` without a vector are added.
    sections
        Those of the system.
    details
        What tells how well the computation went, beside its time, memory, settings and files.
    closing
        Paragraphs and tables of the last lines of a run; empty ones are left out, and rows of a paper are added.
    ways
        What to type next, by the name of what it gives; braces stand for the workspace.
    explorer
        Whether there is a page to explore.
    """
    done = workspace.stages()
    omitted = omissions(done["tokens"].facts) if "tokens" in done else {}
    lacking = lacking_facts(job, workspace) if hasattr(job.report, "words") else {}
    said = [one if isinstance(one, str) else one.text() for one in closing]
    sections = list(sections)
    said += [one.text() for one in sections if isinstance(one, ShownTable) and one.title == PAPER_TITLE]
    said += [f"{what}: {shown(words)}" for what, words in lacking.items()]
    commands = [f"{name:<10} distembed {command.format('{workspace}')}" for name, command in ways.items()]
    said.append("\n".join([f"report     {{workspace}}/{REPORT.name}", *commands]))
    return Page(
        job.job.title,
        f"{summary} Content digest {_digest(job, workspace)}.",
        [*sections, Section("How it was made", [*details, *_made(job, workspace)])],
        {**facts, **omitted, **lacking},
        f"distembed explore {shlex.quote(shown(workspace.url))}" if explorer else "",
        "\n\n".join(filter(None, said)),
    )


def _digest(job: Job, workspace: Workspace) -> str:
    return workspace.digest(spec.name for spec in system_of(job).stages(job))


def _made(job: Job, workspace: Workspace) -> Iterator[Part]:
    """Yield the time, memory and disk of each stage, the version, the files that were read, and all settings."""
    done, rows = workspace.stages(), list[dict[str, Any]]()
    for name in (spec.name for spec in system_of(job).stages(job)):
        blocks = [block for record in done[name].outputs.values() for block in record.blocks]
        wall, peak = (measured(done[name].facts, fact) for fact in ("wall_seconds", "peak_process_bytes"))
        size = sum(file.size for block in blocks for file in block.files.values())
        rows.append(
            {"stage": name, "wall time": wall, "peak memory": peak, "on disk": size, "blocks": len(blocks)}
        )
    formats = {"wall time": format_seconds, "peak memory": format_bytes, "on disk": format_bytes}
    total = f"{format_seconds(sum(row['wall time'] or 0 for row in rows))} in all."
    yield ShownTable("Time and memory", rows, formats, total)
    versions = dict.fromkeys(
        one.made_with.get("distembed", "a version that was not recorded") for one in done.values()
    )
    omitted = "; ".join(filter(None, (left_out(one.facts) for one in done.values())))
    said = f"Made with distembed {', '.join(versions)}.{f' Left out: {omitted}.' if omitted else ''}"
    yield Note("Version and files", said)
    files = {
        name: stamp
        for one in done.values()
        for found in one.parameters.get("files", {}).values()
        for name, stamp in found.items()
    }
    rows = []
    for name, stamp in list(files.items())[:MOST_FILES]:
        last = str(stamp[-1]) if stamp else ""  # no digest where a store gives the file a version of its own
        content = last.removeprefix("content ") if last.startswith("content ") else None
        rows.append({"file": name, "size": stamp[0] if stamp else None, "content": content})
    if rows:
        first = f", the first {MOST_FILES}" if len(files) > MOST_FILES else ""
        table = ShownTable("", rows, {"size": format_bytes}, n_shown=10)
        yield Fold(plural(len(files), "file") + first, table)
    text = tomli_w.dumps(job.model_dump(mode="json", exclude_none=True))
    yield Fold("All settings, with defaults", Note("", text, is_empty=False))


def write_figures(job: Job, folder: str, form: FigureFormat) -> str:
    """Write every figure of the report of a finished job into a folder, and return in words what was written.

    The metadata of each have the version, the title and the content digest of the job. Equal content gives equal bytes.
    """
    workspace = Workspace.open(job.job.workspace)
    origin = f"distembed {distembed.__version__}; {job.job.title}; content digest {_digest(job, workspace)}"
    if "://" not in folder:
        Path(folder).mkdir(parents=True, exist_ok=True)
    found = list(_figures(system_of(job).page(job, workspace).sections))
    for number, (title, figure) in enumerate(found, 1):
        name = "-".join("".join(c if c.isalnum() else " " for c in short(title.lower(), 60)).split())
        figure.save(f"{folder}/{number:02d}-{name}.{form}", origin=origin)
    return f"{plural(len(found), 'figure')} in {folder}"


def _figures(parts: Iterable[Part], title: str = "") -> Iterator[tuple[str, Figure]]:
    """Yield the figures among some parts with their titles."""
    for part in parts:
        if isinstance(part, Figure):
            yield part.title or title, part
        elif isinstance(part, Section):
            yield from _figures(part.parts, part.title or title)
