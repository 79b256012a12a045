"""What a transfer job reads: two collections of documents, and which documents of one are those of the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from itertools import islice
from typing import Any, NamedTuple

import fsspec
import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
from numpy.typing import NDArray

from distembed.corpus import Split, Tokenizer, read_corpus, tokenize_split
from distembed.corpus.readers import documents_of, find_files
from distembed.pipeline.imputation.tables import TableError, read_columns
from distembed.pipeline.transfer.config import CollectionSection, PairsSection

SIDES = ("first", "second")

TOKENIZER_OPTIONS = {option.name for option in fields(Tokenizer)} & set(CollectionSection.model_fields)
READER_OPTIONS = {"format", "layout", "encoding", "text_field", "id_field", "title_field", "label_field"}

EXCERPT_CHARACTERS = 200
"""Characters of a document's beginning that are kept, to show what was matched."""


# ---- documents --------------------------------------------------------------------------------------------


def tokenizer_of(section: CollectionSection) -> Tokenizer:
    """Return how the texts of a collection become tokens."""
    return Tokenizer(**section.model_dump(include=TOKENIZER_OPTIONS))


def splits_of(section: CollectionSection) -> tuple[Split, ...]:
    """Return what tasks read of a collection; a table of tab-separated values is one task each.

    Raises
    ------
    FileNotFoundError
        If a path matches no file.
    """
    if section.format == "tsv":
        names = ((section.text_field,), section.id_field, section.title_field, section.label_field)
        return tuple(Split(url, "tsv", fields=names) for url in find_files(list(section.paths), ()))
    options = section.model_dump(include=READER_OPTIONS)
    return read_corpus(section.paths, split_bytes=section.split_bytes, **options).splits


def tokenize_part(
    index: int, prefix: str, *, splits: Sequence[Split], tokenizer: Tokenizer
) -> dict[str, Any]:
    """Write the tokens of a split and the beginnings of its documents; return how much there was of each."""
    split = splits[index]
    if split.format == "tsv":
        split = _as_parquet(split, f"{prefix}.records.parquet")
    summary = tokenize_split(split, tokenizer, prefix)._asdict()
    excerpts = [_excerpt(document.text) for document in documents_of(split)]
    _write_table(f"{prefix}.excerpts.parquet", pa.table({"excerpt": pa.array(excerpts, pa.string())}))
    return {name: value for name, value in summary.items() if isinstance(value, int)}


def _as_parquet(split: Split, target: str) -> Split:
    """Write the fields of a table of tab-separated values as Parquet, quotes being ordinary characters."""
    texts, *others = split.fields
    wanted = list(dict.fromkeys([*texts, *(name for name in others if name)]))
    try:
        with fsspec.open(split.url, "rb", compression="infer") as file:
            table = pacsv.read_csv(
                file,
                parse_options=pacsv.ParseOptions(delimiter="\t", quote_char=False),
                convert_options=pacsv.ConvertOptions(
                    include_columns=wanted,
                    column_types=dict.fromkeys(wanted, pa.string()),
                    strings_can_be_null=False,
                ),
            )
    except (pa.ArrowInvalid, pa.ArrowKeyError) as error:
        raise TableError(f"{split.url} is no table with the columns {wanted}: {error}") from None
    _write_table(target, table)
    return replace(split, url=target, format="parquet")


def _write_table(target: str, table: pa.Table) -> None:
    with fsspec.open(target, "wb") as file:
        pq.write_table(table, file, write_page_checksum=True)


def _excerpt(text: str) -> str:
    """Return the beginning of a text with its white space closed up."""
    words = " ".join(islice(text[: 4 * EXCERPT_CHARACTERS].split(), EXCERPT_CHARACTERS))
    return words if len(words) <= EXCERPT_CHARACTERS else words[: EXCERPT_CHARACTERS - 1] + "…"


def document_table(prefixes: Sequence[str]) -> pa.Table:
    """Return id, title, label, n_tokens and excerpt of each document of some token parts."""
    tables = []
    for prefix in prefixes:
        documents, excerpts = (_read_table(f"{prefix}.{kind}.parquet") for kind in ("documents", "excerpts"))
        tables.append(documents.append_column("excerpt", excerpts["excerpt"]))
    return pa.concat_tables(tables)


def _read_table(url: str) -> pa.Table:
    with fsspec.open(url, "rb") as file:
        return pq.read_table(file, page_checksum_verification=True)


# ---- pairs ------------------------------------------------------------------------------------------------


class Pairs(NamedTuple):
    """Documents that are the same.

    Attributes
    ----------
    rows : int64, (p × 2), of the first and second collection
    confidence : float64, (p,), in (0, 1]
    known : bool, (p,): given to the method; the others only judge it
    """

    rows: NDArray[np.int64]
    confidence: NDArray[np.float64]
    known: NDArray[np.bool_]


def find_pairs(section: PairsSection, first: Sequence[str], second: Sequence[str]) -> Pairs:
    """Return the pairs of a job from the ids of both collections.

    Without a file, documents with one id are a pair, and a share of them, drawn, is known. With a file of the
    columns `first`, `second` and perhaps `confidence`, its pairs are known, and documents with one id that
    stand in none of them are pairs to judge by.

    Raises
    ------
    ValueError
        If an id occurs twice in a collection, the file names one that is not there, or there is no pair.
    """
    places = [_places(ids, side) for ids, side in zip((first, second), SIDES, strict=True)]
    same = np.array([(row, places[1][name]) for name, row in places[0].items() if name in places[1]])
    same = same.reshape(-1, 2).astype(np.int64)
    if section.path is not None:
        return _with_file(section.path, places, same)
    if not len(same):
        raise ValueError(
            f"no document of the first collection (the first is {first[0]!r}) has the id of one of the second "
            f"({second[0]!r}): name the fields of the ids, or give pairs.path, a table of pairs"
        )
    n_known = max(1, round(section.share * len(same)))
    known = np.zeros(len(same), bool)
    known[np.random.default_rng(section.random_state).permutation(len(same))[:n_known]] = True
    return Pairs(same, np.ones(len(same)), known)


def _places(ids: Sequence[str], side: str) -> dict[str, int]:
    places = {name: row for row, name in enumerate(ids)}
    if len(places) < len(ids):
        twice = next(name for row, name in enumerate(ids) if places[name] != row)
        raise ValueError(f"the id {twice!r} occurs twice in the {side} collection: make ids unique")
    return places


def _with_file(path: str, places: Sequence[dict[str, int]], same: NDArray[np.int64]) -> Pairs:
    columns = read_columns(path)
    for side in SIDES:
        if side not in columns:
            raise TableError(f"{path} has no column {side!r}; it has {', '.join(map(repr, columns))}")
    rows = np.column_stack(
        [_rows(path, side, columns[side], place) for side, place in zip(SIDES, places, strict=True)]
    )
    confidence = np.asarray(columns.get("confidence", np.ones(len(rows))), np.float64)
    free = ~(np.isin(same[:, 0], rows[:, 0]) | np.isin(same[:, 1], rows[:, 1]))
    known = np.concatenate([np.ones(len(rows), bool), np.zeros(free.sum(), bool)])
    return Pairs(np.concatenate([rows, same[free]]), np.concatenate([confidence, np.ones(free.sum())]), known)


def _rows(path: str, side: str, names: NDArray[Any], places: dict[str, int]) -> NDArray[np.int64]:
    wanted = [str(name) for name in names.tolist()]
    absent = next((name for name in wanted if name not in places), None)
    if absent is not None:
        raise ValueError(f"{path} names {absent!r}, which is no id of the {side} collection")
    return np.array([places[name] for name in wanted], np.int64)
