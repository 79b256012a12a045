"""Counts terms by document: a lazy document-term matrix computed from the token partitions."""

from __future__ import annotations

from typing import NamedTuple

import dask.array as da
import numpy as np
from scipy.sparse import csr_array, get_index_dtype

from distembed.corpus.partitions import Tokens, document_lengths
from distembed.corpus.readers import Corpus
from distembed.corpus.texts import Texts
from distembed.corpus.vocabulary import Vocabulary
from distembed.counting.partition_rows import partition_lookup, token_rows, tokens_of
from distembed.lift import block, lift
from distembed.states import block_memory

BYTES_PER_TOKEN = 32  # at most a non-zero each: 12 bytes as counted, 8 as returned, and room to move


class DocumentBlock(NamedTuple):
    """A block of rows: documents first..last-1 of one partition."""

    partition: str
    first: int
    last: int


def document_row_blocks(tokens: Tokens) -> list[DocumentBlock]:
    """Return the row blocks of the document-term matrix: one per partition, divided where it exceeds the memory.

    Examples
    --------
    >>> import distembed as de
    >>> from distembed.demos import titles
    >>> docs = de.read_corpus(titles())
    >>> from distembed.counting.documents import document_row_blocks
    >>> [(block.first, block.last) for block in document_row_blocks(docs.tokenize())]
    [(0, 9)]
    """
    limit, found = max(1, block_memory() // BYTES_PER_TOKEN), list[DocumentBlock]()
    for partition in tokens.partitions:
        ends = np.cumsum(document_lengths(partition))
        first = before = 0
        while first < len(ends):
            last = max(first + 1, int(np.searchsorted(ends, before + limit, side="right")))
            found.append(DocumentBlock(partition, first, last))
            first, before = last, ends[last - 1]
    return found


@block(temporaries=2.5)
def count_document_block(
    documents: DocumentBlock,
    vocabulary: Vocabulary,
    *,
    batch_bytes: int,
    folder: object = None,  # noqa: ARG001 - the graph owns it: files in a temporary folder live as long as the array
) -> csr_array:
    """Count the terms of one block of documents.

    Returns
    -------
    csr_array
        Shape (last - first, n_words), int32. Words outside the vocabulary are ignored, and a document without
        a known word is an empty row.
    """
    partition, first, last = documents
    lookup = partition_lookup(partition, vocabulary)
    sizes, found = np.zeros(last - first, np.int64), [np.empty(0, np.int32)]
    for numbers, offsets, ids in token_rows(partition, batch_bytes, range(first, last)):
        words = lookup[ids[offsets[0] : offsets[-1]]]
        found.append(words[words >= 0])
        known = np.append(0, np.cumsum(words >= 0))[offsets - offsets[0]]
        np.add.at(sizes, numbers - first, np.diff(known))
    words, indptr = np.concatenate(found), np.append(0, np.cumsum(sizes))
    index = get_index_dtype(maxval=len(words))  # four bytes, unless a document is huge
    arrays = np.ones(len(words), np.int32), words.astype(index, copy=False), indptr.astype(index)
    counts = csr_array(arrays, shape=(last - first, len(vocabulary)))
    counts.sum_duplicates()
    return counts


def count_document_terms(docs: Corpus | Tokens | Texts, vocabulary: Vocabulary) -> da.Array:
    """Count how often each word of the vocabulary occurs in each document.

    Parameters
    ----------
    docs : Corpus, Tokens, column or sequence of texts
        The corpus, its tokens, or the text of each document.
    vocabulary : Vocabulary
        The words to count.

    Returns
    -------
    dask.array.Array
        Shape (n_documents, n_words), int32, lazy, in csr_array chunks of whole documents in the order of the
        corpus. It equals the result of scikit-learn's CountVectorizer with this vocabulary. A partition with more
        tokens than fit the memory of a task is divided into several chunks.

    Raises
    ------
    ValueError
        If the vocabulary or the corpus is empty.

    Examples
    --------
    >>> import distembed as de
    >>> from distembed.demos import titles
    >>> docs = de.read_corpus(titles())
    >>> vocabulary = de.build_vocabulary(docs, min_count=2, stop_words="english")
    >>> counts = de.count_document_terms(docs, vocabulary)
    >>> counts.shape, counts.dtype
    ((9, 11), dtype('int32'))
    >>> [vocabulary.words[i] for i in counts.compute()[[8]].indices]  # "Graph minors: A survey"
    ['graph', 'minors', 'survey']
    """
    if len(vocabulary) == 0:
        raise ValueError("The vocabulary is empty; build it with a smaller min_count.")
    tokens = tokens_of(docs)
    row_blocks = document_row_blocks(tokens)
    if not row_blocks:
        raise ValueError("There are no documents to count: the corpus is empty.")
    sizes = {"d": tuple(one.last - one.first for one in row_blocks), "w": len(vocabulary)}
    return lift(
        count_document_block, "d->dw", da.from_array(np.fromiter(row_blocks, object), chunks=1),
        dtype=np.int32, sparse=True, sizes=sizes,
        vocabulary=vocabulary, batch_bytes=block_memory() // 64, folder=tokens.folder,
    )  # fmt: skip
