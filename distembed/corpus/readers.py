"""A corpus: files of any supported kind, divided into partitions that tasks read independently.

`read_corpus` looks at names, sizes and first bytes only. `Corpus.documents` yields the documents one by one;
`Corpus.tokenize` runs one task per partition on the current Dask scheduler and keeps its result.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any, Literal, NamedTuple
from zlib import crc32

import pyarrow as pa

from distembed.corpus.partitions import (
    FILE,
    OF_DOCUMENTS,
    DocumentColumns,
    Tokens,
    read_batches,
    read_metadata,
    tokenize_partition,
)
from distembed.corpus.paths import Format, find_files, name_files
from distembed.corpus.planning import plan_files
from distembed.corpus.records import HEADS, BadRecord, CorpusError, Partition
from distembed.corpus.tokenizer import Tokenizer
from distembed.display import MAX_ROWS, first_words, html_view, plural
from distembed.execution import compute, delayed
from distembed.formats.encodings import text_encoding
from distembed.options import PositiveInt, check_options
from distembed.scratch import Scratch

# One task: a second of text, some five seconds of compressed XML.
PARTITION_BYTES = 1 << 25

FEWEST_BUNDLES = 256
"""Small files are read together only so far that there are about so many tasks, for many workers."""


class Document(NamedTuple):
    """One document of a corpus; `text` is plain text, and `label` is None for a document without a label."""

    id: str
    title: str
    label: str | None
    text: str


@dataclass(frozen=True, eq=False)
class Corpus:
    """The documents of some files, and the tokenizer that will be applied to them.

    Examples
    --------
    >>> import distembed as de
    >>> from distembed.demos import titles
    >>> docs = de.read_corpus(titles())
    >>> len(docs.partitions), docs.partitions[0].format, docs.partitions[0].encoding
    (1, 'text', 'utf-8')
    """

    partitions: tuple[Partition, ...]
    """What the tasks read, in order."""
    tokenizer: Tokenizer = field(default_factory=Tokenizer)
    """How text becomes tokens."""
    scratch: str | None = None
    """The folder in which `tokenize` creates its temporary folder; None means the system's."""
    refused: tuple[BadRecord, ...] = ()
    """The files that were left out, each with the reason."""
    partition_bytes: int = PARTITION_BYTES
    """The most bytes of several small files that one task reads."""
    columns: DocumentColumns = field(default=DocumentColumns(), repr=False)
    """What documents get beside what their own source says of them."""
    _cache: dict[str | None, Tokens] = field(default_factory=dict, repr=False)

    def __repr__(self) -> str:
        return f"Corpus({self._size()}: {first_words(self._files())})"

    def _repr_html_(self) -> str:
        partitions = Counter((partition.url, partition.format) for partition in self.partitions)
        rows = [(*file, n) for file, n in partitions.items()]
        title, n_more = f"Corpus: {self._size()}; {self.tokenizer}", len(rows) - MAX_ROWS
        return html_view(title, ("file", "format", "partitions"), rows[:MAX_ROWS], n_more=n_more)

    def _files(self) -> list[str]:
        return list(dict.fromkeys(partition.url for partition in self.partitions))

    def _size(self) -> str:
        return f"{plural(len(self._files()), 'file')}, {plural(len(self.partitions), 'partition')}"

    def __reduce__(self) -> tuple[Any, ...]:
        options = (self.scratch, self.refused, self.partition_bytes, self.columns)
        return Corpus, (self.partitions, self.tokenizer, *options)

    @property
    def notes(self) -> tuple[str, ...]:
        """What a user should know of the files, a sentence for each."""
        return tuple(f"left out: {record.reason}" for record in self.refused)

    @cached_property
    def bundles(self) -> tuple[tuple[Partition, ...], ...]:
        """The partitions that each task reads: of a corpus of many small files several that follow each other.

        A bundle ends where it is full, and before a file whose name says so. A corpus to which files are added,
        wherever among the others they come, therefore keeps nearly all of its bundles, until it is twice as large.

        Examples
        --------
        >>> import distembed as de
        >>> from distembed.demos import titles
        >>> [len(bundle) for bundle in de.read_corpus(titles()).bundles]
        [1]
        """
        n_bytes = sum(partition.n_bytes for partition in self.partitions)
        is_small, most = len(self.partitions) <= FEWEST_BUNDLES, n_bytes // FEWEST_BUNDLES
        # The power of two above the mean.
        room = 0 if is_small else min(self.partition_bytes, 1 << most.bit_length())
        bundles: list[list[Partition]] = []
        filled = room
        for partition in self.partitions:
            name = f"{partition.name} {partition.start}".encode(errors="surrogateescape")
            # On average once in as many bytes as a bundle has room for.
            begins_one = not bundles or crc32(name) * room < partition.n_bytes << 32
            if begins_one or filled + partition.n_bytes > room:
                bundles.append([])
                filled = 0
            bundles[-1].append(partition)
            filled += partition.n_bytes
        return tuple(map(tuple, bundles))

    def documents(self) -> Iterator[Document]:
        """Yield the documents one by one; meant for looking at a corpus, and for tests.

        Examples
        --------
        >>> import distembed as de
        >>> from distembed.demos import titles
        >>> first = next(de.read_corpus(titles()).documents())
        >>> first.id, first.text
        ('titles.txt:0', 'Human machine interface for Lab ABC computer applications')
        """
        for batch in chain.from_iterable(map(read_batches, self.partitions)):
            heads = (batch.documents[name].to_pylist() for name in HEADS)
            for text, ident, title, label in zip(batch.texts(), *heads, strict=True):
                yield Document(ident, title, label, text.decode())

    def tokenize(self, folder: str | Path | None = None) -> Tokens:
        """Tokenize all partitions, a bundle of them in each Dask task; a second call returns the first result.

        Parameters
        ----------
        folder : str or Path, optional
            Where the token files are written: a path or an fsspec URL that all workers can reach. By default
            a temporary folder, which is removed when neither the corpus nor its tokens are in use any more and no
            client of a cluster waits for any result.

        Returns
        -------
        Tokens
            The tokenized partitions.

        Raises
        ------
        CorpusError
            If a file cannot be read, or no document is found in any file.

        Examples
        --------
        >>> import distembed as de
        >>> from distembed.demos import titles
        >>> tokens = de.read_corpus(titles()).tokenize()
        >>> tokens.n_documents, sum(summary.n_tokens for summary in tokens.summaries)
        (9, 69)
        >>> words = tokens.words(tokens.partitions[0]).to_pylist()
        >>> next(row for row in words if row["word"] == "graph")
        {'word': 'graph', 'count': 3, 'document_count': 3}
        """
        key = None if folder is None else str(folder)
        if key in self._cache:
            return self._cache[key]
        temporary = Scratch("distembed-", self.scratch) if folder is None else None
        url = str(folder) if temporary is None else temporary.url
        task = delayed(tokenize_partition, pure=False)
        targets = [f"{url.rstrip('/')}/part-{number:05d}" for number in range(len(self.bundles))]
        # One collection: Dask's cull is quadratic in the number of collections.
        pairs = zip(self.bundles, targets, strict=True)
        summaries = compute(
            delayed(tuple)([task(bundle, self.tokenizer, target) for bundle, target in pairs])
        )
        if not any(summary.n_documents for summary in summaries):
            skipped = sum(one.n_skipped_pages for one in summaries)
            bad = sum(one.n_bad_records for one in summaries)
            raise CorpusError(
                f"{name_files(self._files())}: no document found ({skipped} pages were left out as redirects or of "
                f"other namespaces, and {bad} bad records); check format=, layout= and namespaces=."
            )
        self._cache[key] = Tokens(tuple(targets), summaries, columns=self.columns, folder=temporary)
        return self._cache[key]


Layout = Literal["line", "blocks", "file"]
"""Of plain text: a document on each line, documents between blank lines, or each file a document."""

BadRecords = Literal["error", "skip"]
"""What a record that cannot be read does: it ends the reading, or it is left out and counted."""


def read_corpus(
    paths: str | Path | Sequence[str | Path],
    *,
    format: Format = "auto",  # noqa: A002 - the field's word
    tokenizer: Tokenizer | None = None,
    partition_bytes: PositiveInt = PARTITION_BYTES,
    namespaces: Iterable[int] | None = (0,),
    text_field: str | Sequence[str] = "text",
    id_field: str | None = None,
    title_field: str | None = None,
    label_field: str | None = None,
    carry_fields: Sequence[str] = (),
    path_fields: Sequence[str] = (),
    metadata: str | Path | None = None,
    encoding: str | None = None,
    errors: Literal["strict", "replace"] = "strict",
    delimiter: str = "auto",
    layout: Layout = "line",
    piece_words: PositiveInt | None = None,
    bad_records: BadRecords = "error",
    scratch: str | Path | None = None,
) -> Corpus:
    r"""Describe a corpus to be read; only names, sizes and first bytes of the files are looked at yet.

    Parameters
    ----------
    paths : str, Path, or sequence of them
        Files, folders, globs or fsspec URLs. The files of a folder or a glob come in the order of their names.
        A folder means the files in it and in its subfolders, without hidden ones; a file that several of them name is
        read once. For texts in memory see `read_texts`.
    format : {"auto", "mediawiki", "text", "jsonl", "csv", "tsv", "parquet"}
        The format of the files; "auto" goes by the extension before that of the compression (.bz2, .gz, .xz,
        .zst). A file with an unknown extension is read as text.
    tokenizer : Tokenizer, optional
        How text becomes tokens; by default ``Tokenizer()``.
    partition_bytes : int
        The size of a task's input, in bytes of the file as it is stored. Files compressed with gz, xz or zst,
        bz2 files that are not MediaWiki exports, CSV and TSV, and text that is not UTF-8 are not divided. A task
        reads several small files, of any formats, where there are more than 256 of them.
    namespaces : iterable of int, optional
        The namespaces of a MediaWiki export whose pages are documents, but for redirects; None means all of them.
    text_field : str or sequence of str
        The field of JSON lines, or the column of CSV, TSV and Parquet, that holds the text. Several fields are
        joined by line ends, without those that are null. A name with dots, as ``doc.body.text``, is that of a field
        inside others, of JSON lines.
    id_field : str, optional
        The field with the id of a document; by default an id is made of the document's place and the file's path below
        the folder that was given. Files of the same path have more of their folders before it, below the one that they
        have in common.
    title_field : str, optional
        The field with the title of a document; by default titles are empty.
    label_field : str, optional
        The field with the label of a document; by default documents have no label.
    carry_fields : sequence of str
        Further fields that documents keep as columns of text, such as "author" and "year".
    path_fields : sequence of str
        The names of the last folders of a file's path, which documents keep as columns: with ("author", "year") the
        file ``novels/gaskell/1865/wives.txt`` is by the author gaskell and of the year 1865.
    metadata : str or Path, optional
        A table (CSV or Parquet) with further columns of documents. Its column "id", "file" or "path", or else its
        first one, holds ids of documents, or names of files with or without folders and extension. A column "title"
        or "label" gives documents their title or label.
    encoding : str, optional
        The encoding of text, JSON lines, CSV and TSV that are not UTF-8 and have no byte-order mark. A MediaWiki
        export declares its own.
    errors : {"strict", "replace"}
        Whether bytes that are not valid in the encoding are an error or are replaced; with "replace" files of text are
        not divided.
    delimiter : str
        The character between the fields of CSV and TSV; "auto" is the comma, semicolon, tab or bar that gives the
        header of CSV the fields asked for, or the most columns, and the tab of TSV. Double quotes enclose fields of
        CSV, which may then hold line breaks and delimiters, and are characters like others in TSV.
    layout : {"line", "blocks", "file"}
        The layout of plain text: one document per line; documents between blank lines with the title in their first
        line; or one document per file, whose id is its path in the folder that was given, and whose title is its name
        without the extension. One of more than 8 MiB is cut after white space into several, ``wives.txt#1`` and so on.
    piece_words : int, optional
        Longer documents are cut into pieces of so many words between white space. Each piece is a document with the
        title, the label and the columns of the whole, and its number after the id: ``wives.txt#1``, ``wives.txt#2``.
    bad_records : {"error", "skip"}
        "skip" leaves out the JSON lines, rows and pages of an export that cannot be read; they are counted, and
        listed beside the tokens. A null text or title counts as empty, not as bad. Of several files it also leaves
        out those that are empty or no text, and says so.
    scratch : str or Path, optional
        The folder for temporary files.

    Returns
    -------
    Corpus
        The documents, not read yet.

    Warns
    -----
    UserWarning
        If a file is left out, with ``bad_records="skip"``.

    Raises
    ------
    TypeError, ValueError
        If something that was given is no path, or an option is none of its choices; nothing is opened.
    FileNotFoundError
        If a path or glob matches no file.
    CorpusError
        If a file is empty, is not in its format or encoding, or has no column of a name that was given.

    Examples
    --------
    >>> import distembed as de
    >>> from pathlib import Path
    >>> _ = Path("pets.csv").write_text("name,text,kind\nTom,The cat sat.,cat\nRex,A dog barked.,dog\n")
    >>> docs = de.read_corpus("pets.csv", id_field="name", label_field="kind")
    >>> docs
    Corpus(1 file, 1 partition: 'pets.csv')
    >>> for document in docs.documents():
    ...     print(document.id, document.label, document.text, sep=" | ")
    Tom | cat | The cat sat.
    Rex | dog | A dog barked.
    """
    check_options(read_corpus, locals())
    named = _check_paths([paths] if isinstance(paths, str | Path) else paths)
    template = Partition(
        url="",
        format=format,
        errors=errors,
        delimiter=delimiter,
        layout=layout,
        text_fields=(text_field,) if isinstance(text_field, str) else tuple(text_field),
        id_field=id_field,
        title_field=title_field,
        label_field=label_field,
        carry_fields=tuple(carry_fields),
        namespaces=None if namespaces is None else tuple(namespaces),
        piece_words=piece_words,
        bad_records=bad_records,
    )
    table = None if metadata is None else read_metadata(str(metadata))
    names = [*carry_fields, *path_fields, *DocumentColumns(metadata=table).names]
    for name in names:
        if names.count(name) > 1 or name in OF_DOCUMENTS:
            raise CorpusError(
                f'documents would have the column "{name}" twice: rename or leave out one of them.'
            )
    files = tuple(find_files(named))
    if encoding and text_encoding(encoding) is None:
        raise ValueError(
            f'encoding is {encoding!r}, which is no encoding of text that Python knows; give "utf-16", "latin-1", '
            '"cp1252" or another of its names'
        )
    partitions, refused = plan_files(files, template, partition_bytes, encoding)
    folder = None if scratch is None else str(scratch)
    paths_table = folders_of(partitions, path_fields) if path_fields else None
    columns = DocumentColumns(paths_table, table)
    corpus = Corpus(partitions, tokenizer or Tokenizer(), folder, refused, partition_bytes, columns)
    for note in corpus.notes:
        warnings.warn(note, stacklevel=2)
    return corpus


def folders_of(partitions: Iterable[Partition], names: Sequence[str]) -> pa.Table:
    """Return the last folders of the path of each file, as columns of these names.

    Raises
    ------
    CorpusError
        If a file lies in fewer folders.
    """
    rows = {}
    for part in partitions:
        place = (part.url.partition("://")[2] or part.url).split("/")[:-1]
        folders = [name for name in place if name not in ("", ".", "..")]
        if len(folders) < len(names):
            n = plural(len(folders), "folder")
            raise CorpusError(f"{part.url} lies in {n}, and path_fields= names {len(names)}: {list(names)}.")
        values = folders[len(folders) - len(names) :]
        rows[part.name] = {FILE: part.name, **dict(zip(names, values, strict=True))}
    return pa.Table.from_pylist([*rows.values()])


def _check_paths(paths: Any) -> list[str | Path]:
    """Return paths and URLs; what is no such thing is refused before anything is opened.

    Raises
    ------
    TypeError
        If one is neither a text nor a path.
    ValueError
        If one is a text with line ends, or begins like a URL and has white space, which no URL has.
    """
    remedy = "for texts in memory use read_texts"
    if not isinstance(paths, list | tuple):
        raise TypeError(f"read_corpus takes paths, and a {type(paths).__name__} was given: {remedy}")
    for number, path in enumerate(paths):
        if not isinstance(path, str | Path):
            kind = type(path).__name__
            raise TypeError(f"read_corpus takes paths, and number {number} is of the type {kind}: {remedy}")
        if isinstance(path, str) and ("\n" in path or ("://" in path and any(map(str.isspace, path)))):
            raise ValueError(f"number {number}, {path[:60]!r}, is a text and no path or URL: {remedy}")
    return list(paths)
