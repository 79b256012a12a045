"""Tables, counts and word vectors as files: every format reads back, and no more than a piece is held."""

from __future__ import annotations

import gzip
import weakref
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest

import distembed as de
from distembed.execution import compute
from distembed.job import stage, tables
from distembed.job.opening import open_job, parse_source
from distembed.job.tables import Table, paired, with_numbers
from distembed.linalg.operators import whole_csr
from distembed.vectors import WordVectors
from distembed.vectors.subwords import SubwordTable
from distembed.views import export
from distembed.views.export import TABLE_FORMATS, table_format, write_table
from distembed.views.texts import open_encoder
from tests.commands import run, succeed
from tests.tiny_job import computed

TITLES = ["Ärger, mit Komma", 'said "no"', "two\nlines", None, "=1+1", ""]
SCHEMA = pa.schema([("title", pa.string()), ("topic", pa.int64())])
WEIGHTS = np.arange(12, dtype=np.float32).reshape(6, 2) / 7
WEIGHTS[4] = np.nan


def table(*, as_lists: bool = False, numbers: bool = True) -> Table:
    """Return a table of six rows in two pieces, one of whose rows has no numbers."""
    batch = pa.record_batch([pa.array(TITLES), pa.array(range(6))], schema=SCHEMA)
    pieces = [(batch.slice(first, last - first), WEIGHTS[first:last]) for first, last in [(0, 4), (4, 6)]]
    plain = pa.RecordBatchReader.from_batches(SCHEMA, [batch])
    rows = with_numbers(SCHEMA, pieces, "weight", 2, apart=not as_lists) if numbers else plain
    return Table(rows, 6, "six rows")


@pytest.mark.parametrize("format_", ["csv", "tsv"])
@pytest.mark.parametrize("compression", ["", ".gz"])
def test_text_reads_back(tmp_path, format_, compression):
    path = tmp_path / f"t.{format_}{compression}"
    write_table(str(path), table(), format=table_format(str(path)))
    data = gzip.decompress(path.read_bytes()) if compression else path.read_bytes()
    assert data.startswith(b"\xef\xbb\xbf") == (format_ == "csv")  # what Excel needs, and only where it looks
    found = pacsv.read_csv(
        pa.BufferReader(data),
        parse_options=pacsv.ParseOptions(
            delimiter="," if format_ == "csv" else "\t", newlines_in_values=True
        ),
        convert_options=pacsv.ConvertOptions(strings_can_be_null=True, quoted_strings_can_be_null=False),
    )
    assert found.column_names == ["title", "topic", "weight_0", "weight_1"]
    assert found["title"].to_pylist() == TITLES
    assert found["weight_1"].to_pylist()[4] is None
    np.testing.assert_allclose(found["weight_1"].to_numpy(), WEIGHTS[:, 1], rtol=1e-7)


@pytest.mark.parametrize("as_lists", [False, True])
def test_parquet_reads_back(tmp_path, as_lists):
    path = tmp_path / "t.parquet"
    write_table(str(path), table(as_lists=as_lists), format="parquet")
    found = pq.read_table(path)
    assert found["title"].to_pylist() == TITLES
    if as_lists:
        # One of fixed size is a type of its own, which pyarrow before 26 cannot read with a missing row.
        assert isinstance(found.schema.field("weight").type, pa.ListType)
        assert found["weight"].to_pylist()[4] is None
        assert found["weight"].to_pylist()[5] == WEIGHTS[5].tolist()
    else:
        assert found["weight_0"].to_numpy()[:4].tobytes() == WEIGHTS[:4, 0].tobytes()
        assert found["weight_0"].to_pylist()[4] is None


def test_npy_holds_the_numbers(tmp_path):
    write_table(str(tmp_path / "t.npy"), table(), format="npy")
    assert np.load(tmp_path / "t.npy").tobytes() == WEIGHTS.tobytes()


@pytest.mark.parametrize("format_", TABLE_FORMATS)
def test_a_table_without_numbers(tmp_path, format_):
    path = str(tmp_path / f"t.{format_}")
    if format_ == "npy":
        with pytest.raises(ValueError, match="this table has none beside its columns title, topic; choose"):
            write_table(path, table(numbers=False), format="npy")
        assert list(tmp_path.iterdir()) == []
    else:
        write_table(path, table(numbers=False), format=table_format(path))
        assert Path(path).stat().st_size


@pytest.mark.parametrize("name", ["t.parquet.gz", "t.npy.xz"])
def test_a_binary_file_is_not_compressed_as_a_whole(tmp_path, name):
    with pytest.raises(ValueError, match="not compressed as a whole; leave out"):
        write_table(str(tmp_path / name), table(), format=table_format(name))


@pytest.mark.parametrize("format_", TABLE_FORMATS)
def test_no_more_than_a_piece_is_held(tmp_path, format_):
    """The pieces of a table are gone when the next but one is made: a million documents pass through."""
    made: list[weakref.ref[np.ndarray]] = []

    def pieces() -> Iterator[tuple[pa.RecordBatch, np.ndarray]]:
        for _ in range(5):
            assert sum(ref() is not None for ref in made) <= 1
            numbers = np.ones((3, 2), np.float32)
            made.append(weakref.ref(numbers))
            yield pa.record_batch([pa.array(TITLES[:3]), pa.array(range(3))], schema=SCHEMA), numbers
            del numbers

    whole = Table(with_numbers(SCHEMA, pieces(), "weight", 2, apart=True), 15, "fifteen rows")
    path = str(tmp_path / f"t.{format_}")
    write_table(path, whole, format=table_format(path))
    assert len(made) == 5


def test_a_failure_leaves_what_was_there(tmp_path):
    def pieces() -> Iterator[tuple[pa.RecordBatch, np.ndarray]]:
        yield pa.record_batch([pa.array(TITLES), pa.array(range(6))], schema=SCHEMA), WEIGHTS
        raise OSError("the store is gone")

    path = tmp_path / "t.csv"
    path.write_text("before")
    with pytest.raises(OSError, match="the store is gone"):
        write_table(str(path), Table(with_numbers(SCHEMA, pieces(), "weight", 2), 6, ""), format="csv")
    assert path.read_text() == "before"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("batch_rows", [1, 4, 10])
@pytest.mark.parametrize("block_rows", [1, 3, 10])
def test_rows_of_other_bounds_are_paired(batch_rows, block_rows):
    numbers = pa.record_batch({"row": list(range(10))})
    array = np.arange(10, dtype=np.float32)[:, np.newaxis]
    batches = (numbers.slice(first, batch_rows) for first in range(0, 10, batch_rows))
    blocks = (array[first : first + block_rows] for first in range(0, 10, block_rows))
    pieces = list(paired(batches, blocks))
    assert [row for columns, _ in pieces for row in columns["row"].to_pylist()] == list(range(10))
    assert np.concatenate([rows for _, rows in pieces]).ravel().tolist() == list(range(10))
    assert all(columns.num_rows == len(rows) for columns, rows in pieces)


def test_counts_that_were_written_are_read_by_pandas_and_give_the_vectors_of_the_job(tiny):
    done = succeed("export", tiny / "w", "--what", "counts", "--to", tiny / "c.parquet")
    assert "their words in" in done.output
    workspace = de.Workspace.open(str(tiny / "w"))
    expected, words = whole_csr(workspace.array("cooccurrence")), workspace.table("vocabulary")["word"]
    counts, vocabulary = de.read_counts(tiny / "c.parquet")
    assert vocabulary.words == words.to_pylist()
    np.testing.assert_array_equal(vocabulary.counts, workspace.table("vocabulary")["count"])
    assert counts.dtype == expected.dtype
    for part in ("indptr", "indices", "data"):
        np.testing.assert_array_equal(getattr(counts, part), getattr(expected, part))
    model = de.PSDVec(**open_job(str(tiny / "w")).psdvec.options)
    found = model.fit(counts, vocabulary.counts).vectors_
    np.testing.assert_allclose(found, compute(workspace.array("vectors")), rtol=1e-4, atol=1e-5)
    for name in ("c.parquet", "c.csv", "c.tsv.gz"):
        succeed("export", tiny / "w", "--what", "counts", "--to", tiny / name)
    frames = [
        pd.read_parquet(tiny / "c.parquet"),
        pd.read_csv(tiny / "c.csv", encoding="utf-8-sig"),
        pd.read_csv(tiny / "c.tsv.gz", sep="\t"),
    ]
    listed = words.to_pylist()
    for frame in frames:
        wide = frame.pivot(index="word", columns="context", values="count").fillna(0)
        np.testing.assert_array_equal(wide.loc[listed, listed], expected.toarray())
    assert pd.read_parquet(tiny / "c.words.parquet")["word"].tolist() == listed


PAIRS = [("a", "b", 3), ("b", "a", 2)]


COLUMNS = ["word", "context", "count"]


@pytest.mark.parametrize(
    ("columns", "rows", "message"),
    [
        (["word", "context", "n"], PAIRS, "has no column 'count'"),
        (COLUMNS, [*PAIRS, ("a", "c", 1)], "'context': 'c'.* is no count of two of its 2 words"),
        (COLUMNS, [*PAIRS, ("a", "a", -1)], "'count': -1"),
        (COLUMNS, [*PAIRS, ("a", "a", np.nan)], "'count': None"),
        (COLUMNS, [*PAIRS, PAIRS[0]], "holds a pair of words twice"),
        (COLUMNS, [], "holds no row: export the counts again"),
    ],
)
def test_a_table_that_is_no_table_of_counts_is_one_sentence(tmp_path, columns, rows, message):
    pd.DataFrame(rows, columns=columns).to_parquet(tmp_path / "c.parquet")
    with pytest.raises(ValueError, match=message):
        de.read_counts(tmp_path / "c.parquet", words=de.Vocabulary(["a", "b"], [9, 4], [2, 2]))


def test_a_table_without_its_words_or_of_other_bytes_is_one_sentence(tmp_path):
    pd.DataFrame(PAIRS, columns=["word", "context", "count"]).to_parquet(tmp_path / "c.parquet")
    with pytest.raises(FileNotFoundError, match=r"c\.words\.parquet"):
        de.read_counts(tmp_path / "c.parquet")
    (tmp_path / "d.parquet").write_bytes(b"word context count\n")
    with pytest.raises(ValueError, match="cannot be read as a Parquet file"):
        de.read_counts(tmp_path / "d.parquet", words=de.Vocabulary(["a"], [9], [2]))


def test_pmi_and_distances_are_written(tiny):
    succeed("run", tiny / "job.toml", "--set", "matrices.keep=['pmi','distances']", "--until", "distances")
    workspace = de.Workspace.open(str(tiny / "w"))
    done = succeed("export", tiny / "w", "--what", "pmi", "--to", tiny / "p.parquet")
    assert "every cell of the matrix, listed or not, is -3.91202301 more" in done.output
    frame = pd.read_parquet(tiny / "p.parquet")
    assert list(frame) == ["word", "context", "pmi"]
    np.testing.assert_array_equal(frame["pmi"], whole_csr(workspace.array("pmi")).data)
    assert float(pq.read_schema(tiny / "p.parquet").metadata[b"constant"]) == pytest.approx(np.log(0.02))
    succeed("export", tiny / "w", "--what", "distances", "--to", tiny / "d.npy")
    np.testing.assert_array_equal(np.load(tiny / "d.npy"), workspace.array("distances").compute())


WORDS = ["king", "queen", "kings", "queens"]


@pytest.fixture
def file(tmp_path):
    """Return a file of four words and the n-grams of them."""
    rng = np.random.default_rng(1)
    table = SubwordTable(rng.normal(size=(3, 4)), rng.normal(size=4), ngrams=("kin", "ngs", "que"))
    path = tmp_path / "v.safetensors"
    WordVectors(WORDS, rng.normal(size=(4, 4)), subwords=table).save(path)
    return path


def test_fewer_words_with_the_n_grams_for_the_others_or_all_words_without(file, tmp_path):
    small = tmp_path / "small.safetensors"
    said = succeed("export", file, "--to", small, "--max-words", 2).output
    assert "2 words x 4 dimensions in " in said
    assert said.endswith("; 2 words are composed there\n")
    read = WordVectors.load(small)
    assert read.words == ("king", "queen")
    assert np.allclose(read["kings"], WordVectors.load(file).subwords.compose(["kings"])[0])
    said = succeed("export", file, "--to", tmp_path / "v.txt").output
    assert "3 n-grams of 3 to 6 characters are left out, which safetensors files hold" in said
    assert run("neighbors", tmp_path / "v.txt", "kingly").exit_code == 1


def test_unknown_words_have_neighbors_and_say_that_they_are_composed(file):
    lines = succeed("neighbors", file, "kingly", "king", "Ω", "-n", 1).output.splitlines()
    assert lines[0].startswith("kingly (composed from 1 of 18 n-grams): ")
    assert lines[1].startswith("king: ")
    assert lines[2].startswith("Ω (the mean vector: none of its 1 n-gram is known): ")


def test_vectors_and_neighbors_as_tables(file, tmp_path):
    vectors = WordVectors.load(file)
    succeed("export", file, "--to", tmp_path / "v.csv", "--max-words", 3)
    table = pacsv.read_csv(tmp_path / "v.csv").drop(["word"])
    np.testing.assert_allclose(np.column_stack([*table.columns]), vectors.vectors[:3], rtol=1e-6)
    done = succeed("neighbors", file, "king", "kingly", "-n", 2, "--to", tmp_path / "n.csv")
    assert "written to " in done.output
    near = pacsv.read_csv(tmp_path / "n.csv").to_pylist()
    assert [row["rank"] for row in near] == [1, 2, 1, 2]
    assert [row["neighbor"] for row in near[:2]] == [word for word, _ in vectors.most_similar("king", n=2)]


def test_words_of_one_direction_are_told_by_their_weight(tmp_path):
    """As the words of one topic alone: their cosines are all 1, in the order of rounding."""
    words = ["lake", "town", "river", "fish", "vote"]
    rows = np.array([[1, 0], [2, 0], [3, 0], [0.5, 0], [1, 1]], np.float32)
    WordVectors(words, rows).save(tmp_path / "v.txt")
    line = succeed("neighbors", tmp_path / "v.txt", "lake", "-n", 3).output
    assert line.startswith("lake: river, town, fish; the heaviest of 3 words that have its direction")
    assert "vote 0.707" in succeed("neighbors", tmp_path / "v.txt", "lake", "-n", 4).output


@pytest.mark.parametrize(
    ("module", "name", "target", "what"),
    [
        (stage, "table_of_vectors", "v.txt", ()),
        (tables, "rows_of_blocks", "v.csv", ()),
        (export, "csr_array", "counts.parquet", ("--what", "counts")),
    ],
)
def test_what_a_run_replaces_meanwhile_is_not_exported(
    tiny, tmp_path, monkeypatch, module, name, target, what
):
    """An export whose n-grams were gone when it came to them said nothing, and left them out."""
    real = getattr(module, name)

    def read_slowly(*given: object) -> object:
        found = real(*given)
        found = iter([*found]) if isinstance(found, Iterator) else found
        monkeypatch.undo()
        computed(tiny, "psdvec.n_iter=2")
        return found

    monkeypatch.setattr(module, name, read_slowly)
    export = ("export", tiny / "w", "--to", tmp_path / target, *what)
    done = run(*export)
    assert (done.exit_code, "was read: read it again." in done.output) == (3, True), done.output
    assert not (tmp_path / target).exists()
    succeed(*export)


def test_a_job_becomes_a_model_with_the_vectors_of_its_encoder(finished, tmp_path):
    model2vec = pytest.importorskip("model2vec", reason="loads the folder: pip install 'distembed[test]'")
    done = succeed("export", finished[0], "--to", f"static:{tmp_path}/model")
    assert "weights from the counts of the words" in done.output
    texts = ["The history of the city.", "music, xyzzy!"]
    expected = open_encoder(parse_source(str(finished[0]))).transform(texts)
    found = model2vec.StaticModel.from_pretrained(tmp_path / "model").encode(texts)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-7)
    card = (tmp_path / "model" / "README.md").read_text(encoding="utf-8")
    assert finished[1] in card
    assert "enwiki-latest-pages-articles1.xml-p000000010p000030302-shortened.bz2" in card
    assert str(finished[0].parent) not in card


def test_a_vector_file_says_where_weights_come_from_and_which_words_no_text_gives(tmp_path):
    words = ["of", "king", "new_york", "u.s."]
    WordVectors(words, np.eye(4)).save(tmp_path / "v.txt")
    done = succeed("export", tmp_path / "v.txt", "--to", f"static:{tmp_path}/m", "--whitening", "component")
    assert "weights from Zipf's law, by the order of the words" in done.output
    assert (
        "2 of 4 words never come out of a text as the tokenizer cuts it ('new_york', 'u.s.')" in done.output
    )
    assert "2 of 4 words never" in (tmp_path / "m" / "README.md").read_text(encoding="utf-8")
