"""How large the counts of a psdvec job are: those that PSDVec factorizes, and those of its views."""

from __future__ import annotations

from typing import NamedTuple

from distembed.counting.costs import RunSizes
from distembed.job.stage import Counted
from distembed.stages.corpus_sizes import CorpusSizes, PairSizes, estimated_pairs, pair_sizes
from distembed.stages.given_counts import GivenPairs, given_pairs
from distembed.systems.psdvec.job import CountedView, PSDVecJob


class PSDVecSizes(NamedTuple):
    """The sizes of the counts that PSDVec factorizes, and of those of each view that counts the text."""

    pairs: PairSizes | GivenPairs
    views: dict[str, PairSizes]

    @property
    def corpus(self) -> CorpusSizes:
        """The sizes of the corpus."""
        return self.pairs.corpus

    @property
    def n_nonzero(self) -> int:
        """The pairs that PSDVec factorizes."""
        return self.pairs.n_nonzero

    @property
    def runs(self) -> RunSizes:
        """The sizes of the runs that are added up to these pairs."""
        return self.pairs.runs

    @property
    def sentence(self) -> str:
        """The sizes in words."""
        return self.pairs.sentence


def psdvec_sizes(job: PSDVecJob, counted: Counted | None) -> PSDVecSizes:
    """Return the sizes of a job; what the committed stages know is exact."""
    if job.counts is not None:
        return PSDVecSizes(given_pairs(job, counted), {})
    pairs = pair_sizes(job, counted)
    views = {
        name: _view_sizes(job, name, view, pairs.corpus, counted)
        for name, view in job.views.items()
        if isinstance(view, CountedView)
    }
    return PSDVecSizes(pairs, views)


def _view_sizes(
    job: PSDVecJob, name: str, view: CountedView, corpus: CorpusSizes, counted: Counted | None
) -> PairSizes:
    model, runs = estimated_pairs(job, view.counting_options(job.resources.block_memory), corpus, counted)
    done = {} if counted is None else counted.stages
    stage = counts_stage(name)
    n_nonzero = int(done[stage].facts["n_nonzero"]) if stage in done else model.n_pairs()
    return PairSizes(corpus, n_nonzero, runs, model)


def parts_stage(view: str) -> str:
    """Return the name of the stage that counts the parts of the corpus for a view."""
    return f"view_{view}_parts"


def counts_stage(view: str) -> str:
    """Return the name of the stage that adds up the counts of a view."""
    return f"view_{view}_counts"


def vectors_stage(view: str) -> str:
    """Return the name of the stage that makes the vectors of a view."""
    return f"view_{view}"
