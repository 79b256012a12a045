"""The facts of a run: time, memory and disk of each stage, its settings, and the next commands to type."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import distembed
from distembed.display import format_bytes, format_seconds, measured, plural
from distembed.job.model import Job
from distembed.job.stage import system_of
from distembed.job.terminal import shown
from distembed.stages.corpus import left_out
from distembed.storage.workspace import Workspace
from distembed.views.report.figures import FigureFormat, bar_chart, figures_saved
from distembed.views.report.page import Section, escaped, folded, group, note, paragraph
from distembed.views.report.tables import first_rows, table

MOST_FILES = 500
"""Files that a report lists: 100,000 would make a page of 21 MB."""


def run_sections(job: Job, workspace: Workspace) -> list[Section]:
    """Return the last sections of a report: time, memory and disk of each stage, the settings, and what was read."""
    done, shown, seconds = workspace.stages(), list[dict[str, Any]](), dict[str, float]()
    for name in (spec.name for spec in system_of(job).stages(job)):
        blocks = [block for record in done[name].outputs.values() for block in record.blocks]
        wall, peak = (measured(done[name].facts, fact) for fact in ("wall_seconds", "peak_process_bytes"))
        seconds |= {} if wall is None else {name: wall}
        size = sum(file.size for block in blocks for file in block.files.values())
        shown.append(
            {"stage": name, "wall time": wall, "peak memory": peak, "on disk": size, "blocks": len(blocks)}
        )
    title = "Time and memory"
    bars = bar_chart(seconds, title, xlabel="wall clock (seconds)", show=format_seconds)
    formats = {"wall time": format_seconds, "peak memory": format_bytes, "on disk": format_bytes}
    total = f"{format_seconds(sum(seconds.values()))} in all." if seconds else ""
    took = group(title, [bars, table(title, shown, caption=total, formats=formats)])
    rows = [
        {"setting": key, "value": value}
        for key, value in _flat(job.model_dump(mode="json", exclude_none=True))
    ]
    title, caption = "Parameters", "As run, with every default filled in."
    settings = table(title, rows, formats={"value": _setting}, caption=caption)
    return [took, Section(title, folded(plural(len(rows), "setting"), settings.html)), _sources(workspace)]


def _sources(workspace: Workspace) -> Section:
    """Show which version made the stages, what they read, and what was left out of it."""
    done, title = workspace.stages().values(), "Version and files"
    versions = dict.fromkeys(
        one.made_with.get("distembed", "a version that was not recorded") for one in done
    )
    files = {
        name: stamp
        for one in done
        for found in one.parameters.get("files", {}).values()
        for name, stamp in found.items()
    }
    rows = []
    for name, stamp in list(files.items())[:MOST_FILES]:
        last = str(stamp[-1]) if stamp else ""  # no digest where a store gives the file a version of its own
        content = last.removeprefix("content ") if last.startswith("content ") else None
        rows.append({"file": name, "size": stamp[0] if stamp else None, "content": content})
    omitted = "; ".join(filter(None, (left_out(one.facts) for one in done)))
    said = f"Made with distembed {', '.join(versions)}.{f' Left out: {omitted}.' if omitted else ''}"
    if not rows:
        return note(title, said)
    read = first_rows(rows, partial(table, title, formats={"size": format_bytes}))
    first = f", the first {MOST_FILES}" if len(files) > MOST_FILES else ""
    return Section(title, f"{paragraph(said)}\n{folded(plural(len(files), 'file') + first, read.html)}")


def write_figures(job: Job, folder: str, form: FigureFormat) -> str:
    """Write every figure of the report of a finished job into a folder, and return in words what was written.

    The metadata of each have the version, the title and the content digest of the job. Equal content gives equal bytes.
    """
    system, workspace = system_of(job), Workspace.open(job.job.workspace)
    digest = workspace.digest(spec.name for spec in system.stages(job))
    origin = f"distembed {distembed.__version__}; {job.job.title}; content digest {digest}"
    Path(folder).mkdir(parents=True, exist_ok=True)
    with figures_saved(folder, form, origin=origin) as files:
        system.page(job, workspace)
    return f"{plural(len(files), 'figure')} in {folder}"


def _flat(job: Mapping[str, Any], prefix: str = "") -> Iterable[tuple[str, Any]]:
    for key, value in job.items():
        if isinstance(value, Mapping) and value:
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value if isinstance(value, str) else _setting(value)


def _setting(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (list, tuple)):
        return ", ".join(map(_setting, value)) or "(empty)"
    return "–" if value is None else str(value)


def ways_on(workspace: Workspace, where: str, *, table: str = "vectors", suffix: str = "txt") -> str:
    """Return where the report is and what to type next; `table` is what the file of an export is called."""
    url = shown(workspace.url)
    return (
        f"report     {shown(where)}\n{table:<10} distembed export {url} --to {table}.{suffix}\n"
        f"neighbors  distembed neighbors {url} WORD ..."
    )


def invitation(workspace: Workspace) -> str:
    """Return, as markup, what to type to have the page to explore."""
    line = f"distembed explore {shown(workspace.url)}"
    return f'<p class="explore note">A map with search and neighbors: <code>{escaped(line)}</code></p>'
