"""DOCUMENTS -> TOKEN IDS: files to documents, documents to token ids (read once), dictionaries to a vocabulary."""

from distembed.corpus.errors import CorpusError
from distembed.corpus.mediawiki import strip_wikitext
from distembed.corpus.partitions import (
    PartitionSummary,
    TokenBatch,
    Tokens,
    iter_partition,
    tokenize_partition,
)
from distembed.corpus.readers import Corpus, Document, read_corpus
from distembed.corpus.streams import Partition
from distembed.corpus.tokenizer import Tokenizer
from distembed.corpus.vocabulary import Vocabulary, build_vocabulary

__all__ = [
    "Corpus",
    "CorpusError",
    "Document",
    "Partition",
    "PartitionSummary",
    "TokenBatch",
    "Tokenizer",
    "Tokens",
    "Vocabulary",
    "build_vocabulary",
    "iter_partition",
    "read_corpus",
    "strip_wikitext",
    "tokenize_partition",
]
