"""Bias of word vectors: the Word-Embedding Association Test (WEAT) of Caliskan, Bryson and Narayanan (2017).

A test asks whether two sets of target words (names of men and of women) differ in how near they are to two sets of
attribute words (career, family). The effect size lies between -2 and 2; 0 is no difference. The p-value is the chance
that a random partition of the target words differs as much, in the same direction.

The ten tests of the paper are part of the package (`sets/weat.toml`, English); a file of the same form holds others::

    [[tests]]
    name = "trades"
    targets = ["men", "women"]
    attributes = ["crafts", "care"]

    [words]
    men = ["he", "man"]
    women = ["she", "woman"]
    crafts = ["carpenter", "plumber"]
    care = ["nurse", "midwife"]
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from distembed.evaluation import blocks
from distembed.evaluation.scoring import Case, Policy, Space, cosine_table, text_table, word_rows
from distembed.evaluation.wordsets import PACKAGED_SETS, WordSetError
from distembed.files import read_small
from distembed.vectors import WordVectors

MIN_KNOWN = 0.8
"""Share of each list that needs a vector for its test to be answered, as in the package `wefe`."""
N_PERMUTATIONS = 10_000
"""Random partitions where there are more than `MAX_EXACT`: p to about 0.005 at 0.05."""
MAX_EXACT = 50_000
"""Partitions that are all looked at: two sets of nine words have 48,620."""


class WordList(NamedTuple):
    """A list of words and its name."""

    name: str
    words: tuple[str, ...]


class AssociationTest(NamedTuple):
    """Two lists of target words and two lists of attribute words."""

    name: str
    targets: tuple[WordList, WordList]
    attributes: tuple[WordList, WordList]

    @property
    def lists(self) -> tuple[WordList, WordList, WordList, WordList]:
        """The four lists: targets X and Y, attributes A and B."""
        return *self.targets, *self.attributes


class Association(NamedTuple):
    """The answer to a test: the effect size and its p-value, NaN where too few words of a list are known.

    `n_partitions` are those that the p-value looked at, all that there are if `exact`; `known` and `total` count the
    words of the four lists.
    """

    test: str
    targets: tuple[str, str]
    attributes: tuple[str, str]
    effect_size: float
    p_value: float
    n_partitions: int
    exact: bool
    known: int
    total: int


def weat(
    vectors: WordVectors | str | Path,
    tests: str | Path | Iterable[AssociationTest] | None = None,
    *,
    case: Case = "auto",
    min_known: float = MIN_KNOWN,
    n_permutations: int = N_PERMUTATIONS,
    seed: int = 0,
) -> list[Association]:
    """Measure associations of word vectors that stand for biases, with their p-values.

    Parameters
    ----------
    vectors : WordVectors, str or Path
        The word vectors, or a file of them.
    tests : str, Path or sequence of AssociationTest, optional
        The tests, or a TOML file of them; by default the ten of the paper.
    case : {"auto", "lower", "keep", "ignore"}
        The spellings in which a word is looked up, as in `distembed.evaluate`. In a vocabulary in lower case the names
        Bill and Frank are also the common words.
    min_known : float
        The share of each list that must be known for a test to be answered, above 0 and at most 1. Unknown words are
        left out.
    n_permutations : int
        How many random partitions are drawn where there are too many to look at all; at least 1.
    seed : int
        The seed of the random partitions.

    Returns
    -------
    list of Association
        One per test.

    Raises
    ------
    ValueError
        If an option is out of its range, or the file is not of the form that `distembed.evaluation.bias` shows.

    References
    ----------
    Caliskan, Bryson & Narayanan 2017, the Word-Embedding Association Test.

    Examples
    --------
    >>> import distembed as de
    >>> from distembed.evaluation.bias import AssociationTest, WordList
    >>> vectors = de.WordVectors("abcdxy", [[1, 0], [1, 0.2], [0, 1], [0.1, 1], [1, 0.1], [0.2, 1]])
    >>> targets = WordList("first", ("a", "b")), WordList("second", ("c", "d"))
    >>> attributes = WordList("X", ("x",)), WordList("Y", ("y",))
    >>> [found] = de.weat(vectors, [AssociationTest("toy", targets, attributes)])
    >>> print(f"{found.effect_size:.2f}, p = {found.p_value:.2f} of {found.n_partitions} partitions")
    1.99, p = 0.17 of 6 partitions
    """
    if not 0 < min_known <= 1:
        raise ValueError(f"min_known is {min_known}: choose a share above 0 and at most 1")
    if n_permutations < 1:
        raise ValueError(f"n_permutations is {n_permutations}: choose 1 or more")
    loaded = vectors if isinstance(vectors, WordVectors) else WordVectors.load(vectors)
    asked = read_association_tests(tests) if tests is None or isinstance(tests, str | Path) else tests
    policy = Policy(case, seed=seed).for_words(loaded.words)
    return [_association(loaded, test, policy, min_known, n_permutations) for test in asked]


def _association(
    vectors: Space, test: AssociationTest, policy: Policy, min_known: float, n_permutations: int
) -> Association:
    rows = [word_rows(vectors, each.words, policy) for each in test.lists]
    known = [each[each >= 0] for each in rows]
    names = (
        test.name,
        (test.targets[0].name, test.targets[1].name),
        (test.attributes[0].name, test.attributes[1].name),
    )
    counts = sum(each.size for each in known), sum(each.size for each in rows)
    if any(part.size < max(1, min_known * whole.size) for part, whole in zip(known, rows, strict=True)):
        return Association(*names, math.nan, math.nan, 0, False, *counts)
    x, y = (associations(vectors, targets, known[2], known[3]) for targets in known[:2])
    found = blocks.permutation_test(
        x, y, max_exact=MAX_EXACT, n_samples=n_permutations, generator=np.random.default_rng(policy.seed)
    )
    return Association(*names, blocks.effect_size(x, y), *found, *counts)


def associations(
    vectors: Space, targets: NDArray[np.int64], first: NDArray[np.int64], second: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Return for each target row its mean cosine with the first attributes minus that with the second, float64 (n,)."""
    return np.asarray(
        cosine_table(vectors, targets, first).mean(axis=1)
        - cosine_table(vectors, targets, second).mean(axis=1)
    )


# ------------------------------------------------------------------------------------------------------ files


def read_association_tests(path: str | Path | None = None) -> list[AssociationTest]:
    """Read tests from a TOML file, by default the ten of the paper.

    Raises
    ------
    WordSetError
        If the file is not of the form that this module shows; the message names the test and what it lacks.
    """
    path = PACKAGED_SETS / "weat.toml" if path is None else Path(path)
    data = read_small(path)
    try:
        content = tomllib.loads(data.decode("utf-8"))
    except ValueError as error:
        raise WordSetError(f"{path} is not TOML: {error}; correct it") from error
    except (RecursionError, MemoryError):
        raise WordSetError(f"{path} holds lists or tables inside each other too deeply; correct it") from None
    tests, words = content.get("tests"), content.get("words")
    are_tables = isinstance(tests, list) and all(isinstance(each, dict) for each in tests)
    if not (tests and are_tables and isinstance(words, dict)):
        raise WordSetError(
            f"{path} holds no tests: it needs [[tests]] and [words], see distembed.evaluation.bias"
        )
    return [_test(path, number, each, words) for number, each in enumerate(tests, start=1)]


def _test(path: Path, number: int, entry: Mapping[str, Any], words: Mapping[str, Any]) -> AssociationTest:
    name = str(entry.get("name", f"test {number}"))
    pairs = [_two_lists(f"{path}, {name}", key, entry.get(key), words) for key in ("targets", "attributes")]
    return AssociationTest(name, pairs[0], pairs[1])


def _two_lists(where: str, key: str, names: Any, words: Mapping[str, Any]) -> tuple[WordList, WordList]:
    if not (isinstance(names, list) and len(names) == 2):
        raise WordSetError(f"{where}: {key} is {names!r}; give the names of two lists of [words]")
    first, second = (_word_list(where, str(name), words.get(str(name))) for name in names)
    return first, second


def _word_list(where: str, name: str, words: Any) -> WordList:
    if not (isinstance(words, list) and words and all(isinstance(word, str) for word in words)):
        raise WordSetError(f"{where}: there is no list of words {name!r} in [words]; add it")
    return WordList(name, tuple(words))


# ------------------------------------------------------------------------------------------------- presenting


def association_rows(found: Sequence[Association]) -> list[dict[str, str]]:
    """Return the answers as rows of text: test, targets, attributes, effect size, p-value, known words of all."""
    return [
        {
            "test": each.test,
            "targets": " / ".join(each.targets),
            "attributes": " / ".join(each.attributes),
            "effect size": _number(each.effect_size, 2),
            "p": _number(each.p_value, 4),
            "partitions": f"{each.n_partitions:,}{'' if each.exact or not each.n_partitions else ' drawn'}",
            "known/total": f"{each.known}/{each.total}",
        }
        for each in found
    ]


def format_associations(found: Sequence[Association]) -> str:
    """Return the answers as one aligned table of plain text."""
    rows = association_rows(found)
    return text_table([tuple(rows[0]), *(tuple(row.values()) for row in rows)]) if rows else ""


def _number(value: float, n_decimals: int) -> str:
    return "-" if math.isnan(value) else f"{value:.{n_decimals}f}"
