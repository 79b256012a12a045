"""The outputs of a neighbor graph."""

from __future__ import annotations

from distembed.job.outputs import ArrayOutput, FilesOutput, TableOutput

VOCABULARY = TableOutput(
    "vocabulary", "The names of the rows, or their numbers where they have none.", columns=("word",)
)
VECTORS = ArrayOutput(
    "vectors",
    "The rows of the matrix; row i is word i of vocabulary.parquet.",
    dims=("word", "component"),
    dtype="float32 or float64",
)
NEIGHBOR_LISTS = ArrayOutput(
    "neighbor_lists",
    "Squared distances (-x·y for inner products) and row numbers of the neighbors, nearest first.",
    dims=("word", "axis_1", "axis_2"),
    dtype="float64",
)
NEIGHBORS = ArrayOutput(
    "neighbors",
    "The {value} of each row to its nearest neighbors, {metric}.",
    dims=("row", "neighbor"),
    dtype="float64",
)
EDGES = FilesOutput(
    "edges", "The edges of a block of rows, by source and nearest first, as a table in Parquet."
)
SPANNING_TREE = TableOutput(
    "spanning_tree", "The edges of the minimum spanning tree.", columns=("source", "target", "distance")
)
