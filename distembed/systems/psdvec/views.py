"""The report of a PSDVec job, and the last lines that its run prints, made from a finished workspace."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import dask.array as da
import numpy as np

from distembed.display import MAX_ROWS, plural
from distembed.evaluation import words as evaluation
from distembed.execution import compute
from distembed.factorization.join_blocks import centered_directions
from distembed.job.stage import SUBWORDS
from distembed.job.terminal import neighbor_line, safe_scores
from distembed.lift import lift
from distembed.stages.corpus import omissions, vocabulary_of
from distembed.stages.outputs import EVALUATION
from distembed.stages.words import (
    common_words,
    content_words,
    judged_vectors,
    lacking_facts,
    lacking_line,
    shown_scores,
    values_by_name,
    words_shown,
)
from distembed.storage.workspace import Workspace
from distembed.systems.psdvec import outputs, stages
from distembed.systems.psdvec.job import METHOD, FileView, PSDVecJob
from distembed.vectors import WordVectors
from distembed.views import report
from distembed.views.explain import Asked, Explanation, TermTable, explain_words

VIEW_WORDS = 5
"""Words of the report whose neighbors in each view are shown, at most."""
VIEW_NEIGHBORS = 5


def page(job: PSDVecJob, workspace: Workspace) -> str:
    """Return the report of a finished workspace as one HTML page."""
    vectors = judged_vectors(job, workspace)
    done = workspace.stages()
    tokens = done["tokens"].facts
    vocabulary, counts = (done[name].facts for name in ("vocabulary", "cooccurrence"))
    shape = workspace.describe("vectors").spec.shape
    return report.render_report(
        job.job.title,
        f"{shape[0]:,} words x {shape[1]} dimensions by PSDVec; content digest {workspace.digest()}.",
        _sections(job, workspace, vectors),
        facts={
            "documents": tokens.get("n_documents", 0),
            "tokens": tokens.get("n_tokens", 0),
            "words": vocabulary["n_words"],
            "pairs": counts["n_nonzero"],
            **_subword_facts(done[SUBWORDS].facts if job.subwords.enabled else {}),
            **omissions(tokens),
            **lacking_facts(job, workspace),
        },
        invitation=report.invitation(workspace),
    )


def closing_text(job: PSDVecJob, workspace: Workspace, where: str) -> str:
    """Return the evaluation table, the neighbors of the job's words and the place of the report."""
    vectors = judged_vectors(job, workspace)
    scores = shown_scores(workspace, EVALUATION)
    table = evaluation.format_scores(safe_scores(scores[:MAX_ROWS])) if scores else ""
    if len(scores) > MAX_ROWS:
        table += f"\n{plural(len(scores) - MAX_ROWS, 'more score')} in the report"
    near = "\n".join(neighbor_line(word, found) for word, found in neighbors(job, workspace, vectors).items())
    parts = (table, near, lacking_line(job, workspace), report.ways_on(workspace, where))
    return "\n\n".join(part for part in parts if part)


def neighbors(
    job: PSDVecJob, workspace: Workspace, vectors: WordVectors
) -> dict[str, list[tuple[str, float]]]:
    """Return the nearest words of each word the job names and the vocabulary knows, else of content words."""
    words = words_shown(job.report.words, vectors.words, common_words(workspace))
    n = min(job.report.n_neighbors, len(vectors) - 1)
    return {
        word: [(str(other), float(cosine)) for other, cosine in vectors.most_similar(word, n=n)] if n else []
        for word in words
    }


def _subword_facts(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the report says of the n-grams; nothing where none were learned."""
    if not facts:
        return {}
    explained = facts["explained"]
    return {
        "n-grams with a vector": facts["n_ngrams"],
        **({} if explained is None else {"variance of held-out words in their n-grams": f"{explained:.1%}"}),
    }


def _sections(job: PSDVecJob, workspace: Workspace, vectors: WordVectors) -> list[report.Section]:
    counts = np.asarray(workspace.table("vocabulary")["count"])
    row_nonzeros = np.asarray(workspace.table("row_nonzeros")["n_nonzero"])
    drawn = content_words(vectors.words, common_words(workspace))[: job.report.n_map_words]
    scores = shown_scores(workspace, EVALUATION)
    ours = values_by_name(scores)
    return [
        report.neighbor_table(neighbors(job, workspace, vectors)),
        *_map(vectors, drawn),
        report.score_sections(scores),
        *report.paper_tables(job, {METHOD: ours}, rows=[METHOD], columns=ours),
        *_views(job, workspace, vectors),
        report.objective_curve(np.asarray(outputs.OBJECTIVE.read(workspace)["weighted_squared_error"])),
        report.eigenvalue_spectrum(np.asarray(outputs.EIGENVALUES.read(workspace)["eigenvalue"])),
        report.zipf_curve(counts),
        report.count_sparsity(row_nonzeros, len(counts)),
        report.stage_table(report.stage_rows(stages.stages(job), workspace)),
        report.parameter_table(job.model_dump(mode="json")),
        report.source_table(workspace),
    ]


def _map(vectors: WordVectors, drawn: list[str]) -> list[report.Section]:
    """Draw the most frequent words that say what a text is about, if there are any."""
    if not drawn:
        return []
    title, noun = "Map of frequent content words", "most frequent content word"
    return [report.word_map(drawn, vectors[drawn], title=title, noun=noun)]


def _views(job: PSDVecJob, workspace: Workspace, vectors: WordVectors) -> list[report.Section]:
    """Show how each view is made, and the words that it makes nearest to some of the report's, if there are views."""
    if not job.views:
        return []
    asked = words_shown(job.report.words, vectors.words, common_words(workspace))[:VIEW_WORDS]
    caption = (
        "What each view makes near: the same words have other neighbors in another view, and the joined vectors weigh "
        "all of them. A word without a vector in a view has no neighbors there."
    )
    return [report.table("Views", view_neighbors(job, workspace, asked), caption=caption)]


def view_neighbors(job: PSDVecJob, workspace: Workspace, asked: Sequence[str]) -> list[dict[str, Any]]:
    """Return how each view is made, its words with a vector, and the nearest of each word; one view is in memory."""
    rows, words = [], np.array(vocabulary_of(workspace).words, object)
    sections = {"psdvec": job.counting, **job.views}
    parts, means = _parts(job, workspace)
    for (name, section), part, mean, weight in zip(
        sections.items(), parts, means, stages.weights_of(job), strict=True
    ):
        directions = np.asarray(compute(lift(centered_directions, "wc,c->wc", part, mean).astype(np.float32)))
        is_there = directions.any(axis=1)
        space = WordVectors(words[is_there].tolist(), directions[is_there])
        row = {"view": name, "made_of": _made_of(section), "components": directions.shape[1]}
        near = {word: space.most_similar(word, n=VIEW_NEIGHBORS) if word in space else [] for word in asked}
        rows.append(
            {**row, "weight": float(weight), "words": len(space)}
            | {word: ", ".join(found.word for found in each) or None for word, each in near.items()}
        )
    return rows


def _made_of(section: Any) -> str:
    """Return what a view is made of, in words."""
    if isinstance(section, FileView):
        return "finished vectors"
    counting = section.counting_options()
    return f"counts: window {counting.window}, {counting.direction}, {counting.weighting}"


def _parts(job: PSDVecJob, workspace: Workspace) -> tuple[list[da.Array], list[np.ndarray]]:
    """Return the vectors that are joined, lazily, and the mean of each."""
    parts = stages.parts_of(job, workspace)
    bounds = np.cumsum([part.shape[1] for part in parts])[:-1]
    return parts, np.split(np.asarray(compute(outputs.JOINED_MEANS.read(workspace))), bounds)


def explain(job: PSDVecJob, workspace: Workspace, asked: Asked) -> Explanation:
    """Explain the cosine of two words by their contexts, and by the views of the job where it has any."""
    found = explain_words(workspace, asked, window=job.counting.window)
    if not job.views or len(asked.names) == 1:
        return found
    rows = view_rows(job, workspace, asked.names)
    nearest = max(rows, key=lambda row: row["part"])
    sentence = (
        f"Of the views that are joined, {nearest['view']} makes the words nearest: {nearest['part']:.3f} of a joined "
        f"cosine of {sum(row['part'] for row in rows):.3f}."
    )
    if kept := job.join.n_components:
        whole = sum(part.shape[1] for part in stages.parts_of(job, workspace))
        sentence += f" These are parts of all {whole} components, of which [join] n_components keeps {kept} afterwards."
    total = {"view": "joined", "part": sum(row["part"] for row in rows)}
    caption = (
        "Each part is the cosine in a view times its weight squared over the sum of these; parts add up."
    )
    if job.subwords.enabled and job.subwords.weight:
        caption += " The spelling of the words is added to the joined vectors afterwards."
    table = TermTable("views", [*rows, total], {"cosine": 3, "part": 3}, caption)
    return found._replace(sentences=[*found.sentences, sentence], tables=[table, *found.tables])


def view_rows(job: PSDVecJob, workspace: Workspace, words: Sequence[str]) -> list[dict[str, Any]]:
    """Return the cosine of two words in each view, its weight, and its part of the cosine of the joined vectors."""
    pair = vocabulary_of(workspace).index(list(words))
    lazy, means = _parts(job, workspace)
    parts = [np.asarray(compute(part[pair]), np.float64) for part in lazy]
    weights = np.array(stages.weights_of(job))
    directions = [centered_directions(part, mean) for part, mean in zip(parts, means, strict=True)]
    lengths = np.sqrt(sum(w**2 * (each**2).sum(axis=1) for w, each in zip(weights, directions, strict=True)))
    return [
        {
            "view": name,
            "weight": float(weight),
            "cosine": float(first @ second),
            "part": float(weight**2 * (first @ second) / max(lengths[0] * lengths[1], 1e-300)),
        }
        for name, weight, (first, second) in zip(["psdvec", *job.views], weights, directions, strict=True)
    ]
