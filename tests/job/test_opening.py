"""What a user names is told once: a job file, a workspace or a file of vectors."""

from __future__ import annotations

import pytest

from distembed.job.model import Job
from distembed.job.opening import job_of, load_vectors, parse_source
from distembed.storage.workspace import Workspace
from tests.commands import run, succeed


def test_a_source_is_told_once(tiny_once, tmp_path):
    """A job file stays typed, a workspace gives a recorded job, and a URL that is no workspace is a vector file."""
    vectors = str(tmp_path / "vectors.txt")
    typed, place = parse_source(str(tiny_once / "job.toml")), parse_source(str(tiny_once / "w"))
    assert isinstance(typed, Job)
    assert isinstance(place, Workspace)
    assert [job_of(one).is_recorded for one in (typed, place, job_of(place))] == [False, True, True]
    kept = load_vectors(place)
    kept.save(vectors)
    for source in (place, job_of(place), vectors):
        assert list(load_vectors(source, max_words=5).words) == list(kept.words[:5])
    for text in (vectors, "memory://nowhere/vectors.bin"):
        assert parse_source(text) == text
    for text, error, sentence in (
        (tmp_path, IsADirectoryError, "is a folder and no workspace"),
        (tmp_path / "job.toml", FileNotFoundError, "there is no job file or workspace"),
    ):
        with pytest.raises(error, match=sentence):
            parse_source(str(text))


def test_a_workspace_older_than_its_corpus_says_so(tiny):
    """With the job file, whose inputs are looked at; the workspace alone says nothing of them."""
    job, corpus = tiny / "job.toml", next(tiny.glob("text/*.txt"))
    before, old = corpus.read_bytes(), "is older than the job"
    assert old not in run("neighbors", job, "word1").stderr
    corpus.write_bytes(before + b"another line\n")
    for words in (("neighbors", job, "word1"), ("export", job, "--to", tiny / "out.csv")):
        told = run(*words).stderr
        assert f"{old}: tokens would be computed again because " in told, words
        assert corpus.name in told
        assert "distembed run makes it new" in told
    assert old not in run("neighbors", tiny / "w", "word1").stderr
    corpus.write_bytes(before)
    assert old not in run("neighbors", job, "word1").stderr


def test_status_is_short_and_tells_the_time_left_where_each_stage_has_run(tiny):
    job, changed = tiny / "job.toml", ("--set", "counting.window=2")
    short, long = run("status", job).output, run("status", job, "--verbose").output
    assert len(short.splitlines()) < len(long.splitlines())
    for internal in ("peak", "made with"):
        assert internal not in short
        assert internal in long
    succeed("run", job, *changed, "--replace")
    assert " left, as the last run took; " in run("status", job).output.splitlines()[0]
    succeed("run", job, "--workspace", tiny / "x", *changed, "--until", "cooccurrence")
    told = run("status", job, "--workspace", tiny / "x").output.splitlines()[0]
    assert ", and what is outdated took " in told
    assert " left, " not in told
