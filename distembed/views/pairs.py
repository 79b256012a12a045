"""Pairs of words with their cosines: a list of one's own, with columns added, for R and spreadsheets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from scipy.stats import spearmanr

from distembed.display import plural
from distembed.evaluation.similarity_files import Roles, guess_columns, parse_number
from distembed.evaluation.wordsets import SimilaritySet, stem
from distembed.formats.tables import read_table, texts_of
from distembed.job.opening import Source, VectorFile, job_of, load_vectors
from distembed.job.tables import Piece, Table
from distembed.stages.outputs import VOCABULARY
from distembed.storage.workspace import Workspace
from distembed.vectors import WordVectors
from distembed.views.export import table_format, write_table

ROLES = ("word1", "word2", "score")
GUESSED_ROWS = 20
"""Rows from which columns are detected."""

ADDED = ("cosine", "count1", "count2", "unknown")
"""The columns that are added to those of the list."""


class PairTable(NamedTuple):
    """The columns of a list, and what they are taken for."""

    columns: dict[str, list[str]]
    roles: Roles


def read_pairs(path: str, columns: Mapping[str, str]) -> PairTable:
    """Read a list of pairs with a header or without, and tell its columns.

    Parameters
    ----------
    path : str
        A CSV file of any delimiter, or a Parquet file.
    columns : mapping of str to str
        The names of columns, by "word1", "word2" and "score"; those that are not given are guessed.

    Raises
    ------
    ValueError
        If a column is not there, or no two columns of words are found.
    """
    found = {name: texts_of(column) for name, column in read_table(path).columns.items()}
    if any(parse_number(name) is not None for name in found):  # the first row is no header
        names = ["word1", "word2", *(f"column{number}" for number in range(3, len(found) + 1))]
        cells = zip(names, found.items(), strict=True)
        found = {name: [first, *values] for name, (first, values) in cells}
    for role, name in columns.items():
        if role not in ROLES or name not in found:
            asked, known = (role, ROLES) if role not in ROLES else (name, tuple(found))
            raise ValueError(f"--columns {role}={name}: there is no {asked} among {', '.join(known)}")
    own = [name for name in found if name not in ADDED]
    rows = list(islice(zip(*(found[name] for name in own), strict=True), GUESSED_ROWS))
    roles = {**({} if {"word1", "word2"} <= columns.keys() else guess_columns(own, rows)), **columns}
    if roles["word1"] == roles["word2"]:
        raise ValueError(
            f"both words are taken from the column {roles['word1']!r}: give --columns word1=NAME,word2=NAME"
        )
    return PairTable(found, roles)


def scored_pairs(path: str, columns: Mapping[str, str]) -> SimilaritySet:
    """Return the pairs of a list that have a score, as an evaluation set.

    Raises
    ------
    ValueError
        As `read_pairs`, or if no column of scores is found.
    """
    table = read_pairs(path, columns)
    if "score" not in table.roles:
        raise ValueError(f"{path} has no column that is surely the score: give --columns score=NAME")
    first, second, texts = (table.columns[table.roles[role]] for role in ROLES)
    found = zip(first, second, map(parse_number, texts), strict=True)
    rows = [row for row in found if row[0] and row[1] and row[2] is not None]
    if not rows:
        raise ValueError(
            f"{path} has no pair with a number in the column {table.roles['score']!r}: name another"
        )
    pairs, scores = [row[:2] for row in rows], [row[2] for row in rows]
    return SimilaritySet(stem(Path(path)), pairs, np.array(scores, np.float64))


def write_similarities(source: Source, path: str, target: str, columns: Mapping[str, str]) -> str:
    """Write the columns of a list of pairs with their cosines, counts and unknown words; return what was done in words.

    Raises
    ------
    ValueError
        If the format of the target cannot be detected, or the columns of the list.
    """
    chosen = table_format(target)
    if chosen is None:
        raise ValueError(
            f"the format of {target} cannot be detected from its name: end it in .csv, .tsv or .parquet"
        )
    table = read_pairs(path, columns)
    words = [table.columns[table.roles[role]] for role in ("word1", "word2")]
    vectors = load_vectors(source)
    rows = [vectors.index([_spelling(vectors, word) for word in side]) for side in words]
    cosines = _cosines(vectors, rows)
    unknown = [
        " ".join(word for word, row in zip(pair, places, strict=True) if row < 0)
        for pair, places in zip(zip(*words, strict=True), zip(*rows, strict=True), strict=True)
    ]
    own = {name: values for name, values in table.columns.items() if name not in ADDED}
    added = {
        "cosine": pa.array(cosines, from_pandas=True),
        **_counts(source, vectors, rows),
        "unknown": unknown,
    }
    batch = pa.record_batch({**own, **added})
    contents = f"{plural(batch.num_rows, 'pair')} with cosines"
    write_table(
        target, Table(batch.schema, None, batch.num_rows, [Piece(batch, None)], contents), format=chosen
    )
    taken = ", ".join(f"{role}: {name}" for role, name in table.roles.items())
    n_unknown = sum(map(bool, unknown))
    lacking = f"; {plural(n_unknown, 'pair')} with a word that has no vector" if n_unknown else ""
    return f"{taken}\n{contents} in {target}{lacking}{_correlation(table, cosines)}"


def _spelling(vectors: WordVectors, word: str) -> str:
    """Return a word as the vectors have it: as it is written, with underscores for spaces, or in lower case."""
    spellings = (word, word.replace(" ", "_"), word.lower(), word.lower().replace(" ", "_"))
    return next((one for one in spellings if one in vectors), word)


def _cosines(vectors: WordVectors, rows: Sequence[NDArray[np.int64]]) -> NDArray[np.float64]:
    """Return the cosine of each pair; NaN where a word has no vector."""
    pairs = np.stack(rows, axis=1)
    known = (pairs >= 0).all(axis=1)
    found = np.full(len(pairs), np.nan)
    found[known] = vectors.similarities(pairs[known])
    return found


def _counts(source: Source, vectors: WordVectors, rows: Sequence[NDArray[np.int64]]) -> dict[str, pa.Array]:
    """Return how often the words of each pair occur, where a job counted them."""
    if isinstance(source, VectorFile):
        return {}
    workspace = Workspace.open(job_of(source).job.workspace)
    if "vocabulary" not in workspace.stages():
        return {}
    table = VOCABULARY.read(workspace)
    counts = dict(zip(table["word"].to_pylist(), table["count"].to_pylist(), strict=True))
    of_rows = [counts.get(word) for word in vectors.words] + [None]  # the last is that of row -1
    return {
        f"count{side}": pa.array([of_rows[row] for row in places.tolist()], pa.int64())
        for side, places in enumerate(rows, 1)
    }


def _correlation(table: PairTable, cosines: NDArray[np.float64]) -> str:
    """Return Spearman's correlation of the cosines with the scores of a list, "" where it has none."""
    if "score" not in table.roles:
        return ""
    scores = np.array([parse_number(text) for text in table.columns[table.roles["score"]]], np.float64)
    known = ~np.isnan(cosines) & ~np.isnan(scores)
    if known.sum() < 3:
        return "\nfewer than 3 pairs with a cosine and a score: no correlation"
    value = spearmanr(cosines[known], scores[known]).statistic
    return f"\nSpearman's correlation with {table.roles['score']}: {value:.3f} ({plural(int(known.sum()), 'pair')})"
