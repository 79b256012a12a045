"""Lists of word pairs whose columns are named or guessed: a list of one's own as an evaluation set."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from pathlib import Path

import numpy as np

from distembed.evaluation.similarity_files import guess_columns, parse_number
from distembed.evaluation.wordsets import SimilaritySet, stem
from distembed.files import read_head
from distembed.formats.delimited import delimiter_of
from distembed.formats.encodings import HEAD_BYTES
from distembed.formats.tables import is_text, read_table, texts_of

ROLES = ("word1", "word2", "score")
GUESSED_ROWS = 20
"""Rows from which columns are detected."""


def read_pairs(path: str, columns: Mapping[str, str], *, needs_scores: bool = True) -> SimilaritySet:
    """Return the pairs of a list as an evaluation set.

    Parameters
    ----------
    path : str
        A CSV file of any delimiter, with a header or without, or a Parquet file.
    columns : mapping of str to str
        The names of columns, by "word1", "word2" and "score"; those that are not given are guessed.
    needs_scores : bool
        Whether pairs without a score are left out, and a list without any is an error; else their score is NaN.

    Raises
    ------
    ValueError
        If a column is not there, or no two columns of words or no scores are found.
    """
    delimiter = (
        delimiter_of(read_head(path, HEAD_BYTES).decode(errors="ignore"), path) if is_text(path) else None
    )
    table = read_table(path, delimiter=delimiter)
    found = {name: texts_of(column) for name, column in table.columns.items()}
    if any(parse_number(name) is not None for name in found):  # the first row is no header
        names = ["word1", "word2", *(f"column{number}" for number in range(3, len(found) + 1))]
        cells = zip(names, found.items(), strict=True)
        found = {name: [first, *values] for name, (first, values) in cells}
    for role, name in columns.items():
        if role not in ROLES or name not in found:
            asked, known = (role, ROLES) if role not in ROLES else (name, tuple(found))
            raise ValueError(f"--columns {role}={name}: there is no {asked} among {', '.join(known)}")
    rows = list(islice(zip(*found.values(), strict=True), GUESSED_ROWS))
    guessed = {} if {"word1", "word2"} <= columns.keys() else guess_columns(list(found), rows)
    roles = {**guessed, **columns}
    if roles["word1"] == roles["word2"]:
        raise ValueError(
            f"both words are taken from the column {roles['word1']!r}: give --columns word1=NAME,word2=NAME"
        )
    if needs_scores and "score" not in roles:
        raise ValueError(f"{path} has no column that is surely the score: give --columns score=NAME")
    pairs = zip(found[roles["word1"]], found[roles["word2"]], strict=True)
    texts = found[roles["score"]] if "score" in roles else [""] * len(found[roles["word1"]])
    scores = np.array([parse_number(text) for text in texts], np.float64)
    kept = [(pair, score) for pair, score in zip(pairs, scores.tolist(), strict=True) if all(pair)]
    if needs_scores:
        kept = [(pair, score) for pair, score in kept if not np.isnan(score)]
        if not kept:
            raise ValueError(
                f"{path} has no pair with a number in the column {roles['score']!r}: name another"
            )
    return SimilaritySet(stem(Path(path)), [pair for pair, _ in kept], np.array([score for _, score in kept]))
