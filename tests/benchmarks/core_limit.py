"""Print how fast the product of the core's largest row block reads the vectors, beside reading them in order.

    python -m tests.benchmarks.core_limit WORKSPACE --words 10000 --columns 102 203

A stored pair of words needs one row of the vectors. The second figure is what one core takes in of the same array,
from its first value to its last, as often as the product does: rows of frequent words that stay in a near cache are all
that the product can gain over it. Processor time, the best of five.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np
import scipy.sparse as sp

import distembed as de
from distembed.execution import compute
from distembed.linalg.blocks import sparse_times_dense
from distembed.linalg.operators import row_blocks


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("workspace")
    parser.add_argument("--words", type=int, default=10_000)
    parser.add_argument("--columns", type=int, nargs="+", default=[102, 203])
    given = parser.parse_args()
    block = largest_row_block(given.workspace, given.words)
    for columns in given.columns:
        vectors = np.random.default_rng(0).standard_normal((given.words, columns)).astype(np.float32)
        n_bytes, times = 4 * block.nnz * columns, max(1, block.nnz // given.words)
        product = best(lambda rows=vectors: sparse_times_dense(block, rows))
        in_order = best(lambda rows=vectors, n=times: [rows.sum() for _ in range(n)])
        print(
            f"{block.nnz:,} pairs times {given.words:,} x {columns} ({vectors.nbytes / 2**20:.0f} MiB): "
            f"{n_bytes / product / 1e9:.0f} GB/s of rows, {n_bytes / product / 2e9:.0f} GFlop/s; "
            f"in order {times * vectors.nbytes / in_order / 1e9:.0f} GB/s"
        )


def largest_row_block(workspace: str, n_words: int) -> sp.csr_array:
    """Return the row block with most counts among the first words, as float32."""
    counts = row_blocks(de.Workspace.open(workspace).array("cooccurrence")[:n_words, :n_words])
    return max(
        (sp.csr_array(compute(block), dtype=np.float32) for block in counts.blocks), key=lambda csr: csr.nnz
    )


def best(run: Callable[[], object]) -> float:
    """Return the least processor seconds of five runs, after one that compiles."""
    taken = []
    for _ in range(6):
        begin = time.thread_time()
        run()
        taken.append(time.thread_time() - begin)
    return min(taken[1:])


if __name__ == "__main__":
    main()
