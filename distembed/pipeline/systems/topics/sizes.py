"""The sizes of a collection, known or estimated, that the plans of the stages are made from."""

from __future__ import annotations

from typing import NamedTuple

from distembed.costs import PAIR_BYTES
from distembed.pipeline.context import Counted
from distembed.pipeline.corpus.run_sizes import RunSizes
from distembed.pipeline.corpus.sizes import CorpusSizes, PairSizes, about, pair_sizes, with_source
from distembed.pipeline.systems.topics.config import TopicsJob


class TopicSizes(NamedTuple):
    """Sizes of a collection: its pairs of words, the words of its documents, the pairs that are associated."""

    pairs: PairSizes
    n_terms: int
    n_associated: int

    @property
    def corpus(self) -> CorpusSizes:
        """The sizes of its corpus."""
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
        corpus = self.corpus
        terms = f"{self.n_terms:,}" if "document_terms" in corpus.counted else about(self.n_terms)
        pairs = f"{self.n_nonzero:,}" if self.pairs.exact else about(self.n_nonzero)
        return with_source(f"{corpus.sentence}, {pairs} pairs, {terms} document terms", corpus)


def topic_sizes(job: TopicsJob, counted: Counted | None) -> TopicSizes:
    """Return the sizes of a job; what committed stages have counted is not estimated."""
    pairs = pair_sizes(job, counted)
    done = {} if counted is None else counted.stages
    n_terms = pairs.corpus.n_terms
    n_associated = pairs.n_nonzero
    if "document_terms" in done:
        n_terms = int(done["document_terms"].facts["n_nonzero"])
    if "association" in done:
        n_associated = int(done["association"].facts["n_nonzero"])
    return TopicSizes(pairs, n_terms, n_associated)


def term_blocks(job: TopicsJob, sizes: TopicSizes) -> int:
    """Return how many row blocks the documents make."""
    return max(sizes.corpus.n_partitions, -(-32 * sizes.corpus.n_tokens // job.resources.block_memory))


def largest_block(job: TopicsJob, sizes: TopicSizes) -> int:
    """Return the bytes of the largest block of pairs."""
    return min(job.resources.block_memory // 4, PAIR_BYTES * sizes.n_nonzero)
