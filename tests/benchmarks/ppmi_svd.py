"""Write the honest rival of PSDVec: tuned PPMI + truncated SVD of a finished workspace's counts.

``python -m tests.benchmarks.ppmi_svd WORKSPACE N_COMPONENTS FOLDER`` writes one vector file for each exponent and
shift, to be judged with ``distembed evaluate FOLDER/*.bin --sets ... --same-words``. Contexts on both sides are
added (X + Xᵀ), their distribution smoothed by the power 0.75 (Levy, Goldberg & Dagan 2015).
"""

from __future__ import annotations

from pathlib import Path

import dask
import numpy as np
from scipy.sparse import csr_array

import distembed as de
from distembed.execution import one_blas_thread
from distembed.weighting.pmi import ppmi
from tests.benchmarks.inputs import counts_of
from tests.benchmarks.measures import run_main, spent, tell

EXPONENTS = (0.0, 0.25, 0.5, 1.0)
SHIFTS = (1.0, 5.0)


def solved(counts: csr_array, n_components: int, shift: float) -> tuple[np.ndarray, np.ndarray, int]:
    """Return the left singular vectors and the singular values of the association, and how many cells it has."""
    association = ppmi(counts, context_smoothing=0.75, negative_samples=shift)
    association.eliminate_zeros()
    model = de.LSA(n_components, exponent=0.0, n_passes=4)
    with one_blas_thread(), dask.config.set(scheduler="threads", num_workers=2):
        return np.asarray(model.fit_transform(association)), model.singular_values_, association.nnz


def main(workspace: str, n_components: int, folder: Path) -> None:
    counts, _, words = counts_of(workspace)
    counts = csr_array(counts.astype(np.float32) + counts.T.astype(np.float32))
    for shift in SHIFTS:
        wall, _, (left, values, n_cells) = spent(solved, counts, n_components, shift)
        tell(f"shift {shift:g}: {n_cells:,} cells, {wall:.1f} s")
        for exponent in EXPONENTS:
            vectors = de.WordVectors(words, (left * values**exponent).astype(np.float32))
            vectors.save(folder / f"ppmi-svd-shift{shift:g}-p{exponent:g}.bin")


if __name__ == "__main__":
    run_main(main)
