"""What a user names is told once: a job file, a workspace or a file of vectors."""

from __future__ import annotations

from pathlib import Path

import pytest

from distembed.job.model import Job
from distembed.job.opening import Source, job_of, load_vectors, parse_source
from distembed.storage.workspace import Workspace
from tests.commands import run, succeed


def test_a_source_is_told_once(tmp_path: Path, finished: tuple[Path, str], job: Path) -> None:
    """A job file stays typed, a workspace gives a recorded job, and a URL that is no workspace is a vector file."""
    (tmp_path / "vectors.txt").touch()
    typed, place = parse_source(str(job)), parse_source(str(finished[0]))
    assert isinstance(typed, Job)
    assert isinstance(place, Workspace)
    assert [job_of(one).is_recorded for one in (typed, place, job_of(place))] == [False, True, True]
    for text in (str(tmp_path / "vectors.txt"), "memory://nowhere/vectors.bin"):
        assert parse_source(text) == text
    for text, error, sentence in (
        (tmp_path, IsADirectoryError, "is a folder and no workspace"),
        (tmp_path / "job.toml", FileNotFoundError, "there is no job file or workspace"),
    ):
        with pytest.raises(error, match=sentence):
            parse_source(str(text))


def test_the_vectors_of_each_source_are_the_same(finished: tuple[Path, str], tmp_path: Path) -> None:
    workspace = Workspace.open(finished[0])
    kept = load_vectors(workspace)
    kept.save(tmp_path / "vectors.txt")
    sources: list[Source] = [workspace, job_of(workspace), str(tmp_path / "vectors.txt")]
    for source in sources:
        assert list(load_vectors(source, max_words=5).words) == list(kept.words[:5])


# --- how old a workspace is, and the short answer of `status` ---------------------------------------------------


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


def test_status_is_short_and_tells_the_time_left(tiny: Path) -> None:
    job = tiny / "job.toml"
    short, long = run("status", job).output, run("status", job, "--verbose").output
    assert len(short.splitlines()) < len(long.splitlines())
    for internal in ("peak", "made with"):
        assert internal not in short
        assert internal in long
    succeed("run", job, "--set", "counting.window=2", "--replace")
    assert " left, as the last run took; " in run("status", job).output.splitlines()[0]


def test_status_tells_no_time_left_where_a_stage_never_ran(tiny: Path) -> None:
    there = ("--workspace", str(tiny / "x"))
    succeed("run", tiny / "job.toml", *there, "--set", "counting.window=2", "--until", "cooccurrence")
    told = run("status", tiny / "job.toml", *there).output.splitlines()[0]
    assert ", and what is outdated took " in told
    assert " left, " not in told
