"""The scores of word vectors and the neighbors of words: how stages store them and reports read them.

The evaluation is imported by the stages that use it: scipy.stats takes a second.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from typing import Any

import dask.array as da
import numpy as np
import scipy.sparse as sp

from distembed.corpus.stop_words import function_words
from distembed.evaluation.scoring import Score
from distembed.evaluation.sparse_space import SparseSpace, nearest_words
from distembed.evaluation.words import evaluate_sets, score_records
from distembed.evaluation.wordsets import EvaluationSet, FoundSets
from distembed.execution import compute
from distembed.job.model import check_figures
from distembed.job.outputs import FileOutput
from distembed.job.stage import Context
from distembed.linalg.operators import count_values, whole_csr
from distembed.neighbors.graphs import row_is_used
from distembed.stages.outputs import VOCABULARY
from distembed.storage.workspace import Workspace
from distembed.vectors import WordVectors
from distembed.vectors.rows import other_cases

COMMON_SHARE = 0.5
"""A word in a larger share of the documents is taken for a stop word, in any language."""
FEWEST_DOCUMENTS = 20
"""Of fewer documents such a share says nothing."""


def content_words(words: Sequence[str], common: frozenset[str] = frozenset()) -> list[str]:
    """Return the words, by falling frequency, that are no stop words of their language, common ones or letters."""
    left_out = function_words(words) | common
    return [word for word in words if len(word) > 1 and word not in left_out and word.lower() not in left_out]


def common_words(workspace: Workspace) -> frozenset[str]:
    """Return the words that stand in most documents of a job, none where it does not know in how many."""
    done = workspace.stages()
    n_documents = done["tokens"].facts.get("n_documents", 0) if "tokens" in done else 0
    if n_documents < FEWEST_DOCUMENTS or "document_count" not in workspace.schema("vocabulary").names:
        return frozenset()
    table = VOCABULARY.read(workspace)
    is_common = table["document_count"].to_numpy() > COMMON_SHARE * n_documents
    return frozenset(table["word"].filter(is_common).to_pylist())


WORDS_SHOWN = 5
"""Words whose neighbors are shown where the job names none."""

LISTED_ZERO_WORDS = 20
"""Words without a value in a space that are named."""

LACKING = "report.words without a vector"
"""What the report and the end of a run call words that they cannot show."""

Nearest = dict[str, list[tuple[str, float]]]
"""The nearest words of some words, with their cosines."""


def check_figures_of_scores(job: Any, rows: Sequence[str], sets: Sequence[EvaluationSet]) -> None:
    """Refuse figures of a paper beside which no score of some sets will stand.

    What the scores are called does not depend on the vectors: any two words are enough.
    """
    if job.paper:
        scores = evaluate_sets(WordVectors(["a", "b"], np.eye(2, dtype=np.float32)), sets)
        check_figures(job, rows, [*values_by_name(scores)])


def values_by_name(scores: Iterable[Score]) -> dict[str, float]:
    """Return the value of each score by the names of its set and metric."""
    return {f"{score.set} {score.metric}": score.value for score in scores}


def set_lines(found: FoundSets) -> list[str]:
    """Return the names of the evaluation sets that were found, and which files were passed over."""
    names = ", ".join(word_set.name for word_set in found.sets)
    return [f"sets: {names}", *([found.omissions] if found.omissions else [])]


def store_scores(ctx: Context, output: FileOutput, scores: Sequence[Score]) -> None:
    """Store scores as JSON."""
    _store_json(ctx, output, score_records(scores))


def read_scores(workspace: Workspace, output: FileOutput) -> list[Score]:
    """Return the scores of a finished workspace."""
    return [
        Score(
            **{
                **row,
                "value": math.nan if row["value"] is None else row["value"],
                "interval": None if row["interval"] is None else tuple(row["interval"]),
            }
        )
        for row in json.loads(workspace.read_bytes(output.name))
    ]


def shown_scores(workspace: Workspace, output: FileOutput) -> list[Score]:
    """Return the scores of a finished workspace as a report shows them."""
    return [score.in_report for score in read_scores(workspace, output)]


def store_nearest(ctx: Context, output: FileOutput, space: da.Array) -> None:
    """Store the neighbors in a space of the report's words that are known, else of the first content words."""
    words = VOCABULARY.read(ctx.workspace)["word"].to_pylist()
    asked = words_shown(ctx.job.report.words, words, common_words(ctx.workspace))
    _store_json(ctx, output, nearest_words(space, words, asked, n=ctx.job.report.n_neighbors))


def read_nearest(workspace: Workspace, output: FileOutput) -> Nearest:
    """Return the neighbors of words that a finished workspace stores."""
    found: Nearest = json.loads(workspace.read_bytes(output.name))
    return found


def words_shown(asked: Iterable[str], words: Sequence[str], common: frozenset[str]) -> list[str]:
    """Return the words asked for that are known, each once; where none is, the first few content words, or any."""
    known = set(words)
    named = [word for word in dict.fromkeys(asked) if word in known]
    return named or content_words(words, common)[:WORDS_SHOWN] or list(words[:WORDS_SHOWN])


def lacking_facts(job: Any, workspace: Workspace) -> dict[str, str]:
    """Return what a report shows of words that it was asked for and that have no vector: one entry, or none.

    A word that the vocabulary has in another case is named with that spelling.
    """
    known = set(VOCABULARY.read(workspace)["word"].to_pylist())
    lacking = []
    for word in dict.fromkeys(job.report.words):
        others = [other for other in other_cases(word) if other in known]
        if word not in known:
            lacking.append(f"{word} (there is {others[0]})" if others else word)
    return {LACKING: ", ".join(lacking)} if lacking else {}


def space_facts(workspace: Workspace, space: da.Array) -> dict[str, Any]:
    """Return how many values a space stores, and its words whose row is zeros: no evaluation tells anything of them."""
    words = VOCABULARY.read(workspace)["word"]
    rows = np.flatnonzero(~row_is_used(space, "cosine"))
    first = [words[int(row)].as_py() for row in rows[:LISTED_ZERO_WORDS]]
    n_values = count_values(space) if sp.issparse(space._meta) else space.shape[0] * space.shape[1]
    return {"n_values": n_values, "n_zero_words": int(rows.size), "zero_words": ", ".join(first)}


def in_memory(
    words: Sequence[str], space: da.Array, tested: Iterable[str] | None
) -> WordVectors | SparseSpace:
    """Return a space: whole (`tested` None), or a sparse one with the rows of the tested words alone.

    A word counts as tested if a tested word has the same lower-case form.
    """
    if tested is None:
        held = compute(space)
        return SparseSpace(words, held, is_whole=True) if sp.issparse(held) else WordVectors(words, held)
    wanted = {word.lower() for word in tested}
    rows = np.array([row for row, word in enumerate(words) if word.lower() in wanted], dtype=np.int64)
    matrix = whole_csr(space[rows]) if rows.size else sp.csr_array((0, space.shape[1]))
    return SparseSpace([words[row] for row in rows], matrix)


def _store_json(ctx: Context, output: FileOutput, value: Any) -> None:
    ctx.stage.store_bytes(output.name, json.dumps(value, indent=1, sort_keys=True).encode() + b"\n")
