"""Collections of documents: the stages of a corpus for each, and which documents of the first are those of another.

A job has `[collections.NAME]`. Each has stages of its own, those of a corpus with its name before them: a run that
adds a collection, or finds it changed, computes these alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from distembed.counting.documents import count_document_terms
from distembed.execution import compute
from distembed.formats.tables import TableError, cell_text, read_table
from distembed.job.outputs import ArrayOutput
from distembed.job.stage import Context, Counted, StageSpec, sections
from distembed.plan import Dimension, Dimensions
from distembed.stages import corpus, outputs
from distembed.stages.dimensions import described, text_dimensions
from distembed.storage.workspace import Workspace
from distembed.weighting.documents import tf_idf

SIDE_TOKENS = corpus.of_side(outputs.TOKENS, "{side}")
SIDE_DOCUMENTS = replace(
    corpus.of_side(outputs.DOCUMENTS, "{side}"), columns=(*outputs.DOCUMENTS.columns, "excerpt")
)
SIDE_VOCABULARY = corpus.of_side(outputs.VOCABULARY, "{side}")
SIDE_TERMS = ArrayOutput(
    "{side}_terms",
    "tf-idf of each word (column) in each document (row), rows of unit length.",
    dims=("document", "word"),
)
SIDE_OUTPUTS = (SIDE_TOKENS, SIDE_DOCUMENTS, SIDE_VOCABULARY, SIDE_TERMS)


def collection_stages(side: str) -> tuple[StageSpec, ...]:
    """Return the stages of a collection, from its files to the weighted words of its documents."""
    of_terms = sections(terms={"sublinear"}, grid=True)
    inputs = ("tokens", "vocabulary")
    terms = StageSpec("terms", inputs, of_terms, run_terms, corpus.plan_document_terms, counts=True)
    return tuple(
        corpus.of_collection(spec, side)
        for spec in (corpus.TOKENS, corpus.DOCUMENTS, corpus.VOCABULARY, terms)
    )


def collection_dimensions(job: Any, counted: Counted | None) -> Dimensions:
    """Return the dimensions of the collections of a job, the names of each with its own before them, and of all."""
    done = {} if counted is None else counted.stages
    dimensions: dict[str, Dimension] = {}
    for side in job.collections:
        tokens, words = (done.get(corpus.stage_of(kind, side)) for kind in ("tokens", "vocabulary"))
        text = text_dimensions(
            None if tokens is not None else corpus.corpus_of_side(job, side),
            tokens,
            block_memory=job.resources.block_memory,
            output=SIDE_TOKENS.of(side=side).name,
        ).dimensions
        n_words = text["entry"].size if words is None else int(words.facts["n_words"])
        n_terms = min(text["token"].size, n_words * text["document"].size)
        found = text | {
            "candidate": Dimension(text["entry"].size, text["entry"].size, tokens is not None),
            "word": Dimension(n_words, n_words, words is not None),
            "term": Dimension(n_terms, min(n_terms, text["token"].block), words is not None),
        }
        dimensions |= {f"{side}_{name}": dimension for name, dimension in found.items()}
    for name in ("text", "partition", "document", "token", "word", "term"):
        parts = [dimensions[f"{side}_{name}"] for side in job.collections]
        sizes, blocks, known = zip(*parts, strict=True)
        dimensions[name] = Dimension(sum(sizes), max(blocks), all(known))
    return described(dimensions)


# ---- the words of documents -------------------------------------------------------------------------------


def run_terms(ctx: Context, *, side: str) -> dict[str, Any]:
    """Count the words of each document and weigh them by tf-idf."""
    tokens = corpus.tokens_of(ctx.workspace, SIDE_TOKENS.of(side=side))
    vocabulary = corpus.vocabulary_of(ctx.workspace, side=side)
    weighted = tf_idf(
        count_document_terms(tokens, vocabulary),
        frequencies=vocabulary.document_counts,
        n_documents=n_documents_of(ctx.workspace, side),
        sublinear=ctx.job.terms.sublinear,
    )
    output = SIDE_TERMS.of(side=side)
    ctx.store(output, weighted)
    return {"n_filled": int((compute(ctx.stage.row_nonzeros(output.name)) > 0).sum())}


def n_documents_of(workspace: Workspace, side: str) -> int:
    """Return how many documents a collection has."""
    return int(workspace.stages()[corpus.stage_of("tokens", side)].facts["n_documents"])


def ids_of(workspace: Workspace, side: str) -> pa.ChunkedArray:
    """Return the ids of the documents of a collection."""
    batches = workspace.batches(SIDE_DOCUMENTS.of(side=side).name, columns=["id"])
    return pa.chunked_array([batch["id"] for batch in batches], pa.string())


# ---- pairs ------------------------------------------------------------------------------------------------


class Pairs(NamedTuple):
    """Documents that are the same.

    Attributes
    ----------
    rows : int64, (p × 2), of the first and the other collection
    confidence : float64, (p,), in (0, 1]
    known : bool, (p,): given to the method; the others only judge it
    """

    rows: NDArray[np.int64]
    confidence: NDArray[np.float64]
    known: NDArray[np.bool_]


def pair_options(job: Any, side: str) -> dict[str, Any]:
    """Return what says which pairs of the first collection and another are known: its own file, or a share."""
    options: dict[str, Any] = job.pairs.model_dump(mode="json")
    return options | {"path": job.collections[side].pairs}


def find_pairs(
    ids: Mapping[str, pa.ChunkedArray], *, path: str | None, share: float, random_state: int
) -> Pairs:
    """Return the documents that the first collection and another share, from the ids of both by their names.

    Without a file, documents with one id are a pair, and a share of them, drawn, is known. With a file of the
    columns of both names and perhaps `confidence`, its pairs are known, and documents with one id that stand in none of
    them are pairs to judge by.

    Raises
    ------
    ValueError
        If an id occurs twice in a collection, the file names one that is not there, or there is no pair.
    """
    (name, first), (side, other) = ids.items()
    for called, own in ids.items():
        check_unique(own, called)
    rows = rows_of_ids(other, first)
    same = np.column_stack([np.flatnonzero(rows >= 0), rows[rows >= 0]])
    if path is not None:
        columns = pair_columns(path, tuple(ids))
        given = np.column_stack([_rows(path, one, columns[one], own) for one, own in ids.items()])
        free = ~(np.isin(same[:, 0], given[:, 0]) | np.isin(same[:, 1], given[:, 1]))
        known = np.concatenate([np.ones(len(given), bool), np.zeros(free.sum(), bool)])
        weights = np.concatenate([columns["confidence"], np.ones(free.sum())])
        return Pairs(np.concatenate([given, same[free]]), weights, known)
    if not len(same):
        raise ValueError(
            f"no document of the {name} collection (the first is {first[0].as_py()!r}) has the id of one of the {side} "
            f"({other[0].as_py()!r}): name the fields of the ids, or give collections.{side}.pairs, "
            "a table of pairs"
        )
    n_known = max(1, round(share * len(same)))
    known = np.zeros(len(same), bool)
    known[np.random.default_rng(random_state).permutation(len(same))[:n_known]] = True
    return Pairs(same, np.ones(len(same)), known)


def rows_of_ids(ids: pa.ChunkedArray, wanted: Any) -> NDArray[np.int64]:
    """Return the row of each id that is wanted, -1 for one that is none of a collection."""
    wanted = wanted if isinstance(wanted, pa.ChunkedArray) else pa.array(wanted, pa.string())
    rows = pc.fill_null(pc.index_in(wanted, value_set=ids), -1)
    return np.asarray(rows).astype(np.int64)


def check_unique(ids: pa.ChunkedArray, side: str) -> None:
    """Refuse a collection with an id that occurs twice.

    Raises
    ------
    ValueError
        If one does.
    """
    again = np.flatnonzero(rows_of_ids(ids, ids) < np.arange(len(ids)))
    if len(again):
        name = ids[int(again[0])].as_py()
        raise ValueError(f"the id {name!r} occurs twice in the {side} collection: make ids unique")


def pair_columns(path: str, names: Sequence[str]) -> Mapping[str, NDArray[Any]]:
    """Return the columns of a table of pairs, with a confidence in (0, 1] of each: 1 where it gives none.

    Raises
    ------
    TableError
        If it has no column of one of the collections, or a confidence is another.
    """
    columns = {
        name: column.to_numpy() for name, column in read_table(path, has_options=False).columns.items()
    }
    for name in names:
        if name not in columns:
            raise TableError(f"{path} has no column {name!r}; it has {', '.join(map(repr, columns))}")
    cells = columns.get("confidence", np.ones(len(columns[names[0]]))).tolist()
    given = columns["confidence"] = np.array([*map(_number, cells)])
    if len(wrong := np.flatnonzero(~((given > 0) & (given <= 1)))):
        row = int(wrong[0])
        raise TableError(
            f"{path} has the confidence {cells[row]!r} in row {row + 2}: give 0 < confidence <= 1"
        )
    return columns


def _number(cell: Any) -> float:
    """Return a cell of a table as a number, NaN where it is none."""
    try:
        return float(cell)
    except (TypeError, ValueError):
        return np.nan


def check_pairs(job: Any, *, side: str) -> list[str]:
    """Open the table of pairs of the first collection and another, where there is one, and return how many it has."""
    path = job.collections[side].pairs
    if path is None:
        return []
    columns = pair_columns(path, (next(iter(job.collections)), side))
    return [f"{len(columns[side]):,} pairs in {path}"]


def _rows(path: str, side: str, names: NDArray[Any], ids: pa.ChunkedArray) -> NDArray[np.int64]:
    wanted = [cell_text(name) for name in names.tolist()]
    rows = rows_of_ids(ids, wanted)
    if (rows < 0).any():
        absent = wanted[int(np.argmin(rows))]
        raise ValueError(f"{path} names {absent!r}, which is no id of the {side} collection")
    return rows
