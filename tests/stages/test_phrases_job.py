"""A gazetteer in a job: names are counted as words, another gazetteer counts again, and none changes nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

import distembed as de
from tests.commands import run, succeed

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
def job(tmp_path) -> Path:
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
    chosen = ("vocabulary.stop_words=english", "vocabulary.keep=['of']", "vocabulary.max_size=5")
    settings = (word for setting in chosen for word in ("--set", setting))
    succeed("run", job, "--until", "vocabulary", *settings)
    assert sorted(counts(job)) == ["city", "louis", "new", "of", "york"]
