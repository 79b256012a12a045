"""A data engineer's way: JSON lines of real text on two worker processes, to topics of all documents and of new ones.

The transcript of the same commands on 200,000 documents is docs/howto/topics.md.
"""

from __future__ import annotations

import json
import lzma
import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import numpy as np
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest

import distembed as de
from tests.commands import run, succeed

JOB = """
[job]
system = "topics"
workspace = "w"
[corpus]
paths = ["documents.jsonl"]
text_field = "body"
id_field = "key"
title_field = "headline"
partition_bytes = "128KiB"
[vocabulary]
min_documents = 4
max_share = 0.2
[topics]
n_topics = 8
max_iter = 10
n_starts = 1
[resources]
workers = 2
"""
N_DOCUMENTS, N_NEW = 400, 20


def articles(path: Path) -> Iterator[dict[str, str]]:
    """Yield articles of Simple English Wikipedia as records: blocks of lines, the first of each its title."""
    with lzma.open(path, "rt", encoding="utf-8") as file:
        title, paragraphs = "", list[str]()
        for line in map(str.strip, file):
            if line and title:
                paragraphs.append(line)
            elif line:
                title = line
            else:
                if paragraphs:
                    yield {"key": f"simple/{title}", "headline": title, "body": " ".join(paragraphs)[:600]}
                title, paragraphs = "", []


@pytest.fixture(scope="module")
def folder(shared: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the job, the documents it reads, and new ones."""
    folder = tmp_path_factory.mktemp("walk")
    records = articles(shared / "data" / "english" / "simplewiki2021-0.txt.xz")
    for name, n in (("documents.jsonl", N_DOCUMENTS), ("new.jsonl", N_NEW)):
        lines = (json.dumps(record, ensure_ascii=False) for record in islice(records, n))
        (folder / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    (folder / "topics.toml").write_text(JOB)
    return folder


@pytest.mark.cluster
def test_from_json_lines_to_topics_of_new_documents(folder: Path, cluster: str) -> None:
    job, workspace = folder / "topics.toml", folder / "w"
    done = succeed("run", job, "--scheduler", cluster)
    assert "400 documents" in done.output

    table = folder / "documents.csv"
    assert run("export", job, "--to", table).output.startswith("400 documents and 8 topics in ")
    rows = pacsv.read_csv(table, parse_options=pacsv.ParseOptions(newlines_in_values=True)).to_pylist()
    given = [
        json.loads(line) for line in (folder / "documents.jsonl").read_text(encoding="utf-8").splitlines()
    ]
    assert [(row["id"], row["title"]) for row in rows] == [(one["key"], one["headline"]) for one in given]
    weights = np.array([[row[f"weight_{topic}"] for topic in range(8)] for row in rows])
    topics = np.array([row["topic"] for row in rows])
    assert (weights.argmax(axis=1) == topics)[topics >= 0].all()
    assert len(set(topics.tolist()) - {-1}) == 8

    opened = de.Workspace.open(workspace)
    model = de.NMF.from_workspace(opened, "consensus")
    np.testing.assert_array_equal(model.predict(opened.array("tf_idf")), topics)

    succeed("infer", workspace, folder / "documents.jsonl", "--to", folder / "same.csv")
    assert (folder / "same.csv").read_bytes() == table.read_bytes()
    new = folder / "new.parquet"
    done = run("infer", workspace, folder / "new.jsonl", "--to", new)
    assert done.output.startswith("20 documents and 8 topics in "), done.output
    vocabulary = de.Vocabulary.from_table(opened.table("vocabulary"))
    counts = de.count_document_terms(
        de.read_corpus(folder / "new.jsonl", text_field="body", id_field="key", title_field="headline"),
        vocabulary,
    )
    X = de.tf_idf(counts, frequencies=vocabulary.document_counts, n_documents=N_DOCUMENTS)
    assert pq.read_table(new)["topic"].to_pylist() == model.predict(X).compute().tolist()


def test_the_faults_met_on_the_way_are_told(folder: Path, tmp_path: Path) -> None:
    """Each ends with one sentence, and nothing is left behind."""
    fields = ("--set", "corpus.text_field=text", "--workspace", str(tmp_path / "w"))
    done = run("run", folder / "topics.toml", *fields)
    assert done.exit_code != 0
    assert "text" in done.stderr
    assert "body" in done.stderr  # the field that is there
    done = run("export", tmp_path / "nothing", "--to", tmp_path / "t.csv")
    assert done.exit_code != 0
    assert "there is no job file or workspace" in done.stderr
    assert not (tmp_path / "t.csv").exists()


def test_the_job_on_its_embedded_input(tmp_path: Path) -> None:
    pytest.importorskip(
        "gensim", reason="the embedded input lies in gensim's wheel: pip install 'distembed[demo]'"
    )
    done = succeed(
        "run",
        Path(__file__).resolve().parents[2] / "jobs/topics.toml",
        "--workspace",
        tmp_path / "w",
        "--set",
        "topics.n_starts=1",
        "--set",
        "report.n_map_documents=20",
    )
    assert "350 documents" in done.output
    assert re.search(r"documents   .*(qaeda|laden|taliban)", done.output)
    page = (tmp_path / "w" / "report" / "index.html").read_text(encoding="utf-8")
    assert "Agreement with labels" not in page
