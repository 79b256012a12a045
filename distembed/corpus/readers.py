"""A corpus: files of any supported kind, divided into partitions that tasks read independently.

`read_corpus` looks at names, sizes and first bytes only. `Corpus.documents` yields the documents one by one;
`Corpus.tokenize` runs one task per partition on the current Dask scheduler and keeps its result.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from itertools import takewhile
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from distembed.corpus.document_columns import DocumentColumns, check_columns, columns_of_paths
from distembed.corpus.errors import BadRecord, CorpusError
from distembed.corpus.heads import check_encoding, check_is_text, read_beginning, with_encoding
from distembed.corpus.mediawiki import MAX_HEAD_BYTES, read_head
from distembed.corpus.metadata import read_metadata
from distembed.corpus.partitions import Tokens, read_batches, tokenize_partition
from distembed.corpus.paths import (
    FORMATS,
    Format,
    FoundFile,
    find_files,
    format_of,
    name_files,
    readable_name,
)
from distembed.corpus.records import HEADS
from distembed.corpus.streams import Partition, bundles_of, option_text
from distembed.corpus.tables import stored_bytes, with_columns
from distembed.corpus.tokenizer import Tokenizer
from distembed.display import MAX_ROWS, first_words, html_view, plural
from distembed.execution import compute, delayed
from distembed.files import damage_told, failures_told
from distembed.formats.heads import sniffed
from distembed.formats.names import compression_of
from distembed.formats.parquet import ParquetFile
from distembed.formats.pieces import open_url
from distembed.options import PositiveInt
from distembed.scratch import Scratch

# One task: a second of text, some five seconds of compressed XML.
PARTITION_BYTES = 1 << 25


NAMED_REFUSALS = 5
"""Files, at most, of those that cannot be read that a message names."""


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
    notes: tuple[str, ...] = ()
    """What a user should know of the files, a sentence for each."""
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
        options = (self.scratch, self.notes, self.refused, self.partition_bytes, self.columns)
        return Corpus, (self.partitions, self.tokenizer, *options)

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
        return bundles_of(self.partitions, self.partition_bytes)

    def documents(self) -> Iterator[Document]:
        """Yield the documents one by one, each whole; meant for looking at a corpus, and for tests.

        Examples
        --------
        >>> import distembed as de
        >>> from distembed.demos import titles
        >>> first = next(de.read_corpus(titles()).documents())
        >>> first.id, first.text
        ('titles.txt:0', 'Human machine interface for Lab ABC computer applications')
        """
        for partition in self.partitions:
            yield from documents_of(partition)

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
        if key not in self._cache:
            self._cache[key] = tokenize_partitions(self, key)
        return self._cache[key]


def tokenize_partitions(corpus: Corpus, folder: str | None) -> Tokens:
    """Run one task per bundle, and return the partitions of tokens."""
    temporary = None
    if folder is None:
        temporary = Scratch("distembed-", corpus.scratch)
        folder = temporary.url
    task = delayed(tokenize_partition, pure=False)
    targets = [f"{folder.rstrip('/')}/part-{number:05d}" for number in range(len(corpus.bundles))]
    # One collection: Dask's cull is quadratic in the number of collections.
    together = delayed(tuple)(
        [
            task(bundle, corpus.tokenizer, target)
            for bundle, target in zip(corpus.bundles, targets, strict=True)
        ]
    )
    summaries = compute(together)
    if not any(summary.n_documents for summary in summaries):
        skipped, bad = (sum(getattr(s, name) for s in summaries) for name in ("n_skipped", "n_bad_records"))
        raise CorpusError(
            f"{name_files(partition.url for partition in corpus.partitions)}: no document found ({skipped} pages were "
            f"left out as redirects or of other namespaces, and {bad} bad records); check format=, layout= and "
            f"namespaces=."
        )
    return Tokens(tuple(targets), summaries, columns=corpus.columns, folder=temporary)


def documents_of(partition: Partition) -> Iterator[Document]:
    """Yield the documents of one partition."""
    pieces: list[bytes] = []
    for batch in read_batches(partition):
        if not batch.continues:
            heads = zip(*(batch.documents[name].to_pylist() for name in HEADS), strict=True)
        for number, text in enumerate(batch.texts()):
            pieces.append(text)
            if number < batch.n_closed:
                ident, title, label = next(heads)
                yield Document(ident, title, label, b"".join(pieces).decode())
                pieces = []


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
    redirects: bool = False,
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
    quotes: Literal["auto", "double", "none"] = "auto",
    layout: Layout = "line",
    piece_words: PositiveInt | None = None,
    bad_records: BadRecords = "error",
    scratch: str | Path | None = None,
    section: str = "",
) -> Corpus:
    r"""Describe a corpus to be read; only names, sizes and first bytes of the files are looked at yet.

    Parameters
    ----------
    paths : str, Path, or sequence of them
        Files, folders, globs or fsspec URLs. The files of a folder or a glob come in the order of their names.
        A folder stands for the files in it and in its folders, without hidden ones. For texts in memory see
        `read_texts`.
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
        The namespaces of a MediaWiki export whose pages are documents; None means all of them.
    redirects : bool
        Whether redirects of a MediaWiki export are documents.
    text_field : str or sequence of str
        The field of JSON lines, or the column of CSV, TSV and Parquet, that holds the text. Several fields are
        joined by line ends, without those that are null. A name with dots, as ``doc.body.text``, is that of a field
        inside others, of JSON lines.
    id_field : str, optional
        The field with the id of a document; by default an id is made of the file's name and the document's
        place. Files of the same name have their folders before it, below the one that they have in common.
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
        Whether bytes that are not valid in the encoding are an error or are replaced.
    delimiter : str
        The character between the fields of CSV; "auto" is the comma, semicolon, tab or bar that gives the header the
        fields asked for, or the most columns. The fields of TSV are between tabs.
    quotes : {"auto", "double", "none"}
        Whether double quotes enclose fields, which may then hold line breaks and delimiters, or are characters like
        others; "auto" is "double" for CSV and "none" for TSV.
    layout : {"line", "blocks", "file"}
        The layout of plain text: one document per line; documents between blank lines with the title in their first
        line; or one document per file, whose id is its path in the folder that was given, and whose title is its name
        without the extension.
    piece_words : int, optional
        Longer documents are cut into pieces of so many words between white space. Each piece is a document with the
        title, the label and the columns of the whole, and its number after the id: ``wives.txt#1``, ``wives.txt#2``.
    bad_records : {"error", "skip"}
        "skip" leaves out the JSON lines, rows and pages of an export that cannot be read; they are counted, and
        listed beside the tokens. A null text or title counts as empty, not as bad. Of several files it also leaves
        out those that are empty or no text, and says so.
    scratch : str or Path, optional
        The folder for temporary files.
    section : str
        The section of a job file that the options come from: errors name its keys, and what is doubtful is only
        listed in `Corpus.notes`.

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
        If something that was given is no path; nothing is opened.
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
    named = _check_paths([paths] if isinstance(paths, str | Path) else paths)
    template = Partition(
        url="",
        format=check_choice("format", format, ("auto", *FORMATS)),
        errors=check_choice("errors", errors, ("strict", "replace")),
        delimiter=delimiter,
        quotes=check_choice("quotes", quotes, ("auto", "double", "none")),
        section=section,
        layout=check_choice("layout", layout, ("line", "blocks", "file")),
        fields=(
            (text_field,) if isinstance(text_field, str) else tuple(text_field),
            id_field,
            title_field,
            label_field,
        ),
        carried=tuple(carry_fields),
        constants=tuple((name, "") for name in path_fields),
        namespaces=None if namespaces is None else tuple(namespaces),
        redirects=redirects,
        piece_words=piece_words,
        bad_records=check_choice("bad_records", bad_records, ("error", "skip")),
    )
    for name, value in (("partition_bytes", partition_bytes), ("piece_words", piece_words)):
        if value is not None and value < 1:
            raise ValueError(f"{name} is {value}; give 1 or more.")
    table = None if metadata is None else read_metadata(str(metadata))
    check_columns([*carry_fields, *path_fields, *DocumentColumns(metadata=table).names])
    files = tuple(find_files(named))
    check_encoding(encoding)
    partitions, refused = all_partitions(files, template, partition_bytes, encoding)
    notes = tuple(f"left out: {record.reason}" for record in refused)
    for note in () if section else notes:
        warnings.warn(note, stacklevel=2)
    folder = None if scratch is None else str(scratch)
    columns = DocumentColumns(columns_of_paths(partitions), table)
    return Corpus(partitions, tokenizer or Tokenizer(), folder, notes, refused, partition_bytes, columns)


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


def check_choice(option: str, value: str, choices: tuple[str, ...]) -> str:
    """Return the value of an option if it is one of the choices, which the error lists otherwise."""
    if value not in choices:
        raise ValueError(f"{option} is {value!r}; give one of {', '.join(map(repr, choices))}.")
    return value


@lru_cache(maxsize=8)
def all_partitions(
    files: tuple[FoundFile, ...], template: Partition, partition_bytes: int, encoding: str | None
) -> tuple[tuple[Partition, ...], tuple[BadRecord, ...]]:
    """Return the partitions of all files, and why others are left out where bad records are.

    The beginnings of the files are read once, until a store says something else of one: a plan asks several times.

    Raises
    ------
    CorpusError
        No file can be read, or some cannot and bad records are an error; the message names them together.
    """
    partitions: list[Partition] = []
    refused: dict[str, CorpusError] = {}
    for file in files:
        try:
            with failures_told(file.url):
                partitions += plan_file(file, template, partition_bytes, encoding=encoding)
        except CorpusError as error:
            refused[readable_name(file.url)] = error
    if refused and (len(refused) == len(files) or template.bad_records == "error"):
        raise _refusal(list(refused.values()), len(files), template.section)
    return _tell_apart(partitions), tuple(BadRecord(url, "", str(why)) for url, why in refused.items())


def _tell_apart(partitions: Sequence[Partition]) -> tuple[Partition, ...]:
    """Return partitions that tell files of one name apart by their folders, below the one that they have in common."""
    names = Counter({partition.url: partition.name for partition in partitions}.values())
    folders = {part.url: part.url.split("/")[:-1] for part in partitions if names[part.name] > 1}
    levels = zip(*folders.values(), strict=False)
    n_common = sum(1 for _ in takewhile(lambda folder: len(set(folder)) == 1, levels))
    below = {url: "".join(f"{name}/" for name in folder[n_common:]) for url, folder in folders.items()}
    return tuple(replace(part, folder=below[part.url]) if part.url in below else part for part in partitions)


def _refusal(refused: Sequence[CorpusError], n_files: int, section: str) -> CorpusError:
    """Return the error of one file, or one that names those of several."""
    if len(refused) in (1, n_files):
        return refused[0]
    first = [str(error).rstrip(".") for error in refused[:NAMED_REFUSALS]]
    named = "; ".join(f"({number}) {why}" for number, why in enumerate(first, 1))
    more = f"; and {len(refused) - NAMED_REFUSALS} more" if len(refused) > NAMED_REFUSALS else ""
    # Of parallel texts no record may be left out, since its counterpart is not.
    skip = (
        f", or leave them out by {option_text(section, 'bad_records', 'skip')}"
        if section in ("", "corpus")
        else ""
    )
    return CorpusError(
        f"{len(refused)} of {n_files} files cannot be read: {named}{more}. Remove them, or correct them{skip}."
    )


def plan_file(
    file: FoundFile, template: Partition, partition_bytes: int, *, encoding: str | None = None
) -> list[Partition]:
    """Return the partitions of one file."""
    url, size, _, path = file
    if readable_name(url) != url:
        raise CorpusError(f"{readable_name(url)} has a name that is not UTF-8; rename the file.")
    kind = format_of(url) if template.format == "auto" else template.format
    compression = compression_of(url)
    partition = replace(
        template,
        url=url,
        format=kind,
        compression=compression if kind != "parquet" else "",
        n_bytes=size,
        path=path,
        constants=path_values(url, template),
    )
    if size == 0:
        raise CorpusError(f"{url} is empty (0 bytes); remove it from the corpus or download it again.")
    if kind == "parquet":
        return parquet_partitions(partition, partition_bytes)
    if kind == "mediawiki":
        partition = with_head(partition)
        is_divisible = partition.is_utf8 and compression in {"", "bz2"}
    else:
        partition = with_encoding(partition, encoding)
        is_whole = kind in ("csv", "tsv") or partition.is_one_document
        is_divisible = not compression and partition.is_utf8 and not is_whole
    if kind in ("csv", "tsv"):
        partition = with_columns(partition)
    return byte_partitions(partition, size, partition_bytes) if is_divisible else [partition]


def path_values(url: str, template: Partition) -> tuple[tuple[str, str], ...]:
    """Return the last folders of a file as columns of its documents.

    Raises
    ------
    CorpusError
        If the file lies in fewer folders.
    """
    names = [name for name, _ in template.constants]
    inner = url.partition("://")[2] or url
    folders = [folder for folder in inner.split("/")[:-1] if folder not in ("", ".", "..")]
    if len(folders) < len(names):
        key = option_text(template.section, "path_fields")
        raise CorpusError(
            f"{url} lies in {plural(len(folders), 'folder')}, and {key} names {len(names)}: {names}."
        )
    return tuple(zip(names, folders[len(folders) - len(names) :], strict=True))


def with_head(partition: Partition) -> Partition:
    """Return a MediaWiki partition with the encoding and namespaces that the head of its file gives."""
    data = read_beginning(partition, MAX_HEAD_BYTES, end=b"</siteinfo>")
    check_is_text(partition, sniffed(data, partition.url))
    encoding, names = read_head(partition.url, data, partition.section)
    return replace(partition, encoding=encoding, namespace_names=names)


def byte_partitions(partition: Partition, size: int, partition_bytes: int) -> list[Partition]:
    """Cut a file into ranges of nearly equal size."""
    n_partitions = max(1, -(-size // partition_bytes))
    if n_partitions == 1:
        return [partition]
    bounds = [size * k // n_partitions for k in range(n_partitions + 1)]
    stops: list[int | None] = [*bounds[1:-1], None]
    return [
        replace(partition, start=start, stop=stop, n_bytes=end - start)
        for start, stop, end in zip(bounds[:-1], stops, bounds[1:], strict=True)
    ]


def parquet_partitions(partition: Partition, partition_bytes: int) -> list[Partition]:
    """Group the row groups of a Parquet file into partitions."""
    remedy = f"give {option_text(partition.section, 'format')}"
    with (
        damage_told(partition.url, CorpusError, "a Parquet file", remedy),
        closing(open_url(partition.url)) as raw,
    ):
        metadata = ParquetFile(raw).metadata
    if metadata.num_row_groups == 0:
        return [replace(partition, stop=0)]
    sizes = [metadata.row_group(k).total_byte_size for k in range(metadata.num_row_groups)]
    group_of = np.cumsum([0, *sizes])[:-1] // partition_bytes
    starts = np.flatnonzero(np.diff(group_of, prepend=-1)).tolist()
    stops = [*starts[1:], len(sizes)]
    stored = np.cumsum([0, *(stored_bytes(metadata.row_group(k)) for k in range(len(sizes)))]).tolist()
    return [
        replace(partition, start=start, stop=stop, n_bytes=stored[stop] - stored[start])
        for start, stop in zip(starts, stops, strict=True)
    ]
