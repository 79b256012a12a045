"""Write a MediaWiki export of any size whose words and pairs grow as those of real English text do.

``python -m benchmarks.synthetic_wikipedia growth SOURCE...`` prints, for real and for synthetic text, how many
different words and how many different pairs (two words at most three apart) there are after 10, 20, 40, 82 million
tokens, and for the synthetic text far beyond. ``python -m benchmarks.synthetic_wikipedia write FOLDER SOURCE...
--tokens 2.1e9`` writes ``FOLDER/enwiki-synthetic-*.xml.bz2``, multistream as Wikimedia's dumps are, or ``.xml`` with
``--plain``; ``growth --keep N`` counts every N-th pair. SOURCE are text files (a blank line between documents; .xz or
plain), here those of data/english.

The model is an interpolated trigram model that walks over the real text: after every token the walk goes on with the
next token of the real text, or, with small probabilities, jumps to another place where the same two words stand (a
trigram's choice), where the same word stands (a bigram's), anywhere (a unigram's), or back to an earlier place of its
page (a cache model's). A page has the length of a real document. Words that are rare in the source become draws from a
Zipf-Mandelbrot law without end, whose new words grow by Heaps' law; on one page a word of the source always becomes the
same draw, as names repeat. Everything is drawn from ``--seed`` and the number of a stream, so that any number of
processes write the same bytes.

What it does not have: topics, beyond the words of a few sentences, and hence no long-range meaning; and the markup of
real pages, of which it writes about a tenth (links, references, an infobox on each page).
"""

# ruff: noqa: NPY002 - numba compiles these functions into a generator of its own, seeded on purpose

from __future__ import annotations

import bz2
import lzma
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import pairwise
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from benchmarks.measures import run_main, tell

# Probabilities, per token, of a jump that keeps two words, one word, or none, and of one back to an earlier word of the
# page; chosen by hand so that `growth` follows the real text.
JUMPS = (0.08, 0.11, 0.014, 0.12)
# Words of at most this count in the source are drawn anew, with ranks r from 1 of a probability proportional to
# (r + SHIFT) ** -EXPONENT.
RARE, EXPONENT, SHIFT = 3, 2.288, 500_000.0
DISTANCE = 3
LONGEST_PAGE = 20_000
STREAM_TOKENS = 40_000  # about a hundred pages, as in Wikimedia's dumps
LINK, REFERENCE = 0.04, 0.006
BLANKED = bytes.maketrans(b"[]{}|<>&=", b" " * 9)
CITATION = b"&lt;ref&gt;{{cite book |title=Collected papers |year=1999 |isbn=978-0-00-000000-2}}&lt;/ref&gt;"
HEAD = b"""<mediawiki xmlns="http://www.mediawiki.org/xml/export-0.10/" version="0.10" xml:lang="en">
  <siteinfo>
    <sitename>Synthetic Wikipedia</sitename>
    <namespaces>
      <namespace key="0" case="first-letter" />
      <namespace key="6" case="first-letter">File</namespace>
      <namespace key="10" case="first-letter">Template</namespace>
      <namespace key="14" case="first-letter">Category</namespace>
    </namespaces>
  </siteinfo>
"""
PAGE = b"""  <page>
    <title>%s %d</title>
    <ns>0</ns>
    <id>%d</id>
    <revision>
      <id>%d</id>
      <timestamp>2018-11-01T00:00:00Z</timestamp>
      <contributor>
        <username>Writer</username>
        <id>1</id>
      </contributor>
      <model>wikitext</model>
      <format>text/x-wiki</format>
      <text xml:space="preserve">{{Infobox article
| name = %s
| image = Example %d.jpg
| established = %d
}}
%s</text>
    </revision>
  </page>
"""


class Source(NamedTuple):
    """Real text, its tokens, and the places where the same words stand."""

    text: NDArray[np.uint8]
    starts: NDArray[np.uint32]  # of each token in the text, and the end of the text
    stops: NDArray[np.uint32]  # of the letters of each token
    words: NDArray[np.int32]
    rare: NDArray[np.bool_]  # per word
    documents: NDArray[np.int64]  # first token of each document, and the number of tokens
    order: NDArray[np.int32]  # positions by word, and then by the word before
    rank: NDArray[np.int32]  # the place of each position in that order
    bigrams: NDArray[np.int32]  # per place in that order, where its bigram starts
    unigrams: NDArray[np.int64]  # per word, where it starts in that order


@njit(cache=True)
def tokens_of(text):
    """Return the first byte of each token ([A-Za-z]+), the byte behind it, and a hash of its lower case."""
    n = 0
    inside = False
    for byte in text:
        letter = 97 <= (byte | 32) <= 122
        n += letter and not inside
        inside = letter
    starts, stops, hashes = np.empty(n, np.uint32), np.empty(n, np.uint32), np.empty(n, np.uint64)
    n, inside, value = 0, False, np.uint64(0)
    for place in range(len(text) + 1):
        letter = place < len(text) and 97 <= (text[place] | 32) <= 122
        if letter and not inside:
            starts[n], value = place, np.uint64(14695981039346656037)
        if letter:
            value = (value ^ np.uint64(text[place] | 32)) * np.uint64(1099511628211)
        if inside and not letter:
            stops[n], hashes[n] = place, value
            n += 1
        inside = letter
    return starts, stops, hashes


def read_source(paths: Sequence[Path], seed: int) -> Source:
    """Read text files whose documents stand between blank lines, in a random order."""
    texts = [(lzma.open if path.suffix == ".xz" else open)(path, "rb").read() for path in paths]
    documents = [document for text in texts for document in text.translate(BLANKED).split(b"\n\n")]
    np.random.default_rng(seed).shuffle(documents)
    text = np.frombuffer(b"\n\n".join(documents) + b"\n\n", np.uint8)
    starts, stops, hashes = tokens_of(text)
    ends = np.cumsum([len(document) + 2 for document in documents])
    bounds = np.unique(np.append(0, np.searchsorted(starts, ends)))
    _, words, counts = np.unique(hashes, return_inverse=True, return_counts=True)
    order, rank, bigrams = context_order(words)
    unigrams = np.append(0, np.cumsum(counts))
    starts, words = np.append(starts, np.uint32(len(text))), words.astype(np.int32)
    return Source(text, starts, stops, words, counts <= RARE, bounds, order, rank, bigrams, unigrams)


def context_order(words: NDArray[np.int64]) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32]]:
    """Sort positions by their word and the word before; return the order, its inverse, and where each bigram starts."""
    keys = words << 32 | np.append(0, words[:-1])
    order = np.argsort(keys, kind="stable").astype(np.int32)
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order), dtype=np.int32)
    sorted_keys = keys[order]
    first = np.append(True, sorted_keys[1:] != sorted_keys[:-1])
    return order, rank, np.maximum.accumulate(np.where(first, np.arange(len(order)), 0)).astype(np.int32)


@njit(cache=True)
def walk(words, rare, documents, order, rank, bigrams, unigrams, *, jumps, n_tokens, longest, seed):
    """Walk over the source until there are so many tokens.

    Returns
    -------
    positions : int32, (n,)
        The token of the source that stands at each place.
    ranks : int32, (n,)
        0, or the rank of the rare word that stands there in its place.
    pages : int64, (n_pages + 1,)
        The first place of each page, and the number of places.
    """
    np.random.seed(seed)
    two, one, none, back = jumps[0], jumps[0] + jumps[1], jumps[0] + jumps[1] + jumps[2], sum(jumps)
    positions, ranks = np.empty(n_tokens + longest, np.int32), np.zeros(n_tokens + longest, np.int32)
    pages = [0]
    place = 0
    while place < n_tokens:
        document = np.random.randint(len(documents) - 1)
        at = documents[document]
        begin, page = place, np.random.randint(2**31)
        for _ in range(min(documents[document + 1] - at, longest)):
            positions[place] = at
            word = words[at]
            if rare[word]:
                ranks[place] = rare_rank(word, page)
            place += 1
            u = np.random.random()
            if u < two:
                group = bigrams[rank[at] : unigrams[word + 1]]
                end = rank[at] + np.searchsorted(group, group[0], side="right")
                at = order[np.random.randint(group[0], end)]
            elif u < one:
                at = order[np.random.randint(unigrams[word], unigrams[word + 1])]
            elif u < none:
                at = np.random.randint(len(words))
            elif u < back:
                at = positions[np.random.randint(begin, place)]
            at = at + 1 if at + 1 < len(words) else 0
        pages.append(place)
    return positions[:place], ranks[:place], np.array(pages)


@njit(cache=True)
def rare_rank(word, page):
    """Return the rank of the rare word that stands on a page where the source has this word."""
    key = (np.uint64(page) << np.uint64(32) | np.uint64(word)) + np.uint64(0x9E3779B97F4A7C15)
    key = (key ^ key >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
    key = (key ^ key >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
    uniform = ((key ^ key >> np.uint64(31)) >> np.uint64(11)) * 2.0**-53
    return min((SHIFT + 1) * (1 - uniform) ** (-1 / (EXPONENT - 1)) - SHIFT, 2e9)


@njit(cache=True)
def pair_keys(words, pages, *, keep):
    """Return a hash of each pair of words at most `DISTANCE` apart on a page whose hash is divisible by `keep`."""
    found = np.empty(len(words) * DISTANCE, np.uint64)
    n = 0
    for page in range(len(pages) - 1):
        for place in range(pages[page], pages[page + 1]):
            for other in range(max(pages[page], place - DISTANCE), place):
                key = np.uint64(words[other]) << np.uint64(32) | np.uint64(words[place])
                key = (key ^ key >> np.uint64(31)) * np.uint64(0x7FB5D329728EA185)
                key = (key ^ key >> np.uint64(27)) * np.uint64(0x81DADEF4BC2DD44D)
                if key % np.uint64(keep) == 0:
                    found[n] = key
                    n += 1
    return found[:n].copy()


class Growth:
    """How many different words and pairs there are in the tokens so far; of the pairs a sample is counted."""

    def __init__(self, *, keep: int) -> None:
        self.keep, self.words, self.pairs = keep, np.empty(0, np.int64), np.empty(0, np.uint64)
        self.pending: list[NDArray[np.uint64]] = []

    def add(self, words: NDArray[np.int64], pages: NDArray[np.int64]) -> None:
        self.words = np.union1d(self.words, words)
        self.pending.append(pair_keys(words, pages, keep=self.keep))

    def numbers(self) -> tuple[int, int]:
        self.pairs = np.unique(np.concatenate([self.pairs, *self.pending]))
        self.pending = []
        return len(self.words), len(self.pairs) * self.keep


@njit(cache=True)
def wikitext(text, starts, stops, positions, ranks, citation, seed):
    """Return the bytes of the tokens of a page, with what stands between them in the source, links and references."""
    np.random.seed(seed)
    out = np.empty(64, np.uint8)
    n = 0
    for place in range(len(positions)):
        at = positions[place]
        needed = n + starts[at + 1] - starts[at] + len(citation) + 32
        if needed > len(out):
            grown = np.empty(2 * needed, np.uint8)
            grown[:n] = out[:n]
            out = grown
        linked = np.random.random() < LINK
        if linked:
            out[n : n + 2] = 91  # [[
            n += 2
        if ranks[place]:
            n = spell(out, n, ranks[place])
        else:
            letters = text[starts[at] : stops[at]]
            out[n : n + len(letters)] = letters
            n += len(letters)
        if linked:
            out[n : n + 2] = 93  # ]]
            n += 2
        between = text[stops[at] : starts[at + 1]]
        out[n : n + len(between)] = between
        n += len(between)
        if np.random.random() < REFERENCE:
            out[n : n + len(citation)] = citation
            n += len(citation)
    return out[:n]


@njit(cache=True)
def spell(out, n, rank):
    """Write a rank as a word of syllables, at least three; return the place behind it."""
    syllables = 0
    while rank or syllables < 3:
        digit = rank % 100
        out[n] = b"bcdfghjklmnpqrstvwxz"[digit // 5]
        out[n + 1] = b"aeiou"[digit % 5]
        n, rank, syllables = n + 2, rank // 100, syllables + 1
    return n


def stream(index: int, *, source: Source, seed: int) -> tuple[bytes, int]:
    """Return the pages of one bz2 stream of the export, and how many tokens they have."""
    own = int(np.random.SeedSequence([seed, index]).generate_state(1)[0])
    positions, ranks, pages = walk_over(source, STREAM_TOKENS, own)
    written = []
    citation, of_text = np.frombuffer(CITATION, np.uint8), (source.text, source.starts, source.stops)
    for number, (start, stop) in enumerate(pairwise(pages)):
        body = wikitext(*of_text, positions[start:stop], ranks[start:stop], citation, own + number)
        name = bytes(source.text[source.starts[positions[start]] : source.stops[positions[start]]])
        page = index * 1000 + number + 1
        year = 1000 + page % 1000
        written.append(PAGE % (name, page, page, page, name, page, year, body.tobytes().strip()))
    return b"".join(written), len(positions)


def walk_over(source: Source, n_tokens: int, seed: int, jumps: tuple[float, ...] = JUMPS):
    """Walk over the source; see `walk`."""
    return walk(*source[3:], jumps=jumps, n_tokens=n_tokens, longest=LONGEST_PAGE, seed=seed)


def packed_stream(index: int) -> tuple[bytes, int]:
    """Return a stream of the process's export, compressed or plain."""
    pages, n_tokens = stream(index, source=OF_PROCESS["source"], seed=OF_PROCESS["seed"])
    return OF_PROCESS["pack"](pages), n_tokens


OF_PROCESS: dict[str, Any] = {}  # what the forked processes share


def write(
    folder: Path, source: Source, *, n_tokens: int, n_files: int, seed: int, plain: bool, processes: int
) -> None:
    """Write the export as so many files, and print what they hold."""
    pack = bytes if plain else bz2.compress
    OF_PROCESS.update(source=source, seed=seed, pack=pack)
    stream(0, source=source, seed=seed)  # compiles before the processes are forked
    folder.mkdir(parents=True, exist_ok=True)
    written = n_bytes = index = 0
    with ProcessPoolExecutor(processes, mp_context=get_context("fork")) as pool:
        for file in range(n_files):
            path = folder / f"enwiki-synthetic-{file + 1}.xml{'' if plain else '.bz2'}"
            with path.open("wb") as out:
                n_bytes += out.write(pack(HEAD))
                while (wanted := n_tokens * (file + 1) // n_files - written) > 0:
                    batch = range(index, index + min(256, -(-wanted // STREAM_TOKENS)))
                    for packed, tokens in pool.map(packed_stream, batch, chunksize=4):
                        n_bytes, written = n_bytes + out.write(packed), written + tokens
                    index = batch.stop
                n_bytes += out.write(pack(b"</mediawiki>\n"))
            tell(f"{path}: {written:,} tokens in {n_bytes:,} bytes so far")


def growth(source: Source, *, n_tokens: int, seed: int, keep: int) -> None:
    """Print the growth of words and pairs in the source, and in synthetic text up to so many tokens."""
    doubled = [len(source.words) * 2**k for k in range(1, 12)]
    points = [
        10_000_000,
        20_000_000,
        40_000_000,
        len(source.words),
        *(n for n in doubled if n < n_tokens),
        n_tokens,
    ]
    tell(f"{'tokens':>14} {'words':>12} {'pairs':>14}   synthetic: words, pairs")
    real, made = Growth(keep=keep), Growth(keep=keep)
    begin = done = index = 0
    for point in points:
        found = ""
        if point <= len(source.words):
            inside = source.documents[(source.documents > begin) & (source.documents < point)]
            pages = np.concatenate([[begin], inside, [point]]) - begin
            real.add(source.words[begin:point].astype(np.int64), pages)
            found, begin = "{:12,} {:14,}".format(*real.numbers()), point
        while done < point:
            positions, ranks, pages = walk_over(source, min(4_000_000, point - done), seed + index)
            words = np.where(ranks > 0, ranks.astype(np.int64) + len(source.rare), source.words[positions])
            made.add(words, pages)
            done, index = done + len(positions), index + 1
        tell(f"{point:14,} {found:>27}   {{:12,}} {{:14,}}".format(*made.numbers()))


def main(
    action: Literal["growth", "write"], *paths: Path, tokens: float = 2.1e9, files: int = 8, seed: int = 0,
    plain: bool = False, processes: int = 2, keep: int = 64,
) -> None:  # fmt: skip
    if action == "growth":
        growth(read_source(paths, seed), n_tokens=int(tokens), seed=seed, keep=keep)
        return
    folder, *sources = paths
    options = {
        "n_tokens": int(tokens),
        "n_files": files,
        "seed": seed,
        "plain": plain,
        "processes": processes,
    }
    write(folder, read_source(sources, seed), **options)


if __name__ == "__main__":
    run_main(main)
