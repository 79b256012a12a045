"""What cuts batches of text into words, and holds their dictionary: the compiled scanner, and functions of users.

Both give ids that count up in order of first appearance. `scan` returns the ids of the next batch, -1 at borders, and
the end of the ids of each document.
"""

from __future__ import annotations

import re
import threading
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any, Literal, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from distembed.corpus import blocks
from distembed.corpus.records import Batch, batch_of
from distembed.corpus.streams import CorpusError

# Sentence punctuation: Unicode's Sentence_Terminal of the widest use; the hard ones need no white space
# after them.
STOPS = ".!?…؟۔।॥"
HARD_STOPS = "。！？｡"
CLOSERS = "\"'’”»)]}›」』"
# What may end a sentence: a line, an ideographic full stop, or another one before white space.
SENTENCE_END = re.compile(
    rf"\n|[{HARD_STOPS}][{re.escape(CLOSERS)}]*|[{STOPS}][{re.escape(CLOSERS)}]*[^\S\n]+"
)
BORDERS = {"document": re.compile(r"(?!)"), "line": re.compile(r"\n"), "sentence": SENTENCE_END}
# Many functions of users bear no threads: taggers keep the sentence that they work on. Python runs one at a time.
ONE_AT_A_TIME = threading.Lock()


Form = Literal["nfc", "nfkc", "none"]


def normalized(batch: Batch, form: Form) -> Batch:
    """Return a batch with its text in a normalization form; text that is normalized already is not copied.

    Only what is not ASCII, with the character before it, decides whether a text is normalized.
    """
    if form == "none" or not (high := batch.data >= 0x80).any():
        return batch
    kind = cast("Literal['NFC', 'NFKC']", form.upper())
    high[:-1] |= high[1:]
    places = np.flatnonzero(high)
    letters = batch.data[places].tobytes()
    if unicodedata.is_normalized(kind, letters.decode()):
        return batch
    ends = (np.searchsorted(places, bounds).tolist() for bounds in (batch.starts, batch.stops))
    texts = [
        text
        if unicodedata.is_normalized(kind, letters[begin:end].decode())
        else unicodedata.normalize(kind, text.decode()).encode()
        for text, begin, end in zip(batch.texts(), *ends, strict=True)
    ]
    return batch_of(texts, batch.documents)


class WordScanner:
    """The compiled scanner of the "unicode" and "ascii" patterns."""

    url = ""

    def __init__(self, table: NDArray[np.uint32], border: str, form: Form):
        self.table, self.border, self.form = table, list(BORDERS).index(border), form
        self.state = blocks.new_state()

    @property
    def n_long(self) -> int:
        """The overlong tokens left out so far."""
        return int(self.state.fields[blocks.N_LONG_TOKENS])

    @property
    def n_words(self) -> int:
        """The number of words in the dictionary."""
        return int(self.state.fields[blocks.N_WORDS])

    def scan(self, batch: Batch) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """Return the ids of the next batch; the dictionary grows as needed."""
        data, starts, stops, *_ = normalized(batch, self.form)
        fields, data = self.state.fields, data.view()
        data.flags.writeable = False  # the kernels are compiled once, and not for a writable array as well
        fields[[blocks.SPAN, blocks.POSITION, blocks.N_IDS]] = 0
        ids, id_stops = np.empty(data.size + 2, np.int32), np.empty(len(starts), np.int64)
        while not blocks.scan(self.state, data, starts, stops, self.table, self.border, ids, id_stops):
            self.state = blocks.grow_state(self.state)
        return ids[: fields[blocks.N_IDS]], id_stops

    def forget(self) -> None:
        """Empty the dictionary, at the end of a batch; ids begin at 0 again."""
        self.state.slots.fill(0)
        self.state.fields[blocks.N_WORDS] = 0

    def intern(self, word: str) -> int:
        """Return the id of a word, a new one where the dictionary lacks it."""
        data, token = word.encode(), np.zeros(blocks.TOKEN_WORDS, np.uint64)
        token.view(np.uint8)[: len(data)] = np.frombuffer(data, np.uint8)
        while not blocks.has_room(self.state):
            self.state = blocks.grow_state(self.state)
        return int(blocks.identify(self.state, token, len(data)))

    def texts(self, first: int, last: int) -> pa.Array:
        """Return some words of the dictionary by their ids."""
        offsets = np.append(0, np.cumsum(self.state.lengths[first:last])).astype(np.int32)
        padded = self.state.arena[self.state.starts[first] : self.state.starts[last]].view(np.uint8)
        # No token holds a NUL byte, so the padding to whole units is exactly the zeros.
        buffers = (pa.py_buffer(offsets), pa.py_buffer(padded[padded != 0]))
        return pa.StringArray.from_buffers(last - first, *buffers)


class CallableScanner:
    """The general scanner, which calls a function from text to tokens and keeps a Python dictionary of words.

    `name` is what errors call the function.
    """

    n_long = 0

    def __init__(
        self,
        function: Callable[[str], Any],
        cut: Callable[[str], Iterable[str]],
        *,
        name: object,
        lowercase: bool,
        form: Form,
    ):
        self.function, self.cut, self.name, self.lowercase = function, cut, name, lowercase
        self.form, self.index = form, dict[str, int]()
        self.url = ""  # that is read

    @property
    def n_words(self) -> int:
        """The number of words in the dictionary."""
        return len(self.index)

    def scan(self, batch: Batch) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """Return the ids of the next batch."""
        ids, stops, batch = list[int](), list[int](), normalized(batch, self.form)
        for text, document in zip(batch.texts(), batch.documents["id"].to_pylist(), strict=True):
            begin = len(ids)
            for segment in filter(None, self.cut(text.decode())):
                found = self._ids(segment.lower() if self.lowercase else segment, document)
                ids += [-1] * (len(ids) > begin and bool(found)) + found
            stops.append(len(ids))
        return np.array(ids, np.int32), np.array(stops, np.int64)

    def _ids(self, text: str, document: str | None) -> list[int]:
        """Return the ids of the tokens of a text: one thread of a process calls the function at a time."""
        try:
            with ONE_AT_A_TIME:
                tokens = self.function(text)
                tokens = list(tokens) if isinstance(tokens, Iterator) else tokens
        except Exception as error:
            where = f"{self.url}, document {document}," if document else self.url
            raise CorpusError(
                f"the tokenizer {self.name!r} failed in {where} at {text[:40]!r}: "
                f"{type(error).__name__}: {error}; correct the function."
            ) from error
        what = f"The tokenizer {self.name!r} returned"
        if not isinstance(tokens, Iterable):
            raise TypeError(
                f"{what} {type(tokens).__name__}, not an iterable of words; correct the function."
            )
        found = []
        for token in tokens:
            if not isinstance(token, str):
                kind = type(token).__name__
                raise TypeError(
                    f"{what} the word {token!r}, which is {kind} and not text; correct the function."
                )
            found.append(self.index.setdefault(token, len(self.index)))
        return found

    def texts(self, first: int, last: int) -> pa.Array:
        """Return some words of the dictionary by their ids."""
        return pa.array(list(islice(self.index, first, last)), pa.string())

    def intern(self, word: str) -> int:
        """Return the id of a word, a new one where the dictionary lacks it."""
        return self.index.setdefault(word, len(self.index))

    def forget(self) -> None:
        """Empty the dictionary; ids begin at 0 again."""
        self.index = {}


Words = WordScanner | CallableScanner


def segments(text: str, border: str, *, numbers: bool) -> Iterator[str]:
    """Yield the lines or sentences of a text by the rules of `Tokenizer.border`.

    No sentence ends before a lower-case word, or at a full stop after a single letter ("J. Smith").
    """
    begin, word = 0, re.compile(r"[^\W_]" if numbers else r"[^\W\d_]")
    after = word.search(text)  # the first character of a word at or after an end
    for match in BORDERS[border].finditer(text):
        start, end = match.span()
        if match[0][0] not in "\n" + HARD_STOPS:
            if after is not None and after.start() < end:
                after = word.search(text, end)
            initial = re.search(r"(?:^|[\W\d_])[^\W\d_]$", text[max(start - 2, 0) : start])
            if after is None or after[0].islower() or (initial and text[start] == "."):
                continue
        yield text[begin:end]
        begin = end
    yield text[begin:]
