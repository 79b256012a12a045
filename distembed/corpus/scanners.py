"""From batches of text to the token ids of a partition, and the counts of its words.

What cuts text into words, the compiled scanner or a function of a user, gives their ids, in order of first appearance,
-1 at borders, and the end of the ids of each document. All that follows is done with ids: short documents, lines or
sentences are left out, names of several words are joined, and tokens and documents are counted.

A name is found where its words stand one after the other, as the tokenizer gives them: in its case, with whatever
separates words between them, and never across a border (`Tokenizer.border`). Of the names that begin at a token the
longest is taken, and the search goes on behind it. The token is the words of the name, joined by `JOINT`.
"""

from __future__ import annotations

import re
import threading
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain, islice, pairwise
from typing import Any, Literal, NamedTuple, cast

import numpy as np
import pyarrow as pa
from numba import njit
from numpy.typing import NDArray

from distembed.corpus import blocks
from distembed.corpus.blocks import MAX_TOKEN_BYTES
from distembed.corpus.records import Batch, CorpusError, batch_of
from distembed.display import plural

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
    if form == "none" or batch.data.max(initial=0) < 0x80:
        return batch
    kind = cast("Literal['NFC', 'NFKC']", form.upper())
    high = batch.data >= 0x80
    high[:-1] |= high[1:]
    letters = batch.data[high].tobytes()
    if unicodedata.is_normalized(kind, letters.decode()):
        return batch
    places = np.flatnonzero(high)
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


@dataclass
class CallableScanner:
    """The general scanner, which calls a function from text to tokens and keeps a Python dictionary of words."""

    function: Callable[[str], Any]
    cut: Callable[[str], Iterable[str]]
    """What divides a text into its lines or sentences."""
    name: object
    """What errors call the function."""
    lowercase: bool
    form: Form
    url: str = ""
    """The file that is read."""
    index: dict[str, int] = field(default_factory=dict)
    n_long = 0

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
                tokens = list(self.function(text))
        except Exception as error:
            where = f"{self.url}, document {document}," if document else self.url
            raise CorpusError(
                f"the tokenizer {self.name!r} failed in {where} at {text[:40]!r}: "
                f"{type(error).__name__}: {error}; correct the function."
            ) from error
        if wrong := [token for token in tokens if not isinstance(token, str)]:
            kind = type(wrong[0]).__name__
            raise TypeError(
                f"the tokenizer {self.name!r} returned the word {wrong[0]!r}, which is {kind} and not text; correct "
                "the function."
            )
        return [self.index.setdefault(token, len(self.index)) for token in tokens]

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


# ---- names of several words ----------------------------------------------------------------------------------------

JOINT = "_"
"""What stands between the words of a name."""


class Gazetteer(NamedTuple):
    """Names of several words as a trie, ready to be searched for; node 0 is its root."""

    words: list[str]
    """The token of each name."""
    n_single: int
    """The number of names of one word, which are left as they are."""
    parts: dict[str, int]
    """The number of each word of a name. Those that begin one come first: word k leads from the root to node k + 1."""
    n_first: int
    """The number of words that begin a name."""
    edges: NDArray[np.int64]
    """The other edges, rising: the node that each begins at times 2^32, and its word. Int64 (n_edges,)."""
    children: NDArray[np.int64]
    """The node that each of them leads to. Int64 (n_edges,)."""
    ends: NDArray[np.int64]
    """The name that ends at each node, -1 where none does. Int64 (n_nodes,)."""


@njit(cache=True, nogil=True)
def join_names(
    ids: np.ndarray, stops: np.ndarray, parts: np.ndarray, n_first: int, edges: np.ndarray, children: np.ndarray,
    ends: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
    """Join the names among the ids of some documents, the longest at each place; a name never crosses a border.

    Parameters
    ----------
    ids : int32 array
        Ids of words, -1 at borders.
    stops : int64 array (n,)
        The end of the ids of each document.
    parts : int32 array
        The word of names that each word is, -1 for others.
    n_first, edges, children, ends
        The trie of a `Gazetteer`.

    Returns
    -------
    int32 array
        Ids, -1 at borders, and -2 - k for the name k.
    int64 array (n,)
        The end of the ids of each document.
    """
    out, out_stops, n_out, begin = np.empty_like(ids), np.empty_like(stops), 0, 0
    for document, stop in enumerate(stops):
        while begin < stop:
            found, end, node, at = np.int64(ids[begin]), begin + 1, np.int64(0), begin
            while at < stop and ids[at] >= 0 and parts[ids[at]] >= 0:
                part = np.int64(parts[ids[at]])
                edge = (node << 32) | part
                place = np.searchsorted(edges, edge) if node else 0
                if part >= n_first if node == 0 else (place == len(edges) or edges[place] != edge):
                    break
                node = children[place] if node else part + 1
                at += 1
                if ends[node] >= 0:
                    found, end = -2 - ends[node], at
            out[n_out] = found
            n_out, begin = n_out + 1, end
        out_stops[document] = n_out
    return out[:n_out], out_stops


def gazetteer(data: bytes, words: Words, *, path: str) -> Gazetteer:
    """Return the names of a file, one per line, cut into words by a scanner that has seen nothing.

    A token that is a whole name already, as a tokenizer may give it, is that name too.

    Raises
    ------
    CorpusError
        If no name has several words.
    """
    lines = data.split(b"\n")
    ids, stops = words.scan(batch_of(lines))
    known = words.texts(0, words.n_words).to_pylist()
    cut = (tuple(known[word] for word in ids[begin:end]) for begin, end in pairwise([0, *stops.tolist()]))
    found = list(dict.fromkeys(name for name in cut if name))
    names = [name for name in found if len(name) > 1 and len(JOINT.join(name).encode()) <= MAX_TOKEN_BYTES]
    if not names:
        raise CorpusError(
            f"{path} (phrases_file) has no name of several words: write one name per line, such as New York"
        )
    tokens = [JOINT.join(name) for name in names]
    numbers = {token: number for number, token in reversed(list(enumerate(tokens)))}
    every = [*names, *((token,) for token in numbers)]
    first = dict.fromkeys(name[0] for name in every)
    parts = {word: part for part, word in enumerate(dict.fromkeys(chain(first, *every)))}
    nodes: dict[tuple[str, ...], int] = {(): 0} | {(word,): node for node, word in enumerate(first, 1)}
    for name in every:
        for length in range(2, len(name) + 1):
            nodes.setdefault(name[:length], len(nodes))
    inner = list(nodes)[1 + len(first) :]
    keys = np.array([nodes[name[:-1]] << 32 | parts[name[-1]] for name in inner], np.int64)
    ends = np.full(len(nodes), -1, np.int64)
    ends[[nodes[name] for name in every]] = [numbers[JOINT.join(name)] for name in every]
    order, n_single = np.argsort(keys), len(found) - len(names)
    return Gazetteer(tokens, n_single, parts, len(first), keys[order], order + 1 + len(first), ends)


def names_in_words(names: Gazetteer, *, path: str) -> str:
    """Return how many names of a file are joined, in words."""
    single = f"; {plural(names.n_single, 'name')} of one word left as they are" if names.n_single else ""
    return f"joining {plural(len(names.words), 'name')} of several words from {path}{single}"


# ---- ids and counts ------------------------------------------------------------------------------------------------

WORDS_SCHEMA = pa.schema([("word", pa.string()), ("count", pa.int64()), ("document_count", pa.int64())])


class Scanned(NamedTuple):
    """The ids of a batch (int32, -1 at borders), and the end of the ids and the tokens of each document."""

    ids: NDArray[np.int32]
    id_stops: NDArray[np.int64]
    n_tokens: NDArray[np.int64]


class Scanner:
    """Turns batches of text into ids, and counts the words of a partition."""

    def __init__(self, words: Words, names: Gazetteer | None = None, *, min_tokens: int = 1) -> None:
        self.source, self.names, self.min_tokens = words, names, min_tokens
        self.n_documents = self.n_short = 0
        self._begin()

    def _begin(self) -> None:
        """Begin with an empty dictionary."""
        self.stats = np.zeros((0, 3), np.int64)  # tokens, documents and the last document of each word
        self.parts = np.empty(0, np.int32)  # of each word that was looked up among those of names
        # Of the names that were found.
        self.name_ids = np.full(len(self.names.words) if self.names else 0, -1, np.int32)

    def scan(self, batch: Batch) -> Scanned:
        """Return the ids of the next batch."""
        ids, stops = self.source.scan(batch)
        if self.min_tokens > 1 and len(ids):
            ids, stops = self._without_short(ids, stops)
        if self.names is not None:
            ids, stops = self._with_names(self.names, ids, stops)
        if self.source.n_words > len(self.stats):
            more = np.tile(np.array([0, 0, -1]), (max(self.source.n_words, 1 << 15), 1))
            self.stats = np.concatenate([self.stats, more])
        starts, n_tokens = np.append(0, stops)[: len(stops)], np.empty(len(stops), np.int64)
        tally(ids, starts, stops, self.n_documents + np.arange(len(stops)), self.stats, n_tokens)
        self.n_documents += len(stops)
        return Scanned(ids, stops, n_tokens)

    def words(self) -> pa.Table:
        """Return the dictionary, in order of first appearance, with the numbers of tokens and of documents."""
        n_words = self.source.n_words
        columns = self.stats[:n_words, :2].T.copy()
        return pa.table([self.source.texts(0, n_words), *columns], schema=WORDS_SCHEMA)

    def forget(self) -> None:
        """Empty the dictionary; ids begin at 0 again."""
        self.source.forget()
        self._begin()

    def _with_names(
        self, names: Gazetteer, ids: NDArray[np.int32], stops: NDArray[np.int64]
    ) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """Return ids with names joined, which have ids of their own, and the end of each document among them."""
        new = self.source.texts(len(self.parts), self.source.n_words).to_pylist()
        looked_up = np.array([names.parts.get(word, -1) for word in new], np.int32)
        self.parts = np.append(self.parts, looked_up)
        out, out_stops = join_names(ids, stops, self.parts, *names[3:])
        places = np.flatnonzero(out < -1)
        found = -2 - out[places]
        for name in np.unique(found[self.name_ids[found] < 0]).tolist():
            self.name_ids[name] = self.source.intern(names.words[name])
        out[places] = self.name_ids[found]
        return out, out_stops

    def _without_short(
        self, ids: NDArray[np.int32], stops: NDArray[np.int64]
    ) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """Return ids without documents, lines or sentences of fewer tokens, and the borders before them."""
        is_border = ids < 0
        document = np.repeat(np.arange(len(stops)), np.diff(stops, prepend=0))
        segment = np.cumsum(is_border | (np.diff(document, prepend=-1) != 0)) - 1
        n_tokens = np.bincount(segment[~is_border], minlength=segment[-1] + 1)
        is_short = (n_tokens > 0) & (n_tokens < self.min_tokens)
        self.n_short += int(is_short.sum())
        stays = np.flatnonzero(~is_short[segment])
        is_first = np.diff(document[stays], prepend=-1) != 0
        stays = stays[~(is_first & is_border[stays])]
        return ids[stays], np.searchsorted(stays, stops)


def hashes_of(words: pa.Array, seed: int = 0) -> NDArray[np.uint64]:
    """Return the hash of each word, uint64 (n,); the hashes of two seeds are independent."""
    _, offsets, data = words.buffers()
    bounds = np.frombuffer(offsets or bytes(4), np.int32)[words.offset : words.offset + len(words) + 1]
    return np.asarray(word_hashes(np.frombuffer(data or b"", np.uint8), bounds, seed))


# ---- compiled ------------------------------------------------------------------------------------------------------


@njit(cache=True, nogil=True, _nrt=False)
def tally(
    ids: np.ndarray, starts: np.ndarray, stops: np.ndarray, documents: np.ndarray, stats: np.ndarray,
    n_tokens: np.ndarray,
) -> None:  # fmt: skip
    """Count the tokens and the documents of each word, and the tokens of each document.

    Parameters
    ----------
    ids : int32 array
        Ids of words; negative ones are no tokens.
    starts, stops, documents : int64 array (n,)
        Where the ids of each document begin and end, and its number.
    stats : int64 array (n_words, 3)
        The tokens, the documents and the last document of each word, which are added to.
    n_tokens : int64 array (n,)
        Output: the tokens of each document.
    """
    for row in range(len(stops)):
        n, document = 0, documents[row]
        for k in range(starts[row], stops[row]):
            word = ids[k]
            if word >= 0:
                n += 1
                stats[word, 0] += 1
                if stats[word, 2] != document:
                    stats[word, 2] = document
                    stats[word, 1] += 1
        n_tokens[row] = n


@njit(cache=True, nogil=True)
def word_hashes(data: np.ndarray, bounds: np.ndarray, seed: int) -> np.ndarray:
    """Return the FNV-1a hash of the bytes of each word, mixed, uint64 (n,).

    Parameters
    ----------
    data : uint8 array
        The bytes of the words.
    bounds : int32 array (n + 1,)
        The offset at which each word begins, and the end of the last.
    seed : int
        A number mixed into the hash: the hashes of two seeds are independent.
    """
    hashes = np.empty(len(bounds) - 1, np.uint64)
    for word in range(len(hashes)):
        h = np.uint64(0xCBF29CE484222325)
        for k in range(bounds[word], bounds[word + 1]):
            h = (h ^ np.uint64(data[k])) * np.uint64(0x100000001B3)
        # FNV alone would deal the words of one bucket into few others, whatever the seed.
        h ^= np.uint64(seed) * np.uint64(0x9E3779B97F4A7C15)
        for _ in range(2):
            h = (h ^ (h >> np.uint64(32))) * np.uint64(0xD6E8FEB86659FD93)
        hashes[word] = h
    return hashes
