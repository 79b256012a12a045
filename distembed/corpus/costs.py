"""What tokenizing a corpus, and making its vocabulary, take in memory and on disk."""

from __future__ import annotations

from typing import NamedTuple

from distembed.costs import Cost

DICTIONARY_BYTES = 200 * 2**20
"""Bytes of the largest dictionary of a partition: its hash table while it grows, and the columns written from it."""

DICTIONARY_WORD_BYTES = 400
"""Bytes of a word of such a dictionary: 267 of a full one, and half as much for those that a sample did not show."""

DICTIONARY_SHARE = 60
"""Bytes of a dictionary a byte of a partition may need: texts of nothing but new words, compressed four times."""

PHRASE_COPIES = 110
"""Bytes that the names a tokenizer joins take, per byte of their file; measured on 50,000 names."""

SEGMENT_BYTES = 8
"""Bytes of a token of a segment that is still too short: where it is held, and where it is written."""

TOKEN_BYTES, STORED_ENTRY_BYTES, STORED_DOCUMENT_BYTES = 2.03, 12.7, 25
"""Bytes on disk of a token, of a word of the dictionary of a partition, and of a document in its list.

Measured 2.02 to 2.04, 12.7 and 24.7 to 26.3 on 20 and 82 M tokens.
"""

STORED_WORD_BYTES, LISTED_DOCUMENT_BYTES = 9, 17
"""Bytes on disk of a word of the vocabulary, and of a document in the list of all: 8.9 to 9.0, and 13.5 to 18.1."""

SLICE_ENTRIES, SLICE_ENTRY_BYTES = 2**20, 100
"""Words of a slice on its way from the dictionaries of partitions to the vocabulary, and the bytes of each."""

ENTRY_BYTES = 200
"""Bytes an entry of a dictionary takes while the counts of equal words are added, measured."""

LEAST_ENTRIES = 2**18
"""Entries that the vocabulary adds up at a time, however small a block is: fewer would only make more files."""

VOCABULARY_BYTES = 240
"""Bytes a word of the vocabulary takes in the stage that makes it, measured on words of six letters and more."""

DOCUMENT_BYTES = 200
"""Bytes a document takes in the table of the documents of its partition."""

MANY_PARTITIONS, GROUP_DOCUMENTS = 1_000, 2**16
"""More partitions than this share the row groups of the table of documents, each of at least so many documents."""


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


def tokens_cost(
    sizes: TextSizes, *, partition_bytes: int, min_border_tokens: int = 1, phrases_bytes: int = 0
) -> Cost:
    """Return what `tokenize_partition` takes, a task a partition of at most so many bytes.

    `phrases_bytes` are those of the file of names that the tokenizer joins: each process holds them, and each task has
    a dictionary of words and names beside that of words.
    """
    partition = min(partition_bytes, sizes.input_bytes)
    of_words = DICTIONARY_WORD_BYTES * sizes.n_entries
    dictionary = min(DICTIONARY_BYTES, DICTIONARY_SHARE * partition, of_words)
    joined = dictionary // 2 if phrases_bytes else 0
    segment = SEGMENT_BYTES * (min_border_tokens - 1)
    return Cost(
        sizes.n_partitions,
        sizes.input_bytes,
        sizes.stored_bytes,
        2 * partition + dictionary + joined + segment,
        PHRASE_COPIES * phrases_bytes,
    )


def selection_cost(sizes: TextSizes) -> Cost:
    """Return what `select_documents` takes, with the dictionary of a partition in each task."""
    tokens = int(TOKEN_BYTES * sizes.n_tokens)
    return Cost(sizes.n_partitions, tokens, tokens, min(DICTIONARY_BYTES, ENTRY_BYTES * sizes.n_entries))


def words_in_memory(block_memory: int) -> int:
    """Return how many entries of dictionaries `build_vocabulary` may add up at a time: what a block takes."""
    return max(LEAST_ENTRIES, block_memory // ENTRY_BYTES)


def merging_bytes(n_entries: int, block_memory: int) -> int:
    """Return the bytes that merging the dictionaries of all partitions takes."""
    added = min(n_entries, words_in_memory(block_memory))
    return SLICE_ENTRY_BYTES * min(n_entries, SLICE_ENTRIES) + ENTRY_BYTES * added


def vocabulary_cost(sizes: TextSizes, n_candidates: int, n_words: int, *, block_memory: int) -> Cost:
    """Return what `build_vocabulary` takes, and the list of all documents.

    `n_candidates` are the words that are counted often enough, of which the vocabulary has `n_words`.
    """
    documents = DOCUMENT_BYTES * sizes.n_documents // sizes.n_partitions
    if sizes.n_partitions > MANY_PARTITIONS:
        documents += DOCUMENT_BYTES * GROUP_DOCUMENTS
    return Cost(
        1,
        sizes.stored_bytes - int(TOKEN_BYTES * sizes.n_tokens),
        STORED_WORD_BYTES * n_words + LISTED_DOCUMENT_BYTES * sizes.n_documents,
        merging_bytes(sizes.n_entries, block_memory) + VOCABULARY_BYTES * n_candidates + documents,
    )
