"""Stop words: the function words of a language, which tell no document from another.

The English list is that of scikit-learn; those of other languages are in the package stop-words (BSD license), an
optional extra. A list of your own is a text file with one word per line.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Literal, get_args

from distembed.files import read_small
from distembed.formats.encodings import decoded

Language = Literal[
    "none", "english", "arabic", "bulgarian", "catalan", "chinese", "czech", "danish", "dutch", "finnish", "french",
    "german", "greek", "gujarati", "hebrew", "hindi", "hungarian", "indonesian", "italian", "japanese", "korean",
    "malaysian", "norwegian", "persian", "polish", "portuguese", "romanian", "russian", "slovak", "spanish", "swedish",
    "turkish", "ukrainian", "vietnamese",
]  # fmt: skip
"""The lists of stop words that have a name; "none" has no word."""


ENGLISH = """
a about above across after afterwards again against all almost alone along already also although always am among
amongst amoungst amount an and another any anyhow anyone anything anyway anywhere are around as at back be
became because become becomes becoming been before beforehand behind being below beside besides between beyond
bill both bottom but by call can cannot cant co con could couldnt cry de describe detail do done down due during
each eg eight either eleven else elsewhere empty enough etc even ever every everyone everything everywhere
except few fifteen fifty fill find fire first five for former formerly forty found four from front full further
get give go had has hasnt have he hence her here hereafter hereby herein hereupon hers herself him himself his
how however hundred i ie if in inc indeed interest into is it its itself keep last latter latterly least less
ltd made many may me meanwhile might mill mine more moreover most mostly move much must my myself name namely
neither never nevertheless next nine no nobody none noone nor not nothing now nowhere of off often on once one
only onto or other others otherwise our ours ourselves out over own part per perhaps please put rather re same
see seem seemed seeming seems serious several she should show side since sincere six sixty so some somehow
someone something sometime sometimes somewhere still such system take ten than that the their them themselves
then thence there thereafter thereby therefore therein thereupon these they thick thin third this those though
three through throughout thru thus to together too top toward towards twelve twenty two un under until up upon
us very via was we well were what whatever when whence whenever where whereafter whereas whereby wherein
whereupon wherever whether which while whither who whoever whole whom whose why will with within without would
yet you your yours yourself yourselves
"""
"""The list of the Glasgow Information Retrieval Group, as scikit-learn has it, whose import takes a second."""


def stop_words_of(stop_words: Iterable[str], *, file: str | Path | None = None) -> frozenset[str]:
    """Return the words that are to be left out.

    Parameters
    ----------
    stop_words : str or iterable of str
        The name of a list (`Language`), or the words themselves.
    file : str or Path, optional
        A text file with further words, one per line.

    Returns
    -------
    frozenset of str
        The words of both, in lower case where they come from a list.

    Raises
    ------
    ValueError
        If there is no list of that name, or the file has no word.
    ImportError
        If the list is in the package stop-words, which is not installed.

    Examples
    --------
    >>> from distembed.corpus.stop_words import stop_words_of
    >>> "the" in stop_words_of("english")
    True
    """
    named = _of_language(stop_words) if isinstance(stop_words, str) else frozenset(stop_words)
    return named if file is None else named | read_stop_words(file)


def _of_language(language: str) -> frozenset[str]:
    if language == "none":
        return frozenset()
    if language == "english":
        return frozenset(ENGLISH.split())
    if language not in get_args(Language):
        names = ", ".join(get_args(Language))
        raise ValueError(f"stop_words is {language!r}; give the words themselves, or one of {names}")
    try:
        from stop_words import get_stop_words  # noqa: PLC0415 - an optional extra
    except ImportError as error:
        raise ImportError(
            f"the {language} stop words are in the package stop-words, which is not installed; type: "
            "pip install 'distembed[stopwords]'"
        ) from error
    return frozenset(get_stop_words(language))


def read_stop_words(path: str | Path) -> frozenset[str]:
    """Return the words of a text file, one per line; empty lines and lines that begin with ``#`` are left out.

    Raises
    ------
    ValueError
        If the file has no word, or a line has several.
    """
    lines = decoded(read_small(path)).splitlines()
    words = {number: line.strip() for number, line in enumerate(lines, start=1)}
    words = {number: word for number, word in words.items() if word and not word.startswith("#")}
    for number, word in words.items():
        if len(word.split()) > 1:
            raise ValueError(f"{path}, line {number}, has {word[:40]!r}; give one stop word per line")
    if not words:
        raise ValueError(f"{path} has no stop word; give a text file with one word per line")
    return frozenset(word.lower() for word in words.values())
