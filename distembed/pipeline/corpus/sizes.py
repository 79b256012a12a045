"""How large a corpus is before it is read: tokens, words and pairs.

Sizes that a finished stage knows exactly (tokens, words, pairs) are read from its manifest; before that they are
estimated from the sizes of the input files and from Zipf's law.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from dask.utils import format_bytes

from distembed.pipeline.corpus.config import CorpusJob, CountingJob, CountingSection, corpus_of
from distembed.pipeline.inputs import file_sizes, recorded_bytes
from distembed.storage.schema import StageManifest
from distembed.storage.workspace import Workspace

EXPANSION = {".bz2": 3.6, ".xz": 3.85, ".zst": 3.8, ".gz": 3.0, ".parquet": 2.0}
"""Bytes of text a byte of a compressed file holds, measured on English Wikipedia text."""

BYTES_PER_TOKEN = {"mediawiki": 13.5, "text": 6.2}
"""Bytes of raw input a token takes: wikitext holds markup, plain text little more than its words."""

ZIPF_SHIFT = 2.7
"""Mandelbrot's shift of the rank: the share of the word of rank r falls as 1 / (r + 2.7)."""

REPETITION = 0.5
"""Distinct pairs of English text over those of independent words (10.3 M of 20.7 M: 20 M tokens, window 3)."""

HEAPS_FACTOR, HEAPS_EXPONENT = 20.0, 0.6
"""Distinct words of a text of n tokens: 20 n^0.6, above those of English Wikipedia and below those of word lists."""

TOKENS_PER_DOCUMENT = 100
"""Few, because an estimate of documents is for the memory they take: an abstract, or a message."""


class CorpusSizes(NamedTuple):
    """What is known of a corpus; `counted` names the stages whose facts stand for estimates.

    `n_entries` are the words of the dictionaries of all partitions together.
    """

    input_bytes: int
    n_partitions: int
    n_tokens: int
    n_entries: int
    n_documents: int
    n_words: int
    counted: frozenset[str]


class PairSizes(NamedTuple):
    """The sizes of a corpus whose pairs of words are counted once."""

    corpus: CorpusSizes
    n_nonzero: int

    @property
    def exact(self) -> bool:
        """Whether all of them are counted."""
        return "cooccurrence" in self.corpus.counted

    @property
    def sentence(self) -> str:
        """The sizes in words."""
        known, corpus = "counted" if self.exact else "estimated", self.corpus
        return (
            f"{format_bytes(corpus.input_bytes)} of input in {corpus.n_partitions} partitions; {known}: "
            f"{corpus.n_tokens:,} tokens, {corpus.n_words:,} words, {self.n_nonzero:,} pairs"
        )


def zipf_counts(n_words: int, n_tokens: int) -> np.ndarray:
    """Return the expected counts of the `n_words` most frequent words of a text of `n_tokens`, float64."""
    share = 1.0 / (np.arange(n_words) + ZIPF_SHIFT)
    # the words kept cover nearly all tokens whatever their number; what is cut off is the far tail
    return share / share.sum() * n_tokens


def expected_pairs(counts: Sequence[float] | np.ndarray, window: int, *, n_bins: int = 400) -> int:
    """Estimate the distinct ordered pairs within `window` places, as if words were drawn independently.

    P(pair i, j is seen) = 1 - exp(-window c_i c_j / N). Real text repeats itself: see `REPETITION`.
    """
    counts = np.sort(np.asarray(counts, dtype=float))[::-1]
    total = counts.sum()
    if total <= 0:
        return 0
    edges = np.unique(np.geomspace(1, len(counts) + 1, n_bins + 1).astype(int)) - 1
    widths = np.diff(edges)
    means = np.add.reduceat(counts, edges[:-1]) / widths
    seen = -np.expm1(-window / total * means[:, None] * means[None, :])
    return int(widths @ seen @ widths)


def corpus_sizes(job: CorpusJob, workspace: Workspace | None) -> CorpusSizes:
    """Return the sizes of a corpus; what the committed stages know is exact."""
    done = workspace.stages() if workspace is not None else {}
    n_bytes, n_partitions, n_tokens = corpus_input(job, done)
    facts = done["tokens"].facts if "tokens" in done else {}
    n_entries = int(facts.get("n_words", n_partitions * estimated_types(n_tokens // n_partitions)))
    n_documents = int(facts.get("n_documents", n_tokens // TOKENS_PER_DOCUMENT + 1))
    n_words = estimated_words(job, n_tokens, n_entries)
    if "vocabulary" in done:
        n_words = int(done["vocabulary"].facts["n_words"])
    return CorpusSizes(n_bytes, n_partitions, n_tokens, n_entries, n_documents, n_words, frozenset(done))


def pair_sizes(job: CountingJob, workspace: Workspace | None) -> PairSizes:
    """Return the sizes of a corpus and of the pairs counted of it; what the committed stages know is exact."""
    corpus = corpus_sizes(job, workspace)
    if workspace is not None and "cooccurrence" in corpus.counted:
        return PairSizes(corpus, int(workspace.stages()["cooccurrence"].facts["n_nonzero"]))
    return PairSizes(corpus, counted_pairs(job.counting, word_counts(corpus, workspace)))


def counted_pairs(counting: CountingSection, counts: np.ndarray) -> int:
    """Return about how many pairs of words are counted as a section says, from the counts of the words."""
    sides = 2 if counting.direction == "symmetric" else 1
    return int(REPETITION * expected_pairs(counts, counting.window * sides))


class CorpusInput(NamedTuple):
    """Bytes of the files of a corpus, the partitions they are read in, and their tokens."""

    n_bytes: int
    n_partitions: int
    n_tokens: int


def corpus_input(job: CorpusJob, done: Mapping[str, StageManifest]) -> CorpusInput:
    """Return how much there is to read; what committed tokens know needs no file of the corpus."""
    if "tokens" in done:
        manifest = done["tokens"]
        n_partitions = len(manifest.outputs["tokens"].spec.row_blocks)
        return CorpusInput(recorded_bytes(manifest), n_partitions, int(manifest.facts["n_tokens"]))
    partitions = corpus_of(job.corpus).partitions
    sizes = file_sizes(partition.url for partition in partitions)
    n_tokens = sum(estimated_tokens(url, n_bytes, partitions[0].format) for url, n_bytes in sizes.items())
    return CorpusInput(sum(sizes.values()), len(partitions), n_tokens)


def word_counts(corpus: CorpusSizes, workspace: Workspace | None) -> np.ndarray:
    """Return the counts of the vocabulary's words, or those of a Zipfian text where it is not made yet."""
    if workspace is not None and "vocabulary" in corpus.counted:
        return workspace.table("vocabulary")["count"].to_numpy().astype(float)
    return zipf_counts(corpus.n_words, corpus.n_tokens)


def estimated_tokens(url: str, n_bytes: int, format_: str) -> int:
    """Return about how many tokens a file holds, from its size and its compression."""
    kind = "mediawiki" if format_ == "mediawiki" else "text"
    expansion = next((factor for suffix, factor in EXPANSION.items() if url.endswith(suffix)), 1.0)
    return int(n_bytes * expansion / BYTES_PER_TOKEN[kind])


def estimated_types(n_tokens: int) -> int:
    """Return how many distinct words a text of `n_tokens` holds at most, by Heaps' law."""
    return int(min(n_tokens, HEAPS_FACTOR * n_tokens**HEAPS_EXPONENT))


def estimated_words(job: CorpusJob, n_tokens: int, n_entries: int) -> int:
    """Return how many words a text of `n_tokens` holds at least `min_count` times.

    By Zipf's law the words of that count are 1 / min_count of all words, of which the dictionaries of the partitions
    together have `n_entries` at most.
    """
    # the word of rank r is seen about 0.1 n_tokens / r times in English
    least = job.vocabulary.min_count
    frequent = max(1, int(0.1 * n_tokens / least), n_entries // least)
    return min(frequent, job.vocabulary.max_size or frequent)
