"""What lies outside of a workspace is known by its content, and what is computed from it follows."""

from __future__ import annotations

import os
import shutil
import sys
import time
from pathlib import Path

import fsspec
import pytest

import distembed as de
from distembed.job import inputs
from distembed.job.inputs import code_file, stamp_inputs, stamps_at
from distembed.job.opening import open_job
from distembed.job.status import verify_job
from tests.commands import run, succeed
from tests.tiny_job import STAGES, again, computed, files_of, write_set


def test_a_folder_that_holds_the_workspace_is_not_read(tiny):
    whole = ("--set", "corpus.paths=['text']", "--workspace")
    for command in ("plan", "run"):
        done = run(command, tiny / "job.toml", *whole, tiny / "text/w")
        assert done.exit_code != 0
        assert f"reads all of {tiny}/text, and its workspace {tiny}/text/w lies inside" in done.output
    assert not (tiny / "text/w").exists()
    for place in ("text/.hidden/w", "text and more"):
        succeed("plan", tiny / "job.toml", *whole, tiny / place)


def test_a_touch_and_a_move_change_nothing(tiny):
    before = files_of(tiny / "w")
    os.utime(tiny / "text" / "a.txt", (1, 1))
    assert again(tiny).text.startswith("nothing to do")
    assert files_of(tiny / "w") == before


def test_other_evaluation_sets_are_scored(tiny):
    sets, scored = tiny / "sets", ("evaluation",)
    for change, ran in (
        (lambda: write_set(sets, "second", 5), scored),
        (lambda: None, ()),
        (lambda: write_set(sets, "second", 4), scored),  # of the same size
        ((sets / "second.tsv").unlink, scored),
    ):
        change()
        assert computed(tiny).ran == ran


def test_a_corpus_moved_away_blocks_no_later_stage(tiny):
    shutil.move(tiny / "text", tiny / "elsewhere")
    assert computed(tiny, "psdvec.n_components=3").ran == ("core", "vectors", "evaluation")
    job = open_job(str(tiny / "job.toml"), settings=("psdvec.n_components=3",))
    assert verify_job(job)[0] == ["stage report is not committed: it has no manifest"]
    before = files_of(tiny / "w")
    with pytest.raises(FileNotFoundError, match=r"\*.txt"):
        again(tiny, "corpus.lowercase=false")
    assert files_of(tiny / "w") == before


HIDDEN = (".DS_Store", ".git/index", "~$a.txt", "Thumbs.db", "desktop.ini", ".notes.tsv", ".old/first.tsv")


def test_hidden_files_change_nothing(tiny):
    """What the readers of a folder leave out is no input: of a glob of texts, and of a folder of sets."""
    jobs = [
        ("corpus.paths=['text']", "job.workspace='v'"),
        ("corpus.paths=['text/*']", "job.workspace='glob'"),
    ]
    for job in jobs:
        assert computed(tiny, *job).ran == STAGES
    for folder, name in ((folder, name) for folder in (tiny / "text", tiny / "sets") for name in HIDDEN):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text("word1\tword2\t5\n")
    for job in (*jobs, ()):
        assert computed(tiny, *job).ran == ()
    assert len({de.Workspace.open(tiny / name).digest() for name in ("v", "w", "glob")}) == 1


def test_the_files_of_a_zarr_array_are_not_hidden(tmp_path):
    for name in (".zarray", "0.0", ".DS_Store"):
        (tmp_path / name).write_text("{}")
    assert list(stamps_at(str(tmp_path))) == [".zarray", "0.0"]


def test_files_are_known_by_content_where_their_store_tells_no_versions(monkeypatch):
    monkeypatch.setattr("distembed.job.inputs.DIGESTED_BYTES", 0)
    stamps = []
    for data in (b"one", b"two"):
        fsspec.filesystem("memory").pipe_file("/stamped/a.txt", data)
        stamps.append(stamps_at("memory://stamped/a.txt"))
    assert stamps[0] != stamps[1]
    assert stamps_at("memory://stamped/*.txt") == stamps_at("memory://stamped") == stamps[1]


# --- hints, which save reading ---------------------------------------------------------------------------------------


@pytest.fixture
def file(tmp_path, monkeypatch) -> Path:
    """Return a file that counts as large."""
    monkeypatch.setattr(inputs, "DIGESTED_BYTES", 2)
    (tmp_path / "large").write_bytes(b"one")
    return tmp_path / "large"


@pytest.fixture
def reads(monkeypatch) -> list[str]:
    """Return the files that are read to know them by their content."""
    found, read = [], inputs._content
    monkeypatch.setattr(inputs, "_content", lambda *args: found.append(args[1]) or read(*args))
    return found


def replace_keeping_time(path: Path, data: bytes) -> None:
    """Replace the content of a file as `cp -p` and `rsync -t` do, by other content of the same size and time."""
    before = path.stat()
    time.sleep(0.02)  # some steps of the clock
    path.write_bytes(data)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def test_a_file_is_read_once_until_it_changes_and_twice_while_its_clock_may_stand(file, reads, monkeypatch):
    monkeypatch.setattr(inputs, "SETTLED_NS", 10**18)
    new = [stamps_at(str(file)) for _ in range(2)]
    assert (new[0], len(reads)) == (
        new[1],
        2,
    )  # within one step of the clock a file may change and keep its time
    monkeypatch.setattr(inputs, "SETTLED_NS", -1)
    assert [stamps_at(str(file)) for _ in range(2)] == new
    assert len(reads) == 3
    os.utime(file, (1, 1))
    assert stamps_at(str(file)) == new[0]
    replace_keeping_time(file, b"two")
    assert stamps_at(str(file)) != new[0]
    file.unlink()
    file.write_bytes(b"one")
    assert stamps_at(str(file)) == new[0]


def test_hints_save_reading_and_are_no_evidence(file, reads, monkeypatch):
    monkeypatch.setattr(inputs, "SETTLED_NS", -1)
    hints = file.parent / "w" / inputs.HINTS

    def look() -> inputs.Stamps:
        """Look at the file as another process does."""
        inputs._hints.clear()
        return inputs.look_for(workspace)(str(file))

    with de.Workspace.create(file.parent / "w", owner="test") as workspace:
        stamps = {"large": look()}
        inputs.keep_hints(workspace, [{inputs.FILES: stamps}])
        written = hints.stat().st_mtime_ns
        inputs.keep_hints(workspace, [{inputs.FILES: stamps}])
        assert hints.stat().st_mtime_ns == written
        assert (look(), len(reads)) == (stamps["large"], 1)
        replace_keeping_time(file, b"two")
        assert look() != stamps["large"]
        assert len(reads) == 2
        workspace.write_file(inputs.HINTS, b"damaged")
        look()
        assert len(reads) == 3
        monkeypatch.setattr(inputs.records, "RECORD_BYTES", 3)  # a file longer than any record is not read
        assert inputs._recorded_hints(workspace) == b""
    assert inputs.look_for(None)(str(file)) == {"large": [3, ""]}  # nothing to compare with
    assert len(reads) == 3


def test_a_run_keeps_the_hints_of_its_large_inputs(tiny, monkeypatch):
    for name, value in {"DIGESTED_BYTES": 1000, "NOTED_BYTES": 1000, "SETTLED_NS": -1}.items():
        monkeypatch.setattr(inputs, name, value)
    os.utime(tiny / "text" / "a.txt", (1, 1))
    for is_read in (True, False):
        inputs._hints.clear()
        done = run("run", tiny / "job.toml")
        assert ("to know it by its content" in done.output) == is_read
        assert "nothing to do" in done.output
        assert (tiny / "w" / inputs.HINTS).exists()


# --- names, and what is no file --------------------------------------------------------------------------------------


def test_paths_of_one_name_are_told_apart_and_recorded_stamps_stand_in(tmp_path):
    paths = [tmp_path / folder / "x.txt" for folder in ("a", "b")]
    for path in paths:
        path.parent.mkdir()
        path.write_text(path.parent.name)
    found, names, _ = stamp_inputs(map(str, paths), {}, stamps_at)
    assert list(found) == ["x.txt", "x.txt (2)"]
    paths[0].unlink()
    assert stamp_inputs(map(str, paths), found, stamps_at) == (found, names, (str(paths[0]),))


def test_a_tokenizer_is_known_by_its_source_and_not_imported(tmp_path, monkeypatch):
    (tmp_path / "of_mine").mkdir()
    for name, text in {"__init__.py": "raise SystemExit\n", "words.py": ""}.items():
        (tmp_path / "of_mine" / name).write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    assert code_file("of_mine.words:split") == (str(tmp_path / "of_mine" / "words.py"),)
    assert code_file("of_mine:split") == (str(tmp_path / "of_mine" / "__init__.py"),)
    assert "of_mine" not in sys.modules
    assert code_file("unicode") == code_file("sys:intern") == code_file("no_such_module:f") == ()
