"""Write the honest rival of PSDVec: tuned PPMI + truncated SVD of a finished workspace's counts.

``python -m benchmarks.ppmi_svd WORKSPACE FOLDER N_COMPONENTS ...`` writes one vector file for each number of
components, exponent and shift, to be judged with ``benchmarks.rival_table``. Contexts on both sides are added (X
+ Xᵀ), their distribution smoothed by the power 0.75 (Levy, Goldberg & Dagan 2015).
"""

from __future__ import annotations

from itertools import product
from pathlib import Path

import dask
import numpy as np
from scipy.sparse import csr_array

import distembed as de
from benchmarks.inputs import counts_of
from benchmarks.measures import run_main, spent, tell
from distembed.execution import one_blas_thread
from distembed.weighting.pmi import ppmi

EXPONENTS = (0.0, 0.25, 0.5, 1.0)
SHIFTS = (1.0, 5.0)


def solved(counts: csr_array, n_components: int, shift: float) -> tuple[np.ndarray, np.ndarray, int]:
    """Return the left singular vectors and the singular values of the association, and how many cells it has."""
    association = ppmi(counts, context_smoothing=0.75, negative_samples=shift)
    association.eliminate_zeros()
    model = de.LSA(n_components, exponent=0.0, n_passes=4)
    with one_blas_thread(), dask.config.set(scheduler="threads", num_workers=2):
        return np.asarray(model.fit_transform(association)), model.singular_values_, association.nnz


def main(workspace: str, folder: Path, *n_components: int) -> None:
    counts, _, words = counts_of(workspace)
    counts = csr_array(counts.astype(np.float32) + counts.T.astype(np.float32))
    for shift in SHIFTS:
        found = spent(solved, counts, max(n_components), shift)
        left, values, n_cells = found.result
        tell(f"shift {shift:g}: {n_cells:,} cells, {found}")
        for first, exponent in product(n_components, EXPONENTS):
            rows = left[:, :first] * values[:first] ** exponent
            file = folder / f"ppmi-svd-{first}-shift{shift:g}-p{exponent:g}.bin"
            de.WordVectors(words, rows.astype(np.float32)).save(file)


if __name__ == "__main__":
    run_main(main)
