"""What a run refuses: with an exit code that says whether another try helps, and in the words of its plan."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from distributed import Client

from distembed.job import cluster
from distembed.storage.records import FORMAT, VERSION, WORKSPACE_FILE, Header, dumped
from tests.commands import run
from tests.small_jobs import psdvec, topics
from tests.test_promises import SYSTEMS


def refused_by_both(folder: Path, *settings: str) -> str:
    """Return the sentence by which `plan` and `run` refuse the job of a folder."""
    words = [word for one in settings for word in ("--set", one)]
    planned, done = (run(command, folder / "job.toml", *words) for command in ("plan", "run"))
    last = [result.output.strip().splitlines()[-1] for result in (planned, done)]
    assert last[0] == last[1]
    assert planned.exit_code == done.exit_code != 0
    return last[0]


FOUND_LATER = {
    "imputation.min_degree=60",
    "matching.ignore_underscores=false",
    "recipes.both_sides.n_columns=100000",
    "recipes.maps.n_components=300",
    "sides.n_components=1",
    "sides.subsample=1e-12",
}
"""Settings of the table of promises that no plan knows to be wrong."""
ALSO_REFUSED = {
    "psdvec": {"sides.n_components=500": "n_components is 500 but the matrix is 200 x 400: choose 1 to 200"},
    "comparison": {"comparison.min_documents=999": "no word of the part 'new' could be judged"},
    "transfer": {
        "alignment.n_components=5000": "n_components is 5000: choose 1 to the 240 rows",
        "collections.second.id_field=two": "no document of the first collection",
    },
}


@pytest.mark.parametrize("name", SYSTEMS)
def test_a_plan_refuses_what_a_run_refuses(name, tmp_path):
    system = SYSTEMS[name]
    system.write(tmp_path)
    for setting, sentence in (system.found_wrong | ALSO_REFUSED.get(name, {})).items():
        if setting not in FOUND_LATER:
            assert sentence in refused_by_both(tmp_path, *system.settings, setting), setting


def test_a_plan_refuses_a_table_of_strangers_and_a_collection_of_one_document_as_a_run_does(tmp_path):
    (tmp_path / "meta.csv").write_text("id,author\nnobody,Gaskell\n")
    psdvec.write(tmp_path)
    assert "no document has a row in" in refused_by_both(tmp_path, "corpus.metadata='meta.csv'")
    topics.write(tmp_path)
    document = {"id": "a", "kind": "x", "text": "harbour captain harbour"}
    (tmp_path / "collection.jsonl").write_text(json.dumps(document))
    assert "is in 2 or more documents, in at most 90% of 1" in refused_by_both(tmp_path, "job.workspace='v'")
    all_words = ("job.workspace='v'", "vocabulary.min_documents=1", "vocabulary.max_share=1.0")
    assert "1 documents of X hold a" in refused_by_both(tmp_path, *all_words)


def test_a_folder_that_holds_other_things_is_refused_before_anything_is_written(tiny):
    (tiny / "mine").mkdir()
    (tiny / "mine" / "thesis.txt").write_text("mine")
    for place, sentence in (
        (tiny / "mine", "mine is no workspace and holds other things (thesis.txt)"),
        ("/", "/ is the root of a file system"),
    ):
        for command in ("plan", "run"):
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
    ("job.toml", {}, "", 2, "job.toml"),
    ("", {}, "--until nowhere", 2, "the job has no stage 'nowhere'"),
    ("w", {}, "--set resources.memory_limit=100MiB", 2, "lower resources.block_memory"),
    ("", {f"w/{WORKSPACE_FILE}": NEWER}, "", 2, "of another version of distembed"),
    ("w", {"w": b"mine"}, "", 2, "w is a file: a workspace needs a folder of its own"),
    ("", {"mine": b"mine"}, "--workspace {tiny}/mine/w", 2, "{tiny}/mine"),
    ("w text", {"text/a.txt": b"\xff\xfe\x00"}, "", 2, "text"),
    ("w", {}, "--scheduler tcp://127.0.0.1:1", 1, "no Dask scheduler answers"),
]
"""What is removed, what is written, the options, the exit code, and a part of the sentence."""


@pytest.mark.parametrize(("removed", "written", "options", "code", "sentence"), FAULTS)
def test_the_exit_code_says_whether_another_try_helps(
    tiny, monkeypatch, removed, written, options, code, sentence
):
    monkeypatch.setattr(cluster, "Client", lambda *where, **how: Client(*where, **how | {"timeout": 0.1}))
    for name in removed.split():
        shutil.rmtree(tiny / name) if (tiny / name).is_dir() else (tiny / name).unlink()
    for name, data in written.items():
        (tiny / name).parent.mkdir(exist_ok=True)
        (tiny / name).write_bytes(data)
    words = options.format(tiny=tiny).split()
    done = run("run", tiny / "job.toml", "--workspace", tiny / "w", *words)
    assert (done.exit_code, sentence.format(tiny=tiny) in done.output) == (code, True), done.output
    assert "Traceback" not in done.output
    assert code == 0 or len(done.stderr.strip().splitlines()) == 1, done.stderr
