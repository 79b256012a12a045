"""Scores of vectors on sets of words and of sentences, as `distembed evaluate` prints them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from distembed.evaluation import words
from distembed.evaluation.scoring import Case, Policy, Score, Unknown
from distembed.evaluation.sentences import SENTENCE_TASKS, evaluate_sentences
from distembed.evaluation.wordsets import find_sets, read_pairs
from distembed.job.model import locate
from distembed.job.opening import Source, load_vectors
from distembed.views.texts import open_encoder


class Scored(NamedTuple):
    """What an evaluation found.

    Attributes
    ----------
    scores : mapping of str to list of Score
        Those of each source, of the same sets.
    notes : list of str
        The files that were passed over, and which other look-up of words would know more of them.
    items : pyarrow.Table, optional
        Every item with its score, if it was asked for.
    """

    scores: Mapping[str, list[Score]]
    notes: list[str]
    items: pa.Table | None


def score_sources(
    sources: Mapping[str, Source],
    sets: Iterable[str],
    *,
    columns: Mapping[str, str] | None = None,
    with_items: bool = False,
    same_words: bool = False,
    max_words: int | None = None,
    case: Case = "auto",
    unknown: Unknown | None = None,
    **encoding: Any,
) -> Scored:
    """Score the word vectors, and the encoders, of some sources on evaluation sets.

    Parameters
    ----------
    sources : mapping of str to Job, Workspace or path of a vector file
        By the names that the scores have.
    sets : iterable of str
        Folders and files; ``{package}/PATH`` is one inside an installed package.
    columns : mapping of str to str, optional
        If given, the sets are lists of pairs, with these columns; see `distembed.evaluation.wordsets.read_pairs`.
    with_items : bool
        Whether every item is returned with its score; a list of pairs then needs none.
    same_words : bool
        Whether the sources are judged on the words that they share.
    max_words : int, optional
        Read only the first vectors of a file.
    case, unknown : str
        How words are looked up, and how items with unknown words count; see `distembed.evaluation.words`.
    **encoding
        Options of `TextEncoder` for sets of sentences.

    Raises
    ------
    ValueError
        If a set is not in its format, no item of any set is known, or the items of no word set can be returned.
    """
    places: list[Any] = [locate(path, Path()) for path in sets]
    if columns is not None:
        places = [read_pairs(path, columns, needs_scores=not with_items) for path in places]
    found = find_sets(places, sentences=True)
    of_words, of_sentences = (
        [one for one in found.sets if (one.task in SENTENCE_TASKS) == wanted] for wanted in (False, True)
    )
    if with_items and not of_words:
        raise ValueError("--items writes the items of word sets, and --sets names none")
    files = {name: load_vectors(source, max_words=max_words) for name, source in sources.items()}
    policy = Policy(case, unknown or "skip")
    judged, scores = words.on_common_words(files) if same_words else files, dict[str, list[Score]]()
    for name, source in sources.items():
        called = name if len(sources) > 1 else ""
        scores[name] = (
            words.evaluate_sets(judged[name], of_words, policy, name=called, needs_known=True)
            if of_words
            else []
        )
        if of_sentences:  # unknown words of a sentence cannot count as wrong
            encoding["unknown"] = None if unknown == "zero" else unknown
            encoder = open_encoder(source, vectors=files[name], **encoding)
            scores[name] += evaluate_sentences(encoder, of_sentences)
    advice = {name: words.case_advice(model, of_words, policy) for name, model in files.items()}
    notes = [found.omissions, *(f"{name}: {text}" for name, text in advice.items() if text)]
    if same_words and of_sentences:
        notes.append(
            "sets of sentences are judged with all words of each source: --same-words is for sets of words"
        )
    items = words.item_table(judged, of_words, policy) if with_items else None
    return Scored(scores, list(filter(None, notes)), items)
