"""Bytes and blocks of what topic transfer holds and stores, for the plans of its stages."""

from __future__ import annotations

from distembed.linalg.chunks import row_chunk
from distembed.pipeline.corpus.collections import ParallelSizes
from distembed.pipeline.systems.transfer.config import TransferJob


def term_bytes(sizes: ParallelSizes) -> int:
    """Return the bytes of the tf-idf of both collections."""
    return 8 * sizes.n_nonzero


def n_chunks(job: TransferJob, sizes: ParallelSizes) -> int:
    """Return the number of blocks of the tf-idf."""
    return max(2, term_bytes(sizes) // max(1, job.resources.block_memory // 4))


def row_bytes(job: TransferJob, sizes: ParallelSizes) -> int:
    """Return the bytes of the rows among which neighbors are sought."""
    options = job.representation
    return term_bytes(sizes) if options.kind == "tf_idf" else 4 * sizes.n_documents * options.n_components


def edge_bytes(job: TransferJob, sizes: ParallelSizes) -> int:
    """Return the bytes of the neighbor graphs of both collections."""
    return 2 * 12 * sizes.n_documents * job.alignment.n_neighbors


def n_row_blocks(job: TransferJob, sizes: ParallelSizes) -> int:
    """Return the number of blocks of rows between which neighbors are sought."""
    n = sizes.n_documents
    return -(-n // row_chunk(n, 8 * job.representation.n_components, job.resources.block_memory))
