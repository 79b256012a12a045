"""The items of word sets, each with its score: what the scores of sets are made of."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import zip_longest

import numpy as np
import pyarrow as pa

from distembed.dtypes import Float64s, Mask
from distembed.evaluation.scoring import Policy, Space, known_and_used, known_cosines, row_table
from distembed.evaluation.words import (
    choice_credits,
    right_answers,
    with_composed_words,
    words_in_majority,
)
from distembed.evaluation.wordsets import (
    AnalogySet,
    AntonymSet,
    AssociationSet,
    CategorySet,
    PrimingSet,
    SimilaritySet,
    SynonymSet,
    WordSet,
)
from distembed.vectors import WordVectors

TASKS: dict[type, str] = {
    SimilaritySet: "similarity",
    AnalogySet: "analogy",
    SynonymSet: "synonym",
    CategorySet: "categorization",
    AssociationSet: "normed priming",
    PrimingSet: "priming",
    AntonymSet: "antonyms",
}


def item_table(
    candidates: Mapping[str, WordVectors], sets: Iterable[WordSet], policy: Policy
) -> pa.RecordBatch:
    """Return every item of some word sets with its score, a row for each item and candidate.

    Parameters
    ----------
    candidates : mapping of str to WordVectors
        The vectors by their names.
    sets : iterable of word sets
        The sets.
    policy : Policy
        How words are looked up.

    Returns
    -------
    pyarrow.RecordBatch
        The columns are `vectors`, `set`, `task`, `word1` and so on (of a category the word and its category), `value`
        (the human score of a pair, the share of people who gave an answer), `score` (the cosine of a pair; 1 or 0 for
        an analogy that 3CosAdd answers or not, the credit for a synonym, 1 or 0 for a word in a cluster of its
        category or not) and `known`. An item with an unknown word has no score, unless the word was composed.
    """
    rows = [
        (name, word_set.name, TASKS[type(word_set)], words, value, score, known)
        for word_set in sets
        for name, vectors in candidates.items()
        for words, value, score, known in _items(vectors, word_set, policy)
    ]
    names, set_names, tasks, words, values, scores, known = zip(*rows, strict=True) if rows else ((),) * 7
    columns = {f"word{n}": pa.array(column, pa.string()) for n, column in enumerate(zip_longest(*words), 1)}
    return pa.record_batch(
        {
            "vectors": pa.array(names, pa.string()),
            "set": pa.array(set_names, pa.string()),
            "task": pa.array(tasks, pa.string()),
            **columns,
            "value": pa.array(values, pa.float64(), from_pandas=True),
            "score": pa.array(scores, pa.float64(), from_pandas=True),
            "known": pa.array(known, pa.bool_()),
        }
    )


def _items(
    vectors: WordVectors, word_set: WordSet, policy: Policy
) -> Iterable[tuple[tuple[str, ...], float, float, bool]]:
    """Return the words of each item, its human score, its score by the vectors, and whether its words are known."""
    composes = policy.unknown == "subwords"
    policy = policy.for_words(vectors.words)._replace(unknown="skip")
    if composes:
        own, extended = with_composed_words(vectors, word_set, policy)
        answered, scores = _scores(extended, word_set, policy)
        known = np.zeros_like(answered) if own is None else _scores(own, word_set, policy)[0]
    else:
        answered, scores = _scores(vectors, word_set, policy)
        known = answered
    values = np.full(len(known), np.nan)
    if isinstance(word_set, SimilaritySet | AssociationSet):
        values = word_set[2]
    return zip(_words(word_set), values, np.where(answered, scores, np.nan), known, strict=True)


def _words(word_set: WordSet) -> Iterable[tuple[str, ...]]:
    if isinstance(word_set, SynonymSet):
        return [(word, *options) for word, options in zip(word_set.questions, word_set.options, strict=True)]
    if isinstance(word_set, CategorySet):
        return zip(word_set.words, word_set.categories, strict=True)
    return word_set[1]


def _scores(vectors: Space, word_set: WordSet, policy: Policy) -> tuple[Mask, Float64s]:
    """Return which items have all their words, and the score of each that has."""
    if isinstance(word_set, AnalogySet):
        known, points = right_answers(vectors, word_set, policy)
        return known, points[0]
    if isinstance(word_set, SynonymSet):
        return choice_credits(vectors, word_set, policy)
    if isinstance(word_set, CategorySet):
        known, pure = words_in_majority(vectors, word_set, policy)
        scores = np.full(len(known), np.nan)
        scores[known] = pure if pure.size else np.nan
        return known, scores
    rows = row_table(vectors, word_set.pairs, policy)
    return known_and_used(rows, policy)[0], known_cosines(vectors, rows)
