"""Reading commands say that a workspace is older than its job, and `status` is short and knows the last run's keys."""

from __future__ import annotations

from pathlib import Path

from tests.commands import run, succeed


def test_a_workspace_older_than_its_corpus_says_so(tiny: Path) -> None:
    """With the job file, whose inputs are looked at; the workspace alone says nothing of them."""
    job, corpus = tiny / "job.toml", next(tiny.glob("text/*.txt"))
    assert run("neighbors", job, "word1").stderr.count("is older than the job") == 0
    before = corpus.read_bytes()
    corpus.write_bytes(before + b"another line\n")
    for words in (("neighbors", job, "word1"), ("export", job, "--to", tiny / "out.csv")):
        told = run(*words).stderr
        assert "is older than the job: tokens would be computed again because " in told, words
        assert corpus.name in told
        assert "distembed run makes it new" in told
    assert "is older" not in run("neighbors", tiny / "w", "word1").stderr
    corpus.write_bytes(before)
    assert "is older" not in run("neighbors", job, "word1").stderr


def test_status_is_short_and_names_the_keys_of_the_last_run(tiny: Path) -> None:
    job = tiny / "job.toml"
    short, long = run("status", job).output, run("status", job, "--verbose").output
    assert len(short.splitlines()) < len(long.splitlines())
    for internal in ("peak", "made with", "verified"):
        assert internal not in short
        assert internal in long
    succeed("run", job, "--set", "counting.window=2", "--replace")
    told = run("status", job).output
    assert " left, as the last run took; " in told.splitlines()[0]
    assert told.splitlines()[-1].endswith(f"type: distembed run {job} --set counting.window=2")
    assert "--set" not in run("status", job, "--set", "counting.window=2").output


def test_status_tells_no_time_left_where_a_stage_never_ran(tiny: Path) -> None:
    there = ("--workspace", str(tiny / "x"))
    succeed("run", tiny / "job.toml", *there, "--set", "counting.window=2", "--until", "cooccurrence")
    told = run("status", tiny / "job.toml", *there).output.splitlines()[0]
    assert ", and what is outdated took " in told
    assert " left, " not in told
