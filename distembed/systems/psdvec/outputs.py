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
    dims=("core_word", "component"),
)
NONCORE_VECTORS = ArrayOutput(
    "noncore_vectors",
    "Vectors of the noncore words; row i is the i-th word after those of the core.",
    dims=("noncore_word", "component"),
)
SIDES_COUNTS = ArrayOutput(
    "sides_counts",
    "How often two words stand near each other; see [sides] in job.toml.",
    dims=("word", "context_word"),
    dtype="int32",
    units="occurrences",
)
SIDES_VECTORS = ArrayOutput(
    "sides",
    "Vectors of words by the words on their left and on their right; row i is word i of vocabulary.parquet.",
    dims=("word", "component"),
)
SIDES_AXES = ArrayOutput(
    "sides_axes",
    "The PPMI of a word with each context, times this, is its vector of `sides`.",
    dims=("context", "component"),
)
SIDES_TOTALS = TableOutput(
    "sides_totals", "How often each context was counted; row i is row i of sides_axes.", columns=("n_pairs",)
)
JOINED_VECTORS = ArrayOutput(
    "joined_vectors",
    "The directions of a word in PSDVec and in its sides, next to each other, before its spelling is added.",
    dims=("word", "component"),
)
JOINED_MEANS = ArrayOutput(
    "joined_means",
    "The mean vectors of PSDVec and of the sides, next to each other.",
    dims=("component",),
    dtype="float64",
)
VECTORS = ArrayOutput(
    "vectors", "Word vectors; row i is word i of vocabulary.parquet.", dims=("word", "component")
)
ROW_TOTALS = TableOutput(
    "row_totals", "The sum of each row of `cooccurrence` before the vocabulary was cut.", columns=("n_pairs",)
)
OBJECTIVE = TableOutput(
    "objective", "The error after each round of the factorization.", columns=("weighted_squared_error",)
)
