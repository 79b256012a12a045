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
VIEW_COUNTS = ArrayOutput(
    "view_{view}_counts",
    "How often two words stand near each other; see [views.{view}] in job.toml.",
    dims=("word", "context_word"),
    dtype="int32",
    units="occurrences",
)
VIEW_VECTORS = ArrayOutput(
    "view_{view}",
    "Vectors of the view {view}; row i is word i of vocabulary.parquet, zero where the view lacks the word.",
    dims=("word", "component"),
)
VIEW_AXES = ArrayOutput(
    "view_{view}_axes",
    "The PPMI of a word with each context of the view {view}, times this, is its vector.",
    dims=("context", "component"),
)
VIEW_TOTALS = TableOutput(
    "view_{view}_totals",
    "How often each context of the view {view} was counted; row i is row i of its axes.",
    columns=("n_pairs",),
)
JOINED_VECTORS = ArrayOutput(
    "joined_vectors",
    "The directions of a word in PSDVec and in each view, side by side, before its spelling is added.",
    dims=("word", "component"),
)
JOINED_MEANS = ArrayOutput(
    "joined_means",
    "The mean vectors of PSDVec and of each view, side by side.",
    dims=("component",),
    dtype="float64",
)
JOINED_AXES = ArrayOutput(
    "joined_axes",
    "The principal axes that the joined vectors are projected on, where the job asks for fewer components.",
    dims=("joined_component", "component"),
    dtype="float64",
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
