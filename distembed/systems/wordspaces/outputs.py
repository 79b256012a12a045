"""The outputs of word spaces."""

from __future__ import annotations

from distembed.job.outputs import ArrayOutput, FileOutput

TABLE = ArrayOutput(
    "{table}",
    "Weighted occurrences of two words near each other; see [{table}] in job.toml.",
    dims=("word", "context_word"),
    dtype="int32",
    units="occurrences",
)
SPACE = ArrayOutput(
    "spaces/{recipe}",
    "{title}: {method} of {source}; row i is word i of the vocabulary.",
    dims=("word", "feature"),
)
GRAPH = ArrayOutput(
    "graphs/{graph}",
    "Affinity of words near each other in {source}.",
    dims=("word", "neighbor"),
    dtype="float64",
)
VECTORS = ArrayOutput(
    "vectors",
    "Word vectors: the space {recipe}; row i is word i of vocabulary.parquet.",
    dims=("word", "component"),
)
SCORES = FileOutput("scores_{recipe}.json", "The scores of a space on each evaluation set.", scores=True)
NEAREST = FileOutput("nearest_{recipe}.json", "The neighbors in a space of the words of the report.")
