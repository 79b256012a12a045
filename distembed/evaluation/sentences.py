"""Scores of text vectors on sets of sentences: semantic textual similarity, and classification.

Protocol:

- Similarity (STS): all pairs of a file are pooled, whatever their subsets; Spearman's correlation of the cosine of the
  two vectors with the human score. A pair with a text without known words has the cosine 0.
- Classification: logistic regression on standardized text vectors; the vectors themselves are not trained. A set with
  a test part is trained on its training part, and the strength C of the regularization, one of `STRENGTHS`, is
  chosen on the development part, or on a tenth of the training part where there is none. Another set is cross-validated
  in ten stratified folds, of which the next fold chooses C for each; a set without a label of ten texts has no score.
  The model that is scored is fitted again, to everything but the test part. Training texts that have one label only
  give that label. The score is the share of right labels of all tested texts.
- The counts are tokens: known (or composed) ones of all tokens of the texts that are scored.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, StratifiedKFold, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from distembed.display import plural
from distembed.encoding.encoder import TextEncoder
from distembed.evaluation.scoring import Measure, Policy, Score, spearman
from distembed.evaluation.wordsets import FORMATS_PAGE, EvaluationSet, find_sets
from distembed.execution import one_blas_thread, tell
from distembed.linalg.csr import unit_rows

STRENGTHS = (0.001, 0.01, 0.1, 1.0)
"""The values of C that are tried: from strong regularization to weak."""

SENTENCE_TASKS = ("sentences", "classification")

N_FOLDS = 10
MAX_ITERATIONS = 300
"""Iterations of a logistic regression, at most: standardized vectors need some fifty."""


Split = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]
"""The items that a model is trained on, that choose its regularization, and that it is tested on."""


def evaluate_sentences(
    encoder: TextEncoder, sets: Iterable[EvaluationSet] | str | Path, *, name: str = "", seed: int = 0
) -> list[Score]:
    """Score an encoder of texts on sets of sentences: pairs with a score, and texts with a label.

    Parameters
    ----------
    encoder : TextEncoder
    sets : str, Path, or sequence of EvaluationSet
        The sets, or a file or a folder of them; see `distembed.evaluation.wordsets` for the formats.
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
    >>> from distembed.evaluation.wordsets import EvaluationSet
    >>> vectors = de.WordVectors(["cat", "dog", "tax"], [[1.0, 0.1], [0.9, 0.2], [-0.1, 1.0]])
    >>> texts = [("a cat", "a dog"), ("a cat", "a tax"), ("a dog", "a tax")]
    >>> pairs = EvaluationSet("pets", "sentences", texts, np.array([4.5, 0.5, 1.0]))
    >>> [score] = de.evaluate_sentences(de.TextEncoder(vectors), [pairs])
    >>> score.metric, round(score.value, 2), score.answered
    ('spearman', 1.0, '6/12')
    """
    scores, every = list[Score](), [] if isinstance(sets, (str, Path)) else list(sets)
    if isinstance(sets, (str, Path)):
        every = [one for one in find_sets(sets, sentences=True).sets if one.task in SENTENCE_TASKS]
        if not every:
            raise ValueError(f"{sets} has no set of sentences: the formats are in {FORMATS_PAGE}")
    if not hasattr(encoder, "rows_"):
        encoder = encoder.fit()
    weights = "mean" if encoder.weighting == "mean" else f"SIF {encoder.a:g}"
    whitening = "" if encoder.whitening_ == "none" else f", whitening {encoder.whitening_}"
    policy = name or f"{weights}{whitening}, unknown {encoder.unknown_}"
    for number, each in enumerate(every, start=1):
        if each.task == "sentences":
            n, (first, second) = len(each.items), zip(*each.items, strict=True)
            encoded = encoder.encode([*first, *second])
            rows = unit_rows(encoded.vectors)
            cosines = np.einsum("ij,ij->i", rows[:n], rows[n:])
            counts = int(encoded.n_known.sum()), int(encoded.n_tokens.sum())
            measure = Measure("spearman", (cosines, each.values), spearman)
            score = measure.score(each.name, each.task, counts, Policy(seed=seed))
        else:
            score = score_classes(encoder, each, seed)
        scores.append(score._replace(policy=policy))
        tell("sets", number, len(every))
    return scores


def score_classes(encoder: TextEncoder, texts: EvaluationSet, seed: int) -> Score:
    """Return the accuracy of logistic regression on text vectors."""
    encoded = encoder.encode([text for (text,) in texts.items])
    inputs = encoded.vectors.astype(np.float64)
    classes = np.unique([label for label, _ in texts.groups], return_inverse=True)[1]
    right = np.full(len(classes), math.nan)  # of texts that are not tested
    with one_blas_thread(), warnings.catch_warnings():
        # Labels of few texts are a fact of the set, and no reason not to score it.
        for message in ("The least populated class", "The number of unique classes"):
            warnings.filterwarnings("ignore", message=message, category=UserWarning)
        for train, choose, test in _splits(texts, classes, seed):
            every, grid = np.concatenate([train, choose]), {"logisticregression__C": STRENGTHS}
            parts = [(np.arange(train.size), np.arange(train.size, every.size))]
            model: Any = make_pipeline(StandardScaler(), LogisticRegression(max_iter=MAX_ITERATIONS))
            model = GridSearchCV(model, grid, cv=parts)
            if np.unique(classes[train]).size == 1:
                model = DummyClassifier()
            best = model.fit(inputs[every], classes[every])
            right[test] = np.asarray(best.predict(inputs[test]) == classes[test])
    tested = ~np.isnan(right)
    counts = int(encoded.n_known[tested].sum()), int(encoded.n_tokens[tested].sum())
    return Measure("accuracy", (right[tested],)).score(
        texts.name, "classification", counts, Policy(seed=seed)
    )


def _splits(texts: EvaluationSet, classes: NDArray[np.int64], seed: int) -> Iterator[Split]:
    parts = np.array([part for _, part in texts.groups])
    if not any(parts):
        if np.bincount(classes).max(initial=0) < N_FOLDS:
            return
        model = StratifiedKFold(N_FOLDS, shuffle=True, random_state=seed)
        folds = [test for _, test in model.split(classes, classes)]
        for k, test in enumerate(folds):
            choose = folds[(k + 1) % N_FOLDS]
            train = np.setdiff1d(np.arange(len(classes)), np.concatenate([test, choose]))
            yield train, choose, test
        return
    train, choose, test = (np.flatnonzero(parts == part) for part in ("train", "dev", "test"))
    if train.size < (1 if choose.size else N_FOLDS):
        raise ValueError(
            f"the set {texts.name} has {plural(train.size, 'text')} in its part train: give it more, or no parts"
        )
    if not choose.size:
        sizes = np.unique(classes[train], return_counts=True)[1]
        # A tenth holds some of each label where all have two texts and it is large enough.
        is_stratified = sizes.min() > 1 and sizes.size <= math.ceil(train.size * (1 / N_FOLDS))
        train, choose = train_test_split(
            train,
            test_size=1 / N_FOLDS,
            random_state=seed,
            stratify=classes[train] if is_stratified else None,
        )
    yield train, choose, test
