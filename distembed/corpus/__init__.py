"""DOCUMENTS -> TOKEN IDS: any file to documents, documents to part-local ids (once), parts to a vocabulary."""

from distembed.corpus.mediawiki import strip_wikitext
from distembed.corpus.parts import PartSummary, TokenBatch, Tokens, iter_part, tokenize_split
from distembed.corpus.readers import Corpus, Document, read_corpus
from distembed.corpus.streams import CorpusError, Split
from distembed.corpus.tokenizer import Tokenizer
from distembed.corpus.vocabulary import Vocabulary, build_vocabulary

__all__ = [
    "Corpus",
    "CorpusError",
    "Document",
    "PartSummary",
    "Split",
    "TokenBatch",
    "Tokenizer",
    "Tokens",
    "Vocabulary",
    "build_vocabulary",
    "iter_part",
    "read_corpus",
    "strip_wikitext",
    "tokenize_split",
]
