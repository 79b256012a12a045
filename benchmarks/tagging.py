r"""Score word vectors as features of a tagger: the columns NER and Chunk of Table 1 of PSDVec's paper.

``python -m benchmarks.tagging FOLDER VECTORS... [--to SCORES.json]``: FOLDER has ``train.txt``, ``test.txt`` and,
if there is one, ``valid.txt``, in the format of the shared tasks of CoNLL: columns between spaces, the word first and
its tag last, a blank line between sentences. The name of the folder is that of the set (conll2003, conll2000).

The protocol is that of Turian, Ratinov and Bengio (2010). The tagger is a linear-chain conditional random field

.. math:: \log p(y | x) = \sum_t (s_{t, y_t} + T_{y_{t-1}, y_t}) - \log Z, \qquad S = X A + \sum_o W_o (E B_o)

where X holds the features of words, given tags, affixes and shapes in a window, W_o which of the distinct words stands
at place o of the window, and E their vectors; A, B_o and T are learned under a penalty on their squares. The vectors
are scaled so that all values of a file have the standard deviation of one of `SCALES`. The penalty, one of `PENALTIES`,
is chosen without vectors, then the scale with that penalty, both by F1 on the development part, or on a tenth of the
training sentences where there is none. For the choice at most `MAX_CHOOSING` sentences are fitted, for the test all.
A word without a vector has zeros. The score is the F1 of all spans of the test part, as `conlleval` counts them; its
interval resamples sentences. A second row is the tagger without vectors.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray
from scipy.optimize import OptimizeResult, minimize
from scipy.sparse import csr_array

from benchmarks.measures import run_main, tell
from distembed.evaluation.scoring import Policy, Score, bootstrap_interval, word_rows
from distembed.evaluation.words import score_records
from distembed.execution import one_blas_thread
from distembed.vectors import WordVectors
from distembed.views.report.sections import score_table

SCALES = (0.01, 0.03, 0.1, 0.3, 1.0)
PENALTIES = (1.0, 0.3, 0.1, 0.03, 0.01)
HELD_OUT, MAX_CHOOSING = 10, 3_000
MAX_ITERATIONS, PATIENCE, TOLERANCE = 200, 10, 1e-3
"""A fit ends when `PATIENCE` iterations lower the loss by less than this share of it; F1 x 100 then moves by 0.1."""
PLACES, MAX_AFFIX = (-2, -1, 0, 1, 2), 4
MIN_OCCURRENCES = 2
"""Words of the training part that a feature has, at least: others are names of a single place in it."""

Codes = NDArray[np.int64]
Matrix = NDArray[np.float64]


class Corpus(NamedTuple):
    """All words, training part first, their features and tags as numbers, and the sentences of each part."""

    name: str
    words: list[str]
    features: csr_array
    tags: Codes
    names: list[str]
    starts: Codes
    train: Codes
    choosing: Codes
    dev: Codes
    test: Codes


class Given(NamedTuple):
    """X (n, f), the W_o (n, v) of each place, E (v, d), and the first word of each sentence."""

    features: csr_array
    window: tuple[csr_array, ...]
    vectors: Matrix
    starts: Codes


class Weights(NamedTuple):
    """A (f, q), B (places, d, q), T (q, q)."""

    features: Matrix
    vectors: Matrix
    transitions: Matrix

    def filled(self, values: Matrix) -> Weights:
        """Return one vector of values as weights of these shapes."""
        parts = np.split(values, np.cumsum([each.size for each in self])[:-1])
        return Weights(*(part.reshape(each.shape) for part, each in zip(parts, self, strict=True)))


# ---- files, spans and features --------------------------------------------------------------------------


def read_sentences(path: Path) -> list[list[list[str]]]:
    """Return the sentences of a file, each a list of rows of columns."""
    sentences: list[list[list[str]]] = [[]]
    for line in path.read_text("utf-8").splitlines():
        row = line.split()
        if row and row[0] != "-DOCSTART-":
            sentences[-1].append(row)
        elif sentences[-1]:
            sentences.append([])
    return [sentence for sentence in sentences if sentence]


def spans(tags: Sequence[str]) -> list[tuple[int, int, str]]:
    """Return the spans (start, stop, kind) of the tags of a sentence, in IOB1, IOB2, BIOES or BILOU."""
    found, start, open_kind = [], 0, ""
    for place, tag in enumerate([*tags, "O"]):
        position, _, kind = tag.partition("-")
        if open_kind and (position in "BSU" or kind != open_kind):
            found.append((start, place, open_kind))
            open_kind = ""
        if kind and not open_kind:
            start, open_kind = place, kind
        if kind and position in "ESLU":
            found.append((start, place + 1, kind))
            open_kind = ""
    return found


def iob2(tags: Sequence[str]) -> list[str]:
    written = ["O"] * len(tags)
    for start, stop, kind in spans(tags):
        written[start:stop] = [f"B-{kind}"] + [f"I-{kind}"] * (stop - start - 1)
    return written


def read_corpus(folder: Path) -> Corpus:
    files = [folder / f"{part}.txt" for part in ("train", "valid", "test")]
    parts = [read_sentences(file) for file in files if file.name != "valid.txt" or file.exists()]
    sentences = [sentence for part in parts for sentence in part]
    words, *given = zip(*(row[:-1] for sentence in sentences for row in sentence), strict=True)
    names, tags = np.unique(
        [tag for sentence in sentences for tag in iob2([row[-1] for row in sentence])], return_inverse=True
    )
    starts = np.cumsum([0, *map(len, sentences)])
    bounds = np.cumsum([0, *map(len, parts)])
    train, *dev, test = (np.arange(start, stop) for start, stop in pairwise(bounds.tolist()))
    chosen = dev[0] if dev else some_of(train, max(len(train) // HELD_OUT, 1))
    choosing = some_of(np.setdiff1d(train, chosen), MAX_CHOOSING)
    features = feature_matrix(words, given, starts, int(starts[len(train)]))
    numbers = tags.astype(np.int64), names.tolist(), starts
    return Corpus(folder.resolve().name, list(words), features, *numbers, train, choosing, chosen, test)


def some_of(sentences: Codes, n: int) -> Codes:
    return np.sort(np.random.default_rng(0).permutation(sentences)[:n])


def shape(word: str) -> str:
    """Return the kinds of characters of a word, runs as one: "McDonald's-1996" is "XxXx'x-9"."""
    kinds = ("Xx"[not sign.isupper()] if sign.isalpha() else sign for sign in re.sub(r"\d+", "9", word))
    return re.sub(r"([Xx])\1+", r"\1", "".join(kinds))


def neighbors_at(codes: Codes, starts: Codes, place: int) -> Codes:
    """Return the code of the word at a place relative to each word, -1 beyond the ends of its sentence."""
    sentence = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    target = np.arange(len(codes)) + place
    inside = (target >= 0) & (target < len(codes))
    inside[inside] &= sentence[target[inside]] == sentence[inside]
    return np.where(inside, codes[np.where(inside, target, 0)], -1)


def feature_matrix(
    words: Sequence[str], given: Sequence[Sequence[str]], starts: Codes, n_train: int
) -> csr_array:
    """Return the features of all words, those that occur `MIN_OCCURRENCES` times in the training part."""
    columns, n_columns = [], 0
    for codes in templates(words, given, starts):
        known, counts = np.unique(codes[:n_train], return_counts=True)
        kept = known[counts >= MIN_OCCURRENCES]
        places = np.minimum(np.searchsorted(kept, codes), max(len(kept) - 1, 0))
        found = kept[places] == codes if kept.size else np.zeros(len(codes), np.bool_)
        columns.append(np.where(found, places + n_columns, -1))
        n_columns += len(kept)
    table = np.stack(columns, axis=1)
    is_there = table >= 0
    stops = np.concatenate([[0], is_there.sum(axis=1).cumsum()])
    return csr_array((np.ones(stops[-1]), table[is_there], stops), shape=(len(words), n_columns))


def templates(words: Sequence[str], given: Sequence[Sequence[str]], starts: Codes) -> Iterator[Codes]:
    """Yield one array of codes per kind of feature: words of one code share a feature."""
    word = {place: neighbors_at(coded(words), starts, place) for place in PLACES}
    yield from word.values()
    yield from (joined(word[-1], word[0]), joined(word[0], word[1]))
    for column in given:
        tag = [neighbors_at(coded(column), starts, place) for place in PLACES]
        for length in (1, 2, 3):
            yield from (joined(*tag[first : first + length]) for first in range(len(tag) - length + 1))
    for length in range(1, MAX_AFFIX + 1):
        yield coded([each[:length] for each in words])
        yield coded([each[-length:] for each in words])
    shapes = coded([shape(each) for each in words])
    yield from (neighbors_at(shapes, starts, place) for place in (-1, 0, 1))


def coded(values: Sequence[str]) -> Codes:
    codes: dict[str, int] = {}
    return np.array([codes.setdefault(value, len(codes)) for value in values], np.int64)


def joined(*codes: Codes) -> Codes:
    """Return one code for each combination of codes at the same word."""
    found = codes[0]
    for each in codes[1:]:
        found = np.unique(found, return_inverse=True)[1] * (each.max(initial=-1) + 2) + each + 1
    return found


# ---- the random field -----------------------------------------------------------------------------------


def tag_scores(given: Given, weights: Weights) -> Matrix:
    """Return S (n, q); E B_o is computed once per distinct word."""
    scores = given.features @ weights.features
    n_places, n_components, n_tags = weights.vectors.shape
    beside = weights.vectors.transpose(1, 0, 2).reshape(n_components, n_places * n_tags)
    of_words = (given.vectors @ beside).reshape(len(given.vectors), n_places, n_tags)
    for number, place in enumerate(given.window):
        scores += place @ of_words[:, number]
    return np.ascontiguousarray(scores)


def penalized_loss(given: Given, tags: Codes, weights: Weights, penalty: float) -> tuple[float, Matrix]:
    """Return the negative log-likelihood plus the penalty times the sum of squared weights, and its gradient."""
    scores, transitions = tag_scores(given, weights), weights.transitions
    first = given.starts[:-1]
    tops, top = scores.max(axis=1), transitions.max()
    likely, steps = np.exp(scores - tops[:, None]), np.exp(transitions - top)
    forward, backward, scales = forward_backward(likely, steps, given.starts)
    arrived = likely * backward / scales[:, None]
    arrived[first] = 0  # the first word of a sentence follows none
    pairs = steps * (forward[:-1].T @ arrived[1:])
    log_z = float(np.log(scales).sum() + tops.sum() + (len(scores) - len(first)) * top)

    words, follows = np.arange(len(tags)), np.ones(len(tags), np.bool_)
    follows[first] = False
    before, after = tags[:-1][follows[1:]], tags[1:][follows[1:]]
    loss = log_z - scores[words, tags].sum() - transitions[before, after].sum()
    residual = forward * backward
    residual[words, tags] -= 1
    np.subtract.at(pairs, (before, after), 1)

    of_words = np.stack([place.T @ residual for place in given.window], axis=1) if given.window else None
    slopes = np.zeros_like(weights.vectors)
    if of_words is not None:
        flat = given.vectors.T @ of_words.reshape(len(given.vectors), -1)
        slopes = flat.reshape(-1, len(given.window), len(pairs)).transpose(1, 0, 2)
    gradient = (given.features.T @ residual, slopes, pairs)
    loss += penalty * sum(float((each**2).sum()) for each in weights)
    sloped = [(slope + 2 * penalty * each).ravel() for slope, each in zip(gradient, weights, strict=True)]
    return float(loss), np.concatenate(sloped)


@njit(cache=True, nogil=True)
def forward_backward(likely, steps, starts):  # type: ignore[no-untyped-def]
    """Return forward and backward values, each word's scaled by a factor that is returned as well.

    The innermost loops run along a row of each array, so that the compiler makes vector instructions of them.
    """
    n, q = likely.shape
    forward, backward, scales = np.zeros((n, q)), np.ones((n, q)), np.empty(n)
    steps_to = np.ascontiguousarray(steps.T)
    for s in range(len(starts) - 1):
        for t in range(starts[s], starts[s + 1]):
            if t == starts[s]:
                forward[t] = 1.0
            else:
                for before in range(q):
                    for y in range(q):
                        forward[t, y] += forward[t - 1, before] * steps[before, y]
            forward[t] *= likely[t]
            scales[t] = forward[t].sum()
            forward[t] /= scales[t]
        for t in range(starts[s + 1] - 1, starts[s], -1):
            backward[t - 1] = 0.0
            for y in range(q):
                ahead = likely[t, y] * backward[t, y] / scales[t]
                for before in range(q):
                    backward[t - 1, before] += steps_to[y, before] * ahead
    return forward, backward, scales


@njit(cache=True, nogil=True)
def best_tags(scores, transitions, starts):  # type: ignore[no-untyped-def]
    """Return the most probable tags of each sentence, int64 (n,)."""
    n, q = scores.shape
    best, chosen = scores.copy(), np.zeros((n, q), np.int64)
    tags = np.zeros(n, np.int64)
    for s in range(len(starts) - 1):
        for t in range(starts[s] + 1, starts[s + 1]):
            for y in range(q):
                reached = best[t - 1] + transitions[:, y]
                chosen[t, y] = np.argmax(reached)
                best[t, y] += reached[chosen[t, y]]
        tags[starts[s + 1] - 1] = np.argmax(best[starts[s + 1] - 1])
        for t in range(starts[s + 1] - 1, starts[s], -1):
            tags[t - 1] = chosen[t, tags[t]]
    return tags


def fitted(given: Given, tags: Codes, n_tags: int, penalty: float, start: Weights | None) -> Weights:
    """Return the weights of the least loss, by limited-memory BFGS from those of a tagger that is like this one."""
    n_features, n_components = given.features.shape[1], given.vectors.shape[1]
    present = np.unique(given.features.indices)  # the weights of the others are 0
    seen = given._replace(features=given.features[:, present])
    shapes = (present.size, n_tags), (len(given.window), n_components, n_tags), (n_tags, n_tags)
    begin = Weights(*map(np.zeros, shapes))
    if start is not None:
        begin = begin._replace(features=start.features[present], transitions=start.transitions)
    losses: list[float] = []

    def stop(intermediate_result: OptimizeResult) -> None:
        losses.append(float(intermediate_result.fun))
        if len(losses) > PATIENCE and losses[-1 - PATIENCE] - losses[-1] < TOLERANCE * losses[-1]:
            raise StopIteration

    options: dict[str, Any] = {"maxiter": MAX_ITERATIONS, "ftol": 0, "gtol": 0, "maxcor": 6}
    found = minimize(
        lambda values: penalized_loss(seen, tags, begin.filled(values), penalty),
        np.concatenate([each.ravel() for each in begin]),
        jac=True,
        method="L-BFGS-B",
        callback=stop,
        options=options,
    )
    least, features = begin.filled(found.x), np.zeros((n_features, n_tags))
    features[present] = least.features
    return least._replace(features=features)


# ---- the protocol ---------------------------------------------------------------------------------------


class Tagger(NamedTuple):
    """What a tagger knows of words: the row of each word of the corpus, -1 for none, among vectors; or nothing."""

    corpus: Corpus
    rows: Codes | None = None
    matrix: Matrix = np.zeros((0, 0))

    def given(self, sentences: Codes) -> tuple[Given, Codes]:
        """Return what the tags of some sentences depend on, and their tags."""
        corpus = self.corpus
        starts = np.concatenate([[0], np.diff(corpus.starts)[sentences].cumsum()]).astype(np.int64)
        words = np.concatenate([np.arange(*corpus.starts[each : each + 2]) for each in sentences.tolist()])
        window, present = [], np.zeros(0, np.int64)
        if self.rows is not None:
            rows = self.rows[words]
            present = np.unique(rows[rows >= 0])
            places = np.where(rows >= 0, np.searchsorted(present, rows), -1)
            for near in (neighbors_at(places, starts, place) for place in PLACES):
                stops = np.concatenate([[0], (near >= 0).cumsum()])
                one_hot = np.ones(stops[-1]), near[near >= 0], stops
                window.append(csr_array(one_hot, shape=(len(near), len(present))))
        return Given(corpus.features[words], tuple(window), self.matrix[present], starts), corpus.tags[words]

    def fit(self, sentences: Codes, penalty: float, start: Weights | None) -> Weights:
        return fitted(*self.given(sentences), len(self.corpus.names), penalty, start)

    def counts(self, sentences: Codes, weights: Weights) -> Codes:
        """Return the numbers of right, found and true spans of each sentence."""
        given, tags = self.given(sentences)
        guessed = best_tags(tag_scores(given, weights), weights.transitions, given.starts)
        counts, names = [], np.array(self.corpus.names)
        for start, stop in pairwise(given.starts.tolist()):
            true, found = (set(spans(names[each[start:stop]].tolist())) for each in (tags, guessed))
            counts.append((len(true & found), len(found), len(true)))
        return np.array(counts)

    def f1(self, weights: Weights) -> float:
        return float(f1(self.counts(self.corpus.dev, weights).sum(axis=0)))

    def score(self, metric: str, weights: Weights, policy: str) -> Score:
        counts, (given, tags) = self.counts(self.corpus.test, weights), self.given(self.corpus.test)
        n_known = given.window[PLACES.index(0)].nnz if given.window else 0
        interval = bootstrap_interval(
            lambda draws: f1(counts[draws].sum(axis=1)), [np.arange(len(counts))], 0
        )
        value = float(f1(counts.sum(axis=0)))
        return Score(self.corpus.name, "tagging", metric, value, n_known, len(tags), policy, interval)


def f1(counts: NDArray[np.int64]) -> Matrix:
    right, found, true = np.moveaxis(counts, -1, 0).astype(np.float64)
    return np.asarray(2 * right / np.maximum(found + true, 1))


def compare(corpus: Corpus, candidates: dict[str, WordVectors]) -> dict[str, list[Score]]:
    """Return the score of the tagger with each of the vectors, and of the one without."""
    plain, tried, start = Tagger(corpus), [], None
    for penalty in PENALTIES:
        start = plain.fit(corpus.choosing, penalty, start)
        tried.append((plain.f1(start), penalty, start))
    _, penalty, chosen = max(tried, key=lambda each: each[0])
    tested = plain.fit(corpus.train, penalty, chosen)
    without = plain.score("span F1 without vectors", tested, f"penalty {penalty:g}")
    scores = {}
    for name, vectors in candidates.items():
        place = {word: number for number, word in enumerate(dict.fromkeys(corpus.words))}
        rows = word_rows(vectors, list(place), Policy())
        known = np.flatnonzero(rows >= 0)
        row_of = np.full(len(place), -1, np.int64)
        row_of[known] = np.arange(len(known))
        row_of = row_of[[place[word] for word in corpus.words]]
        matrix = vectors.vectors[rows[known]].astype(np.float64)
        matrix /= float(vectors.vectors.std(dtype=np.float64)) or 1.0
        scaled = {scale: Tagger(corpus, row_of, scale * matrix) for scale in SCALES}
        _, best = max(
            (each.f1(each.fit(corpus.choosing, penalty, chosen)), scale) for scale, each in scaled.items()
        )
        weights = scaled[best].fit(corpus.train, penalty, tested)
        score = scaled[best].score("span F1", weights, f"scale {best:g}, penalty {penalty:g}")
        scores[name] = [score, without]
    return scores


def main(folder: Path, *vectors: Path, to: Path | None = None) -> None:
    with one_blas_thread():
        scores = compare(read_corpus(folder), {str(path): WordVectors.load(path) for path in vectors})
    for name, found in scores.items():
        tell(name, *score_table({name: found}).lines(), sep="\n")
    if to:
        rows = [{"vectors": name, **row} for name, found in scores.items() for row in score_records(found)]
        to.write_text(json.dumps({"tables": {"scores": rows}}, indent=1))


if __name__ == "__main__":
    run_main(main)
