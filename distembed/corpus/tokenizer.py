r"""Turns text into token ids of a partition: the options of the tokenizer, and the scanners that apply them.

`WordScanner` and `CallableScanner` take batches of UTF-8 text and give ids that count up in order of first appearance.
The first runs the compiled machine of `blocks`; the other calls a user's function on each document, line or sentence.

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

import re
import threading
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import lru_cache
from importlib import import_module
from itertools import islice
from typing import Any, Literal, cast, get_args

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from distembed.corpus import blocks
from distembed.corpus.errors import CorpusError
from distembed.corpus.normalization import ASSIGNED, Form, Normalizer, characters_of
from distembed.corpus.phrases import Gazetteer, gazetteer, read_names
from distembed.corpus.records import Batch, batch_of, document_table
from distembed.corpus.scanners import Scanner
from distembed.corpus.segmentation import icu_function
from distembed.corpus.words import Words
from distembed.options import PositiveInt

NORMALIZATIONS = ("nfc", "nfkc", "none")
# Sentence punctuation: Unicode's Sentence_Terminal of the widest use; the hard ones need no white space
# after them.
STOPS = ".!?…؟۔।॥"
HARD_STOPS = "。！？｡"
CLOSERS = "\"'’”»)]}›」』"
APOSTROPHES = "'’"
# Middle dot, ano teleia (the same character once normalized), hyphenation point, gershayim.
MIDDLES = "\u00b7\u0387\u2027\u05f4"
GERESH = "\u05f3"
# Soft hyphen; marks, embeddings and isolates of direction; word joiner and invisible operators; byte order mark.
INVISIBLE = re.compile("[\u00ad\u061c\u200e\u200f\u202a-\u202e\u2060-\u2064\u2066-\u206f\ufeff]")
# Zero width space, signs before Arabic and Kaithi numbers, interlinear annotation.
SEPARATORS = re.compile("[\u200b\u0600-\u0605\u06dd\u0890\u0891\u08e2\U000110bd\U000110cd\ufff9-\ufffb]")
# What may end a sentence: a line, an ideographic full stop, or another one before white space.
SENTENCE_END = re.compile(
    rf"\n|[{HARD_STOPS}][{re.escape(CLOSERS)}]*|[{STOPS}][{re.escape(CLOSERS)}]*[^\S\n]+"
)
# Many functions of users bear no threads: taggers keep the sentence that they work on. Python runs one at a time.
ONE_AT_A_TIME = threading.Lock()


Border = Literal["document", "line", "sentence"]
"""What no pair of words reaches across."""


@dataclass(frozen=True)
class Tokenizer:
    r"""How text becomes tokens, and where a window over them ends.

    Attributes
    ----------
    pattern : str or callable
        Definition of a token: "unicode" (words of letters, see the module), "ascii" ([a-z]+), "icu" (the words of ICU,
        also of Chinese, Japanese, Thai and Khmer; the extra ``distembed[icu]``), a regular expression of a token such
        as ``r"\w+"``, or a callable, or its "module:function", that takes a piece of text and returns its tokens.
    normalization : "nfc", "nfkc" or "none"
        Unicode normalization of the text. "nfkc" also replaces ligatures, full-width letters and the like by plain
        letters.
    lowercase : bool
        Whether upper case becomes lower case, code point by code point.
    numbers : bool
        Whether digits are kept as parts of words.
    apostrophes : bool
        Whether an apostrophe between two characters of a word is kept as a part of it.
    border : "document", "line" or "sentence"
        Border that no window crosses. A sentence ends with its line, and with one of .!?… before white space and no
        lower-case letter, unless it stands after a single letter.
    min_border_tokens : int
        Smallest number of tokens of a document, line or sentence, as `border` says; shorter ones are left out, and
        counted as left out.
    phrases_file : str, optional
        A file of names of several words, one name per line. Where the words of a name stand together, they become one
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
    normalization: Literal["nfc", "nfkc", "none"] = "nfc"
    phrases_file: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        known = callable(self.pattern) or self.pattern in {"unicode", "ascii", "icu"}
        if (
            not known
            and not re.fullmatch(r"[\w.]+:\w+", str(self.pattern))
            and not _is_expression(self.pattern)
        ):
            raise ValueError(
                f'pattern is {self.pattern!r}; give "unicode", "ascii", "icu", a regular expression, a callable or '
                '"module:function".'
            )
        if self.normalization not in NORMALIZATIONS:
            choices = ", ".join(map(repr, NORMALIZATIONS))
            raise ValueError(f"normalization is {self.normalization!r}; give one of {choices}.")
        if self.border not in get_args(Border):
            raise ValueError(
                f"border is {self.border!r}; give one of {', '.join(map(repr, get_args(Border)))}."
            )
        if self.min_border_tokens < 1:
            raise ValueError(f"min_border_tokens is {self.min_border_tokens}; give 1 or more.")

    def __call__(self, text: str) -> list[str]:
        r"""Return the tokens of a text, as a corpus counts them.

        Examples
        --------
        >>> import distembed as de
        >>> de.Tokenizer(pattern=r"\w+")("New York, since 1999")
        ['new', 'york', 'since', '1999']
        """
        nothing = pa.nulls(1, pa.string())
        batch = batch_of([text.encode()], document_table(nothing, nothing, nothing))
        words = scanner(replace(self, min_border_tokens=1))
        ids = words.scan(normalizer(self)(batch)).ids
        known = [word for part in words.words() for word in part.words.to_pylist()]
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
        return (
            isinstance(pattern, str) and not re.fullmatch(r"[\w.:]*", pattern) and bool(re.compile(pattern))
        )
    except re.error:
        return False


def scanner(tokenizer: Tokenizer) -> Scanner:
    """Return a new scanner for one partition."""
    names = None if tokenizer.phrases_file is None else gazetteer_of(tokenizer)
    return Scanner(words_of(tokenizer), names, min_tokens=tokenizer.min_border_tokens)


def words_of(tokenizer: Tokenizer) -> Words:
    """Return what cuts text into the words of a tokenizer."""
    return (WordScanner if tokenizer.pattern in {"unicode", "ascii"} else CallableScanner)(tokenizer)


def gazetteer_of(tokenizer: Tokenizer) -> Gazetteer:
    """Return the names of several words that a tokenizer joins, cut into words as it cuts text.

    Raises
    ------
    CorpusError
        If the file cannot be read, or has no name of several words.
    """
    path = tokenizer.phrases_file or ""
    return _gazetteer(replace(tokenizer, border="document", min_border_tokens=1), path, read_names(path))


@lru_cache(maxsize=4)
def _gazetteer(tokenizer: Tokenizer, path: str, data: bytes) -> Gazetteer:
    return gazetteer(data, words_of(tokenizer), path=path)


def normalizer(tokenizer: Tokenizer) -> Callable[[Batch], Batch]:
    """Return the function that normalizes batches of text for the tokenizer."""
    if tokenizer.normalization == "none":
        return lambda batch: batch
    return Normalizer(cast("Form", tokenizer.normalization.upper()))


@lru_cache(maxsize=16)
def class_table(pattern: str, lowercase: bool, numbers: bool, apostrophes: bool) -> NDArray[np.uint32]:
    """Return the flags and the lower-case code point of each code point, uint32 (0x110000,)."""
    table = np.zeros(0x110000, np.uint32)
    for points in (range(128),) if pattern == "ascii" else ASSIGNED:
        caseless, others = _letters_without_case(points)
        table[caseless] = blocks.WORD | caseless
        for point in others.tolist():
            table[point] = character_class(chr(point), lowercase, numbers, pattern != "ascii")
    for characters, flag in ((STOPS, blocks.STOP), (HARD_STOPS, blocks.HARD_STOP), (CLOSERS, blocks.CLOSER)):
        for character in characters:
            table[ord(character)] |= flag
    for character in APOSTROPHES[: 1 if pattern == "ascii" else None]:
        table[ord(character)] |= ord("'") | (blocks.APOSTROPHE if apostrophes else 0)
    for character in "" if pattern == "ascii" else MIDDLES:
        table[ord(character)] |= blocks.MIDDLE | ord(character)
    for character in '."':
        table[ord(character)] |= ord(character)
    return table


def _letters_without_case(points: range) -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
    """Return the code points of letters that have no case (category Lo), and the other assigned code points.

    Four of five assigned characters are such letters. Of the first 256 none is taken for one: there the ordinal
    indicators, of category Lo, are lower case.
    """
    categories = np.frombuffer("".join(map(unicodedata.category, characters_of(points))).encode(), "S2")
    every = np.arange(points.start, points.stop, dtype=np.uint32)
    caseless = (categories == b"Lo") & (every > 0xFF)
    return every[caseless], every[~caseless & (categories != b"Cn")]


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


def _read_only(batch: Batch) -> Batch:
    """Return a batch whose text is read-only: the kernels are compiled once, and not for a writable array as well."""
    data = batch.data.view()
    data.flags.writeable = False
    return batch._replace(data=data)


class WordScanner:
    """The compiled scanner of the "unicode" and "ascii" patterns."""

    def __init__(self, tokenizer: Tokenizer):
        self.border = get_args(Border).index(tokenizer.border)
        self.normalizer = normalizer(tokenizer)
        self.table = class_table(
            str(tokenizer.pattern), tokenizer.lowercase, tokenizer.numbers, tokenizer.apostrophes
        )
        self.state = blocks.new_state()

    def begin(self, url: str) -> None:
        """Go on with another file."""

    @property
    def n_long(self) -> int:
        """The overlong tokens left out so far."""
        return int(self.state.fields[blocks.N_LONG_TOKENS])

    def scan(self, batch: Batch) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """Return the ids of the next batch; the dictionary grows as needed."""
        batch = _read_only(self.normalizer(_read_only(batch)))
        fields = self.state.fields
        fields[[blocks.SPAN, blocks.POSITION, blocks.N_IDS, blocks.N_CLOSED]] = 0
        ids, stops = np.empty(batch.data.size + 2, np.int32), np.empty(len(batch.starts), np.int64)
        arguments = (
            batch.data,
            batch.starts,
            batch.stops,
            batch.n_closed,
            self.table,
            self.border,
        )
        while not blocks.scan(self.state, *arguments, ids, stops):
            self.state = blocks.grow_state(self.state)
        return ids[: fields[blocks.N_IDS]], stops[: fields[blocks.N_CLOSED]]

    @property
    def n_words(self) -> int:
        """Return the number of words in the dictionary."""
        return int(self.state.fields[blocks.N_WORDS])

    def forget(self) -> None:
        """Empty the dictionary, at the end of a document; ids begin at 0 again."""
        self.state.slots.fill(0)
        self.state.fields[blocks.N_WORDS] = 0

    def intern(self, word: str) -> int:
        """Return the id of a word, a new one where the dictionary lacks it."""
        data = np.frombuffer(word.encode(), np.uint8)
        while (found := blocks.intern(self.state, data)) < 0:
            self.state = blocks.grow_state(self.state)
        return int(found)

    def texts(self, first: int, last: int) -> pa.Array:
        """Return some words of the dictionary by their ids."""
        lengths = self.state.lengths[first:last].astype(np.int64)
        units = self.state.arena[self.state.starts[first] : self.state.starts[last]].view(np.uint8)
        return unpad_words(units, lengths)


def unpad_words(padded: NDArray[np.uint8], lengths: NDArray[np.int64]) -> pa.Array:
    """Return words stored in whole 8-byte units as an Arrow string array."""
    offsets = np.zeros(len(lengths) + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:])
    # No token holds a NUL byte, so the padding is exactly the zeros.
    data = padded[padded != 0]
    return pa.StringArray.from_buffers(len(lengths), pa.py_buffer(offsets), pa.py_buffer(data))


class CallableScanner:
    """The general scanner, which calls a user's function from text to tokens and keeps a Python dictionary of words."""

    n_long = 0

    def __init__(self, tokenizer: Tokenizer):
        self.tokenizer, self.url = tokenizer, ""
        self.function = tokenizer.function()
        self.normalizer = normalizer(tokenizer)
        self.index: dict[str, int] = {}
        self.name = ""  # of the document that is read
        self.has_tokens = self.is_at_border = False

    def begin(self, url: str) -> None:
        """Go on with another file, which errors then name."""
        self.url = url

    def scan(self, batch: Batch) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """Return the ids of the next batch."""
        batch = self.normalizer(batch)
        ids: list[int] = []
        stops: list[int] = []
        names = [self.name] if batch.continues else batch.documents["id"].to_pylist()
        for span, (text, self.name) in enumerate(zip(batch.texts(), names, strict=True)):
            if span or not batch.continues:
                self.has_tokens = self.is_at_border = False
            for number, segment in enumerate(segments(text.decode(), self.tokenizer)):
                self.is_at_border |= number > 0
                ids += self._ids(segment.lower() if self.tokenizer.lowercase else segment)
            if span < batch.n_closed:
                stops.append(len(ids))
        return np.array(ids, np.int32), np.array(stops, np.int64)

    @property
    def n_words(self) -> int:
        """Return the number of words in the dictionary."""
        return len(self.index)

    def texts(self, first: int, last: int) -> pa.Array:
        """Return some words of the dictionary by their ids."""
        return pa.array(list(islice(self.index, first, last)), pa.string())

    def intern(self, word: str) -> int:
        """Return the id of a word, a new one where the dictionary lacks it."""
        return self.index.setdefault(word, len(self.index))

    def forget(self) -> None:
        """Empty the dictionary; ids begin at 0 again."""
        self.index = {}

    def _ids(self, text: str) -> list[int]:
        """Return the ids of the tokens of a segment, after a border where another stands before it."""
        tokens = self._tokens(text) if text else []
        if not isinstance(tokens, Iterable):
            raise TypeError(
                f"The tokenizer {self.tokenizer.pattern!r} returned {type(tokens).__name__}, not an iterable of "
                "words; correct the function."
            )
        found = []
        for token in tokens:
            if not isinstance(token, str):
                raise TypeError(
                    f"The tokenizer {self.tokenizer.pattern!r} returned the word {token!r}, which is "
                    f"{type(token).__name__} and not text; correct the function."
                )
            found.append(self.index.setdefault(token, len(self.index)))
        if found and self.is_at_border and self.has_tokens:
            found.insert(0, -1)
        self.has_tokens, self.is_at_border = self.has_tokens or bool(found), self.is_at_border and not found
        return found

    def _tokens(self, text: str) -> Any:
        """Return what the function makes of a text: one thread of a process calls it at a time."""
        try:
            with ONE_AT_A_TIME:
                tokens = self.function(text)
                return list(tokens) if isinstance(tokens, Iterator) else tokens
        except Exception as error:
            document = f", document {self.name}," if self.name else ""
            raise CorpusError(
                f"the tokenizer {self.tokenizer.pattern!r} failed in {self.url}{document} at {text[:40]!r}: "
                f"{type(error).__name__}: {error}; correct the function."
            ) from error


def segments(text: str, tokenizer: Tokenizer) -> Iterator[str]:
    """Yield the lines or sentences of a text by the rules of `Tokenizer.border`."""
    begin = 0
    for end in _borders(text, tokenizer):
        yield text[begin:end]
        begin = end
    yield text[begin:]


def _borders(text: str, tokenizer: Tokenizer) -> Iterator[int]:
    """Yield where lines or sentences end. None ends before a lower-case word, or after a single letter."""
    if tokenizer.border == "line":
        yield from (match.end() for match in re.finditer(r"\n", text))
    if tokenizer.border != "sentence":
        return
    word = re.compile(r"[^\W_]" if tokenizer.numbers else r"[^\W\d_]")
    after = word.search(text)  # the first character of a word at or after an end
    for match in SENTENCE_END.finditer(text):
        end, mark = match.span()[1], match[0]
        if after is not None and after.start() < end:
            after = word.search(text, end)
        is_hard = mark[0] == "\n" or mark[0] in HARD_STOPS
        begins_sentence = after is not None and not after[0].islower()
        if is_hard or (begins_sentence and not is_initial(text, match.start())):
            yield end


def is_initial(text: str, stop: int) -> bool:
    """Return whether a full stop follows a single letter ("J. Smith")."""
    return (
        text[stop : stop + 1] == "."
        and re.search(r"(?:^|[\W\d_])[^\W\d_]$", text[max(stop - 2, 0) : stop]) is not None
    )
