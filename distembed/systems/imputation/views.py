"""The report of an imputation job, and the last lines that its run prints."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from distembed.display import plural
from distembed.job.stage import read_vectors
from distembed.job.tables import MakeTable, Numbers, Piece, Table, paired, rows_of_blocks, words_table
from distembed.job.terminal import neighbor_line
from distembed.linalg.chunks import evenly_spaced
from distembed.linalg.operators import whole_csr
from distembed.stages.words import lacking_facts, lacking_line
from distembed.storage.workspace import Workspace
from distembed.systems.imputation import outputs
from distembed.systems.imputation.evaluation_report import (
    chosen_method,
    hold_out,
    hold_out_section,
    label_sections,
    verdict,
)
from distembed.systems.imputation.job import ImputationJob
from distembed.systems.imputation.solving import REGRESSORS
from distembed.systems.imputation.stages import stages
from distembed.vectors import WordVectors
from distembed.views import report
from distembed.views.explorer.items import MAX_POINTS, Items, by_category, listed

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
    join = workspace.stages()["join"].facts
    return report.render_report(
        job.job.title,
        f"{_counts(workspace)} {chosen_method(job, workspace)} {verdict(workspace)} {summary}",
        _sections(job, workspace, vectors),
        facts={"names": join["n_names"], "known": join["n_known"], "imputed": join["n_imputed"]}
        | lacking_facts(job, workspace),
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
        chosen_method(job, workspace),
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
    table = outputs.VOCABULARY.read(workspace).to_pydict()
    origin = dict(zip(table["word"], table["origin"], strict=True))
    imputed = [word for word in vectors.words if origin[word] == "imputed"]
    first = [word for word in job.report.words if origin.get(word) == "imputed"]
    known = vectors.restricted(word for word in vectors.words if origin[word] == "known")
    n = min(job.report.n_neighbors, len(known))
    return {
        word: [(other, float(cosine)) for other, cosine in known.most_similar(vectors[word], n=n)]
        for word in list(dict.fromkeys([*first, *imputed]))[:n_listed]
    }


def _counts(workspace: Workspace) -> str:
    """Return how many rows were imputed, in words: a table of which nearly all names are known can gain nothing."""
    join = workspace.stages()["join"].facts
    imputed, left_out, unmatched = join["n_imputed"], join["n_left_out"], join["n_unmatched_words"]
    notes = [
        f"Note that {join['one_column']}." if join["one_column"] else "",
        join["advice"] and f"{join['advice']}.",
    ]
    more = "".join(f" {note}" for note in notes if note)
    return (
        f"{plural(join['n_names'], 'name')}: {join['n_known']:,} matched a known vector, "
        f"{imputed:,} {'was' if imputed == 1 else 'were'} imputed; "
        f"{left_out:,} more {'was' if left_out == 1 else 'were'} left out of the table; "
        f"{plural(unmatched, 'known vector')} {'matches' if unmatched == 1 else 'match'} no name.{more}"
    )


def _convergence(workspace: Workspace) -> str:
    facts = workspace.stages()["vectors"].facts
    if facts["method"] in REGRESSORS:
        return "No system of equations was solved."
    end = "converged" if facts["converged"] else "did NOT converge: raise imputation.max_iter"
    steps = plural(facts["n_iter"], "step")
    return f"The solution {end} in {steps}, relative residual {facts['residual']:.1e}."


def _sections(job: ImputationJob, workspace: Workspace, vectors: WordVectors) -> list[report.Section]:
    graph, weights = (
        whole_csr(outputs.GRAPH.read(workspace)),
        whole_csr(outputs.WEIGHTS.read(workspace)),
    )
    found = list(nearest_known(job, workspace, vectors).items())
    title = "Nearest known names of the imputed ones"
    return [
        report.first_rows(found, lambda rows: report.neighbor_table(dict(rows), title=title)),
        *_maps(job, workspace, vectors),
        hold_out_section(workspace),
        *label_sections(job, workspace),
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
        report.source_table(workspace),
    ]


def _join_section(workspace: Workspace) -> report.Section:
    """Show what matched: names to impute, names left out, known words that are no name."""
    table = outputs.VOCABULARY.read(workspace).to_pydict()
    rows = list(zip(table["origin"], table["word"], strict=True))
    left_out = outputs.LEFT_OUT.read(workspace).to_pylist()
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
    notes = outputs.READING.read(workspace)["note"].to_pylist()
    misses = outputs.NEAR_MISSES.read(workspace).to_pylist()
    sections = []
    if notes:
        html = "".join(report.paragraph(f"{note[0].upper()}{note[1:]}.") for note in notes)
        sections.append(report.Section("How the tables were read", html))
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
    }
    return report.table("Convergence", [row], caption=_convergence(workspace))


def _convergence_curve(job: ImputationJob, workspace: Workspace) -> report.Section:
    """Draw what the solver watches, step by step, and the tolerance it stopped at."""
    table = outputs.CONVERGENCE.read(workspace)
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
    table = outputs.VOCABULARY.read(workspace).to_pydict()
    rows = _spread(
        [row for row, origin in enumerate(table["origin"]) if origin != "other"], job.report.n_map_words
    )
    words, matrix = [vectors.words[row] for row in rows], vectors.vectors[rows]
    drawings = {"Map of known and imputed names": [table["origin"][row] for row in rows]}
    if any(table["label"]):
        drawings["The same map by label"] = [table["label"][row] or "none" for row in rows]
    return report.word_maps(words, matrix, drawings, noun="name")


def _spread(rows: list[int], n_shown: int) -> list[int]:
    """Return at most n_shown rows, evenly from first to last."""
    return [rows[i] for i in evenly_spaced(len(rows), n_shown)]


NAME_COLUMNS = ("name", "matched", "word", "origin", "label", "like")
"""The name as the table has it, the known word that it matched, and the word under which the workspace has its vector:
the matched one, or the name, as the table of names calls it."""
LEFT_OUT = "left out"


def names_table(job: ImputationJob, workspace: Workspace) -> Table:  # noqa: ARG001 - the same for every job
    """Return every name of the table: known, imputed, or left out and why; with its label and its vector."""
    vectors, left_out = outputs.VECTORS.read(workspace), outputs.LEFT_OUT.read(workspace)
    facts = workspace.stages()["join"].facts
    extra = [field for field in left_out.schema if field.name != "name"]
    schema = pa.schema([*((name, pa.string()) for name in NAME_COLUMNS), *extra])
    width = vectors.shape[1]
    n_rows = facts["n_names"] + left_out.num_rows
    joined = paired(workspace.batches("vocabulary"), rows_of_blocks(vectors))
    return Table(
        schema,
        Numbers("vector", width, as_lists=True),
        n_rows,
        _names(joined, left_out, _likes(workspace), schema),
        f"{plural(n_rows, 'name')}: {facts['n_known']:,} known, {facts['n_imputed']:,} imputed, "
        f"{left_out.num_rows:,} left out; vectors of {plural(width, 'dimension')}",
    )


def _likes(workspace: Workspace) -> dict[str, str]:
    """Return by name the known word that is nearly spelled like it."""
    table = outputs.NEAR_MISSES.read(workspace)
    return dict(zip(table["name"].to_pylist(), table["word"].to_pylist(), strict=True))


def _names(
    joined: Iterable[Piece],
    left_out: pa.Table,
    like: Mapping[str, str],
    schema: pa.Schema,
) -> Iterator[Piece]:
    """Yield the names that have a vector, then those that were left out, whose numbers are missing."""
    width = 0
    for piece in joined:
        is_name = pc.not_equal(piece.columns["origin"], "other")
        if piece.numbers is not None and pc.any(is_name).as_py():
            kept, width = piece.columns.filter(is_name), piece.numbers.shape[1]
            words = kept["word"]
            is_known = pc.equal(kept["origin"], "known")
            kept = kept.append_column("matched", pc.if_else(is_known, words, pa.scalar(None, pa.string())))
            kept = kept.append_column(
                "like", pa.array([like.get(word) for word in words.to_pylist()], pa.string())
            )
            yield Piece(_as(schema, kept), piece.numbers[np.asarray(is_name)])
    for batch in left_out.to_batches():
        origin = pa.array([LEFT_OUT] * batch.num_rows)
        named = pa.record_batch([*batch.columns, origin], names=[*batch.schema.names, "origin"])
        yield Piece(_as(schema, named), np.full((batch.num_rows, width), np.nan, np.float32))


def _as(schema: pa.Schema, batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return rows under a schema, with missing values for the columns that they lack."""
    has = set(batch.schema.names)
    columns = [
        batch[field.name] if field.name in has else pa.nulls(batch.num_rows, field.type) for field in schema
    ]
    return pa.record_batch(columns, schema=schema)


TABLES: dict[str, MakeTable] = {"names": names_table, "words": words_table}
"""What an imputation job exports, by the name that `--what` takes."""


LISTED_NEIGHBORS = 20
"""Neighbors of a name in the table, at most."""

ORIGINS = {"known": "known", "imputed": "imputed", "other": "known, but no name of the table"}


def items(job: ImputationJob, workspace: Workspace, *, n_points: int = MAX_POINTS) -> Items:
    """Return the names of a finished workspace, evenly from first to last, with what each is rebuilt from."""
    vectors = read_vectors(workspace)
    used = np.flatnonzero(vectors.norms > 0)
    rows = used[evenly_spaced(used.size, n_points)]
    table = outputs.VOCABULARY.read(workspace).take(rows).to_pydict()
    colorings = [by_category("origin", [ORIGINS[origin] for origin in table["origin"]])]
    if any(table["label"]):
        colorings.append(by_category("label", [label or "none" for label in table["label"]]))
    weights = whole_csr(outputs.WEIGHTS.read(workspace))
    weights.resize(
        (len(vectors), len(vectors))
    )  # known words that are no name have no neighbors in the table
    near = listed("neighbors in the table, by weight", weights, rows, longest=LISTED_NEIGHBORS)
    others = [
        name or "" if name != word else "" for name, word in zip(table["name"], table["word"], strict=True)
    ]
    return Items(
        job.job.title,
        "name",
        table["word"],
        vectors.vectors[rows],
        colorings,
        {"name in the table": others} if any(others) else {},
        [near],
    )
