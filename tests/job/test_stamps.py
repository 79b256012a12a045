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


def test_a_folder_that_holds_the_workspace_is_not_read(tiny: Path) -> None:
    whole = ("--set", "corpus.paths=['text']", "--workspace")
    for command in ("plan", "run"):
        done = run(command, tiny / "job.toml", *whole, tiny / "text/w")
        assert done.exit_code != 0
        assert f"reads all of {tiny}/text, and its workspace {tiny}/text/w lies inside" in done.output
    assert not (tiny / "text/w").exists()
    succeed("plan", tiny / "job.toml", *whole, tiny / "text/.hidden/w")
    succeed("plan", tiny / "job.toml", *whole, tiny / "text and more")


def test_a_touch_and_a_move_change_nothing(tiny: Path) -> None:
    before = files_of(tiny / "w")
    os.utime(tiny / "text" / "a.txt", (1, 1))
    assert again(tiny).text.startswith("nothing to do")
    assert files_of(tiny / "w") == before


@pytest.mark.parametrize("change", ["added", "changed", "removed"])
def test_other_evaluation_sets_are_scored(tiny: Path, change: str) -> None:
    sets = tiny / "sets"
    write_set(sets, "second", 5)
    assert computed(tiny).ran == ("evaluation",)
    if change == "changed":
        write_set(sets, "second", 4)  # of the same size
    elif change == "removed":
        (sets / "second.tsv").unlink()
    assert computed(tiny).ran == (() if change == "added" else ("evaluation",))


def test_a_corpus_moved_away_blocks_no_later_stage(tiny: Path) -> None:
    shutil.move(tiny / "text", tiny / "elsewhere")
    assert computed(tiny, "psdvec.n_components=3").ran == ("core", "vectors", "evaluation")
    job = open_job(str(tiny / "job.toml"), settings=("psdvec.n_components=3",))
    assert verify_job(job)[0] == ["stage report is not committed: it has no manifest"]
    before = files_of(tiny / "w")
    with pytest.raises(FileNotFoundError, match=r"\*.txt"):
        again(tiny, "corpus.lowercase=false")
    assert files_of(tiny / "w") == before


def test_files_are_known_by_content_where_their_store_tells_no_versions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("distembed.job.inputs.DIGESTED_BYTES", 0)
    store = fsspec.filesystem("memory")
    stamps = []
    for data in (b"one", b"two"):
        store.pipe_file("/stamped/a.txt", data)
        stamps.append(stamps_at("memory://stamped/a.txt"))
    assert stamps[0] != stamps[1]
    assert stamps_at("memory://stamped/*.txt") == stamps_at("memory://stamped") == stamps[1]


HIDDEN = (".DS_Store", ".git/index", "~$a.txt", "Thumbs.db", "desktop.ini", ".notes.tsv", ".old/first.tsv")


def test_hidden_files_change_nothing(tiny: Path) -> None:
    """What the readers of a folder leave out is no input: of a glob of texts, and of a folder of sets."""
    job = ("corpus.paths=['text']", "job.workspace='v'")
    assert computed(tiny, *job).ran == STAGES
    for folder in (tiny / "text", tiny / "sets"):
        (folder / ".git").mkdir()
        (folder / ".old").mkdir()
        for name in HIDDEN:
            (folder / name).write_text("word1\tword2\t5\n")
    assert computed(tiny, *job).ran == ()
    assert computed(tiny).ran == ()
    assert computed(tiny, "corpus.paths=['text/*']", "job.workspace='glob'").ran == STAGES
    digests = {de.Workspace.open(tiny / name).digest() for name in ("v", "w", "glob")}
    assert len(digests) == 1


def test_the_files_of_a_zarr_array_are_not_hidden(tmp_path: Path) -> None:
    for name in (".zarray", "0.0", ".DS_Store"):
        (tmp_path / name).write_text("{}")
    assert list(stamps_at(str(tmp_path))) == [".zarray", "0.0"]


@pytest.fixture
def large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a file that counts as large, written long ago by the clock of this process."""
    monkeypatch.setattr(inputs, "DIGESTED_BYTES", 2)
    monkeypatch.setattr(inputs, "SETTLED_NS", -1)
    (tmp_path / "large").write_bytes(b"one")
    return tmp_path / "large"


def replace_keeping_time(path: Path, data: bytes) -> None:
    """Replace the content of a file as `cp -p` and `rsync -t` do, by other content of the same size and time."""
    before = path.stat()
    time.sleep(0.02)  # some steps of the clock
    path.write_bytes(data)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def test_large_files_are_known_by_their_content(large: Path) -> None:
    one = stamps_at(str(large))
    os.utime(large, (1, 1))
    assert stamps_at(str(large)) == one
    replace_keeping_time(large, b"two")
    two = stamps_at(str(large))
    assert two != one
    large.unlink()
    large.write_bytes(b"one")
    assert stamps_at(str(large)) == one


def test_hints_save_reading_and_are_no_evidence(large: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reads, read = [], inputs._content
    monkeypatch.setattr(inputs, "_content", lambda *args: reads.append(args[1]) or read(*args))
    with de.Workspace.create(large.parent / "w", owner="test") as workspace:
        stamps = {"large": inputs.look_for(workspace)(str(large))}
        inputs.keep_hints(workspace, [{inputs.FILES: stamps}])
        written = (large.parent / "w" / inputs.HINTS).stat().st_mtime_ns
        inputs.keep_hints(workspace, [{inputs.FILES: stamps}])
        assert (large.parent / "w" / inputs.HINTS).stat().st_mtime_ns == written
        inputs._hints.clear()  # another process
        assert inputs.look_for(workspace)(str(large)) == stamps["large"]
        assert len(reads) == 1
        inputs._hints.clear()
        replace_keeping_time(large, b"two")
        assert inputs.look_for(workspace)(str(large)) != stamps["large"]
        assert len(reads) == 2
        inputs._hints.clear()
        workspace.write_file(inputs.HINTS, b"damaged")
        inputs.look_for(workspace)(str(large))
        assert len(reads) == 3
        monkeypatch.setattr(inputs.records, "RECORD_BYTES", 3)  # a file longer than any record is not read
        assert inputs._recorded_hints(workspace) == b""
    assert inputs.look_for(None)(str(large)) == {"large": [3, ""]}  # nothing to compare with
    assert len(reads) == 3


def test_a_run_keeps_the_hints_of_its_large_inputs(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inputs, "DIGESTED_BYTES", 1000)
    monkeypatch.setattr(inputs, "NOTED_BYTES", 1000)
    os.utime(tiny / "text" / "a.txt", (1, 1))
    monkeypatch.setattr(inputs, "SETTLED_NS", -1)
    inputs._hints.clear()
    done = run("run", tiny / "job.toml")
    assert "to know it by its content" in done.output
    assert "nothing to do" in done.output
    assert (tiny / "w" / inputs.HINTS).exists()
    inputs._hints.clear()
    assert "to know it by its content" not in run("run", tiny / "job.toml").output


def test_paths_of_one_name_are_told_apart_and_recorded_stamps_stand_in(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "x.txt").write_text(folder)
    paths = [str(tmp_path / folder / "x.txt") for folder in ("a", "b")]
    found, names, _ = stamp_inputs(paths, {}, stamps_at)
    assert list(found) == ["x.txt", "x.txt (2)"]
    (tmp_path / "a" / "x.txt").unlink()
    assert stamp_inputs(paths, found, stamps_at) == (found, names, (paths[0],))


def test_a_tokenizer_is_known_by_its_source_and_not_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "of_mine").mkdir()
    (tmp_path / "of_mine" / "__init__.py").write_text("raise SystemExit\n")
    (tmp_path / "of_mine" / "words.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    assert code_file("of_mine.words:split") == (str(tmp_path / "of_mine" / "words.py"),)
    assert code_file("of_mine:split") == (str(tmp_path / "of_mine" / "__init__.py"),)
    assert "of_mine" not in sys.modules
    assert code_file("unicode") == code_file("sys:intern") == code_file("no_such_module:f") == ()
