"""Train skip-gram or fastText on a GPU as gensim does on a processor, so that the rivals can be tuned.

``python -m benchmarks.gpu_rivals encode LINES.txt CORPUS.npz --max-words 30000`` reads tokenized lines, as
``gensim_vectors --lines`` keeps them; ``gpu_rivals skipgram|fasttext CORPUS.npz OUT.bin --size 200 --epochs 5`` trains
on them and writes the vectors (fastText to OUT.safetensors: with the trained buckets, for unknown words).

It is gensim's algorithm: its sub-sampling, its windows drawn from 1 to ``--window`` over the words that are left, its
power of 3/4 for the words drawn against, its rate that falls to 0.0001, its initial values, its n-grams and buckets.
It differs in four points. A few hundred warps train at once. Stretches of 64 words that follow each other in the text
are trained far apart in time. The changes of a word's rows are added once per place
in the text and not once per pair, although the later pairs of the place see them. And in skip-gram, as in gensim's
fastText and in the papers, the word in the middle predicts those around it; gensim's skip-gram has it the other way.

Training needs CuPy and an NVIDIA GPU of compute capability 9.0 or higher; encoding does not.
"""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.measures import needed, run_main, spent, tell
from distembed import SubwordTable, WordVectors
from distembed.vectors import subwords as ngrams

LAST_RATE = 0.0001
MIN_N, MAX_N, N_BUCKETS = 3, 6, 2_000_000
N_NOISE = 2**27
LANES, MAX_NEGATIVE = 32, 26


class Corpus(NamedTuple):
    """A text of which the words are numbers, in the order of their frequency."""

    words: list[str]
    counts: NDArray[np.int64]
    ids: NDArray[np.integer]
    """uint16 or int32 (n_tokens,): the words of the text that are in the vocabulary."""
    lengths: NDArray[np.int32]
    """How many of them each line has."""


class Spelling(NamedTuple):
    """The buckets of the n-grams of each word; none for skip-gram."""

    starts: NDArray[np.int32]
    rows: NDArray[np.int32]
    """The n-grams of word w, as rows of the trained buckets: ``rows[starts[w]:starts[w + 1]]``."""
    buckets: NDArray[np.int64]
    """The buckets that are trained, rising."""


# ------------------------------------------------------------------------------------------------ encoding


def vocabulary(text: Path, max_words: int) -> tuple[list[str], NDArray[np.int64]]:
    """Return the words above the highest count that keeps at most `max_words`, as gensim's `max_final_vocab` does."""
    counter: Counter[str] = Counter()
    with text.open() as lines:
        for line in lines:
            counter.update(line.split())
    ordered = counter.most_common()
    least = max(ordered[max_words][1] + 1 if len(ordered) > max_words else 0, 5)
    kept = [(word, count) for word, count in ordered if count >= least]
    return [word for word, _ in kept], np.array([count for _, count in kept])


def encode(text: Path, max_words: int) -> Corpus:
    words, counts = vocabulary(text, max_words)
    number = {word: i for i, word in enumerate(words)}
    ids = np.empty(counts.sum(), np.uint16 if len(words) <= 2**16 else np.int32)
    lengths, end = [], 0
    with text.open() as lines:
        for line in lines:
            known = [number[word] for word in line.split() if word in number]
            ids[end : end + len(known)] = known
            end += len(known)
            lengths.append(len(known))
    return Corpus(words, counts, ids, np.array(lengths, np.int32))


def save(corpus: Corpus, out: Path) -> None:
    np.savez(out, words="\n".join(corpus.words), counts=corpus.counts, ids=corpus.ids, lengths=corpus.lengths)


def load(path: Path) -> Corpus:
    parts = np.load(path)
    return Corpus(str(parts["words"]).split("\n"), parts["counts"], parts["ids"], parts["lengths"])


def spelling(words: list[str]) -> Spelling:
    """Return the buckets of fastText's n-grams of 3 to 6 characters."""
    slices = ngrams.word_ngrams(words, MIN_N, MAX_N)
    buckets, rows = np.unique(
        ngrams.hashes(slices.data, slices.starts, slices.stops) % N_BUCKETS, return_inverse=True
    )
    return Spelling(slices.offsets.astype(np.int32), rows.astype(np.int32), buckets)


def no_spelling(words: list[str]) -> Spelling:
    return Spelling(np.zeros(len(words) + 1, np.int32), np.zeros(0, np.int32), np.zeros(0, np.int64))


# ------------------------------------------------------------------------------------------------ training


class Device:
    """A corpus on the GPU and what does not depend on the options of a training."""

    def __init__(self, corpus: Corpus) -> None:
        cp = needed("cupy")
        self.cp, self.corpus = cp, corpus
        self.ids = cp.asarray(corpus.ids)
        self.lines = cp.asarray(np.repeat(np.arange(len(corpus.lengths), dtype=np.int32), corpus.lengths))
        weights = np.cumsum(corpus.counts.astype(float) ** 0.75)
        places = (cp.arange(N_NOISE) + 0.5) * (weights[-1] / N_NOISE)
        self.noise = cp.searchsorted(cp.asarray(weights), places).astype(cp.int32)

    def kept(self, sample: float):
        """Return the words that one pass of sub-sampling keeps, and the line of each."""
        cp, counts = self.cp, self.corpus.counts
        threshold = sample * counts.sum()
        probability = cp.asarray((np.sqrt(counts / threshold) + 1) * (threshold / counts), cp.float32)
        chosen = cp.random.random(len(self.ids), cp.float32) < probability[self.ids]
        return self.ids[chosen].astype(cp.int32), self.lines[chosen]

    def kernel(self, size: int):
        source = Path(__file__).with_suffix(".cu").read_text()
        module = self.cp.RawModule(code=source, options=(f"-DSIZE={size}", "-std=c++17"))
        return module.get_function("train_epoch")

    def train(self, spelled: Spelling, *, size, epochs, window, sample, negative, rate, seed, warps):
        """Return the rows of the words and then of the buckets, float32 (n_words + n_buckets, size)."""
        cp = self.cp
        cp.random.seed(seed)
        n_words = len(self.corpus.words)
        n_rows = n_words + len(spelled.buckets)
        inputs = (cp.random.random((n_rows, size), cp.float32) * 2 - 1) / size
        outputs = cp.zeros((n_words, size), cp.float32)
        starts, rows = cp.asarray(spelled.starts), cp.asarray(spelled.rows + np.int32(n_words))
        kernel, rates = self.kernel(size), np.linspace(rate, LAST_RATE, epochs + 1, dtype=np.float32)
        for epoch in range(epochs):
            words, lines = self.kept(sample)
            kernel(
                (warps // 4,), (4 * LANES,),
                (words, lines, np.int32(len(words)), starts, rows, self.noise, np.uint32(N_NOISE - 1),
                 inputs, outputs, np.int32(window), np.int32(negative), rates[epoch], rates[epoch + 1],
                 np.uint32(seed * 1000 + epoch), np.int64(jump(len(words))), cp.zeros(1, np.int32)),
            )  # fmt: skip
        return inputs.get()


def jump(n_words: int) -> int:
    """Return a step through all stretches of 64 words that leads far away: the golden section of their number."""
    n_stretches = -(-n_words // 64)
    step = int(0.618 * n_stretches) | 1
    while math.gcd(step, n_stretches) > 1:
        step += 1
    return step


def word_vectors(words: list[str], spelled: Spelling, rows: NDArray[np.float32]) -> WordVectors:
    """Return the vectors of a training: a word's is the mean of its own row and those of its n-grams."""
    own, trained = rows[: len(words)], rows[len(words) :]
    if not len(trained):
        return WordVectors(words, own)
    buckets = np.zeros((N_BUCKETS, rows.shape[1]), np.float32)
    buckets[spelled.buckets] = trained
    table = SubwordTable(buckets, np.zeros(rows.shape[1]), MIN_N, MAX_N)
    n_ngrams = np.diff(spelled.starts)[:, None]
    return WordVectors(words, (own + n_ngrams * table.compose(words)) / (n_ngrams + 1), subwords=table)


def main(
    task: Literal["encode", "skipgram", "fasttext"], source: Path, out: Path, *, max_words: int = 30_000,
    size: int = 200, epochs: int = 5, window: int = 5, sample: float = 1e-4, negative: int = 5, rate: float = 0.025,
    seed: int = 1, warps: int = 512,
) -> None:  # fmt: skip
    if task == "encode":
        corpus = encode(source, max_words)
        save(corpus, out)
        tell(
            f"{len(corpus.words):,} words, {len(corpus.ids):,} tokens of them, {len(corpus.lengths):,} lines"
        )
        return
    if size % 4 or warps % 4 or negative > MAX_NEGATIVE:
        raise SystemExit(
            f"choose a size and a number of warps that 4 divides, and at most {MAX_NEGATIVE} negatives"
        )
    settings = {
        "size": size, "epochs": epochs, "window": window, "sample": sample, "negative": negative, "rate": rate,
        "seed": seed, "warps": warps,
    }  # fmt: skip
    corpus = load(source)
    spelled = (spelling if task == "fasttext" else no_spelling)(corpus.words)
    found = spent(lambda: Device(corpus).train(spelled, **settings))
    tell(f"{task} {settings}: {found.wall:.1f} s with the corpus's way to the GPU")
    word_vectors(corpus.words, spelled, found.result).save(out)


if __name__ == "__main__":
    run_main(main)
