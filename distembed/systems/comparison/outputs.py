"""The outputs of a comparison of parts of a corpus."""

from __future__ import annotations

from distembed.job.outputs import ArrayOutput, TableOutput

PARTS = TableOutput(
    "parts",
    "The parts that are compared, in the order of their names or dates, and the groups of documents of each.",
    columns=("part", "n_documents", "n_units", "n_tokens", "n_groups"),
)
DOCUMENT_GROUPS = TableOutput(
    "document_groups",
    "The group of each document; row i is row i of documents.parquet. The last group is that of no part.",
    columns=("group",),
)
WORDS = ArrayOutput(
    "group_words",
    "How often a word occurs in each group of documents, and in how many of its documents.",
    dims=("measure", "group", "word"),
    dtype="int64",
    units="occurrences, documents",
)
GROUP_COUNTS = ArrayOutput(
    "group_counts",
    "How often two words stand near each other in each group of documents: those of the first group first.",
    dims=("group_word", "context_word"),
    dtype="int32",
    units="occurrences",
)
CORE_VECTORS = ArrayOutput(
    "core_vectors",
    "Vectors of the core words, from all text; their products approximate smoothed PMI.",
    dims=("core_word", "component"),
)
GROUP_TOTALS = ArrayOutput(
    "group_totals",
    "How many pairs each word has in each group of documents.",
    dims=("group", "word"),
    dtype="float64",
    units="occurrences",
)
PART_VECTORS = ArrayOutput(
    "part_vectors",
    "Word vectors in each part, against one core: those of the first part first; zero where the part lacks the word.",
    dims=("part_word", "component"),
)
DIFFERENCES = ArrayOutput(
    "differences",
    "What is measured of each word between two parts, or in one; the columns are those of measures.parquet.",
    dims=("word", "measure"),
)
MEASURES = TableOutput("measures", "The columns of `differences`.", columns=("measure", "part", "other"))
