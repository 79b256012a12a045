"""The outputs of PSDVec's own stages."""

from __future__ import annotations

from distembed.job.outputs import ArrayOutput, TableOutput

PMI = ArrayOutput(
    "pmi",
    "Smoothed PMI of two words, less `constant`, which is that of two words without a count.",
    dims=("word", "context_word"),
    units="nats",
)
CORE_VECTORS = ArrayOutput(
    "core_vectors",
    "Vectors of the core words; their products approximate smoothed PMI.",
    dims=("word", "component"),
)
NONCORE_VECTORS = ArrayOutput(
    "noncore_vectors",
    "Vectors of the noncore words; row i is the i-th word after those of the core.",
    dims=("word", "component"),
)
VECTORS = ArrayOutput(
    "vectors", "Word vectors; row i is word i of vocabulary.parquet.", dims=("word", "component")
)
ROW_TOTALS = TableOutput(
    "row_totals",
    "The sum of each row of `cooccurrence` before the vocabulary was cut.",
    columns=("n_pairs",),
)
EIGENVALUES = TableOutput(
    "eigenvalues", "The eigenvalues of the factorized matrix, largest first.", columns=("eigenvalue",)
)
OBJECTIVE = TableOutput(
    "objective", "The error after each round of the factorization.", columns=("weighted_squared_error",)
)
