"""Scores of word vectors on word-level sets: similarity, analogies, synonym choice, categories.

Sets of associations, priming and antonyms are scored by `distembed.evaluation.priming`.

Conventions, the same for every set:

- A word of a set is looked up as it is written, then in lower case, each also with underscores for spaces, so
  that a vocabulary that keeps capitals and one in lower case are both answered (`case="auto"`). `case="lower"` and
  `case="keep"` try one of the two; `case="ignore"` takes, after both, the first word of the vocabulary that has
  the same lower-case form.
- `unknown="skip"` leaves items with an unknown word out; `unknown="zero"` counts them: a pair has similarity
  0, an analogy or a choice is wrong, a word to be categorized has the zero vector.
  `unknown="subwords"` composes the vectors of unknown words from their character n-grams; for each set its own
  unknown words join the vocabulary, so that they may answer an analogy of that set too. Every score counts
  the items whose words are all known, those answered with a composed vector, and all, because scores of different
  vocabularies compare only on the same items: see `compare`.
- A synonym question with an unknown option is unknown.
- The cosine of a zero vector is 0. Scores are fractions, not percentages.
- Intervals are bootstrap percentiles over items, 95 %, from one seed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import reduce
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
from sklearn.cluster import KMeans

from distembed.dtypes import Float32s, Float64s, Int64s, Mask
from distembed.evaluation import blocks
from distembed.evaluation.priming import (
    evaluate_antonyms,
    evaluate_associations,
    evaluate_priming,
)
from distembed.evaluation.scoring import (
    SPELLINGS,
    Case,
    Policy,
    Score,
    Space,
    Unknown,
    correlation_score,
    form_to_compose,
    known_and_used,
    known_cosines,
    mean_score,
    row_table,
    text_table,
    unit_rows,
    units,
    word_rows,
)
from distembed.evaluation.sparse_space import SparseSpace
from distembed.evaluation.wordsets import (
    ASK_ALL_WORDS,
    AnalogySet,
    AntonymSet,
    AssociationSet,
    CategorySet,
    PrimingSet,
    SimilaritySet,
    SynonymSet,
    WordSet,
    find_word_sets,
    words_of,
)
from distembed.execution import compute, delayed, one_blas_thread, tell
from distembed.states import block_memory
from distembed.vectors import WordVectors

MAX_BLOCK_WORDS = 4096  # more words a block make rows of cosines that leave the processor's cache
MIN_BLOCK_WORDS = 64  # fewer words a block are products too small to be fast
KMEANS_STARTS = 10


def evaluate(
    vectors: WordVectors | str | Path,
    sets: str | Path | Iterable[str | Path],
    *,
    case: Case = "auto",
    unknown: Unknown = "skip",
    restrict: Iterable[str] | None = None,
    max_words: int | None = None,
    seed: int = 0,
) -> list[Score]:
    r"""Score word vectors on evaluation sets.

    Parameters
    ----------
    vectors : WordVectors, str or Path
        The word vectors, or a file of them.
    sets : str, Path or sequence of them
        A folder, a file, or several of either; see `distembed.evaluation.wordsets` for the formats.
    case : {"auto", "lower", "keep", "ignore"}
        The spellings in which a word is looked up; see the conventions of this module.
    unknown : {"skip", "zero", "subwords"}
        How items with unknown words count; see the conventions of this module.
    restrict : iterable of str, optional
        If given, only these words count as known and may be answers.
    max_words : int, optional
        If given, only the first words of the vectors count as known and may be answers (gensim's
        `restrict_vocab`).
    seed : int
        The seed of the bootstrap intervals and of clustering.

    Returns
    -------
    list of Score
        In the order of the sets: two per analogy set (3CosAdd, 3CosMul); for priming, associations and antonyms see
        `distembed.evaluation.priming`.

    Raises
    ------
    ValueError
        If a file is not in its format, no word of `restrict` is known, no item of any set is known, or `case` or
        `unknown` is not one of its choices.

    Examples
    --------
    >>> import distembed as de
    >>> from pathlib import Path
    >>> vectors = de.WordVectors(["king", "queen", "pear"], [[1.0, 0.1], [0.9, 0.2], [-0.1, 1.0]])
    >>> lines = ["king queen 9.0", "king pear 1.0", "queen pear 1.5", "king plum 1.0"]
    >>> _ = Path("pairs.txt").write_text("\n".join(lines))
    >>> [score] = de.evaluate(vectors, "pairs.txt")
    >>> score.set, score.task, score.metric, round(score.value, 2)
    ('pairs', 'similarity', 'spearman', 1.0)
    >>> score.answered  # "plum" has no vector
    '3/4'
    """
    limited, read = _limit(vectors, restrict, max_words), find_word_sets(sets)
    return score_known(limited, read, Policy(case, unknown, seed))


def evaluate_sets(vectors: Space, sets: Iterable[WordSet], policy: Policy | None = None) -> list[Score]:
    """Score word vectors, or a sparse space, on sets already read; analogies need word vectors."""
    policy = policy or Policy()
    for option, value, choices in (
        ("case", policy.case, get_args(Case)),
        ("unknown", policy.unknown, get_args(Unknown)),
    ):
        if value not in choices:
            raise ValueError(f"{option} is {value!r}; give one of {', '.join(map(repr, choices))}")
    _check_unknown(vectors, policy)
    policy = policy.for_words(vectors.words)
    scores, every = list[Score](), list(sets)
    score_set = _with_composed_words if policy.unknown == "subwords" else _with_known_words
    for number, word_set in enumerate(every, start=1):
        scores += score_set(vectors, word_set, policy)
        tell("sets", number, len(every))
    return scores


def _check_unknown(vectors: Space, policy: Policy, name: str = "these vectors") -> None:
    can_compose = isinstance(vectors, WordVectors) and vectors.subwords is not None
    if policy.unknown == "subwords" and not can_compose:
        raise ValueError(
            f'unknown is "subwords", and there is no table of n-grams to compose words from in {name}: give a '
            'workspace or file that has one, or unknown="skip"'
        )


def _with_known_words(vectors: Space, word_set: WordSet, policy: Policy) -> list[Score]:
    return _EVALUATORS[type(word_set)](vectors, word_set, policy)


def _with_composed_words(vectors: Space, word_set: WordSet, policy: Policy) -> list[Score]:
    """Score a set with its unknown words composed, and count what is known without them."""
    assert isinstance(vectors, WordVectors)
    own, extended = with_composed_words(vectors, word_set, policy)
    plain = policy._replace(unknown="skip")
    scores = _with_known_words(extended, word_set, plain)
    known = [score.known for score in _with_known_words(own, word_set, plain)] if own else [0] * len(scores)
    return [
        score._replace(known=n_known, composed=score.known - n_known, policy=str(policy))
        for score, n_known in zip(scores, known, strict=True)
    ]


def with_composed_words(
    vectors: WordVectors, word_set: WordSet, policy: Policy
) -> tuple[WordVectors | None, WordVectors]:
    """Return the vectors of the known words of a set, None where there are none, and those with the others composed.

    Only analogies and antonyms look at words outside their set, which may answer or be nearer. Which items are known
    depends on the words of the set alone.
    """
    words = sorted({form for word in words_of(word_set) for form in (word, word.replace("_", " "))})
    rows = word_rows(vectors, words, policy)
    composed = [
        form_to_compose(word, policy) for word, row in zip(words, rows.tolist(), strict=True) if row < 0
    ]
    known_rows = np.unique(rows[rows >= 0]).tolist()
    own = vectors.restricted(vectors.words[row] for row in known_rows) if known_rows else None
    candidates = vectors if own is None or isinstance(word_set, ASK_ALL_WORDS) else own
    return own, candidates.extended(composed)


def score_known(
    vectors: Space,
    sets: Sequence[WordSet],
    policy: Policy | None = None,
    *,
    name: str = "",
    vocabulary: Sequence[str] | None = None,
) -> list[Score]:
    """Score word vectors on sets already read; it is an error if no score is based on a known word.

    Parameters
    ----------
    vectors : WordVectors or SparseSpace
        The vectors.
    sets : sequence of word sets
        The sets.
    policy : Policy, optional
        How words are looked up.
    name : str
        The name of the vectors for the error, where there are several.
    vocabulary : sequence of str, optional
        The words that have a vector, if `vectors` holds only those of the sets.

    Raises
    ------
    ValueError
        If no item of any set is known; the message gives the reason.
    """
    scores = evaluate_sets(vectors, sets, policy)
    if sets and not any(score.known + score.composed for score in scores):
        reason = why_unknown(vocabulary or vectors.words, sets, policy or Policy())
        raise ValueError(f"{f'{name}: ' if name else ''}{_none_known(scores)}: {reason}")
    return scores


def _none_known(scores: Sequence[Score]) -> str:
    totals = {score.set: score.total for score in scores}
    items = "pairs" if {score.task for score in scores} == {"similarity"} else "items"
    names = ", ".join([*list(totals)[:3], *(["..."] if len(totals) > 3 else [])])
    return f"0 of {sum(totals.values())} {items} known ({names})"


def why_unknown(vocabulary: Sequence[str], sets: Sequence[WordSet], policy: Policy) -> str:
    """Return why a vocabulary knows nothing of some sets, and what to do about it."""
    words = sorted(set().union(*map(words_of, sets)))
    return case_advice(vocabulary, sets, policy) or (
        f"too few of their {len(words)} words ({', '.join(words[:3])}, ...) are among the {len(vocabulary)} words of "
        f"the vocabulary ({', '.join(vocabulary[:3])}, ...); give sets of the same language and spelling"
    )


def case_advice(vocabulary: Sequence[str], sets: Iterable[WordSet], policy: Policy) -> str:
    """Return which other way of looking words up would know twice as many words of some sets, "" where none would."""
    words = sorted(set().union(*map(words_of, sets)))
    policy = policy.for_words(vocabulary)
    n_known = _n_known(words, vocabulary, policy.case)
    others: tuple[Case, ...] = ("auto", "ignore")
    n_others = {case: _n_known(words, vocabulary, case) for case in others}
    best = max(others, key=lambda case: n_others[case])
    if n_others[best] < max(2 * n_known, 1):
        return ""
    return (
        f"the sets' words are looked up {' and '.join(SPELLINGS[policy.case])}, and the vocabulary keeps capitals; "
        f'with case = "{best}" {n_others[best]} of their {len(words)} words are known'
    )


def _n_known(words: Sequence[str], vocabulary: Iterable[str], case: Case) -> int:
    """Return how many words a vocabulary knows in one of the spellings of a case policy."""
    exact = set(vocabulary)
    lowered = {word.lower() for word in exact}
    known = {
        "as written": lambda word: word in exact,
        "lower case": lambda word: word.lower() in exact,
        "any case": lambda word: word.lower() in lowered,
    }
    return sum(any(known[spelling](word) for spelling in SPELLINGS[case]) for word in words)


def compare(
    candidates: Mapping[str, WordVectors | str | Path],
    sets: str | Path | Iterable[str | Path | SimilaritySet],
    *,
    same_words: bool = True,
    case: Case = "auto",
    unknown: Unknown = "skip",
    max_words: int | None = None,
    seed: int = 0,
) -> dict[str, list[Score]]:
    """Score several word vectors on the same items: by default, on the words that all of them have."""
    loaded = {name: _limit(vectors, None, max_words) for name, vectors in candidates.items()}
    read, policy = find_word_sets(sets), Policy(case, unknown, seed)
    for name, vectors in loaded.items():
        _check_unknown(vectors, policy, name)
    return {
        name: score_known(vectors, read, policy, name=name if len(loaded) > 1 else "")
        for name, vectors in (on_common_words(loaded) if same_words else loaded).items()
    }


def on_common_words(candidates: Mapping[str, WordVectors]) -> dict[str, WordVectors]:
    """Return each of some word vectors with the words that all of them have."""
    common = common_words(list(candidates.values()))
    return {name: vectors.restricted(common) for name, vectors in candidates.items()}


def common_words(candidates: Sequence[WordVectors]) -> list[str]:
    """Return the words that all candidates have, in the order of the first."""
    return [word for word in candidates[0] if all(word in other for other in candidates[1:])]


def _limit(
    vectors: WordVectors | str | Path, restrict: Iterable[str] | None, max_words: int | None
) -> WordVectors:
    if not isinstance(vectors, WordVectors):
        vectors = WordVectors.load(vectors, max_words=max_words)
    if max_words is not None:
        vectors = vectors.head(max_words)
    return vectors if restrict is None else vectors.restricted(restrict)


# ---------------------------------------------------------------------------------------------- similarity


def evaluate_similarity(
    vectors: Space,
    pairs: SimilaritySet,
    policy: Policy,
    *,
    metric: Literal["spearman", "pearson"] = "spearman",
) -> list[Score]:
    """Return the correlation of cosine with human score; pairs are known when both words are.

    Spearman's is the measure of the field; S-Space, the program of Jurgens and Stevens (2010), has Pearson's.
    """
    rows = row_table(vectors, pairs.pairs, policy)
    (known, used), cosines = known_and_used(rows, policy), known_cosines(vectors, rows)
    x, y = cosines[used], pairs.scores[used]
    names, counts = (pairs.name, "similarity", metric), (int(known.sum()), len(rows))
    correlation = blocks.spearman if metric == "spearman" else blocks.pearson
    return [correlation_score(names, x, y, counts, policy, correlation=correlation)]


# ----------------------------------------------------------------------------------------------- analogies


def evaluate_analogies(vectors: Space, questions: AnalogySet, policy: Policy) -> list[Score]:
    """Return the accuracy of 3CosAdd and 3CosMul; a question is known when its four words are.

    The question's own three words may not answer. gensim's evaluate_word_analogies gives the same 3CosAdd
    accuracy where case and vocabulary agree (it upper-cases both sides and takes 300,000 words unless told
    otherwise).
    """
    known, points = right_answers(vectors, questions, policy)
    counts = int(known.sum()), len(known)
    return [
        mean_score(
            questions.name,
            ("analogy", metric),
            right[known] if policy.unknown == "skip" else right,
            counts,
            policy,
        )
        for metric, right in zip(("3CosAdd", "3CosMul"), points, strict=True)
    ]


def right_answers(vectors: Space, questions: AnalogySet, policy: Policy) -> tuple[Mask, Float64s]:
    """Return which questions are known (n,), and 1 for those that 3CosAdd and 3CosMul answer rightly (2, n)."""
    if isinstance(vectors, SparseSpace):
        raise TypeError(f"{questions.name} asks for analogies, which need word vectors, not a sparse space")
    rows = row_table(vectors, questions.questions, policy)
    known = np.asarray((rows >= 0).all(axis=1))
    points = np.zeros((2, len(rows)))
    if known.any():
        answers = answer_analogies(vectors, rows[known, :3])
        points[:, known] = [found == rows[known, 3] for found in (answers.add_row, answers.mul_row)]
    return known, points


def answer_analogies(vectors: WordVectors, questions: Int64s) -> blocks.Answers:
    """Return the best answers to analogies a : a2 :: b : ?, questions int64 (q, 3) as rows of the vectors.

    One task per block of candidates: the cosines with the distinct question words (19,544 questions ask about
    900) are computed once and shared by all questions. The vectors are in this process, so the tasks run on
    its threads; block borders depend on the questions and `block_memory` only, so that the bits do not
    depend on the threads.
    """
    distinct, positions = np.unique(questions, return_inverse=True)
    asked = unit_rows(vectors, distinct)
    positions = positions.reshape(questions.shape).astype(np.int64)
    step = int(np.clip(block_memory() // (4 * len(distinct)), MIN_BLOCK_WORDS, MAX_BLOCK_WORDS))
    arguments = (asked, positions, questions)
    tasks = [
        delayed(_answer_block)(vectors, start, step, arguments) for start in range(0, len(vectors), step)
    ]
    return reduce(blocks.better, compute(tasks, scheduler="threads"))


def _answer_block(
    vectors: WordVectors,
    start: int,
    step: int,
    arguments: tuple[Float32s, Int64s, Int64s],
) -> blocks.Answers:
    asked, positions, excluded = arguments
    rows = np.arange(start, min(start + step, len(vectors)))
    return blocks.best_answers(unit_rows(vectors, rows), asked, positions, excluded, start)


# ------------------------------------------------------------------------------------- synonyms, categories


def evaluate_synonyms(vectors: Space, choices: SynonymSet, policy: Policy) -> list[Score]:
    """Return the accuracy of choosing the option with the largest cosine.

    A question is known when its word and all its options are. k options that tie for the largest cosine give credit
    1/k to the answer among them.
    """
    known, points = choice_credits(vectors, choices, policy)
    used = points[known] if policy.unknown == "skip" else points
    return [mean_score(choices.name, ("synonym", "accuracy"), used, (int(known.sum()), len(known)), policy)]


def choice_credits(vectors: Space, choices: SynonymSet, policy: Policy) -> tuple[Mask, Float64s]:
    """Return which questions are known, and the credit for each; 0 for one that is not."""
    points, known = np.zeros(len(choices.questions)), np.zeros(len(choices.questions), dtype=np.bool_)
    for place, (question, options) in enumerate(zip(choices.questions, choices.options, strict=True)):
        rows = word_rows(vectors, [question, *options], policy)
        known[place] = (rows >= 0).all()
        if known[place]:
            pairs = np.column_stack([np.full_like(rows[1:], rows[0]), rows[1:]])
            points[place] = blocks.choose(vectors.similarities(pairs))
    return known, points


def evaluate_categories(vectors: Space, categories: CategorySet, policy: Policy) -> list[Score]:
    """Return the purity of k-means clusters of the unit vectors, with as many clusters as known categories.

    The interval is that of the share of words in their cluster's largest category, the clusters as they were found.
    """
    known, pure = words_in_majority(vectors, categories, policy)
    counts = int(known.sum()), len(known)
    return [mean_score(categories.name, ("categorization", "purity"), pure, counts, policy)]


def words_in_majority(vectors: Space, categories: CategorySet, policy: Policy) -> tuple[Mask, Float64s]:
    """Return which words are known, and 1 for those that count whose category is the largest of their cluster.

    scikit-learn's KMeans, the best by inertia of `KMEANS_STARTS` seeded starts. On unit vectors its distances order as
    cosines do, so that this is spherical clustering but for the centers' lengths. With one category there is none.
    """
    rows = word_rows(vectors, categories.words, policy)
    known = rows >= 0
    used = known if policy.unknown == "skip" else np.ones_like(known)
    classes = np.unique(np.array(categories.categories)[used], return_inverse=True)[1].astype(np.int64)
    if not classes.size or classes.max() == 0:
        return known, np.empty(0)
    kmeans = KMeans(int(classes.max()) + 1, n_init=KMEANS_STARTS, random_state=policy.seed)
    with one_blas_thread():
        clusters = kmeans.fit_predict(units(vectors, rows[used])).astype(np.int64)
    return known, blocks.in_majority(clusters, classes).astype(float)


_EVALUATORS: dict[type, Callable[[Any, Any, Policy], list[Score]]] = {
    SimilaritySet: evaluate_similarity,
    AnalogySet: evaluate_analogies,
    SynonymSet: evaluate_synonyms,
    CategorySet: evaluate_categories,
    AssociationSet: evaluate_associations,
    PrimingSet: evaluate_priming,
    AntonymSet: evaluate_antonyms,
}


# ---------------------------------------------------------------------------------------------- presenting


def score_records(scores: Iterable[Score]) -> list[dict[str, Any]]:
    """Return scores as dictionaries for JSON; NaN becomes None, and `composed` is there where words were composed."""
    return [_score_record(score) for score in scores]


def _score_record(score: Score) -> dict[str, Any]:
    record = {**score._asdict(), "value": None if math.isnan(score.value) else score.value}
    if not score.composed:
        del record["composed"]
    return record


def score_rows(scores: Iterable[Score]) -> list[tuple[str, ...]]:
    """Return scores as rows of text: set, task, metric, value x 100, interval x 100, known/total, policy."""
    return [
        (
            score.set,
            score.task,
            score.metric,
            percent(score.value),
            "" if score.interval is None else f"{percent(score.interval[0])}..{percent(score.interval[1])}",
            score.answered,
            score.policy,
        )
        for score in scores
    ]


SCORE_HEADINGS = ("set", "task", "metric", "x 100", "95 %", "known/total", "policy")


def format_scores(scores: Iterable[Score]) -> str:
    """Return scores as one aligned table of plain text."""
    return text_table([SCORE_HEADINGS, *score_rows(scores)])


def format_comparison(scores: Mapping[str, Sequence[Score]]) -> str:
    """Return the scores of `compare` side by side, one column per candidate."""
    first = next(iter(scores.values()))
    if len({tuple((score.set, score.metric) for score in column) for column in scores.values()}) > 1:
        raise ValueError("the candidates were scored on different sets; score them with `compare`")
    rows = [("set", "metric", *scores, "known/total")]
    for i, score in enumerate(first):
        counts = dict.fromkeys(column[i].answered for column in scores.values())
        rows.append(
            (
                score.set,
                score.metric,
                *(percent(column[i].value) for column in scores.values()),
                " ".join(counts),
            )
        )
    return text_table(rows)


def percent(value: float) -> str:
    """Return a share in percent, "-" for NaN."""
    return "-" if math.isnan(value) else f"{100 * value:.1f}"
