"""The vectors of character n-grams that a workspace holds: their names there, and how they are read."""

from __future__ import annotations

from distembed.execution import compute
from distembed.job.outputs import ArrayOutput, TableOutput
from distembed.storage.workspace import Workspace
from distembed.vectors.subwords import SubwordTable

SUBWORDS = "subwords"
"""The stage that learns them, and the section of the job file with its options."""
WEIGHT = "subword_weight"
"""The parameter of the stage of the vectors that says with what weight the n-grams were added to them."""

SUBWORD_VECTORS = ArrayOutput(
    "subword_vectors",
    "Vectors of character n-grams, a component per row; column j is row j of ngrams.parquet.",
    dims=("component", "ngram"),
)
SUBWORD_MEAN = ArrayOutput(
    "subword_mean", "The vector of a word of which no n-gram is known.", dims=("component",)
)
NGRAMS = TableOutput(
    "ngrams",
    "The n-grams, and how many words hold each.",
    columns=("ngram", "n_words"),
)


def read_subwords(workspace: Workspace) -> SubwordTable:
    """Return the vectors of n-grams that a workspace holds, in memory.

    Raises
    ------
    KeyError
        If the workspace has no such stage.
    """
    options = workspace.stages()[SUBWORDS].parameters[SUBWORDS]
    rows = NGRAMS.read(workspace)
    return SubwordTable(
        compute(SUBWORD_VECTORS.read(workspace)).T,
        compute(SUBWORD_MEAN.read(workspace)),
        min_n=options["min_n"],
        max_n=options["max_n"],
        ngrams=tuple(rows["ngram"].to_pylist()),
    )


def table_of_vectors(workspace: Workspace) -> SubwordTable | None:
    """Return the n-grams that the stored vectors were made with, None if with none; they compose in the same space."""
    done = workspace.stages()
    if not (SUBWORDS in done and "vectors" in done and SUBWORDS in done["vectors"].inputs):
        return None
    table = read_subwords(workspace)
    return table.centered() if done["vectors"].parameters[WEIGHT] else table
