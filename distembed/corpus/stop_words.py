"""Stop words: the function words of a language, which tell no document from another.

The English list is that of scikit-learn, with contractions and their pieces, since the tokenizer may cut "don't" into
*don* and *t*; those of other languages are in the package stop-words (BSD license). A list of your own is a text file
with one word per line.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from operator import itemgetter
from pathlib import Path
from typing import Literal, get_args

from stop_words import get_stop_words

from distembed.files import damage_told, read_small
from distembed.formats.encodings import utf8

Language = Literal[
    "none", "english", "arabic", "bulgarian", "catalan", "chinese", "czech", "danish", "dutch", "finnish", "french",
    "german", "greek", "gujarati", "hebrew", "hindi", "hungarian", "indonesian", "italian", "japanese", "korean",
    "malaysian", "norwegian", "persian", "polish", "portuguese", "romanian", "russian", "slovak", "spanish", "swedish",
    "turkish", "ukrainian", "vietnamese",
]  # fmt: skip
"""The lists of stop words that have a name; "none" has no word."""


_NEGATED = (
    "ai", "are", "ca", "could", "did", "does", "do", "had", "has", "have", "is", "might", "must", "need", "should",
    "was", "were", "would",
)  # fmt: skip
_SUBJECTS = ("he", "i", "it", "she", "that", "there", "they", "we", "what", "who", "you")
CONTRACTIONS = (
    *(f"{verb}n't" for verb in _NEGATED),
    *(f"{subject}'{verb}" for subject in _SUBJECTS for verb in ("d", "ll", "m", "re", "s", "ve")),
    "let's",
)


def stop_words_of(stop_words: Iterable[str], *, file: str | Path | None = None) -> frozenset[str]:
    """Return the words that are to be left out.

    Parameters
    ----------
    stop_words : str or iterable of str
        The name of a list (`Language`), or the words themselves.
    file : str or Path, optional
        A text file with further words, one per line; empty lines and lines that begin with ``#`` are left out.

    Returns
    -------
    frozenset of str
        The words of both, in lower case where they come from a list.

    Raises
    ------
    ValueError
        If there is no list of that name; if the file is not UTF-8 and has no byte-order mark, has no word, or a line
        has several.
    ImportError
        If the list is in the package stop-words, which is not installed.

    Examples
    --------
    >>> from distembed.corpus.stop_words import stop_words_of
    >>> "the" in stop_words_of("english")
    True
    """
    named = _of_language(stop_words) if isinstance(stop_words, str) else frozenset(stop_words)
    if file is None:
        return named
    with damage_told(str(file), ValueError, "text", "save it as UTF-8"):
        lines = utf8(read_small(file), str(file), has_option=False).decode().splitlines()
    words = {
        line.strip(): number for number, line in enumerate(lines, 1) if line.strip()[:1] not in ("", "#")
    }
    for word, number in words.items():
        if len(word.split()) > 1:
            raise ValueError(f"{file}, line {number}, has {word[:40]!r}; give one stop word per line")
    if not words:
        raise ValueError(f"{file} has no stop word; give a text file with one word per line")
    return named.union(map(str.lower, words))


@cache
def _of_language(language: str) -> frozenset[str]:
    if language == "none":
        return frozenset()
    if language == "english":
        from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS  # noqa: PLC0415 - a second, which no worker needs

        # With contractions, and with their pieces, for a tokenizer may cut them at the apostrophe.
        pieces = ((word, word.replace("'", "’"), *word.split("'")) for word in CONTRACTIONS)
        return ENGLISH_STOP_WORDS.union(*pieces, ("won't", "won’t"))  # its first piece is a word
    if language not in get_args(Language):
        names = ", ".join(get_args(Language))
        raise ValueError(f"stop_words is {language!r}; give the words themselves, or one of {names}")
    return frozenset(get_stop_words(language))


FREQUENT = 100
"""The most frequent words, from which the language of a text is detected."""

FEWEST_KNOWN = 0.2
"""The least share of them that is in the list of a language."""


def language_of(words: Sequence[str]) -> str:
    """Return the language of a text, "none" where it is not recognized.

    Parameters
    ----------
    words : sequence of str
        The words of the text by falling frequency.

    Returns
    -------
    str
        The language whose list has the most of the first 100 words, if that is a fifth of them.

    Examples
    --------
    >>> from distembed.corpus.stop_words import language_of
    >>> language_of(["der", "die", "und", "Haus"])
    'german'
    """
    first = [word.lower() for word in words[:FREQUENT]]
    counts = ((sum(map(_of_language(one).__contains__, first)), one) for one in get_args(Language))
    n_known, best = max(counts, key=itemgetter(0))
    return best if n_known > FEWEST_KNOWN * len(first) else "none"


def function_words(words: Sequence[str]) -> frozenset[str]:
    """Return the stop words of the language of a text, and the English ones, which stand in texts of all languages.

    Parameters
    ----------
    words : sequence of str
        The words of the text by falling frequency.

    Examples
    --------
    >>> from distembed.corpus.stop_words import function_words
    >>> "that" in function_words(["the", "of", "and", "house"])
    True
    """
    return _of_language(language_of(words)) | _of_language("english")
