"""Texts in memory, lists and columns and data frames, as Parquet files that a corpus reads like any others."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Mapping, Set
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq
from dask.base import is_dask_collection

from distembed.corpus.partitions import Tokens
from distembed.corpus.readers import PARTITION_BYTES, Corpus, read_corpus
from distembed.corpus.tokenizer import Tokenizer
from distembed.display import first_repeat
from distembed.execution import compute, delayed, partitions_of
from distembed.files import replacing
from distembed.options import PositiveInt
from distembed.scratch import Scratch
from distembed.typing import Frame

Texts: TypeAlias = Iterable[object] | Frame
"""A list or a column of texts, or a table with one; of pandas, Polars, pyarrow or Dask."""


def read_texts(
    texts: Texts,
    *,
    text_field: str = "text",
    id_field: str | None = None,
    title_field: str | None = None,
    label_field: str | None = None,
    tokenizer: Tokenizer | None = None,
    partition_bytes: PositiveInt = PARTITION_BYTES,
    scratch: str | Path | None = None,
) -> Corpus:
    """Return texts in memory as a corpus, which tokenizes and counts them as it does those of files.

    The texts are written to temporary Parquet files, which are removed with the corpus. Those of a Dask collection are
    computed once, by partitions, and its workers write them.

    Parameters
    ----------
    texts : list of str, column, or table
        One text for each document; a missing one is empty. A column is a Series of pandas or Polars, an array of NumPy
        or pyarrow, or a Series, a bag or an array of Dask. A table is a data frame of pandas, Polars or Dask, or a
        table of pyarrow: its further columns become columns of the documents.
    text_field : str
        The column of a table with the texts.
    id_field, title_field, label_field : str, optional
        The columns of a table with the ids, titles and labels; by default those called "id", "title" and "label" where
        there are such. Without a column of ids they are the index, or the numbers of the documents.
    tokenizer : Tokenizer, optional
        How text becomes tokens; by default ``Tokenizer()``.
    partition_bytes : int
        The size of a task's input.
    scratch : str or Path, optional
        The folder for temporary files, which all workers can reach.

    Returns
    -------
    Corpus

    Raises
    ------
    TypeError
        If a single text is given, or something else than texts; the message has the place of the first.
    ValueError
        If there is no text at all, a text is not valid Unicode, or a table lacks a column or has one twice.

    Examples
    --------
    >>> import distembed as de
    >>> import pandas as pd
    >>> de.read_texts(["The cat sat.", "A dog barked."]).tokenize().n_documents
    2
    >>> frame = pd.DataFrame({"text": ["The cat sat.", "A dog barked."], "label": ["cat", "dog"], "year": [1865, 1870]})
    >>> docs = de.read_texts(frame)
    >>> [(document.id, document.label, document.text) for document in docs.documents()]
    [('0', 'cat', 'The cat sat.'), ('1', 'dog', 'A dog barked.')]
    >>> tokens = docs.tokenize()
    >>> tokens.documents(tokens.partitions[0]).column_names
    ['id', 'title', 'label', 'n_tokens', 'year']
    """
    folder = Scratch("distembed-texts-", scratch)
    options = store_texts(
        Path(folder.url),
        texts,
        text_field=text_field,
        id_field=id_field,
        title_field=title_field,
        label_field=label_field,
    )
    corpus = read_corpus(**options, tokenizer=tokenizer, partition_bytes=partition_bytes, scratch=scratch)
    weakref.finalize(corpus, str, folder)  # which holds the folder as long as there is the corpus
    return corpus


def tokenized(docs: Corpus | Tokens | Texts, scratch: str | Path | None = None) -> Tokens:
    """Return the tokens of a corpus, or of texts in memory."""
    if isinstance(docs, Tokens):
        return docs
    return (docs if isinstance(docs, Corpus) else read_texts(docs, scratch=scratch)).tokenize()


def store_texts(
    folder: Path, texts: Texts, *, text_field: str = "text", **heads: str | None
) -> dict[str, Any]:
    """Write texts to Parquet files in a local folder, and return the arguments of `read_corpus` that read them.

    `heads` are `id_field`, `title_field` and `label_field`; see `read_texts`.
    """
    if isinstance(texts, str | bytes):
        raise TypeError("one text was given where a list of texts is needed: put it into brackets")
    if isinstance(texts, Corpus | Tokens):
        raise TypeError(
            "a corpus was given where texts are needed: give the list, column or data frame of them"
        )
    is_lazy = is_dask_collection(texts) and hasattr(texts, "to_delayed")
    columns = columns_of(texts)
    if isinstance(texts, Mapping | Set) or not (is_lazy or columns is not None or hasattr(texts, "__iter__")):
        raise TypeError(
            f"a {type(texts).__name__} was given where texts are needed: give a list, a column or a data frame of them"
        )
    names = [text_field] if columns is None else [*columns]
    fields = {"text_field": text_field}
    for option in ("id_field", "title_field", "label_field"):
        usual = option.removesuffix("_field")
        if (name := heads.get(option) or (usual if usual in names else None)) is not None:
            fields[option] = name
    for option, name in fields.items():
        if name not in names:
            raise ValueError(
                f"the table of texts has no column {name!r} (it has {', '.join(names)[:200]}): give {option}="
            )
    carried = [name for name in names if name not in fields.values()]
    id_field = fields.get("id_field")
    if is_lazy:
        parts, write = partitions_of(texts), delayed(write_texts, pure=False)
        paths = [str(folder / f"texts-{number:05d}.parquet") for number in range(len(parts))]
        prefixes = [
            "" if getattr(texts, "known_divisions", False) else f"{number}." for number in range(len(parts))
        ]
        # One collection: Dask's cull is quadratic in the number of collections.
        tasks = [
            write(part, path, numbered, text_field=text_field, id_field=id_field)
            for part, path, numbered in zip(parts, paths, prefixes, strict=True)
        ]
        n_texts = sum(compute(delayed(tuple)(tasks)))
    else:
        paths = [str(folder / "texts.parquet")]
        n_texts = write_texts(texts, paths[0], text_field=text_field, id_field=id_field)
    if not n_texts:
        raise ValueError("there is no text: give at least one")
    return {"paths": paths, "id_field": "id", **fields, "carry_fields": carried}


def write_texts(texts: Any, path: str, numbered: str = "", *, text_field: str, id_field: str | None) -> int:
    """Write texts in memory as a Parquet file of strings, and return their number.

    Without a column of ids they are the index, or numbers after `numbered` where that is not empty.
    """
    found = columns_of(texts)
    columns = {
        name: text_array(column) if name == text_field else string_array(column, name)
        for name, column in ({text_field: texts} if found is None else found).items()
    }
    n_texts = len(columns[text_field])
    if id_field is None:
        index: Any = getattr(texts, "index", None)
        ids = range(n_texts) if index is None or callable(index) or numbered else index
        columns["id"] = pa.array([f"{numbered}{ident}" for ident in ids], pa.string())
    with replacing(path) as partial_path:
        pq.write_table(pa.table(columns), partial_path, row_group_size=1 << 14, write_page_checksum=True)
    return n_texts


# ---- columns ---------------------------------------------------------------------------------------------------


def columns_of(X: Any) -> dict[str, Any] | None:
    """Return the columns of a data frame or a table of pyarrow by name; None for anything else.

    Raises
    ------
    ValueError
        If two have one name.
    """
    names = getattr(X, "column_names", None)
    if names is None and getattr(X, "ndim", 2) == 2:  # a Series of Dask has columns, too
        names = getattr(X, "columns", None)
    if names is None:
        return None
    if again := first_repeat([*map(str, names)]):
        raise ValueError(f"the table has the column {again[0]!r} twice: rename one")
    return {str(name): X[name] for name in names}


def to_list(column: Any) -> list[Any]:
    """Return the values of a column, an array or anything else that has an order."""
    for name in ("to_pylist", "to_list", "tolist"):
        if hasattr(column, name):
            return list(getattr(column, name)())
    return list(column)


def text_array(texts: Any, *, allow_missing: bool = True, first: int = 0) -> Any:
    """Return texts as an array of strings; what stands for a missing value in a data frame is null, or refused.

    `first` is the number of the first text, for errors.

    Raises
    ------
    TypeError
        If one is no text.
    ValueError
        If one holds half a surrogate pair, which UTF-8 cannot represent.
    """
    values = to_list(texts)
    try:
        array = pa.array(values, pa.large_string(), from_pandas=True)
        if allow_missing or not array.null_count:
            return array
    except (pa.ArrowException, TypeError, UnicodeEncodeError):
        pass
    for number, value in enumerate(values, first):
        try:
            is_text = pa.array([value], pa.large_string(), from_pandas=True).null_count <= allow_missing
        except UnicodeEncodeError as error:
            what = f"text {number} is not valid Unicode ({error.reason})"
            raise ValueError(f"{what}: encode it with errors='replace'") from error
        except (pa.ArrowException, TypeError):
            is_text = False
        if not is_text:
            raise TypeError(f"text {number} is {value!r:.60}, of type {type(value).__name__}: give texts")
    return pa.array(values, pa.large_string(), from_pandas=True)


def string_array(column: Any, name: str) -> Any:
    """Return a column of single values as strings, as a Parquet file with it would be read.

    Raises
    ------
    TypeError
        If it holds lists or other values that are no single ones, or values of several types.
    """
    try:
        array = (
            column if isinstance(column, pa.Array | pa.ChunkedArray) else pa.array(column, from_pandas=True)
        )
        if pa.types.is_dictionary(array.type):
            array = array.cast(array.type.value_type)
        return array.cast(pa.large_string())
    except (pa.ArrowException, TypeError) as error:
        raise TypeError(
            f"the column {name!r} cannot be written as text ({' '.join(str(error).split())[:120]}): make its cells "
            "text, or leave it out"
        ) from error
