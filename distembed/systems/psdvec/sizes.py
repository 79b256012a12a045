"""How large the counts of a psdvec job are: those that PSDVec factorizes, and those of its views."""

from __future__ import annotations

from dataclasses import dataclass

from distembed.job.stage import Counted
from distembed.stages.corpus_sizes import CorpusSizes, PairSizes, SizesWithPairs, estimated_pairs, pair_sizes
from distembed.systems.psdvec.job import CountedView, PSDVecJob


@dataclass(frozen=True)
class PSDVecSizes(SizesWithPairs):
    """The sizes of the counts that PSDVec factorizes, and of those of each view that counts the text."""

    views: dict[str, PairSizes]


def psdvec_sizes(job: PSDVecJob, counted: Counted | None) -> PSDVecSizes:
    """Return the sizes of a job; what the committed stages know is exact."""
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
