"""What an imputation job exports and chooses: names in both spellings, and the vectors of every method."""

from __future__ import annotations

import shutil

import numpy as np
import pyarrow.parquet as pq
import pytest

import distembed as de
from distembed.execution import compute
from distembed.manifold.regressions import LinearRidge, fit_known
from distembed.systems.imputation import stages
from distembed.systems.imputation.stages import REGRESSORS
from distembed.tables.domain import read_known
from distembed.tables.sections import KnownSection
from tests.commands import job_fixtures, made, run, run_once, succeed
from tests.small_jobs.imputation import N_NAMES, write

job, finished, copy = job_fixtures("imputation", write)


@pytest.fixture(scope="module")
def renamed(job, tmp_path_factory):
    """Return the workspace of a job in which a table of names calls two names otherwise, one of them known.

    One row of the table has no number, and is left out.
    """
    folder = tmp_path_factory.mktemp("renamed")
    rows = (job.parent / "domain.csv").read_text()
    lines = rows.replace("name 3,", "Third Inc.,").replace("name 33,", "Late AG,").splitlines()
    lines[51] = lines[51].rsplit(",", 1)[0] + ","
    (folder / "domain.csv").write_text("\n".join(lines) + "\n")
    (folder / "names.csv").write_text("name,like\nThird Inc.,name_3\nLate AG,late\n")
    options = {"path": folder / "domain.csv", "names": folder / "names.csv", "missing": "drop_row"}
    options |= {"names_from": "name", "names_to": "like"}
    made(job, folder / "w", *(f"domain.{key}='{value}'" for key, value in options.items()), until="vectors")
    return folder / "w"


def test_the_export_joins_to_the_table_by_its_own_spelling(renamed, tmp_path):
    succeed("export", renamed, "--to", tmp_path / "names.parquet")
    rows = {row["name"]: row for row in pq.read_table(tmp_path / "names.parquet").to_pylist()}
    of_table = [line.split(",")[0] for line in (renamed.parent / "domain.csv").read_text().splitlines()[1:]]
    assert sorted(rows) == sorted(of_table)
    keys = ("matched", "word", "origin")
    assert [rows["Third Inc."][key] for key in keys] == ["name_3", "name_3", "known"]
    assert [rows["Late AG"][key] for key in keys] == [None, "late", "imputed"]
    assert rows["name 50"]["origin"] == "left out"


def test_exported_names_are_loaded_again(job, renamed, tmp_path):
    for name in ("names.parquet", "names.csv"):
        succeed("export", renamed, "--to", tmp_path / name)
    own = de.WordVectors(
        de.Workspace.open(renamed).table("vocabulary")["word"].to_pylist(),
        np.asarray(compute(de.Workspace.open(renamed).array("vectors"))),
    )
    loaded = de.WordVectors.load(tmp_path / "names.parquet")
    assert len(loaded) == N_NAMES - 1
    assert loaded["late"].tobytes() == own["late"].tobytes()
    known, notes = read_known(KnownSection(path=str(tmp_path / "names.csv")))
    assert len(known) == N_NAMES - 1
    assert "1 row without any number" in notes
    np.testing.assert_allclose(known["Late AG"], own["late"], rtol=1e-5)


def test_neighbors_and_explain_take_the_names_of_the_table(renamed):
    by_table, by_word = (succeed("neighbors", renamed, name).output for name in ("Third Inc.", "name_3"))
    assert by_table.startswith("Third Inc. (in the vectors 'name_3'): ")
    assert by_table.partition("): ")[2] == by_word.partition(": ")[2]
    assert succeed("explain", renamed, "Late AG").output.startswith("late: a mixture of")
    assert run("neighbors", renamed, "Fourth Inc.").exit_code == 1


@pytest.fixture(scope="module")
def best(job, tmp_path_factory):
    """Return the workspace of the job with its method chosen, and what the run printed."""
    return run_once(tmp_path_factory, job, "--set", "imputation.method=auto")


def test_the_method_is_the_best_row_of_the_hold_out(best, finished):
    workspace = de.Workspace.open(best[0])
    rows = {row["method"]: row for row in workspace.table("hold_out").to_pylist()}
    assert list(rows) == [stages.CHOSEN, *stages.METHODS.values(), stages.SHUFFLED, *stages.BASELINES]
    paper = de.Workspace.open(finished[0]).table("hold_out").to_pylist()
    assert [row["method"] for row in paper] == list(rows)[1:]
    for row in paper:
        assert rows[row["method"]]["centered_cosine"] == row["centered_cosine"]
    own = {method: rows[row]["centered_cosine"] for method, row in stages.METHODS.items()}
    method = max(own, key=lambda one: own[one])
    assert workspace.stages()["hold_out"].facts["method"] == method
    assert workspace.stages()["vectors"].facts["method"] == method
    assert rows[stages.CHOSEN]["centered_cosine"] <= own[method]
    gap = own[method] - own["graph"]
    assert (
        f"{stages.METHODS[method].capitalize()} finds them best, {gap:.3f} above imputation alone" in best[1]
    )


def test_the_graph_is_the_default_and_its_vectors_are_the_same(best, finished):
    graph, other = de.Workspace.open(finished[0]), de.Workspace.open(best[0])
    assert graph.stages()["vectors"].facts["method"] == "graph"
    for output in ("domain", "graph", "weights"):
        assert graph.describe(output).digest == other.describe(output).digest
    assert graph.describe("vectors").digest != other.describe("vectors").digest


def test_each_fold_takes_what_is_best_on_the_others(best):
    names = de.Workspace.open(best[0]).table("hold_out_names").to_pylist()
    cosines = {
        (row, fold): [one["centered_cosine"] for one in names if (one["method"], one["fold"]) == (row, fold)]
        for row in (stages.CHOSEN, *stages.METHODS.values())
        for fold in (0, 1)
    }
    for fold in (0, 1):
        other = max(stages.METHODS.values(), key=lambda row: np.mean(cosines[row, 1 - fold]))
        assert cosines[stages.CHOSEN, fold] == cosines[other, fold]


@pytest.mark.parametrize("method", ["ridge", "kernel_ridge", "residuals"])
def test_the_vectors_of_each_method_are_those_of_its_estimator(job, best, tmp_path, method):
    workspace = tmp_path / "w"
    shutil.copytree(best[0], workspace)
    done = succeed("run", job, "--workspace", workspace, "--replace", "--set", f"imputation.method={method}")
    assert f"The vectors are those of {stages.METHODS[method]}." in done.output
    opened = de.Workspace.open(workspace)
    rows = opened.table("hold_out").to_pylist()
    assert rows[0]["method"] == stages.METHODS[method]
    assert {row["method"] for row in rows} == {*stages.METHODS.values(), stages.SHUFFLED, *stages.BASELINES}
    X, Y = opened.array("domain").compute(), opened.array("known_vectors").compute()
    known, vectors = ~np.isnan(Y[:, 0]), opened.array("vectors").compute()[:N_NAMES]
    assert vectors[known].tobytes() == Y[known].tobytes()
    if method == "residuals":
        plain = de.LatentSemanticImputation(min_degree=4, regressor=LinearRidge()).fit(X, Y).vectors_
    else:
        plain = fit_known(REGRESSORS[method], X, Y, known).predict(X)
    np.testing.assert_allclose(vectors[~known], plain[~known], rtol=1e-5)
    assert ("No system of equations was solved" in done.output) == (method != "residuals")
    # a later name that is a name of the table gets about its vector
    (tmp_path / "new.csv").write_text((job.parent / "domain.csv").read_text().replace("name ", "later "))
    succeed("infer", workspace, tmp_path / "new.csv", "--to", tmp_path / "all.parquet")
    later = de.WordVectors.load(tmp_path / "all.parquet").vectors[-N_NAMES:]
    if method != "residuals":
        np.testing.assert_allclose(later, plain, rtol=1e-4, atol=1e-5)
    refused = run("explain", workspace, "name 33")
    assert refused.exit_code == 2
    assert f"those of {stages.METHODS[method]}, which are no mixtures" in " ".join(refused.output.split())
