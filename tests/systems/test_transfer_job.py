"""The topic-transfer job by the command line: on two generated languages and on the real help pages."""

from __future__ import annotations

import json
import re
from copy import deepcopy as copy_of
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import distembed as de
from distembed.job.load import load_job
from distembed.job.plan import plan_job
from distembed.linalg.operators import whole_csr
from distembed.neighbors.graphs import joint_adjacency, laplacian
from distembed.systems.transfer.job import TransferJob
from tests.commands import changes, job_fixtures, refusal, run, succeed, untimed
from tests.references import alignment as reference
from tests.small_jobs.transfer import N_DOCUMENTS, records, write

JOBS = Path(__file__).resolve().parents[2] / "jobs"


job, finished, copy = job_fixtures("transfer", write)


def errors(output: str) -> dict[str, list[float]]:
    """Return the errors of each method, by the number of known pairs, that a run has printed at its end."""
    lines = output[output.index("Accuracy at a glance") :].split("\n\n", maxsplit=1)[0].splitlines()[2:-1]
    rows = (re.split(" {2,}", line) for line in lines)
    return {name: [float(cell) for cell in cells] for name, *cells in rows}


def test_a_run_says_what_it_did_and_how_good_it_is(output, page):
    assert "120 documents with topics and 120 without; 18 of 120 pairs were known." in output
    assert "converged in" in output
    table = errors(output)
    assert len(table) == 10
    ours, mean = table["feature-preserving embedding"], table["column mean"]
    assert max(ours) < 0.4 * min(mean)
    titles = (
        "All measures by method",
        "All collections in one space",
        "Documents by largest topic",
        "Documents by collection",
        "Topics of the first collection",
        "Documents of the second collection and their counterparts",
        "Objective of the embedding",
    )
    assert [title for title in titles if title not in page] == []


AS_PRINTED = {
    "alignment.regularization": 0.0,
    "alignment.normalization": "symmetric",
    "alignment.missing": "imputed",
    "alignment.init": "random",
    "alignment.center": False,
    "alignment.propagate": False,
    "alignment.max_iter": 2,
    "alignment.tol": 0.0,
}
"""The printed algorithm of the paper, for two rounds."""


@pytest.mark.filterwarnings("default")  # the printed systems end a hair above the tolerance
def test_the_printed_algorithm_comes_from_a_job(job, copy):
    settings = AS_PRINTED | {"alignment.solver_tol": 1e-9, "alignment.solver_max_iter": 5000}
    succeed("run", job, "--workspace", copy, "--replace", "--until", "embedding", *changes(settings))
    workspace = de.Workspace.open(copy)
    links = whole_csr(workspace.array("second_links"))
    topics = workspace.array("first_topics").compute().astype(float)
    graphs = [whole_csr(workspace.array(f"{side}_graph")) for side in ("first", "second")]
    L = laplacian(joint_adjacency(graphs, {(0, 1): links})).toarray()
    known = np.concatenate([np.ones(N_DOCUMENTS, bool), links.toarray().any(axis=0)])
    both = np.concatenate([topics, links.toarray().T @ topics])
    start = np.random.default_rng(0).uniform(-1, 1, (2 * N_DOCUMENTS, 4))
    Z, F = reference.alternate(L, both, known, start, 2)
    inferred = workspace.array("second_topics").compute()
    np.testing.assert_allclose(inferred, (Z @ F)[N_DOCUMENTS:], atol=1e-6)


def test_the_printed_algorithm_is_judged_on_documents_of_one_topic(job, copy):
    settings = {"topic": 1, "topic_share": 0.4, "printed_rounds": 5, "n_seeds": 1, "shares": [0.3, 0.301]}
    words = changes({f"evaluation.{key}": value for key, value in settings.items()})
    done = succeed("run", job, "--workspace", copy, "--replace", *words)
    workspace = de.Workspace.open(copy)
    topics = workspace.array("first_topics").compute()
    n_judged = int(((topics.argmax(axis=1) == 1) & (topics[:, 1] >= 0.4)).sum())
    assert 3 <= n_judged < N_DOCUMENTS
    assert f"Judged on the {n_judged} documents of which 40% or more are topic 1 (" in done.output
    table = errors(done.output)
    assert list(table)[5:7] == ["semisupervised alignment", "embedding as the paper prints it"]
    scores = workspace.table("scores").to_pylist()
    assert {row["n_known"] for row in scores} == {round(0.3 * n_judged)}
    assert len(scores) == len(table)  # two shares of as many pairs are one draw
    some = topics[(topics.argmax(axis=1) == 1) & (topics[:, 1] >= 0.4)]
    known = np.random.default_rng(0).permutation(n_judged)[round(0.3 * n_judged) :]
    expected = np.sqrt(((some[known] - some.mean(axis=0)) ** 2).mean())
    assert next(row["rmse"] for row in scores if row["method"] == "mean") == pytest.approx(expected)


def test_a_topic_without_documents_to_judge_is_refused(job, copy):
    settings = changes({"evaluation.topic": 1, "evaluation.topic_share": 1.0})
    told = refusal("run", job, "--workspace", copy, "--replace", *settings)
    assert "take another evaluation.topic" in told


def test_two_files_a_table_of_tabs_and_a_file_of_pairs(job, tmp_path):
    found = records()[:60]
    lines = ["name\tone"] + [f'{r["id"]}\t"{r["one"]}' for r in found]
    (tmp_path / "one.tsv").write_text("\n".join(lines) + "\n")
    table = pa.table({"id": [f"other {i}" for i in range(50)], "two": [r["two"] for r in found[:50]]})
    pq.write_table(table, tmp_path / "two.parquet")
    pairs = ["first,second,confidence"] + [f"doc {i},other {i},{1 - i / 100}" for i in range(0, 40, 2)]
    (tmp_path / "pairs.csv").write_text("\n".join(pairs) + "\n")
    settings = {
        "collections.first.paths": [str(tmp_path / "one.tsv")],
        "collections.first.format": "tsv",
        "collections.first.id_field": "name",
        "collections.first.label_field": "",
        "collections.second.paths": [str(tmp_path / "two.parquet")],
        "collections.second.pairs": str(tmp_path / "pairs.csv"),
        "collections.first.stop_words": "english",
        "evaluation.n_seeds": 1,
    }
    done = succeed("run", job, "--workspace", tmp_path / "w", *changes(settings))
    assert "60 documents with topics and 50 without; 20 of 20 pairs were known." in done.output


def test_topics_by_lda(job, copy):
    settings = {"topics.method": "lda", "topics.n_iter": 5, "evaluation.n_seeds": 1}
    done = succeed("run", job, "--workspace", copy, "--replace", *changes(settings))
    table = errors(done.output)
    assert max(table["feature-preserving embedding"]) < min(table["column mean"])


def test_tf_idf_rows_and_given_pairs_only(job, copy):
    sparse = job.with_name("sparse.toml")
    sparse.write_text(
        job.read_text().replace("[representation]\nn_components = 12", "[representation]\nkind = 'tf_idf'")
    )
    settings = {"alignment.propagate": False, "evaluation.n_seeds": 1}
    done = succeed("run", sparse, "--workspace", copy, "--replace", *changes(settings))
    table = errors(done.output)
    assert list(table) == ["column mean", "semisupervised alignment", "feature-preserving embedding"]
    assert table["feature-preserving embedding"][0] < 0.8 * table["column mean"][0]


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ("first,second\ndoc 1,nowhere\n", "'nowhere', which is no id of the second collection"),
        ("first,other\ndoc 1,doc 1\n", "no column 'second'"),
        ("first,second,confidence\ndoc 1,doc 1,2\n", "confidence 2"),
        ("first,second,confidence\ndoc 1,doc 1,1\ndoc 1,doc 1,0.5\n", "keep one"),
    ],
)
def test_faulty_pairs_are_named(job, copy, tmp_path, lines, message):
    (tmp_path / "pairs.csv").write_text(lines)
    settings = changes({"collections.second.pairs": tmp_path / "pairs.csv"})
    assert message in refusal("run", job, "--workspace", copy, "--replace", *settings)
    if "nowhere" not in lines and "confidence" not in lines:
        assert message in run("plan", job, "--workspace", tmp_path / "none", *settings).output


def test_no_id_in_common_is_said_before_anything_long(job, tmp_path):
    other = [{**record, "id": f"x {record['id']}"} for record in records()]
    (tmp_path / "other.jsonl").write_text("\n".join(map(json.dumps, other)))
    settings = changes({"collections.second.paths": [tmp_path / "other.jsonl"]})
    told = refusal("run", job, "--workspace", tmp_path / "w", *settings)
    assert "give collections.second.pairs" in told
    assert de.Workspace.open(tmp_path / "w").stages().keys() == {
        f"{side}_{kind}" for side in ("first", "second") for kind in ("tokens", "documents")
    }


@pytest.mark.filterwarnings("default")
def test_empty_documents_pass_through(job, copy, tmp_path):
    found = records()
    found[3]["one"] = found[5]["two"] = "..."
    (tmp_path / "both.jsonl").write_text("\n".join(map(json.dumps, found)))
    paths = {f"collections.{side}.paths": [tmp_path / "both.jsonl"] for side in ("first", "second")}
    words = ["--until", "embedding", *changes(paths | {"topics.n_iter": 5})]
    done = succeed("run", job, "--workspace", copy, "--replace", *words)
    warned = [line for line in untimed(done.output).splitlines() if line.startswith("warning: ")]
    assert any("hold no word" in line for line in warned)
    assert any("1 rows are joined to no known value" in line for line in warned)
    workspace = de.Workspace.open(copy)
    assert np.isnan(workspace.array("first_topics").compute()[3]).all()
    assert np.isfinite(workspace.array("second_topics").compute()).all()


@pytest.mark.slow
def test_the_job_on_the_real_help_pages(shared, tmp_path):
    texts = [shared / "data/parallel/libreoffice_help_en_de_fr.jsonl.xz"]
    settings: dict[str, object] = {
        f"collections.{language}.paths": texts for language in ("english", "german")
    }
    settings |= {"evaluation.shares": [0.05], "evaluation.n_seeds": 1}
    done = succeed("run", JOBS / "topic_transfer.toml", "--workspace", tmp_path / "w", *changes(settings))
    table = errors(done.output)
    ours = table.pop("feature-preserving embedding")
    assert all(ours[0] < other[0] for other in table.values())


@pytest.mark.parametrize(
    ("section", "changed", "seen_in"),
    [
        ("topics", {"method": "lda"}, {"topics"}),
        ("representation", {"kind": "tf_idf"}, {"first_vectors", "second_graph"}),
        ("alignment", {"n_neighbors": 9}, {"embedding", "first_graph"}),
        ("pairs", {"share": 0.9}, {"embedding", "second_links"}),
    ],
)
def test_a_plan_counts_the_options_of_its_steps(job, section, changed, seen_in):
    before = load_job(job, workspace=str(job.parent / "none")).model_dump()
    before["alignment"]["propagate"] = False
    after = copy_of(before)
    kept = {} if section == "representation" else after[section]  # rows of tf-idf have no components
    after[section] = kept | changed
    old, new = (plan_job(TransferJob.model_validate(settings)).stages for settings in (before, after))
    assert {stage for stage in old if old[stage] != new.get(stage)} >= seen_in
    assert old["first_tokens"] == new["first_tokens"]
    most = before["resources"]["block_memory"]
    assert old["evaluation"].task_bytes >= min(most, 4 * 8 * N_DOCUMENTS**2)


def test_a_plan_counts_what_is_carried_from_a_table(job, tmp_path):
    whole_bytes = []
    for n_columns in (1, 4000):
        table = tmp_path / f"{n_columns}.csv"
        table.write_text("\n".join(",".join(["id", *["0.25"] * n_columns]) for _ in range(120)))
        settings = (f"collections.first.features='{table}'",)
        planned = load_job(job, workspace=str(tmp_path / "none"), settings=settings)
        whole_bytes.append(plan_job(planned).stages["embedding"].whole_bytes)
    assert whole_bytes[0] < whole_bytes[1]
