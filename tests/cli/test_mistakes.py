"""What a user is told who misspells, or lacks, something: one sentence that says what to type."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from distembed.cli.failures import _sentence
from distembed.job.workers import Workers
from distembed.storage.workspace import Workspace
from tests.commands import run, succeed

MINIMAL = '[job]\nsystem = "{}"\nworkspace = "w"\n[corpus]\npaths = ["a.txt"]\n'


@pytest.mark.parametrize(
    ("asked", "meant"), [("process", "processes"), ("Thread", "threads"), ("x:1", "tcp://")]
)
def test_a_scheduler_that_is_none_is_refused_at_once(asked: str, meant: str) -> None:
    with pytest.raises(ValueError, match=f"there is no scheduler '{asked}'; .*{meant}"):
        Workers(scheduler=asked)


MISTAKES = {
    "rum job.toml": "there is no command 'rum'; did you mean run? (distembed --help shows what it takes)",
    "run": "missing argument 'JOB' (distembed run --help shows what it takes)",
    "run job.toml --nope": "no such option '--nope' (distembed run --help shows what it takes)",
    "evaluate {t}/absent.txt --sets {t}": "{t}/absent.txt",
    "plan {t}/mein.toml": "did you mean {t}/mine.toml?",
    "plan {t}/other/job.toml": "distembed new METHOD FILE writes one",
    "run {t}/mine.toml": "The vocabulary is empty: no word was found in the corpus",
    "explore {t}/mine.toml": "no distembed workspace at {t}/w: run a job there first",
    "neighbors {t}/f king": "{t}/f is a folder and no workspace; did you mean {t}/f/begun?",
    "status {t}/f": "{t}/f is a folder and no workspace; did you mean {t}/f/begun?",
    "neighbors {t}/f/begun king": "if its job is not finished, run it first: distembed run {t}/f/begun",
    "explore missing.txt": "there is no file missing.txt: name a vector file, a workspace or a job file",
    "export missing.txt --to w.txt": "there is no file missing.txt: name a vector file, a workspace or a job file",
    "neighbors missing.txt king": "there is no file missing.txt: name a vector file, a workspace or a job file",
    "new Topic text.txt": "there is no method 'Topic'; did you mean topics?",
    "new umap text.txt": "there is no method 'umap'; choose psdvec, ",
    "report w --format pdv": "there is no format 'pdv'; did you mean pdf?",
    "report w --format pdf": "--format is that of the files of --figures: give --figures DIR, or leave it out",
}


@pytest.mark.parametrize("line", MISTAKES)
def test_a_mistake_is_one_sentence_that_says_what_to_type(tmp_path: Path, line: str) -> None:
    (tmp_path / "a.txt").write_text("12 34 ! ?\n")
    (tmp_path / "mine.toml").write_text(MINIMAL.format("psdvec"))
    Workspace.create(str(tmp_path / "f/begun"), owner="a run").close()
    done = run(*line.format(t=tmp_path).split())
    assert (done.exit_code, MISTAKES[line].format(t=tmp_path) in done.output) == (2, True), done.output
    assert "Errno" not in done.output
    assert len(done.stderr.strip().splitlines()) == 1


def test_known_words_are_answered_and_unknown_ones_listed(tmp_path: Path) -> None:
    (tmp_path / "v.txt").write_text("3 2\nant 1 0\nbee 0.9 0.1\ncow 0 1\n")
    done = run("neighbors", tmp_path / "v.txt", "ant", "Bee", "cow", "xyz", "-n", 1)
    assert done.exit_code == 1
    assert all(line in done.output for line in ("ant: bee 0.994", "cow: bee", "'xyz' has no vector"))
    assert "Bee has no vector, and bee is taken for it" in done.stderr


@pytest.mark.parametrize("name", ["v.txt", "v.bin", "v.parquet", "v.safetensors", "v.csv"])
def test_an_export_has_the_usual_mode_and_makes_no_folder(finished: Any, tmp_path: Path, name: str) -> None:
    before = os.umask(0o027)
    try:
        succeed("export", finished[0], "--to", tmp_path / name, "--what", "words")
    finally:
        os.umask(before)
    assert (tmp_path / name).stat().st_mode & 0o777 == 0o640
    refused = run("export", finished[0], "--to", tmp_path / "absent" / name, "--what", "words")
    assert refused.exit_code == 2
    assert f"there is no folder {tmp_path / 'absent'}" in refused.output
    assert not (tmp_path / "absent").exists()


def test_a_workspace_of_another_method_stays_as_it_is(copy: Path, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a text\n")
    (tmp_path / "job.toml").write_text(MINIMAL.format("topics"))
    before = {path: path.read_bytes() for path in copy.rglob("*") if path.is_file()}
    told = f"{copy} holds the results of the method psdvec: give this job of the method topics"
    for command in ("plan", "run", "status"):
        done = run(command, tmp_path / "job.toml", "--workspace", copy)
        assert (done.exit_code, told in done.output) == (2, True), done.output
    assert {path: path.read_bytes() for path in copy.rglob("*") if path.is_file()} == before


ERRORS = [
    (FileNotFoundError(2, "No such file or directory", "/a/b.txt.0123456789ab.partial"),
     "/a/b.txt: there is no such file or folder; check its name"),
    (FileNotFoundError("https://example.org/a.txt"),
     "https://example.org/a.txt: there is no such file, or it cannot be reached; check its name"),
    (ImportError("Install s3fs to access S3"), "... pip install 'distembed[cloud]'"),
    (OSError(errno.ENOSPC, "Cannot write w: no room."), "Cannot write w: no room."),
    (OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)),
     "what is printed, or a temporary file in ... or name another place"),
    (OSError(errno.EROFS, "Read-only file system", "w"), "w: its disk is mounted for reading ..."),
    (OSError(errno.EMFILE, "Too many open files", "w"), "... raise the limit (ulimit -n 1024)"),
    (UnicodeEncodeError("ascii", "Über.txt", 0, 1, "ordinal not in range(128)"),
     "'Über.txt' has letters that this locale cannot write as a file name: set PYTHONUTF8=1"),
]  # fmt: skip
"""An error, and the sentence that a user is told: its start and its end."""


@pytest.mark.parametrize(("error", "sentence"), ERRORS)
def test_an_error_of_the_system_becomes_words_with_a_remedy(error: Exception, sentence: str) -> None:
    start, ends_open, end = sentence.partition("...")
    told = _sentence(error)
    assert told == sentence or (ends_open and told.startswith(start.strip()) and told.endswith(end.strip()))


def test_missing_keys_of_a_cloud_are_told_where_to_put_them() -> None:
    errors = pytest.importorskip("botocore.exceptions", reason="needs: pip install 'distembed[cloud]'")
    assert "AWS_PROFILE" in _sentence(errors.NoCredentialsError())


def test_whoever_may_only_read_a_workspace_is_told_where_its_report_is(copy: Path) -> None:
    with Workspace.create(copy, owner="another run"):  # nobody else can write there
        done = run("report", copy)
        assert (done.exit_code, done.output.strip()) == (0, str(copy / "report" / "index.html"))
        (copy / "report" / "index.html").unlink()
        assert "is being written by" in run("report", copy).output
