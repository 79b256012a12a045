r"""Turns text into token ids of a partition: the options of the tokenizer, and what applies them.

`words` has the two scanners: one runs the compiled machine of `blocks`, the other calls a user's function on each
document, line or sentence.

The definition of a word (``pattern="unicode"``): a maximal run of letters (`str.isalpha`), with combining
marks (categories Mn, Mc, Me) inside or after it, and of other alphanumeric characters (`str.isalnum`) with
``numbers=True``. The text is brought into a normalization form first, and each code point is lower-cased by
itself. Compared with ``re.findall(r"[^\W_]+", text)`` and `str.lower`:

- the underscore never belongs to a word; digits and the like only with ``numbers=True``;
- combining marks do (Python's ``\w`` leaves them out, which cuts Hindi or decomposed French words into
pieces);
- format characters (category Cf) cut no word, as in Unicode Standard Annex 29. Those that shape what is written
stay in it like marks (the joiners of Persian, Sinhala and Malayalam); those that nobody sees are left out of it
(soft hyphens, direction marks, word joiners), so that a word with a soft hyphen is the word without. The zero
width space, which partitions words, and the signs before Arabic numbers separate;
- a middle dot between two letters belongs to the word (Catalan "col·legi"), and so does the hyphenation point;
- Hebrew: a geresh belongs to the word, gershayim between two letters, and so do the quotation marks that are
typed for them between two Hebrew letters;
- İ (U+0130) becomes i, where `str.lower` gives two code points; a final Σ becomes σ, where `str.lower` gives
ς.

A run of ideographs or kana is one word: languages written without spaces need ``pattern="icu"`` or a tokenizer of
their own.
"""

from __future__ import annotations

import codecs
import re
import unicodedata
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from importlib import import_module
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from distembed.corpus import blocks
from distembed.corpus.records import CorpusError, batch_of
from distembed.corpus.scanners import (
    CLOSERS,
    HARD_STOPS,
    STOPS,
    CallableScanner,
    Form,
    Gazetteer,
    Scanner,
    Words,
    WordScanner,
    gazetteer,
    segments,
)
from distembed.extras import optional
from distembed.files import read_small
from distembed.options import PositiveInt, check_options

# Nothing is assigned between the end of plane 3 and the marks (variation selectors) at the start of plane 14.
ASSIGNED = (range(0x33480), range(0xE0100, 0xE01F0))
APOSTROPHES = "'’"
# Middle dot, ano teleia (the same character once normalized), hyphenation point, gershayim.
MIDDLES = "\u00b7\u0387\u2027\u05f4"
GERESH = "\u05f3"
# Soft hyphen; marks, embeddings and isolates of direction; word joiner and invisible operators; byte order mark.
INVISIBLE = re.compile("[\u00ad\u061c\u200e\u200f\u202a-\u202e\u2060-\u2064\u2066-\u206f\ufeff]")
# Zero width space, signs before Arabic and Kaithi numbers, interlinear annotation.
SEPARATORS = re.compile("[\u200b\u0600-\u0605\u06dd\u0890\u0891\u08e2\U000110bd\U000110cd\ufff9-\ufffb]")

Border = Literal["document", "line", "sentence"]
"""What no pair of words reaches across."""


@dataclass(frozen=True)
class Tokenizer:
    r"""How text becomes tokens, and where a window over them ends.

    Attributes
    ----------
    pattern : str or callable
        Definition of a token: "unicode" (words of letters), "ascii" ([a-z]+), "icu" (the words of ICU,
        also of Chinese, Japanese, Thai and Khmer; the extra ``distembed[icu]``), a regular expression of a token such
        as ``r"\w+"``, or a callable, or its "module:function", that takes a piece of text and returns its tokens.
    normalization : "nfc", "nfkc" or "none"
        Unicode normalization of the text. "nfkc" also replaces ligatures, full-width letters and the like by plain
        letters.
    lowercase : bool
        Whether upper case becomes lower case: code point by code point for "unicode" and "ascii", by `str.lower`
        of the text otherwise.
    numbers : bool
        Whether digits are kept as parts of words.
    apostrophes : bool
        Whether an apostrophe between two characters of a word is kept as a part of it, for "unicode" and "ascii"; the
        other patterns decide it themselves.
    border : "document", "line" or "sentence"
        Border that no window crosses. A sentence ends with its line, and with one of .!?… before white space and no
        lower-case letter, unless it follows a single letter.
    min_border_tokens : int
        Smallest number of tokens of a document, line or sentence, as `border` says; shorter ones are left out, and
        counted as left out.
    phrases_file : str, optional
        A file of names of several words, one name per line. If the words of a name follow each other, they become one
        token, joined by underscores; where several names fit, the longest one.

    Examples
    --------
    >>> import distembed as de
    >>> from pathlib import Path
    >>> _ = Path("text.txt").write_text("New York isn't Rome. In 1999 New York had 8 million people.")
    >>> _ = Path("names.txt").write_text("New York")
    >>> def words(**options):
    ...     docs = de.read_corpus("text.txt", tokenizer=de.Tokenizer(**options))
    ...     return sorted(de.build_vocabulary(docs).words)
    >>> words()
    ['had', 'in', 'isn', 'million', 'new', 'people', 'rome', 't', 'york']
    >>> words(numbers=True, apostrophes=True, phrases_file="names.txt")
    ['1999', '8', 'had', 'in', "isn't", 'million', 'new_york', 'people', 'rome']
    >>> words(pattern=str.split, lowercase=False)
    ['1999', '8', 'In', 'New', 'Rome.', 'York', 'had', "isn't", 'million', 'people.']
    """

    pattern: str | Callable[[str], Iterable[str]] = "unicode"
    lowercase: bool = True
    numbers: bool = False
    apostrophes: bool = False
    border: Border = "document"
    min_border_tokens: PositiveInt = 1
    normalization: Form = "nfc"
    phrases_file: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        known = callable(self.pattern) or self.pattern in {"unicode", "ascii", "icu"}
        is_name = known or re.fullmatch(r"[\w.]+:\w+", str(self.pattern))
        if not is_name and not _is_expression(self.pattern):
            raise ValueError(
                f'pattern is {self.pattern!r}; give "unicode", "ascii", "icu", a regular expression, a callable or '
                '"module:function".'
            )
        check_options(self)

    def __call__(self, text: str) -> list[str]:
        r"""Return the tokens of a text, as a corpus counts them.

        Examples
        --------
        >>> import distembed as de
        >>> de.Tokenizer(pattern=r"\w+")("New York, since 1999")
        ['new', 'york', 'since', '1999']
        """
        words = scanner(replace(self, min_border_tokens=1))
        ids = words.scan(batch_of([text.encode()])).ids
        known = words.words()["word"].to_pylist()
        return [known[number] for number in ids.tolist() if number >= 0]

    def function(self) -> Callable[[str], Iterable[str]]:
        """Return the user's callable, that of a "module:function" pattern, or that of ICU, imported.

        Examples
        --------
        >>> import distembed as de
        >>> de.Tokenizer(pattern="shlex:split").function()("the 'New York' office")
        ['the', 'New York', 'office']
        """
        if callable(self.pattern):
            return self.pattern
        if self.pattern == "icu":
            return icu_function(numbers=self.numbers)
        if _is_expression(self.pattern):
            return re.compile(self.pattern).findall
        module, _, name = self.pattern.partition(":")
        try:
            function = getattr(import_module(module), name)
        except (ImportError, AttributeError) as error:
            raise ValueError(f'The tokenizer "{self.pattern}" cannot be imported ({error}).') from error
        if not callable(function):
            raise TypeError(
                f'The tokenizer "{self.pattern}" is of type {type(function).__name__}: name a function.'
            )
        return function


def _is_expression(pattern: object) -> bool:
    """Return whether a pattern is a regular expression and no name."""
    try:
        is_name = not isinstance(pattern, str) or re.fullmatch(r"[\w.:]*", pattern)
        return not is_name and bool(re.compile(str(pattern)))
    except re.error:
        return False


def scanner(tokenizer: Tokenizer) -> Scanner:
    """Return a new scanner for one partition."""
    names = None if tokenizer.phrases_file is None else gazetteer_of(tokenizer)
    return Scanner(words_of(tokenizer), names, min_tokens=tokenizer.min_border_tokens)


def words_of(tokenizer: Tokenizer) -> Words:
    """Return what cuts text into the words of a tokenizer."""
    lowercase, numbers, form = tokenizer.lowercase, tokenizer.numbers, tokenizer.normalization
    if tokenizer.pattern in {"unicode", "ascii"}:
        table = class_table(str(tokenizer.pattern), lowercase, numbers, tokenizer.apostrophes)
        return WordScanner(table, tokenizer.border, form)
    cut, function = partial(segments, border=tokenizer.border, numbers=numbers), tokenizer.function()
    return CallableScanner(function, cut, tokenizer.pattern, lowercase, form)


def gazetteer_of(tokenizer: Tokenizer) -> Gazetteer:
    """Return the names of several words that a tokenizer joins, cut into words as it cuts text.

    Raises
    ------
    CorpusError
        If the file cannot be read, or has no name of several words.
    """
    path = tokenizer.phrases_file or ""
    try:
        data = read_small(path).removeprefix(codecs.BOM_UTF8)
        data.decode()
    except (OSError, ValueError) as error:
        raise CorpusError(f"The names in {path} (phrases_file) cannot be read ({error}).") from error
    return _gazetteer(replace(tokenizer, border="document", min_border_tokens=1), data)


@lru_cache(maxsize=4)
def _gazetteer(tokenizer: Tokenizer, data: bytes) -> Gazetteer:
    return gazetteer(data, words_of(tokenizer), path=tokenizer.phrases_file or "")


@lru_cache(maxsize=16)
def class_table(pattern: str, lowercase: bool, numbers: bool, apostrophes: bool) -> NDArray[np.uint32]:
    """Return the flags and the lower-case code point of each code point, uint32 (0x110000,)."""
    table = np.zeros(0x110000, np.uint32)
    for points in (range(128),) if pattern == "ascii" else ASSIGNED:
        # Four of five assigned characters are letters without case (category Lo). Of the first 256 none is taken for
        # one: there the ordinal indicators, of category Lo, are lower case.
        every = np.arange(points.start, points.stop, dtype=np.uint32)
        # Decoded together: `chr` takes as long as all that is asked.
        characters = every.astype("<u4").tobytes().decode("utf-32-le", "surrogatepass")
        categories = np.frombuffer("".join(map(unicodedata.category, characters)).encode(), "S2")
        is_caseless = (categories == b"Lo") & (every > 0xFF)
        table[every[is_caseless]] = blocks.WORD | every[is_caseless]
        for point in every[~is_caseless & (categories != b"Cn")].tolist():
            table[point] = character_class(chr(point), lowercase, numbers, pattern != "ascii")
    signs = [*zip((STOPS, HARD_STOPS, CLOSERS), (blocks.STOP, blocks.HARD_STOP, blocks.CLOSER), strict=True)]
    for some, flag in signs:
        for character in some:
            table[ord(character)] |= flag
    for character in APOSTROPHES[: 1 if pattern == "ascii" else None]:
        table[ord(character)] |= ord("'") | (blocks.APOSTROPHE if apostrophes else 0)
    for character in "" if pattern == "ascii" else MIDDLES:
        table[ord(character)] |= blocks.MIDDLE | ord(character)
    for character in '."':
        table[ord(character)] |= ord(character)
    return table


def character_class(character: str, lowercase: bool, numbers: bool, marks: bool) -> int:
    """Return one entry of the class table."""
    if character == "\n":
        return blocks.NEWLINE | blocks.SPACE
    if character.isspace():
        return blocks.SPACE
    category = unicodedata.category(character) if marks else ""
    if category == "Cf" and INVISIBLE.match(character):
        return blocks.IGNORED
    is_mark = extends_words(character, category)
    if not (character.isalpha() or is_mark or (numbers and character.isalnum())):
        return 0
    folded = character.lower()[0] if lowercase else character
    flags = blocks.EXTEND if is_mark else blocks.WORD
    return flags | (blocks.LOWER if character.islower() else 0) | ord(folded)


def extends_words(character: str, category: str) -> bool:
    """Return whether a character belongs to the word before it: marks, joiners, the geresh."""
    is_joiner = category == "Cf" and not SEPARATORS.match(character)
    return category.startswith("M") or is_joiner or (category != "" and character == GERESH)


# ---- text without spaces -------------------------------------------------------------------------------------------


SCRIPTS = {
    "Japanese": ("\u3040-\u30ff\u31f0-\u31ff\uff66-\uff9f", "fugashi, SudachiPy or janome"),
    "Chinese": ("\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U000323af", "jieba"),
    "Thai": ("\u0e00-\u0e7f", "pythainlp"),
    "Lao": ("\u0e80-\u0eff", "laonlp"),
    "Tibetan": ("\u0f00-\u0fff", "botok"),
    "Burmese": ("\u1000-\u109f", "pyidaungsu"),
    "Khmer": ("\u1780-\u17ff", "khmer-nltk"),
}
"""Scripts that are written without spaces, by the language that is mostly written in each: the blocks of its letters,
and packages whose functions cut it into words. That of Japanese is kana.
"""

MUCH = 0.2
"""So large a share of the letters of a text is worth a warning."""
FEW_KANA = 0.05
"""With so large a share of kana, ideographs are Japanese."""

INSTALL = "pip install 'distembed[icu]'"


def scripts_without_spaces(text: str) -> dict[str, float]:
    """Return the `SCRIPTS` that a fifth of the letters of a text or more are in, each with its share.

    Examples
    --------
    >>> from distembed.corpus.tokenizer import scripts_without_spaces
    >>> scripts_without_spaces("ภาษาไทย one")
    {'Thai': 0.7}
    """
    counts = {name: len(re.findall(f"[{letters}]", text)) for name, (letters, _) in SCRIPTS.items()}
    ideographs = counts["Japanese"] + counts["Chinese"]
    is_japanese = ideographs > 0 and counts["Japanese"] >= FEW_KANA * ideographs
    counts |= {"Japanese": ideographs, "Chinese": 0} if is_japanese else {"Japanese": 0}
    n_letters = sum(map(str.isalpha, text))
    n_letters += sum(1 for character in text if unicodedata.category(character) in ("Mn", "Mc"))
    return {name: n / max(n_letters, 1) for name, n in counts.items() if n >= MUCH * max(n_letters, 1)}


def icu_function(*, numbers: bool) -> Callable[[str], Iterable[str]]:
    """Return the function that cuts text into words by the boundaries of ICU: pieces with a letter, or a digit.

    It has dictionaries for Chinese, Japanese, Thai, Lao, Burmese and Khmer.

    Raises
    ------
    ImportError
        If the package icu4py is not installed.
    """
    breaker = optional("icu4py.breakers", user='the tokenizer "icu"', extra="icu").WordBreaker
    counts = str.isalnum if numbers else str.isalpha
    return lambda text: [piece for piece in breaker(text, "root") if any(map(counts, piece))]
