"""What an imputation job exports, chooses and explains: names in both spellings, both kernels, and every method."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

import distembed as de
from distembed.execution import compute
from distembed.job.opening import open_job
from distembed.systems.imputation import stages
from distembed.tables.known import read_known
from distembed.tables.sections import KnownSection
from tests.commands import job_fixtures, run, run_once, succeed
from tests.small_jobs.imputation import N_KNOWN, N_NAMES, write

job, finished, copy = job_fixtures("imputation", write)


@pytest.fixture(scope="module")
def renamed(job: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the workspace of a job in which a table of names calls two names otherwise, one of them known.

    One row of the table has no number, and is left out.
    """
    folder = tmp_path_factory.mktemp("renamed")
    rows = (
        (job.parent / "domain.csv")
        .read_text()
        .replace("name 3,", "Third Inc.,")
        .replace("name 33,", "Late AG,")
    )
    lines = rows.splitlines()
    lines[51] = lines[51].rsplit(",", 1)[0] + ","
    (folder / "domain.csv").write_text("\n".join(lines) + "\n")
    (folder / "names.csv").write_text("name,like\nThird Inc.,name_3\nLate AG,late\n")
    options = {"path": folder / "domain.csv", "names": folder / "names.csv", "missing": "drop_row"}
    options |= {"names_from": "name", "names_to": "like"}
    settings = [word for key, value in options.items() for word in ("--set", f"domain.{key}='{value}'")]
    succeed("run", job, "--workspace", folder / "w", "--until", "vectors", *settings)
    return folder / "w"


def test_the_export_joins_to_the_table_by_its_own_spelling(renamed: Path, tmp_path: Path) -> None:
    succeed("export", renamed, "--to", tmp_path / "names.parquet")
    rows = {row["name"]: row for row in pq.read_table(tmp_path / "names.parquet").to_pylist()}
    of_table = [line.split(",")[0] for line in (renamed.parent / "domain.csv").read_text().splitlines()[1:]]
    assert sorted(rows) == sorted(of_table)
    keys = ("matched", "word", "origin")
    assert [rows["Third Inc."][key] for key in keys] == ["name_3", "name_3", "known"]
    assert [rows["Late AG"][key] for key in keys] == [None, "late", "imputed"]
    assert rows["name 50"]["origin"] == "left out"


def test_exported_names_are_loaded_again(job: Path, renamed: Path, tmp_path: Path) -> None:
    """Rows that were left out have no vector, and were refused."""
    for name in ("names.parquet", "names.csv"):
        succeed("export", renamed, "--to", tmp_path / name)
    own = de.WordVectors(
        de.Workspace.open(renamed).table("vocabulary")["word"].to_pylist(),
        np.asarray(compute(de.Workspace.open(renamed).array("vectors"))),
    )
    loaded = de.WordVectors.load(tmp_path / "names.parquet")
    assert len(loaded) == N_NAMES - 1
    assert loaded["late"].tobytes() == own["late"].tobytes()
    known = read_known(KnownSection(path=str(tmp_path / "names.csv")))
    assert len(known.vectors) == N_NAMES - 1
    assert "1 row without any number" in known.notes
    np.testing.assert_allclose(known.vectors["Late AG"], own["late"], rtol=1e-5)


def test_neighbors_and_explain_take_the_names_of_the_table(renamed: Path) -> None:
    by_table, by_word = (succeed("neighbors", renamed, name).output for name in ("Third Inc.", "name_3"))
    assert by_table.startswith("Third Inc. (in the vectors 'name_3'): ")
    assert by_table.partition("): ")[2] == by_word.partition(": ")[2]
    assert succeed("explain", renamed, "Late AG").output.startswith("late: a mixture of")
    assert run("neighbors", renamed, "Fourth Inc.").exit_code == 1


@pytest.fixture(scope="module")
def best(job: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """Return the workspace of the job with the settings that `distembed new` writes, and what the run printed."""
    return run_once(
        tmp_path_factory, job, "--set", "imputation.method=auto", "--set", "imputation.kernel=auto"
    )


def test_the_settings_of_a_new_job_choose_among_both_kernels(best: tuple[Path, str], finished: Any) -> None:
    workspace = de.Workspace.open(best[0])
    rows = {row["method"]: row for row in workspace.table("hold_out").to_pylist()}
    assert list(rows)[:2] == [stages.CHOSEN, stages.IMPUTATION]
    assert {"linear map", "kernel map", "imputation and kernel map"} <= {*rows}
    assert stages.KERNEL not in rows  # the job's own kernel map stands there
    paper = de.Workspace.open(finished[0]).table("hold_out").to_pylist()[0]
    assert rows[stages.IMPUTATION]["centered_cosine"] == pytest.approx(paper["centered_cosine"])
    tried = workspace.table("choice").to_pylist()
    facts = workspace.stages()["vectors"].facts
    winner = max(tried, key=lambda row: row["centered_cosine"])
    assert all(facts[key] == winner[key] for key in ("method", "ridge", "kernel"))
    own = {
        name: row["centered_cosine"]
        for name, row in rows.items()
        if name in stages.ways_of(open_job(str(best[0])).imputation) and name != stages.CHOSEN
    }
    name = max(own, key=lambda one: own[one])
    gap = own[name] - own[stages.IMPUTATION]
    assert f"{name.capitalize()} finds them best, {gap:.3f} above imputation alone" in best[1]


@pytest.mark.parametrize("method", ["linear_map", "combined"])
def test_a_kernel_map_is_never_called_linear(job: Path, best: Any, tmp_path: Path, method: str) -> None:
    workspace = tmp_path / "w"
    shutil.copytree(best[0], workspace)
    settings = ("--set", f"imputation.method={method}", "--set", "imputation.kernel=rbf")
    done = succeed("run", job, "--workspace", workspace, "--replace", *settings)
    page = (workspace / "report" / "index.html").read_text(encoding="utf-8")
    assert "a kernel map of the table" in done.output
    for text in (done.output, page):
        assert "linear map" not in text


@pytest.mark.parametrize("method", ["linear_map", "combined"])
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_a_vector_of_a_map_is_explained_by_known_names_and_columns(
    job: Path, best: Any, tmp_path: Path, method: str, kernel: str
) -> None:
    workspace, found = tmp_path / "w", tmp_path / "why.json"
    shutil.copytree(best[0], workspace)
    settings = ("--set", f"imputation.method={method}", "--set", f"imputation.kernel={kernel}")
    succeed("run", job, "--workspace", workspace, "--replace", "--until", "vectors", *settings)
    succeed("explain", workspace, "name 33", "-n", N_KNOWN, "--json", found)
    record = json.loads(found.read_text())
    *weights, total = record["tables"]["known names"]
    assert total["weight %"] == pytest.approx(100)
    opened = de.Workspace.open(workspace)
    words = opened.table("vocabulary")["word"].to_pylist()
    vectors = de.WordVectors(words, np.asarray(compute(opened.array("vectors"))))
    summed = sum(row["weight %"] / 100 * vectors[row["known name"]].astype(float) for row in weights)
    np.testing.assert_allclose(summed, vectors["name 33"], atol=1e-4)
    assert record["difference"] < 1e-4
    assert ("columns" in record["tables"]) == (kernel == "linear")
    if kernel == "linear":
        columns = {row["column"]: row["share %"] for row in record["tables"]["columns"]}
        assert {*columns} == {"a", "b", "c"}
        assert sum(columns.values()) == pytest.approx(100)
    assert ("neighbors" in record["tables"]) == (method == "combined")
    if method == "linear_map":
        assert "linear map" in succeed("explain", workspace, "name 33").output or kernel == "rbf"
