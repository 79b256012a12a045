"""The outputs of topics; of a compared method those of the factors begin with its name."""

from __future__ import annotations

from dataclasses import replace

from distembed.job.outputs import ArrayOutput, FilesOutput, TableOutput
from distembed.stages import outputs as corpus
from distembed.systems.topics.job import Method, TopicsJob

SELECTED_TOKENS = FilesOutput("selected_tokens", "The tokens of the documents that are kept, as `tokens`.")
DOCUMENT_TERMS = replace(
    corpus.DOCUMENT_TERMS,
    meaning="How often a document holds a word; rows as documents.parquet, columns as vocabulary.parquet.",
)
TF_IDF = ArrayOutput(
    "tf_idf", "tf-idf of the words of a document, rows of unit length.", dims=("document", "word")
)
PPMI = ArrayOutput(
    "ppmi",
    "Positive pointwise mutual information of two words, not shifted.",
    dims=("word", "context_word"),
    units="nat",
)
DOCUMENT_GRAPH = ArrayOutput(
    "document_graph",
    "1 where one of two documents is among the nearest of the other by the cosine of tf-idf.",
    dims=("document", "neighbor"),
)
WORD_FACTORS = ArrayOutput("{of}vectors", "Weight of each word in each topic.", dims=("word", "topic"))
DOCUMENT_FACTORS = ArrayOutput(
    "{of}document_factors", "Weight of each topic in each document.", dims=("document", "topic")
)
CORE = ArrayOutput("{of}core", "Association of two topics' words.", dims=("topic", "other_topic"))
LABELS = ArrayOutput(
    "labels",
    "Topic of each document by each start, those of a method together; -1: it holds no word.",
    dims=("start", "document"),
    dtype="int64",
)
STARTS = TableOutput(
    "starts",
    "What is known of each start and of a consensus, and which of a method is kept.",
    columns=("method", "start", "loss", "nmi", "ari", "kept"),
)
LOSSES = TableOutput(
    "losses", "The loss after each round of each start.", columns=("method", "start", "round", "loss")
)
SCORES = TableOutput(
    "scores",
    "Agreement of each start with the labels of the documents.",
    columns=("method", "start", "loss", "nmi", "ari", "accuracy", "purity"),
    scores=True,
)
TOPICS = TableOutput(
    "topics",
    "The size, the first words and the coherence of each topic that is kept.",
    columns=("method", "topic", "n_documents", "words", "pmi", "npmi", "n_pairs", "n_joint"),
)


def prefix_of(job: TopicsJob, method: Method) -> str:
    """Return what the names of the outputs of a method begin with: nothing for the method of the job."""
    return "" if method == job.topics.method else f"{method}_"


def tokens_output(job: TopicsJob) -> FilesOutput:
    """Return the tokens that a job counts: of the documents that stay."""
    return SELECTED_TOKENS if job.documents.labels or job.documents.drop_duplicates else corpus.TOKENS
