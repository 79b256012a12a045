"""Records and listings: what is damaged, too large, or written meanwhile by another process."""

import contextlib
import os
from pathlib import Path
from typing import Any, ClassVar

import fsspec
import pytest
from fsspec import AbstractFileSystem
from fsspec.implementations.memory import MemoryFileSystem
from hypothesis import given, settings
from hypothesis import strategies as st

from distembed.storage import records
from distembed.storage.folder import Folder
from distembed.storage.records import ManifestError, seal, unseal
from distembed.storage.workspace import Workspace
from tests.storage.examples import store_all


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
        for name in Path(path).iterdir():
            if name.suffix == ".partial":
                name.unlink()
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
