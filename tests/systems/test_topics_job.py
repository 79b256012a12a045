"""The topics job by the command line: on a generated collection with known classes."""

from __future__ import annotations

import json
import re
import shutil
import tomllib
from pathlib import Path
from typing import Any

import dask
import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest

import distembed as de
from distembed.execution import compute
from distembed.factorization.nmf import common_topics
from distembed.job.opening import open_job
from distembed.linalg.operators import whole_csr
from distembed.neighbors.graphs import neighbor_affinity
from distembed.systems.topics import views
from tests.commands import changes, job_fixtures, made, refusal, run, run_once, succeed, written_once
from tests.small_jobs.topics import CLASSES, JOB, collection, write, write_long

job, finished, copy = job_fixtures("topics-of-classes", write)


@pytest.fixture(scope="module")
def long_job(tmp_path_factory):
    return written_once(tmp_path_factory, "topics", write_long)


@pytest.fixture(scope="module")
def in_blocks(long_job, tmp_path_factory):
    workspace, _ = run_once(tmp_path_factory, long_job)
    for name in ("tf_idf", "ppmi", "document_factors"):
        assert de.Workspace.open(workspace).array(name).numblocks[0] > 1, name
    return workspace


def exported(workspace: Path, target: Path, *words: str) -> tuple[str, list[dict[str, Any]]]:
    """Return what an export to a CSV file says, and the rows of the file."""
    done = succeed("export", workspace, *words, "--to", target)
    return done.output, pacsv.read_csv(target).to_pylist()


def test_a_run_finds_the_classes_and_says_so(workspace, output, page):
    assert "62 documents, 26 words;" in output
    assert "1 documents hold no word of the vocabulary and have the topic -1" in output
    for method in ("Semantic-NMF", "NMF", "orthogonal NMF", "spherical k-means"):
        assert re.search(rf"^{method} +mean of 3 +0\.9\d\d ±", output, re.MULTILINE), output
    topics = workspace.table("topics").to_pylist()
    found = {frozenset(row["words"]) for row in topics if row["method"] == "semantic_nmf"}
    assert found == {frozenset(words) for words in CLASSES.values()}
    assert "consensus of 3, kept" in page.replace("<wbr>", "")
    assert "<dt>documents</dt><dd>62</dd></div><div><dt>words</dt><dd>26</dd>" in page
    titles = (
        "Topics of Semantic-NMF",
        "Topics of NMF",
        "Agreement with labels",
        "Stability",
        "Coherence",
        "Documents of each topic",
        "Documents by topic",
        "Documents by label",
        "Convergence",
    )
    assert [title for title in titles if title not in page] == []


@pytest.mark.filterwarnings("ignore:.*hold no word")
def test_a_notebook_repeats_the_job(job, workspace):
    docs = de.read_corpus(job.parent / "collection.jsonl", id_field="id", label_field="kind")
    vocabulary = de.build_vocabulary(docs, min_documents=2, max_share=0.9, stop_words="english")
    assert vocabulary.words == workspace.table("vocabulary")["word"].to_pylist()
    X = de.tf_idf(de.count_document_terms(docs, vocabulary)).compute()
    M = de.ppmi(de.count_cooccurrences(docs, vocabulary, window=10)).compute()
    best = de.SemanticNMF(3, max_iter=20, n_init=3, shift=2).fit(X, M)
    for name, ours in {"tf_idf": X, "ppmi": M}.items():
        stored = workspace.array(name).compute()
        assert ours.data.tobytes() == stored.data.tobytes(), name
        assert ours.indices.tobytes() == stored.indices.tobytes(), name
    factors = {"vectors": best.word_factors_, "document_factors": best.document_factors_, "core": best.core_}
    for name, ours in factors.items():
        assert workspace.array(name).compute().tobytes() == np.asarray(ours, np.float32).tobytes(), name
    losses = [row for row in workspace.table("losses").to_pylist() if row["method"] == "semantic_nmf"]
    assert [row["loss"] for row in losses if row["round"] == 20] == [s.objective[-1] for s in best.starts_]
    labels = workspace.array("labels").compute()
    assert labels.shape == (16, 62)
    np.testing.assert_array_equal(labels[:4], [*(start.labels for start in best.starts_), best.labels_])
    starts = workspace.table("starts").to_pylist()[:4]
    assert [row["start"] for row in starts] == [0, 1, 2, None]
    assert [row["kept"] for row in starts] == [False, False, False, True]
    stored = de.SemanticNMF.from_workspace(workspace)
    np.testing.assert_array_equal(best.labels_, stored.labels_)
    np.testing.assert_array_equal(best.document_norms_, stored.document_norms_)


def test_documents_are_given_away_with_their_topics_and_topics_with_their_shares(
    finished, tmp_path, workspace, page
):
    done, rows = exported(finished[0], tmp_path / "documents.csv")
    assert done.startswith("62 documents and 3 topics in ")
    assert [row["id"] for row in rows] == [document["id"] for document in collection()]
    kept = next(place for place, row in enumerate(workspace.table("starts").to_pylist()) if row["kept"])
    assert [row["topic"] for row in rows] == workspace.array("labels")[kept].compute().tolist()
    shares = np.array([[row[f"weight_{topic}"] for topic in range(3)] for row in rows])
    filled = shares[:-1]
    assert rows[-1]["topic"] == -1
    assert shares[-1].tolist() == [0, 0, 0]
    np.testing.assert_allclose(filled.sum(axis=1), 1, rtol=1e-6)
    assert filled.argmax(axis=1).tolist() == [row["topic"] for row in rows[:-1]]
    assert page.count("Topics by kind") >= 2
    done, rows = exported(finished[0], tmp_path / "s.csv", "--what", "shares")
    assert "9 shares of topics" in done
    assert {row["value"]: row["n_documents"] for row in rows} == {"farm": 20, "music": 20, "sea": 21}
    for kind in CLASSES:
        shares = [row["share"] for row in rows if row["value"] == kind]
        assert sum(shares) > 0.95
        assert max(shares) > 0.6
    assert all(row["low"] <= row["share"] <= row["high"] for row in rows)


def test_a_topic_has_one_number_everywhere(finished, tmp_path, workspace, output, page):
    """The number of a topic is its column in the arrays: in labels, tables, report, exports and last lines.

    An exported word has its share of the weights of its topic, and the words fall by weight times √documents.
    """
    vocabulary, factors = workspace.table("vocabulary"), workspace.array("vectors").compute()
    words, held = vocabulary["word"].to_pylist(), np.sqrt(vocabulary["document_count"].to_numpy())
    heaviest = [words[row] for row in (factors.T * held).argmax(axis=1)]
    stored = [row for row in workspace.table("topics").to_pylist() if row["method"] == "semantic_nmf"]
    assert [(row["topic"], row["words"][0]) for row in stored] == list(enumerate(heaviest))
    _, given = exported(finished[0], tmp_path / "t.csv", "--what", "topics")
    assert [(row["topic"], row["word"]) for row in given if row["rank"] == 1] == list(enumerate(heaviest))
    first, own = [row for row in given if row["topic"] == 0], factors[:, 0].astype(float)
    assert {row["weight"] for row in first} <= set((own / own.sum()).tolist())
    listed = [row["weight"] * held[words.index(row["word"])] for row in first]
    assert listed == sorted(listed, reverse=True)
    for topic, word in enumerate(heaviest):
        assert re.search(rf"^ +{topic} +\d+ documents   {word} ", output, re.MULTILINE)
        assert f"{topic}: {word} " in page


def test_a_topic_says_what_its_documents_have_in_common_and_words_have_neighbors_of_their_topic(
    finished, tmp_path, output, page
):
    _, rows = exported(finished[0], tmp_path / "t.csv", "--what", "topics")
    for kind, words in CLASSES.items():
        said = re.search(rf"(\d+)% have kind {kind} \(of all (3\d)%\)", output)
        assert said, output
        assert int(said[1]) > 90
        assert kind in page
        topic = next(row["topic"] for row in rows if said[0] in row["stands_out"])
        telling = {row["telling_word"] for row in rows if row["topic"] == topic and row["telling_word"]}
        assert len(telling & set(words)) >= 6
        assert not telling & {"said", "people", "made"}
    assert len(re.findall(r"found again 1\.00", output)) == 3
    assert "telling words" in page
    assert f">{rows[0]['pmi']:.3f}<" in page.replace("<wbr>", "")
    done = succeed("neighbors", finished[0], "violin", "-n", "3")
    heaviest, why = done.output.split("; ")
    assert set(re.findall(r"[a-z]+", heaviest)) <= set(CLASSES["music"])
    assert why == "the heaviest of 5 words that have its direction, as words of one topic alone have\n"


def test_columns_of_documents_go_into_exports_and_answers_and_labels_need_be_no_truth(job, copy, tmp_path):
    meta = tmp_path / "meta.csv"
    meta.write_text("id,half\n" + "".join(f"d{n},{'first' if n < 30 else 'second'}\n" for n in range(60)))
    settings = changes({"corpus.metadata": meta, "report.score_labels": False})
    own = ("run", job, "--workspace", copy, *settings)
    done = succeed(*own)
    assert "60 of 62 documents have a row in " in done.output
    assert "mean of 3" not in done.output
    _, rows = exported(copy, tmp_path / "d.csv")
    assert [row["half"] for row in rows] == ["first"] * 30 + ["second"] * 30 + ["", ""]
    page = (copy / "report" / "index.html").read_text(encoding="utf-8")
    assert "Topics by half" in page
    assert "Agreement with labels" not in page
    assert "Documents by label" in page
    succeed("infer", copy, job.parent / "collection.jsonl", "--to", tmp_path / "new.csv")
    new = pacsv.read_csv(tmp_path / "new.csv").to_pylist()
    assert new == [{name: value for name, value in row.items() if name != "half"} for row in rows]
    meta.write_text("id,half\nnobody,first\n")
    told = refusal(*own)
    assert "no document has a row" in told
    assert "'d0'" in told


def test_a_model_from_a_workspace_agrees_with_the_job(job, workspace):
    X = workspace.array("tf_idf")
    with pytest.raises(
        ValueError, match="no factors of spherical_kmeans, but of semantic_nmf, nmf, orthogonal"
    ):
        de.NMF.from_workspace(workspace, "spherical_kmeans")
    for kind, method in ((de.SemanticNMF, "semantic_nmf"), (de.NMF, "nmf"), (de.NMF, "orthogonal_nmf")):
        model = kind.from_workspace(workspace, method)
        np.testing.assert_array_equal(model.predict(X), model.labels_)
        prefix = "" if method == "semantic_nmf" else f"{method}_"
        stored = workspace.array(f"{prefix}document_factors").compute()
        assert model.transform(X).compute().tobytes() == stored.tobytes()
        rows = [7, 61, 3]
        sub = X.blocks[0].compute()[rows]
        np.testing.assert_array_equal(model.predict(sub), model.labels_[rows])
        assert model.transform(sub).tobytes() == stored[rows].tobytes()
        listed = [row["words"] for row in workspace.table("topics").to_pylist() if row["method"] == method]
        words = workspace.table("vocabulary")["word"].to_pylist()
        assert [column[:5] for column in listed] == model.top_words(5, words)
    assert any((model.labels_ == row).all() for row in workspace.array("labels").compute())
    new = sub.copy()
    new.data *= 1.5  # no row of the job: solved for the fixed words, and of the same topic
    np.testing.assert_array_equal(model.predict(new), model.labels_[rows])
    assert model.transform(new).tobytes() != stored[rows].tobytes()


def test_a_model_from_a_workspace_is_lazy_and_of_its_method(in_blocks):
    def refusing(*_graph: object, **_options: object) -> None:
        raise AssertionError("computed at the call")

    with pytest.raises(TypeError, match=r"give distembed\.Workspace\.open\('runs/topics'\)"):
        de.SemanticNMF.from_workspace("runs/topics")
    workspace = de.Workspace.open(in_blocks)
    with pytest.raises(ValueError, match="holds no factors of nmf, but of semantic_nmf, consensus"):
        de.NMF.from_workspace(workspace)
    X, stored = workspace.array("tf_idf"), workspace.array("document_factors").compute()
    model = de.SemanticNMF.from_workspace(workspace)
    with dask.config.set(scheduler=refusing):
        factors = model.transform(X)
    assert factors.compute().tobytes() == stored.tobytes()


def test_topics_of_new_documents_which_may_be_read_otherwise_than_the_job(finished, job, tmp_path):
    succeed("export", finished[0], "--to", tmp_path / "own.csv")
    done = run("infer", finished[0], job.parent / "collection.jsonl", "--to", tmp_path / "same.csv")
    assert done.output.startswith("62 documents and 3 topics in "), done.output
    assert (tmp_path / "same.csv").read_bytes() == (tmp_path / "own.csv").read_bytes()
    texts = [" ".join(words) for words in CLASSES.values()]
    rows = [{"id": f"n{number}", "text": text, "kind": "new"} for number, text in enumerate(texts)]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "new.parquet")
    succeed("infer", finished[0], tmp_path / "new.parquet", "--to", tmp_path / "topics.parquet")
    found = pq.read_table(tmp_path / "topics.parquet").to_pylist()
    words = de.Workspace.open(finished[0]).table("topics").to_pylist()
    first = {row["topic"]: row["words"][0] for row in words if row["method"] == "semantic_nmf"}
    assert [first[row["topic"]] in text for row, text in zip(found, texts, strict=True)] == [True] * 3
    assert [(row["id"], row["label"]) for row in found] == [("n0", "new"), ("n1", "new"), ("n2", "new")]
    (tmp_path / "new.jsonl").write_text('{"name": "x", "body": "violin concert"}\n')
    infer = ("infer", finished[0], tmp_path / "new.jsonl", "--to", tmp_path / "t.csv")
    assert "text" in refusal(*infer)
    otherwise = {"corpus.text_field": "body", "corpus.id_field": "name", "corpus.label_field": "name"}
    assert succeed(*infer, *changes(otherwise)).output.startswith("1 document and 3 topics")


def test_run_job_gives_what_the_command_gives(job, copy, tmp_path):
    """A file, its sections, or a checked job with changes; the arrays and tables of the workspace by name."""
    done = de.run_job(job, workspace=copy)
    assert (done.ran, len(done.skipped)) == ((), 9)
    assert done.summary.startswith("nothing to do: all 9 stages were done before")
    assert {"tf_idf", "ppmi", "vectors", "labels"} <= set(done.arrays)
    assert done.tables["documents"].num_rows == 62
    assert Path(done.report).read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    assert repr(done) == f"FinishedJob(topics in {done.workspace.url}: 0 stages run, 9 kept)"
    with pytest.raises(ValueError, match="no scheduler 'process'; did you mean processes"):
        de.run_job(job, workspace=copy, scheduler="process")
    with pytest.raises(KeyError, match="there is no output 'vector'; there are "):
        done.arrays["vector"]
    with pytest.raises(ValueError, match=r"unknown key topics\.n_topic;"):
        de.run_job(job, workspace=tmp_path / "x", topics={"n_topic": 5})
    sections = tomllib.loads(JOB)
    sections["corpus"]["paths"] = [str(job.parent / "collection.jsonl")]
    fewer = [
        de.run_job(one, workspace=tmp_path / name, until="vocabulary", vocabulary={"max_size": 9})
        for name, one in {"checked": done.job, "sections": sections}.items()
    ]
    assert [one.tables["vocabulary"].num_rows for one in fewer] == [9, 9]
    assert fewer[0].workspace.digest() == fewer[1].workspace.digest()
    assert done.export(tmp_path / "d.csv").startswith("62 documents and 3 topics")


def test_association_of_another_workspace_which_needs_words_of_this_one(job, finished, tmp_path):
    """Counts of the same text, aligned by word with fewer words, are those of the text itself."""
    given = f"semantic.workspace='{finished[0]}'"
    here, there = (
        made(job, tmp_path / "w", given, "vocabulary.max_size=20", until="association"),
        de.Workspace.open(finished[0]),
    )
    own, others = (one.table("vocabulary")["word"].to_pylist() for one in (here, there))
    place = [others.index(word) for word in own]
    expected = there.array("ppmi").blocks[0].compute().toarray()[np.ix_(place, place)]
    np.testing.assert_allclose(compute(here.array("ppmi")).toarray(), expected, rtol=1e-5)
    (tmp_path / "other.txt").write_text("ein anderer text\nein anderer text\n")
    other = changes(
        {"corpus.paths": [tmp_path / "other.txt"], "vocabulary.max_share": 1.0, "topics.n_topics": 1}
    )
    told = refusal("run", job, "--workspace", tmp_path / "other", "--set", given, *other)
    assert "no word of the collection is in" in told


def test_a_document_s_topic_is_explained_by_its_words(finished, tmp_path):
    found = tmp_path / "why.json"
    done = run("explain", finished[0], "d1", "--to", found)  # a document of the class farm
    assert done.exit_code == 0, done.output
    record = json.loads(found.read_text())
    *terms, weight = record["tables"]["words"]
    assert sum(row["term"] for row in terms) == pytest.approx(weight["term"])
    assert weight["term"] == pytest.approx(record["weight"])
    assert terms[0]["word"] in CLASSES["farm"]
    assert record["share"] > 0.5
    not_settled = [row["term"] for row in terms if row["word"].startswith("not settled")]
    assert all(abs(value) < 0.05 * weight["term"] for value in not_settled)
    (passage,) = record["passages"].values()
    assert {passage[0]["words"][place] for place in passage[0]["marked"]} <= {row["word"] for row in terms}
    done = succeed("explain", finished[0], "d1", (record["topic"] + 1) % 3)
    assert f"the document's own topic is {record['topic']}" in done.output


def test_the_page_to_explore_shows_documents_by_topic(finished):
    workspace = str(finished[0])
    items = views.items(open_job(workspace), de.Workspace.open(workspace))
    assert len(items.names) == 61  # one of 62 has no word
    assert items.note == "1 document more is not shown."
    topic, label = items.colorings
    assert (topic.name, label.name) == ("topic", "label")
    pairs = set(zip(topic.codes.tolist(), label.codes.tolist(), strict=True))
    assert len(topic.key) == len(CLASSES)
    assert len(pairs) == len(label.key) == len(CLASSES) + 1  # one document came without a label
    assert "none" in label.key
    words = {frozenset(text.split(", ")) for text in items.facts["words of the topic"]}
    assert words == {frozenset(found) for found in CLASSES.values()}
    assert len(views.items(open_job(workspace), de.Workspace.open(workspace), n_points=10).names) == 10


@pytest.mark.parametrize("method", ["semantic_nmf", "orthogonal_nmf", "spherical_kmeans"])
def test_a_start_is_chosen_by_its_loss(job, copy, method):
    options = [f"topics.method={method}", "topics.compare_with=[]", "topics.choose=objective"]
    options += [] if method == "spherical_kmeans" else ["topics.init=random"]
    workspace = made(job, copy, *options, until="topics")
    rows = workspace.table("starts").to_pylist()
    (chosen,) = (row for row in rows if row["kept"])
    assert chosen["loss"] == min(row["loss"] for row in rows)
    labels = workspace.array("labels").compute()
    factors = workspace.array("document_factors").compute()
    lengths = 1 if method == "spherical_kmeans" else np.linalg.norm(factors, axis=0)
    kept = labels[[row["kept"] for row in rows]][0]
    assert ((factors / lengths).argmax(axis=1) == kept)[kept >= 0].all()
    if method == "orthogonal_nmf":
        np.testing.assert_allclose(lengths, 1, rtol=1e-5)


@pytest.mark.filterwarnings("ignore:.*hold no word")
def test_by_default_topics_are_what_the_starts_of_two_methods_have_in_common(job, copy, tmp_path):
    options = ("topics.method=consensus", "topics.compare_with=['nmf']", "topics.n_starts=2")
    workspace = made(job, copy, *options, until="evaluation")
    rows, labels = workspace.table("starts").to_pylist(), workspace.array("labels").compute()
    own = [(row["start"], row["kept"]) for row in rows if row["method"] == "consensus"]
    assert own == [*((number, False) for number in range(4)), (None, True)]
    X, M = (workspace.array(name).blocks[0].compute() for name in ("tf_idf", "ppmi"))
    starts = [*de.SemanticNMF(3, max_iter=20, n_init=2).fit(X, M).starts_]
    starts += de.SphericalKMeans(3, max_iter=20, n_init=2).fit(X).starts_
    np.testing.assert_array_equal(labels[:4], [start.labels for start in starts])
    expected = common_topics(X, [start.labels for start in starts], 3)
    model = de.NMF.from_workspace(workspace, "consensus")
    np.testing.assert_array_equal(model.labels_, expected.labels_)
    np.testing.assert_array_equal(model.predict(X), model.labels_)
    np.testing.assert_allclose(np.linalg.norm(model.word_factors_, axis=0), 1, rtol=1e-6)
    assert model.transform(X).tobytes() == workspace.array("document_factors").compute().tobytes()
    topics = [row for row in workspace.table("topics").to_pylist() if row["method"] == "consensus"]
    assert {frozenset(row["words"]) for row in topics} == {frozenset(words) for words in CLASSES.values()}


def test_a_job_with_a_graph_gives_what_the_estimators_give(long_job, in_blocks, tmp_path):
    options = (
        "topics.compare_with=['nmf', 'spherical_kmeans']",
        "topics.graph_weight=1",
        "topics.max_iter=3",
        "topics.n_neighbors=4",
    )
    workspace = made(long_job, shutil.copytree(in_blocks, tmp_path / "w"), *options, until="topics")
    X, M, A = (whole_csr(workspace.array(name)) for name in ("tf_idf", "ppmi", "document_graph"))
    np.testing.assert_array_equal(A.toarray(), neighbor_affinity(X, 4, affinity="binary").toarray())
    for model in (
        de.NMF(2, max_iter=3, tol=0).fit(X, graph=A),
        de.SemanticNMF(2, max_iter=3).fit(X, M, graph=A),
    ):
        read = type(model).from_workspace(workspace)
        np.testing.assert_allclose(read.word_factors_, model.word_factors_, rtol=1e-3, atol=1e-6)
