"""The outputs of imputation."""

from __future__ import annotations

from distembed.job.outputs import ArrayOutput, TableOutput

VOCABULARY = TableOutput(
    "vocabulary",
    "The names of the table, then other words with a vector; `origin` is known, imputed or other.",
    columns=("word", "name", "origin", "label"),
)
LEFT_OUT = TableOutput(
    "left_out", "The names that were left out, and why.", columns=("name", "reason", "suggestion")
)
NEAR_MISSES = TableOutput(
    "near_misses",
    "Names without a known vector that nearly match a word with one.",
    columns=("name", "word", "difference"),
)
READING = TableOutput("reading", "What was done to the tables when they were read.", columns=("note",))
DOMAIN_COLUMNS = TableOutput(
    "domain_columns",
    "How each column of the table was scaled.",
    columns=("column", "means", "spreads", "medians"),
)
DOMAIN = ArrayOutput("domain", "What the table says of each name.", dims=("name", "number"), dtype="float64")
KNOWN_VECTORS = ArrayOutput(
    "known_vectors", "Vectors of the names; NaN: none is known.", dims=("name", "component")
)
OTHER_VECTORS = ArrayOutput(
    "other_vectors", "Vectors of words that are no name of the table.", dims=("other_word", "component")
)
GRAPH = ArrayOutput(
    "graph",
    "Distance of each name (row) to those it is rebuilt from.",
    dims=("name", "neighbor"),
    dtype="float64",
)
WEIGHTS = ArrayOutput(
    "weights",
    "Share of each neighbor in a name's row; rows sum to one.",
    dims=("name", "neighbor"),
    dtype="float64",
)
CERTIFICATES = TableOutput(
    "certificates", "How far the weights of each name are from the best.", columns=("certificate",)
)
HOLD_OUT_NAMES = TableOutput(
    "hold_out_names",
    "How near each hidden name came to its vector, by each method.",
    columns=("word", "fold", "method", "cosine", "rank", "label_share", "centered_cosine"),
)
HOLD_OUT = TableOutput(
    "hold_out",
    "How near the hidden names came to their vectors, by each method.",
    columns=("method", "names"),
    scores=True,
)
CONVERGENCE = TableOutput(
    "convergence", "What remained to be solved after each step.", columns=("step", "measure")
)
VECTORS = ArrayOutput(
    "vectors",
    "Vectors, known ones as they came; row i is word i of vocabulary.parquet.",
    dims=("word", "component"),
)
NEIGHBOR_LABELS = TableOutput(
    "neighbor_labels",
    "How well the neighbors of names tell their labels, before and after.",
    columns=("rows", "votes", "n_neighbors", "n_names", "accuracy"),
)
