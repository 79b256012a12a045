"""Selects documents of a tokenized corpus by their labels, and removes duplicates.

The classes and the duplicates of a collection are known only after it has been read. Documents are therefore
left out of the tokenized partitions, after reading and before anything is counted.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from distembed.corpus.partitions import (
    DICTIONARY_WORDS,
    Tokens,
    partition_writers,
    read_partition,
    token_rows,
    write_group,
)
from distembed.corpus.records import CorpusError
from distembed.corpus.scanners import hashes_of, tally
from distembed.dtypes import Mask
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
    found = [tokens.documents(partition)["label"] for partition in tokens.partitions]
    wanted = pa.array(sorted(labels), pa.string())
    masks = [pc.is_in(one, wanted).to_numpy() if labels else np.ones(len(one), bool) for one in found]
    keep = np.concatenate(masks)
    if drop_duplicates:
        digests = np.concatenate([document_digests(tokens, partition) for partition in tokens.partitions])
        places = np.flatnonzero(keep & (digests != 0))
        keep = np.zeros(len(keep), bool)
        keep[places[np.unique(digests[places], return_index=True)[1]]] = True
    if not keep.any():
        names = sorted({label for one in found for label in one.unique().to_pylist() if label})
        raise CorpusError(
            f"no document is left of those labeled {', '.join(sorted(labels)) or 'anything'}; the labels of the "
            f"collection are {', '.join(names[:20]) or 'none (see corpus.label_field)'}."
        )
    return np.split(keep, np.cumsum([len(mask) for mask in masks])[:-1])


def document_digests(tokens: Tokens, partition: str) -> NDArray[np.uint64]:
    """Return a 64-bit digest of the tokens of each document of a partition; 0 for a document without tokens.

    ``sum_p hash(word_p) · a^p  mod 2^64`` is equal for equal texts, whatever the dictionary of the partition.
    """
    hashes = hashes_of(tokens.words(partition)["word"].combine_chunks())
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


@block(temporaries=6)  # of the largest dictionary, as `tokenize_partition`
def select_documents(tokens: Tokens, partition: str, keep: Mask, target: str) -> dict[str, int]:
    """Write the kept documents of a partition as a partition at the prefix `target`; return its totals.

    The dictionary keeps its ids; a word that occurs in no kept document has count 0.
    """
    number = np.cumsum(keep) - 1
    words, documents = tokens.words(partition), read_partition(partition, "documents").filter(pa.array(keep))
    stats = np.tile(np.array([0, 0, -1]), (words.num_rows, 1))  # tokens, documents, the last document
    with partition_writers(target, documents.schema) as writers:
        for batch in tokens.iter_partition(partition):
            stays = keep[batch.document]
            document, ids = number[batch.document[stays]], batch.ids[stays]
            if len(ids):
                stops = np.append(np.flatnonzero(np.diff(document)) + 1, len(ids))
                of = document[stops - 1]
                write_group(writers["tokens"], token_rows(ids, stops, of).columns)
                tally(ids, np.append(0, stops[:-1]), stops, of, stats, np.empty(len(stops), np.int64))
        columns = [words["word"], pa.chunked_array([stats[:, 0]]), pa.chunked_array([stats[:, 1]])]
        for first in range(0, words.num_rows, DICTIONARY_WORDS):
            write_group(writers["words"], [column.slice(first, DICTIONARY_WORDS) for column in columns])
        write_group(writers["documents"], documents.columns)
    return {"n_documents": documents.num_rows, "n_tokens": int(stats[:, 0].sum())}
