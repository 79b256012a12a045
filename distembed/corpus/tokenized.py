"""The tokens of a corpus, or of texts that are in memory."""

from __future__ import annotations

from pathlib import Path

from distembed.corpus.partitions import Tokens
from distembed.corpus.readers import Corpus, corpus_of_texts
from distembed.corpus.texts import Texts


def tokenized(docs: Corpus | Tokens | Texts, scratch: str | Path | None = None) -> Tokens:
    """Return the tokens of a corpus, or of texts in memory."""
    if isinstance(docs, Tokens):
        return docs
    return (docs if isinstance(docs, Corpus) else corpus_of_texts(docs, scratch=scratch)).tokenize()
