"""Word vectors in other formats: fewer words, what is said of n-grams, and folders of static models."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow.csv as pacsv
import pytest

from distembed.job import stage, tables
from distembed.job.opening import parse_source
from distembed.vectors import WordVectors
from distembed.vectors.subwords import SubwordTable
from distembed.views import export
from distembed.views.texts import open_encoder
from tests.commands import run, succeed
from tests.tiny_job import computed

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
