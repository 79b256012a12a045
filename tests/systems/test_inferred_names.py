"""New names of an imputation job by the command line: the columns of the table, on the scales of the fit."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

import distembed as de
from distembed.manifold.regressions import LinearRidge
from tests.commands import run, succeed

JOB = """
[job]
system = "imputation"
workspace = "w"
[domain]
path = "domain.csv"
[known]
path = "known.txt"
[imputation]
min_degree = 4
method = "residuals"
[evaluation]
n_folds = 2
[resources]
workers = 1
"""
N_NAMES, N_KNOWN = 40, 20
SCALES = np.array([1.0, 100.0, 1e-3])


def numbers() -> np.ndarray:
    """Return the rows of the job's table: three columns of very different units."""
    return 7 + np.random.default_rng(0).standard_normal((N_NAMES, 3)) * SCALES


def as_csv(names: list[str], rows: np.ndarray, header: str = "name,a,b,c") -> str:
    lines = [
        ",".join([name, *(f"{value:.12g}" for value in row)]) for name, row in zip(names, rows, strict=True)
    ]
    return "\n".join([header, *lines]) + "\n"


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("names")
    rng = np.random.default_rng(1)
    (folder / "domain.csv").write_text(as_csv([f"name {i}" for i in range(N_NAMES)], numbers()))
    vectors = np.tanh((numbers() - 7) / SCALES @ rng.standard_normal((3, 5))).astype(np.float32)
    words = [f"name_{i}" for i in range(N_KNOWN)] + ["elsewhere"]
    de.WordVectors(words, vectors[: N_KNOWN + 1]).save(folder / "known.txt")
    (folder / "job.toml").write_text(JOB)
    succeed("run", folder / "job.toml")
    return folder / "w"


def infer(workspace: Path, table: Path, *words: str) -> tuple[str, int, Path]:
    target = table.with_suffix(".parquet")
    done = run("infer", workspace, table, "--to", target, *words)
    return done.output, done.exit_code, target


def test_new_names_follow_those_of_the_job_as_the_estimator_gives_them(
    finished: Path, tmp_path: Path
) -> None:
    """The standardization is that of the job's table: one row has none of its own."""
    new = 7 + np.random.default_rng(2).standard_normal((3, 3)) * SCALES
    table = tmp_path / "new.csv"
    table.write_text(as_csv(["first new", "name 3", "third"], new[:, ::-1], header="name,c,b,a"))
    output, code, target = infer(finished, table)
    assert pq.read_table(target).column_names == ["word", "origin", "vector"]
    assert code == 0, output
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


def test_an_empty_cell_takes_the_median_of_the_job_where_it_is_asked_for(
    finished: Path, tmp_path: Path
) -> None:
    table = tmp_path / "new.csv"
    table.write_text("name,a,b,c\nx,7,,7.001\ny,8,3,7.0\n")
    output, code, _ = infer(finished, table)
    assert code == 2
    assert "no finite number for 1 of 2 names in the column 'b', first 'x'" in " ".join(output.split())
    output, code, holed = infer(finished, table, "--set", "domain.missing=median")
    assert code == 0, output
    vectors = de.WordVectors.load(holed).vectors[-2:]
    table.write_text(f"name,a,b,c\nx,7,{np.median(numbers()[:, 1]):.15g},7.001\ny,8,3,7.0\n")
    output, code, whole = infer(finished, table)
    np.testing.assert_allclose(vectors, de.WordVectors.load(whole).vectors[-2:], rtol=1e-5)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name,a,c\nx,1,2\n", "has no column 'b'; it has 'name', 'a', 'c'"),
        ("name,a,b,c\nx,1,many,2\n", "holds text in the column 'b', not numbers"),
        ("name,a,b,c\n", "has no row: give one per new name"),
        ("a,b,c\n1,2,3\n", "has numbers of the job in the column 'a', where names are looked for"),
        ("name,a,b,c\nname 1,1,2,3\n", "holds no new name: 1 name ('name 1') of it had a vector before"),
        ("name,a,b,c\nx,1,2,3\nx,1,2,4\n", "has 1 name twice ('x')"),
    ],
)
def test_a_table_that_does_not_fit_is_refused_in_a_sentence(
    finished: Path, tmp_path: Path, text: str, message: str
) -> None:
    table = tmp_path / "new.csv"
    table.write_text(text)
    output, code, target = infer(finished, table)
    assert code == 2
    assert message in " ".join(output.split())
    assert not target.exists()


def test_prices_and_lists_of_words_are_refused(finished: Path, tmp_path: Path) -> None:
    table = tmp_path / "new.csv"
    table.write_text("name,a,b,c\nx,1,2,3\n")
    output, code, _ = infer(finished, table, "--set", "domain.transform=return_correlation")
    assert code == 2
    assert "a new series changes the table" in output
    assert "2 files are given, and an imputation job reads one table" in infer(finished, table, table)[0]
    done = run("infer", finished, table, "--to", tmp_path / "o.csv", "--space", "_")
    assert "o.csv keeps spaces as they are: leave out --space" in done.output
    assert not (tmp_path / "o.csv").exists()
    output, code, _ = infer(finished, table, "--min-count", "3")
    assert code == 2
    assert "leave out --words and --min-count" in " ".join(output.split())
