"""Topic transfer by the command line: on three generated collections, two of them in other words.

The third collection has fewer documents, in another order.
"""

from __future__ import annotations

import json
import re

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import distembed as de
from distembed.evaluation.transfer import score_transfer
from distembed.job.load import load_job
from distembed.job.opening import open_job
from distembed.job.plan import plan_job
from distembed.job.run import run_stages
from distembed.job.stage import Context
from distembed.linalg.operators import whole_csr
from distembed.manifold.correspondences import shared_values
from distembed.manifold.inference import AS_PRINTED, TwoSets
from distembed.neighbors.graphs import joint_adjacency
from distembed.systems.transfer import report as views
from distembed.systems.transfer.job import TransferJob
from distembed.systems.transfer.stages import _dominated
from tests.commands import changes, job_fixtures, made, refusal, succeed, untimed
from tests.small_jobs.transfer import JOB, N_DOCUMENTS, records, write_three

SIDES = ("first", "second", "third")


job, finished, copy = job_fixtures("transfer-others", write_three)


def errors(output: str) -> dict[str, list[float]]:
    """Return the errors of each method, by the number of known pairs, that a run has printed at its end."""
    lines = output[output.index("Accuracy at a glance") :].split("\n\n", maxsplit=1)[0].splitlines()[2:-1]
    rows = (re.split(" {2,}", line) for line in lines)
    return {name: [float(cell) for cell in cells] for name, *cells in rows}


def test_a_run_says_what_it_did_and_how_good_it_is_and_knows_pairs_of_the_third(workspace, output, page):
    assert "120 documents with topics and 210 without; 32 of 210 pairs were known." in output
    assert "converged in" in output
    table = errors(output)
    assert len(table) == 10
    assert max(table["feature-preserving embedding"]) < 0.4 * min(table["column mean"])
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
        "All measures by method",
        "Accuracy by collection",
        "rmse, third",
        "All collections in one space",
        "Documents by largest topic",
        "Documents by collection",
        "Topics of the first collection",
        "Documents of the second collection and their counterparts",
        "Documents of the third collection and their counterparts",
        "third documents",
        "Objective of the embedding",
    )
    assert [words for words in said if words not in page] == []
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


@pytest.mark.filterwarnings("default")  # the printed systems end a hair above the tolerance
@pytest.mark.parametrize(
    "options", [{"regularization": 0.1}, {**AS_PRINTED, "max_iter": 2}], ids=["default", "printed"]
)
def test_the_embedding_is_the_library_s_on_one_joint_graph(job, copy, options):
    settings = (f"alignment.{name}={json.dumps(value)}" for name, value in options.items())
    workspace = made(job, copy, *settings, until="embedding")
    graphs = [whole_csr(workspace.array(f"{side}_graph")) for side in SIDES]
    second, third = (whole_csr(workspace.array(name)) for name in ("second_links", "third_links"))
    topics = workspace.array("first_topics").compute()
    shared = [shared_values(topics, links) for links in (second, third)]
    known = [np.concatenate([both, other[N_DOCUMENTS:]]) for both, other in zip(*shared, strict=True)]
    joint = joint_adjacency(graphs, {(0, 1): second, (0, 2): third})
    model = de.FeaturePreservingEmbedding(4, **options).fit_graph(joint, *known)
    bounds = np.cumsum([0, *(graph.shape[0] for graph in graphs)])
    np.testing.assert_allclose(topics.sum(axis=1), 1, atol=1e-6)
    assert np.all(np.diff(workspace.table("objective")["objective"]) <= 0)
    for side, rows in zip(SIDES, map(slice, bounds[:-1], bounds[1:]), strict=True):
        found = workspace.array(f"{side}_embedding").compute()
        np.testing.assert_allclose(found, model.embedding_[rows], atol=1e-6)
        if side != "first":
            inferred = workspace.array(f"{side}_topics").compute()
            np.testing.assert_allclose(inferred, model.features_[rows], atol=1e-6)


def test_export_and_explorer_have_the_documents_of_all_three(finished, tmp_path, workspace):
    done = succeed("export", finished[0], "--to", tmp_path / "documents.parquet")
    assert done.output.startswith("330 documents of 3 collections and 4 topics in ")
    rows = pq.read_table(tmp_path / "documents.parquet").to_pylist()
    for side in SIDES:
        own = [row for row in rows if row["collection"] == side]
        shares = workspace.array(f"{side}_topics").compute()
        assert [row["topic"] for row in own] == shares.argmax(axis=1).tolist()
        assert [row["weight_2"] for row in own] == shares[:, 2].tolist()
        assert [row["id"] for row in own] == workspace.table(f"{side}_documents")["id"].to_pylist()
    assert {row["counterpart"] for row in rows[:120]} == {None}
    done = succeed("export", finished[0], "--what", "topics", "--to", tmp_path / "topics.tsv")
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


def test_the_printed_algorithm_is_judged_on_documents_of_one_topic(job, copy):
    settings = {"topic": 1, "topic_share": 0.4, "printed_rounds": 5, "n_seeds": 1, "shares": [0.3, 0.301]}
    words = changes({f"evaluation.{key}": value for key, value in settings.items()})
    again = ("run", job, "--workspace", copy, "--replace", *words)
    done = succeed(*again)
    workspace = de.Workspace.open(copy)
    topics = workspace.array("first_topics").compute()
    some = topics[(topics.argmax(axis=1) == 1) & (topics[:, 1] >= 0.4)]
    assert 3 <= len(some) < N_DOCUMENTS
    assert f"Judged on the {len(some)} documents of which 40% or more are topic 1 (" in done.output
    table = errors(done.output)
    assert list(table)[5:7] == ["semisupervised alignment", "embedding as the paper prints it"]
    scores = workspace.table("scores").to_pylist()
    assert {row["n_known"] for row in scores} == {round(0.3 * len(some))}
    assert len(scores) == len(table)  # two shares of as many pairs are one draw
    known = np.random.default_rng(0).permutation(len(some))[round(0.3 * len(some)) :]
    expected = np.sqrt(((some[known] - some.mean(axis=0)) ** 2).mean())
    assert next(row["rmse"] for row in scores if row["method"] == "mean") == pytest.approx(expected)
    assert "take another evaluation.topic" in refusal(*again, "--set", "evaluation.topic_share=1.0")
    rows, pairs = np.eye(6) + (np.arange(6) > 0)[:, None], np.stack([np.arange(6)] * 2, axis=1)
    rows[0], ctx = 0, Context(open_job(workspace.url), workspace, None, None)  # a document without a word
    chosen, _ = _dominated(ctx, TwoSets(rows, rows, (), np.eye(4)[[1] * 6]), pairs)
    assert [graph.nnz for graph in chosen.graphs] == [20, 20]


def test_two_files_a_table_of_tabs_a_file_of_pairs_and_topics_by_lda(tmp_path):
    found = records()[:60]
    lines = ["name\tone"] + [f'{r["id"]}\t"{r["one"]}' for r in found]
    (tmp_path / "one.tsv").write_text("\n".join(lines) + "\n")
    table = pa.table({"id": [f"other {i}" for i in range(50)], "two": [r["two"] for r in found[:50]]})
    pq.write_table(table, tmp_path / "two.parquet")
    pairs = ["first;second;confidence"] + [f"doc {i};other {i};{1 - i / 100}" for i in range(0, 40, 2)]
    (tmp_path / "pairs.csv").write_text("\n".join(pairs) + "\n")
    settings = {
        "collections.first.paths": ["one.tsv"],
        "collections.first.format": "tsv",
        "collections.first.id_field": "name",
        "collections.first.label_field": "",
        "collections.second.paths": ["two.parquet"],
        "collections.second.pairs": "pairs.csv",
        "collections.first.stop_words": "english",
        "topics.method": "lda",
        "topics.n_iter": 5,
        "evaluation.n_seeds": 1,
    }
    (tmp_path / "job.toml").write_text(JOB)
    done = succeed("run", tmp_path / "job.toml", *changes(settings))
    assert "60 documents with topics and 50 without; 20 of 20 pairs were known." in done.output
    table = errors(done.output)
    assert max(table["feature-preserving embedding"]) < min(table["column mean"])


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
    assert set() < {*known} <= {*confidence.values()}
    assert sum(workspace.table("second_pairs")["known"].to_pylist()) == 18


@pytest.mark.parametrize(
    ("key", "given", "sentence"),
    [
        ("second.pairs", "first,second\ndoc 1,no\n", "'no', which is no id of the second collection"),
        ("second.pairs", "first,other\ndoc 1,doc 1\n", "no column 'second'"),
        ("second.pairs", "first,second,confidence\ndoc 1,doc 1,2\n", "the confidence '2' in row 2"),
        ("second.pairs", "first,second,confidence\ndoc 1,doc 1,\n", "the confidence '' in row 2"),
        ("second.pairs", "first,second,confidence\ndoc 1,doc 1,1\ndoc 1,doc 1,0.5\n", "keep one"),
        ("third.pairs", "both.jsonl", "both.jsonl has no column 'first'"),
        ("third.id_field", "text", "give collections.third.pairs, a table of pairs"),
        ("third.text_fild", "text", "did you mean text_field?"),
        ("third.stop_words_file", "absent.txt", "absent.txt"),
        ("a_b.paths", ["third.jsonl"], "collections.a_b"),
        ("A-b.paths", ["third.jsonl"], "collections.A-b"),
    ],
)
def test_what_does_not_fit_is_one_sentence(job, copy, tmp_path, key, given, sentence):
    """A table of pairs is given as its text."""
    if "\n" in given:
        (tmp_path / "pairs.csv").write_text(given)
        given = tmp_path / "pairs.csv"
    settings = changes({f"collections.{key}": given})
    assert sentence in refusal("run", job, "--workspace", copy, "--replace", *settings)
    if "no column" in sentence or "in row" in sentence:  # which a plan has seen
        assert sentence in refusal("plan", job, "--workspace", tmp_path / "none", *settings)


def test_no_id_in_common_is_said_before_anything_long(job, tmp_path):
    other = [{**record, "id": f"x {record['id']}"} for record in records()]
    (tmp_path / "other.jsonl").write_text("\n".join(map(json.dumps, other)))
    settings = changes({"collections.second.paths": [tmp_path / "other.jsonl"]})
    told = refusal("run", job, "--workspace", tmp_path / "w", *settings)
    assert "give collections.second.pairs" in told
    begun = de.Workspace.open(tmp_path / "w").stages().keys()
    assert begun == {f"{side}_{kind}" for side in SIDES for kind in ("tokens", "documents")}


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


def test_the_plan_counts_the_third_and_a_job_needs_two(job, finished):
    planned = load_job(job, workspace=str(job.parent / "none"))
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
    del tree["collections"]["second"]
    with pytest.raises(ValueError, match="collections"):
        TransferJob.model_validate(tree)
