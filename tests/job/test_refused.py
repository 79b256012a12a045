"""What a run refuses: with an exit code that says whether another try helps, and in the words of its plan."""

from __future__ import annotations

import json
import os
import shutil
from importlib import import_module
from pathlib import Path

import pytest
from distributed import Client

import distembed as de
from distembed.job import cluster
from distembed.storage.records import FORMAT, VERSION, WORKSPACE_FILE, Header, dumped
from tests.commands import run
from tests.small_jobs import psdvec


def one_document(folder: Path) -> None:
    document = {"id": "a", "kind": "x", "text": "harbour captain harbour"}
    (folder / "collection.jsonl").write_text(json.dumps(document))


def stranger(folder: Path) -> None:
    (folder / "meta.csv").write_text("id,author\nnobody,Gaskell\n")


def twice(folder: Path) -> None:
    lines = (folder / "both.jsonl").read_text().splitlines()
    (folder / "both.jsonl").write_text("\n".join([lines[0], *lines]))


REFUSED = [
    ("psdvec", ["psdvec.n_core=400"], None, "n_core is 400 but there are 200 words"),
    ("psdvec", ["vocabulary.min_count=10000"], None, "min_count is 10000 and the largest count of a word is"),
    ("psdvec", ["corpus.metadata='meta.csv'"], stranger, "no document has a row in"),
    ("psdvec", ["sides.n_components=500"], None, "n_components is 500 but the matrix is 200 x 400: choose 1 to 200"),
    ("comparison", ["psdvec.n_components=400"], None, "n_components is 400 but there are 54 core words"),
    ("comparison", ["corpus.label_field='nothing'"], None, "the corpus has no parts by the column 'label'"),
    ("comparison", ["parts.bins=[1800, 1850]"], None, "'new', which is no date"),
    ("comparison", ["parts.names=['old']"], None, "has the part 'old' alone by the column 'label'"),
    ("comparison", ["comparison.min_count=9999"], None, "no word can be judged"),
    ("comparison", ["comparison.min_documents=999"], None, "no word of the part 'new' could be judged"),
    ("topics", ["documents.labels=['x']"], None, "no document is left of those labeled x"),
    ("topics", ["topics.n_topics=500"], None, "61 documents of X hold a word; ask for 1 to 61"),
    ("topics", [], one_document, "is in 2 or more documents, in at most 90% of 1"),
    ("topics", ["vocabulary.min_documents=1", "vocabulary.max_share=1.0"], one_document, "1 documents of X hold a"),
    ("wordspaces", ["recipes.lsa.n_components=500"], None, "n_components is 500 but the matrix is"),
    ("wordspaces", ["recipes.lpp.n_neighbors=500"], None, "500 neighbors of each row are asked for"),
    ("transfer", ["topics.n_topics=500"], None, "120 documents of X hold a word; ask for 1 to 120"),
    ("transfer", ["alignment.n_components=5000"], None, "n_components is 5000: choose 1 to the 240 rows"),
    ("transfer", ["collections.second.id_field='two'"], None, "no document of the first collection"),
    ("transfer", [], twice, "occurs twice in the first collection"),
]  # fmt: skip
"""A system, settings of its small job, what is changed of its input, and a part of the sentence."""


@pytest.mark.parametrize(("system", "settings", "change", "sentence"), REFUSED)
def test_a_plan_refuses_what_a_run_refuses(system, settings, change, sentence, tmp_path):
    import_module(f"tests.small_jobs.{system}").write(tmp_path)
    if change is not None:
        change(tmp_path)
    words = [word for one in settings for word in ("--set", one)]
    planned, done = (run(command, tmp_path / "job.toml", *words) for command in ("plan", "run"))
    last = [result.output.strip().splitlines()[-1] for result in (planned, done)]
    assert sentence in last[0]
    assert last[0] == last[1]
    assert planned.exit_code == done.exit_code != 0


@pytest.mark.parametrize("command", ["plan", "run"])
def test_a_folder_that_holds_other_things_is_refused_before_anything_is_written(command, tiny):
    (tiny / "mine").mkdir()
    (tiny / "mine" / "thesis.txt").write_text("mine")
    for place, sentence in (
        (tiny / "mine", "mine is no workspace and holds other things (thesis.txt)"),
        ("/", "/ is the root of a file system"),
    ):
        refused = run(command, tiny / "job.toml", "--workspace", place)
        assert refused.exit_code != 0
        assert sentence in refused.output
    assert [file.name for file in (tiny / "mine").iterdir()] == ["thesis.txt"]


def test_a_plan_of_a_small_text_is_exact_and_leaves_nothing(tmp_path):
    psdvec.write(tmp_path)
    planned = run("plan", tmp_path / "job.toml")
    assert "400 documents, 8,000 tokens, 200 words" in planned.output
    assert not (tmp_path / "w").exists()
    shutil.rmtree(tmp_path / "text")
    assert run("plan", tmp_path / "job.toml").exit_code != 0


NEWER = dumped(Header(format=FORMAT, version=VERSION + 1))
FAULTS = [
    ("", {}, "", 0, "nothing to do"),
    ("w text", {}, "", 2, "matches no file"),
    ("job.toml", {}, "", 2, "job.toml"),
    ("", {"job.toml": b"\nblock_memry = '1MiB'\n"}, "", 2, "block_memory"),
    ("", {}, "--until nowhere", 2, "the job has no stage 'nowhere'"),
    ("w", {}, "--set resources.memory_limit=100MiB", 2, "lower resources.block_memory"),
    ("w", {"w/letter.txt": b"mine"}, "", 2, "holds other things"),
    ("", {f"w/{WORKSPACE_FILE}": NEWER}, "", 2, "of another version of distembed"),
    ("w", {"w": b"mine"}, "", 2, "w is a file: a workspace needs a folder of its own"),
    ("", {"mine": b"mine"}, "--workspace {tiny}/mine/w", 2, "{tiny}/mine"),
    ("w text", {"text/a.txt": b"\xff\xfe\x00"}, "", 2, "text"),
    ("w", {}, "--set vocabulary.min_count=100000", 2, "The vocabulary is empty"),
    ("w", {}, "--set psdvec.n_core=100000", 2, "n_core is 100000"),
    ("w", {}, "--scheduler tcp://127.0.0.1:1", 1, "no Dask scheduler answers"),
]
"""What is removed, what is written (a job file is added to), the options, the exit code, and a part of the sentence."""


@pytest.mark.parametrize(("removed", "written", "options", "code", "sentence"), FAULTS)
def test_the_exit_code_says_whether_another_try_helps(
    tiny, monkeypatch, removed, written, options, code, sentence
):
    monkeypatch.setattr(cluster, "Client", lambda *where, **how: Client(*where, **how | {"timeout": 0.1}))
    for name in removed.split():
        shutil.rmtree(tiny / name) if (tiny / name).is_dir() else (tiny / name).unlink()
    for name, data in written.items():
        (tiny / name).parent.mkdir(exist_ok=True)
        before = (tiny / name).read_bytes() if name == "job.toml" else b""
        (tiny / name).write_bytes(before + data)
    words = options.format(tiny=tiny).split()
    done = run("run", tiny / "job.toml", "--workspace", tiny / "w", *words)
    assert (done.exit_code, sentence.format(tiny=tiny) in done.output) == (code, True), done.output
    assert "Traceback" not in done.output
    assert code == 0 or len(done.stderr.strip().splitlines()) == 1, done.stderr


def test_a_second_run_goes_on_later(tiny):
    with de.Workspace.create(tiny / "w", owner="the first run"):
        done = run("run", tiny / "job.toml")
    assert done.exit_code == 3, done.output
    for part in ("the first run", f"process {os.getpid()}"):
        assert part in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
