"""New names of an imputation job by the command line: the columns of the table, on the scales of the fit."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

import distembed as de
from distembed.manifold.regressions import LinearRidge
from tests.commands import made, refusal, succeed
from tests.small_jobs.imputation import JOB

N_NAMES, N_KNOWN = 40, 20
SCALES = np.array([1.0, 100.0, 1e-3])


def numbers() -> np.ndarray:
    """Return the rows of the job's table: three columns of very different units."""
    return 7 + np.random.default_rng(0).standard_normal((N_NAMES, 3)) * SCALES


def as_csv(names: list[str], rows: np.ndarray, header: str = "name,a,b,c") -> str:
    lines = [",".join([name, *map(repr, row.tolist())]) for name, row in zip(names, rows, strict=True)]
    return "\n".join([header, *lines]) + "\n"


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("names")
    rng = np.random.default_rng(1)
    (folder / "domain.csv").write_text(as_csv([f"name {i}" for i in range(N_NAMES)], numbers()))
    vectors = np.tanh((numbers() - 7) / SCALES @ rng.standard_normal((3, 5))).astype(np.float32)
    words = [f"name_{i}" for i in range(N_KNOWN)] + ["elsewhere"]
    de.WordVectors(words, vectors[: N_KNOWN + 1]).save(folder / "known.txt")
    text = JOB.replace('label_column = "kind"\n', "")
    (folder / "job.toml").write_text(text.replace("min_degree = 4", 'min_degree = 4\nmethod = "residuals"'))
    made(folder / "job.toml", folder / "w")
    return folder / "w"


def infer(workspace: Path, table: Path, *words: str) -> list[object]:
    """Return the words of the command that infers the names of a table."""
    return ["infer", workspace, table, "--to", table.with_suffix(".parquet"), *words]


def test_new_names_follow_those_of_the_job_as_the_estimator_gives_them(finished, tmp_path):
    """The standardization is that of the job's table: one row has none of its own."""
    new = 7 + np.random.default_rng(2).standard_normal((3, 3)) * SCALES
    table = tmp_path / "new.csv"
    table.write_text(as_csv(["first new", "name 3", "third"], new[:, ::-1], header="name,c,b,a"))
    output, target = succeed(*infer(finished, table)).output, table.with_suffix(".parquet")
    assert pq.read_table(target).column_names == ["word", "origin", "vector"]
    assert output.startswith(f"2 new names; {N_NAMES + 3} words x 5 dimensions in ")
    assert "1 name ('name 3') had a vector already, which is kept" in " ".join(output.split())
    found, workspace = de.WordVectors.load(target), de.Workspace.open(finished)
    before = workspace.array("vectors").compute()
    assert found.vectors[: N_NAMES + 1].tobytes() == before.tobytes()
    assert list(found.words[-2:]) == ["first new", "third"]

    succeed("infer", finished, table, "--to", tmp_path / "all.tsv")
    lines = (tmp_path / "all.tsv").read_text(encoding="utf-8-sig").splitlines()
    assert len(lines) == N_NAMES + 4
    assert lines[-1].replace(chr(34), "").split("\t")[:2] == ["third", "inferred"]

    mean, spread = numbers().mean(axis=0), numbers().std(axis=0)
    X, kept = (numbers() - mean) / spread, (new[[0, 2]] - mean) / spread
    Y = workspace.array("known_vectors").compute()
    model = de.LatentSemanticImputation(min_degree=4, regressor=LinearRidge()).fit(X, Y)
    np.testing.assert_allclose(found.vectors[-2:], model.infer(kept, X, Y), rtol=1e-3, atol=1e-5)


def test_an_empty_cell_takes_the_median_of_the_job_where_it_is_asked_for(finished, tmp_path):
    table = tmp_path / "new.csv"
    table.write_text("name,a,b,c\nx,7,,7.001\ny,8,3,7.0\n")
    told = refusal(*infer(finished, table))
    assert "no finite number for 1 of 2 names in the column 'b', first 'x'" in told
    succeed(*infer(finished, table, "--set", "domain.missing=median"))
    holed = de.WordVectors.load(table.with_suffix(".parquet")).vectors[-2:]
    table.write_text(f"name,a,b,c\nx,7,{float(np.median(numbers()[:, 1]))!r},7.001\ny,8,3,7.0\n")
    succeed(*infer(finished, table))
    whole = de.WordVectors.load(table.with_suffix(".parquet")).vectors[-2:]
    np.testing.assert_allclose(holed, whole, rtol=1e-5)


FITTING = "name,a,b,c\nx,1,2,3\n"


@pytest.mark.parametrize(
    ("text", "words", "message"),
    [
        ("name,a,c\nx,1,2\n", "", "has no column 'b'; it has 'name', 'a', 'c'"),
        ("name,a,b,c\nx,1,many,2\n", "", "holds text in the column 'b', not numbers"),
        ("name,a,b,c\n", "", "has no row: give one per new name"),
        ("a,b,c\n1,2,3\n", "", "has numbers of the job in the column 'a', where names are looked for"),
        ("name,a,b,c\nname 1,1,2,3\n", "", "holds no new name: 1 name ('name 1') of it had a vector before"),
        ("name,a,b,c\nx,1,2,3\nx,1,2,4\n", "", "has 1 name twice ('x')"),
        (FITTING, "--set domain.transform=return_correlation", "a new series changes the table"),
        (FITTING, "--min-count 3", "leave out --words and --min-count"),
        (FITTING, "--space _", "new.parquet keeps spaces as they are: leave out --space"),
        (FITTING, "another.csv", "2 files are given, and an imputation job reads one table"),
    ],
)
def test_a_table_that_does_not_fit_is_refused_in_a_sentence(finished, tmp_path, text, words, message):
    table = tmp_path / "new.csv"
    table.write_text(text)
    (tmp_path / "another.csv").write_text(text)
    more = (str(tmp_path / word) if word.endswith(".csv") else word for word in words.split())
    assert message in refusal(*infer(finished, table, *more))
    assert not table.with_suffix(".parquet").exists()
