"""Small files on which a reader once ended with words of a library, without an end, or without its name.

`python -m tests.campaigns fuzzing` found them; `tests/campaigns/_samples.py` reads each kind.
"""

from __future__ import annotations

import io
import zipfile

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import distembed as de
from distembed.corpus.stop_words import stop_words_of
from distembed.evaluation.wordsets import find_sets
from distembed.job.load import load_job
from tests.campaigns import _samples
from tests.campaigns.fuzzing import outcome


def workbook() -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as target:
        target.writestr("[Content_Types].xml", b"<Types")
        target.writestr("xl/workbook.xml", b"<workbook><sheets><sheet r:id=")
    return file.getvalue()


def parquet_of(text: bytes) -> bytes:
    file, ends = io.BytesIO(), pa.py_buffer(np.array([0, len(text)], np.int32))
    words = pa.Array.from_buffers(pa.string(), 1, [None, ends, pa.py_buffer(text)])
    pq.write_table(pa.table({"name": words, "a": [1.5]}), file)
    return file.getvalue()


PARQUET = b"PAR1" + b"\x15\x04" * 20 + b"\x28\0\0\0PAR1"
PAGE = "<page><title>Sea</title><ns>0</ns><id>1</id><revision><text>sea{}</page>"
OPEN_PAGE = f"<mediawiki>{PAGE.format('<?a ')}{PAGE.format('</text></revision>')}</mediawiki>".encode()
LONG_CELL = b"name\ta\nsea\t1.5\n" + b"s" * 200_000 + b"\t2.5\n"
TEXTS = b"<mediawiki><page><title>a</title><id>1</id>" + b"<text" * (1 << 20) + b"</page></mediawiki>"
NAMESPACES = b"<mediawiki>" + b'<namespace key="1"' * (1 << 15) + b"</siteinfo></mediawiki>"
LABELED = b'{"text": "sea", "label": "a"}\n' + 10_000 * b"["
FILES = [
    ("t.parquet", PARQUET, _samples.read_any_table),
    ("t.xlsx", workbook(), _samples.read_any_table),
    ("words.parquet", PARQUET, de.Vocabulary.load),
    ("c.parquet", PARQUET, _samples.read_counts),
    ("t.parquet", parquet_of(b"s\x80a"), _samples.read_any_table),
    ("texts.parquet", PARQUET, _samples.read_records),
    ("v.parquet", PARQUET, de.WordVectors.load),
    ("v.txt", b"3 " + b"1" * 5000 + b"\nsea 1 2\n", de.WordVectors.load),
    ("job.toml", b"[job]\nworkspace = " + b"1" * 5000, load_job),
    ("job.toml", b"[vocabulary]\nmin_count" + 2000 * b".a" + b" = 1", load_job),
    ("labeled.jsonl", LABELED, lambda path: find_sets(path, sentences=True)),
    ("norms.tsv", b"CUE\tTARGET\tFSG\x0bsea\tshore\t0.5\nsea\ttide\t0.25\n", _samples.read_set),
    ("dump.xml", OPEN_PAGE, _samples.read_documents),
    ("words.txt", b"sea " + b"1" * 5000 + b"\n", de.Vocabulary.load),
    ("stop.txt", b"\xe9t\xe9\n" * 40_000 + b"\x90\x81\n", lambda place: stop_words_of((), file=place)),
    ("latin.txt", b"k\xfcste und meer\n" + b"see \xc3\xbc\n" * 9, _samples.read_documents),
]


LONG = [
    ("d.tsv", LONG_CELL, _samples.read_any_table),
    ("t.csv", LONG_CELL.replace(b"\t", b";"), _samples.read_any_table),
    ("t.csv", b"name;a;b\n" + b"9" * 500_000 + b"sea;1,5;2\n", _samples.read_any_table),
    ("dump.xml", TEXTS, _samples.read_documents),
    ("dump.xml", NAMESPACES, _samples.read_documents),
]
"""In the square of these lengths the time to read would be hours; and a cell may be as long as a book."""


@pytest.mark.parametrize(
    ("name", "data", "read"),
    [*FILES, *LONG],
    ids=[f"{n} {file[0]}" for n, file in enumerate([*FILES, *LONG])],
)
def test_a_hostile_file_is_read_in_linear_time_or_refused_in_a_sentence_that_names_it(
    name, data, read, tmp_path
):
    file = tmp_path / name
    file.write_bytes(data)
    found, is_long = outcome(read, file), (name, data, read) in LONG
    assert found == ("" if is_long else "refused") or (is_long and name == "dump.xml" and found == "refused")


@pytest.mark.parametrize("name", ["zlib", "punycode", "idna", "undefined", "unicode_escape"])
def test_a_codec_of_python_is_no_encoding_of_a_file(name, tmp_path):
    dump = tmp_path / "dump.xml"
    pages = "<mediawiki><page><title>a</title><id>1</id><text>the k\u00fcste \\x41</text></page></mediawiki>"
    dump.write_text(f'<?xml version="1.0" encoding="{name}"?>{pages}', encoding="utf-8")
    (document,) = de.read_corpus(dump).documents()
    assert document.text.strip() == "the k\u00fcste \\x41"
