"""How large a corpus is before it is read: tokens, words and pairs.

Sizes that a finished stage knows exactly (tokens, words, pairs) are read from its manifest; before that they are
estimated from a sample of the text, or of the token partitions once there are some.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from distembed.display import plural
from distembed.libraries import pa, pc
from distembed.pipeline.context import Counted
from distembed.pipeline.corpus.config import (
    CorpusJob,
    CountingJob,
    CountingSection,
    PlanSection,
    VocabularySection,
    corpus_of,
)
from distembed.pipeline.inputs import file_sizes, recorded_bytes
from distembed.pipeline.quantities import format_bytes
from distembed.pipeline.sections import JobError
from distembed.storage.schema import StageManifest

if TYPE_CHECKING:
    from distembed.corpus import Partition, Tokenizer
    from distembed.corpus.sample import CorpusSample

RUN_PAIR_BYTES = 8
"""Bytes of a pair in a sorted run in memory."""

REPETITION = 0.8
"""Distinct pairs of English text over those of independent words.

Measured 0.71 to 0.87, for windows of 3 to 10 on 0.06 to 20 M tokens.
"""


class CorpusSizes(NamedTuple):
    """What is known of a corpus; `counted` names the stages whose facts stand for estimates.

    Attributes
    ----------
    n_entries : int
        Words of the dictionaries of all token partitions together.
    n_candidates : int
        Words that occur `min_count` times, from which the `n_words` of the vocabulary are chosen.
    n_terms : int
        Different words of the vocabulary in each document, over all documents.
    source : str
        What the estimates were made from, in words.
    """

    input_bytes: int
    n_partitions: int
    n_tokens: int
    n_entries: int
    n_documents: int
    n_candidates: int
    n_words: int
    n_terms: int
    counted: frozenset[str]
    source: str = ""

    @property
    def sentence(self) -> str:
        """The sizes in words."""
        tokens = _number(self.n_tokens, exact="tokens" in self.counted)
        words = _number(self.n_words, exact="vocabulary" in self.counted)
        return (
            f"{format_bytes(self.input_bytes)} of input in {plural(self.n_partitions, 'partition')}; "
            f"{tokens} tokens, {words} words"
        )


class PairSizes(NamedTuple):
    """The sizes of a corpus whose pairs of words are counted once.

    `n_nonzero` pairs are counted, and the runs of all partitions hold `n_in_runs` before they are added up.
    """

    corpus: CorpusSizes
    n_nonzero: int
    n_in_runs: int

    @property
    def exact(self) -> bool:
        """Whether all of them are counted."""
        return "cooccurrence" in self.corpus.counted

    @property
    def sentence(self) -> str:
        """The sizes in words."""
        pairs = _number(self.n_nonzero, exact=self.exact)
        return with_source(f"{self.corpus.sentence}, {pairs} pairs", self.corpus)


def with_source(sentence: str, corpus: CorpusSizes) -> str:
    """Return a sentence about sizes with what the estimates among them were made from."""
    return f"{sentence} ({corpus.source})" if "about" in sentence and corpus.source else sentence


def _number(n: int, *, exact: bool) -> str:
    """Return a number in words: counted as it is, estimated to two digits."""
    return f"{n:,}" if exact else about(n)


def about(n: int) -> str:
    """Return an estimated number to two digits."""
    return f"about {_rounded(n):,}"


def _rounded(n: float) -> int:
    """Return a number rounded to two digits."""
    return int(float(f"{n:.1e}"))


# --- what a corpus holds ---------------------------------------------------------------------------------------


class Sampled(NamedTuple):
    """A sample of a corpus, and how many times as long as it the corpus is."""

    sample: CorpusSample
    growth: float

    def wanted(self, vocabulary: VocabularySection) -> CorpusSample:
        """Return the sample without words that a job leaves out however often they occur."""
        from distembed.corpus.stop_words import stop_words_of

        options, sample = vocabulary.model_dump(), self.sample
        wanted = sample.document_counts <= options.get("max_share", 1.0) * sample.n_documents
        unwanted = stop_words_of(options.get("stop_words", "none"), file=options.get("stop_words_file"))
        if unwanted:
            wanted &= ~pc.is_in(pc.utf8_lower(sample.words), pa.array(sorted(unwanted))).to_numpy(False)
        return sample._replace(counts=sample.counts[wanted], document_counts=sample.document_counts[wanted])

    def n_words(self, vocabulary: VocabularySection) -> int:
        """Return about how many words the vocabulary of a job holds."""
        from distembed.corpus.growth_blocks import n_types_at_least

        options, sample = vocabulary.model_dump(), self.wanted(vocabulary)
        frequent = n_types_at_least(sample.counts, vocabulary.min_count, self.growth)
        spread = n_types_at_least(sample.document_counts, options.get("min_documents", 1), self.growth)
        return max(1, min(frequent, spread, vocabulary.max_size or frequent))

    def check_counts(self, vocabulary: VocabularySection) -> None:
        """Refuse a `min_count` that no word reaches, as the stage that makes the vocabulary would.

        A section that keeps some words whatever their counts is not judged.

        Raises
        ------
        CorpusError
            If so.
        """
        from distembed.corpus.growth_blocks import n_types_at_least
        from distembed.corpus.vocabulary import empty_vocabulary

        sample, growth = self
        if not vocabulary.keep and n_types_at_least(sample.counts, vocabulary.min_count, growth) == 0:
            estimated = not (sample.is_whole and growth == 1)
            largest = float(sample.counts.max(initial=0)) * growth
            raise empty_vocabulary(
                vocabulary.min_count, _rounded(largest) if estimated else int(largest), estimated=estimated
            )


def corpus_sizes(job: CorpusJob, counted: Counted | None) -> CorpusSizes:
    """Return the sizes of a corpus; what the committed stages know is exact."""
    from distembed.corpus.growth_blocks import n_types, n_types_at_least

    done = {} if counted is None else counted.stages
    n_bytes, n_partitions, n_tokens = corpus_input(job, done)
    sample, growth = found = sampled(job, counted)
    if "tokens" not in done:
        n_tokens = round(sample.n_tokens * growth)
    facts = done["tokens"].facts if "tokens" in done else {}
    n_words = found.n_words(job.vocabulary)
    candidates = n_types_at_least(sample.counts, job.vocabulary.min_count, growth)
    if "vocabulary" not in done:
        found.check_counts(job.vocabulary)
    else:
        n_words = int(done["vocabulary"].facts["n_words"])
        candidates = int(done["vocabulary"].facts.get("n_words_before", n_words))
    most_spread = np.sort(found.wanted(job.vocabulary).document_counts)[::-1][:n_words]
    return CorpusSizes(
        input_bytes=n_bytes,
        n_partitions=n_partitions,
        n_tokens=n_tokens,
        n_entries=int(facts.get("n_words", n_partitions * n_types(sample.counts, growth / n_partitions))),
        n_documents=int(facts.get("n_documents", round(sample.n_documents * growth))),
        n_candidates=max(n_words, candidates),
        n_words=n_words,
        n_terms=round(float(most_spread.sum()) * growth),
        counted=frozenset(done),
        source=_source(sample, growth),
    )


def _source(sample: CorpusSample, growth: float) -> str:
    if sample.is_whole and growth == 1:
        return "estimated from the whole text"
    if sample.n_bytes:
        return f"estimated from a sample of {format_bytes(sample.n_bytes)}"
    return f"estimated from the first {sample.n_tokens:,} tokens"


class CorpusInput(NamedTuple):
    """Bytes of the files of a corpus, the partitions they are read in, and their tokens where they are counted."""

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
    there = sum(file_sizes(partition.url for partition in partitions).values())
    if job.plan == PlanSection():
        return CorpusInput(there, len(partitions), 0)
    n_bytes = job.plan.bytes or round(there * sampled(job, None).growth)
    return CorpusInput(n_bytes, max(len(partitions), -(-n_bytes // job.corpus.partition_bytes)), 0)


def sampled(job: CorpusJob, counted: Counted | None) -> Sampled:
    """Return a sample of a corpus: of its token partitions where they are committed, else of its text."""
    if counted is not None and "tokens" in counted.stages:
        manifest, items = counted.stages["tokens"], counted.workspace.files("tokens")
        prefixes = tuple(item.paths[0].removesuffix(".documents.parquet") for item in items)
        sample = _sample_of_parts(prefixes, manifest.digest)
        return Sampled(sample, int(manifest.facts["n_tokens"]) / max(sample.n_tokens, 1))
    corpus = corpus_of(job.corpus)
    sizes = file_sizes(partition.url for partition in corpus.partitions)
    sample = _sample_of_text(corpus.partitions, corpus.tokenizer, tuple(sizes.values()))
    if job.plan.tokens is not None:
        growth = job.plan.tokens / max(sample.n_tokens, 1)
    elif sample.is_whole and job.plan.bytes is None:
        growth = 1.0
    else:
        growth = (job.plan.bytes or sum(sizes.values())) / max(sample.n_bytes, 1)
    return Sampled(sample, max(1.0, growth))


@lru_cache(maxsize=4)
def _sample_of_text(
    partitions: tuple[Partition, ...],
    tokenizer: Tokenizer,
    sizes: tuple[int, ...],  # noqa: ARG001 - tells versions apart
) -> CorpusSample:
    from distembed.corpus.sample import sample_splits

    return sample_splits(partitions, tokenizer)


@lru_cache(maxsize=4)
def _sample_of_parts(prefixes: tuple[str, ...], digest: str) -> CorpusSample:  # noqa: ARG001 - tells versions apart
    from distembed.corpus import Tokens
    from distembed.corpus.sample import sample_parts

    return sample_parts(Tokens(prefixes))


# --- pairs -----------------------------------------------------------------------------------------------------


class PairModel(NamedTuple):
    """What the distinct pairs of a text are estimated from: the counts of its words and the partners of each token."""

    counts: NDArray[np.float64]
    window: float
    n_tokens: int

    def n_pairs(self, share: float = 1.0) -> int:
        """Return about how many distinct pairs a share of the text holds."""
        found = expected_pairs(self.counts * share, self.window, n_tokens=self.n_tokens * share)
        return int(REPETITION * found)

    def n_in_runs(self, n_partitions: int, run_pairs: int) -> int:
        """Return about how many pairs the runs of all partitions hold together, each written at so many pairs.

        A pair that is found in several partitions, or several times in a large one, stands in as many runs.
        """
        share = 1 / n_partitions
        while self.n_pairs(share) > run_pairs:
            share /= 2
        return int(self.n_pairs(share) / share)


def pair_sizes(job: CountingJob, counted: Counted | None) -> PairSizes:
    """Return the sizes of a corpus and of the pairs counted of it; what the committed stages know is exact."""
    corpus = corpus_sizes(job, counted)
    model = pair_model(job, job.counting, corpus, counted)
    n_in_runs = model.n_in_runs(corpus.n_partitions, run_pairs(job.resources.block_memory))
    if counted is not None and "cooccurrence" in counted.stages:
        return PairSizes(corpus, int(counted.stages["cooccurrence"].facts["n_nonzero"]), n_in_runs)
    return PairSizes(corpus, model.n_pairs(), n_in_runs)


def run_pairs(block_memory: int) -> int:
    """Return about how many pairs a run of a partition holds when it is written: a quarter of the memory of a block."""
    return block_memory // 4 // RUN_PAIR_BYTES


def pair_model(
    job: CorpusJob, counting: CountingSection, corpus: CorpusSizes, counted: Counted | None
) -> PairModel:
    """Return what the pairs of words that a section counts are estimated from."""
    from distembed.corpus.growth_blocks import expected_counts, mean_window
    from distembed.counting.blocks import keep_probability

    sample, growth = found = sampled(job, counted)
    if counted is not None and "vocabulary" in counted.stages:
        counts = counted.workspace.table("vocabulary")["count"].to_numpy().astype(float)
    else:
        counts = expected_counts(found.wanted(job.vocabulary).counts, corpus.n_words, growth)
    _check_sums(counting, float(counts.max(initial=0)), corpus.n_tokens)
    sides = 2 if counting.direction == "symmetric" else 1
    if counting.subsample is not None:
        counts = counts * keep_probability(counts, counting.subsample)
    return PairModel(counts, sides * mean_window(sample.lengths, counting.window), corpus.n_tokens)


def _check_sums(counting: CountingSection, largest_count: float, n_tokens: int) -> None:
    """Refuse weights whose exact sums over a text of so many tokens could be too large, before anything is counted."""
    from distembed.counting.cooccurrence_options import CooccurrenceOptions, check_sums

    options = CooccurrenceOptions(**counting.model_dump())
    try:
        check_sums(options, round(largest_count), f"counting: in {about(n_tokens)} tokens a count")
    except OverflowError as error:
        raise JobError(str(error)) from None


def expected_pairs(
    counts: Sequence[float] | NDArray[np.float64], window: float, *, n_tokens: float, n_bins: int = 400
) -> int:
    """Estimate the distinct ordered pairs within `window` places, as if words were drawn independently.

    P(pair i, j is seen) = 1 - exp(-window c_i c_j / N), N being all tokens, of the vocabulary or not. Real text repeats
    itself: see `REPETITION`.
    """
    counts = np.sort(np.asarray(counts, dtype=float))[::-1]
    if not counts.sum() > 0:
        return 0
    edges = np.unique(np.geomspace(1, len(counts) + 1, n_bins + 1).astype(int)) - 1
    widths = np.diff(edges)
    means = np.add.reduceat(counts, edges[:-1]) / widths
    seen = -np.expm1(-window / max(n_tokens, counts.sum()) * means[:, None] * means[None, :])
    return int(widths @ seen @ widths)
