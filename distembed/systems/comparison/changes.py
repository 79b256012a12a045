"""Which words differ between two parts of a finished comparison, and by what."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, combinations
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from distembed.corpus.concordance import Passage, find_passages
from distembed.display import plural
from distembed.dtypes import Float64s, Int64s, Mask
from distembed.execution import compute
from distembed.job.tables import MakeTable, Table, paired, rows_of_blocks, table_of, with_numbers
from distembed.linalg.operators import whole_csr
from distembed.stages.corpus import titled_tokens, vocabulary_of
from distembed.stages.words import common_words, content_words
from distembed.storage.workspace import Workspace
from distembed.systems.comparison import outputs
from distembed.systems.comparison.job import ComparisonJob
from distembed.systems.comparison.stages import groups_of_parts, part_counts
from distembed.vectors import WordVectors

CHANGED, LEVEL, UNJUDGED = "changed", "no change seen", "cannot be judged"
"""What is said of a word between two parts."""


class Changes(NamedTuple):
    """What a finished comparison has measured."""

    words: list[str]
    parts: list[str]
    counts: Int64s
    documents: Int64s
    """Occurrences, and documents with the word. Arrays (words, parts)."""
    judged: Mask
    measures: dict[tuple[str, str, str | None], Float64s]
    """Each measure of a part, or of two, for all words."""
    floor: float
    """How many times its noise a change must be."""

    def judge(self, part: str, other: str) -> tuple[Mask, Mask, Float64s]:
        """Return which words can be judged between two parts, which have changed, and the floor of each, (words,)."""
        first, second = (self.parts.index(name) for name in (part, other))
        floor = self.floor * (self.measures["noise", part, None] + self.measures["noise", other, None]) / 2
        change, low = (self.measures[name, part, other] for name in ("change", "low"))
        # Halves of a rare word may all lack it: its change is not measured then.
        is_judged = self.judged[:, first] & self.judged[:, second] & np.isfinite(change)
        return is_judged, is_judged & (change > floor) & (low > 0), floor

    def between(self, part: str, other: str, words: Sequence[int] | None = None) -> dict[str, Any]:
        """Return the columns of two parts: counts, distance, change and its interval, floor and verdict.

        They are those of the words that are given by number, by default of all.
        """
        rows = np.arange(len(self.words)) if words is None else np.array(words, int)
        first, second = (self.parts.index(name) for name in (part, other))
        is_judged, is_changed, floor = (one[rows] for one in self.judge(part, other))
        verdict = np.where(is_changed, CHANGED, np.where(is_judged, LEVEL, UNJUDGED))
        return {
            "word": [self.words[row] for row in rows],
            "part": [part] * len(rows),
            "other": [other] * len(rows),
            "count": self.counts[rows, first],
            "other_count": self.counts[rows, second],
            "documents": self.documents[rows, first],
            "other_documents": self.documents[rows, second],
            **{
                name: self.measures[name, part, other][rows] for name in ("distance", "change", "low", "high")
            },
            "floor": floor,
            "verdict": verdict.tolist(),
        }

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """Each two parts, in their order."""
        return list(combinations(self.parts, 2))


def changes_of(job: ComparisonJob, workspace: Workspace) -> Changes:
    """Return what a finished comparison has measured."""
    counted = part_counts(job, workspace, outputs.WORDS.read(workspace))
    columns = compute(outputs.DIFFERENCES.read(workspace)).astype(np.float64).T
    rows = outputs.MEASURES.read(workspace).to_pylist()
    return Changes(
        list(vocabulary_of(workspace).words),
        counted.names,
        counted.counts,
        counted.documents,
        counted.judged,
        {tuple(row.values()): column for row, column in zip(rows, columns, strict=True)},
        workspace.stages()["differences"].facts["floor"],
    )


def changed_words(changes: Changes) -> list[int]:
    """Return the words that have changed between any two parts, those first that do so by the most above the floor."""
    best = np.full(len(changes.words), -np.inf)
    for part, other in changes.pairs:
        _, is_changed, floor = changes.judge(part, other)
        above = changes.measures["change", part, other] - floor
        best = np.maximum(best, np.where(is_changed, above, -np.inf))
    order = np.argsort(-best, kind="stable")
    return [int(word) for word in order if np.isfinite(best[word])]


# --- both sides of a word --------------------------------------------------------------------------------------


def neighbors_of(
    changes: Changes, workspace: Workspace, words: Sequence[str], n: int
) -> dict[str, dict[str, list[str]]]:
    """Return the nearest words of each word in each part where it can be judged, among those that can be."""
    found: dict[str, dict[str, list[str]]] = {word: {} for word in words}
    n_words, names = len(changes.words), np.array(changes.words, object)
    for place, part in enumerate(changes.parts):
        if not changes.judged[:, place].any():
            continue
        vectors = compute(outputs.PART_VECTORS.read(workspace)[place * n_words : (place + 1) * n_words])
        is_known = changes.judged[:, place] & vectors.any(axis=1)
        space = WordVectors(names[is_known].tolist(), vectors[is_known])
        for word in words:
            if word in space and len(space) > 1:
                near = space.most_similar(word, n=min(n, len(space) - 1))
                found[word][part] = [str(other) for other, _ in near]
    return found


def own_contexts(
    changes: Changes, workspace: Workspace, words: Sequence[int], n: int
) -> dict[str, dict[str, list[str]]]:
    """Return the contexts that each word has in one part more often than in the others: by log-likelihood."""
    n_words, counts, rising = len(changes.words), outputs.GROUP_COUNTS.read(workspace), sorted(words)
    each = [
        sum(
            whole_csr(counts[[group * n_words + word for word in rising]])
            for group in range(own.start, own.stop)
        )
        for own in groups_of_parts(workspace)
    ]
    content = set(content_words(changes.words, common_words(workspace)))
    is_content = np.array([word in content for word in changes.words])
    found: dict[str, dict[str, list[str]]] = {}
    for place, word in enumerate(rising):
        rows, sides = np.concatenate([one[[place]].toarray() for one in each]).astype(np.float64), {}
        for side, part in enumerate(changes.parts):
            values = keyness(rows, side) * is_content
            best = np.argsort(-values, kind="stable")[:n]
            sides[part] = [changes.words[context] for context in best if values[context] > 0]
        found[changes.words[word]] = sides
    return found


def keyness(counts: Float64s, side: int) -> Float64s:
    """Return the log-likelihood by which each context is more frequent on one side than on the others, (contexts,).

    References
    ----------
    Dunning, Accurate methods for the statistics of surprise and coincidence, Computational Linguistics 1993.
    """
    own, rest = counts[side], counts.sum(axis=0) - counts[side]
    total = max(counts.sum(), 1.0)
    expected = (own + rest) * own.sum() / total, (own + rest) * rest.sum() / total
    terms = [
        np.where(x > 0, x * np.log(np.maximum(x, 1e-300) / np.maximum(e, 1e-300)), 0.0)
        for x, e in zip((own, rest), expected, strict=True)
    ]
    return np.where(own > expected[0], 2 * (terms[0] + terms[1]), 0.0)


def passages_of(
    job: ComparisonJob,
    workspace: Workspace,
    contexts: dict[str, dict[str, list[str]]],
    n: int,
) -> dict[str, dict[str, list[Passage]]]:
    """Return passages of each part with each word and the contexts that it has there, at most n of each."""
    tokens, groups = titled_tokens(workspace), outputs.DOCUMENT_GROUPS.read(workspace)["group"].to_numpy()
    names = outputs.PARTS.read(workspace)["part"].to_pylist()
    found: dict[str, dict[str, list[Passage]]] = {word: {} for word in contexts}
    for part, own in zip(names, groups_of_parts(workspace), strict=True):
        pairs = [(word, other) for word, sides in contexts.items() for other in sides.get(part, ())]
        wanted = (groups >= own.start) & (groups < own.stop)
        lines = find_passages(tokens, pairs, window=job.counting.window, n=1, wanted=wanted) if pairs else {}
        for (word, _), passages in lines.items():
            found[word].setdefault(part, []).extend(passages[: n - len(found[word].get(part, []))])
    return found


# --- tables ----------------------------------------------------------------------------------------------------


def changes_table(job: ComparisonJob, workspace: Workspace) -> Table:
    """Return a row for each word between each two parts: counts, distance, change, interval, floor and verdict."""
    changes = changes_of(job, workspace)
    batches = (pa.record_batch(changes.between(*pair)) for pair in changes.pairs)
    first, n_words, n_pairs = next(batches), len(changes.words), len(changes.pairs)
    rows = pa.RecordBatchReader.from_batches(first.schema, chain([first], batches))
    contents = f"{plural(n_words, 'word')} between {plural(n_pairs, 'pair')} of parts"
    return Table(rows, n_words * n_pairs, contents)


def part_words_table(job: ComparisonJob, workspace: Workspace) -> Table:
    """Return each word of each part with its counts, its noise and its vector there."""
    changes, vectors = changes_of(job, workspace), outputs.PART_VECTORS.read(workspace)
    n_words, n_parts = len(changes.words), len(changes.parts)
    columns = {
        "part": np.repeat(changes.parts, n_words).tolist(),
        "word": changes.words * n_parts,
        "count": changes.counts.T.ravel(),
        "documents": changes.documents.T.ravel(),
        "noise": np.concatenate([changes.measures["noise", part, None] for part in changes.parts]),
    }
    table = pa.table(columns)
    pieces = paired(table.to_batches(), rows_of_blocks(vectors))
    rows = with_numbers(table.schema, pieces, "vector", vectors.shape[1])
    return Table(rows, table.num_rows, f"{plural(n_words, 'word')} in {plural(n_parts, 'part')}")


def parts_table(job: ComparisonJob, workspace: Workspace) -> Table:  # noqa: ARG001 - the same for every job
    """Return the documents, files and tokens of each part."""
    table = outputs.PARTS.read(workspace)
    return table_of(table, plural(table.num_rows, "part"))


TABLES: dict[str, MakeTable] = {"changes": changes_table, "words": part_words_table, "parts": parts_table}
"""What a comparison exports, by the name that `--what` takes."""
