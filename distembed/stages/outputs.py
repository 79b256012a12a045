"""The outputs of the stages that read a corpus and count it."""

from __future__ import annotations

from distembed.job.outputs import ArrayOutput, FileOutput, FilesOutput, TableOutput

TOKENS = FilesOutput(
    "tokens", "The tokens of each partition, with a dictionary and the documents of its own."
)
DOCUMENTS = TableOutput(
    "documents",
    "Row i is row i of every array of documents.",
    columns=("id", "title", "label", "n_tokens"),
)
VOCABULARY = TableOutput(
    "vocabulary",
    "Falling by count, then by word; row i is row i of every array of words.",
    columns=("word", "count", "document_count"),
)
RUNS = FilesOutput("{counts}_runs", "The pairs of each bundle of documents, as sorted runs.", temporary=True)
COOCCURRENCE = ArrayOutput(
    "cooccurrence",
    "How often two words stand within {window} places; see counting in job.toml.",
    dims=("word", "context_word"),
    dtype="int32",
    units="occurrences",
)
ROW_NONZEROS = TableOutput(
    "row_nonzeros", "How many values each row of `cooccurrence` stores.", columns=("n_nonzero",)
)
DOCUMENT_TERMS = ArrayOutput(
    "document_terms",
    "How often a word stands in a document.",
    dims=("document", "word"),
    dtype="int32",
    units="occurrences",
)
EVALUATION = FileOutput(
    "evaluation.json", "The scores of the word vectors on each evaluation set.", scores=True
)

OF_TOKENS = (TOKENS, VOCABULARY, DOCUMENTS)
OF_COUNTS = (RUNS, COOCCURRENCE, ROW_NONZEROS)
