"""The imputation job by the command line: on a generated table, on others with faults, and on the real prices."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

import distembed as de
from distembed.display import format_number
from distembed.evaluation.imputation import neighbor_label_accuracy
from distembed.execution import compute
from distembed.job.opening import open_job
from distembed.manifold.regressions import LinearRidge, fit_known
from distembed.systems.imputation import report, stages
from distembed.systems.imputation.stages import REGRESSORS
from distembed.tables.domain import read_known
from distembed.tables.sections import KnownSection
from tests.commands import changes, job_fixtures, made, refusal, run, run_once, succeed
from tests.small_jobs.imputation import JOB, N_KNOWN, N_NAMES, write

JOBS = Path(__file__).resolve().parents[2] / "jobs"


job, finished, copy = job_fixtures("imputation", write)


def test_a_run_says_what_matched_and_draws_its_convergence(output, page, workspace):
    assert "60 names: 20 matched a known vector, 40 were imputed" in output
    assert "1 known vector matches no name" in output
    assert "converged in" in output
    assert re.search(r"name 20: name_\d+ \d\.\d+", output)
    table = workspace.table("convergence")
    steps, residuals = np.asarray(table["step"]), np.asarray(table["measure"])
    np.testing.assert_array_equal(steps, np.arange(1, len(steps) + 1))
    assert residuals[-1] <= 1e-6 < residuals[0]
    said = (
        "Convergence by step",
        f"worst column: {len(steps)} points",
        "Names by origin",
        "Names by label",
        "Nearest known",
        "Names rebuilt from a name",
        "Weights",
    )
    assert [words for words in said if words not in page] == []


def hidden_names(workspace: de.Workspace) -> list[dict[str, Any]]:
    table = workspace.table("hold_out_names").to_pylist()
    return [row for row in table if row["method"] == "imputation"]


def test_known_rows_come_back_bit_for_bit_and_the_others_as_the_estimator_gives_them(
    job, finished, tmp_path, workspace
):
    """A hidden name is imputed as if it had never been known."""
    target = tmp_path / "all.parquet"
    succeed("export", finished[0], "--what", "words", "--to", target)
    exported, known = de.WordVectors.load(target), de.WordVectors.load(job.parent / "known.txt")
    assert len(exported) == N_NAMES + 1
    assert exported[known.words].tobytes() == known.vectors.tobytes()
    assert "--space _ on the command line" in refusal("export", finished[0], "--to", tmp_path / "all.txt")
    succeed("export", finished[0], "--to", tmp_path / "all.txt", "--space", "_")
    assert "name_59" in de.WordVectors.load(tmp_path / "all.txt").words

    X, Y = workspace.array("domain").compute(), workspace.array("known_vectors").compute()
    model = de.LatentSemanticImputation(min_degree=4).fit(X, Y)
    assert exported.vectors[:N_NAMES].tobytes() == model.vectors_.tobytes()
    graph = workspace.array("graph").blocks[0].compute()
    assert (graph != model.graph_).nnz == 0

    fold = [name for name in hidden_names(workspace) if name["fold"] == 1]
    rows = [int(name["word"].removeprefix("name_")) for name in fold]
    truth = Y[rows].copy()
    Y[rows] = np.nan
    found = de.LatentSemanticImputation(min_degree=4).fit(X, Y).vectors_[rows]
    cosines = (found * truth).sum(axis=1) / np.linalg.norm(found, axis=1) / np.linalg.norm(truth, axis=1)
    np.testing.assert_allclose([name["cosine"] for name in fold], cosines, rtol=1e-6)


def test_the_report_says_how_well_hidden_names_are_found_and_labels_of_neighbors_are_voted_for(
    workspace, output, page
):
    assert "Hold-out: 20 known names hidden in 2 folds; cosine to the true vector" in output
    assert re.search(
        r"The table is useful for these vectors, because the centered cosine .* is 0\.\d+", output
    )
    assert "The gain over the same table with its rows shuffled is" in output
    found = re.search(r"(\S.*) finds them better .*: imputation.method = \"(\S+)\" takes it", output)
    assert found
    assert stages.METHODS[found[2]] in found[1].lower()
    names = hidden_names(workspace)
    assert sorted(name["word"] for name in names) == sorted(f"name_{i}" for i in range(N_KNOWN))
    rows = workspace.table("hold_out").to_pylist()
    summary = {row["method"]: row for row in rows}
    imputed, shuffled = summary["imputation"], summary["shuffled table"]
    assert imputed["cosine"] == pytest.approx(np.mean([name["cosine"] for name in names]))
    assert imputed["cosine"] > shuffled["cosine"] + 0.2
    assert imputed["median_rank"] < shuffled["median_rank"]
    # the names were labelled even and odd, which says nothing of their vectors
    assert 0.2 < imputed["label_share"] < 0.8
    assert page.index("Hidden names found again") < page.index("Names that matched")
    rows = workspace.table("neighbor_labels").to_pylist()
    found = {(row["rows"], row["votes"], row["n_neighbors"]): row for row in rows}
    vectors = workspace.array("vectors").compute()[:N_NAMES]
    labels = workspace.table("vocabulary")["label"].to_pylist()[:N_NAMES]
    for votes in ("uniform", "distance"):
        wanted = neighbor_label_accuracy(vectors, labels, weights=votes)
        assert {k: found[stages.ALL, votes, k]["accuracy"] for k in wanted} == wanted
    assert found[stages.KNOWN, "uniform", 2]["n_names"] == N_KNOWN
    assert (stages.KNOWN, "uniform", 20) not in found  # 19 others are known
    assert "Labels of neighbors" in page
    assert "labels shuffled, distance" not in page
    begin, end = (format_number(found[stages.ALL, "distance", k]["accuracy"]) for k in (2, 30))
    assert f"known and imputed vectors: 7 points, from {begin} to {end}" in page


def test_too_few_known_names_choose_no_method(job, tmp_path):
    known = de.WordVectors.load(job.parent / "known.txt")
    de.WordVectors(known.words[:9], known.vectors[:9]).save(tmp_path / "few.txt")
    settings = changes({"known.path": tmp_path / "few.txt", "imputation.method": "auto"})
    done = succeed("run", job, "--workspace", tmp_path / "w", *settings)
    assert "9 names with a known vector are too few to choose a method by" in done.output
    assert de.Workspace.open(tmp_path / "w").stages()["vectors"].facts["method"] == "graph"


def test_equal_rows_constant_columns_and_a_vector_of_zeros_are_taken_as_they_are(job, tmp_path):
    rows = ["name,kind,a,b,c"] + [f"name {i},x,{i // 2},1,{i // 2 % 5}" for i in range(N_NAMES)]
    (tmp_path / "domain.csv").write_text("\n".join(rows) + "\n")
    words = ["name_0 0 0", *(f"name_{i} {i} {i % 3}" for i in range(1, N_KNOWN))]
    (tmp_path / "known.txt").write_text("\n".join(words) + "\n")
    settings = (f"domain.path='{tmp_path}/domain.csv'", f"known.path='{tmp_path}/known.txt'")
    vectors = made(job, tmp_path / "w", *settings).array("vectors").compute()
    assert np.isfinite(vectors).all()
    assert not vectors[0].any()


def test_the_job_on_the_real_prices(shared, tmp_path):
    folder = shared / "data" / "lsi"
    settings = {
        "domain.path": folder / "sp500_close_2015_2018.csv.xz",
        "domain.names": folder / "sp500_token.csv",
        "known.path": folder / "googleMat.csv.xz",
    }
    words = changes(settings | {"evaluation.n_folds": 2, "report.n_map_words": 20})
    done = succeed("run", JOBS / "imputation_paper.toml", "--workspace", tmp_path / "w", *words)
    assert "480 names: 117 matched a known vector, 363 were imputed; 4 more were left out" in done.output
    assert "Boston_Scientific: Baxter" in done.output


def test_an_imputed_name_is_explained_as_a_mixture_of_known_ones(finished, tmp_path, workspace):
    found = tmp_path / "why.json"
    succeed("explain", finished[0], "name 33", "-n", N_KNOWN, "--to", found)
    record = json.loads(found.read_text())
    *shares, total = record["tables"]["known names"]
    assert total["share %"] == pytest.approx(100)
    words = workspace.table("vocabulary")["word"].to_pylist()
    vectors = de.WordVectors(words, np.asarray(compute(workspace.array("vectors"))))
    named = [row for row in shares if row["known name"] in vectors]
    mixture = sum(row["share %"] / 100 * vectors[row["known name"]].astype(float) for row in named)
    np.testing.assert_allclose(mixture, vectors["name 33"], atol=1e-4)
    assert record["difference"] < 1e-4
    assert sum(row["weight"] for row in record["tables"]["neighbors"]) == pytest.approx(1)
    for row in named:
        path = row["strongest path"].split(" → ")
        assert (path[0], path[-1]) == ("name 33", row["known name"])
        assert 0 < row["path %"] <= row["share %"] + 1e-6


def test_the_page_to_explore_shows_the_weights_of_the_table(finished):
    workspace = de.Workspace.open(str(finished[0]))
    items = report.items(open_job(workspace.url), workspace)
    words = workspace.table("vocabulary")["word"].to_pylist()
    assert list(items.names) == words
    assert set(items.colorings[0].key[:2]) == {"imputed", "known"}
    near = items.lists[0]
    rows = near.rows >= 0
    assert np.allclose(near.values.sum(axis=1)[rows.any(axis=1)], 1, atol=1e-5)
    assert np.all(np.diff(near.values, axis=1) <= 0)


# --- names in both spellings, and the vectors of every method -------------------------------------------------


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
    made(job, folder / "w", *(f"domain.{key}='{value}'" for key, value in options.items()))
    return folder / "w"


def test_the_export_joins_to_the_table_by_its_own_spelling_and_is_loaded_again(renamed, tmp_path):
    for name in ("names.parquet", "names.csv"):
        succeed("export", renamed, "--to", tmp_path / name)
    rows = {row["name"]: row for row in pq.read_table(tmp_path / "names.parquet").to_pylist()}
    of_table = [line.split(",")[0] for line in (renamed.parent / "domain.csv").read_text().splitlines()[1:]]
    assert sorted(rows) == sorted(of_table)
    keys = ("matched", "word", "origin")
    assert [rows["Third Inc."][key] for key in keys] == ["name_3", "name_3", "known"]
    assert [rows["Late AG"][key] for key in keys] == [None, "late", "imputed"]
    assert rows["name 50"]["origin"] == "left out"
    assert "How the tables were read" in (renamed / "report/index.html").read_text(encoding="utf-8")
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


def test_the_method_is_the_best_row_of_the_hold_out_and_the_graph_is_the_default(best, finished):
    """A fold is judged by what is best on the others."""
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
    graph, other = de.Workspace.open(finished[0]), de.Workspace.open(best[0])
    assert graph.stages()["vectors"].facts["method"] == "graph"
    for output in ("domain", "graph", "weights"):
        assert graph.describe(output).digest == other.describe(output).digest
    assert graph.describe("vectors").digest != other.describe("vectors").digest
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


def test_the_names_are_given_away_with_where_they_come_from(tmp_path):
    folder = tmp_path / "input"
    folder.mkdir()
    prices = ["date,a,b,c,gone"] + [
        f"2020-01-{day:02d},{1 + day % 3},{1 + day % 4},{1 + day % 5},{'1.5' if day > 1 else ''}"
        for day in range(1, 20)
    ]
    (folder / "prices.csv").write_text("\n".join(prices) + "\n")
    de.WordVectors(["a", "B"], np.eye(2, 5)).save(folder / "known.txt")
    text = JOB.replace('label_column = "kind"\n', "").replace("domain.csv", "prices.csv")
    text = text.replace("[known]", 'transform = "return_correlation"\n[known]').replace("= 4", "= 1")
    (folder / "job.toml").write_text(text)
    output = succeed("run", folder / "job.toml").output
    assert "3 names: 1 matched a known vector, 2 were imputed; 1 more was left out of the table" in output
    assert "1 more name would match with matching.ignore_case = true" in output
    assert de.Workspace.open(folder / "w").table("near_misses").to_pylist()[0]["word"] == "B"
    assert "Names that nearly match" in (folder / "w/report/index.html").read_text(encoding="utf-8")
    done = run("export", folder / "job.toml", "--to", tmp_path / "names.parquet")
    assert done.output.startswith("4 names: 1 known, 2 imputed, 1 left out; vectors of 5 dimensions in ")
    rows = pq.read_table(tmp_path / "names.parquet").to_pylist()
    origins = {row["name"]: row["origin"] for row in rows}
    assert origins == {"a": "known", "b": "imputed", "c": "imputed", "gone": "left out"}
    assert [row["vector"] is None for row in rows] == [False, False, False, True]
    assert rows[3]["reason"] == "a price is missing or not positive"
    assert rows[0]["vector"] == [1, 0, 0, 0, 0]
    assert (
        "'gone' was left out of the table: a price is missing" in run("explain", folder / "w", "gone").output
    )
    succeed("export", folder / "job.toml", "--to", tmp_path / "names.npy")
    assert np.isnan(np.load(tmp_path / "names.npy")).all(axis=1).tolist() == [False, False, False, True]


def numbers(job: Path) -> np.ndarray:
    """Return the rows of the table of the job."""
    return np.loadtxt(job.parent / "domain.csv", delimiter=",", skiprows=1, usecols=(2, 3, 4))


@pytest.fixture(scope="module")
def residuals(job, tmp_path_factory):
    """Return the workspace of the job, whose graph has what a regression leaves."""
    return run_once(tmp_path_factory, job, "--set", "imputation.method=residuals")[0]


def infer(workspace: Path, table: Path, *words: str) -> list[object]:
    """Return the words of the command that infers the names of a table."""
    return ["infer", workspace, table, "--to", table.with_suffix(".parquet"), *words]


def test_new_names_follow_those_of_the_job_as_the_estimator_gives_them(job, residuals, tmp_path):
    """The standardization is that of the job's table: one row has none of its own."""
    new, table = 3 * np.random.default_rng(2).standard_normal((3, 3)), tmp_path / "new.csv"
    rows = [",".join(map(repr, row)) for row in new[:, ::-1].tolist()]
    lines = [f"{name},{row}" for name, row in zip(("first new", "name 3", "third"), rows, strict=True)]
    table.write_text("\n".join(["name,c,b,a", *lines]) + "\n")
    output, target = succeed(*infer(residuals, table)).output, table.with_suffix(".parquet")
    assert pq.read_table(target).column_names == ["word", "origin", "vector"]
    assert output.startswith(f"2 new names; {N_NAMES + 3} words x 5 dimensions in ")
    assert "1 name ('name 3') had a vector already, which is kept" in " ".join(output.split())
    found, workspace = de.WordVectors.load(target), de.Workspace.open(residuals)
    before = workspace.array("vectors").compute()
    assert found.vectors[: N_NAMES + 1].tobytes() == before.tobytes()
    assert list(found.words[-2:]) == ["first new", "third"]

    succeed("infer", residuals, table, "--to", tmp_path / "all.tsv")
    lines = (tmp_path / "all.tsv").read_text(encoding="utf-8-sig").splitlines()
    assert len(lines) == N_NAMES + 4
    assert lines[-1].replace(chr(34), "").split("\t")[:2] == ["third", "inferred"]

    mean, spread = numbers(job).mean(axis=0), numbers(job).std(axis=0)
    X, kept = (numbers(job) - mean) / spread, (new[[0, 2]] - mean) / spread
    Y = workspace.array("known_vectors").compute()
    model = de.LatentSemanticImputation(min_degree=4, regressor=LinearRidge()).fit(X, Y)
    np.testing.assert_allclose(found.vectors[-2:], model.infer(kept, X, Y), rtol=1e-3, atol=1e-5)


def test_an_empty_cell_takes_the_median_of_the_job_where_it_is_asked_for(job, residuals, tmp_path):
    table = tmp_path / "new.csv"
    table.write_text("name,a,b,c\nx,1,,0.5\ny,-1,3,0\n")
    told = refusal(*infer(residuals, table))
    assert "no finite number for 1 of 2 names in the column 'b', first 'x'" in told
    succeed(*infer(residuals, table, "--set", "domain.missing=median"))
    holed = de.WordVectors.load(table.with_suffix(".parquet")).vectors[-2:]
    table.write_text(f"name,a,b,c\nx,1,{float(np.median(numbers(job)[:, 1]))!r},0.5\ny,-1,3,0\n")
    succeed(*infer(residuals, table))
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
def test_a_table_that_does_not_fit_is_refused_in_a_sentence(residuals, tmp_path, text, words, message):
    table = tmp_path / "new.csv"
    table.write_text(text)
    (tmp_path / "another.csv").write_text(text)
    more = (str(tmp_path / word) if word.endswith(".csv") else word for word in words.split())
    assert message in refusal(*infer(residuals, table, *more))
    assert not table.with_suffix(".parquet").exists()
