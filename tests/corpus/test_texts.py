"""Texts in memory: every kind of list, column and table is the same corpus, and what is none is refused."""

from __future__ import annotations

import gc
from pathlib import Path

import dask
import dask.array as da
import dask.bag as db
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import distembed as de

TEXTS = ["the sea", "", "the wind", "a ship"]
CELLS = ["the sea", None, "the wind", "a ship"]
"""The same with a missing cell, which is an empty document."""
FRAME = pd.DataFrame(
    {
        "label": ["s", "s", None, "t"],
        "text": CELLS,
        "year": [1865, 1866, 1867, 1870],
        "title": ["A", None, "C", "D"],
        "is_long": [True, False, True, False],
    }
)
LAZY = dd.from_pandas(FRAME, npartitions=2)


@pytest.mark.parametrize(
    ("texts", "ids"),
    [
        (TEXTS, "0 1 2 3"),
        (iter(TEXTS), "0 1 2 3"),
        (np.array(CELLS, object), "0 1 2 3"),
        (["the sea", float("nan"), "the wind", "a ship"], "0 1 2 3"),
        (pd.Series([*TEXTS[:1], pd.NA, *TEXTS[2:]], index=list("abcd")), "a b c d"),
        (pd.Series(CELLS, dtype="string", index=list("abcd")), "a b c d"),
        (pd.Series(TEXTS, dtype="category"), "0 1 2 3"),
        (pa.array(CELLS), "0 1 2 3"),
        (pa.chunked_array([CELLS[:2], CELLS[2:]]), "0 1 2 3"),
        (pa.array(CELLS).dictionary_encode(), "0 1 2 3"),
        (FRAME[["text"]].set_index(pd.Index(list("abcd"))), "a b c d"),
        (FRAME.assign(id=["x", None, "y", "z"]), "x texts.parquet:0.1 y z"),
        (pa.table({"text": CELLS, "id": [7, 8, 9, 10]}), "7 8 9 10"),
        (pa.record_batch({"text": CELLS}), "0 1 2 3"),
        (LAZY["text"].rename("body"), "0 1 2 3"),
        (dd.from_pandas(pd.Series(CELLS), npartitions=2), "0 1 2 3"),
        (LAZY.clear_divisions()["text"], "0.0 0.1 1.0 1.1"),
        (db.from_sequence(CELLS, npartitions=2), "0.0 0.1 1.0 1.1"),
        (da.from_array(np.array(CELLS, object), chunks=3), "0.0 0.1 0.2 1.0"),
    ],
)
def test_every_kind_of_texts_is_the_same_corpus(texts, ids):
    found = [(document.id, document.text) for document in de.read_texts(texts).documents()]
    assert found == [*zip(ids.split(), TEXTS, strict=True)]


@pytest.mark.parametrize(
    "table", [FRAME, LAZY, pa.Table.from_pandas(FRAME)], ids=["pandas", "Dask", "pyarrow"]
)
def test_titles_labels_and_columns_of_a_table_are_in_the_documents(table):
    tokens = de.read_texts(table).tokenize()
    documents = pa.concat_tables([tokens.documents(partition) for partition in tokens.partitions]).to_pydict()
    assert documents == {
        "id": ["0", "1", "2", "3"],
        "title": ["A", "", "C", "D"],
        "label": ["s", "s", None, "t"],
        "n_tokens": [2, 0, 2, 2],
        "year": ["1865", "1866", "1867", "1870"],
        "is_long": ["true", "false", "true", "false"],
    }


def test_workers_write_the_partitions_of_a_lazy_table(process_pool):
    with dask.config.set(scheduler="processes", num_workers=2, pool=process_pool):
        docs = de.read_texts(LAZY)
    assert [document.label for document in docs.documents()] == ["s", "s", None, "t"]


def test_the_columns_are_those_that_are_named():
    frame = FRAME.rename(columns={"text": "body", "label": "kind"}).drop(columns="title")
    docs = de.read_texts(frame, text_field="body", id_field="year", title_field="kind", label_field="is_long")
    first = next(docs.documents())
    assert (first.id, first.title, first.label, first.text) == ("1865", "s", "true", "the sea")


def test_what_counts_takes_texts_as_files(tmp_path):
    words = [text for text in TEXTS if text]
    (tmp_path / "texts.txt").write_text("\n".join(words) + "\n")
    vocabulary = de.build_vocabulary(TEXTS)
    for count in (
        lambda texts: de.build_vocabulary(texts).counts.tolist(),
        lambda texts: de.count_document_terms(texts, vocabulary).compute().toarray().tolist(),
        lambda texts: de.count_cooccurrences(texts, vocabulary, window=2).compute().toarray().tolist(),
    ):
        expected = count(de.read_corpus(tmp_path / "texts.txt"))
        assert count(words) == count(pd.Series(words)) == count(LAZY.dropna(subset="text")) == expected


def test_the_temporary_files_are_removed_with_the_corpus():
    docs = de.read_texts(TEXTS)
    folder = Path(docs.partitions[0].url).parent
    assert folder.is_dir()
    del docs
    gc.collect()
    assert not folder.exists()
