"""How large a comparison is: the counts of all text, and those of its groups of documents."""

from __future__ import annotations

from typing import NamedTuple

from distembed.counting.cooccurrence_options import CooccurrenceOptions
from distembed.counting.costs import RunSizes
from distembed.factorization.psdvec_inputs import check_core_size
from distembed.factorization.replicate_costs import SampleSizes
from distembed.job.stage import Counted
from distembed.stages.corpus_sizes import CorpusSizes, PairSizes, about, corpus_sizes, estimated_pairs
from distembed.systems.comparison.job import ComparisonJob

FEWEST_PARTS = 2


class ComparisonSizes(NamedTuple):
    """The sizes of a comparison."""

    pairs: PairSizes
    """Of all text."""
    n_parts: int
    n_groups: int
    """Of all parts, and one more for the documents of no part."""
    group_pairs: int
    """The pairs of all groups together."""
    group_runs: RunSizes

    @property
    def n_row_blocks(self) -> int:
        """The row blocks of each group."""
        return max(1, self.group_runs.n_row_blocks // self.n_groups)

    @property
    def corpus(self) -> CorpusSizes:
        """The sizes of the corpus."""
        return self.pairs.corpus

    @property
    def sentence(self) -> str:
        """The sizes in words."""
        known = "parts" in self.corpus.counted
        parts = f"{self.n_parts:,} parts" if known else "parts not read yet"
        return f"{self.pairs.sentence}, {parts}, {about(self.group_pairs)} pairs of groups of documents"


def counting_options(job: ComparisonJob) -> CooccurrenceOptions:
    """Return what counts as a co-occurrence in a job."""
    return job.counting.counting_options(job.resources.block_memory)


def comparison_sizes(job: ComparisonJob, counted: Counted | None) -> ComparisonSizes:
    """Return the sizes of a job; what the committed stages know is exact."""
    corpus = corpus_sizes(job, counted)
    model, runs = estimated_pairs(job, counting_options(job), corpus, counted)
    done = {} if counted is None else counted.stages
    n_nonzero = int(done["cooccurrence"].facts["n_nonzero"]) if "cooccurrence" in done else model.n_pairs()
    facts = done["parts"].facts if "parts" in done else {}
    n_parts = int(facts.get("n_parts", max(FEWEST_PARTS, len(job.parts.names) or len(job.parts.bins) - 1)))
    n_groups = int(facts.get("n_groups", n_parts * job.comparison.groups + 1))
    if "group_counts" in done:
        group_pairs = int(done["group_counts"].facts["n_nonzero"])
    else:
        group_pairs = n_groups * model.n_pairs(1 / n_groups)
    n_blocks = runs.n_row_blocks * n_groups
    runs = RunSizes(runs.n_bytes + 4 * corpus.n_words * n_groups * corpus.n_partitions, n_blocks)
    return ComparisonSizes(PairSizes(corpus, n_nonzero, runs, model), n_parts, n_groups, group_pairs, runs)


def sample_sizes(job: ComparisonJob, sizes: ComparisonSizes) -> SampleSizes:
    """Return what solving the words of the parts depends on."""
    n_groups = sizes.n_groups - 1
    return SampleSizes(
        sizes.corpus.n_words,
        core_size(job, sizes),
        sizes.n_parts,
        n_groups,
        sizes.group_pairs,
        sizes.n_row_blocks,
    )


def core_size(job: ComparisonJob, sizes: ComparisonSizes) -> int:
    """Return the words of the core; refuse more than there are as soon as the vocabulary is counted.

    Raises
    ------
    ValueError
        If `n_core` or `n_components` is more than the words of a vocabulary that is done.
    """
    n_words, options = sizes.corpus.n_words, job.psdvec
    if "vocabulary" in sizes.corpus.counted:
        return check_core_size(options.n_core, options.n_components, n_words)
    return min(options.n_core or n_words, n_words)
