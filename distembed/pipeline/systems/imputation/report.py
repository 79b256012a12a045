"""The report of an imputation job, and the last lines that its run prints."""

from __future__ import annotations

from typing import Any

import numpy as np

from distembed.display import plural
from distembed.linalg.chunks import evenly_spaced
from distembed.pipeline import report
from distembed.pipeline.context import read_vectors, stored_sparse
from distembed.pipeline.systems.imputation.config import ImputationJob
from distembed.pipeline.systems.imputation.evaluation_report import (
    chosen_method,
    hold_out,
    hold_out_section,
    label_sections,
    verdict,
)
from distembed.pipeline.systems.imputation.stages import stages
from distembed.pipeline.terminal import neighbor_line
from distembed.pipeline.words.stages import lacking_facts, lacking_line
from distembed.storage.workspace import Workspace
from distembed.vectors import WordVectors

_MEASURES = {
    "krylov": ("worst column", "relative residual"),
    "power": ("all columns", "share of the vectors that the sweep moved"),
}
"""Whose measure of convergence the curve of each solver shows, and what it is."""

LISTED = 1000
"""Imputed names whose nearest known ones the report lists, at most."""


def page(job: ImputationJob, workspace: Workspace) -> str:
    """Return the report of a finished workspace as one HTML page."""
    vectors = read_vectors(workspace)
    shape = workspace.describe("vectors").spec.shape
    summary = f"{shape[0]:,} words x {shape[1]} dimensions; content digest {workspace.digest()}."
    return report.render_report(
        job.job.title,
        f"{_counts(workspace)} {chosen_method(workspace)} {verdict(workspace)} {summary}",
        _sections(job, workspace, vectors),
        facts=_facts(workspace) | lacking_facts(job, workspace),
        invitation=report.invitation(workspace),
    )


def closing_text(job: ImputationJob, workspace: Workspace, where: str) -> str:
    """Return what matched, how the solution converged, a few imputed names, and where everything is."""
    vectors = read_vectors(workspace)
    near = "\n".join(
        neighbor_line(word, found)
        for word, found in nearest_known(job, workspace, vectors, n_listed=5).items()
    )
    lines = (
        _counts(workspace),
        _convergence(workspace),
        chosen_method(workspace),
        hold_out(workspace),
        near,
        lacking_line(job, workspace),
        report.ways_on(workspace, where, table="names", suffix="csv"),
    )
    return "\n\n".join(line for line in lines if line)


def nearest_known(
    job: ImputationJob, workspace: Workspace, vectors: WordVectors, *, n_listed: int = LISTED
) -> dict[str, list[tuple[str, float]]]:
    """Return the nearest known names of the imputed ones the job names, and of the first ones."""
    table = workspace.table("vocabulary").to_pydict()
    origin = dict(zip(table["word"], table["origin"], strict=True))
    imputed = [word for word in vectors.words if origin[word] == "imputed"]
    first = [word for word in job.report.words if origin.get(word) == "imputed"]
    known = vectors.restricted(word for word in vectors.words if origin[word] == "known")
    n = min(job.report.n_neighbors, len(known))
    return {
        word: [(other, float(cosine)) for other, cosine in known.most_similar(vectors[word], n=n)]
        for word in list(dict.fromkeys([*first, *imputed]))[:n_listed]
    }


def _facts(workspace: Workspace) -> dict[str, Any]:
    join = workspace.stages()["join"].facts
    return {"names": join["n_names"], "known": join["n_known"], "imputed": join["n_imputed"]}


def _counts(workspace: Workspace) -> str:
    """Return how many rows were imputed, in words: a table of which nearly all names are known can gain nothing."""
    join = workspace.stages()["join"].facts
    imputed, left_out, unmatched = join["n_imputed"], join["n_left_out"], join["n_unmatched_words"]
    notes = [
        f"Note that {join['one_column']}." if join["one_column"] else "",
        join["advice"] and f"{join['advice']}.",
        _replaced(join.get("n_replaced", 0)),
    ]
    more = "".join(f" {note}" for note in notes if note)
    return (
        f"{plural(join['n_names'], 'name')}: {join['n_known']:,} matched a known vector, "
        f"{imputed:,} {'was' if imputed == 1 else 'were'} imputed; "
        f"{left_out:,} more {'was' if left_out == 1 else 'were'} left out of the table; "
        f"{plural(unmatched, 'known vector')} {'matches' if unmatched == 1 else 'match'} no name.{more}"
    )


def _replaced(n_names: int) -> str:
    """Return how many of the imputed names have a known vector that counts for nothing, "" for none."""
    if not n_names:
        return ""
    verb, whose = ("has a vector", "was") if n_names == 1 else ("have vectors", "were")
    return (
        f"Of the imputed ones, {n_names:,} {verb} that {whose} replaced, because the name was seen less often than "
        "known.min_count (table replaced)."
    )


def _convergence(workspace: Workspace) -> str:
    facts = workspace.stages()["vectors"].facts
    if facts["method"] == "linear_map":
        return "No system of equations was solved."
    recall = workspace.stages()["graph"].facts["recall"]
    end = "converged" if facts["converged"] else "did NOT converge: raise imputation.max_iter"
    found = "" if recall == 1.0 else f" The neighbor lists hold {recall:.1%} of the true neighbors."
    steps = plural(facts["n_iter"], "step")
    return f"The solution {end} in {steps}, relative residual {facts['residual']:.1e}.{found}"


def _sections(job: ImputationJob, workspace: Workspace, vectors: WordVectors) -> list[report.Section]:
    graph, weights = stored_sparse(workspace, "graph"), stored_sparse(workspace, "weights")
    return [
        hold_out_section(workspace),
        *label_sections(workspace),
        *_maps(job, workspace, vectors),
        _nearest_section(job, workspace, vectors),
        _join_section(workspace),
        *_reading_sections(workspace),
        report.group("Convergence", [_convergence_curve(job, workspace), _convergence_section(workspace)]),
        report.histogram(
            np.diff(graph.indptr),
            "Neighbors of a name",
            xlabel="neighbors it is rebuilt from",
            ylabel="names",
        ),
        report.histogram(
            np.bincount(graph.indices, minlength=graph.shape[0]),
            "Names rebuilt from a name",
            xlabel="names that have it among their neighbors",
            ylabel="names",
        ),
        report.histogram(
            weights.data,
            "Weights",
            xlabel="weight of a neighbor",
            ylabel="edges",
            x_scale="log",
            y_scale="log",
        ),
        report.stage_table(report.stage_rows(stages(job), workspace)),
        report.parameter_table(job.model_dump(mode="json")),
    ]


def _nearest_section(job: ImputationJob, workspace: Workspace, vectors: WordVectors) -> report.Section:
    """Show the nearest known names of the first imputed ones; the others are folded behind them."""
    found = list(nearest_known(job, workspace, vectors).items())
    title = "Nearest known names of the imputed ones"
    return report.first_rows(found, lambda rows: report.neighbor_table(dict(rows), title=title))


def _join_section(workspace: Workspace) -> report.Section:
    """Show what matched: names to impute, names left out, known words that are no name."""
    table = workspace.table("vocabulary").to_pydict()
    rows = list(zip(table["origin"], table["word"], strict=True))
    left_out = workspace.table("left_out").to_pylist()
    lists = {
        "to impute": [word for origin, word in rows if origin == "imputed"],
        "left out of the table": [f"{row['name'] or 'no name'} ({row['reason']})" for row in left_out],
        "known words kept that are no name": [word for origin, word in rows if origin == "other"],
    }
    shown = [
        {"what": what, "how many": len(words), "first of them": ", ".join(words[:12]) or "–"}
        for what, words in lists.items()
    ]
    title = "Names that matched and that did not"
    sizes = {"known": float(sum(origin == "known" for origin, _ in rows))}
    sizes |= {what: float(len(words)) for what, words in lists.items()}
    picture = report.bar_chart(sizes, title, xlabel="names")
    return report.group(title, [picture, report.table(title, shown, caption=_counts(workspace))])


def _reading_sections(workspace: Workspace) -> list[report.Section]:
    """Show what was done to the tables, and the names that nearly match; nothing where there is nothing."""
    notes = workspace.table("reading")["note"].to_pylist()
    misses = workspace.table("near_misses").to_pylist()
    sections = []
    if notes:
        html = "".join(report.paragraph(f"{note[0].upper()}{note[1:]}.") for note in notes)
        sections.append(report.Section("How the tables were read", html))
    if n_replaced := workspace.stages()["join"].facts.get("n_replaced", 0):
        rows = workspace.table("replaced").to_pylist()[:LISTED]
        sections.append(report.table("Vectors that were replaced", rows, caption=_replaced(n_replaced)))
    if misses:
        caption = (
            f"{plural(len(misses), 'name')} without a vector, each beside a known word that no name has"
            f"{f'; the first {LISTED:,}' if len(misses) > LISTED else ''}. Rename the one or the other where both are "
            "the same; the table near_misses of the workspace has all."
        )
        sections.append(report.table("Names that nearly match", misses[:LISTED], caption=caption))
    return sections


def _convergence_section(workspace: Workspace) -> report.Section:
    facts = workspace.stages()["vectors"].facts
    worst = workspace.stages()["weights"].facts["worst_certificate"]
    row = {
        "steps": facts["n_iter"],
        "relative residual": facts["residual"],
        "converged": "yes" if facts["converged"] else "no",
        "worst optimality of a row's weights": worst,
        "recall of the neighbor lists": workspace.stages()["graph"].facts["recall"],
    }
    return report.table("Convergence", [row], caption=_convergence(workspace))


def _convergence_curve(job: ImputationJob, workspace: Workspace) -> report.Section:
    """Draw what the solver watches, step by step, and the tolerance it stopped at."""
    table = workspace.table("convergence")
    steps, measure = np.asarray(table["step"]), np.asarray(table["measure"])
    what, ylabel = _MEASURES[job.imputation.solver]
    if not steps.size:
        return report.Section(
            "Convergence by step", "<p>There was nothing to solve: no vector was imputed from the graph.</p>"
        )
    return report.line_chart(
        {what: (steps, measure), "tolerance": ([1, steps[-1]], [job.imputation.tol] * 2)},
        "Convergence by step",
        xlabel="step",
        ylabel=ylabel,
        y_scale="log",
        dashed=["tolerance"],
    )


def _maps(job: ImputationJob, workspace: Workspace, vectors: WordVectors) -> list[report.Section]:
    """Draw names by origin, and by label where the table has labels: one layout, two colorings."""
    table = workspace.table("vocabulary").to_pydict()
    rows = _spread(
        [row for row, origin in enumerate(table["origin"]) if origin != "other"], job.report.n_map_words
    )
    words, matrix = [vectors.words[row] for row in rows], vectors.vectors[rows]
    drawings = {"Map of known and imputed names": [table["origin"][row] for row in rows]}
    if any(table["label"]):
        drawings["The same map by label"] = [table["label"][row] or "none" for row in rows]
    return report.word_maps(words, matrix, drawings, method="tsne", max_words=len(rows), noun="name")


def _spread(rows: list[int], n_shown: int) -> list[int]:
    """Return at most n_shown rows, evenly from first to last."""
    return [rows[i] for i in evenly_spaced(len(rows), n_shown)]
