r"""Turns text into token ids of a partition: the options of the tokenizer, and the scanners that apply them.

A scanner takes batches of UTF-8 text and gives ids that count up in order of first appearance. `WordScanner`
runs the compiled machine of `blocks`; `CallableScanner` calls a user's function on each piece of text.

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
from distembed.corpus.phrases import Gazetteer, PhraseScanner, gazetteer, read_names
from distembed.corpus.records import Batch
from distembed.corpus.scanners import DictionarySlice, Scanned, Scanner
from distembed.corpus.segmentation import icu_function
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
# A user's function gets at most this much text at a time.
CALLABLE_PIECE = 1 << 20


Border = Literal["document", "line", "sentence"]
"""What no pair of words reaches across."""


@dataclass(frozen=True)
class Tokenizer:
    """How text becomes tokens, and where a window over them ends.

    Attributes
    ----------
    pattern : str or callable
        Definition of a token: "unicode" (words of letters, see the module), "ascii" ([a-z]+), "icu" (the words of ICU,
        also of Chinese, Japanese, Thai and Khmer; the extra ``distembed[icu]``), or a callable, or its
        "module:function", that takes a piece of text and returns its tokens.
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
        if not known and not re.fullmatch(r"[\w.]+:\w+", str(self.pattern)):
            raise ValueError(
                f'pattern is {self.pattern!r}; give "unicode", "ascii", "icu", a callable or "module:function".'
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


def scanner(tokenizer: Tokenizer) -> Scanner:
    """Return a new scanner for one partition."""
    words = (WordScanner if tokenizer.pattern in {"unicode", "ascii"} else CallableScanner)(tokenizer)
    if tokenizer.phrases_file is None:
        return words
    return PhraseScanner(words, gazetteer_of(tokenizer))


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
    return gazetteer(data, scanner(replace(tokenizer, phrases_file=None)), path=path)


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
        self.state = blocks.new_state(min_segment=tokenizer.min_border_tokens)

    def begin(self, url: str) -> None:
        """Go on with another file."""

    def scan(self, batch: Batch) -> Scanned:
        """Return the ids of the next batch; the dictionary grows as needed."""
        batch = _read_only(self.normalizer(_read_only(batch)))
        fields, n_spans = self.state.fields, len(batch.starts)
        fields[[blocks.SPAN, blocks.POSITION, blocks.N_IDS, blocks.N_CLOSED]] = 0
        ids = np.empty(batch.data.size + len(self.state.pending) + 2, np.int32)
        id_stops, n_tokens = np.empty(n_spans, np.int64), np.empty(n_spans, np.int64)
        arguments = (
            batch.data,
            batch.starts,
            batch.stops,
            batch.n_closed,
            self.table,
            self.border,
        )
        while not blocks.scan(self.state, *arguments, ids, id_stops, n_tokens):
            self.state = blocks.grow_state(self.state)
        n_closed = int(fields[blocks.N_CLOSED])
        return Scanned(ids[: fields[blocks.N_IDS]], id_stops[:n_closed], n_tokens[:n_closed])

    @property
    def n_words(self) -> int:
        """Return the number of words in the dictionary."""
        return int(self.state.fields[blocks.N_WORDS])

    def forget(self) -> None:
        """Empty the dictionary, at the end of a document; ids begin at 0 again."""
        self.state.slots.fill(0)
        self.state.fields[blocks.N_WORDS] = 0

    def words(self) -> Iterator[DictionarySlice]:
        """Yield the dictionary in slices of 2^20 words."""
        n_words = self.n_words
        for first in range(0, max(n_words, 1), 1 << 20):
            last = min(first + (1 << 20), n_words)
            stats = self.state.stats[first:last]
            yield DictionarySlice(
                self.texts(first, last), np.ascontiguousarray(stats[:, 0]), np.ascontiguousarray(stats[:, 1])
            )

    def texts(self, first: int, last: int) -> pa.Array:
        """Return some words of the dictionary by their ids."""
        lengths = self.state.lengths[first:last].astype(np.int64)
        units = self.state.arena[self.state.starts[first] : self.state.starts[last]].view(np.uint8)
        return unpad_words(units, lengths)

    def skipped(self) -> tuple[int, int]:
        """Return the numbers of short segments and of overlong tokens left out."""
        fields = self.state.fields
        return int(fields[blocks.N_SHORT_SEGMENTS]), int(fields[blocks.N_LONG_TOKENS])


def unpad_words(padded: NDArray[np.uint8], lengths: NDArray[np.int64]) -> pa.Array:
    """Return words stored in whole 8-byte units as an Arrow string array."""
    offsets = np.zeros(len(lengths) + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:])
    # No token holds a NUL byte, so the padding is exactly the zeros.
    data = padded[padded != 0]
    return pa.StringArray.from_buffers(len(lengths), pa.py_buffer(offsets), pa.py_buffer(data))


class CallableScanner:
    """The general scanner, which calls a user's function from text to tokens and keeps a Python dictionary of words."""

    def __init__(self, tokenizer: Tokenizer):
        self.tokenizer, self.url = tokenizer, ""
        self.function = tokenizer.function()
        self.normalizer = normalizer(tokenizer)
        self.segments = Segments(tokenizer.border, numbers=tokenizer.numbers)
        self.index: dict[str, int] = {}
        self.stats: list[list[int]] = []  # tokens, documents, last document of each word
        self.segment: list[str] = []
        self.ids: list[int] = []
        self.n_tokens = self.document = self.n_short = 0
        self.name = ""  # of the document that is read

    def begin(self, url: str) -> None:
        """Go on with another file, which errors then name."""
        self.url = url

    def scan(self, batch: Batch) -> Scanned:
        """Return the ids of the next batch."""
        batch = self.normalizer(batch)
        self.ids = []
        id_stops, n_tokens = [], []
        names = [self.name] if batch.continues else batch.documents["id"].to_pylist()
        for span, (text, self.name) in enumerate(zip(batch.texts(), names, strict=True)):
            self._take(text.decode(), closes=span < batch.n_closed)
            if span < batch.n_closed:
                id_stops.append(len(self.ids))
                n_tokens.append(self.n_tokens)
                self.n_tokens, self.document = 0, self.document + 1
        return Scanned(
            np.array(self.ids, np.int32), np.array(id_stops, np.int64), np.array(n_tokens, np.int64)
        )

    @property
    def n_words(self) -> int:
        """Return the number of words in the dictionary."""
        return len(self.index)

    def forget(self) -> None:
        """Empty the dictionary, at the end of a document; ids begin at 0 again."""
        self.index, self.stats = {}, []

    def words(self) -> Iterator[DictionarySlice]:
        """Yield the dictionary, in one slice."""
        stats = np.array(self.stats, np.int64).reshape(-1, 3)
        yield DictionarySlice(self.texts(0, self.n_words), stats[:, 0].copy(), stats[:, 1].copy())

    def texts(self, first: int, last: int) -> pa.Array:
        """Return some words of the dictionary by their ids."""
        return pa.array(list(islice(self.index, first, last)), pa.string())

    def skipped(self) -> tuple[int, int]:
        """Return the number of short segments left out; overlong tokens do not occur here."""
        return self.n_short, 0

    def _take(self, text: str, *, closes: bool) -> None:
        """Tokenize the text of a document, or of a piece of it that ends with a word."""
        for number, segment in enumerate(self.segments.of(text, closes=closes)):
            if number:
                self._end_segment()
            for piece in portions(segment):
                self._extend(piece.lower() if self.tokenizer.lowercase else piece)
        if closes:
            self._end_segment()

    def _extend(self, text: str) -> None:
        tokens = self._tokens(text)
        if not isinstance(tokens, Iterable):
            raise TypeError(
                f"The tokenizer {self.tokenizer.pattern!r} returned {type(tokens).__name__}, not an iterable of "
                "words; correct the function."
            )
        self.segment.extend(tokens)
        if len(self.segment) >= self.tokenizer.min_border_tokens:
            self._commit()

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

    def _commit(self) -> None:
        """Replace the buffered tokens by their ids; an unfinished segment continues without a border."""
        if self.segment and self.segment_open is False and self.n_tokens:
            self.ids.append(-1)
        self.segment_open = True
        for token in self.segment:
            word = self.index.setdefault(token, len(self.index))
            if word == len(self.stats):
                if not isinstance(token, str):
                    raise TypeError(
                        f"The tokenizer {self.tokenizer.pattern!r} returned the word {token!r}, which is "
                        f"{type(token).__name__} and not text; correct the function."
                    )
                self.stats.append([0, 0, -1])
            stats = self.stats[word]
            stats[0] += 1
            stats[1] += stats[2] != self.document
            stats[2] = self.document
            self.ids.append(word)
        self.n_tokens += len(self.segment)
        self.segment = []

    segment_open = False

    def _end_segment(self) -> None:
        if self.segment and (self.segment_open or len(self.segment) >= self.tokenizer.min_border_tokens):
            self._commit()
        self.n_short += bool(self.segment)
        self.segment, self.segment_open = [], False


def text_cut(text: str) -> int:
    """Return the place after the last white space, or the end of the text if there is none within reach."""
    reach = max(0, len(text) - CALLABLE_PIECE)
    cut = max(text.rfind(space, reach) for space in " \n\t")
    return cut + 1 if cut >= 0 else (len(text) if reach else 0)


def portions(text: str) -> Iterator[str]:
    """Yield a text in portions small enough for a user's function, cut after white space where there is any."""
    while len(text) > CALLABLE_PIECE:
        cut = text_cut(text[:CALLABLE_PIECE]) or CALLABLE_PIECE
        yield text[:cut]
        text = text[cut:]
    yield text


class Segments:
    """Cuts text into lines or sentences by the rules of `Tokenizer.border`, however the text is cut into pieces."""

    def __init__(self, border: str, *, numbers: bool):
        self.border = border
        # What begins a sentence, or does not: the next character that words are made of.
        self.word = re.compile(r"[^\W_]" if numbers else r"[^\W\d_]")
        # The text ends behind a full stop and white space: the next word decides whether that is a border.
        self.undecided = False

    def of(self, text: str, *, closes: bool) -> Iterator[str]:
        """Yield the segments of the next piece of a document; the first continues the previous one."""
        begin = 0
        for end in self._borders(text):
            yield text[begin:end]
            begin = end
        yield text[begin:]
        self.undecided = self.undecided and not closes

    def _borders(self, text: str) -> Iterator[int]:
        if self.border == "document":
            return
        if self.border == "line":
            yield from (match.end() for match in re.finditer(r"\n", text))
            return
        ends = [(0, ".")] if self.undecided else []
        ends += [(match.end(), match[0]) for match in SENTENCE_END.finditer(text)]
        self.undecided = False
        next_word: re.Match[str] | None = None
        searched = False
        for end, mark in ends:
            if mark[0] == "\n" or mark[0] in HARD_STOPS:
                self.undecided = False
                yield end
            elif not is_initial(text, end - len(mark)):
                if not searched or (next_word is not None and next_word.start() < end):
                    next_word, searched = self.word.search(text, end), True
                self.undecided = next_word is None
                if next_word is not None and not next_word[0].islower():
                    yield end


def is_initial(text: str, stop: int) -> bool:
    """Return whether a full stop follows a single letter ("J. Smith")."""
    return (
        text[stop : stop + 1] == "."
        and re.search(r"(?:^|[\W\d_])[^\W\d_]$", text[max(stop - 2, 0) : stop]) is not None
    )
