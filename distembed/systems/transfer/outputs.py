"""The outputs of transfer, those of a collection with its name before them.

A pair, a link and a counterpart join the first collection, which has values, with another, which gets them.
"""

from __future__ import annotations

from distembed.job.outputs import ArrayOutput, TableOutput

KNOWN_FEATURES = ArrayOutput(
    "{side}_known_features",
    "Values of the documents of a collection that a table has; NaN: not known.",
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
    "{side}_topics",
    "Share of a topic in a document: learned in the first collection, where rows sum to one and NaN means that the "
    "document has no known word, and inferred in the others.",
    dims=("document", "topic"),
)
TOPIC_WORDS = TableOutput(
    "topic_words", "The share and the first words of each topic.", columns=("topic", "share", "words")
)
TOPIC_OBJECTIVE = TableOutput(
    "topic_objective", "The objective of the topics after each round.", columns=("objective",)
)
PAIRS = TableOutput(
    "{side}_pairs",
    "The documents of the first collection and another that are the same, and which of them are known to be.",
    columns=("first", "other", "confidence", "known"),
)
GRAPH = ArrayOutput(
    "{side}_graph",
    "Affinity of two documents of a collection.",
    dims=("document", "neighbor"),
    dtype="float64",
)
LINKS = ArrayOutput(
    "{side}_links",
    "Probability that two documents are the same; 1 where it is known.",
    dims=("first_document", "other_document"),
    dtype="float64",
)
EMBEDDING = ArrayOutput(
    "{side}_embedding",
    "Place of a document in the space of all documents.",
    dims=("document", "component"),
)
OBJECTIVE = TableOutput("objective", "The objective after each round.", columns=("objective",))
ALIGNED = TableOutput(
    "{side}_aligned",
    "The likeliest counterpart of each document in the first collection, and its largest topic if any.",
    columns=("id", "counterpart", "probability"),
)
REGRESSION = ArrayOutput(
    "regression",
    "Topics or features of a document are the mean ones plus its place times this.",
    dims=("component", "value"),
    dtype="float64",
)
FEATURES = ArrayOutput("{side}_features", "Inferred feature of a document.", dims=("document", "feature"))
SCORES = TableOutput(
    "scores",
    "How well each method infers values that were hidden, for each share of known documents.",
    columns=("share", "n_known", "seed", "method", "rmse", "correlation"),
    scores=True,
)
VALUE_SCORES = TableOutput(
    "{side}_value_scores",
    "How well each topic or feature of a collection was inferred.",
    columns=("value", "rmse", "correlation"),
    scores=True,
)
