"""Scores of word vectors as features of a tagger: named entities and chunks, span F1.

Protocol, that of Turian, Ratinov and Bengio (2010):

- The tagger is a linear-chain conditional random field with a penalty on squared weights, `tagging_blocks`. Its
  features are those described there, and the vectors of the words from two before to two after; the row
  "without vectors" has the first only. A word without a vector has zeros.
- The vectors are scaled so that all values of their file have the standard deviation of one of `SCALES`. The weight of
  the penalty, one of `PENALTIES`, is chosen without vectors, then the scale with that penalty, both by F1 on the
  development part, or on a tenth of the sentences of the training part where there is none. For the choice taggers are
  fitted to `MAX_CHOOSING` other sentences of the training part; the tested one is fitted to all of it.
- The score is the F1 of all spans of the test part; its interval resamples sentences.
- Tags are read in any scheme of `distembed.evaluation.tagged_files` and learned as IOB2.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import OptimizeResult, minimize
from scipy.sparse import csr_array

from distembed.evaluation.scoring import Policy, Score, bootstrap_interval, form_to_compose, word_rows
from distembed.evaluation.tagged_files import (
    TaggedSet,
    TaggedWords,
    f1,
    find_tagged_sets,
    iob2,
    sentences_of,
    span_counts,
)
from distembed.evaluation.tagging_blocks import (
    PLACES,
    TaggingInput,
    Weights,
    best_tags,
    feature_matrix,
    flat,
    neighbors_at,
    penalized_loss,
    reshape_like,
    tag_scores,
    zero_weights,
)
from distembed.evaluation.wordsets import FORMATS_PAGE
from distembed.execution import one_blas_thread, tell
from distembed.vectors import WordVectors

SCALES = (0.01, 0.03, 0.1, 0.3, 1.0)
"""The standard deviations of the values of vectors that are tried; Turian, Ratinov and Bengio found 0.1 the best."""

PENALTIES = (1.0, 0.3, 0.1, 0.03, 0.01)
"""The weights of the penalty that are tried."""

HELD_OUT = 10
"""One sentence of so many of the training part chooses, where there is no development part."""

MAX_CHOOSING = 3_000
"""Sentences to which the taggers are fitted that are chosen among, at most."""

MAX_ITERATIONS = 200
PATIENCE = 10
TOLERANCE = 1e-3
"""A fit ends when `PATIENCE` iterations lower the loss by less than this share of it; F1 x 100 then moves by 0.1."""

N_STEPS_KEPT = 6
"""The steps from which the curvature of the loss is estimated."""

MAX_SENTENCES = 20_000  # above it, resampling sentences takes more memory than the fits do


class Corpus(NamedTuple):
    """A set as arrays: all words, training part first, their tags as numbers, and the sentences of each part.

    Taggers among which `dev` chooses are fitted to `choosing`, some of the sentences of `train` and none of `dev`.
    """

    words: list[str]
    features: csr_array
    tags: NDArray[np.int64]
    names: list[str]
    starts: NDArray[np.int64]
    train: NDArray[np.int64]
    choosing: NDArray[np.int64]
    dev: NDArray[np.int64]
    test: NDArray[np.int64]


class Vectors(NamedTuple):
    """The vectors of the distinct words of a set, and the row of each of its words among them, -1 if unknown."""

    rows: NDArray[np.int64]
    matrix: NDArray[np.float64]
    n_composed: int


def evaluate_tagging(
    vectors: WordVectors,
    sets: Iterable[TaggedSet] | str | Path,
    *,
    policy: Policy | None = None,
) -> list[Score]:
    r"""Score word vectors as features of a tagger, by the protocol of this module.

    Parameters
    ----------
    vectors : WordVectors
    sets : str, Path, or sequence of TaggedSet
        The sets, or a file or a folder of them; see `distembed.evaluation.tagged_files` for the format.
    policy : Policy, optional
        How words are looked up, and whether unknown ones are composed; its seed is that of the held-out sentences.

    Returns
    -------
    list of Score
        Two per set: the tagger with the vectors, and the one without them. `known` and `total` are words of the test
        part.

    Raises
    ------
    ValueError
        If there is no set of tagged words at a path, a file of one has a bad line, or no sentence is left to learn
        from.

    References
    ----------
    Turian, Ratinov & Bengio 2010, whose protocol this is.

    Examples
    --------
    >>> import distembed as de
    >>> from pathlib import Path
    >>> folder = Path("names")
    >>> folder.mkdir()
    >>> sentence = "Ann B-PER\nlives O\nin O\nRome B-LOC\n\nPeter B-PER\nleft O\nOslo B-LOC\n\n"
    >>> _ = (folder / "train.txt").write_text(sentence * 10)
    >>> _ = (folder / "test.txt").write_text("Mary B-PER\nleft O\nRome B-LOC\n\n" * 5)
    >>> words = ["Ann", "Peter", "Mary", "Rome", "Oslo"]
    >>> vectors = de.WordVectors(words, [[1, 0], [1, 0.1], [0.9, 0], [0, 1], [0.1, 1]])
    >>> for score in de.evaluate_tagging(vectors, folder):
    ...     print(score.set, score.metric, round(score.value, 2), score.answered)
    names span F1 1.0 10/15
    names span F1 without vectors 1.0 0/15
    """
    return compare_tagging({"": vectors}, sets, policy=policy)[""]


def compare_tagging(
    candidates: Mapping[str, WordVectors],
    sets: Iterable[TaggedSet] | str | Path,
    *,
    policy: Policy | None = None,
) -> dict[str, list[Score]]:
    """Score several vectors as `evaluate_tagging`; the tagger without vectors is fitted once for all of them.

    Raises
    ------
    ValueError
        As `evaluate_tagging`.
    """
    policy = policy or Policy()
    scores: dict[str, list[Score]] = {name: [] for name in candidates}
    for each in _sets(sets):
        corpus = corpus_of(each, policy.seed)
        with one_blas_thread():
            without = _without_vectors(each.name, corpus, policy)
            for name, vectors in candidates.items():
                scores[name] += [_with_vectors(each.name, corpus, vectors, without, policy), without.score]
    return scores


def _sets(sets: Iterable[TaggedSet] | str | Path) -> list[TaggedSet]:
    if not isinstance(sets, (str, Path)):
        return list(sets)
    found = find_tagged_sets([sets]).sets
    if not found:
        raise ValueError(f"{sets} has no set of tagged words: the formats are in {FORMATS_PAGE}")
    return found


# --- a set as arrays ---------------------------------------------------------------------------------------------


def corpus_of(tagged: TaggedSet, seed: int) -> Corpus:
    """Return a set as arrays, with a tenth of the training sentences held out where it has no development part.

    Raises
    ------
    ValueError
        If no sentence is left to learn from.
    """
    if tagged.dev is None and len(tagged.train.starts) < 3:
        raise ValueError(
            f"the training part of {tagged.name} has one sentence, and one is held out to choose by: leave a blank "
            "line between sentences, or give a development part"
        )
    parts = [part for part in (tagged.train, tagged.dev, tagged.test) if part is not None]
    words = [word for part in parts for word in part.words]
    given = [[tag for part in parts for tag in part.given[k]] for k in range(len(parts[0].given))]
    starts = _joined_starts(parts)
    names, tags = np.unique(
        [tag for part in parts for sentence in sentences_of(part) for tag in iob2(sentence)],
        return_inverse=True,
    )
    bounds = np.cumsum([0] + [len(part.starts) - 1 for part in parts])
    train, *dev, test = (np.arange(start, stop) for start, stop in pairwise(bounds.tolist()))
    features = feature_matrix(words, given, starts, len(tagged.train.words))
    learned = words, features, tags.astype(np.int64), names.tolist(), starts
    chosen = dev[0] if dev else _some(train, max(len(train) // HELD_OUT, 1), seed)
    return Corpus(*learned, train, _some(np.setdiff1d(train, chosen), MAX_CHOOSING, seed), chosen, test)


def _some(sentences: NDArray[np.int64], n: int, seed: int) -> NDArray[np.int64]:
    return np.sort(np.random.default_rng(seed).permutation(sentences)[:n])


def _joined_starts(parts: Iterable[TaggedWords]) -> NDArray[np.int64]:
    lengths = np.concatenate([np.diff(part.starts) for part in parts])
    return np.concatenate([[0], lengths.cumsum()]).astype(np.int64)


def vectors_of(corpus: Corpus, vectors: WordVectors, policy: Policy) -> Vectors:
    """Return the vectors of the distinct words of a set, scaled to a standard deviation of 1 over all vectors."""
    distinct = list(dict.fromkeys(corpus.words))
    place = {word: number for number, word in enumerate(distinct)}
    rows = word_rows(vectors, distinct, policy)
    known = np.flatnonzero(rows >= 0)
    found, matrix = known, vectors.vectors[rows[known]]
    if policy.unknown == "subwords":
        new = np.flatnonzero(rows < 0)
        composed = vectors[[form_to_compose(distinct[each], policy) for each in new.tolist()]]
        found, matrix = np.concatenate([known, new]), np.concatenate([matrix, composed])
    row_of = np.full(len(distinct), -1, np.int64)
    row_of[found] = np.arange(len(found))
    spread = float(vectors.vectors.std(dtype=np.float64)) or 1.0
    return Vectors(
        row_of[[place[word] for word in corpus.words]],
        matrix.astype(np.float64) / spread,
        len(found) - len(known),
    )


def _input(corpus: Corpus, sentences: NDArray[np.int64], found: Vectors | None) -> TaggingInput:
    """Return what the tags of some sentences depend on, with vectors or without."""
    words = _words_in(corpus, sentences)
    starts = np.concatenate([[0], np.diff(corpus.starts)[sentences].cumsum()]).astype(np.int64)
    if found is None:
        return TaggingInput(corpus.features[words], (), np.zeros((0, 0)), starts)
    rows = found.rows[words]
    present = np.unique(rows[rows >= 0])
    places = np.where(rows >= 0, np.searchsorted(present, rows), -1)
    window = tuple(_one_hot(neighbors_at(places, starts, place), len(present)) for place in PLACES)
    return TaggingInput(corpus.features[words], window, found.matrix[present], starts)


def _words_in(corpus: Corpus, sentences: NDArray[np.int64]) -> NDArray[np.int64]:
    parts = [np.arange(corpus.starts[each], corpus.starts[each + 1]) for each in sentences.tolist()]
    return np.concatenate(parts)


def _one_hot(rows: NDArray[np.int64], n_columns: int) -> csr_array:
    known = rows >= 0
    stops = np.concatenate([[0], known.cumsum()])
    return csr_array((np.ones(stops[-1]), rows[known], stops), shape=(len(rows), n_columns))


# --- fitting and scoring -------------------------------------------------------------------------------------------


class Baseline(NamedTuple):
    """The tagger without vectors: its penalty, its weights as they were chosen and as they are tested, its score."""

    penalty: float
    chosen: Weights
    tested: Weights
    score: Score


def _without_vectors(name: str, corpus: Corpus, policy: Policy) -> Baseline:
    """Fit the tagger without vectors, with the penalty that does best on the development sentences."""
    tried, weights = list[tuple[float, float, Weights]](), None
    for penalty in PENALTIES:
        weights = _fit_to(corpus, corpus.choosing, None, penalty=penalty, start=weights)
        tried.append((_f1(corpus, None, weights), penalty, weights))
        tell("taggers", len(tried), len(PENALTIES) + 1)
    _, best, chosen = max(tried, key=lambda each: each[0])
    tested = _fit_to(corpus, corpus.train, None, penalty=best, start=chosen)
    counts = _span_counts(corpus, corpus.test, None, tested)
    total = len(_words_in(corpus, corpus.test))
    tell("taggers", len(tried) + 1, len(PENALTIES) + 1)
    score = _score(name, "span F1 without vectors", counts, (0, total, 0), f"penalty {best:g}", policy.seed)
    return Baseline(best, chosen, tested, score)


def _with_vectors(
    name: str, corpus: Corpus, vectors: WordVectors, baseline: Baseline, policy: Policy
) -> Score:
    """Return the score of the tagger with vectors at the scale that does best on the development sentences."""
    units, penalty = vectors_of(corpus, vectors, policy), baseline.penalty
    tried = list[tuple[float, float]]()
    for scale in SCALES:
        scaled = units._replace(matrix=scale * units.matrix)
        weights = _fit_to(corpus, corpus.choosing, scaled, penalty=penalty, start=baseline.chosen)
        tried.append((_f1(corpus, scaled, weights), scale))
        tell("taggers", len(tried), len(SCALES) + 1)
    best = max(tried)[1]
    scaled = units._replace(matrix=best * units.matrix)
    weights = _fit_to(corpus, corpus.train, scaled, penalty=penalty, start=baseline.tested)
    tell("taggers", len(SCALES) + 1, len(SCALES) + 1)
    looked_up = policy.for_words(vectors.words)._replace(unknown="subwords" if units.n_composed else "zero")
    return _score(
        name,
        "span F1",
        _span_counts(corpus, corpus.test, scaled, weights),
        _known(corpus, units),
        f"{looked_up}; scale {best:g}, penalty {penalty:g}",
        policy.seed,
    )


def _known(corpus: Corpus, found: Vectors) -> tuple[int, int, int]:
    """Return how many tested words have a vector, how many words are tested, and how many are composed."""
    rows = found.rows[_words_in(corpus, corpus.test)]
    n_composed = int((rows >= len(found.matrix) - found.n_composed).sum())
    return int((rows >= 0).sum()) - n_composed, len(rows), n_composed


def _fit_to(
    corpus: Corpus,
    sentences: NDArray[np.int64],
    found: Vectors | None,
    *,
    penalty: float,
    start: Weights | None,
) -> Weights:
    given, tags = _input(corpus, sentences, found), corpus.tags[_words_in(corpus, sentences)]
    return fitted(given, tags, len(corpus.names), penalty=penalty, start=start)


def _f1(corpus: Corpus, found: Vectors | None, weights: Weights) -> float:
    return float(f1(_span_counts(corpus, corpus.dev, found, weights).sum(axis=0)))


def _span_counts(
    corpus: Corpus, sentences: NDArray[np.int64], found: Vectors | None, weights: Weights
) -> NDArray[np.int64]:
    """Return the numbers of right, found and true spans of each sentence, int64 (n_sentences, 3)."""
    given = _input(corpus, sentences, found)
    guesses = best_tags(tag_scores(given, weights), weights.transitions, given.starts)
    true = corpus.tags[_words_in(corpus, sentences)]
    return span_counts(*(_by_sentence(tags, corpus.names, given.starts) for tags in (true, guesses)))


def _by_sentence(tags: NDArray[np.int64], names: list[str], starts: NDArray[np.int64]) -> list[list[str]]:
    written = [names[tag] for tag in tags.tolist()]
    return [written[start:stop] for start, stop in pairwise(starts.tolist())]


def fitted(
    given: TaggingInput,
    tags: NDArray[np.int64],
    n_tags: int,
    *,
    penalty: float = 1.0,
    start: Weights | None = None,
) -> Weights:
    """Return the weights of the least penalized loss, by limited-memory BFGS.

    Parameters
    ----------
    given : TaggingInput
    tags : int64 array (n,)
        The tag of each word.
    n_tags : int
    penalty : float
        The weight of the sum of squared weights.
    start : Weights, optional
        The weights of features and transitions to begin with, of a tagger with or without vectors. The least loss is
        the same from anywhere; from a tagger that is like this one it takes half as many iterations.
    """
    present = np.unique(given.features.indices)  # the weights of the others are 0
    seen = given._replace(features=given.features[:, present])
    zero = zero_weights(seen, n_tags)
    begin = zero
    if start is not None:
        begin = zero._replace(features=start.features[present], transitions=start.transitions)

    def loss(values: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        value, gradient = penalized_loss(seen, tags, reshape_like(values, zero), penalty)
        return value, flat(gradient)

    losses = list[float]()

    def stop(intermediate_result: OptimizeResult) -> None:
        losses.append(float(intermediate_result.fun))
        if len(losses) > PATIENCE and losses[-1 - PATIENCE] - losses[-1] < TOLERANCE * losses[-1]:
            raise StopIteration

    options: dict[str, Any] = {"maxiter": MAX_ITERATIONS, "ftol": 0, "gtol": 0, "maxcor": N_STEPS_KEPT}
    found = minimize(loss, flat(begin), jac=True, method="L-BFGS-B", callback=stop, options=options)
    least, features = reshape_like(found.x, zero), np.zeros((given.features.shape[1], n_tags))
    features[present] = least.features
    return least._replace(features=features)


def _score(
    name: str, metric: str, counts: NDArray[np.int64], numbers: tuple[int, int, int], policy: str, seed: int
) -> Score:
    known, total, composed = numbers
    interval = bootstrap_interval(
        lambda draws: f1(counts[draws].sum(axis=1)), len(counts), Policy(seed=seed), max_items=MAX_SENTENCES
    )
    return Score(
        name, "tagging", metric, float(f1(counts.sum(axis=0))), known, total, policy, interval, composed
    )
