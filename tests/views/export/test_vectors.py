"""Word vectors of a file in other formats: fewer words, and what is said of n-grams."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import pyarrow.csv as pacsv
import pytest
from click.testing import CliRunner

from distembed.cli.main import cli
from distembed.job import stage, tables
from distembed.vectors import WordVectors
from distembed.vectors.subwords import SubwordTable
from distembed.views import export
from tests.tiny_job import computed

WORDS = ["king", "queen", "kings", "queens"]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Return a file of four words and the n-grams of them."""
    rng = np.random.default_rng(1)
    table = SubwordTable(rng.normal(size=(3, 4)), rng.normal(size=4), ngrams=("kin", "ngs", "que"))
    path = tmp_path / "v.safetensors"
    WordVectors(WORDS, rng.normal(size=(4, 4)), subwords=table).save(path)
    return path


def distembed(*arguments: object) -> tuple[int, str]:
    found = CliRunner().invoke(cli, [str(argument) for argument in arguments])
    return found.exit_code, found.output


def test_fewer_words_and_the_n_grams_for_the_others(file: Path, tmp_path: Path) -> None:
    small = tmp_path / "small.safetensors"
    code, said = distembed("export", file, "--to", small, "--max-words", 2)
    assert code == 0
    assert "2 words x 4 dimensions in " in said
    assert said.endswith("; 2 words are composed there\n")
    read = WordVectors.load(small)
    assert read.words == ("king", "queen")
    assert np.allclose(read["kings"], WordVectors.load(file).subwords.compose(["kings"])[0])


def test_formats_without_n_grams_say_so(file: Path, tmp_path: Path) -> None:
    code, said = distembed("export", file, "--to", tmp_path / "v.txt")
    assert code == 0
    assert "3 n-grams of 3 to 6 characters are left out, which safetensors files hold" in said
    code, said = distembed("neighbors", tmp_path / "v.txt", "kingly")
    assert code == 1


def test_unknown_words_have_neighbors_and_say_that_they_are_composed(file: Path) -> None:
    code, said = distembed("neighbors", file, "kingly", "king", "Ω", "-n", 1)
    lines = said.splitlines()
    assert code == 0
    assert lines[0].startswith("kingly (composed from 1 of 18 n-grams): ")
    assert lines[1].startswith("king: ")
    assert lines[2].startswith("Ω (the mean vector: none of its 1 n-gram is known): ")


def test_options_that_a_table_has_not(file: Path, tmp_path: Path) -> None:
    code, said = distembed("export", file, "--what", "topics", "--to", tmp_path / "t.csv")
    assert code != 0
    assert "is a file of word vectors and has no topics" in said


def test_vectors_and_neighbors_as_tables(file: Path, tmp_path: Path) -> None:
    vectors = WordVectors.load(file)
    code, said = distembed("export", file, "--to", tmp_path / "v.csv", "--max-words", 3)
    assert code == 0, said
    table = pacsv.read_csv(tmp_path / "v.csv").drop(["word"])
    np.testing.assert_allclose(np.column_stack([*table.columns]), vectors.vectors[:3], rtol=1e-6)
    assert distembed("export", file, "--to", tmp_path / "v.csv", "--space", "_")[0] == 2
    code, said = distembed("neighbors", file, "king", "kingly", "-n", 2, "--to", tmp_path / "n.csv")
    assert (code, "written to " in said) == (0, True)
    near = pacsv.read_csv(tmp_path / "n.csv").to_pylist()
    assert [row["rank"] for row in near] == [1, 2, 1, 2]
    assert [row["neighbor"] for row in near[:2]] == [word for word, _ in vectors.most_similar("king", n=2)]
    code, said = distembed("neighbors", file, "king", "--to", tmp_path / "n.docx")
    assert (
        code,
        "n.docx cannot be detected from its name: end it in .json, .html, .csv, .tsv or .parquet" in said,
    ) == (
        2,
        True,
    )


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (
            ("--to", "v.xls"),
            "v.xls cannot be detected from its name: end it in .txt, .bin, .glove, .parquet or ",
        ),
        (("--to", "v.parqet"), "v.parqet cannot be detected from its name: did you mean .parquet?"),
        (
            ("--to", "v.txt", "--format", "word2vek"),
            "there is no format 'word2vek' to write v.txt in; did you mean word",
        ),
    ],
)
def test_an_unknown_format_has_the_nearest_one(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...], sentence: str
) -> None:
    monkeypatch.chdir(tmp_path)
    before = sorted(tmp_path.iterdir())
    code, said = distembed("export", file, *options)
    assert (code, sentence in said) == (2, True), said
    assert sorted(tmp_path.iterdir()) == before


def test_words_of_one_direction_are_told_by_their_weight(tmp_path: Path) -> None:
    """As the words of one topic alone: their cosines are all 1, in the order of rounding."""
    words = ["lake", "town", "river", "fish", "vote"]
    rows = np.array([[1, 0], [2, 0], [3, 0], [0.5, 0], [1, 1]], np.float32)
    WordVectors(words, rows).save(tmp_path / "v.txt")
    _, line = distembed("neighbors", tmp_path / "v.txt", "lake", "-n", 3)
    assert line.startswith("lake: river, town, fish; the heaviest of 3 words that have its direction")
    assert "vote 0.707" in distembed("neighbors", tmp_path / "v.txt", "lake", "-n", 4)[1]


@pytest.mark.parametrize(
    ("module", "name", "target", "what"),
    [
        (stage, "table_of_vectors", "v.txt", ()),
        (tables, "rows_of_blocks", "v.csv", ()),
        (export, "csr_array", "counts.parquet", ("--what", "counts")),
    ],
)
def test_what_a_run_replaces_meanwhile_is_not_exported(
    tiny: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    module: ModuleType,
    name: str,
    target: str,
    what: tuple[str, ...],
) -> None:
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
    exit_code, output = distembed(*export)
    assert (exit_code, "was read: read it again." in output) == (3, True), output
    assert not (tmp_path / target).exists()
    assert distembed(*export)[0] == 0
