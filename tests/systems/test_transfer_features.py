"""The transfer job with features of a table in place of topics."""

from __future__ import annotations

import csv
import json
import shutil
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

import distembed as de
from distembed.job.opening import open_job
from distembed.systems.transfer import report as views
from tests.commands import changes, folder_of_all_workers, refusal, run_once, succeed
from tests.small_jobs.transfer import JOB, N_DOCUMENTS, N_WORDS, records, word
from tests.systems.test_transfer_job import errors

COLUMNS = ("length", "mood")


def values() -> np.ndarray:
    """Return two features of the documents that follow from their words, one in hundreds and one below one."""
    rng = np.random.default_rng(5)
    places = {word(number, "e"): number for number in range(N_WORDS)}
    sides = np.random.default_rng(0).dirichlet(np.full(N_WORDS, 0.05), 4)
    weights = (sides / sides.sum(axis=0)).T @ rng.standard_normal((4, 2))
    texts = (record["one"].split() for record in records())
    found = [np.mean([weights[places[name]] for name in words], axis=0) for words in texts]
    return np.array(found) * np.array([100, 0.1]) + np.array([300, 0])


def write_table(
    path: Path, rows: Sequence[int], *, known: np.ndarray, more: Sequence[Sequence[object]] = ()
) -> Path:
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["document", *COLUMNS])
        writer.writerows([f"doc {row}", *known[row]] for row in rows)
        writer.writerows(more)
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return a folder with a job on made-up documents, and its table of values."""
    with folder_of_all_workers(tmp_path_factory, "features") as folder:
        if not (folder / "two.toml").exists():
            write_job(folder)
    return folder


def write_job(folder: Path) -> None:
    (folder / "both.jsonl").write_text("\n".join(map(json.dumps, records())) + "\n")
    stranger = [["doc x", 1, 2], ["doc 101", "", ""]]
    write_table(folder / "values.csv", range(100), known=values(), more=stranger)
    start, _, rest = JOB.partition("[topics]")
    start = start.replace('text_field = "one"', 'text_field = "one"\nfeatures = "values.csv"')
    (folder / "two.toml").write_text(f"{start}[pairs]{rest.partition('[pairs]')[2]}")


@pytest.fixture(scope="module")
def two(folder, tmp_path_factory):
    """Return the workspace of the job, and what its run printed."""
    return run_once(tmp_path_factory, folder / "two.toml")


def test_features_are_carried_to_the_second_collection(two):
    workspace, output = de.Workspace.open(two[0]), two[1]
    assert "100 documents with known values and 120 without; 18 of 120 pairs were known." in output
    assert "warning: 1 id of " in output
    assert "'doc x' (the table unknown_ids has all)" in output
    assert workspace.table("unknown_ids")["id"].to_pylist() == ["doc x"]
    table = errors(output)
    assert len(table) == 10
    assert table["column mean"][0] == pytest.approx(1, abs=0.1)
    assert table["feature-preserving embedding"][0] < 0.4
    known, inferred = (
        workspace.array(name).compute() for name in ("first_known_features", "second_features")
    )
    np.testing.assert_allclose(known[:100], values()[:100])
    assert np.isnan(known[100:]).all()
    errors_of_columns = np.sqrt(((inferred - values()) ** 2).mean(axis=0)) / values().std(axis=0)
    assert errors_of_columns.max() < 0.5
    assert "topics" not in workspace.stages()


def test_known_features_are_given_away_as_they_came(two, tmp_path):
    workspace = two[0]
    succeed("export", workspace, "--to", tmp_path / "documents.parquet")
    rows = pq.read_table(tmp_path / "documents.parquet").to_pylist()
    first = [row for row in rows if row["collection"] == "first"]
    assert [row["origin"] for row in first] == ["known"] * 100 + ["inferred"] * 20
    found = np.array([[row[name] for name in COLUMNS] for row in first])
    np.testing.assert_array_equal(found[:100], values()[:100])
    error = np.sqrt(((found[100:] - values()[100:]) ** 2).mean(axis=0))
    assert (error < 0.9 * values().std(axis=0)).all()
    assert len(rows) == 2 * N_DOCUMENTS
    told = refusal("export", workspace, "--what", "topics", "--to", tmp_path / "topics.csv")
    assert "has no topics" in told
    shown = views.items(open_job(str(workspace)), de.Workspace.open(workspace))
    assert len(shown.names) == len(rows)


def test_known_values_of_the_second_collection_are_kept(folder, two, tmp_path):
    write_table(tmp_path / "second.csv", [110, 115], known=values() + np.array([1000, 0]))
    settings = {"collections.second.features": tmp_path / "second.csv", "evaluation.n_seeds": 1}
    copied = shutil.copytree(two[0], tmp_path / "w")
    done = succeed("run", folder / "two.toml", "--workspace", copied, "--replace", *changes(settings))
    assert "100 documents with known values and 118 without" in done.output
    succeed("export", tmp_path / "w", "--to", tmp_path / "documents.parquet")
    documents = pq.read_table(tmp_path / "documents.parquet").to_pylist()
    rows = [row for row in documents if row["collection"] == "second"]
    assert [number for number, row in enumerate(rows) if row["origin"] == "known"] == [110, 115]
    assert rows[110]["length"] == values()[110, 0] + 1000
    before, after = (
        de.Workspace.open(place).array("second_features").compute() for place in (two[0], tmp_path / "w")
    )
    assert after[110, 0] > before[110, 0] + 100


def test_sparse_rows_and_the_units_of_the_table(folder, tmp_path):
    text, given = (folder / "two.toml").read_text(), "[representation]\nn_components = 12"
    (folder / "sparse.toml").write_text(text.replace(given, "[representation]\nkind = 'tf_idf'"))
    settings = {"features.standardize": False, "alignment.propagate": False}
    done = succeed("run", folder / "sparse.toml", "--workspace", tmp_path / "w", *changes(settings))
    assert "RMSE of features by known pairs" in done.output


def test_a_plan_tells_the_rows_of_the_table(folder, tmp_path):
    plan = succeed("plan", folder / "two.toml", "--workspace", tmp_path / "w")
    assert "101 rows of 2 features in " in plan.output


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("id,a\ndoc 1,1\ndoc 1,2\n", "1 name twice ('doc 1'): keep one, or set features.duplicates"),
        (
            "id,a,b\ndoc 1,1,2\ndoc 2,,3\n",
            "no finite number for 1 of 2 names in the column 'a', first 'doc 2'",
        ),
        ("id,a\ndoc 1,x\n", "no column of numbers beside its names"),
        ("id,a\nno 1,1\nno 2,2\n", "set features.name_column, or collections.first.id_field"),
    ],
)
def test_faulty_tables_are_named(folder, two, tmp_path, text, message):
    copied = shutil.copytree(two[0], tmp_path / "copy")
    (tmp_path / "bad.csv").write_text(text)
    bad = changes({"collections.first.features": tmp_path / "bad.csv"})
    assert message in refusal("run", folder / "two.toml", "--workspace", copied, "--replace", *bad)


def test_sections_that_do_not_fit_are_refused(folder, tmp_path):
    text = (folder / "two.toml").read_text()
    second = text.replace('features = "values.csv"\n', "")
    second = second.replace('text_field = "two"', 'text_field = "two"\nfeatures = "values.csv"')
    (folder / "none.toml").write_text(second)
    for job, setting, message in (
        ("two.toml", "evaluation.topic=1", "collections.first.features takes the place of topics"),
        ("two.toml", "features.columns=['size']", "no column 'size'; it has 'document', 'length', 'mood'"),
        ("none.toml", "evaluation.n_seeds=1", "collections.second.features needs collections.first.features"),
    ):
        told = refusal("plan", folder / job, "--workspace", tmp_path / "w", "--set", setting)
        assert message in told
