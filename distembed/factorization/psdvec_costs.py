"""What PSDVec takes in memory and on disk: core mode, and the noncore words."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from itertools import pairwise
from typing import Any, NamedTuple

from distembed.costs import PAIR_BYTES, SCRATCH_FACTOR, STORED_VALUE_BYTES, WORKER_BYTES, Cost
from distembed.linalg.chunks import VALUES_PER_BLOCK
from distembed.linalg.costs import KrylovBasis, krylov_basis


class CoreOptions(NamedTuple):
    """The options of `PSDVec` that the sizes of core mode depend on."""

    n_components: int
    n_iter: int
    n_passes: int
    first_passes: int

    @classmethod
    def of(cls, options: Any) -> CoreOptions:
        """Return those of an estimator, or of whatever has its options."""
        return cls(*(getattr(options, name) for name in cls._fields))


class Round(NamedTuple):
    """A round of core mode: its rank, the vectors that it starts from, and what is asked of its Krylov basis."""

    rank: int
    n_start: int
    block_size: int | None
    n_passes: int

    def basis(self, n_core: int) -> KrylovBasis:
        """Return the Krylov basis of the round."""
        return krylov_basis(
            n_core, self.rank, block_size=self.block_size, n_start=self.n_start, n_passes=self.n_passes
        )


def rounds_of(options: CoreOptions, n_core: int) -> list[Round]:
    """Return the rounds: the first starts from the constant vector, each later one from the vectors before it, too."""
    ranks = [min(n_core, options.n_components + options.n_iter - t) for t in range(1, options.n_iter + 1)]
    first = Round(ranks[0], 1, -(-ranks[0] // 2), options.first_passes)
    return [first, *(Round(rank, before + 1, None, options.n_passes) for before, rank in pairwise(ranks))]


class CoreSizes(NamedTuple):
    """The words of the core, and pairs: all that are counted, those among core words, and those in either order."""

    n_core: int
    n_pairs: int
    n_among: int
    n_either_order: int


# --- memory ----------------------------------------------------------------------------------------------------


class Kept(StrEnum):
    """Which states of the core stay in memory: all but the vectors of a round, the bases and products, or none."""

    ALL = "all"
    BASES = "bases"
    NONE = "none"


class CoreMemory(NamedTuple):
    """Bytes of one task of the core, of the bases and products of the first and of the later rounds, and of all states.

    States stay in memory where there is room for them beside the tasks: on disk each block of a state costs some
    milliseconds, more than the work itself on twenty thousand words. The bases come first, since every pass reads all
    that are before it.
    """

    task_bytes: int
    basis_bytes: int
    later_basis_bytes: int
    state_bytes: int

    def kept_in_process(self, limit: int, n_threads: int) -> Kept:
        """Return which intermediate arrays fit the memory of one process of so many threads."""
        return self._kept(limit - WORKER_BYTES - n_threads * self.task_bytes)

    def kept_in_cluster(self, limits: Sequence[int]) -> Kept:
        """Return the same for worker processes of one thread; above half of its limit Dask would soon spill."""
        return self._kept(sum(max(0, limit // 2 - self.task_bytes) for limit in limits))

    def kept_bytes(self, kept: Kept) -> int:
        """Return the bytes of the intermediate arrays that are kept."""
        return {Kept.ALL: self.state_bytes, Kept.BASES: self.basis_bytes, Kept.NONE: 0}[kept]

    def _kept(self, room: int) -> Kept:
        if self.state_bytes <= room:
            return Kept.ALL
        return Kept.BASES if self.basis_bytes <= room else Kept.NONE


def core_memory(options: CoreOptions, n_core: int, n_pairs: int, block_memory: int) -> CoreMemory:
    """Return the memory that core mode needs, from the number of counted pairs.

    The first round holds the counts, their transpose, one sparse matrix on the pairs of both orders, and its basis and
    products, the later ones the counts and three such matrices, with the transpose while those are made, and smaller
    bases.
    """
    first, *_ = rounds_of(options, n_core)
    vectors, basis = 4 * n_core * first.rank, first.basis(n_core)
    widest = max(vectors, 4 * n_core * basis.columns)
    task_bytes = int(SCRATCH_FACTOR * min(block_memory // 8 * 2, PAIR_BYTES * n_pairs)) + 3 * widest
    later_bases = 2 * vectors * (1 + options.n_passes)
    counts, both_orders = PAIR_BYTES * n_pairs, 2 * PAIR_BYTES * n_pairs
    states = max(2 * counts + both_orders + basis.kept_bytes(), 2 * counts + 3 * both_orders + later_bases)
    return CoreMemory(task_bytes, basis.kept_bytes(), later_bases, states)


def core_block_values(block_memory: int) -> int:
    """Return the values of a row block of the core's counts.

    The blocks of all counts are made for all rows and columns: in the core they would be many and small. Its own, like
    those, take at most an eighth of the block memory.
    """
    return min(VALUES_PER_BLOCK, block_memory // 8 // PAIR_BYTES)


# --- core mode -------------------------------------------------------------------------------------------------


def core_cost(
    options: CoreOptions, sizes: CoreSizes, kept: Kept, *, block_memory: int, stored_pair_bytes: float
) -> Cost:
    """Return what core mode takes where some states are kept in memory, and a stored pair takes so many bytes."""
    bases = [one.basis(sizes.n_core) for one in rounds_of(options, sizes.n_core)]
    passes = sum(basis.most_passes for basis in bases)
    memory = core_memory(options, sizes.n_core, sizes.n_pairs, block_memory)
    counts, one_matrix = (
        int(stored_pair_bytes * sizes.n_among),
        int(STORED_VALUE_BYTES * sizes.n_either_order),
    )
    n_blocks = max(1, round(sizes.n_among / core_block_values(block_memory)))
    return Cost(
        n_blocks * (2 * passes + 6 * options.n_iter),
        counts + (0 if kept == Kept.ALL else (passes + 3 * options.n_iter) * one_matrix),
        _written_bytes(options, sizes.n_core, memory, kept, counts, one_matrix),
        memory.task_bytes,
        memory.kept_bytes(kept) + max(one.ritz_bytes() for one in bases),
        together=n_blocks,
    )


KNOWN_COPIES = 4
"""How often the vectors of all words are in memory where some are known: as read, sorted, completed and in blocks."""


def with_known_vectors(cost: Cost, n_words: int, n_components: int) -> Cost:
    """Return what core mode takes where words have vectors already, from the cost without them."""
    return cost._replace(shared_bytes=cost.shared_bytes + KNOWN_COPIES * 4 * n_words * n_components)


def _written_bytes(
    options: CoreOptions, n_core: int, memory: CoreMemory, kept: Kept, counts: int, one_matrix: int
) -> int:
    """Return the bytes that core mode writes: the vectors of each round, the result, and what is not kept in memory.

    The matrices are the transposed counts, the sparse part of the first round, the weights, the target, and a residual
    after each round but the last.
    """
    ranks = [one.rank for one in rounds_of(options, n_core)]
    vectors = 4 * n_core * (sum(ranks) + ranks[-1])
    matrices = 0 if kept == Kept.ALL else counts + (2 + len(ranks)) * one_matrix
    bases = memory.basis_bytes + (len(ranks) - 1) * memory.later_basis_bytes if kept == Kept.NONE else 0
    return vectors + matrices + bases


# --- noncore words ---------------------------------------------------------------------------------------------


def noncore_cost(
    n_components: int,
    batch_words: int,
    sizes: CoreSizes,
    n_words: int,
    *,
    n_blocks: int,
    block_memory: int,
    stored_pair_bytes: float,
) -> Cost:
    """Return what the words after the core take: a task turns a row block of counts, or solves a batch of words."""
    n_noncore, k = n_words - sizes.n_core, n_components
    pair_bytes = PAIR_BYTES * sizes.n_pairs
    halves = PAIR_BYTES * (sizes.n_pairs - sizes.n_among) // 2  # counts of noncore words, in either order
    batch = min(batch_words, n_noncore)
    of_batch = 2 * halves * batch // max(1, n_noncore)
    vectors, core = 4 * n_noncore * k, 4 * sizes.n_core * k
    return Cost(
        n_blocks + -(-n_noncore // batch_words),
        2 * int(stored_pair_bytes * sizes.n_pairs),
        vectors,
        int(SCRATCH_FACTOR * max(min(block_memory // 8 * 2, pair_bytes), of_batch))
        + 2 * core
        + 4 * batch * k,
    )
