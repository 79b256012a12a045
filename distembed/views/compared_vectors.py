"""Two workspaces or vector files compared word by word, as text and as a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from distembed.display import plural
from distembed.job.opening import Source, VectorFile, job_of, load_vectors, place_of
from distembed.job.tables import Piece, Table
from distembed.manifold.compared_vectors import AxesMap, ComparedVectors, compare_vectors
from distembed.stages.words import content_words
from distembed.storage.workspace import Workspace
from distembed.vectors import WordVectors
from distembed.views.compared_runs import compared_runs

NO_FLOOR = (
    "An orthogonal map has no noise floor of its own: also words that do not differ lie apart, rare ones the most. "
    'To tell which have changed, run a job of system = "comparison" on the texts (distembed new comparison).'
)
ONE_CORE = (
    "Both were solved against the same core, and were not turned; without the texts there is no noise floor either. "
    'To tell which have changed, run a job of system = "comparison" on the texts (distembed new comparison).'
)
CORES = ("core_vectors",)


class Comparison(NamedTuple):
    """What was compared: its sentences, a row for each word asked for or each that differs most, and all words."""

    sentences: list[str]
    rows: list[dict[str, Any]]
    table: Table


def compare_sources(
    first: Source,
    second: Source,
    *,
    words: Sequence[str] = (),
    n: int = 20,
    n_neighbors: int = 5,
    axes: AxesMap | None = None,
) -> Comparison:
    """Compare the words of two sets of vectors.

    Parameters
    ----------
    first, second : Job, Workspace or VectorFile
    words : sequence of str
        Words that are shown; by default the content words that differ most.
    n : int
        How many are shown by default.
    n_neighbors : int
        Their neighbors on each side.
    axes : {"orthogonal", "none"}, optional
        By default an orthogonal map, unless both were solved against one core.

    Raises
    ------
    ValueError
        If both are one, or they share too few words.
    KeyError
        If a word is not shared.
    """
    places = [place_of(first), place_of(second)]
    if places[0] == places[1]:
        raise ValueError(f"{places[0]} is named twice: compare it with another workspace or file")
    sides = [load_vectors(first), load_vectors(second)]
    is_one_core = axes == "none" or (
        axes is None and _core_of(first) is not None and _core_of(first) == _core_of(second)
    )
    found = compare_vectors(*sides, axes="none" if is_one_core else "orthogonal")
    unknown = next((word for word in words if word not in set(found.words)), None)
    if unknown is not None:
        raise KeyError(f"{unknown!r} is not among the {len(found.words):,} words that both sides have")
    sizes = " and ".join(f"{len(side):,} words x {side.vectors.shape[1]}" for side in sides)
    runs = (
        []
        if isinstance(first, VectorFile) or isinstance(second, VectorFile)
        else compared_runs(job_of(first), job_of(second))
    )
    sentences = [
        *runs,
        f"{sizes}; {plural(len(found.words), 'word')} in both.",
        ONE_CORE if is_one_core else NO_FLOOR,
    ]
    chosen = list(dict.fromkeys(words)) or _most_distant(found, n)
    return Comparison(sentences, _rows(found, chosen, n_neighbors), _table(found))


def _core_of(source: Source) -> str | None:
    """Return the digest of the core of a finished job, None where it has none."""
    if isinstance(source, VectorFile):
        return None
    workspace = Workspace.open(job_of(source).job.workspace)
    records = [
        record
        for done in workspace.stages().values()
        for name, record in done.outputs.items()
        if name in CORES
    ]
    return records[0].digest if records else None


def _most_distant(found: ComparedVectors, n: int) -> list[str]:
    order = np.argsort(-np.nan_to_num(found.distances, nan=-1.0), kind="stable")
    ordered = [found.words[place] for place in order]
    return (content_words(ordered) or ordered)[:n]


def _rows(found: ComparedVectors, words: Sequence[str], n_neighbors: int) -> list[dict[str, Any]]:
    places = {word: place for place, word in enumerate(found.words)}
    return [
        {
            "word": word,
            "distance": float(found.distances[places[word]]),
            "first": _near(found.first, word, n_neighbors),
            "second": _near(found.second, word, n_neighbors),
        }
        for word in words
    ]


def _near(side: WordVectors, word: str, n: int) -> list[str]:
    n = min(n, len(side) - 1)
    return [str(near.word) for near in side.most_similar(word, n=n)] if n and side[[word]].any() else []


def _table(found: ComparedVectors) -> Table:
    batch = pa.record_batch({"word": pa.array(found.words, pa.string()), "distance": found.distances})
    return Table(batch.schema, None, batch.num_rows, [Piece(batch, None)], plural(batch.num_rows, "word"))
