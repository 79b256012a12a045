"""The transfer job with features of a table in place of topics, carried to two other collections."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

import distembed as de
from distembed.job.load import load_job
from distembed.job.opening import open_job
from distembed.job.plan import plan_job
from distembed.systems.transfer import report as views
from tests.commands import changes, job_fixtures, refusal, succeed
from tests.small_jobs.transfer import N_DOCUMENTS, N_WORDS, records, word, write_three
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


def write_table(path: Path, rows: Sequence[int], known: np.ndarray, *more: Sequence[object]) -> None:
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["document", *COLUMNS])
        writer.writerows([f"doc {row}", *known[row]] for row in rows)
        writer.writerows(more)


def write(folder: Path) -> None:
    """Write a job on three collections, with a table of the values of 100 documents of the first."""
    write_three(folder)
    write_table(folder / "values.csv", range(100), values(), ["doc x", 1, 2], ["doc 101", "", ""])
    text = (folder / "job.toml").read_text()
    (folder / "job.toml").write_text(
        text.replace('text_field = "one"', 'text_field = "one"\nfeatures = "values.csv"')
    )


job, finished, copy = job_fixtures("features-others", write)


def relative_errors(found: np.ndarray, true: np.ndarray) -> np.ndarray:
    """Return the error of each column in units of the deviation of the known values."""
    return np.sqrt(((found - true) ** 2).mean(axis=0)) / values()[:100].std(axis=0)


def test_features_are_carried_to_the_other_collections(workspace, output):
    assert "100 documents with known values and 210 without; 32 of 210 pairs were known." in output
    assert "warning: 1 id of " in output
    assert "'doc x' (the table unknown_ids has all)" in output
    assert workspace.table("unknown_ids")["id"].to_pylist() == ["doc x"]
    table = errors(output)
    assert len(table) == 10
    assert table["column mean"][0] == pytest.approx(1, abs=0.1)
    assert table["feature-preserving embedding"][0] < 0.4
    known, second, third = (
        workspace.array(name).compute()
        for name in ("first_known_features", "second_features", "third_features")
    )
    np.testing.assert_allclose(known[:100], values()[:100])
    assert np.isnan(known[100:]).all()
    assert relative_errors(second, values()).max() < 0.5
    pairs = workspace.table("third_pairs").to_pylist()
    left = [pair for pair in pairs if not pair["known"] and pair["first"] < 100]
    found = relative_errors(
        third[[pair["other"] for pair in left]], values()[[pair["first"] for pair in left]]
    )
    assert max(found) < 0.7
    np.testing.assert_allclose(workspace.table("third_value_scores")["rmse"], found, rtol=1e-5)
    assert "topics" not in workspace.stages()


def test_known_features_are_given_away_as_they_came(finished, workspace, tmp_path):
    succeed("export", finished[0], "--to", tmp_path / "documents.parquet")
    rows = pq.read_table(tmp_path / "documents.parquet").to_pylist()
    found = np.array([[row[name] for name in COLUMNS] for row in rows])
    assert [row["origin"] for row in rows] == ["known"] * 100 + ["inferred"] * (2 * N_DOCUMENTS + 90 - 100)
    np.testing.assert_array_equal(found[:100], values()[:100])
    assert relative_errors(found[100:120], values()[100:]).max() < 0.9
    np.testing.assert_allclose(found[240:], workspace.array("third_features").compute())
    told = refusal("export", finished[0], "--what", "topics", "--to", tmp_path / "topics.csv")
    assert "has no topics" in told
    shown = views.items(open_job(workspace.url), workspace)
    assert len(shown.names) == len(rows)


def test_known_values_of_the_second_collection_are_kept(job, copy, workspace, tmp_path):
    write_table(tmp_path / "second.csv", [110, 115], values() + np.array([1000, 0]))
    settings = {"collections.second.features": tmp_path / "second.csv", "evaluation.n_seeds": 1}
    done = succeed("run", job, "--workspace", copy, "--replace", *changes(settings))
    assert "100 documents with known values and 208 without" in done.output
    succeed("export", copy, "--to", tmp_path / "documents.parquet")
    documents = pq.read_table(tmp_path / "documents.parquet").to_pylist()
    rows = [row for row in documents if row["collection"] == "second"]
    assert [number for number, row in enumerate(rows) if row["origin"] == "known"] == [110, 115]
    assert rows[110]["length"] == values()[110, 0] + 1000
    before, after = (one.array("second_features").compute() for one in (workspace, de.Workspace.open(copy)))
    assert after[110, 0] > before[110, 0] + 100


def test_sparse_rows_given_pairs_only_and_the_units_of_the_table(job, copy):
    sparse = job.with_name("sparse.toml")
    given = "[representation]\nn_components = 12"
    sparse.write_text(job.read_text().replace(given, "[representation]\nkind = 'tf_idf'"))
    settings = {"features.standardize": False, "alignment.propagate": False, "evaluation.n_seeds": 1}
    done = succeed("run", sparse, "--workspace", copy, "--replace", *changes(settings))
    assert "RMSE of features by known pairs" in done.output
    table = errors(done.output)
    assert list(table) == ["column mean", "semisupervised alignment", "feature-preserving embedding"]
    assert table["feature-preserving embedding"][0] < 0.8 * table["column mean"][0]


def test_a_plan_tells_the_rows_of_the_table_and_counts_its_columns(job, tmp_path):
    plan = succeed("plan", job, "--workspace", tmp_path / "w")
    assert "101 rows of 2 features in " in plan.output
    whole_bytes = []
    for n_columns in (1, 4000):
        table = tmp_path / f"{n_columns}.csv"
        table.write_text("\n".join(",".join(["id", *["0.25"] * n_columns]) for _ in range(120)))
        settings = (f"collections.first.features='{table}'",)
        planned = load_job(job, workspace=str(tmp_path / "none"), settings=settings)
        whole_bytes.append(plan_job(planned).stages["embedding"].whole_bytes)
    assert whole_bytes[0] < whole_bytes[1]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("id,a\ndoc 1,1\ndoc 1,2\n", "1 name twice ('doc 1'): keep one, or set features.duplicates"),
        ("id,a,b\ndoc 1,1,2\ndoc 2,,3\n", "for 1 of 2 names in the column 'a', first 'doc 2'"),
        ("id,a\ndoc 1,x\n", "no column of numbers beside its names"),
        ("id,a\nno 1,1\nno 2,2\n", "set features.name_column, or collections.first.id_field"),
    ],
)
def test_faulty_tables_are_named(job, copy, tmp_path, text, message):
    (tmp_path / "bad.csv").write_text(text)
    bad = changes({"collections.first.features": tmp_path / "bad.csv"})
    assert message in refusal("run", job, "--workspace", copy, "--replace", *bad)


def test_sections_that_do_not_fit_are_refused(job, tmp_path):
    moved = job.read_text().replace('features = "values.csv"\n', "")
    moved = moved.replace('text_field = "two"', 'text_field = "two"\nfeatures = "values.csv"')
    job.with_name("moved.toml").write_text(moved)
    for name, setting, message in (
        ("job.toml", "evaluation.topic=1", "collections.first.features takes the place of topics"),
        ("job.toml", "features.columns=['size']", "no column 'size'; it has 'document', 'length', 'mood'"),
        (
            "moved.toml",
            "evaluation.n_seeds=1",
            "collections.second.features needs collections.first.features",
        ),
    ):
        told = refusal("plan", job.with_name(name), "--workspace", tmp_path / "w", "--set", setting)
        assert message in told
