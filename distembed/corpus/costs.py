"""What tokenizing a corpus, and making its vocabulary, take in memory and on disk."""

from __future__ import annotations

from typing import NamedTuple

from distembed.costs import Cost

DICTIONARY_BYTES = 200 * 2**20
"""Bytes of the largest dictionary of a partition: its hash table while it grows, and the columns written from it."""

TOKEN_BYTES, STORED_ENTRY_BYTES, STORED_DOCUMENT_BYTES = 2.03, 12.7, 25
"""Bytes on disk of a token, of a word of the dictionary of a partition, and of a document in its list.

Measured 2.02 to 2.04, 12.7 and 24.7 to 26.3 on 20 and 82 M tokens.
"""

ENTRY_BYTES = 200
"""Bytes an entry of a dictionary takes while the counts of equal words are added, measured."""


class TextSizes(NamedTuple):
    """The sizes of a corpus and of its partitions."""

    input_bytes: int
    n_partitions: int
    n_tokens: int
    n_entries: int
    """Words of the dictionaries of all token partitions together."""
    n_documents: int

    @property
    def stored_bytes(self) -> int:
        """The bytes on disk of the token partitions: ids, dictionaries and lists of documents."""
        dictionaries = STORED_ENTRY_BYTES * self.n_entries + STORED_DOCUMENT_BYTES * self.n_documents
        return int(TOKEN_BYTES * self.n_tokens + dictionaries)


def selection_cost(sizes: TextSizes) -> Cost:
    """Return what `select_documents` takes, with the dictionary of a partition in each task."""
    tokens = int(TOKEN_BYTES * sizes.n_tokens)
    return Cost(sizes.n_partitions, tokens, tokens, min(DICTIONARY_BYTES, ENTRY_BYTES * sizes.n_entries))
