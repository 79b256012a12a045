"""The report of an imputation job and the last lines of its run, and the tables and points that it exports."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from distembed.display import fixed, plural
from distembed.evaluation.imputation import JUDGED_NAMES, MethodRecovery, judge
from distembed.job.stage import read_vectors
from distembed.job.tables import MakeTable, Numbered, Table, paired, rows_of_blocks, with_numbers, words_table
from distembed.job.terminal import neighbor_line
from distembed.linalg.chunks import evenly_spaced
from distembed.linalg.operators import whole_csr
from distembed.storage.workspace import Workspace
from distembed.systems.imputation import outputs
from distembed.systems.imputation.job import ImputationJob
from distembed.systems.imputation.stages import (
    AMONG,
    BASELINES,
    CHOSEN,
    IN_PAPER,
    METHODS,
    REGRESSORS,
    SHUFFLED,
    VOTED,
    too_few_to_choose,
)
from distembed.vectors import Neighbor, WordVectors
from distembed.views.explorer.items import MAX_POINTS, Items, by_category, listed
from distembed.views.report.figures import Figure, histogram, line_chart
from distembed.views.report.maps import word_maps
from distembed.views.report.page import Note, Page, Part, Section, ShownTable
from distembed.views.report.run import page_of
from distembed.views.report.sections import method_section, neighbor_table, paper_tables

_MEASURES = {
    "krylov": ("worst column", "relative residual"),
    "power": ("all columns", "share of the vectors that the sweep moved"),
}
"""Whose measure of convergence the curve of each solver shows, and what it is."""

LISTED, CLOSING_NAMES = 1000, 5
"""Imputed names whose nearest known ones the report lists, and the last lines of a run, at most."""


def page(job: ImputationJob, workspace: Workspace) -> Page:
    """Return the report of a finished workspace."""
    vectors, join = read_vectors(workspace), workspace.stages()["join"].facts
    graph, weights = (whole_csr(one.read(workspace)) for one in (outputs.GRAPH, outputs.WEIGHTS))
    near, counts, chosen = (
        nearest_known(job, workspace, vectors),
        _counts(workspace),
        chosen_method(job, workspace),
    )
    sections: list[Part] = [
        neighbor_table(near, "Nearest known names of the imputed ones", n_shown=10),
        _maps(job, workspace, vectors),
        method_section(
            "Hidden names found again",
            outputs.HOLD_OUT.read(workspace).to_pylist(),
            MEASURES,
            fractions=dict.fromkeys(("centered cosine", "mean of 1/rank", "neighbors of the same label"), 3),
            xlabel="centered cosine to the true vector, with its 95 % interval",
            caption=f"{hold_out(workspace)} Rank 1 is best, and the median is shown.",
            about="The centered cosine is that of the differences from the mean of the known vectors: a method that "
            "gives every name nearly this mean has a high plain cosine and ranks nothing.",
        ),
        *label_sections(job, workspace),
        _join_table(workspace),
        *_reading_sections(workspace),
    ]
    details: list[Part] = [
        _convergence_curve(job, workspace),
        histogram(
            "Names rebuilt from a name",
            np.bincount(graph.indices, minlength=graph.shape[0]),
            xlabel="names that have it among their neighbors",
            ylabel="names",
        ),
        histogram(
            "Weights",
            weights.data,
            xlabel="weight of a neighbor",
            ylabel="edges",
            x_scale="log",
            y_scale="log",
        ),
    ]
    said = " ".join(filter(None, (counts, chosen, verdict(workspace))))
    summary = f"{said} {len(vectors):,} words x {vectors.vectors.shape[1]} dimensions."
    facts = {"names": join["n_names"], "known": join["n_known"], "imputed": join["n_imputed"]}
    lines = "\n".join(neighbor_line(word, near[word]) for word in list(near)[:CLOSING_NAMES])
    closing = [counts, _convergence(workspace), chosen, hold_out(workspace), lines]
    ways = {"names": "export {} --to names.csv", "neighbors": "neighbors {} WORD ..."}
    return page_of(job, workspace, summary, facts, sections, details=details, closing=closing, ways=ways)


def nearest_known(
    job: ImputationJob, workspace: Workspace, vectors: WordVectors
) -> dict[str, list[Neighbor]]:
    """Return the nearest known names of the imputed ones the job names, and of the first ones."""
    table = outputs.VOCABULARY.read(workspace).to_pydict()
    origin = dict(zip(table["word"], table["origin"], strict=True))
    imputed = [word for word in vectors.words if origin[word] == "imputed"]
    first = [word for word in job.report.words if origin.get(word) == "imputed"]
    known = vectors.restricted(word for word in vectors.words if origin[word] == "known")
    n = min(job.report.n_neighbors, len(known))
    listed_first = list(dict.fromkeys([*first, *imputed]))[:LISTED]
    return {word: known.most_similar(vectors[word], n=n) for word in listed_first}


def _counts(workspace: Workspace) -> str:
    """Return how many rows were imputed, in words: a table of which nearly all names are known can gain nothing."""
    join = workspace.stages()["join"].facts
    imputed, left_out, unmatched = join["n_imputed"], join["n_left_out"], join["n_unmatched_words"]
    notes = (
        f"Note that {join['one_column']}." if join["one_column"] else "",
        join["advice"] and f"{join['advice']}.",
    )
    return " ".join(
        (
            f"{plural(join['n_names'], 'name')}: {join['n_known']:,} matched a known vector, "
            f"{imputed:,} {'was' if imputed == 1 else 'were'} imputed; "
            f"{left_out:,} more {'was' if left_out == 1 else 'were'} left out of the table; "
            f"{plural(unmatched, 'known vector')} {'matches' if unmatched == 1 else 'match'} no name.",
            *filter(None, notes),
        )
    )


def _convergence(workspace: Workspace) -> str:
    facts = workspace.stages()["vectors"].facts
    if facts["method"] in REGRESSORS:
        return "No system of equations was solved."
    end = "converged" if facts["converged"] else "did NOT converge: raise imputation.max_iter"
    steps = plural(facts["n_iter"], "step")
    return f"The solution {end} in {steps}, relative residual {facts['residual']:.1e}."


def _join_table(workspace: Workspace) -> ShownTable:
    """Show what matched: names to impute, names left out, known words that are no name."""
    table = outputs.VOCABULARY.read(workspace)
    words = {
        origin: table["word"].filter(pc.equal(table["origin"], origin)).to_pylist()
        for origin in ("known", "imputed", "other")
    }
    left_out = outputs.LEFT_OUT.read(workspace).to_pylist()
    lists = {
        "known": words["known"],
        "to impute": words["imputed"],
        "left out of the table": [f"{row['name'] or 'no name'} ({row['reason']})" for row in left_out],
        "known words kept that are no name": words["other"],
    }
    rows = [
        {"what": what, "how many": len(names), "first of them": ", ".join(names[:12]) or None}
        for what, names in lists.items()
    ]
    return ShownTable("Names that matched and that did not", rows, caption=_counts(workspace))


def _reading_sections(workspace: Workspace) -> list[Part]:
    """Show what was done to the tables, and the names that nearly match; nothing where there is nothing."""
    read = outputs.READING.read(workspace)["note"].to_pylist()
    misses = outputs.NEAR_MISSES.read(workspace).to_pylist()
    notes = "\n".join(f"{note[0].upper()}{note[1:]}." for note in read)
    caption = (
        f"{plural(len(misses), 'name')} without a vector, each beside a known word that no name has"
        f"{f'; the first {LISTED:,}' if len(misses) > LISTED else ''}. Rename the one or the other where both are "
        "the same; the table near_misses of the workspace has all."
    )
    found = ShownTable("Names that nearly match", misses[:LISTED], caption=caption)
    how = Note("How the tables were read", notes, is_empty=False)
    return [*([how] if notes else []), *([found] if misses else [])]


def _convergence_curve(job: ImputationJob, workspace: Workspace) -> Figure | Note:
    """Draw what the solver watches, step by step, and the tolerance it stopped at."""
    title, table = "Convergence by step", outputs.CONVERGENCE.read(workspace)
    steps, (what, ylabel) = table["step"].to_pylist(), _MEASURES[job.imputation.solver]
    if not steps:
        return Note(title, "There was nothing to solve: no vector was imputed from the graph.")
    series = {
        what: (steps, table["measure"].to_pylist()),
        "tolerance": ([1, steps[-1]], [job.imputation.tol] * 2),
    }
    worst = workspace.stages()["weights"].facts["worst_certificate"]
    caption = f"{_convergence(workspace)} The weights of a name are off the best by {worst:.1e} at most."
    return line_chart(
        title, series, xlabel="step", ylabel=ylabel, y_scale="log", dashed=["tolerance"], caption=caption
    )


def _maps(job: ImputationJob, workspace: Workspace, vectors: WordVectors) -> Section:
    """Draw names by origin, and by label where the table has labels: one layout, two colorings."""
    table = outputs.VOCABULARY.read(workspace).to_pydict()
    rows = np.flatnonzero(np.array(table["origin"], object) != "other")
    rows = rows[evenly_spaced(len(rows), job.report.n_map_words)].tolist()
    drawings = {"Names by origin": [table["origin"][row] for row in rows]}
    if any(table["label"]):
        drawings["Names by label"] = [table["label"][row] or "none" for row in rows]
    words = [vectors.words[row] for row in rows]
    return word_maps("Map of names", words, vectors.vectors[rows], drawings, noun="name")


# --- hidden names that are found again -------------------------------------------------------------------------


def method_rows(workspace: Workspace) -> dict[str, MethodRecovery]:
    """Return the figures of the hold-out by method; none where too few names are known to hide any."""
    return {row["method"]: MethodRecovery(**row) for row in outputs.HOLD_OUT.read(workspace).to_pylist()}


def judged_items(workspace: Workspace) -> dict[str, float]:
    """Return how near each hidden name came to its vector by the method of the job: its centered cosine."""
    table = outputs.HOLD_OUT_NAMES.read(workspace)
    own = table.filter(pc.equal(table["method"], table["method"][0])) if table.num_rows else table
    return dict(zip(own["word"].to_pylist(), own["centered_cosine"].to_pylist(), strict=True))


def verdict(workspace: Workspace) -> str:
    """Return in sentences whether the table is useful, weak or useless for the vectors, and why."""
    methods, facts = method_rows(workspace), workspace.stages()["hold_out"].facts
    own = next(iter(methods.values()), None)
    found = own and judge(own, methods[SHUFFLED], n_known=facts["n_known"])
    if found is None:
        n = min(facts["n_known"], facts["n_hidden"] or facts["n_known"])
        return (
            f"Whether the table predicts the vectors cannot be judged: {plural(n, 'name')} with a known "
            f"vector {'is' if n == 1 else 'are'} too few to hide, {JUDGED_NAMES} are needed."
        )
    sentence = f"The table is {found.word} for these vectors, because {found.reason}."
    if found.word == "useless":
        return f"{sentence} Names imputed from it are no better than names drawn at random."
    row = methods[SHUFFLED]
    return (
        f"{sentence} The gain over the same table with its rows shuffled is {row.centered_gain:.3f} "
        f"[{row.centered_gain_low:.3f}, {row.centered_gain_high:.3f}] in centered cosine, and in rank "
        f"{row.rank_gain:.1%} [{row.rank_gain_low:.1%}, {row.rank_gain_high:.1%}] of the known names."
    )


def hold_out(workspace: Workspace) -> str:
    """Return what came of hiding known names, what to think of it, and which method finds them best, in words."""
    methods, facts = method_rows(workspace), workspace.stages()["hold_out"].facts
    if not methods:
        return verdict(workspace)
    figures = "; ".join(
        f"{method} {fixed(row.centered_cosine)} and {row.median_rank:.0f}"
        for method, row in methods.items()
        if method not in BASELINES
    )
    own, graph = next(iter(methods.values())), methods[METHODS["graph"]]
    best = max(METHODS, key=lambda method: methods[METHODS[method]].centered_cosine)
    row, advice = methods[METHODS[best]], ""
    if own.method == CHOSEN:
        gap = f"finds them best, {row.centered_cosine - graph.centered_cosine:.3f} above imputation alone"
        found = "Imputation alone finds them best" if best == "graph" else f"{row.method.capitalize()} {gap}"
        advice = f" {found}; the choice has {fixed(own.centered_cosine)}."
    elif row.centered_cosine > own.centered_cosine:
        advice = (
            f" {row.method.capitalize()} finds them better ({fixed(row.centered_cosine)} against "
            f'{fixed(own.centered_cosine)}): imputation.method = "{best}" takes it, "auto" the best.'
        )
    return (
        f"Hold-out: {plural(facts['n_hidden'], 'known name')} hidden in {plural(facts['n_folds'], 'fold')}; cosine to "
        "the true vector, after the mean of the known ones is taken off both, and its median rank among "
        f"{facts['n_known']:,}: {figures}. {verdict(workspace)}{advice}"
    )


def chosen_method(job: ImputationJob, workspace: Workspace) -> str:
    """Return by which method the vectors were made, where the job does not say that it is the graph, in a sentence."""
    method, is_auto = workspace.stages()["vectors"].facts["method"], job.imputation.method == "auto"
    if method != "graph":
        return f"The vectors are those of {METHODS[method]}."
    n_names = min(workspace.stages()["join"].facts["n_known"], job.evaluation.max_names)
    if is_auto and n_names < JUDGED_NAMES:
        return f"{too_few_to_choose(n_names)}."
    return "The vectors are those of imputation by the graph alone." if is_auto else ""


MEASURES = {
    "centered cosine": ("centered_cosine", "centered_low", "centered_high"),
    "rank": ("median_rank", "rank_low", "rank_high"),
    "mean of 1/rank": ("reciprocal_rank",),
    "neighbors of the same label": ("label_share",),
}
"""What the table of hidden names calls the columns of the output `hold_out`."""


DRAWN = "distance"
"""The votes that the picture of labels draws, those of the authors' program; the table has both."""


def label_sections(job: ImputationJob, workspace: Workspace) -> list[Part]:
    """Show how often the neighbors of a name vote for its label, in a paper too; nothing without labels."""
    if "neighbor_labels" not in workspace.stages():
        return []
    title, found = "Labels of neighbors", outputs.NEIGHBOR_LABELS.read(workspace).to_pylist()
    if not found:
        return [Note(title, "Too few names have a label to ask their neighbors.")]
    shares: dict[tuple[str, int, str], dict[int, float]] = {}
    for row in found:
        shares.setdefault((row["rows"], row["n_names"], row["votes"]), {})[row["n_neighbors"]] = row[
            "accuracy"
        ]
    counts = sorted({row["n_neighbors"] for row in found})
    rows: list[dict[str, Any]] = [
        {"rows": name, "names": n, "votes": votes} | {AMONG.format(k): own.get(k) for k in counts}
        for (name, n, votes), own in shares.items()
    ]
    curves = {
        name.removeprefix("known and imputed vectors, "): (sorted(own), [own[k] for k in sorted(own)])
        for (name, _, votes), own in shares.items()
        if votes == DRAWN
    }
    caption = (
        "The share of names whose label is the one that their k nearest others vote for, of "
        f"{workspace.stages()['neighbor_labels'].facts['n_labels']} "
        "labels. Distances are Euclidean; a vote counts as one, or as the inverse of its distance. A label that the "
        "table knows can only be carried to the imputed names: the table itself is the bound, the shuffled labels "
        "are chance."
    )
    picture = line_chart(
        "",
        curves,
        xlabel="neighbors that vote, by their distance",
        ylabel="share of names",
        dashed=[name for name in curves if name.endswith("shuffled")],
        caption=caption,
    )
    ours = {VOTED.format(row["rows"], row["votes"]): row for row in rows}
    table = ShownTable("", rows, {AMONG.format(k): 3 for k in counts})
    return [Section(title, [picture, table]), *paper_tables(job, ours, **IN_PAPER)]


# --- tables and points -----------------------------------------------------------------------------------------

NAME_COLUMNS = ("name", "matched", "word", "origin", "label", "like")
"""The name as the table has it, the known word that it matched, and the word under which the workspace has its vector:
the matched one, or the name, as the table of names calls it."""


def names_table(job: ImputationJob, workspace: Workspace) -> Table:  # noqa: ARG001 - the same for every job
    """Return every name of the table: known, imputed, or left out and why; with its label and its vector."""
    vectors, left_out = outputs.VECTORS.read(workspace), outputs.LEFT_OUT.read(workspace)
    facts, width = workspace.stages()["join"].facts, vectors.shape[1]
    extra = [field for field in left_out.schema if field.name != "name"]
    schema = pa.schema([*((name, pa.string()) for name in NAME_COLUMNS), *extra])
    n_rows = facts["n_names"] + left_out.num_rows
    near = outputs.NEAR_MISSES.read(workspace)
    like = dict(zip(near["name"].to_pylist(), near["word"].to_pylist(), strict=True))
    pieces = paired(workspace.batches("vocabulary"), rows_of_blocks(vectors))
    return Table(
        with_numbers(schema, _names(pieces, left_out, like, schema), "vector", width),
        n_rows,
        f"{plural(n_rows, 'name')}: {facts['n_known']:,} known, {facts['n_imputed']:,} imputed, "
        f"{left_out.num_rows:,} left out; vectors of {plural(width, 'dimension')}",
    )


def _names(
    joined: Iterable[Numbered], left_out: pa.Table, like: Mapping[str, str], schema: pa.Schema
) -> Iterator[Numbered]:
    """Yield the names that have a vector, then those that were left out, whose numbers are missing."""
    width = 0
    for columns, vectors in joined:
        is_name, width = pc.not_equal(columns["origin"], "other"), vectors.shape[1]
        if pc.any(is_name).as_py():
            kept = columns.filter(is_name)
            words, is_known = kept["word"], pc.equal(kept["origin"], "known")
            kept = kept.append_column("matched", pc.if_else(is_known, words, pa.scalar(None, pa.string())))
            near = pa.array([like.get(word) for word in words.to_pylist()], pa.string())
            yield _as(schema, kept.append_column("like", near)), vectors[np.asarray(is_name)]
    for batch in left_out.to_batches():
        named = batch.append_column("origin", pa.array(["left out"] * batch.num_rows))
        yield _as(schema, named), np.full((batch.num_rows, width), np.nan, np.float32)


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


def items(job: ImputationJob, workspace: Workspace, *, n_points: int = MAX_POINTS) -> Items:
    """Return the names of a finished workspace, evenly from first to last, with what each is rebuilt from."""
    vectors = read_vectors(workspace)
    used = np.flatnonzero(vectors.norms > 0)
    rows = used[evenly_spaced(used.size, n_points)]
    table = outputs.VOCABULARY.read(workspace).take(rows).to_pydict()
    called = {"other": "known, but no name of the table"}
    colorings = [by_category("origin", [called.get(origin, origin) for origin in table["origin"]])]
    if any(table["label"]):
        colorings.append(by_category("label", [label or "none" for label in table["label"]]))
    weights = whole_csr(outputs.WEIGHTS.read(workspace))
    weights.resize(
        (len(vectors), len(vectors))
    )  # known words that are no name have no neighbors in the table
    near = listed("neighbors in the table, by weight", weights, rows, longest=LISTED_NEIGHBORS)
    both = zip(table["name"], table["word"], strict=True)
    others = [name if name and name != word else "" for name, word in both]
    own = {"name in the table": others} if any(others) else {}
    return Items(job.job.title, "name", table["word"], vectors.vectors[rows], colorings, own, [near])
