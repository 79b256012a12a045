"""Tokenizes the partitions of a corpus, each once, into three Parquet files per partition.

A partition is tokenized without a vocabulary: it has a dictionary of its own, with ids in order of first
appearance. No word is dropped before all counts are known, and another `min_count` does not require the text
to be read again. To bound the memory, a partition with very many words has several dictionaries, one after
the other: a dictionary that has reached `DICTIONARY_WORDS` is written at the end of a batch, and a new one is
begun. The ids continue from one dictionary to the next; a word that is in several of them has
several ids, and its counts have to be added.

``<partition>.tokens``
    Columns document (int32, the number of the document in the partition) and ids (list<int32>, at most 2^16
    ids per row). Consecutive rows with the same document number are one document. The id -1 is a border, not
    a token.
``<partition>.words``
    Columns word, count (int64) and document_count (int64); row i is the word with id i. No document is
    counted in two rows of the same word.
``<partition>.documents``
    Columns id, title, label (or null), n_tokens (int64) and source_file, and the columns that the source of the
    documents gives.

A partition keeps the id, the title, the label, the file and the fields that the source itself gives. What the path of
a file says of its documents and what a table knows of them is joined later, and text is tokenized without it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from distembed.corpus.mediawiki import read_pages
from distembed.corpus.records import (
    HEADS,
    Batch,
    CorpusError,
    Partition,
    Progress,
    in_pieces,
    read_blocks,
    read_file,
    read_lines,
)
from distembed.corpus.scanners import WORDS_SCHEMA
from distembed.corpus.tables import read_csv, read_json, read_parquet
from distembed.corpus.tokenizer import Tokenizer, scanner
from distembed.display import first_repeat, first_words, plural
from distembed.files import damage_told, failures_told, replacing
from distembed.formats.names import without_compression
from distembed.formats.parquet import ParquetFile
from distembed.formats.tables import read_table, texts_of
from distembed.lift import block
from distembed.urls import url_to_fs

FILE = "source_file"
"""The column of a partition with the file of each document: `Partition.name`."""

EXCERPT = "excerpt"
"""The column with the beginning of a document."""

OF_DOCUMENTS = ("id", "n_tokens", FILE)
"""Columns of documents that no source gives; it can give "title" and "label"."""

DOCUMENTS_SCHEMA = pa.schema(
    [*((name, pa.string()) for name in HEADS), ("n_tokens", pa.int64()), (FILE, pa.string())]
)
"""The columns of the documents of a partition without any of their own."""

KEYS = ("id", "file", "filename", "file_name", "path")
"""Names, in any case, of the column of metadata whose cells are ids or files; without one of them it is the first."""

PIECE = r"(#\d+)+$"
"""What the id of a piece of a document has after that of the whole."""


class DocumentColumns(NamedTuple):
    """The columns that documents get when they are tokenized.

    Attributes
    ----------
    paths : the values that each file's path gives its documents, by its `Partition.name`; None without any
    metadata : a table whose first column has ids of documents or files, and the others what they get, null where empty
    """

    paths: pa.Table | None = None
    metadata: pa.Table | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns."""
        return tuple(name for table in self if table is not None for name in table.column_names[1:])

    def join(self, documents: pa.Table) -> tuple[pa.Table, int]:
        """Return the documents of a partition with these columns, and the number of those without a row of metadata.

        A title or a label that a path or a table gives is the document's own.
        """
        files, given, n_missing = documents[FILE], dict[str, pa.ChunkedArray](), 0
        if self.paths is not None:
            rows = pc.index_in(files, value_set=self.paths[FILE])
            given |= {name: self.paths[name].take(rows) for name in self.paths.column_names[1:]}
        if self.metadata is not None:  # a row names a document by its id, or else by its file
            ids, names, n = documents["id"], files.unique(), len(documents)
            calls = pa.array([key for name in names.to_pylist() for key in file_keys(name)], pa.string())
            asked = [*ids.chunks, *pc.replace_substring_regex(ids, PIECE, "").chunks, calls]
            # Asked at once: each search takes the time of the whole table.
            found = pc.index_in(pa.chunked_array(asked), value_set=self.metadata.column(0), skip_nulls=True)
            by_name = pc.coalesce(*(found[2 * n + place :: 4] for place in range(4)))  # of `file_keys`
            rows = pc.coalesce(found[:n], found[n : 2 * n], by_name.take(pc.index_in(files, value_set=names)))
            n_missing = rows.null_count
            given |= {name: self.metadata[name].take(rows) for name in self.metadata.column_names[1:]}
        columns = dict(zip(documents.column_names, documents.columns, strict=True)) | given
        columns |= {name: pc.coalesce(given[name], documents[name]) for name in HEADS if name in given}
        return pa.table(columns).drop_columns(FILE), n_missing


def read_metadata(url: str) -> pa.Table:
    """Return a table of metadata as text, that of ids or files first; an empty cell is null.

    Raises
    ------
    CorpusError
        If it has no column beside the key, or two rows of one id or file.
    """
    texts = {name: texts_of(column) for name, column in read_table(url, has_options=False).columns.items()}
    key = next((name for name in texts if name.lower() in KEYS), next(iter(texts)))
    if len(texts) == 1:
        raise CorpusError(f"{url} has one column, {key}: add the columns that documents get from it.")
    if found := first_repeat(texts[key]):
        raise CorpusError(f'{url} has two rows of {key} "{found[0]}": remove one of them.')
    cells = {key: texts.pop(key)} | texts
    return pa.table({name: pa.array([text or None for text in cells[name]], pa.string()) for name in cells})


def file_keys(path: str) -> tuple[str, ...]:
    """Return what a table may call a file: its path, its name, and both without their extensions.

    Examples
    --------
    >>> from distembed.corpus.partitions import file_keys
    >>> file_keys("gaskell/wives.txt.gz")
    ('gaskell/wives.txt.gz', 'gaskell/wives', 'wives.txt.gz', 'wives')
    """
    inner = PurePosixPath(without_compression(path)).with_suffix("").as_posix()
    return path, inner, path.rpartition("/")[2], inner.rpartition("/")[2]


def documents_schema(partition: Partition, *, n_excerpt: int = 0) -> pa.Schema:
    """Return the columns of the documents of a partition, with excerpts of so many characters."""
    names = [name for name in partition.carry_fields if name not in HEADS] + [EXCERPT] * bool(n_excerpt)
    return pa.schema([*DOCUMENTS_SCHEMA, *((name, pa.string()) for name in names)])


def document_heads(partition: Partition, batch: Batch, *, n_excerpt: int = 0) -> pa.Table:
    """Return the columns of the documents that begin in a batch, but for their tokens."""
    n = batch.documents.num_rows
    columns = dict(zip(batch.documents.column_names, batch.documents.columns, strict=True))
    columns[FILE] = pa.repeat(partition.name, n)
    if n_excerpt:
        columns[EXCERPT] = pa.array([excerpt(text, n_excerpt) for text in batch.texts()], pa.string())
    names = [name for name in documents_schema(partition, n_excerpt=n_excerpt).names if name != "n_tokens"]
    return pa.table({name: columns.get(name, pa.nulls(n, pa.string())) for name in names})


def excerpt(text: bytes, n_characters: int) -> str:
    r"""Return the beginning of a text with its white space closed up.

    Examples
    --------
    >>> from distembed.corpus.partitions import excerpt
    >>> excerpt(b"One  line\nand the next", 12)
    'One line an…'
    """
    beginning = text[: 16 * n_characters].decode("utf-8", "ignore")[: 4 * n_characters]
    words = " ".join(beginning.split()[:n_characters])
    return words if len(words) <= n_characters else words[: n_characters - 1] + "…"


# ---- token files ---------------------------------------------------------------------------------------------------

READERS: dict[str, Callable[[Partition, Progress], Iterator[Batch]]] = {
    "line": read_lines,
    "blocks": read_blocks,
    "file": read_file,
    "mediawiki": read_pages,
    "jsonl": read_json,
    "csv": read_csv,
    "tsv": read_csv,
    "parquet": read_parquet,
}
TOKENS_VERSION = 3
"""Raised where the same text becomes other token files, so that none of an earlier version is taken over."""
MAX_ROW_IDS = 1 << 16
# Ids held before a row group is written: 4 MiB of them.
ROW_GROUP_IDS = 1 << 20
DOCUMENTS_HELD = 1 << 14
# Three quarters of the scanner's table of 2^20 words, which so has room for the words of another batch.
DICTIONARY_WORDS = 3 << 18
# Documents and words of a partition have numbers of four bytes.
LARGEST_ID = 2**31 - 1

TOKENS_SCHEMA = pa.schema(
    [
        pa.field("document", pa.int32(), nullable=False),
        pa.field("ids", pa.list_(pa.field("element", pa.int32(), nullable=False)), nullable=False),
    ]
)


class TokenBatch(NamedTuple):
    """Some ids of a partition: ``ids[k]`` (int32) is a token of the document ``document[k]`` (int64)."""

    document: NDArray[np.int64]
    ids: NDArray[np.int32]


def read_batches(partition: Partition, progress: Progress | None = None) -> Iterator[Batch]:
    """Yield the batches of text of a partition."""
    with failures_told(partition.url):
        kind = partition.layout if partition.format == "text" else partition.format
        batches = READERS[kind](partition, progress or Progress())
        yield from in_pieces(batches, partition.piece_words) if partition.piece_words else batches


@block(temporaries=14)  # of the largest dictionary, whose words take 28 bytes in a table
def tokenize_partition(
    partition: Partition | Sequence[Partition],
    tokenizer: Tokenizer,
    target: str,
    *,
    n_excerpt: int = 0,
) -> Progress:
    """Tokenize a partition, or several as one, into three files, and return what was read and written.

    They appear at the prefix `target` when they are complete. Documents keep the first `n_excerpt` characters of their
    text in a column "excerpt".

    Raises
    ------
    CorpusError
        If the partition cannot be read; nothing is left at `target`.

    Examples
    --------
    >>> import distembed as de
    >>> from distembed.demos import titles
    >>> docs = de.read_corpus(titles())
    >>> from distembed.corpus.partitions import tokenize_partition
    >>> done = tokenize_partition(docs.partitions[0], de.Tokenizer(), "part-0")
    >>> done.n_documents, done.n_tokens, done.n_words
    (9, 69, 42)
    >>> from pathlib import Path
    >>> sorted(path.name for path in Path().iterdir())
    ['part-0.documents.parquet', 'part-0.tokens.parquet', 'part-0.words.parquet']
    """
    bundle = (partition,) if isinstance(partition, Partition) else partition
    words, progress, n_ids = scanner(tokenizer), Progress(), 0
    # Rows that are not written yet, less than a row group.
    ids, documents = list[pa.Table](), list[pa.Table]()
    with partition_writers(target, documents_schema(bundle[0], n_excerpt=n_excerpt)) as writers:

        def write(kind: str, tables: list[pa.Table]) -> None:
            if tables:
                table = pa.concat_tables(tables).combine_chunks().select(writers[kind].schema.names)
                write_group(writers[kind], table.columns)
                tables.clear()

        def write_words() -> None:
            table = words.words()
            write_group(writers["words"], table.columns)
            progress.n_words += len(table)

        for one in bundle:
            words.source.url = one.url
            for batch in read_batches(one, progress):
                found, stops, n_tokens = words.scan(batch)
                if progress.n_words:
                    found[found >= 0] += progress.n_words
                # The ids are a view of a buffer as large as the text: keep only what is used.
                ids.append(token_rows(found.copy(), stops, progress.n_documents + np.arange(len(stops))))
                heads = document_heads(one, batch, n_excerpt=n_excerpt)
                documents.append(heads.append_column("n_tokens", pa.array(n_tokens)))
                n_ids += len(found)
                progress.n_bytes_text += batch.n_bytes
                progress.n_tokens += int(n_tokens.sum())
                progress.n_documents += len(n_tokens)
                if max(progress.n_documents, progress.n_words + words.source.n_words) > LARGEST_ID:
                    raise CorpusError(
                        f"{one.url} has over {LARGEST_ID:,} documents or distinct words in one task: divide the file."
                    )
                if n_ids >= ROW_GROUP_IDS:
                    write("tokens", ids)
                    n_ids = 0
                if sum(map(len, documents)) >= DOCUMENTS_HELD:
                    write("documents", documents)
                if words.source.n_words >= DICTIONARY_WORDS:
                    write_words()
                    words.forget()
        write("tokens", ids)
        write("documents", documents)
        write_words()
    progress.n_short_segments, progress.n_long_tokens = words.n_short, words.source.n_long
    return progress


def tokenize_bundle(
    index: int, prefix: str, *, bundles: Sequence[Sequence[Partition]], tokenizer: Tokenizer, n_excerpt: int
) -> Mapping[str, Any]:
    """Tokenize a bundle of partitions and return its numbers, those that follow from its content alone."""
    found = vars(tokenize_partition(bundles[index], tokenizer, prefix, n_excerpt=n_excerpt))
    kept = {name: value for name, value in found.items() if name.startswith("n_") and name != "n_bytes_read"}
    return kept | ({"bad_records": list(map(list, bad))} if (bad := found["bad_records"]) else {})


@contextmanager
def partition_writers(target: str, documents: pa.Schema) -> Iterator[dict[str, pq.ParquetWriter]]:
    """Yield the writers of the files of a partition, which have temporary names until the block ends without an error.

    `documents` are the columns of its documents.
    """
    filesystem, path = url_to_fs(target)
    if parent := path.rpartition("/")[0]:
        filesystem.makedirs(parent, exist_ok=True)
    schemas = {"tokens": TOKENS_SCHEMA, "words": WORDS_SCHEMA, "documents": documents}
    with ExitStack() as opened:
        names = [replacing(f"{path}.{kind}.parquet", filesystem=filesystem) for kind in schemas]
        partials = [opened.enter_context(name) for name in names]
        # What is entered last is left first: all three are closed before the first gets its name.
        writers = {}
        for (kind, schema), partial in zip(schemas.items(), partials, strict=True):
            writer = pq.ParquetWriter(
                opened.enter_context(filesystem.open(partial, "wb")),
                schema,
                compression="lz4",
                use_dictionary=[FILE] if kind == "documents" else False,
                write_statistics=False,
                write_page_checksum=True,
                # The four bytes of an id apart: the high ones are nearly all zero, and LZ4 takes them off for nothing.
                column_encoding={"ids.list.element": "BYTE_STREAM_SPLIT"} if kind == "tokens" else None,
            )
            writers[kind] = opened.enter_context(writer)
        yield writers


def write_group(writer: pq.ParquetWriter, columns: Sequence[pa.Array | pa.ChunkedArray]) -> None:
    """Append a row group where there are rows."""
    if len(columns[0]):
        writer.write_table(pa.table(columns, schema=writer.schema), row_group_size=len(columns[0]))


def token_rows(ids: NDArray[np.int32], stops: NDArray[np.int64], documents: NDArray[np.int64]) -> pa.Table:
    """Return the rows of a file of tokens, of one document each, at most 2^16 ids long.

    `stops` says where the ids of each of the `documents` end.
    """
    starts = np.append(0, stops[:-1])
    n_rows = -(-(stops - starts) // MAX_ROW_IDS)
    owner = np.repeat(np.arange(len(stops)), n_rows)
    place = np.arange(len(owner)) - np.repeat(np.cumsum(n_rows) - n_rows, n_rows)
    ends = np.minimum(starts[owner] + (place + 1) * MAX_ROW_IDS, stops[owner])
    offsets = np.append(0, ends).astype(np.int32)
    rows = pa.ListArray.from_arrays(offsets, pa.array(ids), type=TOKENS_SCHEMA.field("ids").type)
    return pa.table([pa.array(documents[owner].astype(np.int32)), rows], schema=TOKENS_SCHEMA)


@dataclass(frozen=True)
class Tokens:
    """A tokenized corpus: its partitions, in the order of the corpus.

    Examples
    --------
    >>> import distembed as de
    >>> from distembed.demos import titles
    >>> docs = de.read_corpus(titles())
    >>> tokens = docs.tokenize()
    >>> len(tokens.partitions), tokens.n_documents
    (1, 9)
    """

    partitions: tuple[str, ...]
    """The URL prefixes of the files of each partition."""
    summaries: tuple[Progress, ...] = field(default=(), compare=False, repr=False)
    """What each of the tasks that wrote them has read and written, where this is known."""
    columns: DocumentColumns = field(default=DocumentColumns(), compare=False, repr=False)
    """What is joined to the documents."""
    # The temporary folder that holds the partitions lives as long as anything that reads them.
    folder: Any = field(default=None, compare=False, repr=False)

    def __repr__(self) -> str:
        return f"Tokens({plural(len(self.partitions), 'partition')}: {first_words(self.partitions)})"

    def __reduce__(self) -> tuple[Any, ...]:
        return Tokens, (self.partitions, self.summaries, self.columns)

    @property
    def n_documents(self) -> int:
        """The number of documents, read from the ends of the files."""
        return sum(open_partition(partition, "documents").metadata.num_rows for partition in self.partitions)

    def iter_partition(self, partition: str, *, n_ids: int = ROW_GROUP_IDS) -> Iterator[TokenBatch]:
        """Yield the ids of a partition, at most about `n_ids` at a time; a batch may end inside a document.

        Examples
        --------
        >>> import distembed as de
        >>> from distembed.demos import titles
        >>> docs = de.read_corpus(titles())
        >>> tokens = docs.tokenize()
        >>> [partition] = tokens.partitions
        >>> [batch] = tokens.iter_partition(partition)
        >>> batch.document[:9].tolist()  # the first title has eight tokens
        [0, 0, 0, 0, 0, 0, 0, 0, 1]
        """
        with open_partition(partition, "tokens") as file:
            for group in range(file.num_row_groups):
                with naming_damage(partition, "tokens"):
                    table = file.read_row_group(group, use_threads=False)
                ids = table.column("ids").combine_chunks()
                offsets = ids.offsets.to_numpy().astype(np.int64)
                values, documents = ids.values.to_numpy(), table["document"].to_numpy().astype(np.int64)
                row = 0
                while row < len(documents):  # whole rows
                    stop = max(row + 1, int(np.searchsorted(offsets, offsets[row] + n_ids, side="right")) - 1)
                    repeats = np.diff(offsets[row : stop + 1])
                    ids_of_rows = values[offsets[row] : offsets[stop]]
                    yield TokenBatch(np.repeat(documents[row:stop], repeats), ids_of_rows)
                    row = stop

    def words(self, partition: str) -> pa.Table:
        """Return the dictionary of a partition: word, count, document_count.

        Examples
        --------
        >>> import distembed as de
        >>> from distembed.demos import titles
        >>> docs = de.read_corpus(titles())
        >>> tokens = docs.tokenize()
        >>> [partition] = tokens.partitions
        >>> tokens.words(partition).column_names
        ['word', 'count', 'document_count']
        """
        return read_partition(partition, "words")

    def documents(self, partition: str) -> pa.Table:
        """Return the documents of a partition: id, title, label, n_tokens, and columns of their own.

        Examples
        --------
        >>> import distembed as de
        >>> from distembed.demos import titles
        >>> docs = de.read_corpus(titles())
        >>> tokens = docs.tokenize()
        >>> [partition] = tokens.partitions
        >>> tokens.documents(partition).column_names
        ['id', 'title', 'label', 'n_tokens']
        """
        return self.columns.join(read_partition(partition, "documents"))[0]


def open_partition(partition: str, kind: str) -> ParquetFile:
    """Open one of the three files of a partition."""
    url = f"{partition}.{kind}.parquet"
    with failures_told(url):
        filesystem, path = url_to_fs(url)
        if not filesystem.exists(path):
            raise FileNotFoundError(f"{url} does not exist; tokenize the corpus again.")
    with naming_damage(partition, kind):
        return ParquetFile(filesystem.open(path, "rb"))


@contextmanager
def naming_damage(partition: str, kind: str) -> Iterator[None]:
    """Name one of the three files of a partition where it is found damaged inside."""
    url = f"{partition}.{kind}.parquet"
    with failures_told(url), damage_told(url, CorpusError, kind, "delete it and tokenize the corpus again"):
        yield


def read_partition(partition: str, kind: str, *, columns: list[str] | None = None) -> pa.Table:
    """Return the whole of one of the files of a partition, or some of its columns."""
    with open_partition(partition, kind) as file, naming_damage(partition, kind):
        return file.read(columns, use_threads=False)


def document_lengths(partition: str) -> NDArray[np.int64]:
    """Return how many tokens each document of a partition has."""
    return read_partition(partition, "documents", columns=["n_tokens"])["n_tokens"].to_numpy()
