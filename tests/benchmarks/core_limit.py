"""Print how fast the product of the core's largest row block reads the vectors, beside reading them in order.

    python -m tests.benchmarks.core_limit WORKSPACE --words 10000 --columns 102 203

A stored pair of words needs one row of the vectors. The second figure is what one core takes in of the same array,
from its first value to its last, as often as the product does: rows of frequent words that stay in a near cache are all
that the product can gain over it. Processor time, the best of five.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

import distembed as de
from distembed.execution import compute
from distembed.linalg.blocks import sparse_times_dense
from distembed.linalg.operators import row_blocks
from tests.benchmarks.measures import least_cpu, run_main, tell


def largest_row_block(workspace: str, n_words: int) -> sp.csr_array:
    """Return the row block with most counts among the first words, as float32."""
    counts = row_blocks(de.Workspace.open(workspace).array("cooccurrence")[:n_words, :n_words])
    blocks = (sp.csr_array(compute(block), dtype=np.float32) for block in counts.blocks)
    return max(blocks, key=lambda block: block.nnz)


def main(workspace: str, *, words: int = 10_000, columns: tuple[int, ...] = (102, 203)) -> None:
    block = largest_row_block(workspace, words)
    for width in columns:
        vectors = np.random.default_rng(0).standard_normal((words, width)).astype(np.float32)
        n_bytes, times = 4 * block.nnz * width, max(1, block.nnz // words)
        sparse_times_dense(block, vectors)  # compiles
        product, _ = least_cpu(lambda rows=vectors: sparse_times_dense(block, rows), 5)
        in_order, _ = least_cpu(lambda rows=vectors, n=times: [rows.sum() for _ in range(n)], 5)
        tell(
            f"{block.nnz:,} pairs times {words:,} x {width} ({vectors.nbytes / 2**20:.0f} MiB): "
            f"{n_bytes / product / 1e9:.0f} GB/s of rows, {n_bytes / product / 2e9:.0f} GFlop/s; "
            f"in order {times * vectors.nbytes / in_order / 1e9:.0f} GB/s"
        )


if __name__ == "__main__":
    run_main(main)
