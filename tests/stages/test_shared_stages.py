"""Stages that several systems share: columns of documents, names of several words, plans of a size, kept matrices."""

from __future__ import annotations

import json
import re
from importlib import import_module
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from sklearn.metrics import pairwise_distances

import distembed as de
from distembed.display import format_bytes
from distembed.job.load import load_job
from distembed.job.model import Job, JobError
from distembed.job.plan import plan_job
from distembed.job.run import run_stages
from distembed.job.stage import Counted
from distembed.storage.workspace import Workspace
from distembed.systems.psdvec.stages import psdvec_dimensions
from tests import test_promises
from tests.commands import changes, forget_stage, refusal, run, succeed
from tests.small_jobs import transfer
from tests.small_jobs.topics import CLASSES

JOBS = {
    "psdvec": "[psdvec]\nn_components = 2\nn_iter = 2\n",
    "topics": "[topics]\nn_topics = 2\nn_starts = 1\nmax_iter = 5\n",
}


def write(folder: Path, system: str) -> Path:
    """Write three files of twenty documents in a folder for each class, and a table of what is known of them."""
    for kind, words in CLASSES.items():
        file = folder / "texts" / kind / "part.jsonl"
        file.parent.mkdir(parents=True)
        texts = [" ".join(words[k % 8] for k in range(n, n + 12)) for n in range(20)]
        rows = [{"id": f"{kind}{n}", "text": text} for n, text in enumerate(texts)]
        file.write_text("\n".join(map(json.dumps, rows)))
    write_table(folder)
    corpus = (
        '[corpus]\npaths = ["texts"]\nid_field = "id"\nmetadata = "meta.csv"\n[vocabulary]\nmin_count = 1\n'
    )
    (folder / "job.toml").write_text(f'[job]\nsystem = "{system}"\nworkspace = "w"\n{corpus}{JOBS[system]}')
    return folder / "job.toml"


def write_table(folder: Path, **changed: str) -> None:
    """Write the label and the title of each document; some have another label."""
    ids = [f"{kind}{n}" for kind in CLASSES for n in range(20)]
    rows = [f"{name},{changed.get(name, name.rstrip('0123456789'))},The {name}" for name in ids]
    (folder / "meta.csv").write_text("\n".join(["id,label,title", *rows]))


def documents(folder: Path) -> list[dict[str, str]]:
    return de.Workspace.open(folder / "w").table("documents").to_pylist()


@pytest.mark.parametrize(
    ("system", "reads_them"), [("psdvec", {"documents"}), ("topics", {"documents", "evaluation"})]
)
def test_a_changed_cell_makes_no_text_be_read_again(system, reads_them, tmp_path):
    job = write(tmp_path, system)
    first = run_stages(load_job(job), until="evaluation")
    assert documents(tmp_path)[0]["title"] == "The farm0"
    if system == "psdvec":
        assert "The sea" in succeed("explain", job, "anchor", "--passages", "2").output
    write_table(tmp_path, farm0="sea")
    again = run_stages(load_job(job), until="evaluation")
    assert set(again.ran) == reads_them
    assert set(again.skipped) == set(first.ran) - reads_them
    assert documents(tmp_path)[0]["label"] == "sea"
    if system == "topics":  # which chooses documents by their labels
        write_table(tmp_path, farm0="music", music3="sea")
        chosen = load_job(job, settings=("documents.labels=['sea', 'farm']",))
        assert "tokens" in run_stages(chosen, until="documents").skipped
        ids = [row["id"] for row in documents(tmp_path)]
        assert len(set(ids)) == len(ids) == 40
        assert {name for name in ids if name.startswith("music")} == {"music3"}
        assert "farm0" not in ids
        once = load_job(job, settings=("documents.labels=['sea', 'farm']", "documents.drop_duplicates=true"))
        run_stages(once, until="documents")
        assert len(documents(tmp_path)) == 8 + 8 + 1  # of each class, every eighth text is the same


def test_parts_of_paths_are_joined_by_file(tmp_path):
    """Files of one name are told apart by their folders; the text is not read again."""
    job = write(tmp_path, "psdvec")
    run_stages(load_job(job), until="documents")
    done = run_stages(load_job(job, settings=("corpus.path_fields=['kind']",)), until="documents")
    assert done.ran == ("documents",)
    found = {(row["kind"], row["id"].rstrip("0123456789")) for row in documents(tmp_path)}
    assert found == {(kind, kind) for kind in CLASSES}


def test_the_documents_of_a_collection_are_stored_a_partition_at_a_time(tmp_path):
    """No process holds them all at once."""
    transfer.write(tmp_path)
    job = load_job(tmp_path / "job.toml", settings=("collections.first.partition_bytes=16KiB",))
    run_stages(job, until="first_documents")
    workspace = de.Workspace.open(tmp_path / "w")
    stored = pq.ParquetFile(tmp_path / "w/first_documents.parquet")
    assert stored.num_row_groups == len(workspace.files("first_tokens")) > 1
    assert stored.metadata.num_rows == workspace.stages()["first_tokens"].facts["n_documents"]


TEXT = """New York is a city and new york city is New York
the city of St Louis is in the new world of york
"""
JOB = """
[job]
workspace = "w"
[corpus]
paths = ["text.txt"]
layout = "line"
phrases_file = "names.txt"
[vocabulary]
min_count = 5
[psdvec]
n_components = 3
[resources]
workers = 1
"""


@pytest.fixture
def job(tmp_path):
    (tmp_path / "text.txt").write_text(TEXT * 20)
    (tmp_path / "names.txt").write_text("New York\nNew York City\nFord\n")
    (tmp_path / "job.toml").write_text(JOB)
    return tmp_path / "job.toml"


def counts(job: Path) -> dict[str, int]:
    table = de.Workspace.open(job.parent / "w").table("vocabulary")
    return dict(zip(table["word"].to_pylist(), table["count"].to_pylist(), strict=True))


def test_names_are_words_of_the_job_and_of_what_it_encodes_but_a_workspace_alone_reads_none(job):
    done = succeed("run", job, "--set", "vocabulary.min_count=25", "--until", "vectors")
    assert "joining 2 names of several words from " in done.output
    assert "; 1 name of one word left as they are" in done.output
    found, folder = counts(job), job.parent
    assert (found["new_york"], found.get("new_york_city"), found.get("york")) == (40, None, None)
    for text, n_known in (("New York!", 1), ("Chicago", 0)):
        (folder / "t.txt").write_text(text)
        run("encode", job, folder / "t.txt", "--to", folder / "t.csv")
        assert f",{n_known}," in (folder / "t.csv").read_text().splitlines()[1]
    (folder / "new.txt").write_text("New York City is a city and New York City is the city\n" * 15)
    succeed("infer", job, folder / "new.txt", "--to", folder / "new.vec.txt")
    assert "new_york_city" in de.WordVectors.load(folder / "new.vec.txt").words
    for command in ("infer", "encode"):
        words = (folder / "text.txt", "--to", folder / "new.csv")
        refused = run(command, folder / "w", *words)
        assert refused.exit_code == 2
        told = "names.txt' has to be read, but stands in a workspace, which may be a stranger's"
        assert told in refused.output
        known = run(command, folder / "w" / "job.toml", *words)
        assert "no new word" in known.output or known.exit_code == 0, known.output


def test_another_gazetteer_and_none_count_again(job):
    succeed("run", job, "--until", "vocabulary")
    assert "new_york_city" in counts(job)
    (job.parent / "names.txt").write_text("St Louis\nNew York\n")
    assert "names.txt" in run("status", job).output
    succeed("run", job, "--until", "vocabulary")
    assert {"st_louis", "new_york"} <= set(counts(job))
    assert "new_york_city" not in counts(job)
    job.write_text(JOB.replace('phrases_file = "names.txt"\n', ""))
    chosen = {"vocabulary.stop_words": "english", "vocabulary.keep": ["of"], "vocabulary.max_size": 5}
    succeed("run", job, "--until", "vocabulary", *changes(chosen))
    assert sorted(counts(job)) == ["city", "louis", "new", "of", "york"]


@pytest.fixture
def missing(tmp_path):
    place = tmp_path / "job.toml"
    place.write_text(
        '[job]\nworkspace = "w"\n[corpus]\npaths = ["dump.xml.bz2"]\n[psdvec]\nn_components = 5\nn_core = 50\n'
        '[resources]\nblock_memory = "64MiB"\nworkers = 1\n'
    )
    return place


@pytest.fixture
def sample(tmp_path):
    """Return a text of 40,000 tokens, the words of which follow Zipf's law."""
    ranks = np.random.default_rng(0).zipf(1.4, 40_000) % 5000
    words = ["".join(chr(97 + int(digit)) for digit in str(rank)) for rank in ranks]
    place = tmp_path / "part.txt"
    place.write_text("\n".join(" ".join(words[i : i + 20]) for i in range(0, len(words), 20)))
    return place


def test_a_corpus_that_is_not_here_is_planned_from_a_sample_and_its_size_gives_its_partitions(
    missing, sample
):
    done = succeed("plan", missing, "--sample", sample, "--tokens", "4e8")
    grown = f"{format_bytes(10_000 * sample.stat().st_size)} of input"
    for part in ("about 400,000,000 tokens", "by a sample of the text", grown):
        assert part in done.output
    assert "dump.xml.bz2 matches no file" in refusal("plan", missing, "--bytes", "2TB")
    settings = (f'corpus.paths=["{sample}"]', "plan.tokens=340_000_000_000", 'plan.bytes="2TB"')
    plan = plan_job(load_job(missing, settings=settings))
    assert "about 340,000,000,000 tokens" in plan.sizes
    assert plan.stages["tokens"].tasks == -(-(2 * 10**12) // 2**25) <= plan.stages["cooccurrence"].tasks


def test_every_size_before_the_text_is_read_is_no_less_than_what_is_counted(missing, sample):
    settings = (f'corpus.paths=["{sample}"]', "vocabulary.min_count=3")
    job = load_job(missing, settings=settings, workspace=str(sample.parent / "w"))
    before = psdvec_dimensions(job, None)
    run_stages(job, until="cooccurrence")
    workspace = Workspace.open(job.job.workspace)
    after = psdvec_dimensions(job, Counted(workspace, workspace.stages()))
    for name in ("token", "document", "word", "pair"):
        assert not before[name].counted
        assert after[name].counted
        assert after[name].size <= before[name].size, name
        assert after[name].block <= before[name].block, name


ROWS = {"psdvec": "vectors", "wordspaces": "vectors", "imputation": "domain"}
"""The rows between which a system keeps distances; their small jobs are those of the promises."""
finished, copy = test_promises.finished, test_promises.copy
of_each = pytest.mark.parametrize("finished", ROWS, indirect=True)


def with_settings(finished: test_promises.Finished, workspace: Path, *settings: str) -> Job:
    return load_job(finished.job[0], workspace=str(workspace), settings=(*finished.settings, *settings))


def check_distances(finished: test_promises.Finished, workspace: Path, metric: str) -> None:
    """Compare the distances in a workspace with plain ones."""
    found, rows = de.read_distances(workspace), de.Workspace.open(workspace).array(ROWS[finished.system])
    assert (found.metric, found.values.dtype) == (metric, np.float32)
    expected = pairwise_distances(np.asarray(rows.compute(), np.float64), metric=metric)
    np.testing.assert_allclose(found.values.compute(), expected, rtol=1e-4, atol=1e-6)


@of_each
def test_distances_are_kept_as_planned_and_opened(finished):
    check_distances(
        finished, finished.workspace, "euclidean" if finished.system == "imputation" else "cosine"
    )
    workspace, found = de.Workspace.open(finished.workspace), de.read_distances(finished.workspace)
    assert found.names == workspace.table("vocabulary")["word"].to_pylist()[: len(found.values)]
    plan = plan_job(with_settings(finished, finished.workspace))
    assert plan.stages["distances"].stored_bytes == found.values.nbytes
    files = (finished.workspace / "arrays.zarr" / "distances").rglob("*")
    heads, filled_up = 1024 * (1 + found.values.numblocks[0]), found.values.blocks[0].nbytes
    n_bytes = sum(file.stat().st_size for file in files if file.is_file())
    assert 0 < n_bytes <= found.values.nbytes + heads + filled_up


@of_each
def test_what_is_kept_changes_no_other_output_and_another_metric_makes_it_alone_again(finished, copy):
    before = de.Workspace.open(copy).stages()
    done = run_stages(with_settings(finished, copy, "matrices.keep=[]"), replace=True)
    is_of_graph = finished.system == "imputation"  # whose graph is made of the distances
    assert is_of_graph or set(done.ran) <= {"report"}
    for name, stage in de.Workspace.open(copy).stages().items():
        for output, record in stage.outputs.items():
            if not (record.spec.temporary or record.spec.kind in ("bytes", "page")):
                assert before[name].outputs[output].digest == record.digest, output
    forget_stage(copy, "distances")
    with pytest.raises(KeyError, match=r"no distances: run its job with matrices.keep = \['distances'\]"):
        de.read_distances(copy)
    run_stages(with_settings(finished, copy), until="distances", replace=True)
    digests = {de.Workspace.open(one).describe("distances").digest for one in (copy, finished.workspace)}
    assert len(digests) == 1
    if not is_of_graph:
        again = with_settings(finished, copy, "matrices.metric=euclidean")
        assert run_stages(again, until="distances", replace=True).ran == ("distances",)
        check_distances(finished, copy, "euclidean")


@of_each
def test_distances_that_exceed_the_disk_are_refused_before_they_are_computed(finished, tmp_path):
    is_counted = finished.system == "imputation"
    n_bytes = de.read_distances(finished.workspace).values.nbytes
    disk, only = n_bytes - 1 if is_counted else n_bytes // 2, {"matrices.keep": ["distances"]}
    words = (*finished.job, "--workspace", tmp_path / "w", *changes(only | {"matrices.disk": disk}))
    limit = "would keep distances, .* on disk, over the limit of .*: set matrices.disk = "
    for command in ("plan", "run"):
        assert re.search(limit, refusal(command, *words))
    begun = [*de.Workspace.open(tmp_path / "w").stages()] if (tmp_path / "w" / "manifest").exists() else []
    # a run of imputation reads its tables before it plans; elsewhere the rows are counted with the vocabulary
    assert begun in ([], ["join"]) if is_counted else begun == ["tokens", "vocabulary"]
    fits = ("matrices.keep=['distances']", f"matrices.disk={n_bytes}")
    plan_job(with_settings(finished, tmp_path / "x", *fits)).check()


@pytest.mark.parametrize(
    ("system", "sentence"),
    [
        ("wordspaces", "needs wordspaces.vectors, the space whose words are compared"),
        ("transfer", "unknown key matrices"),
    ],
)
def test_what_cannot_be_kept_is_refused(tmp_path, system, sentence):
    import_module(f"tests.small_jobs.{system}").write(tmp_path)
    text = (tmp_path / "job.toml").read_text()
    (tmp_path / "job.toml").write_text(text.replace('vectors = "lsa"\n', ""))
    with pytest.raises(JobError, match=sentence):
        load_job(tmp_path / "job.toml", settings=("matrices.keep=['distances']",))
