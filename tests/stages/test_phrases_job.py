"""A gazetteer in a job: names are counted as words, another gazetteer counts again, and none changes nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

import distembed as de
from tests.commands import run, succeed

TEXT = (
    "New York is a city and new york city is New York\nthe city of St Louis is in the new world of york\n"
    * 20
)
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
[evaluation]
sets = []
[resources]
workers = 1
"""


@pytest.fixture
def job(tmp_path: Path) -> Path:
    (tmp_path / "text.txt").write_text(TEXT)
    (tmp_path / "names.txt").write_text("New York\nNew York City\nFord\n")
    (tmp_path / "job.toml").write_text(JOB)
    return tmp_path / "job.toml"


def counts(job: Path) -> dict[str, int]:
    table = de.Workspace.open(job.parent / "w").table("vocabulary")
    return dict(zip(table["word"].to_pylist(), table["count"].to_pylist(), strict=True))


def test_names_are_words_of_the_job_and_of_what_it_encodes(job: Path) -> None:
    done = succeed("run", job, "--set", "vocabulary.min_count=25")
    assert "joining 2 names of several words from " in done.output
    assert "; 1 name of one word left as they are" in done.output
    found = counts(job)
    assert (found["new_york"], found.get("new_york_city"), found.get("york")) == (40, None, None)
    for text, n_known in (("New York!", 1), ("Chicago", 0)):
        (job.parent / "t.txt").write_text(text)
        run("encode", job, job.parent / "t.txt", "--to", job.parent / "t.csv")
        line = (job.parent / "t.csv").read_text().splitlines()[1]
        assert f",{n_known}," in line
    (job.parent / "new.txt").write_text("New York City is a city and New York City is the city\n" * 15)
    succeed("infer", job, job.parent / "new.txt", "--to", job.parent / "new.vec.txt")
    assert "new_york_city" in de.WordVectors.load(job.parent / "new.vec.txt").words


def test_the_names_of_a_job_that_only_a_workspace_names_are_not_read(job: Path) -> None:
    succeed("run", job)
    place = job.parent / "w"
    for command in ("infer", "encode"):
        words = (job.parent / "text.txt", "--to", job.parent / "new.csv")
        refused = run(command, place, *words)
        assert refused.exit_code == 2
        assert (
            "names.txt' has to be read, but stands in a workspace, which may be a stranger's"
            in refused.output
        )
        known = run(command, place / "job.toml", *words)
        assert "no new word" in known.output or known.exit_code == 0, known.output


def test_another_gazetteer_counts_again(job: Path) -> None:
    succeed("run", job, "--until", "vocabulary")
    assert "new_york_city" in counts(job)
    (job.parent / "names.txt").write_text("St Louis\nNew York\n")
    assert "names.txt" in run("status", job).output
    succeed("run", job, "--until", "vocabulary")
    assert {"st_louis", "new_york"} <= set(counts(job))
    assert "new_york_city" not in counts(job)


def test_function_words_get_no_vector(tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text(TEXT)
    job = tmp_path / "job.toml"
    job.write_text(JOB.replace('phrases_file = "names.txt"\n', ""))
    chosen = ("--set", "vocabulary.stop_words=english", "--set", "vocabulary.keep=['of']")
    succeed("run", job, "--until", "vocabulary", *chosen, "--set", "vocabulary.max_size=5")
    assert sorted(counts(job)) == ["city", "louis", "new", "of", "york"]
