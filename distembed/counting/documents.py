"""Counts terms by document: a lazy document-term matrix computed from the token partitions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import dask.array as da
import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, get_index_dtype

from distembed.corpus.partitions import Tokens, open_partition
from distembed.corpus.readers import Corpus
from distembed.corpus.texts import Texts
from distembed.corpus.vocabulary import Vocabulary
from distembed.counting.blocks import TermCounter
from distembed.counting.partition_rows import DictionaryRows, token_rows, tokens_of
from distembed.execution import map_blocks
from distembed.lift import block
from distembed.linalg.chunks import BLOCK_MEMORY

BYTES_PER_TOKEN = 32  # at most a non-zero each: 12 bytes as counted, 8 as returned, and room to move


class DocumentBlock(NamedTuple):
    """A block of rows: documents first..last-1 of one partition."""

    partition: str
    first: int
    last: int


def document_row_blocks(tokens: Tokens, *, block_memory: int = BLOCK_MEMORY) -> list[DocumentBlock]:
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
    limit = max(1, block_memory // BYTES_PER_TOKEN)
    return [block for partition in tokens.partitions for block in _partition_blocks(tokens, partition, limit)]


def _partition_blocks(tokens: Tokens, partition: str, limit: int) -> Iterator[DocumentBlock]:
    lengths = tokens.documents(partition)["n_tokens"].to_numpy()
    ends = np.cumsum(lengths)
    first = 0
    while first < len(lengths):
        before = ends[first - 1] if first else 0
        last = max(first + 1, int(np.searchsorted(ends, before + limit, side="right")))
        yield DocumentBlock(partition, first, last)
        first = last


@block(temporaries=3)
def count_document_block(
    block: DocumentBlock,
    vocabulary: Vocabulary,
    *,
    block_memory: int = BLOCK_MEMORY,
) -> csr_array:
    """Count the terms of one block of documents.

    Returns
    -------
    csr_array
        Shape (last - first, n_words), int32. Words outside the vocabulary are ignored, and a document without
        a known word is an empty row.

    Examples
    --------
    >>> import distembed as de
    >>> from distembed.demos import titles
    >>> docs = de.read_corpus(titles())
    >>> vocabulary = de.build_vocabulary(docs, min_count=2, stop_words="english")
    >>> from distembed.counting.documents import count_document_block, document_row_blocks
    >>> tokens = docs.tokenize()
    >>> count_document_block(document_row_blocks(tokens)[0], vocabulary).shape
    (9, 11)
    """
    documents = range(block.first, block.last)
    counter = TermCounter(len(vocabulary), block.first, block.last)
    with open_partition(block.partition, "words") as words:
        lookup = DictionaryRows(words, vocabulary)
        for rows in token_rows(block.partition, block_memory // 64, documents=documents):
            counter.add(rows, lookup.of(rows.ids))
    counts = counter.result()
    index = get_index_dtype(maxval=int(counts.indptr[-1]))  # four bytes, unless a document is huge
    places = counts.indices.astype(index, copy=False), counts.indptr.astype(index)
    arrays = (counts.values.astype(np.int32), *places)
    return csr_array(arrays, shape=(block.last - block.first, len(vocabulary)))


def count_document_terms(
    docs: Corpus | Tokens | Texts, vocabulary: Vocabulary, *, block_memory: int = BLOCK_MEMORY
) -> da.Array:
    """Count how often each word of the vocabulary occurs in each document.

    Parameters
    ----------
    docs : Corpus, Tokens, column or sequence of texts
        The corpus, its tokens, or the text of each document.
    vocabulary : Vocabulary
        The words to count.
    block_memory : int
        The bytes a task may use; partitions with more tokens than fit are divided into several row blocks.

    Returns
    -------
    dask.array.Array
        Shape (n_documents, n_words), int32, lazy, in csr_array chunks of whole documents in the order of the
        corpus. It equals the result of scikit-learn's CountVectorizer with this vocabulary.

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
    row_blocks = document_row_blocks(tokens, block_memory=block_memory)
    if not row_blocks:
        raise ValueError("There are no documents to count: the corpus is empty.")
    return map_blocks(
        _document_chunk,
        da.from_array(np.fromiter(row_blocks, object, len(row_blocks))[:, np.newaxis], chunks=1),
        chunks=(tuple(block.last - block.first for block in row_blocks), (len(vocabulary),)),
        dtype=np.int32,
        meta=csr_array((0, 0), dtype=np.int32),
        folder=tokens.folder,  # the graph owns it: token files in a temporary folder live as long as the array
        vocabulary=vocabulary,
        block_memory=block_memory,
    )


def _document_chunk(
    box: NDArray[np.object_],
    *,
    folder: Any,  # noqa: ARG001
    vocabulary: Vocabulary,
    block_memory: int,
) -> csr_array:
    block: DocumentBlock = box.item()
    return count_document_block(block, vocabulary, block_memory=block_memory)
