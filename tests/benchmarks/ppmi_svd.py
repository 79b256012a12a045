"""Write the honest rival of PSDVec: tuned PPMI + truncated SVD of a finished workspace's counts.

``python -m tests.benchmarks.ppmi_svd WORKSPACE N_COMPONENTS FOLDER`` writes one vector file for each exponent and
shift, to be judged with ``distembed evaluate FOLDER/*.bin --sets ... --same-words``. Contexts on both sides are
added (X + Xᵀ), their distribution smoothed by the power 0.75 (Levy, Goldberg & Dagan 2015).
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import dask
import numpy as np
from scipy.sparse import csr_array, vstack

import distembed as de
from distembed.execution import one_blas_thread
from distembed.weighting.pmi import ppmi

EXPONENTS = (0.0, 0.25, 0.5, 1.0)
SHIFTS = (1.0, 5.0)


def symmetric_counts(workspace: de.Workspace) -> csr_array:
    blocks = dask.compute(*workspace.array("cooccurrence").to_delayed().ravel(), scheduler="synchronous")
    counts = csr_array(vstack(blocks), dtype=np.float32)
    return csr_array(counts + counts.T)


def main(workspace: str, n_components: int, folder: str) -> None:
    opened = de.Workspace.open(workspace)
    counts, words = symmetric_counts(opened), opened.table("vocabulary")["word"].to_pylist()
    for shift in SHIFTS:
        start = time.perf_counter()
        association = ppmi(counts, context_smoothing=0.75, negative_samples=shift)
        association.eliminate_zeros()
        model = de.LSA(n_components, exponent=0.0, n_passes=4)
        with one_blas_thread(), dask.config.set(scheduler="threads", num_workers=2):
            left = np.asarray(model.fit_transform(association))
        print(f"shift {shift:g}: {association.nnz:,} cells, {time.perf_counter() - start:.1f} s")
        for exponent in EXPONENTS:
            vectors = (left * model.singular_values_**exponent).astype(np.float32)
            de.WordVectors(words, vectors).save(Path(folder) / f"ppmi-svd-shift{shift:g}-p{exponent:g}.bin")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3])
