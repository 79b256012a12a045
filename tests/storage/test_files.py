"""The files of a workspace: the order of syncs and removals, which a power cut shows; records and listings."""

import contextlib
import errno
import itertools
import os
from pathlib import Path
from typing import Any, ClassVar

import fsspec
import pytest
from fsspec import AbstractFileSystem
from fsspec.implementations.memory import MemoryFileSystem
from hypothesis import given, settings
from hypothesis import strategies as st

from distembed.files import PARTIAL
from distembed.storage import records
from distembed.storage.folder import Folder
from distembed.storage.records import ManifestError, seal, unseal
from distembed.storage.workspace import Workspace
from tests.storage.examples import META, dense_array, keep_state, record_disk, store_all, writing


def test_a_commit_syncs_its_files_then_their_folders_then_itself_and_ends_the_journal(tmp_path, monkeypatch):
    root = tmp_path / "ws"
    with Workspace.create(root, owner="test") as workspace:
        begun = record_disk(monkeypatch)
        stage = store_all(workspace)
        head = begun.index(("sync", f"{root}/journal/a/stage.json"))  # or a power cut leaves other things
        assert [p for what, p in begun[:head] if what == "rename"] == [f"{root}/journal/a/stage.json"]
        keep_state(stage, "temporary", dense_array())
        monkeypatch.undo()
        seen = record_disk(monkeypatch)
        stage.commit()
        monkeypatch.undo()
    places = ["arrays.zarr/dense", "arrays.zarr/sparse", "tokens", "report", "words.parquet"]
    inside = [path for place in places for path in [root / place, *(root / place).rglob("*")]]
    files = {f"{root}/arrays.zarr/zarr.json", *(str(path) for path in inside if path.is_file())}
    folders = {str(path) for path in inside if path.is_dir()} | {str(root), *map(str, root.parents)}
    commit = seen.index(("rename", f"{root}/manifest/a.json"))
    synced = [path for what, path in seen[:commit] if what == "sync"]
    assert files == set(synced[: len(files)])
    assert folders <= set(synced[len(files) : -1])
    assert synced[-1].startswith(f"{root}/manifest/a.json.")
    assert synced[-1].endswith(PARTIAL)
    assert seen[commit + 1] == ("sync", f"{root}/manifest")
    assert not any("arrays.zarr/checkpoints" in path for path in synced)
    steps = [("rename", f"{root}/manifest/copies/a.json"), ("sync", f"{root}/manifest/copies")]
    steps += [("remove", f"{root}/arrays.zarr/checkpoints/a/temporary"), ("remove", f"{root}/journal/a")]
    order = [seen.index(step) for step in steps]
    assert [commit, *order] == sorted([commit, *order])
    assert ("sync", str(root)) in seen[order[1] : order[2]]  # where the first commit has made `manifest`


def test_what_a_workspace_begins_with_is_on_the_disk_before_it_has_its_name(tmp_path, monkeypatch):
    root = tmp_path / "ws"
    seen = record_disk(monkeypatch)
    with Workspace.create(root, owner="test") as workspace:
        workspace.write_file("job.toml", b"x = 1")
        workspace.write_file("report/index.html", b"<p>")
    monkeypatch.undo()
    synced = [path for what, path in seen if what == "sync"]
    assert synced[0] == f"{root}/lock.json"
    for name in ("workspace.json", "job.toml", "report/index.html"):
        place = seen.index(("rename", f"{root}/{name}"))
        assert seen[place - 1][0] == "sync"
        assert seen[place - 1][1].startswith(f"{root}/{name}.")
        assert seen[place + 1] == ("sync", str((root / name).parent))


def test_a_copy_is_on_the_disk_when_it_is_done(tmp_path, monkeypatch):
    with Workspace.create(tmp_path / "ws", owner="test") as workspace:
        store_all(workspace).commit()
        seen = record_disk(monkeypatch)
        workspace.copy_to(tmp_path / "copy")
        monkeypatch.undo()
    copied = {str(path) for path in (tmp_path / "copy").rglob("*")}
    assert copied <= {path for what, path in seen if what == "sync"}


SENTENCES = {
    errno.EIO: r"Cannot write /.*: Input/output error\. Correct this and run again\.",
    errno.EFBIG: r"/.* was not written: it is larger than .*; raise the limit \(ulimit -f\) or name",
    errno.EDQUOT: r"/.* was not written: Disk quota exceeded, /.*; make room there and give",
}


def test_whichever_sync_fails_the_run_says_so_and_the_next_one_finishes(tmp_path, monkeypatch):
    def run(root, fail_at, number=0):
        calls, real = itertools.count(), os.fsync

        def failing(handle):
            if next(calls) == fail_at:
                raise OSError(number, os.strerror(number))
            real(handle)

        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", failing)
            with writing(root) as (workspace, stage):
                stage.store_bytes("x", b"x")
                stage.commit()
                assert workspace.verify() == []
        return next(calls)

    n_syncs = run(tmp_path / "whole", -1)
    assert n_syncs > 10
    for place in range(n_syncs):
        root = tmp_path / str(place)
        number = list(SENTENCES)[place % len(SENTENCES)]
        with pytest.raises(OSError, match=SENTENCES[number]):
            run(root, place, number)
        run(root, -1)


@pytest.mark.parametrize("way", ["begun again", "reopened"])
def test_a_commit_is_withdrawn_before_its_data_and_what_announces_it_last(tmp_path, monkeypatch, way):
    root = tmp_path / "ws"
    with Workspace.create(root, owner="test") as workspace:
        stage = store_all(workspace)
        stage.commit()
        seen = record_disk(monkeypatch)
        if way == "begun again":
            workspace.stage("a", parameters={"scale": 2}, inputs={}).store("dense", dense_array(), **META)
        else:
            stage.reopen([])
        monkeypatch.undo()
    removed = [path for what, path in seen if what == "remove" and not path.endswith(PARTIAL)]
    commit, copy = f"{root}/manifest/a.json", f"{root}/manifest/copies/a.json"
    # a record is there at any moment
    assert seen.index(("rename", f"{root}/journal/a/stage.json")) < seen.index(("remove", copy))
    if way == "reopened":
        assert removed == [copy, commit]
        return
    assert removed.index(copy) < removed.index(commit) < removed.index(f"{root}/arrays.zarr/dense")


def test_a_file_is_replaced_and_never_written_in_place(tmp_path):
    folder = Folder.at(tmp_path)
    folder.write("x", b"old")
    with (tmp_path / "x").open("rb") as reader:
        folder.write("x", b"new")
        assert reader.read() == b"old"
    assert folder.read("x") == b"new"
    assert [path.name for path in tmp_path.iterdir()] == ["x"]


# --- records and listings ---------------------------------------------------------------------------------------


@settings(max_examples=50, deadline=None)
@given(st.data())
def test_any_flipped_bit_breaks_the_seal(data):
    document = bytearray(seal(b'{"a":[1,2.5,"x"],"b":{"c":null}}'))
    position = data.draw(st.integers(0, len(document) - 1))
    document[position] ^= 1 << data.draw(st.integers(0, 7))
    with pytest.raises(ManifestError, match="damaged"):
        unseal(bytes(document), "file")


class Remembering(MemoryFileSystem):
    """A store whose client answers from what it has listed before, as those of S3 and of Google do."""

    protocol = "remembering"
    store: ClassVar[dict[str, Any]] = {}
    pseudo_dirs: ClassVar[list[str]] = [""]

    @classmethod
    def _strip_protocol(cls, path):
        return super()._strip_protocol(path.replace("remembering://", "memory://"))

    find = AbstractFileSystem.find

    def ls(self, path, detail=True, **options):
        if path not in self.dircache:
            self.dircache[path] = super().ls(path, detail=True)
        return [entry if detail else entry["name"] for entry in self.dircache[path]]

    def invalidate_cache(self, path=None):
        self.dircache.clear()


def test_a_store_is_asked_again_for_what_another_process_may_have_written(monkeypatch):
    monkeypatch.setenv("DISTEMBED_PROTOCOLS", "remembering")
    fsspec.register_implementation("remembering", Remembering, clobber=True)
    folder, elsewhere = Folder.at("remembering://ws"), Remembering(skip_instance_cache=True)
    elsewhere.pipe_file("/ws/manifest/b.json", b"x")
    for number, place in enumerate(("", "manifest")):
        folder.find(place)
        elsewhere.pipe_file(f"/ws/manifest/{number}.json", b"x")
        assert f"manifest/{number}.json" in folder.find(place)


def test_what_vanishes_while_it_is_listed_is_absent(tmp_path, monkeypatch):
    """A run that commits renames partial files while readers list them."""
    folder, scandir = Folder.at(tmp_path), os.scandir

    @contextlib.contextmanager
    def renamed_meanwhile(path):
        with scandir(path) as entries:
            found = list(entries)
        for entry in found:  # `Path.iterdir` calls `os.scandir` from Python 3.13 on
            if entry.name.endswith(".partial"):
                Path(entry).unlink()
        yield found

    monkeypatch.setattr(os, "scandir", renamed_meanwhile)
    for name in ("manifest/a.json", "manifest/a.json.1.partial"):
        folder.write(name, b"x")
    (tmp_path / "manifest/a.link").symlink_to(tmp_path / "nowhere")
    assert sorted(folder.find("manifest")) == ["manifest/a.json", "manifest/a.link"]
    assert folder.find("manifest/a.json") == {}


def test_records_have_a_limit_when_they_are_written_and_when_they_are_read(tmp_path, monkeypatch):
    """A manifest that nothing could read again was found out at the commit, after hours."""
    with Workspace.create(tmp_path / "ws", owner="test") as workspace:
        store_all(workspace).commit()
        monkeypatch.setattr(records, "RECORD_BYTES", 1000)
        stage = workspace.stage("many", parameters={}, inputs={})
        with pytest.raises(
            ValueError, match="'x' would have 6 blocks, more than a manifest may name: make larger"
        ):
            stage.store_files("x", 6, pytest.fail)
        with pytest.raises(
            ValueError, match=r"A record would have .* bytes, more than the 1,000 that are read"
        ):
            store_all(workspace, scale=2).commit()
        monkeypatch.undo()
        store_all(workspace).commit()
    monkeypatch.setattr(records, "RECORD_BYTES", 1000)
    assert Workspace.open(tmp_path / "ws").stages() == {}
    assert ("manifest/a.json", "flipped or damaged") in [p[3:] for p in workspace.verify()]
