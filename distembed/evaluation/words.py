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
  vocabularies compare only on the same items: see `on_common_words`.
- A synonym question with an unknown option is unknown.
- The cosine of a zero vector is 0. Scores are fractions, not percentages.
- Intervals are bootstrap percentiles over items, 95 %, from one seed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple, get_args

import numpy as np
import pyarrow as pa
from sklearn.cluster import KMeans
from sklearn.metrics.cluster import contingency_matrix

from distembed.dtypes import Float64s
from distembed.evaluation import priming
from distembed.evaluation.analogies import answer_analogies
from distembed.evaluation.scoring import (
    NO_WORD,
    SPELLINGS,
    Asked,
    Case,
    Measure,
    Policy,
    Score,
    Space,
    Unknown,
    ask,
    pearson,
    spearman,
    unit_rows,
    word_rows,
)
from distembed.evaluation.sparse_space import SparseSpace
from distembed.evaluation.wordsets import EvaluationSet, find_sets
from distembed.execution import one_blas_thread, tell
from distembed.typing import Frame
from distembed.vectors import WordVectors

KMEANS_STARTS = 10


class Scores(list[Score]):
    """A list of scores, which can be a data frame."""

    def to_pandas(self) -> Frame:
        """Return a data frame with a row for each score; `low` and `high` are the ends of its interval.

        Examples
        --------
        >>> from distembed.evaluation.words import Score, Scores
        >>> scores = Scores([Score("pairs", "similarity", "spearman", 0.5, 8, 9, "", (0.25, 0.75))])
        >>> scores.to_pandas()[["value", "low", "high"]].loc[0].tolist()
        [0.5, 0.25, 0.75]
        """
        ends = [score.interval or (math.nan, math.nan) for score in self]
        rows = [
            score._asdict() | {"low": low, "high": high}
            for score, (low, high) in zip(self, ends, strict=True)
        ]
        return pa.Table.from_pylist(rows).drop_columns("interval").to_pandas()


def evaluate(
    vectors: WordVectors | str | Path,
    sets: str | Path | Iterable[str | Path | EvaluationSet],
    *,
    case: Case = "auto",
    unknown: Unknown = "skip",
    restrict: Iterable[str] | None = None,
    max_words: int | None = None,
    seed: int = 0,
) -> Scores:
    r"""Score word vectors on evaluation sets.

    Parameters
    ----------
    vectors : WordVectors, str or Path
        The word vectors, or a file of them.
    sets : str, Path, EvaluationSet or sequence of them
        A folder, a file, or several of either, or sets that are read already; see `distembed.evaluation.wordsets` for
        the formats.
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
    Scores
        A list of `Score`, which `to_pandas()` makes a data frame, in the order of the sets: two per analogy
        set (3CosAdd, 3CosMul); for priming, associations and antonyms see `distembed.evaluation.priming`.

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
    if not isinstance(vectors, WordVectors):
        vectors = WordVectors.load(vectors, max_words=max_words)
    if max_words is not None:
        vectors = vectors.head(max_words)
    if restrict is not None:
        vectors = vectors.restricted(restrict)
    policy = Policy(case, unknown, seed)
    return Scores(evaluate_sets(vectors, find_sets(sets).sets, policy, needs_known=True))


def evaluate_sets(
    vectors: Space,
    sets: Sequence[EvaluationSet],
    policy: Policy | None = None,
    *,
    name: str = "",
    vocabulary: Sequence[str] | None = None,
    needs_known: bool = False,
) -> list[Score]:
    """Score word vectors, or a sparse space, on sets already read; analogies need word vectors.

    Parameters
    ----------
    vectors : WordVectors or SparseSpace
        The vectors.
    sets : sequence of EvaluationSet
        The sets.
    policy : Policy, optional
        How words are looked up.
    name : str
        The name of the vectors for errors, where there are several.
    vocabulary : sequence of str, optional
        The words that have a vector, if `vectors` holds only those of the sets.
    needs_known : bool
        Whether it is an error if no item of any set is known.

    Raises
    ------
    ValueError
        If `case` or `unknown` is not one of its choices, words cannot be composed, or no item of any set is known; the
        message gives the reason.
    """
    policy = policy or Policy()
    for option, value, choices in (
        ("case", policy.case, get_args(Case)),
        ("unknown", policy.unknown, get_args(Unknown)),
    ):
        if value not in choices:
            raise ValueError(f"{option} is {value!r}; give one of {', '.join(map(repr, choices))}")
    if policy.unknown == "subwords" and getattr(vectors, "subwords", None) is None:
        raise ValueError(
            'unknown is "subwords", and there is no table of n-grams to compose words from in '
            f'{name or "these vectors"}: give a workspace or file that has one, or unknown="skip"'
        )
    looked_up, scores = policy.for_words(vectors.words), list[Score]()
    for number, one in enumerate(sets, start=1):
        own, asked = asked_of(vectors, one, looked_up)
        of_set = _measured(asked, looked_up)
        if policy.unknown == "subwords":  # the items known without composed words are counted apart
            known = [score.known for score in _measured(own, looked_up)] if own else [0] * len(of_set)
            of_set = [
                score._replace(known=n_known, composed=score.known - n_known)
                for score, n_known in zip(of_set, known, strict=True)
            ]
        scores += of_set
        tell("sets", number, len(sets))
    if needs_known and sets and not any(score.known + score.composed for score in scores):
        totals, vocabulary = {score.set: score.total for score in scores}, vocabulary or vectors.words
        items = "pairs" if {score.task for score in scores} == {"similarity"} else "items"
        names = ", ".join([*list(totals)[:3], *(["..."] if len(totals) > 3 else [])])
        words = sorted(set().union(*(one.words for one in sets)))
        reason = case_advice(vectors, sets, policy) or (
            f"too few of their {len(words)} words ({', '.join(words[:3])}, ...) are among the {len(vocabulary)} words "
            f"of the vocabulary ({', '.join(vocabulary[:3])}, ...); give sets of the same language and spelling"
        )
        raise ValueError(
            f"{f'{name}: ' if name else ''}0 of {sum(totals.values())} {items} known ({names}): {reason}"
        )
    return scores


def _measured(asked: Asked, policy: Policy) -> list[Score]:
    task, counts = TASKS[asked.one.task], (int(asked.known.sum()), len(asked.known))
    return [
        measure.score(asked.one.name, asked.one.task, counts, policy)
        for measure in task.measures(asked, task.points(asked))
    ]


def asked_of(vectors: Space, one: EvaluationSet, policy: Policy) -> tuple[Asked | None, Asked]:
    """Return a set as its known words know it, None where there are none, and as those that answer it do.

    The two differ where unknown words are composed. Only analogies and antonyms look at words outside their set,
    which may answer or be nearer. Which items are known depends on the words of the set alone.
    """
    if policy.unknown != "subwords":
        asked = ask(vectors, one, policy)
        return asked, asked
    assert isinstance(vectors, WordVectors)
    plain = policy._replace(unknown="skip")
    words = sorted({form for word in one.words for form in (word, word.replace("_", " "))})
    rows = word_rows(vectors, words, policy)
    # An unknown word is composed in the first spelling that the policy tries.
    is_lowered = SPELLINGS[policy.case][0] == "lower case"
    composed = [words[place].lower() if is_lowered else words[place] for place in np.flatnonzero(rows < 0)]
    known_rows = np.unique(rows[rows >= 0]).tolist()
    own = vectors.restricted(vectors.words[row] for row in known_rows) if known_rows else None
    candidates = vectors if own is None or one.task in ASK_ALL_WORDS else own
    return ask(own, one, plain) if own else None, ask(candidates.extended(composed), one, plain)


def case_advice(vectors: Space, sets: Iterable[EvaluationSet], policy: Policy) -> str:
    """Return which other way of looking words up would know twice as many words of some sets, "" where none would."""
    words, policy = sorted(set().union(*(one.words for one in sets))), policy.for_words(vectors.words)
    n_known = {case: int((word_rows(vectors, words, Policy(case)) >= 0).sum()) for case in SPELLINGS}
    best: Case = "ignore" if n_known["ignore"] > n_known["auto"] else "auto"
    if n_known[best] < max(2 * n_known[policy.case], 1):
        return ""
    return (
        f"the sets' words are looked up {' and '.join(SPELLINGS[policy.case])}, and the vocabulary keeps capitals; "
        f'with case = "{best}" {n_known[best]} of their {len(words)} words are known'
    )


def on_common_words(candidates: Mapping[str, WordVectors]) -> dict[str, WordVectors]:
    """Return each of some word vectors with the words that all of them have.

    Raises
    ------
    ValueError
        If there is no such word.
    """
    first, *others = candidates.values()
    common = [word for word in first if all(word in other for other in others)]
    if not common:
        raise ValueError(
            f"the vectors of {', '.join(candidates)} share no word: give those of one language and case"
        )
    return {name: vectors.restricted(common) for name, vectors in candidates.items()}


# --------------------------------------------------------------------------------------------------- tasks


class Task(NamedTuple):
    """How sets of a task are scored: the points of each item, float64 (n,) or (metrics, n), and the metrics of them."""

    points: Callable[[Asked], Float64s]
    measures: Callable[[Asked, Float64s], Iterable[Measure]]


def means(*metrics: str) -> Callable[[Asked, Float64s], Iterable[Measure]]:
    """Return what measures the mean of each row of points over the items that count."""
    return lambda asked, points: [
        Measure(metric, (of_metric[asked.used],))
        for metric, of_metric in zip(metrics, np.atleast_2d(points), strict=True)
    ]


def right_answers(asked: Asked) -> Float64s:
    """Return 1 for the questions that 3CosAdd and 3CosMul answer rightly, float64 (2, n), 0 for others.

    A question is known when its four words are; its own first three words may not answer. gensim's
    evaluate_word_analogies gives the same 3CosAdd accuracy where case and vocabulary agree (it upper-cases both sides
    and takes 300,000 words unless told otherwise).
    """
    if isinstance(asked.space, SparseSpace):
        raise TypeError(f"{asked.one.name} asks for analogies, which need word vectors, not a sparse space")
    points, rows = np.zeros((2, len(asked.rows))), asked.rows[asked.known]
    if rows.size:
        answers = answer_analogies(asked.space, rows[:, :3])
        points[:, asked.known] = [found == rows[:, 3] for found in (answers.add_row, answers.mul_row)]
    return points


def choice_credits(asked: Asked) -> Float64s:
    """Return the credit for each synonym question, float64 (n,): whether the answer has the largest cosine.

    A question is known when its word and all its options are. k options that tie for the largest cosine give credit
    1/k to the answer among them; a question that is not known gives none.
    """
    points = np.zeros(len(asked.rows))
    for place in np.flatnonzero(asked.known):
        question, *options = asked.rows[place][asked.rows[place] != NO_WORD]
        pairs = np.array([(question, option) for option in options], dtype=np.int64)
        cosines = asked.space.similarities(pairs)
        if cosines[0] == cosines.max():
            points[place] = 1 / np.count_nonzero(cosines == cosines[0])
    return points


def words_in_majority(asked: Asked) -> Float64s:
    """Return 1 for the words whose category is the largest of their cluster, float64 (n,); NaN for those left out.

    scikit-learn's KMeans on the unit vectors, with as many clusters as categories of the words that count, the best by
    inertia of `KMEANS_STARTS` seeded starts. On unit vectors its distances order as cosines do, so that this is
    spherical clustering but for the centers' lengths. With one category there is none. The interval of the purity is
    that of the share of words in their cluster's largest category, the clusters as they were found.
    """
    points, used = np.full(len(asked.rows), np.nan), asked.used
    classes = np.unique(np.array(asked.one.groups)[used], return_inverse=True)[1].astype(np.int64)
    if classes.size and classes.max() > 0:
        kmeans = KMeans(int(classes.max()) + 1, n_init=KMEANS_STARTS, random_state=asked.policy.seed)
        with one_blas_thread():
            clusters = kmeans.fit_predict(unit_rows(asked.space, asked.rows[used, 0]))
        table = contingency_matrix(
            classes, clusters
        )  # of equally frequent categories of a cluster the first counts
        points[used] = table.argmax(axis=0)[np.unique(clusters, return_inverse=True)[1]] == classes
    return points


cosines = attrgetter("cosines")
"""What gives the points of pairs."""


def correlation(metric: str, statistic: Callable[..., Float64s]) -> Task:
    """Return the task of correlating cosine with human score; pairs are known when both words are."""
    return Task(
        cosines,
        lambda asked, points: [
            Measure(metric, (points[asked.used], asked.one.values[asked.used]), statistic, task="similarity")
        ],
    )


TASKS: dict[str, Task] = {
    "similarity": correlation("spearman", spearman),
    "linear similarity": correlation("pearson", pearson),  # as S-Space has it, of Jurgens and Stevens (2010)
    "analogy": Task(right_answers, means("3CosAdd", "3CosMul")),
    "synonym": Task(choice_credits, means("accuracy")),
    "categorization": Task(words_in_majority, means("purity")),
    "normed priming": Task(cosines, priming.associations),
    "priming": Task(cosines, priming.priming),
    "antonyms": Task(cosines, priming.antonyms),
}

ASK_ALL_WORDS = ("analogy", "antonyms")
"""Tasks whose scores depend on all words of the vectors, and not only on those of the set."""


# ---------------------------------------------------------------------------------------------- presenting


def item_table(
    candidates: Mapping[str, WordVectors], sets: Iterable[EvaluationSet], policy: Policy
) -> pa.Table:
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
    pyarrow.Table
        The columns are `vectors`, `set`, `task`, `word1` and so on (of a category the word and its category), `value`
        (the human score of a pair, the share of people who gave an answer), `score` (the cosine of a pair; 1 or 0 for
        an analogy that 3CosAdd answers or not, the credit for a synonym, 1 or 0 for a word in a cluster of its
        category or not) and `known`. An item with an unknown word has no score, unless the word was composed.
    """
    rows, width = list[dict[str, Any]](), 0
    for one in sets:
        for name, vectors in candidates.items():
            of_vectors = policy.for_words(vectors.words)
            if policy.unknown != "subwords":
                of_vectors = of_vectors._replace(unknown="skip")
            own, asked = asked_of(vectors, one, of_vectors)
            points = np.where(asked.known, np.atleast_2d(TASKS[one.task].points(asked))[0], np.nan)
            values = one.values if one.values.ndim == 1 and one.values.size else np.full(len(points), np.nan)
            known = own.known if own else np.zeros_like(asked.known)
            numbers = [np.where(np.isnan(each), None, each).tolist() for each in (values, points)]  # type: ignore[call-overload]
            for place, item in enumerate(one.items):
                words = (*item, one.groups[place]) if one.task == "categorization" else item
                row = {"vectors": name, "set": one.name, "task": one.task}
                row |= {f"word{n}": word for n, word in enumerate(words, start=1)}
                value, score = (each[place] for each in numbers)
                rows.append(row | {"value": value, "score": score, "known": bool(known[place])})
                width = max(width, len(words))
    texts = ["vectors", "set", "task", *(f"word{n}" for n in range(1, width + 1))]
    schema = pa.schema(
        dict.fromkeys(texts, pa.string())
        | {"value": pa.float64(), "score": pa.float64(), "known": pa.bool_()}
    )
    return pa.Table.from_pylist(rows, schema)


def score_records(scores: Iterable[Score]) -> list[dict[str, Any]]:
    """Return scores as dictionaries for JSON; NaN becomes None, and `composed` is there where words were composed."""
    return [
        {name: value for name, value in score._asdict().items() if name != "composed" or value}
        | {"value": None if math.isnan(score.value) else score.value}
        for score in scores
    ]
