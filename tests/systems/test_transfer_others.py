"""The transfer job with a third collection, which has other words, fewer documents and another order."""

from __future__ import annotations

import json
import re

import numpy as np
import pyarrow.parquet as pq
import pytest

import distembed as de
from distembed.evaluation.transfer import score_transfer
from distembed.job.load import load_job
from distembed.job.opening import open_job
from distembed.job.plan import plan_job
from distembed.job.run import run_stages
from distembed.linalg.operators import whole_csr
from distembed.manifold.correspondences import shared_values
from distembed.neighbors.graphs import joint_adjacency
from distembed.systems.transfer import report as views
from distembed.systems.transfer.job import TransferJob
from tests.commands import changes, job_fixtures, made, refusal, run, succeed
from tests.small_jobs.transfer import JOB, N_DOCUMENTS, write_three
from tests.systems.test_transfer_features import COLUMNS, values, write_table

SIDES = ("first", "second", "third")


job, finished, copy = job_fixtures("transfer-others", write_three)


def test_the_job_is_the_library_on_one_joint_graph(workspace):
    graphs = [whole_csr(workspace.array(f"{side}_graph")) for side in SIDES]
    second, third = (whole_csr(workspace.array(name)) for name in ("second_links", "third_links"))
    topics = workspace.array("first_topics").compute()
    shared = [shared_values(topics, links) for links in (second, third)]
    known = [np.concatenate([both, other[N_DOCUMENTS:]]) for both, other in zip(*shared, strict=True)]
    joint = joint_adjacency(graphs, {(0, 1): second, (0, 2): third})
    model = de.FeaturePreservingEmbedding(4, regularization=0.1).fit_graph(joint, *known)
    bounds = np.cumsum([0, *(graph.shape[0] for graph in graphs)])
    np.testing.assert_allclose(topics.sum(axis=1), 1, atol=1e-6)
    assert np.all(np.diff(workspace.table("objective")["objective"]) <= 0)
    for side, rows in zip(SIDES, map(slice, bounds[:-1], bounds[1:]), strict=True):
        found = workspace.array(f"{side}_embedding").compute()
        np.testing.assert_allclose(found, model.embedding_[rows], atol=1e-6)
        if side != "first":
            inferred = workspace.array(f"{side}_topics").compute()
            np.testing.assert_allclose(inferred, model.features_[rows], atol=1e-6)


def test_known_pairs_of_the_third_are_its_own(workspace):
    first, third = (workspace.table(f"{side}_documents")["id"].to_pylist() for side in ("first", "third"))
    pairs = workspace.table("third_pairs").to_pylist()
    assert len(pairs) == len(third) == 90
    assert all(first[pair["first"]] == third[pair["other"]] for pair in pairs)
    links = whole_csr(workspace.array("third_links"))
    known = [(pair["first"], pair["other"]) for pair in pairs if pair["known"]]
    assert len(known) == round(0.15 * 90)
    assert all(links[pair] == 1 for pair in known)
    aligned = workspace.table("third_aligned").to_pydict()
    assert aligned["id"] == third
    assert np.mean([a == b for a, b in zip(third, aligned["counterpart"], strict=True)]) > 0.9


def test_the_run_and_the_report_say_how_well_the_third_got_its_topics(workspace, output, page):
    assert "120 documents with topics and 210 without; 32 of 210 pairs were known." in output
    pairs = [pair for pair in workspace.table("third_pairs").to_pylist() if not pair["known"]]
    topics = workspace.array("first_topics").compute()
    true = topics[[pair["first"] for pair in pairs]]
    found = workspace.array("third_topics").compute()[[pair["other"] for pair in pairs]]
    scores, mean = score_transfer(found, true), score_transfer(0 * true + topics.mean(axis=0), true)
    assert scores.rmse < 0.4 * mean.rmse
    row = rf"^third +{mean.rmse:.4f} +{scores.rmse:.4f} +{len(pairs)}$"
    assert re.search(row, output, re.MULTILINE)
    np.testing.assert_allclose(workspace.table("third_value_scores")["rmse"], scores.topic_rmse)
    said = (
        "Documents by largest topic",
        "Accuracy by collection",
        "rmse, third",
        "Documents of the second collection and their counterparts",
        "Documents of the third collection and their counterparts",
        "third documents",
    )
    assert [words for words in said if words not in page] == []


def test_export_and_explorer_have_the_documents_of_all_three(finished, tmp_path, workspace):
    done = run("export", finished[0], "--to", tmp_path / "documents.parquet")
    assert done.output.startswith("330 documents of 3 collections and 4 topics in ")
    rows = pq.read_table(tmp_path / "documents.parquet").to_pylist()
    for side in SIDES:
        own = [row for row in rows if row["collection"] == side]
        shares = workspace.array(f"{side}_topics").compute()
        assert [row["topic"] for row in own] == shares.argmax(axis=1).tolist()
        assert [row["weight_2"] for row in own] == shares[:, 2].tolist()
        assert [row["id"] for row in own] == workspace.table(f"{side}_documents")["id"].to_pylist()
    assert {row["counterpart"] for row in rows[:120]} == {None}
    done = run("export", finished[0], "--what", "topics", "--to", tmp_path / "topics.tsv")
    assert done.output.startswith("4 topics in ")
    aligned = workspace.table("third_aligned").to_pylist()
    assert [row["counterpart"] for row in own] == [row["counterpart"] for row in aligned]
    items = views.items(open_job(workspace.url), workspace)
    assert len(items.names) == 330
    assert items.colorings[1].key == [f"{side} collection" for side in SIDES]
    near = items.lists[0]
    for row, pair in enumerate(aligned[:20], start=240):
        assert items.names[near.rows[row][0]] == pair["counterpart"]
        assert near.values[row][0] == pytest.approx(pair["probability"])
        assert row in near.rows[near.rows[row][0]]


def test_only_what_depends_on_the_third_is_computed_again(job, copy, tmp_path):
    lines = (job.parent / "third.jsonl").read_text().splitlines()[:80]
    (tmp_path / "fewer.jsonl").write_text("\n".join(lines))

    def ran(*settings: str) -> list[str]:
        changed = load_job(job, workspace=str(copy), settings=settings)
        return [*run_stages(changed, until="embedding", replace=True).ran]

    setting = f"collections.third.paths=['{tmp_path}/fewer.jsonl']"
    kinds = ("tokens", "documents", "pairs", "vocabulary", "terms", "vectors", "graph", "links")
    assert ran(setting) == [*(f"third_{kind}" for kind in kinds), "embedding"]
    ids = {json.loads(line)["id"] for line in lines}
    confidence = {f"doc {row}": 1 - row / 200 for row in (7, 9, 20, 23, 31)}
    pairs = [f"{name},{name},{value}" for name, value in confidence.items() if name in ids]
    (tmp_path / "pairs.csv").write_text("\n".join(["first,third,confidence", *pairs]))
    own = f"collections.third.pairs='{tmp_path}/pairs.csv'"
    assert ran(setting, own) == ["third_pairs", "third_links", "embedding"]
    workspace = de.Workspace.open(copy)
    known = [pair["confidence"] for pair in workspace.table("third_pairs").to_pylist() if pair["known"]]
    assert known
    assert {*known} <= {*confidence.values()}
    assert sum(workspace.table("second_pairs")["known"].to_pylist()) == 18


def test_features_of_a_table_are_carried_to_the_third(job, copy, tmp_path):
    table = write_table(tmp_path / "values.csv", range(100), known=values())
    workspace = made(job, copy, f"collections.first.features='{table}'", "evaluation.n_seeds=1")
    pairs = workspace.table("third_pairs").to_pylist()
    left = [pair for pair in pairs if not pair["known"] and pair["first"] < 100]
    true = values()[[pair["first"] for pair in left]]
    found = workspace.array("third_features").compute()[[pair["other"] for pair in left]]
    error = np.sqrt(((found - true) ** 2).mean(axis=0)) / values()[:100].std(axis=0)
    assert max(error) < 0.7
    np.testing.assert_allclose(workspace.table("third_value_scores")["rmse"], error, rtol=1e-5)
    succeed("export", copy, "--to", tmp_path / "documents.parquet")
    documents = pq.read_table(tmp_path / "documents.parquet").to_pylist()
    rows = [row for row in documents if row["collection"] == "third"]
    assert {row["origin"] for row in rows} == {"inferred"}
    carried = workspace.array("third_features").compute()
    np.testing.assert_allclose([row[COLUMNS[0]] for row in rows], carried[:, 0])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"collections.a_b.paths": ["third.jsonl"]}, "collections.a_b"),
        ({"collections.A-b.paths": ["third.jsonl"]}, "collections.A-b"),
        ({"collections.third.text_fild": "text"}, "did you mean text_field?"),
        ({"collections.third.id_field": "text"}, "give collections.third.pairs, a table of pairs"),
        ({"collections.third.pairs": "both.jsonl"}, "both.jsonl has no column 'first'"),
        ({"collections.third.paths": ["absent.jsonl"]}, "absent.jsonl"),
        ({"collections.third.stop_words_file": "absent.txt"}, "absent.txt"),
    ],
)
def test_what_does_not_fit_is_one_sentence(job, copy, settings, message):
    assert message in refusal("run", job, "--workspace", copy, "--replace", *changes(settings))


def test_a_job_needs_two_collections(tmp_path):
    begin, end = JOB.split("[collections.second]")
    (tmp_path / "job.toml").write_text(begin + end[end.index("[representation]") :])
    assert "collections" in refusal("plan", tmp_path / "job.toml")


def test_the_plan_counts_the_third(job, finished, tmp_path):
    planned = load_job(job, workspace=str(tmp_path / "none"))
    three = plan_job(planned).stages
    tree = planned.model_dump()
    del tree["collections"]["third"]
    two = plan_job(TransferJob.model_validate(tree)).stages
    assert three["third_graph"].tasks > 0
    assert three["embedding"].whole_bytes > 1.3 * two["embedding"].whole_bytes
    assert three["evaluation"].whole_bytes == two["evaluation"].whole_bytes
    counted = plan_job(load_job(job, workspace=str(finished[0])))
    assert "330 documents" in counted.sizes
    assert counted.stages["embedding"].exact
