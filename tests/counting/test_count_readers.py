"""Tables of counts of other programs: what each format holds, and one sentence for each kind of damage."""

from __future__ import annotations

import io
import struct
import zipfile
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from distembed.corpus import Vocabulary
from distembed.counting.count_files import words_digest
from distembed.counting.count_readers import (
    CountTableError,
    kind_of,
    open_table,
    parquet_sums,
    read_cells,
    table_words,
)
from distembed.counting.given_blocks import (
    GivenCells,
    PairTwiceError,
    joined_runs,
    renumbered,
    sorted_runs,
)
from distembed.counting.runs import RunWriter, read_runs

WORDS = ["the", "cat", "sat"]
CELLS = [("the", "cat", 3.0), ("cat", "the", 0.5), ("sat", "sat", 2.0)]
BIGRAMS = """# 3 words, 60 occurrences
# window 3
# 9 bigram occurrences
Words:
the,30,-0.69\tcat,20,-1.1
sat,10,-1.79

Bigrams:
1,the,1,3,0
\tcat,3,-0.1
2,cat,2,3,0
\tthe,1,-0.1\tsat,2,-0.2
3,sat,1,2,0
\tsat,2,-0.1
# end
"""


def write_glove(folder: Path) -> Path:
    """Write three records as GloVe's cooccur.c does, by hand: two int32 and a double, numbers from 1 on."""
    records = [(1, 2, 3.0), (2, 1, 0.5), (3, 3, 2.0)]
    (folder / "cooccurrence.bin").write_bytes(b"".join(struct.pack("<iid", *record) for record in records))
    (folder / "vocab.txt").write_text("the 30\ncat 20\nsat 10\n")
    return folder / "cooccurrence.bin"


def write_npz(folder: Path) -> Path:
    matrix = sp.csr_array(([3.0, 0.5, 2.0], ([0, 1, 2], [1, 0, 2])), shape=(3, 3))
    sp.save_npz(folder / "counts.npz", matrix)
    (folder / "counts.words.txt").write_text("the 30\ncat 20\nsat 10\n")
    return folder / "counts.npz"


def write_parquet(folder: Path) -> Path:
    table = pd.DataFrame(CELLS, columns=["word", "context", "count"])
    table.to_parquet(folder / "counts.parquet", index=False)
    return folder / "counts.parquet"


def cells_of(path: Path, words: Path | None = None, *, n_cells: int = 2) -> list[tuple[str, str, float]]:
    table = open_table(str(path), block_memory=32)
    listed = table_words(table, None if words is None else str(words))
    known = Vocabulary(WORDS, np.array([30, 20, 10]), np.full(3, -1)) if listed is None else listed
    found = []
    for piece in range(len(table.pieces)):
        for cells in read_cells(table, piece, known, n_cells, closed=True):
            names = [[known.words[number] for number in side] for side in (cells.rows, cells.columns)]
            found += list(zip(*names, cells.values.tolist(), strict=True))
    return found


@pytest.mark.parametrize("write", [write_glove, write_npz, write_parquet])
def test_every_format_holds_the_same_cells(tmp_path: Path, write: object) -> None:
    path = write(tmp_path)  # type: ignore[operator]
    words = {"glove": tmp_path / "vocab.txt", "npz": tmp_path / "counts.words.txt"}.get(kind_of(str(path)))
    assert sorted(cells_of(path, words)) == sorted(CELLS)


def test_a_bigram_file_of_psdvec_is_read(tmp_path: Path) -> None:
    (tmp_path / "top.txt").write_text(BIGRAMS)
    table = open_table(str(tmp_path / "top.txt"))
    words = table_words(table, None)
    assert words is not None
    assert (words.words, words.counts.tolist()) == (WORDS, [30, 20, 10])
    assert cells_of(tmp_path / "top.txt") == [
        ("the", "cat", 3.0),
        ("cat", "the", 1.0),
        ("cat", "sat", 2.0),
        ("sat", "sat", 2.0),
    ]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("# 3 words, 60 occurrences", "the cat sat", "no bigram file of PSDVec"),
        ("# 3 words", "# 4 words", "announces 4 words and lists 3"),
        ("sat,10,-1.79", "sat,ten,-1.79", "line 6: 'ten' is no count"),
        ("\tcat,3,-0.1", "\tdog,3,-0.1", "line 10: 'dog' is not among its words"),
        ("\tcat,3,-0.1", "\tcat,-3,-0.1", "line 10: '-3' is no count"),
        ("\tcat,3,-0.1", "\tcat", "line 10: 'cat' has not 3 parts"),
        ("Bigrams:", "Bigrms:", 'no line "Bigrams:"'),
        ("sat,10", "\udce4,10", "line 6 is not UTF-8 .*: convert the file"),
    ],
)
def test_a_damaged_bigram_file_is_one_sentence(tmp_path: Path, old: str, new: str, message: str) -> None:
    (tmp_path / "top.txt").write_text(BIGRAMS.replace(old, new, 1), errors="surrogateescape")
    with pytest.raises(CountTableError, match=message):
        cells_of(tmp_path / "top.txt")


def test_pieces_begin_where_the_one_before_ends(tmp_path: Path) -> None:
    assert open_table(str(write_glove(tmp_path)), block_memory=32).pieces == ((0, 2), (2, 3))
    assert cells_of(tmp_path / "cooccurrence.bin", tmp_path / "vocab.txt", n_cells=1) == CELLS
    pq.write_table(pa.Table.from_pylist(rows()), tmp_path / "rows.parquet", row_group_size=1)
    assert open_table(str(tmp_path / "rows.parquet"), block_memory=32).pieces == ((0, 2), (2, 3))
    assert cells_of(tmp_path / "rows.parquet") == CELLS


def rows(**change: object) -> list[dict[str, object]]:
    """Return the rows of a table; `change` is made to the second."""
    found: list[dict[str, object]] = [
        dict(zip(("word", "context", "count"), cell, strict=True)) for cell in CELLS
    ]
    found[1] |= change
    return found


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"count": -1.0}, "cell 2: the count of 'cat' with 'the' is -1; give counts that are 0 or more"),
        ({"count": float("nan")}, "cell 2: the count of 'cat' with 'the' is nan"),
        ({"count": float("inf")}, "cell 2: the count of 'cat' with 'the' is inf"),
        ({"count": None}, "cell 2: the count of 'cat' with 'the' is nan"),
        ({"word": None}, "row 2 has no word"),
        ({"context": "dog"}, "row 2: 'dog' is not among the words of the table"),
    ],
)
def test_a_bad_row_is_one_sentence_with_its_number(
    tmp_path: Path, change: dict[str, object], message: str
) -> None:
    pq.write_table(pa.Table.from_pylist(rows(**change)), tmp_path / "bad.parquet")
    with pytest.raises(CountTableError, match=message):
        cells_of(tmp_path / "bad.parquet")


def test_a_table_without_words_is_counted_by_its_cells(tmp_path: Path) -> None:
    table = open_table(str(write_parquet(tmp_path)))
    assert table_words(table, None) is None
    words, sums = parquet_sums(table, 2)
    assert dict(zip(words.to_pylist(), sums.tolist(), strict=True)) == {"the": 3.5, "cat": 3.5, "sat": 4.0}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"count": None}, "has no column 'count', only word, context: name its columns word, context, count"),
        ({"word": [["the"]]}, "the column word holds no texts .*; write words in it"),
        ({"count": ["many"]}, "row 1: the column count holds no numbers .*; write counts of 0 or more"),
        ({"count": [-1.0]}, "row 1: the count is -1; give counts of 0 or more"),
        ({"context": [None]}, "row 1 has no context: give it one, or remove the row"),
    ],
)
def test_a_bad_column_is_one_sentence(tmp_path: Path, change: dict[str, object], message: str) -> None:
    columns = {"word": ["the"], "context": ["cat"], "count": [1.0]} | change
    path = tmp_path / "bad.parquet"
    pq.write_table(pa.table({name: values for name, values in columns.items() if values}), path)
    with pytest.raises(CountTableError, match=message):
        parquet_sums(open_table(str(path)), 2)


def with_member(path: Path, name: str, data: bytes) -> None:
    """Put other bytes in place of one of the arrays of an archive."""
    with zipfile.ZipFile(path) as archive:
        members = {member: archive.read(member) for member in archive.namelist()}
    with zipfile.ZipFile(path, "w") as archive:
        for member, content in (members | {f"{name}.npy": data}).items():
            archive.writestr(member, content)


@pytest.mark.parametrize(
    ("name", "values", "extra", "message"),
    [
        ("indptr", np.array([0, 2, 1, 3]), 0, "its indptr does not fit its rows; save it again"),
        ("indices", np.array([0.5, 1, 2]), 0, "indices is float64 of shape .*, and no vector of numbers"),
        ("data", np.ones((3, 1)), 0, "data is float64 of shape .*, and no vector of numbers; save it"),
        ("data", np.ones(3), -4, "ends too early: copy it again"),
        ("data", np.ones(3), 8, "is longer than its head says: save it again"),
    ],
)
def test_an_archive_whose_arrays_do_not_fit_is_refused(
    tmp_path: Path, name: str, values: np.ndarray, extra: int, message: str
) -> None:
    path, file = write_npz(tmp_path), io.BytesIO()
    np.save(file, values)
    data = file.getvalue() + bytes(max(extra, 0))
    with_member(path, name, data[: len(data) + min(extra, 0)])
    with pytest.raises(CountTableError, match=message):
        cells_of(path, tmp_path / "counts.words.txt")


def test_damage_is_one_sentence(tmp_path: Path) -> None:
    glove, npz, parquet = write_glove(tmp_path), write_npz(tmp_path), write_parquet(tmp_path)
    with pytest.raises(FileNotFoundError, match="no table of counts"):
        open_table(str(tmp_path / "nothing.npz"))
    with pytest.raises(CountTableError, match="no table of counts by its name"):
        kind_of("counts.feather")
    glove.write_bytes(glove.read_bytes()[:-3])
    with pytest.raises(CountTableError, match="ends within a record"):
        open_table(str(glove))
    glove.write_bytes(b"")
    with pytest.raises(CountTableError, match=r"cooccurrence\.bin holds no cell: export or copy it again"):
        open_table(str(glove))
    glove.write_bytes(struct.pack("<iid", 1, 4, 1.0))
    with pytest.raises(CountTableError, match="cell 1: there is no word of the number 4, only 1 to 3"):
        cells_of(glove, tmp_path / "vocab.txt")
    with pytest.raises(FileNotFoundError, match=r"no file .*none.txt with the words of"):
        cells_of(glove, tmp_path / "none.txt")
    for path, message in ((npz, "cannot be read as a file of scipy"), (parquet, "as a Parquet file")):
        data = bytearray(path.read_bytes())
        del data[len(data) // 2 :]
        path.write_bytes(data)
        with pytest.raises(CountTableError, match=message):
            cells_of(path, tmp_path / "vocab.txt")


def test_a_matrix_that_does_not_fit_its_words_is_refused(tmp_path: Path) -> None:
    path = write_npz(tmp_path)
    (tmp_path / "vocab.txt").write_text("the 30\ncat 20\n")
    with pytest.raises(CountTableError, match="has 3 rows, and there are 2 words"):
        cells_of(path, tmp_path / "vocab.txt")
    (tmp_path / "vocab.txt").write_text("the 30\ncat 20\nsat 10\n")
    beyond = sp.csr_array(([3.0, 0.5], ([0, 2], [1, 0])), shape=(3, 3))
    beyond.indices[1] = 3
    sp.save_npz(path, beyond)
    with pytest.raises(CountTableError, match="cell 2: there is no word of the number 3, only 0 to 2"):
        cells_of(path, tmp_path / "vocab.txt")
    sp.save_npz(path, sp.csr_array((3, 2)))
    with pytest.raises(CountTableError, match="give a square one"):
        open_table(str(path))
    sp.save_npz(path, sp.csc_array((3, 3)))
    with pytest.raises(CountTableError, match=r"matrix.tocsr\(\)"):
        open_table(str(path))


def test_words_of_another_table_are_refused(tmp_path: Path) -> None:
    words = Vocabulary(WORDS, np.array([30, 20, 10]), np.full(3, -1))
    path = write_glove(tmp_path)
    manifest = f'{{"n_cells": 3, "total": 5.5, "words_digest": "{words_digest(words)}"}}'
    (tmp_path / "cooccurrence.manifest.json").write_text(manifest)
    assert cells_of(path, tmp_path / "vocab.txt") == CELLS
    (tmp_path / "vocab.txt").write_text("the 31\ncat 20\nsat 10\n")
    with pytest.raises(CountTableError, match="does not hold the words that"):
        cells_of(path, tmp_path / "vocab.txt")
    path.write_bytes(path.read_bytes()[:32])
    with pytest.raises(CountTableError, match=r"has 2 cells, and .* says 3"):
        open_table(str(path))
    for damaged in ("{", '{"n_cells": 3}', manifest.replace("3", '"3"')):
        (tmp_path / "cooccurrence.manifest.json").write_text(damaged)
        with pytest.raises(ValueError, match=r"manifest\.json is damaged: export the table again"):
            open_table(str(path))


# --- runs ---------------------------------------------------------------------------------------------------------

PLACES = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=20, unique=True)


@given(places=PLACES, cut=st.integers(0, 20), bound=st.integers(1, 5))
def test_runs_of_pieces_in_any_order_are_the_matrix(
    places: list[tuple[int, int]], cut: int, bound: int
) -> None:
    rows, columns = np.array(places, np.int32).reshape(-1, 2).T
    values = np.arange(len(places)) / 4 + 0.25
    pieces = [
        GivenCells(1, rows[part], columns[part], values[part]) for part in (slice(cut), slice(cut, None))
    ]
    bounds = (0, bound, 6)
    runs = [sorted_runs(piece, bounds) for piece in pieces]
    blocks = [
        joined_runs([run[block] for run in runs], last - first, 6, np.dtype(np.float32))
        for block, (first, last) in enumerate(pairwise(bounds))
    ]
    found = sp.vstack(blocks).toarray()
    expected = np.zeros((6, 6), np.float32)
    expected[rows, columns] = values
    np.testing.assert_array_equal(found, expected)
    assert all(block.has_canonical_format for block in blocks)


def test_a_pair_twice_is_found_within_a_piece_and_between_two() -> None:
    cells = GivenCells(1, np.array([1, 1], np.int32), np.array([2, 2], np.int32), np.array([1.0, 2.0]))
    with pytest.raises(PairTwiceError) as error:
        sorted_runs(cells, (0, 3))
    assert (error.value.row, error.value.column) == (1, 2)
    one = GivenCells(1, cells.rows[:1], cells.columns[:1], cells.values[:1])
    (run,) = sorted_runs(one, (0, 3))
    with pytest.raises(PairTwiceError):
        joined_runs([run, run], 3, 3, np.dtype(np.int32))


def test_words_that_are_not_taken_and_zeros_are_left_out() -> None:
    cells = GivenCells(
        1, np.array([0, 1, -1], np.int32), np.array([1, 0, 0], np.int32), np.array([2.0, 0, 3])
    )
    found = renumbered(cells, np.array([1, 0, -1], np.int32), np.array([1, 0, -1], np.int32))
    assert (found.rows.tolist(), found.columns.tolist(), found.values.tolist()) == ([1], [0], [2.0])


def test_runs_of_fractions_come_back(tmp_path: Path) -> None:
    cells = GivenCells(1, np.array([0, 1], np.int32), np.array([1, 0], np.int32), np.array([1 / 3, 2.0]))
    (run,) = sorted_runs(cells, (0, 2))
    with RunWriter(str(tmp_path / "runs"), 1) as writer:
        writer.append(0, run)
    (found,) = read_runs(str(tmp_path / "runs"), 0)
    assert found.values.dtype == np.float64
    np.testing.assert_array_equal(found.values, run.values)
