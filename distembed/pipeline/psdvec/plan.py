"""What a PSDVec job will take, stage by stage."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

from distembed.pipeline.plan import (
    SCRATCH_FACTOR,
    WORKER_BYTES,
    Plan,
    Sizes,
    StagePlan,
    corpus_plans,
    counting_plan,
    pair_sizes,
    sizes_in_words,
)
from distembed.pipeline.psdvec.config import PSDVecJob
from distembed.storage.workspace import Workspace

CORE_FIRST_PASSES, CORE_PASSES = 16, 2
"""Products of the first and of each later round of the core (`PSDVec`'s defaults)."""


Kept = Literal["all", "bases", "none"]


class CoreMemory(NamedTuple):
    """Bytes of one task of the core, of a round's bases and products, and of all its states together.

    States stay in memory where there is room for them beside the tasks: on disk each block of a state costs some
    milliseconds, more than the work itself on twenty thousand words. The bases come first, since every pass reads all
    that are before it.
    """

    task_bytes: int
    basis_bytes: int
    state_bytes: int

    def kept_in_process(self, limit: int, n_threads: int) -> Kept:
        """Tell which states one process of so many threads has room for."""
        return self._kept(limit - WORKER_BYTES - n_threads * self.task_bytes)

    def kept_in_cluster(self, limits: Sequence[int]) -> Kept:
        """Tell the same of worker processes of one thread; above half of its limit Dask would soon spill."""
        return self._kept(sum(max(0, limit // 2 - self.task_bytes) for limit in limits))

    def kept_bytes(self, kept: Kept) -> int:
        """Return how many bytes the states that are kept take."""
        return {"all": self.state_bytes, "bases": self.basis_bytes, "none": 0}[kept]

    def _kept(self, room: int) -> Kept:
        if self.state_bytes <= room:
            return "all"
        return "bases" if self.basis_bytes <= room else "none"


def core_memory(job: PSDVecJob, n_core: int, n_pairs: int) -> CoreMemory:
    """Return what the core of a job needs in memory, from the pairs counted in all.

    The first round holds the counts, their transpose, one sparse matrix on the pairs of both orders, and its basis and
    products, the later ones the counts and three such matrices, with the transpose while those are made, and smaller
    bases.
    """
    options = job.psdvec
    rank = options.n_components + options.n_iter - 1
    largest_block = min(job.resources.block_memory // 8 * 2, 8 * n_pairs)
    task_bytes = int(SCRATCH_FACTOR * largest_block) + 3 * 4 * n_core * rank
    counts, both_orders, vectors = 8 * n_pairs, 2 * 8 * n_pairs, 4 * n_core * rank
    first_bases, later_bases = vectors * CORE_FIRST_PASSES, 2 * vectors * (1 + CORE_PASSES)
    states = max(2 * counts + both_orders + first_bases, 2 * counts + 3 * both_orders + later_bases)
    return CoreMemory(task_bytes, first_bases, states)


def psdvec_plan(job: PSDVecJob, workspace: Workspace | None = None) -> Plan:
    """Return the plan of a job; what committed stages of `workspace` have counted is not estimated."""
    sizes = pair_sizes(job, workspace)
    return Plan(job, sizes_in_words(sizes), _psdvec_stages(job, sizes))


def _psdvec_stages(job: PSDVecJob, sizes: Sizes) -> tuple[StagePlan, ...]:
    block = job.resources.block_memory
    options = job.psdvec
    n_words = sizes.corpus.n_words
    n_core = min(options.n_core or n_words, n_words)
    pair_bytes = 8 * sizes.n_nonzero
    n_blocks = max(1, -(-12 * sizes.n_nonzero // (block // 8)))
    rank = options.n_components + options.n_iter - 1
    dense = 4 * n_core * rank
    core_pairs = int(pair_bytes * min(1.0, (n_core / n_words) ** 0.35))
    passes = CORE_FIRST_PASSES + CORE_PASSES * (options.n_iter - 1)
    largest_block = min(block // 8 * 2, pair_bytes)
    core = core_memory(job, n_core, sizes.n_nonzero)
    kept = core.kept_in_process(job.resources.memory_limit, job.resources.n_workers)
    on_disk = {"all": 0, "bases": 2 * core_pairs, "none": 2 * core_pairs + 2 * passes * dense}[kept]
    return (
        *corpus_plans(job, sizes.corpus).values(),
        counting_plan(
            "partial_counts",
            sizes.corpus,
            sizes.corpus.n_splits,
            written_bytes=int(1.5 * pair_bytes),
            block_memory=block,
        ),
        StagePlan("cooccurrence", n_blocks, int(1.5 * pair_bytes), pair_bytes, block),
        StagePlan(
            "core",
            n_blocks * (2 * passes + 6 * options.n_iter),
            (passes + 3 * options.n_iter) * 2 * core_pairs,
            on_disk + options.n_iter * dense,
            core.task_bytes,
            core.kept_bytes(kept),
            exact=sizes.exact,
        ),
        StagePlan(
            "vectors",
            n_blocks,
            2 * pair_bytes,
            4 * n_words * options.n_components,
            int(SCRATCH_FACTOR * largest_block) + 2 * 4 * n_core * options.n_components,
            exact=sizes.exact,
        ),
        StagePlan("evaluation", 1, 4 * n_words * options.n_components, 2**14, 2**26),
    )
