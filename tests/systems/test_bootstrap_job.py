"""Error bars of a psdvec job: draws of documents, from counts that add up to those of the text."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import distembed as de
from distembed.counting.document_groups import counts_of_groups, sum_of_groups
from distembed.systems.psdvec.bootstrap import N_GROUPS, Solved, _neighbor_rows, groups_of
from tests.commands import run, succeed
from tests.small_jobs import psdvec

FEW_BLOCKS = "resources.block_memory='1MiB'"


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> tuple[de.Workspace, dict[str, Any]]:
    """Return the workspace of a job that is run without draws and then with them, and its stages without."""
    folder = tmp_path_factory.mktemp("bootstrap")
    psdvec.write(folder)
    succeed("run", folder / "job.toml", "--set", FEW_BLOCKS)
    without = de.Workspace.open(folder / "w").stages()
    succeed("run", folder / "job.toml", "--set", FEW_BLOCKS, "--set", "evaluation.bootstrap=12")
    return de.Workspace.open(folder / "w"), dict(without)


@pytest.fixture
def workspace(both: tuple[de.Workspace, dict[str, Any]]) -> de.Workspace:
    return both[0]


def test_the_groups_add_up_to_the_text(workspace: de.Workspace) -> None:
    groups = counts_of_groups(workspace.array("bootstrap_counts"), N_GROUPS)
    found = sum_of_groups(groups).compute().toarray()
    np.testing.assert_array_equal(found, workspace.array("cooccurrence").compute().toarray())


def test_scores_and_neighbors_have_intervals(workspace: de.Workspace) -> None:
    [score] = json.loads(workspace.read_bytes("bootstrap.json"))
    assert score["set"] == "pairs"
    assert score["low"] < score["value"] < score["high"]
    near = workspace.table("bootstrap_neighbors").to_pylist()
    assert {row["word"] for row in near} == {"word1"}
    assert all(-1 <= row["low"] <= row["high"] <= 1 for row in near)
    assert all(row["low"] < row["high"] for row in near)
    assert all(0 <= row["share_of_draws"] <= 1 for row in near)
    page = Path(workspace.path("report/index.html")).read_text()
    assert "Error bars" in page
    assert ">share of draws<" in page.replace("<wbr>", "").replace("_", " ")
    assert ">low<" not in page  # it stands in the interval


def test_draws_add_their_stages_and_leave_those_of_the_job_as_they_are(
    both: tuple[de.Workspace, dict[str, Any]],
) -> None:
    workspace, without = both
    found = workspace.stages()
    assert found.keys() - without.keys() == {"bootstrap_runs", "bootstrap_counts", "bootstrap"}
    assert {name: found[name] for name in without} == without


def test_documents_of_one_group_are_refused(tmp_path: Path) -> None:
    psdvec.write(tmp_path)
    for file in (tmp_path / "text").iterdir():
        file.write_text(" ".join(file.read_text().split()) if file.name == "a.txt" else "")
    (tmp_path / "text/b.txt").unlink()
    done = run("run", tmp_path / "job.toml", "--set", FEW_BLOCKS, "--set", "evaluation.bootstrap=3")
    assert done.exit_code == 1
    assert "draws documents, and the corpus has too few" in done.stderr


def test_the_group_of_a_document_depends_on_its_id(workspace: de.Workspace) -> None:
    items = workspace.files("tokens")
    prefixes = [item.paths[0].removesuffix(".documents.parquet") for item in items]
    sizes = np.bincount(np.concatenate([groups_of(prefix) for prefix in prefixes]), minlength=N_GROUPS)
    assert sizes.sum() == 400
    assert sizes.min() > 5


def test_all_other_words_are_near_where_fewer_are_asked_for_than_there_are() -> None:
    vectors = np.random.default_rng(0).standard_normal((3, 2, 4)).astype(np.float32)
    rows = _neighbor_rows(Solved(["a", "b", "c"], vectors), ["a"], 10)
    assert {row["neighbor"] for row in rows} == {"b", "c"}
