"""Delimited text is a table of strings as it was written, or is refused with its row and the remedy."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from distembed.formats.delimited import DelimitedError, numbers, read_delimited, remedy
from distembed.formats.encodings import EncodingError

WHOLE = {"n": ["u", "v"], "a": ["1", "2"]}
ROWS = b"".join(b"%d,x\n" % row for row in range(48))

RUSSIAN = "n,a\nПривет мир,1\nМосква столица России,3\nВсе счастливые семьи похожи друг на друга,5\n"
POLISH = "Nazwa,a\nKraków,2\nŁódź,1\nWrocław,2\nGdańsk,3\nPoznań,4\nŚwiętochłowice,1\n"

READ = {
    "plain": (b"n,a\nu,1\nv,2\n", {}, WHOLE),
    "no line end at the end": (b"n,a\nu,1\nv,2", {}, WHOLE),
    "line ends of Windows": (b"n,a\r\nu,1\r\nv,2\r\n", {}, WHOLE),
    "line ends of old editors": (b"n,a\ru,1\rv,2\r", {}, WHOLE),
    "byte-order mark": (b"\xef\xbb\xbfn,a\nu,1\nv,2\n", {}, WHOLE),
    "UTF-16 with its mark": ("n,a\nu,1\nv,2\n".encode("utf-16"), {}, WHOLE),
    "UTF-16 that is said": ("n,a\nu,1\nv,2\n".encode("utf-16-le"), {"encoding": "utf-16-le"}, WHOLE),
    "semicolons": (b"n;a\nu;1\nv;2\n", {"delimiter": ";"}, WHOLE),
    "tabs": (b"n\ta\nu\t1\nv\t2\n", {"delimiter": "\t"}, WHOLE),
    "rows above the header": (b"A report\n\nn,a\nu,1\nv,2\n", {"skip_rows": 2}, WHOLE),
    "blank lines": (b"\nn,a\n\nu,1\n\n\nv,2\n\n", {}, WHOLE),
    "spaces in the header": (b" n , a\nu,1\nv,2\n", {}, WHOLE),
    "quotes": (b'"n","a"\n"u","1"\n"v","2"\n', {}, WHOLE),
    "a delimiter, a line end and a quote in quotes": (b'n\n"a,""b""\nc"\n', {}, {"n": ['a,"b"\nc']}),
    "quotes inside a field": (b'n,a\n5" disk,1\nthe "best",2\n', {}, {"n": ['5" disk', 'the "best"'], "a": ["1", "2"]}),
    "what others take for missing": (b"n,a\nNA,null\n", {}, {"n": ["NA"], "a": ["null"]}),
    "no row": (b"n,a\n", {}, {"n": [], "a": []}),
    "apostrophes of words": (b"n,a\n'-ing,1\n'@home,2\n", {}, {"n": ["'-ing", "'@home"], "a": ["1", "2"]}),
}  # fmt: skip

REFUSED = {
    "a quote that is never closed": (b"n,a\n1,x\n" + b'2,"x\n' + ROWS, {}, r"t\.csv: the quote .* line 3 is not close"),
    "a quote that the next one closes": (b'n,a\n"u,1\nv,2\n"w",3\n', {}, r"the quote .* in line 2 is not closed"),
    "a quote in the header": (b'n,"a\n1,2\n', {}, r"the quote .* in line 1 is not closed"),
    "a row too long": (b"n,a\nu,1,2\nv,2\n", {}, r"header has 2 fields, and 1 row .*: row 2 has 3 fields"),
    "rows too short": (b"n,a\nu\nv\n", {}, r"2 rows have another number: row 2 has 1 field; row 3 has 1 field"),
    "a delimiter at the end of each row": (b"n,a\nu,1,\nv,2,\n", {}, r"header has 2 fields, and 2 rows"),
    "row names of R": (b"a,b\nu,1,2\nv,3,4\n", {}, r"header has 2 fields, and 2 rows"),
    "text behind a closing quote": (b'n,a\n"u"s,1\nv,2\n', {}, r"row 2 is no row of fields: something follows"),
    "a carriage return alone": (b"n,a\nu\rs,1\n", {}, r"row 2 is no row of fields: .* a carriage return stands alone"),
    "another delimiter": (b"n;a\nu;1\n", {}, r"""one column, 'n;a'.*set delimiter = ';'"""),
    "the delimiter of Excel's first line": (b"sep=;\nn;a\nu;1\n", {}, r"set delimiter = ';'"),
    "a column twice": (b"n,a, a\nu,1,2\n", {}, r"has the column 'a' twice: keep one"),
    "a zero byte": (b"n,a\nu,1\nv,\x002\n", {}, r"line 3 holds a zero byte: it is no text, or is UTF-16"),
    "UTF-16 without a mark": ("n,a\nu,1\n".encode("utf-16-le"), {}, r"line 1 holds a zero byte"),
    "nothing": (b"", {}, r"has no header: give a table"),
    "blank lines only": (b"\n\n\n", {}, r"has no header: give a table"),
    "all rows skipped": (b"n,a\nu,1\n", {"skip_rows": 5}, r"has no header: give a table"),
    "Polish": (POLISH.encode("cp1250"), {}, r"t\.csv is not utf-8: line 2 holds .* It may be cp1250: correct it"),
    "Russian": (RUSSIAN.encode("koi8-r"), {}, r"is not utf-8: line 2.*It may be koi8_r"),
    "a byte": ("n,a\nKöln,1\nZürich,2\n".encode() + b"M\xff,3\n", {}, "line 4 holds the byte 0xff: correct it, or set"),
    "another encoding": (POLISH.encode(), {"encoding": "utf-16"}, "is not utf-16: line "),
    "no encoding": (b"n,a\n", {"encoding": "latinx"}, r"""there is no encoding 'latinx': set encoding = "utf-8" or"""),
    "no encoding of text": (b"n,a\n", {"encoding": "zlib"}, "there is no encoding 'zlib'"),
    "a delimiter of two characters": (b"n,a\n", {"delimiter": "||"}, r"delimiter is '\|\|': give one ASCII character"),
}  # fmt: skip


@pytest.mark.parametrize(("data", "options", "found"), READ.values(), ids=READ)
def test_what_is_read(data, options, found):
    table = read_delimited(data, "t.csv", **options)
    assert table.to_pydict() == found
    assert all(pa.types.is_string(kind) for kind in table.schema.types)


@pytest.mark.parametrize(("data", "options", "message"), REFUSED.values(), ids=REFUSED)
def test_what_is_refused(data, options, message):
    with pytest.raises((DelimitedError, EncodingError), match=message):
        read_delimited(data, "t.csv", **options)


def test_a_header_of_megabytes_is_read():
    names = [f"ENSG{gene:020}" for gene in range(45_000)]
    table = read_delimited((",".join(["cell", *names]) + "\nu" + ",1" * len(names) + "\n").encode(), "t.csv")
    assert table.column_names == ["cell", *names]


@pytest.mark.parametrize(
    ("cell", "options", "value"),
    [
        (" 12.345 ", {}, 12.345),
        ("12.345", {"decimal": ",", "thousands": "."}, 12345),
        ("-1,234,567.5", {"thousands": ","}, -1234567.5),
        ("1'234.5", {"thousands": "'"}, 1234.5),
        ("1e3", {}, 1000),
        ("+.5", {}, 0.5),
        ("007", {}, 7),
        ("1\u202f234,5", {"decimal": ",", "thousands": " "}, 1234.5),
        *((cell, {}, None) for cell in ("", "NA", "n/a", "nan", "None")),
    ],
)
def test_a_cell_is_a_number_or_missing(cell, options, value):
    found = numbers(pa.array([cell, "1"]), **options)
    assert not found.wrong.size
    np.testing.assert_equal(found.values, [np.nan if value is None else value, 1])


@pytest.mark.parametrize(
    ("cell", "options", "advice"),
    [
        ("1,5", {}, 'set decimal = ","'),
        ("1.234,5", {}, 'set decimal = "," and thousands = "."'),
        ("1,234.5", {}, 'set decimal = "." and thousands = ","'),
        ("1.5", {"decimal": ","}, 'set decimal = "."'),
        ("1,23,456", {"thousands": ","}, "correct or empty it"),
        *((cell, {}, "correct or empty it, or leave") for cell in ("$5", "3 %", "inf", "0x10", "-")),
    ],
)  # fmt: skip
def test_a_cell_that_is_no_number_is_named_with_the_remedy(cell, options, advice):
    cells = pa.array(["1", cell, ""])
    found = numbers(cells, **options)
    assert (found.wrong.tolist(), found.is_text) == ([1], False)
    assert remedy(cells, found.wrong).startswith(advice)


def test_a_column_in_which_no_cell_begins_like_a_number_is_text():
    assert numbers(pa.array(["Rome", "", "-"])).is_text
    assert not numbers(pa.array(["Rome", "3M"])).is_text
    assert not numbers(pa.array(["", "NA"])).is_text  # nothing at all
