"""How large a corpus is before it is read: tokens, words and pairs.

Sizes that a finished stage knows exactly (tokens, words, pairs) are read from its manifest; before that they are
estimated from a sample of the text, or of the token partitions once there are some.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from distembed.corpus.costs import TextSizes
from distembed.corpus.growth_blocks import (
    SpreadLaw,
    expected_counts,
    n_types,
    n_types_at_least,
    spread_law,
)
from distembed.corpus.partitions import Tokens
from distembed.corpus.sample import CorpusSample, sample_bundles, sample_parts
from distembed.corpus.stop_words import stop_words_of
from distembed.corpus.streams import Partition
from distembed.corpus.tokenizer import Tokenizer
from distembed.corpus.vocabulary import empty_vocabulary, most_documents
from distembed.counting.cooccurrence_options import CooccurrenceOptions, check_sums
from distembed.counting.costs import PairModel, RunSizes, pair_model, run_sizes
from distembed.display import format_bytes, plural
from distembed.job.inputs import recorded_bytes
from distembed.job.model import JobError
from distembed.job.stage import Counted
from distembed.stages.corpus_sections import (
    CorpusJob,
    CountingJob,
    PlanSection,
    VocabularySection,
    corpus_of,
    counting_options,
)
from distembed.storage.workspace import Workspace


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
    found : Sampled
        The sample that the estimates were made from.
    source : str
        The same in words.
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
    found: Sampled
    source: str = ""

    @property
    def text(self) -> TextSizes:
        """The sizes of its text, which costs are made from."""
        return TextSizes(self.input_bytes, self.n_partitions, self.n_tokens, self.n_entries, self.n_documents)

    @property
    def sentence(self) -> str:
        """The sizes in words."""
        tokens = _number(self.n_tokens, exact="tokens" in self.counted)
        words = _number(self.n_words, exact="vocabulary" in self.counted)
        documents = _number(self.n_documents, exact="tokens" in self.counted)
        return (
            f"{format_bytes(self.input_bytes)} of input in {plural(self.n_partitions, 'partition')}; "
            f"{documents} documents, {tokens} tokens, {words} words"
        )


class PairSizes(NamedTuple):
    """The sizes of a corpus whose pairs of words are counted once.

    `n_nonzero` pairs are counted, in `runs` that are added up. The `model` knows how the pairs lie.
    """

    corpus: CorpusSizes
    n_nonzero: int
    runs: RunSizes
    model: PairModel

    def n_among(self, n_words: int) -> int:
        """Return about how many of the pairs are of two of the most frequent words."""
        return self._scaled(self.model.most_frequent(n_words))

    def n_in_either_order(self, n_words: int) -> int:
        """Return about how many pairs of the most frequent words occur in one order or the other, counted in both."""
        return self._scaled(self.model.most_frequent(n_words).mirrored())

    def _scaled(self, model: PairModel) -> int:
        """Return the pairs of a model of a part, in proportion to the pairs that are counted."""
        return round(self.n_nonzero * model.n_pairs() / max(1, self.model.n_pairs()))

    @property
    def exact(self) -> bool:
        """Whether all of them are counted."""
        return "cooccurrence" in self.corpus.counted

    @property
    def sentence(self) -> str:
        """The sizes in words."""
        pairs = _number(self.n_nonzero, exact=self.exact)
        return with_source(f"{self.corpus.sentence}, {pairs} pairs", self.corpus)


@dataclass(frozen=True)
class SizesWithPairs:
    """The sizes of a job whose pairs of words are counted, to which a job adds those that it alone has."""

    pairs: PairSizes

    @property
    def corpus(self) -> CorpusSizes:
        """The sizes of the corpus."""
        return self.pairs.corpus

    @property
    def n_nonzero(self) -> int:
        """The pairs that are counted."""
        return self.pairs.n_nonzero

    @property
    def runs(self) -> RunSizes:
        """The sizes of the runs that are added up to these pairs."""
        return self.pairs.runs

    @property
    def sentence(self) -> str:
        """The sizes in words."""
        return self.pairs.sentence


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

    @property
    def law(self) -> SpreadLaw:
        """The law by which rare words spread."""
        return spread_law(self.sample.counts, self.sample.document_counts, self.sample.n_documents)

    def wanted(self, vocabulary: VocabularySection) -> NDArray[np.bool_]:
        """Return which words of the sample a job takes if they occur often enough."""
        options, sample = vocabulary.model_dump(), self.sample
        most = most_documents(options.get("max_share", 1.0), sample.n_documents)
        wanted: NDArray[np.bool_] = sample.document_counts <= most
        unwanted = stop_words_of(options.get("stop_words", "none"), file=options.get("stop_words_file"))
        if unwanted:
            wanted &= ~pc.is_in(pc.utf8_lower(sample.words), pa.array(sorted(unwanted))).to_numpy(False)
        return wanted

    def n_words(self, vocabulary: VocabularySection) -> int:
        """Return about how many words the vocabulary of a job holds."""
        options, wanted, law = vocabulary.model_dump(), self.wanted(vocabulary), self.law
        frequent = n_types_at_least(self.sample.counts[wanted], vocabulary.min_count, self.growth, law)
        document_counts, least = self.sample.document_counts[wanted], options.get("min_documents", 1)
        spread = n_types_at_least(document_counts, least, self.growth, law._replace(burst=1.0))
        return max(1, min(frequent, spread, vocabulary.max_size or frequent))

    def check_counts(self, vocabulary: VocabularySection) -> None:
        """Refuse a `min_count` that no word reaches, as the stage that makes the vocabulary would.

        A section that keeps some words whatever their counts is not judged.

        Raises
        ------
        CorpusError
            If so.
        """
        sample, growth = self
        if (
            not vocabulary.keep
            and n_types_at_least(sample.counts, vocabulary.min_count, growth, self.law) == 0
        ):
            estimated = not (sample.is_whole and growth == 1)
            largest = float(sample.counts.max(initial=0)) * growth
            raise empty_vocabulary(
                vocabulary.min_count, _rounded(largest) if estimated else int(largest), estimated=estimated
            )


def corpus_sizes(job: CorpusJob, counted: Counted | None) -> CorpusSizes:
    """Return the sizes of a corpus; what the committed stages know is exact."""
    done = {} if counted is None else counted.stages
    if counted is None or "tokens" not in counted.stages:
        read, found = _look_at_text(job)
    else:
        read, found = _look_at_tokens(counted)
    sample, growth = found
    facts = done["tokens"].facts if "tokens" in done else {}
    n_words = found.n_words(job.vocabulary)
    candidates = n_types_at_least(sample.counts, job.vocabulary.min_count, growth, found.law)
    if "vocabulary" not in done:
        found.check_counts(job.vocabulary)
    else:
        n_words = int(done["vocabulary"].facts["n_words"])
        candidates = int(done["vocabulary"].facts.get("n_words_before", n_words))
    most_spread = np.sort(sample.document_counts[found.wanted(job.vocabulary)])[::-1][:n_words]
    n_types_each = n_types(sample.counts, growth / read.n_partitions, found.law)
    return CorpusSizes(
        input_bytes=read.n_bytes,
        n_partitions=read.n_partitions,
        n_tokens=read.n_tokens,
        n_entries=int(facts.get("n_words", read.n_partitions * n_types_each)),
        n_documents=int(facts.get("n_documents", round(sample.n_documents * growth))),
        n_candidates=max(n_words, candidates),
        n_words=n_words,
        n_terms=round(float(most_spread.sum()) * growth),
        counted=frozenset(done),
        found=found,
        source=_source(sample, growth),
    )


def _source(sample: CorpusSample, growth: float) -> str:
    if sample.is_whole and growth == 1:
        return "estimated from the whole text"
    if sample.n_bytes:
        return f"estimated from a sample of {format_bytes(sample.n_bytes)}"
    return f"estimated from the first {sample.n_tokens:,} tokens"


class CorpusInput(NamedTuple):
    """Bytes of the files of a corpus, the partitions they are read in, and their tokens."""

    n_bytes: int
    n_partitions: int
    n_tokens: int


def _look_at_tokens(counted: Counted) -> tuple[CorpusInput, Sampled]:
    """Return how much there was to read, and a sample of the tokens; no file of the corpus is opened."""
    manifest, items = counted.stages["tokens"], counted.workspace.files("tokens")
    prefixes = tuple(item.paths[0].removesuffix(".documents.parquet") for item in items)
    sample, n_tokens = _sample_of_parts(prefixes, manifest.digest), int(manifest.facts["n_tokens"])
    found = Sampled(sample, max(1.0, n_tokens / max(sample.n_tokens, 1)))
    return CorpusInput(recorded_bytes(manifest.parameters), len(items), n_tokens), found


def _look_at_text(job: CorpusJob) -> tuple[CorpusInput, Sampled]:
    """Return how much there is to read, and a sample of the text."""
    corpus, plan = corpus_of(job.corpus), job.plan
    sample = sample_of_text(corpus.bundles, corpus.tokenizer)
    there, n_partitions = sum(partition.n_bytes for partition in corpus.partitions), len(corpus.bundles)
    if plan.tokens is not None:
        growth = plan.tokens / max(sample.n_tokens, 1)
    elif sample.is_whole and plan.bytes is None:
        growth = 1.0
    else:
        growth = (plan.bytes or there) / max(sample.n_bytes, 1)
    growth = max(1.0, growth)
    n_bytes = there
    if plan != PlanSection():
        n_bytes = plan.bytes or round(there * growth)
        n_partitions = max(n_partitions, -(-n_bytes // job.corpus.partition_bytes))
    return CorpusInput(n_bytes, n_partitions, round(sample.n_tokens * growth)), Sampled(sample, growth)


@lru_cache(maxsize=4)
def sample_of_text(bundles: tuple[tuple[Partition, ...], ...], tokenizer: Tokenizer) -> CorpusSample:
    """Return a sample of a corpus; other settings of a job are planned with the same."""
    return sample_bundles(bundles, tokenizer)


@lru_cache(maxsize=4)
def _sample_of_parts(prefixes: tuple[str, ...], digest: str) -> CorpusSample:  # noqa: ARG001 - tells versions apart

    return sample_parts(Tokens(prefixes))


# --- pairs -----------------------------------------------------------------------------------------------------


def pair_sizes(job: CountingJob, counted: Counted | None) -> PairSizes:
    """Return the sizes of a corpus and of the pairs counted of it; what the committed stages know is exact."""
    corpus = corpus_sizes(job, counted)
    model, runs = estimated_pairs(job, counting_options(job), corpus, counted)
    if counted is not None and "cooccurrence" in counted.stages:
        return PairSizes(corpus, int(counted.stages["cooccurrence"].facts["n_nonzero"]), runs, model)
    return PairSizes(corpus, model.n_pairs(), runs, model)


def estimated_pairs(
    job: CorpusJob, options: CooccurrenceOptions, corpus: CorpusSizes, counted: Counted | None
) -> tuple[PairModel, RunSizes]:
    """Return what the pairs that the options count are estimated from, and the sizes of their runs."""
    counts = word_counts(job, corpus, counted)
    _check_sums(options, float(counts.max(initial=0)), corpus.n_tokens)
    model = pair_model(
        options, counts, corpus.n_tokens, corpus.found.sample, corpus.found.wanted(job.vocabulary)
    )
    return model, run_sizes(model, counts, partition_tokens(corpus, counted), options)


def partition_tokens(corpus: CorpusSizes, counted: Counted | None) -> list[int]:
    """Return the tokens of each partition; equal shares of all where they are not counted.

    Of a bz2 file that is one stream, only the first partition holds tokens.
    """
    if counted is None or "tokens" not in counted.stages:
        return [-(-corpus.n_tokens // max(corpus.n_partitions, 1))] * corpus.n_partitions
    return [block.summary.get("n_tokens", 0) for block in counted.stages["tokens"].outputs["tokens"].blocks]


def word_counts(job: CorpusJob, corpus: CorpusSizes, counted: Counted | None) -> NDArray[Any]:
    """Return about how often each word of the vocabulary occurs; where that is counted it is exact."""
    if counted is not None and "vocabulary" in counted.stages:
        return _counts_of_words(counted.workspace, counted.stages["vocabulary"].digest)
    found = corpus.found
    known = found.sample.counts[found.wanted(job.vocabulary)]
    return expected_counts(known, corpus.n_words, found.growth, found.law)


@lru_cache(maxsize=4)
def _counts_of_words(
    workspace: Workspace,
    digest: str,  # noqa: ARG001 - tells versions apart
) -> NDArray[Any]:
    """Return how often each word occurs; a run asks for each of its stages, and for each table of pairs."""
    return workspace.table("vocabulary")["count"].to_numpy().astype(float)


def _check_sums(options: CooccurrenceOptions, largest_count: float, n_tokens: int) -> None:
    """Refuse weights whose exact sums over a text of so many tokens could be too large, before anything is counted."""
    try:
        check_sums(options, round(largest_count), f"counting: in {about(n_tokens)} tokens a count")
    except OverflowError as error:
        raise JobError(str(error)) from None
