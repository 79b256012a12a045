"""Small arrays and stages that the tests of storage share; importable by workers."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import dask
import dask.array as da
import fsspec
import numpy as np
import pyarrow as pa
import pytest
from scipy import sparse

from distembed.states import keep, keeping
from distembed.storage.records import Problem
from distembed.storage.stage import Stage
from distembed.storage.workspace import Workspace

META: dict[str, Any] = {"dims": ("word", "component"), "units": "1", "meaning": "a test"}


def dense_array() -> da.Array:
    values = np.random.default_rng(3).normal(size=(12, 5)).astype(np.float32)
    return da.from_array(values, chunks=(4, 5))


def sparse_array(values: np.ndarray, rows: tuple[int, ...]) -> da.Array:
    lazy = da.from_array(values, chunks=(rows, values.shape[1]))
    return lazy.map_blocks(
        sparse.csr_array, dtype=values.dtype, meta=sparse.csr_array((0, 0), dtype=values.dtype)
    )


def keep_state(stage: Stage, name: str, array: da.Array) -> None:
    """Store a state of a stage, as a computation does that runs in it."""
    with keeping(stage):
        keep(name, lambda: array)


class Calls:
    """Which blocks of an array were computed (threads of this process only)."""

    def __init__(self, fail_at: int = -1) -> None:
        self.blocks: list[int] = []
        self.fail_at = fail_at

    def count(self, array: da.Array) -> da.Array:
        def note(block: Any, block_id: tuple[int, ...]) -> Any:
            self.blocks.append(block_id[0])
            if block_id[0] == self.fail_at:
                raise RuntimeError("planned")
            return block

        return array.map_blocks(note, dtype=array.dtype, meta=array._meta)


def write_item(index: int, prefix: str) -> dict[str, int]:
    """Write two files for an item, on any store."""
    for suffix in (".txt", "-more.txt"):
        with fsspec.open(prefix + suffix, "wb") as file:
            file.write(f"{index}{suffix}".encode())
    return {"n": index}


def store_all(workspace: Workspace, *, scale: int = 1, version: int = 0, calls: Calls | None = None) -> Stage:
    """Store one output of each kind, without the commit; other versions of the code compute other content."""
    stage = workspace.stage("a", parameters={"scale": scale}, inputs={}, made_with=made_with(version))
    dense = dense_array() * np.float32(scale + version)
    stage.store("dense", dense if calls is None else calls.count(dense), **META)
    values = (np.arange(12 * 9).reshape(12, 9) % 5 == 0) * np.arange(9)
    stage.store("sparse", sparse_array(values, (1, 7, 4)), **META)
    stage.store_table("words", pa.table({"word": ["a", "b"]}))
    stage.store_bytes("report/index.html", b"<p>")
    stage.store_files("tokens", 3, write_item)
    return stage


@contextmanager
def writing(root: str | Path, name: str = "a") -> Iterator[tuple[Workspace, Stage]]:
    """Open a workspace for writing, and a stage of no parameters."""
    with Workspace.create(root, owner="test") as workspace:
        yield workspace, workspace.stage(name, parameters={}, inputs={})


def finish(root: Path, name: str, array: da.Array) -> Workspace:
    """Store an array in a stage of its own, commit it, and return the workspace opened."""
    with writing(root) as (_, stage):
        stage.store(name, array, **META)
        stage.commit()
    return Workspace.open(root)


def flip(path: Path) -> None:
    """Flip a bit in the middle of a file."""
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def made_with(version: int) -> dict[str, str]:
    """Return what a stage records of the version that computes it."""
    return {"distembed": str(version)} if version else {}


def run_both(
    root: Path, *, scale: int = 1, version: int = 0, calls: Calls | None = None
) -> tuple[str, list[Problem]]:
    """Run two stages to their end, as the runner of a job does; return the digest and what `verify` finds."""
    with Workspace.create(root, owner="test") as workspace, dask.config.set(scheduler="sync"):
        stage = workspace.stage("a", parameters={"scale": scale}, inputs={}, made_with=made_with(version))
        if damaged := stage.damaged_blocks():
            stage.reopen(damaged)
        if not stage.is_committed:
            stage = store_all(workspace, scale=scale, version=version, calls=calls)
            keep_state(stage, "round_1", stage.array("dense"))
            stage.commit()
        below = workspace.stage(
            "b", parameters={}, inputs={"a": stage.fingerprint}, made_with=made_with(version)
        )
        if damaged := below.damaged_blocks():
            below.reopen(damaged)
        if not below.is_committed:
            below.store("twice", workspace.array("dense") * 2, **META)
            below.commit()
        return workspace.digest(), workspace.verify()


def record_disk(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """Return a list that grows by what is synced, renamed into place and removed, with its path, in order.

    The beats of the lock are left out: they come at any time, from a thread of their own.
    """
    seen: list[tuple[str, str]] = []

    def recorded(what: str, real: Any, path_of: Any = lambda *given: given[-1]) -> Any:
        def call(*given: Any, **options: Any) -> None:
            path = str(path_of(*given))
            real(*given, **options)
            if ".beat" not in path:
                seen.append((what, path))

        return call

    of_handle = lambda handle: Path(f"/proc/self/fd/{handle}").readlink()  # noqa: E731
    monkeypatch.setattr(os, "fsync", recorded("sync", os.fsync, of_handle))
    monkeypatch.setattr(os, "replace", recorded("rename", os.replace))
    monkeypatch.setattr(os, "unlink", recorded("remove", os.unlink))
    monkeypatch.setattr(shutil, "rmtree", recorded("remove", shutil.rmtree, lambda path, *_: path))
    return seen
