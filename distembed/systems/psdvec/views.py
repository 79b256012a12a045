"""The report of a PSDVec job, and the last lines that its run prints, made from a finished workspace."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import dask.array as da
import numpy as np

from distembed.display import MAX_ROWS, plural
from distembed.dtypes import Float64s
from distembed.execution import compute
from distembed.factorization.joined_vectors import centered_directions
from distembed.job.stage import SUBWORDS, read_vectors
from distembed.job.terminal import neighbor_line
from distembed.lift import lift
from distembed.stages.corpus import vocabulary_of
from distembed.stages.outputs import EVALUATION
from distembed.stages.words import common_words, content_words, shown_scores, values_by_name, words_shown
from distembed.storage.workspace import Workspace
from distembed.systems.psdvec import outputs, sides
from distembed.systems.psdvec.job import METHOD, PSDVecJob
from distembed.vectors import WordVectors
from distembed.views.answers import Answer
from distembed.views.explain import Request, explain_words
from distembed.views.report.maps import word_maps
from distembed.views.report.page import Page, Part, ShownTable
from distembed.views.report.run import page_of
from distembed.views.report.sections import (
    neighbor_table,
    objective_curve,
    paper_tables,
    score_section,
    score_table,
    zipf_curve,
)

PARTS = ("psdvec", "sides")
"""The parts of the vectors of a job with sides."""
PART_WORDS = 5
"""Words of the report whose neighbors in each part are shown, at most."""
PART_NEIGHBORS = 5


def page(job: PSDVecJob, workspace: Workspace) -> Page:
    """Return the report of a finished workspace."""
    done, vectors, common = workspace.stages(), read_vectors(workspace), common_words(workspace)
    facts = {
        "documents": done["tokens"].facts.get("n_documents", 0),
        "tokens": done["tokens"].facts.get("n_tokens", 0),
        "words": done["vocabulary"].facts["n_words"],
        "pairs": done["cooccurrence"].facts["n_nonzero"],
        **({"n-grams with a vector": done[SUBWORDS].facts["n_ngrams"]} if job.subwords.enabled else {}),
    }
    scores, asked = shown_scores(workspace, EVALUATION), words_shown(job.report.words, vectors.words, common)
    ours, n = values_by_name(scores), min(job.report.n_neighbors, len(vectors) - 1)
    near = {word: vectors.most_similar(word, n=n) if n else [] for word in asked}
    drawn, parts = content_words(vectors.words, common)[: job.report.n_map_words], list[Part]()
    if job.sides is not None:
        caption = (
            "What each part of the vectors makes near: the same words have other neighbors in another part, and the "
            "joined vectors weigh both. A word without a vector in a part has no neighbors there."
        )
        parts = [ShownTable("Parts", part_neighbors(job, workspace, asked[:PART_WORDS]), caption=caption)]
    title, noun = "Map of frequent content words", "most frequent content word"
    objective = outputs.OBJECTIVE.read(workspace)["weighted_squared_error"]
    sections: list[Part] = [
        neighbor_table(near),
        *([word_maps(title, drawn, vectors[drawn], {"": None}, noun=noun)] if drawn else []),
        score_section(scores),
        *paper_tables(job, {METHOD: ours}, rows=[METHOD], columns=ours),
        *parts,
    ]
    details: list[Part] = [objective_curve(objective), zipf_curve(workspace.table("vocabulary")["count"])]
    summary = f"{len(vectors):,} words x {vectors.vectors.shape[1]} dimensions by PSDVec."
    more = f"{plural(len(scores) - MAX_ROWS, 'more score')} in the report" if len(scores) > MAX_ROWS else ""
    closing: list[str | ShownTable] = [
        score_table({"": scores[:MAX_ROWS]}, more),
        "\n".join(neighbor_line(word, found) for word, found in near.items()),
    ]
    ways = {"vectors": "export {} --to vectors.txt", "neighbors": "neighbors {} WORD ..."}
    return page_of(job, workspace, summary, facts, sections, details=details, closing=closing, ways=ways)


def part_neighbors(job: PSDVecJob, workspace: Workspace, asked: Sequence[str]) -> list[dict[str, Any]]:
    """Return how each part of the vectors is made, and the nearest of each word in it; one part is in memory."""
    assert job.sides is not None
    rows, words = [], np.array(vocabulary_of(workspace).words, object)
    countings = (job.counting.counting_options(), job.sides.counting_options())
    for (name, part, mean, weight), counting in zip(_parts(job, workspace), countings, strict=True):
        directions = np.asarray(compute(lift(centered_directions, "wc,c->wc", part, mean).astype(np.float32)))
        is_there = directions.any(axis=1)
        space = WordVectors(words[is_there].tolist(), directions[is_there])
        row = {
            "part": name,
            "made_of": f"counts: window {counting.window}, {counting.direction}, {counting.weighting}",
            "components": directions.shape[1],
            "weight": weight,
            "words": len(space),
        }
        near = {word: space.most_similar(word, n=PART_NEIGHBORS) if word in space else [] for word in asked}
        rows.append(row | {word: ", ".join(one.word for one in each) or None for word, each in near.items()})
    return rows


def explain(job: PSDVecJob, workspace: Workspace, request: Request) -> Answer:
    """Explain the cosine of two words by their contexts, and by the parts of their vectors where the job has sides."""
    found = explain_words(workspace, request, window=job.counting.window)
    if job.sides is None or len(request.names) == 1:
        return found
    pair = [found.facts["first"], found.facts["second"]]
    if (vocabulary_of(workspace).index(pair) < 0).any():
        return found  # a word that is composed from its n-grams has no vector in a part
    rows = part_rows(job, workspace, pair)
    cosine, nearest = sum(row["share"] for row in rows), max(rows, key=lambda row: row["share"])
    sentence = (
        f"Of the parts that are joined, {nearest['part']} makes the words nearest: {nearest['share']:.3f} of a joined "
        f"cosine of {cosine:.3f}."
    )
    caption = (
        "Each share is the cosine in a part times its weight squared over the sum of these; shares add up."
    )
    if job.subwords.enabled and job.subwords.weight:
        caption += " The spelling of the words is added to the joined vectors afterwards."
    if job.psdvec.components_removed:
        caption += " Their mean and first components are removed as the last step: `neighbors` shows cosines after it."
    rows.append({"part": "joined", "share": cosine})
    table = ShownTable("parts", rows, {"cosine": 3, "share": 3}, caption)
    return found._replace(sentences=[*found.sentences, sentence], tables=[table, *found.tables])


def part_rows(job: PSDVecJob, workspace: Workspace, words: Sequence[str]) -> list[dict[str, Any]]:
    """Return the cosine of two words in each part, its weight, and its share of the cosine of the joined vectors."""
    pair, rows, squares = vocabulary_of(workspace).index(list(words)), list[dict[str, Any]](), np.zeros(2)
    for name, part, mean, weight in _parts(job, workspace):
        directions = centered_directions(np.asarray(compute(part[pair]), np.float64), mean)
        squares += weight**2 * (directions**2).sum(axis=1)
        cosine = float(directions[0] @ directions[1])
        rows.append({"part": name, "weight": weight, "cosine": cosine, "share": weight**2 * cosine})
    length = max(math.sqrt(squares[0] * squares[1]), 1e-300)
    return [row | {"share": row["share"] / length} for row in rows]


def _parts(job: PSDVecJob, workspace: Workspace) -> Iterator[tuple[str, da.Array, Float64s, float]]:
    """Yield the name, the vectors, their mean and the weight of each part that is joined."""
    parts, means, weights = sides.parts_of(workspace), sides.means_of(job, workspace), sides.weights_of(job)
    yield from zip(PARTS, parts, means, map(float, weights), strict=True)
