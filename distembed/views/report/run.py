"""The facts of a run: time, memory and disk of each stage, its settings, and the next commands to type."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import distembed
from distembed.display import format_bytes, format_seconds, measured, plural
from distembed.job.model import Job
from distembed.job.stage import StageSpec, system_of
from distembed.job.terminal import shown
from distembed.stages.corpus import left_out
from distembed.storage.workspace import Workspace
from distembed.views.report.figures import FigureFormat, bar_chart, figures_saved
from distembed.views.report.page import Section, escaped, folded, group, paragraph
from distembed.views.report.tables import Row, as_mapping, first_rows, table


class Stage(NamedTuple):
    """What one stage of a job took: wall clock in seconds, peak memory and disk in bytes, blocks."""

    stage: str
    wall_seconds: float | None
    peak_bytes: int | None
    disk_bytes: int | None
    blocks: int | None


def stage_table(stages: Iterable[Row], *, title: str = "Time and memory") -> Section:
    """Show what each stage took, with a bar chart of its time.

    Parameters
    ----------
    stages
        `Stage` records, or mappings with its keys: stage, wall_seconds, peak_bytes, disk_bytes, blocks.
        A value that was not measured is None.
    title
        Title of the section.
    """
    rows = [dict(as_mapping(stage)) for stage in stages]
    seconds = {str(row["stage"]): row["wall_seconds"] for row in rows if row.get("wall_seconds") is not None}
    bars = bar_chart(seconds, title, xlabel="wall clock (seconds)", show=format_seconds)
    names = {"wall_seconds": "wall time", "peak_bytes": "peak memory", "disk_bytes": "on disk"}
    shown = [{names.get(key, key): value for key, value in row.items()} for row in rows]
    formats = {"wall time": format_seconds, "peak memory": format_bytes, "on disk": format_bytes}
    total = f"{format_seconds(sum(seconds.values()))} in all." if seconds else ""
    return group(title, [bars, table(title, shown, caption=total, formats=formats)])


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


def source_table(workspace: Workspace, *, title: str = "Version and files") -> Section:
    """Show which version made the stages, what they read, and what was left out of it."""
    done = workspace.stages().values()
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
    for name, stamp in files.items():
        last = str(stamp[-1]) if stamp else ""  # no digest where a store gives the file a version of its own
        content = last.removeprefix("content ") if last.startswith("content ") else None
        rows.append({"file": name, "size": stamp[0] if stamp else None, "content": content})
    omitted = "; ".join(filter(None, (left_out(one.facts) for one in done)))
    said = f"Made with distembed {', '.join(versions)}.{f' Left out: {omitted}.' if omitted else ''}"
    if not rows:
        return Section(title, paragraph(said))
    read = first_rows(rows, partial(table, title, formats={"size": format_bytes}))
    return Section(title, f"{paragraph(said)}\n{folded(plural(len(rows), 'file'), read.html)}")


def parameter_table(job: Mapping[str, Any], *, title: str = "Parameters") -> Section:
    """Show the settings of a job; nested tables are written with dots, as in TOML."""
    rows = [{"setting": key, "value": value} for key, value in _flat(job)]
    caption = "As run, with every default filled in."
    whole = table(title, rows, formats={"value": _setting}, caption=caption)
    return Section(title, folded(plural(len(rows), "setting"), whole.html))


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


def stage_rows(specs: Sequence[StageSpec], workspace: Workspace) -> list[Stage]:
    """Return what each stage took and wrote, in the order they ran."""
    rows, done = [], workspace.stages()
    for name in (spec.name for spec in specs):
        blocks = [block for record in done[name].outputs.values() for block in record.blocks]
        size = sum(file.size for block in blocks for file in block.files.values())
        seconds, peak = (measured(done[name].facts, fact) for fact in ("wall_seconds", "peak_process_bytes"))
        rows.append(Stage(name, seconds, None if peak is None else round(peak), size, len(blocks)))
    return rows


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
