"""The outputs of transfer; those of a side are of the `first` or of the `second` collection."""

from __future__ import annotations

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
    "The documents of both collections that are the same, and which of them are known to be.",
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
    "The likeliest counterpart of each document of the second collection, and its largest topic if any.",
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
SECOND_TOPICS = ArrayOutput(
    "second_topics", "Inferred share of a topic of a document.", dims=("document", "topic")
)
SECOND_FEATURES = ArrayOutput(
    "second_features", "Inferred feature of a document.", dims=("document", "feature")
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
