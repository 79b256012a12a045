"""The outputs of transfer; those of a side are of a collection: the `first`, the `second` or a further one.

A pair, a link, a counterpart and a score join the first collection with another. Those of the second have plain names;
those of a further one begin with its name (`of_side`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

from distembed.job.outputs import ArrayOutput, TableOutput

FEATURES = ArrayOutput(
    "features",
    "Values of the documents of the first collection; NaN: not known.",
    dims=("document", "feature"),
    dtype="float64",
)
SECOND_KNOWN_FEATURES = ArrayOutput(
    "second_known_features",
    "Values of the documents of the second collection; NaN: not known.",
    dims=("document", "feature"),
    dtype="float64",
)
FEATURE_COLUMNS = TableOutput(
    "feature_columns",
    "The columns of the table of features.",
    columns=("feature", "mean", "deviation", "least", "largest"),
)
UNKNOWN_IDS = TableOutput(
    "unknown_ids", "The ids of the tables that are no document's.", columns=("table", "id")
)
VECTORS = ArrayOutput(
    "{side}_vectors", "Where a document stands among the others.", dims=("document", "component")
)
TOPICS = ArrayOutput(
    "topics",
    "Share of a topic in a document; rows sum to one, NaN: the document has no known word.",
    dims=("document", "topic"),
)
TOPIC_WORDS = TableOutput(
    "topic_words", "The share and the first words of each topic.", columns=("topic", "share", "words")
)
TOPIC_OBJECTIVE = TableOutput(
    "topic_objective", "The objective of the topics after each round.", columns=("objective",)
)
PAIRS = TableOutput(
    "pairs",
    "The documents of the first collection and the second that are the same, and which of them are known to be.",
    columns=("first", "second", "confidence", "known"),
)
GRAPH = ArrayOutput(
    "{side}_graph",
    "Affinity of two documents of a collection.",
    dims=("document", "neighbor"),
    dtype="float64",
)
LINKS = ArrayOutput(
    "links",
    "Probability that two documents are the same; 1 where it is known.",
    dims=("first_document", "second_document"),
    dtype="float64",
)
EMBEDDING = ArrayOutput(
    "{side}_embedding",
    "Place of a document in the space of all documents.",
    dims=("document", "component"),
)
OBJECTIVE = TableOutput("objective", "The objective after each round.", columns=("objective",))
ALIGNED = TableOutput(
    "aligned",
    "The likeliest counterpart of each document in the first collection, and its largest topic if any.",
    columns=("id", "counterpart", "probability"),
)
TOPIC_REGRESSION = ArrayOutput(
    "regression",
    "Topics of a document are the mean ones plus its place times this.",
    dims=("component", "topic"),
    dtype="float64",
)
FEATURE_REGRESSION = ArrayOutput(
    "regression",
    "Features of a document are the mean ones plus its place times this.",
    dims=("component", "feature"),
    dtype="float64",
)
SIDE_TOPICS = ArrayOutput(
    "{side}_topics", "Inferred share of a topic of a document.", dims=("document", "topic")
)
SIDE_FEATURES = ArrayOutput(
    "{side}_features", "Inferred feature of a document.", dims=("document", "feature")
)
INFERRED_FEATURES = ArrayOutput(
    "inferred_features", "Inferred feature of a document.", dims=("document", "feature")
)
SCORES = TableOutput(
    "scores",
    "How well each method infers values that were hidden, for each share of known documents.",
    columns=("share", "n_known", "seed", "method", "rmse", "correlation"),
    scores=True,
)
TOPIC_SCORES = TableOutput(
    "topic_scores",
    "How well each topic was inferred.",
    columns=("topic", "rmse", "correlation"),
    scores=True,
)
FEATURE_SCORES = TableOutput(
    "feature_scores",
    "How well each feature was inferred.",
    columns=("feature", "rmse", "correlation"),
    scores=True,
)

AnOutput = TypeVar("AnOutput", ArrayOutput, TableOutput)


def _of_further(output: AnOutput) -> AnOutput:
    return replace(output, name=f"{{side}}_{output.name}")


OTHER_PAIRS = replace(
    _of_further(PAIRS),
    meaning="The documents of the first collection and a further one that are the same.",
    columns=("first", "{side}", "confidence", "known"),
)
OTHER_LINKS = _of_further(LINKS)
OTHER_ALIGNED = _of_further(ALIGNED)
OTHER_TOPIC_SCORES = _of_further(TOPIC_SCORES)
OTHER_FEATURE_SCORES = _of_further(FEATURE_SCORES)


def of_side(output: AnOutput, side: str) -> AnOutput:
    """Return the output of the second collection, or the one of that kind of a further collection."""
    return output if side == "second" else _of_further(output).of(side=side)
