"""Selects documents of a tokenized corpus by their labels, and removes duplicates.

The classes and the duplicates of a collection are known only after it has been read. Documents are therefore
left out of the tokenized partitions, after reading and before anything is counted.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from hashlib import blake2b
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from distembed.corpus.dictionary_blocks import tally
from distembed.corpus.errors import CorpusError
from distembed.corpus.partitions import (
    DICTIONARY_WORDS,
    MAX_ROW_IDS,
    TOKENS_SCHEMA,
    PartitionFiles,
    Tokens,
    read_partition,
)
from distembed.dtypes import Int32s, Int64s, Mask
from distembed.temporaries import block

#: An odd multiplier (that of PCG's generators): its powers tell the places of a document apart.
PLACE_FACTOR = np.uint64(6364136223846793005)


def choose_documents(
    tokens: Tokens, *, labels: Collection[str] = (), drop_duplicates: bool = False
) -> list[Mask]:
    """Return, for each partition, the mask of the documents to keep.

    Parameters
    ----------
    tokens : Tokens
        The tokenized corpus.
    labels : collection of str
        Documents with other labels, or with none, are left out; if it is empty, every document stays.
    drop_duplicates : bool
        Of several documents with the same tokens in the same order only the first stays; documents without a
        token are left out.

    Raises
    ------
    CorpusError
        If no document is left.
    """
    masks = [_with_label(tokens, partition, labels) for partition in tokens.partitions]
    if drop_duplicates:
        digests = [document_digests(tokens, partition) for partition in tokens.partitions]
        masks = first_of_equals(masks, digests)
    if not any(mask.any() for mask in masks):
        names = sorted(
            {label for partition in tokens.partitions for label in _labels(tokens, partition) if label}
        )
        raise CorpusError(
            f"no document is left of those labeled {', '.join(sorted(labels)) or 'anything'}; the labels of the "
            f"collection are {', '.join(names[:20]) or 'none (see corpus.label_field)'}."
        )
    return masks


def _labels(tokens: Tokens, partition: str) -> list[str | None]:
    return tokens.documents(partition)["label"].to_pylist()


def _with_label(tokens: Tokens, partition: str, labels: Collection[str]) -> Mask:
    found = _labels(tokens, partition)
    wanted = set(labels)
    return np.array([not wanted or label in wanted for label in found], dtype=bool)


def document_digests(tokens: Tokens, partition: str) -> NDArray[np.uint64]:
    """Return a 64-bit digest of the tokens of each document of a partition; 0 for a document without tokens.

    ``sum_p hash(word_p) · a^p  mod 2^64`` is equal for equal texts, whatever the dictionary of the partition.
    """
    words = tokens.words(partition)["word"].to_pylist()
    hashes = np.array([_word_hash(word) for word in words], np.uint64)
    n_documents = tokens.documents(partition).num_rows
    digests, places = np.zeros(n_documents, np.uint64), np.zeros(n_documents, np.int64)
    for batch in tokens.iter_partition(partition):
        known = batch.ids >= 0
        documents, ids = batch.document[known], batch.ids[known]
        sizes = np.bincount(documents, minlength=n_documents)
        starts = np.cumsum(sizes) - sizes
        place = np.arange(len(ids)) - (starts - places)[documents]
        powers = np.multiply.accumulate(np.full(int(place.max(initial=0)) + 1, PLACE_FACTOR))
        np.add.at(digests, documents, hashes[ids] * powers[place])
        places += sizes
    return digests


def _word_hash(word: str) -> int:
    return int.from_bytes(blake2b(word.encode(), digest_size=8).digest(), "little")


def first_of_equals(masks: Sequence[Mask], digests: Sequence[NDArray[np.uint64]]) -> list[Mask]:
    """Return the masks with only the first kept document per digest; documents of digest 0 are left out."""
    kept, digest = np.concatenate(masks), np.concatenate(digests)
    places = np.flatnonzero(kept & (digest != 0))
    firsts = places[np.unique(digest[places], return_index=True)[1]]
    chosen = np.zeros(len(kept), dtype=bool)
    chosen[firsts] = True
    return np.split(chosen, np.cumsum([len(mask) for mask in masks])[:-1])


@block(temporaries=6)  # of the largest dictionary, as `tokenize_partition`
def select_documents(tokens: Tokens, partition: str, keep: Mask, target: str) -> dict[str, int]:
    """Write the kept documents of a partition as a partition at the prefix `target`; return its totals.

    The dictionary keeps its ids; a word that occurs in no kept document has count 0.
    """
    number = np.cumsum(keep) - 1
    words, documents = tokens.words(partition), read_partition(partition, "documents").filter(pa.array(keep))
    stats = np.tile(np.array([0, 0, -1]), (words.num_rows, 1))  # tokens, documents, the last document
    # A long document may hold a word by two ids, of two dictionaries: it is counted by the first.
    own = np.append(pc.index_in(words["word"], value_set=words["word"]).to_numpy(), -1).astype(np.int32)
    with PartitionFiles(target, documents=documents.schema) as files:
        for batch in tokens.iter_partition(partition):
            stays = keep[batch.document]
            document, ids = number[batch.document[stays]], batch.ids[stays]
            if len(ids):
                files.write("tokens", _rows(document, ids))
                stops = np.append(np.flatnonzero(np.diff(document)) + 1, len(ids))
                tally(own[ids], stops, document[stops - 1], stats, np.empty(len(stops), np.int64))
        columns = [words["word"].combine_chunks(), pa.array(stats[:, 0]), pa.array(stats[:, 1])]
        for first in range(0, words.num_rows, DICTIONARY_WORDS):
            files.write("words", [column.slice(first, DICTIONARY_WORDS) for column in columns])
        if documents.num_rows:
            files.write("documents", [column.combine_chunks() for column in documents.columns])
    return {"n_documents": documents.num_rows, "n_tokens": int(stats[:, 0].sum())}


def _rows(document: Int64s, ids: Int32s) -> list[pa.Array]:
    """Return ids as rows of one document each, at most 2^16 ids long."""
    change = np.flatnonzero(np.diff(document)) + 1
    bounds = np.concatenate([[0], change, [len(ids)]])
    pieces = [np.arange(a, b, MAX_ROW_IDS) for a, b in pairwise(bounds)]
    starts = np.concatenate(pieces)
    offsets = np.append(starts, len(ids)).astype(np.int32)
    rows = pa.ListArray.from_arrays(offsets, pa.array(ids), type=TOKENS_SCHEMA.field("ids").type)
    return [pa.array(document[starts].astype(np.int32)), rows]
