"""The items of word sets, each with its score: what the scores of sets are made of."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import zip_longest

import numpy as np
import pyarrow as pa

from distembed.evaluation.scoring import Policy
from distembed.evaluation.words import TASKS, asked_of
from distembed.evaluation.wordsets import EvaluationSet
from distembed.vectors import WordVectors


def item_table(
    candidates: Mapping[str, WordVectors], sets: Iterable[EvaluationSet], policy: Policy
) -> pa.RecordBatch:
    """Return every item of some word sets with its score, a row for each item and candidate.

    Parameters
    ----------
    candidates : mapping of str to WordVectors
        The vectors by their names.
    sets : iterable of EvaluationSet
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
        (name, one.name, one.task, words, value, score, known)
        for one in sets
        for name, vectors in candidates.items()
        for words, value, score, known in _items(vectors, one, policy)
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
    vectors: WordVectors, one: EvaluationSet, policy: Policy
) -> Iterable[tuple[tuple[str, ...], float, float, bool]]:
    """Return the words of each item, its human score, its score by the vectors, and whether its words are known."""
    policy = policy.for_words(vectors.words)
    own, asked = asked_of(
        vectors, one, policy if policy.unknown == "subwords" else policy._replace(unknown="skip")
    )
    points = np.where(asked.known, np.atleast_2d(TASKS[one.task].points(asked))[0], np.nan)
    words = one.items
    if one.task == "categorization":
        words = [(*item, category) for item, category in zip(one.items, one.groups, strict=True)]
    values = one.values if one.values.ndim == 1 and one.values.size else np.full(len(words), np.nan)
    known = own.known if own else np.zeros_like(asked.known)
    return zip(words, values.tolist(), points.tolist(), known.tolist(), strict=True)
