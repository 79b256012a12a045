"""Scores of text vectors on sets of sentences: semantic textual similarity, and classification.

Protocol:

- Similarity (STS): all pairs of a file are pooled, whatever their subsets; Spearman's correlation of the cosine of the
  two vectors with the human score. A pair with a text without known words has the cosine 0.
- Classification: logistic regression on standardized text vectors; the vectors themselves are not trained. A set with
  a test part is trained on its training part, and the strength C of the regularization, one of `STRENGTHS`, is
  chosen on the development part, or on a tenth of the training part where there is none. Another set is cross-validated
  in ten stratified folds, of which the next fold chooses C for each; in fewer where no label has ten texts, and in
  folds that are not stratified where none has three. Fewer than three texts have no score. The model that is scored is
  fitted again, to everything but the test part. Training texts that have one label only, or for the model of words no
  word in common, give their most frequent label. The score is the share of right labels of all tested texts.
- Classification without vectors, `evaluate_bags`, is the same with a linear support vector machine on tf-idf weights of
  the words (logarithmic counts, words of two texts at least), fitted to the training part; C is one of `BAG_STRENGTHS`.
- The counts are tokens: known (or composed) ones of all tokens of the texts that are scored.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.dummy import DummyClassifier
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import KFold, StratifiedKFold, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from distembed.encoding.blocks import pair_cosines
from distembed.encoding.encoder import TextEncoder
from distembed.evaluation.scoring import Policy, Score, correlation_score, mean_score
from distembed.evaluation.sentence_files import (
    ClassifiedTexts,
    SentencePairs,
    SentenceSet,
    find_sentence_sets,
)
from distembed.evaluation.wordsets import FORMATS_PAGE
from distembed.execution import one_blas_thread, tell

STRENGTHS = (0.001, 0.01, 0.1, 1.0)
"""The values of C that are tried: from strong regularization to weak."""

BAG_STRENGTHS = (0.1, 0.3, 1.0, 3.0)
"""The values of C that are tried for tf-idf weights, whose rows have the length 1."""

N_FOLDS = 10
LEAST_FOLDS = 3
"""Folds of a cross-validation, at least: one to test on, one to choose C on, and one to train on."""
MAX_ITERATIONS = 300
"""Iterations of a logistic regression, at most: standardized vectors need some fifty."""


Split = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]
"""The items that a model is trained on, that choose its regularization, and that it is tested on."""


def evaluate_sentences(
    encoder: TextEncoder, sets: Iterable[SentenceSet] | str | Path, *, name: str = "", seed: int = 0
) -> list[Score]:
    """Score an encoder of texts on sets of sentences, by the protocol of this module.

    Parameters
    ----------
    encoder : TextEncoder
    sets : str, Path, or sequence of SentencePairs and ClassifiedTexts
        The sets, or a file or a folder of them; see `distembed.evaluation.sentence_files` for the formats.
    name : str
        What the policy of the scores calls the encoder; by default its options.
    seed : int
        The seed of folds and of bootstrap intervals.

    Returns
    -------
    list of Score
        One per set, in their order; `known` and `total` are numbers of tokens.

    Raises
    ------
    ValueError
        If there is no set of sentences at a path, or a file of one has a bad line.

    Examples
    --------
    >>> import distembed as de
    >>> import numpy as np
    >>> from distembed.evaluation.sentence_files import SentencePairs
    >>> vectors = de.WordVectors(["cat", "dog", "tax"], [[1.0, 0.1], [0.9, 0.2], [-0.1, 1.0]])
    >>> first, second = ["a cat", "a cat", "a dog"], ["a dog", "a tax", "a tax"]
    >>> pairs = SentencePairs("pets", np.array([4.5, 0.5, 1.0]), first, second)
    >>> [score] = de.evaluate_sentences(de.TextEncoder(vectors), [pairs])
    >>> score.metric, round(score.value, 2), score.answered
    ('spearman', 1.0, '6/12')
    """
    scores, every = list[Score](), _sets(sets)
    policy = name or encoder_name(encoder)
    for number, each in enumerate(every, start=1):
        score = score_pairs if isinstance(each, SentencePairs) else score_classes
        scores.append(score(encoder, each, seed)._replace(policy=policy))  # type: ignore[arg-type]
        tell("sets", number, len(every))
    return scores


def _sets(sets: Iterable[SentenceSet] | str | Path) -> list[SentenceSet]:
    if not isinstance(sets, (str, Path)):
        return list(sets)
    found = find_sentence_sets([sets]).sets
    if not found:
        raise ValueError(f"{sets} has no set of sentences: the formats are in {FORMATS_PAGE}")
    return found


def encoder_name(encoder: TextEncoder) -> str:
    """Return the options of an encoder in words, as a score names them."""
    weights = "mean" if encoder.weighting == "mean" else f"SIF {encoder.a:g}"
    whitening = "" if encoder.whitening_ == "none" else f", whitening {encoder.whitening_}"
    return f"{weights}{whitening}, unknown {encoder.unknown_}"


def score_pairs(encoder: TextEncoder, pairs: SentencePairs, seed: int) -> Score:
    """Return Spearman's correlation of cosine with human score over all pairs."""
    n = len(pairs.first)
    encoded = encoder.encode([*pairs.first, *pairs.second])
    cosines = pair_cosines(encoded.vectors[:n], encoded.vectors[n:])
    counts = int(encoded.n_known.sum()), int(encoded.n_tokens.sum())
    names = pairs.name, "sentences", "spearman"
    return correlation_score(names, cosines, pairs.scores, counts, Policy(seed=seed))


def score_classes(encoder: TextEncoder, texts: ClassifiedTexts, seed: int) -> Score:
    """Return the accuracy of logistic regression on text vectors."""
    encoded = encoder.encode(texts.texts)
    right = _right_labels(encoded.vectors.astype(np.float64), texts, seed, _regression, STRENGTHS)
    tested = ~np.isnan(right)
    counts = int(encoded.n_known[tested].sum()), int(encoded.n_tokens[tested].sum())
    task = "classification", "accuracy"
    return mean_score(texts.name, task, right[tested], counts, Policy(seed=seed))


def evaluate_bags(sets: Iterable[SentenceSet] | str | Path, *, seed: int = 0) -> list[Score]:
    """Score classification without vectors, by the weights of the words of each text: what vectors are compared with.

    Parameters
    ----------
    sets : str, Path, or sequence of ClassifiedTexts
        The sets, or a file or a folder of them; pairs of sentences are passed over.
    seed : int
        The seed of folds and of bootstrap intervals.

    Returns
    -------
    list of Score
        One per set of classified texts; `known` is 0, because no word has a vector, and `total` the number of texts.

    Raises
    ------
    ValueError
        As `evaluate_sentences`.
    """
    scores = list[Score]()
    for each in _sets(sets):
        if isinstance(each, ClassifiedTexts):
            right = _right_labels(
                np.array(each.texts, dtype=object), each, seed, _bag_classifier, BAG_STRENGTHS
            )
            points = right[~np.isnan(right)]
            task = "classification", "accuracy without vectors"
            found = mean_score(each.name, task, points, (0, points.size), Policy(seed=seed))
            scores.append(found._replace(policy="tf-idf, linear support vector machine"))
    return scores


def _right_labels(
    inputs: NDArray[Any],
    texts: ClassifiedTexts,
    seed: int,
    model: Callable[[float], Any],
    strengths: Sequence[float],
) -> NDArray[np.float64]:
    """Return 1 for each tested text that gets its label and 0 for the other ones; NaN for texts that are not tested."""
    classes = np.unique(texts.labels, return_inverse=True)[1]
    right = np.full(len(classes), math.nan)
    with one_blas_thread(), warnings.catch_warnings():
        # Labels of few texts are a fact of the set, and no reason not to score it.
        for message in ("The least populated class", "The number of unique classes"):
            warnings.filterwarnings("ignore", message=message, category=UserWarning)
        for split in _splits(texts, classes, seed):
            right[split[2]] = _right(inputs, classes, split, model, strengths)
    return right


def _splits(texts: ClassifiedTexts, classes: NDArray[np.int64], seed: int) -> Iterator[Split]:
    if texts.parts is None:
        folds = _folds(classes, seed)
        for k, test in enumerate(folds):
            choose = folds[(k + 1) % len(folds)]
            train = np.setdiff1d(np.arange(len(classes)), np.concatenate([test, choose]))
            yield train, choose, test
        return
    train, choose, test = (np.flatnonzero(np.array(texts.parts) == part) for part in ("train", "dev", "test"))
    if not train.size:
        raise ValueError(f"the set {texts.name} has no text in its part train: give it some, or no parts")
    if not choose.size:
        train, choose = _tenth(train, classes, seed)
    yield train, choose, test


def _folds(classes: NDArray[np.int64], seed: int) -> list[NDArray[np.int64]]:
    """Return the texts of each fold: as many folds as a label has texts, at most ten; none for a few texts."""
    largest = int(np.bincount(classes).max(initial=0))
    is_stratified = largest >= LEAST_FOLDS
    n_folds = min(N_FOLDS, largest if is_stratified else classes.size)
    if n_folds < LEAST_FOLDS:
        return []
    folds = (StratifiedKFold if is_stratified else KFold)(n_folds, shuffle=True, random_state=seed)
    return [test for _, test in folds.split(classes, classes)]


def _tenth(
    train: NDArray[np.int64], classes: NDArray[np.int64], seed: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the training texts but a tenth, and that tenth: of each label where all have two and it holds them all."""
    if train.size == 1:
        return train, train
    sizes = np.unique(classes[train], return_counts=True)[1]
    is_stratified = sizes.min() > 1 and sizes.size <= math.ceil(train.size * (1 / N_FOLDS))
    first, second = train_test_split(
        train, test_size=1 / N_FOLDS, random_state=seed, stratify=classes[train] if is_stratified else None
    )
    return first, second


def _right(
    inputs: NDArray[Any],
    classes: NDArray[np.int64],
    split: Split,
    model: Callable[[float], Any],
    strengths: Sequence[float],
) -> NDArray[np.bool_]:
    """Return which tested texts get their label from the model of the strength that does best on the chosen ones."""
    train, choose, test = split
    found = [
        _fit(model(strength), inputs[train], classes[train]).score(inputs[choose], classes[choose])
        for strength in strengths
    ]
    every = np.concatenate([train, choose])
    best = _fit(model(strengths[int(np.argmax(found))]), inputs[every], classes[every])
    if not test.size:
        return np.zeros(0, np.bool_)
    return np.asarray(best.predict(inputs[test]) == classes[test])


def _fit(model: Any, inputs: NDArray[Any], classes: NDArray[np.int64]) -> Any:
    """Return a fitted model: of the most frequent label where the texts have nothing to learn from."""
    try:
        return model.fit(inputs, classes)
    except ValueError:  # one label only, or no word in two texts
        return DummyClassifier().fit(inputs, classes)


def _regression(strength: float) -> Any:
    return make_pipeline(StandardScaler(), LogisticRegression(C=strength, max_iter=MAX_ITERATIONS))


def _bag_classifier(strength: float) -> Any:
    return make_pipeline(TfidfVectorizer(sublinear_tf=True, min_df=2), LinearSVC(C=strength, random_state=0))
