"""The report of a PSDVec job, and the last lines that its run prints, made from a finished workspace."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from distembed.evaluation import bias
from distembed.evaluation import words as evaluation
from distembed.job.terminal import neighbor_line, safe_scores
from distembed.job.word_vectors import SUBWORDS
from distembed.stages.corpus import omissions
from distembed.stages.outputs import EVALUATION
from distembed.stages.words import (
    common_words,
    content_words,
    judged_vectors,
    lacking_facts,
    lacking_line,
    shown_scores,
    words_shown,
)
from distembed.storage.workspace import Workspace
from distembed.systems.psdvec import outputs, stages
from distembed.systems.psdvec.job import PSDVecJob
from distembed.vectors import WordVectors
from distembed.views import report
from distembed.views.explain import Asked, Explanation, explain_words


def page(job: PSDVecJob, workspace: Workspace) -> str:
    """Return the report of a finished workspace as one HTML page."""
    vectors = judged_vectors(job, workspace)
    return report.render_report(
        job.job.title,
        _summary(workspace),
        _sections(job, workspace, vectors),
        facts=_facts(job, workspace),
        invitation=report.invitation(workspace),
    )


def closing_text(job: PSDVecJob, workspace: Workspace, where: str) -> str:
    """Return the evaluation table, the neighbors of the job's words and the place of the report."""
    vectors = judged_vectors(job, workspace)
    scores = shown_scores(workspace, EVALUATION)
    table = evaluation.format_scores(safe_scores(scores)) if scores else ""
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


def _facts(job: PSDVecJob, workspace: Workspace) -> dict[str, Any]:
    done = workspace.stages()
    tokens, vocabulary, counts = (done[name].facts for name in ("tokens", "vocabulary", "cooccurrence"))
    return {
        "documents": tokens.get("n_documents", 0),
        "tokens": tokens.get("n_tokens", 0),
        "words": vocabulary["n_words"],
        "pairs": counts["n_nonzero"],
        **_subword_facts(done[SUBWORDS].facts if job.subwords.enabled else {}),
        **omissions(tokens),
        **lacking_facts(job, workspace),
    }


def _subword_facts(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the report says of the n-grams; nothing where none were learned."""
    if not facts:
        return {}
    explained, collisions = facts["explained"], facts["n_collisions"]
    return {
        "n-grams with a vector": facts["n_ngrams"],
        **({"n-grams that share a bucket with another": collisions} if collisions else {}),
        **({} if explained is None else {"variance of held-out words in their n-grams": f"{explained:.1%}"}),
    }


def _summary(workspace: Workspace) -> str:
    shape = workspace.describe("vectors").spec.shape
    return f"{shape[0]:,} words x {shape[1]} dimensions by PSDVec; content digest {workspace.digest()}."


def _sections(job: PSDVecJob, workspace: Workspace, vectors: WordVectors) -> list[report.Section]:
    counts = np.asarray(workspace.table("vocabulary")["count"])
    row_nonzeros = np.asarray(workspace.table("row_nonzeros")["n_nonzero"])
    drawn = content_words(vectors.words, common_words(workspace))[: job.report.n_map_words]
    return [
        report.score_sections(shown_scores(workspace, EVALUATION)),
        *_map(vectors, drawn),
        report.neighbor_table(neighbors(job, workspace, vectors)),
        *bias_audit(job, vectors),
        report.objective_curve(np.asarray(outputs.OBJECTIVE.read(workspace)["weighted_squared_error"])),
        report.eigenvalue_spectrum(np.asarray(outputs.EIGENVALUES.read(workspace)["eigenvalue"])),
        report.zipf_curve(counts),
        report.count_sparsity(row_nonzeros, len(counts)),
        report.stage_table(report.stage_rows(stages.stages(job), workspace)),
        report.parameter_table(job.model_dump(mode="json")),
    ]


def _map(vectors: WordVectors, drawn: list[str]) -> list[report.Section]:
    """Draw the most frequent words that say what a text is about, if there are any."""
    if not drawn:
        return []
    title, noun = "Map of frequent content words", "most frequent content word"
    return [
        report.word_map(drawn, vectors[drawn], title=title, method="tsne", max_words=len(drawn), noun=noun)
    ]


def bias_audit(job: PSDVecJob, vectors: WordVectors) -> list[report.Section]:
    """Show the tests of bias whose words are known, if there are any."""
    found = [each for each in bias.weat(vectors, case=job.evaluation.case) if each.n_partitions]
    if not found:
        return []
    caption = (
        "Word-Embedding Association Test: whether the first targets are nearer to the first attributes than the second "
        "are. The effect size lies between -2 and 2, and 0 is none; p is the chance that a random partition of the "
        "targets differs as much. Caliskan, Bryson and Narayanan (2017). In lower case a name may be another word, too."
    )
    return [report.table("Bias audit", bias.association_rows(found), caption=caption)]


def explain(job: PSDVecJob, workspace: Workspace, asked: Asked) -> Explanation:
    """Explain the cosine of two words; see `distembed.views.explain.explain_words`."""
    return explain_words(workspace, asked, window=job.counting.window)
