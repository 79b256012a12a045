"""Merges the dictionaries of partitions into a vocabulary: exact counts of every word, in bounded memory.

The counts of partitions only have to be added. If the dictionaries together hold more than `words_in_memory`
entries, they are first distributed by a hash of the word into buckets on disk, and a bucket that is still too
large is distributed again; every bucket then has the complete counts of its words, and drops those that the
vocabulary will not take. All counts of all words are exact. At any time one slice of words or one bucket is
in memory, together with the words that are kept; at most `MAX_BUCKETS` files are open.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any, overload

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from distembed.corpus.partitions import Tokens, open_partition
from distembed.corpus.readers import Corpus
from distembed.corpus.records import CorpusError
from distembed.corpus.scanners import WORDS_SCHEMA, hashes_of
from distembed.corpus.stop_words import stop_words_of
from distembed.corpus.texts import Texts, tokenized
from distembed.display import MAX_ROWS, first_words, html_view, plural
from distembed.files import damage_told, failures_told, replacing
from distembed.formats.parquet import ParquetFile, whole_table
from distembed.lift import block
from distembed.options import PositiveInt, check_options
from distembed.scratch import Scratch
from distembed.typing import Frame
from distembed.urls import opened

# Bytes an entry of a dictionary takes while the counts of equal words are added, measured.
ENTRY_BYTES = 200
# Entries that are added up at a time, however small a block is: fewer would only make more files.
LEAST_ENTRIES = 2**18
# About 100 bytes an entry while they are added up: 400 MB.
WORDS_IN_MEMORY = 4_000_000
# Files written at a time: a process may open 1,024 on most systems, and others are open already.
MAX_BUCKETS = 256
# Entries dealt out at a time, so that a bucket's row groups hold thousands of words.
SLICE_WORDS = 1 << 20
# 256^3 buckets: what is still too large then is one word in very many partitions.
MAX_DEALS = 3


@dataclass(frozen=True, eq=False, init=False)
class Vocabulary:
    """The words of a model; row i of every array is word i.

    Parameters
    ----------
    words : sequence of str or pyarrow.Array (n,)
        The words, in the order of the rows.
    counts : int64 array (n,)
        The number of tokens of each word.
    document_counts : int64 array (n,)
        The number of documents with each word.

    Examples
    --------
    >>> import distembed as de
    >>> vocabulary = de.Vocabulary(["the", "cat", "dog"], [120, 7, 5], [40, 6, 5])
    >>> vocabulary
    Vocabulary(3 words, 132 tokens: 'the', 'cat', 'dog')
    >>> len(vocabulary), "cat" in vocabulary, vocabulary.words[1]
    (3, True, 'cat')
    """

    array: pa.Array
    """The words, in order of falling count; ties are in the order of code points. A pyarrow.Array (n,)."""
    counts: NDArray[np.int64]
    """The number of tokens of each word. Int64 array (n,)."""
    document_counts: NDArray[np.int64]
    """The number of documents with each word; -1 for a file that holds only words and counts. Int64 array (n,)."""

    def __init__(
        self,
        words: Sequence[str] | pa.Array,
        counts: NDArray[np.int64],
        document_counts: NDArray[np.int64],
    ) -> None:
        if not len(words) == len(counts) == len(document_counts):
            raise ValueError(
                f"{len(words)} words, {len(counts)} counts and {len(document_counts)} document counts "
                f"were given: give one count of each kind per word."
            )
        array = words if isinstance(words, pa.Array) else pa.array(words, pa.string())
        counts, document_counts = np.asarray(counts, np.int64), np.asarray(document_counts, np.int64)
        faulty = np.nonzero(np.asarray(array.is_null()) | (counts < 0))[0]
        if faulty.size:
            at = int(faulty[0])
            raise ValueError(
                f"Entry {at + 1} of the vocabulary is the word {array[at].as_py()!r} with the count {counts[at]}; "
                "give a word and a count of 0 or more, or remove it."
            )
        if len(array.unique()) != len(array):
            repeated = array.value_counts().filter(pc.greater(array.value_counts().field("counts"), 1))
            raise ValueError(
                f'The word "{repeated[0]["values"]}" is in the vocabulary twice; remove one of them.'
            )
        object.__setattr__(self, "array", array)
        object.__setattr__(self, "counts", counts)
        object.__setattr__(self, "document_counts", document_counts)

    @property
    def nbytes(self) -> int:
        """The bytes of the words and their counts in memory."""
        return int(self.array.nbytes + self.counts.nbytes + self.document_counts.nbytes)

    @cached_property
    def words(self) -> list[str]:
        """The words as a list, created on first use; it takes 70 bytes per word more than `array`."""
        found: list[str] = self.array.to_pylist()
        return found

    def __reduce__(self) -> tuple[Any, ...]:
        return Vocabulary, (self.array, self.counts, self.document_counts)

    def __repr__(self) -> str:
        return f"Vocabulary({self._size()}: {first_words(self.words)})"

    def _repr_html_(self) -> str:
        first = self.take(np.arange(min(MAX_ROWS, len(self))))
        rows = list(zip(first.words, first.counts.tolist(), first.document_counts.tolist(), strict=True))
        headings = ("word", "count", "documents")
        return html_view(f"Vocabulary: {self._size()}", headings, rows, n_more=len(self) - len(rows))

    def _size(self) -> str:
        return f"{plural(len(self), 'word')}, {plural(int(self.counts.sum()), 'token')}"

    def __len__(self) -> int:
        return len(self.array)

    def __iter__(self) -> Iterator[str]:
        return iter(self.words)

    def to_pandas(self) -> Frame:
        """Return a data frame of the counts, with the words as its index.

        Examples
        --------
        >>> import distembed as de
        >>> de.Vocabulary(["the", "cat"], [120, 7], [40, 6]).to_pandas().loc["cat"].tolist()
        [7, 6]
        """
        columns = {"word": self.array, "count": self.counts, "document_count": self.document_counts}
        return pa.table(columns).to_pandas().set_index("word")

    def __contains__(self, word: object) -> bool:
        return isinstance(word, str) and bool(self.index([word])[0] >= 0)

    def take(self, rows: NDArray[np.int64]) -> Vocabulary:
        """Return the words of some rows, in the order given, with their counts.

        Parameters
        ----------
        rows : int array (m,)

        Returns
        -------
        Vocabulary
            Of m words.

        Examples
        --------
        >>> import distembed as de
        >>> vocabulary = de.Vocabulary(["the", "cat", "dog"], [120, 7, 5], [40, 6, 5])
        >>> pets = vocabulary.take(vocabulary.index(["dog", "cat"]))
        >>> pets.words, pets.counts.tolist()
        (['dog', 'cat'], [5, 7])
        """
        return Vocabulary(self.array.take(pa.array(rows)), self.counts[rows], self.document_counts[rows])

    @overload
    def index(self, words: str) -> int: ...  # type: ignore[overload-overlap]

    @overload
    def index(self, words: Sequence[str] | pa.Array | pa.ChunkedArray) -> NDArray[np.int32]: ...

    def index(self, words: str | Sequence[str] | pa.Array | pa.ChunkedArray) -> int | NDArray[np.int32]:
        """Return the row of a word, or of each of several as an int32 array (m,), -1 for unknown words.

        Examples
        --------
        >>> import distembed as de
        >>> vocabulary = de.Vocabulary(["the", "cat", "dog"], [120, 7, 5], [40, 6, 5])
        >>> vocabulary.index(["dog", "wolf", "the"]).tolist(), vocabulary.index("dog")
        ([2, -1, 0], 2)
        """
        if isinstance(words, str):
            return int(self.index([words])[0])
        if isinstance(words, pa.ChunkedArray):
            words = words.combine_chunks()
        if not isinstance(words, pa.Array):
            words = pa.array(list(words), pa.string())
        found = pc.index_in(words.cast(pa.string()), value_set=self.array)
        return np.asarray(found.fill_null(-1).to_numpy(zero_copy_only=False), np.int32)

    def save(self, path: str | Path) -> None:
        """Write a Parquet file.

        Parameters
        ----------
        path : str or Path

        Examples
        --------
        >>> import distembed as de
        >>> de.Vocabulary(["the", "cat", "dog"], [120, 7, 5], [40, 6, 5]).save("words.parquet")
        >>> de.Vocabulary.load("words.parquet").words
        ['the', 'cat', 'dog']
        """
        columns = [self.array, pa.array(self.counts), pa.array(self.document_counts)]
        with replacing(str(path)) as partial:
            pq.write_table(pa.table(columns, schema=WORDS_SCHEMA), partial, write_page_checksum=True)

    @classmethod
    def load(cls, path: str | Path) -> Vocabulary:
        """Read a file written by `save`, or another one of words and their counts.

        Parameters
        ----------
        path : str or Path
            A Parquet file with the columns word and count. The column document_count may be missing; the counts are -1
            then.

        Raises
        ------
        ValueError
            If the file cannot be read, a column is missing or holds something else, or a word occurs twice.

        Examples
        --------
        >>> import distembed as de
        >>> import pyarrow as pa
        >>> import pyarrow.parquet as pq
        >>> pq.write_table(pa.table({"word": ["the", "cat"], "count": [120, 7]}), "counts.parquet")
        >>> vocabulary = de.Vocabulary.load("counts.parquet")
        >>> vocabulary.words, vocabulary.counts.tolist(), vocabulary.document_counts.tolist()
        (['the', 'cat'], [120, 7], [-1, -1])
        """
        with damage_told(str(path), ValueError, "a Parquet file"), opened(path) as file:
            table = whole_table(file)
        if "document_count" not in table.column_names:
            table = table.append_column("document_count", pa.repeat(UNKNOWN_COUNT, len(table)))
        try:
            found = table.select(WORDS_SCHEMA.names).cast(WORDS_SCHEMA)
        except (KeyError, pa.ArrowException) as error:
            raise ValueError(
                f"{path}: a vocabulary needs the columns word, of text, and count, of whole numbers, and may have "
                f"document_count, but {error}; correct the file."
            ) from error
        if gaps := [name for name in WORDS_SCHEMA.names if found[name].null_count]:
            row = found[gaps[0]].is_null().index(True).as_py() + 1
            raise ValueError(f"{path}: row {row} has no {gaps[0]}; give it one, or remove the row.")
        try:
            return cls.from_table(found)
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from error

    @classmethod
    def from_table(cls, table: pa.Table) -> Vocabulary:
        """Return the vocabulary of a table with the columns word, count and document_count, as workspaces have it.

        Parameters
        ----------
        table : pyarrow.Table

        Returns
        -------
        Vocabulary

        Examples
        --------
        >>> import distembed as de
        >>> import pyarrow as pa
        >>> table = pa.table({"word": ["the", "cat"], "count": [120, 7], "document_count": [40, 6]})
        >>> de.Vocabulary.from_table(table)
        Vocabulary(2 words, 127 tokens: 'the', 'cat')
        """
        counts, document_counts = (table[name].to_numpy().copy() for name in ("count", "document_count"))
        return cls(table["word"].combine_chunks(), counts, document_counts)


UNKNOWN_COUNT = -1
"""The document count of a word where a file has none."""


@block(temporaries=8)  # of the words that are added up at a time, and of those that are found
def build_vocabulary(
    docs: Corpus | Tokens | Texts,
    *,
    min_count: PositiveInt = 1,
    max_size: PositiveInt | None = None,
    keep: Iterable[str] = (),
    min_documents: PositiveInt = 1,
    max_share: float = 1.0,
    stop_words: Iterable[str] = (),
    words_in_memory: int = WORDS_IN_MEMORY,
    scratch: str | Path | None = None,
) -> Vocabulary:
    """Return the vocabulary of a corpus with exact counts, in falling order; ties are in the order of code points.

    Parameters
    ----------
    docs : Corpus, Tokens, column or sequence of texts
        The corpus, which is tokenized first if that has not been done; or the text of each document.
    min_count : int
        Smallest number of tokens of a word; rarer words are left out.
    max_size : int, optional
        Largest number of words; the most frequent words are taken. None means all.
    keep : iterable of str
        Words that are taken whatever their count, if they occur in the corpus.
    min_documents : int
        Words in fewer documents are left out.
    max_share : float
        Words in a larger share of the documents are left out.
    stop_words : iterable of str
        Words that are left out; "english" is scikit-learn's list with contractions, "none" for no word.
    words_in_memory : int
        The largest number of dictionary entries added up in memory; more entries go through `scratch`.
    scratch : str or Path, optional
        The folder for temporary files.

    Returns
    -------
    Vocabulary
        Words, counts and document counts.

    Raises
    ------
    CorpusError
        If no word reaches `min_count`.
    ValueError
        If no word is left by the other rules.

    Examples
    --------
    >>> import distembed as de
    >>> from distembed.demos import titles
    >>> docs = de.read_corpus(titles())
    >>> vocabulary = de.build_vocabulary(docs, min_count=2, stop_words="english")
    >>> vocabulary.words[:5], vocabulary.counts[:5].tolist()
    (['graph', 'trees', 'user', 'computer', 'eps'], [3, 3, 3, 2, 2])
    """
    if min_documents != int(min_documents):
        raise TypeError(
            f"min_documents is {min_documents!r}; give a number of documents, or a share as max_share."
        )
    if isinstance(keep, str):
        raise TypeError(f"keep is the text {keep!r}; give a list of words.")
    check_options(build_vocabulary, locals())
    tokens, left_out = tokenized(docs, scratch), stop_words_of(stop_words)
    kept = pa.array(set(keep), pa.string())
    # The share is the decimal that it is read as: 29 of 100 are one of 0.29, although 0.29 * 100 is a little less.
    most = None if max_share >= 1 else int(Fraction(str(max_share)) * tokens.n_documents)

    def most_frequent(table: pa.Table) -> pa.Table:
        """Return the words to keep and the most frequent others, in the order of a vocabulary."""
        table = table.sort_by([("kept", "descending"), ("count", "descending"), ("word", "ascending")])
        if max_size is not None:
            table = table.slice(0, max(max_size, pc.sum(table["kept"]).as_py() or 0))
        return table.sort_by([("count", "descending"), ("word", "ascending")])

    chosen, n_frequent, largest, n_entries = list[pa.Table](), 0, 0, 0
    for partition in tokens.partitions:
        with open_partition(partition, "words") as file:
            n_entries += file.metadata.num_rows
    files = ((open_partition(each, "words"), f"{each}.words.parquet") for each in tokens.partitions)
    slices = (part for file, url in files for part in _row_groups(file, url))
    with Scratch("distembed-", scratch) as folder:
        for table in merged(slices, n_entries, words_in_memory=words_in_memory, folder=Path(folder)):
            is_kept = pc.is_in(table["word"], value_set=kept)
            is_frequent = pc.or_(is_kept, pc.greater_equal(table["count"], min_count))
            frequent = table.append_column("kept", is_kept).filter(is_frequent)
            largest = max(largest, pc.max(table["count"]).as_py() or 0)
            n_frequent += len(frequent)
            in_documents = frequent["document_count"].to_numpy()
            wanted = in_documents >= min_documents
            if most is not None:
                wanted &= in_documents <= most
            if left_out:
                words = frequent["word"].to_pylist()
                wanted &= [word not in left_out and word.lower() not in left_out for word in words]
            chosen.append(most_frequent(frequent.filter(pa.array(wanted | frequent["kept"].to_numpy()))))
    if not n_frequent:
        remedy = (
            f"min_count is {min_count} and the largest count of a word is {largest}; give a smaller min_count, or "
            "check the tokenizer."
            if largest
            else "no word was found in the corpus; look at its first lines, its encoding and what the tokenizer takes "
            "for a word."
        )
        raise CorpusError(f"The vocabulary is empty: {remedy}")
    table = most_frequent(pa.concat_tables(chosen))
    if not table.num_rows:
        raise ValueError(
            f"None of {n_frequent} words is in {min_documents} or more documents, in at most {max_share:.0%} "
            f"of {tokens.n_documents}, and not a stop word; lower min_documents or raise max_share."
        )
    return Vocabulary.from_table(table)


def words_in_memory(block_memory: int) -> int:
    """Return how many entries of dictionaries `build_vocabulary` may add up at a time: what a block takes."""
    return max(LEAST_ENTRIES, block_memory // ENTRY_BYTES)


def _row_groups(file: ParquetFile, url: str) -> Iterator[pa.Table]:
    damage = damage_told(url, CorpusError, "words", "delete it and tokenize the corpus again")
    with file, failures_told(url), damage:
        for group in range(file.num_row_groups):
            yield file.read_row_group(group, use_threads=False)


def merged(
    slices: Iterable[pa.Table], n_entries: int, *, words_in_memory: int, folder: Path, n_deals: int = 0
) -> Iterator[pa.Table]:
    """Yield tables of distinct words with their counts, each added up from at most `words_in_memory` entries.

    Parameters
    ----------
    slices : iterable of pyarrow.Table
        Words with counts.
    n_entries : int
        The number of rows of all slices.
    words_in_memory : int
        The largest number of rows to add up at a time.
    folder : Path
        The folder for the buckets, files of words by a hash of them, which are removed afterwards.
    n_deals : int
        The number of times the slices have been distributed already.
    """
    if n_entries <= words_in_memory or n_deals == MAX_DEALS:
        table = pa.concat_tables([WORDS_SCHEMA.empty_table(), *slices])
        sums = table.group_by("word").aggregate([("count", "sum"), ("document_count", "sum")])
        yield pa.table([sums["word"], sums["count_sum"], sums["document_count_sum"]], schema=WORDS_SCHEMA)
        return
    n_buckets = min(-(-n_entries // words_in_memory) + 1, MAX_BUCKETS)
    paths = [folder / f"{n_deals}-{number:03d}.parquet" for number in range(n_buckets)]
    options = {"compression": "lz4", "use_dictionary": False}
    sizes = np.zeros(n_buckets, np.int64)
    with ExitStack() as stack:
        writers = [
            stack.enter_context(pq.ParquetWriter(path, WORDS_SCHEMA, write_page_checksum=True, **options))
            for path in paths
        ]
        for table in join_slices(slices, SLICE_WORDS):
            hashes = hashes_of(table.column("word").combine_chunks(), n_deals)
            bucket = (hashes >> np.uint64(32)) % np.uint64(n_buckets)
            order, n_dealt = np.argsort(bucket, kind="stable"), np.bincount(bucket.astype(np.int64))
            for number, rows in enumerate(np.split(order, np.cumsum(n_dealt)[:-1])):
                if len(rows):
                    writers[number].write_table(table.take(pa.array(rows)))
                    sizes[number] += len(rows)
    for path, size in zip(paths, sizes.tolist(), strict=True):
        yield from merged(
            _row_groups(ParquetFile(path), str(path)),
            size,
            words_in_memory=words_in_memory,
            folder=folder,
            n_deals=n_deals + 1,
        )
        path.unlink()


def join_slices(slices: Iterable[pa.Table], least_rows: int) -> Iterator[pa.Table]:
    """Yield the rows of tables in tables of at least so many rows, but for the last."""
    held: list[pa.Table] = []
    n_held = 0
    for table in slices:
        held.append(table)
        n_held += table.num_rows
        if n_held >= least_rows:
            yield pa.concat_tables(held)
            held, n_held = [], 0
    if held:
        yield pa.concat_tables(held)
