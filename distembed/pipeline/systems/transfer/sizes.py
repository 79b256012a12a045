"""Bytes and blocks of what topic transfer holds and stores, for the plans of its stages."""

from __future__ import annotations

from distembed.linalg.chunks import row_chunk
from distembed.pipeline.corpus.collections import ParallelSizes
from distembed.pipeline.systems.transfer.config import TransferJob

STORED_BYTES, VALUE_BYTES = 4, 8
"""Bytes of a number of a row as it is stored, and as it is compared in the space of both collections."""
EDGE_BYTES = 12
"""Bytes of an edge of a graph: a weight and a column."""


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
    return 2 * EDGE_BYTES * sizes.n_documents * job.alignment.n_neighbors


def n_row_blocks(job: TransferJob, n_rows: int, value_bytes: int) -> int:
    """Return the number of blocks of rows of a collection, between which neighbors are sought."""
    width = value_bytes * job.representation.n_components
    return -(-n_rows // row_chunk(n_rows, width, job.resources.block_memory))
