"""Arrays of a workspace: what is stored is what is read, dense and sparse, in any row blocks."""

from __future__ import annotations

import asyncio
import signal
import threading
from pathlib import Path
from typing import Any

import dask
import dask.array as da
import numpy as np
import pytest
import zarr
from scipy import sparse
from zarr.codecs import Crc32cCodec

from distembed.storage import arrays
from distembed.storage.blocks import Array
from distembed.storage.folder import Folder
from distembed.storage.records import Output
from distembed.storage.workspace import Workspace
from distembed.weighting.pmi import marginals
from tests.storage.examples import dense_array, sparse_array

META = {"dims": ("word", "component"), "units": "1", "meaning": "a test"}
CHUNKS = {"whole": (12,), "even": (4, 4, 4), "ragged": (1, 7, 4), "single": (1,) * 12, "empty": (5, 0, 7)}


@pytest.mark.parametrize("rows", CHUNKS.values(), ids=CHUNKS)
@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "uint8", "bool"])
def test_dense_round_trip(tmp_path: Path, rows: tuple[int, ...], dtype: str) -> None:
    values = (np.arange(12 * 5).reshape(12, 5) % 7).astype(dtype)
    with Workspace.create(tmp_path / "ws", owner="test") as workspace:
        stage = workspace.stage("a", parameters={}, inputs={})
        stage.store("x", da.from_array(values, chunks=(rows, 2)), **META)
        stage.commit()
    stored = Workspace.open(tmp_path / "ws").array("x")
    assert stored.chunks == (rows, (5,))
    assert stored.dtype == dtype
    np.testing.assert_array_equal(stored.compute(), values)


@pytest.mark.parametrize("rows", CHUNKS.values(), ids=CHUNKS)
def test_sparse_round_trip(tmp_path: Path, rows: tuple[int, ...]) -> None:
    values = np.zeros((12, 9), dtype=np.int64)
    values[::3, ::2] = np.arange(1, 21).reshape(4, 5)
    values[4:8] = 0
    with Workspace.create(tmp_path / "ws", owner="test") as workspace:
        stage = workspace.stage("a", parameters={}, inputs={})
        stored = stage.store("x", sparse_array(values, rows), **META)
        row_nonzeros = stage.row_nonzeros("x")
        stage.commit()
        assert workspace.verify() == []
    assert row_nonzeros.chunks == (rows,)
    np.testing.assert_array_equal(row_nonzeros.compute(), np.count_nonzero(values, axis=1))
    blocks = [stored.blocks[i].compute() for i in range(len(rows))]
    for block in blocks:
        assert isinstance(block, sparse.csr_array)
        assert block.dtype == np.int64
        assert block.indices.dtype == block.indptr.dtype == np.int32
        assert sparse.csr_array(
            (block.data, block.indices, block.indptr), shape=block.shape
        ).has_canonical_format
    np.testing.assert_array_equal(np.vstack([block.toarray() for block in blocks]), values)


def test_what_is_to_be_added_to_every_cell_is_kept_with_a_sparse_array(tmp_path: Path) -> None:
    digests = set()
    for given in ({}, {"constant": 2.5}):
        root = tmp_path / f"{len(given)}"
        with Workspace.create(root, owner="test") as workspace:
            stage = workspace.stage("a", parameters={}, inputs={})
            stage.store("x", sparse_array(np.eye(3), (1, 2)), **META, **given)
            stage.commit()
        found, constant = Workspace.open(root), given.get("constant", 0.0)
        assert found.describe("x").spec.constant == constant
        assert zarr.open_group(root / "arrays.zarr/x", mode="r").attrs.get("constant", 0.0) == constant
        digests.add(found.digest())
    assert len(digests) == 2


def test_sums_of_sparse_blocks_are_right_or_refused(tmp_path: Path) -> None:
    """What the documentation of `Workspace.array` names works; NumPy's reductions raise and are never wrong."""
    counts = sparse.random_array((12, 5), density=0.4, rng=0, format="csr")
    lazy = da.from_array(counts.toarray(), chunks=(5, 5)).map_blocks(sparse.csr_array, meta=counts[:0])
    with Workspace.create(tmp_path / "ws", owner="test") as workspace:
        stage = workspace.stage("a", parameters={}, inputs={})
        stage.store("x", lazy, **META)
        stage.commit()
    stored = Workspace.open(tmp_path / "ws").array("x")
    sums = marginals(stored)
    np.testing.assert_allclose(sums.rows, counts.sum(axis=1))
    np.testing.assert_allclose(sums.columns, counts.sum(axis=0))
    largest = stored.map_blocks(
        lambda block: block.max(axis=1).toarray(), drop_axis=1, dtype=stored.dtype, meta=np.empty(0)
    )
    np.testing.assert_array_equal(largest.compute(), counts.max(axis=1).toarray())
    for name in ("sum", "mean", "max", "min", "std", "var", "any", "all", "prod", "argmax"):
        for axis in (None, 0, 1):
            with pytest.raises((TypeError, ValueError, IndexError)):
                getattr(stored, name)(axis=axis).compute()


def test_unsorted_duplicated_block_is_stored_canonical_and_not_touched(tmp_path: Path) -> None:
    block = sparse.csr_array((np.array([1.0, 2.0, 3.0]), np.array([4, 1, 4]), np.array([0, 3])), shape=(1, 6))
    before = block.indices.copy()
    lazy = da.from_array(np.zeros((1, 6)), chunks=(1, 6)).map_blocks(
        lambda _: block, dtype=float, meta=sparse.csr_array((0, 0))
    )
    with Workspace.create(tmp_path / "ws", owner="test") as workspace:
        stored = workspace.stage("a", parameters={}, inputs={}).store("x", lazy, **META).compute()
    assert stored.indices.tolist() == [1, 4]
    assert stored.data.tolist() == [2.0, 4.0]
    assert block.indices.tolist() == before.tolist()


def test_vector_and_cube_and_special_floats(tmp_path: Path) -> None:
    vector = np.array([0.0, -0.0, np.nan, np.inf, 1e-45], dtype=np.float32)
    cube = np.arange(24).reshape(4, 3, 2)
    with Workspace.create(tmp_path / "ws", owner="test") as workspace:
        stage = workspace.stage("a", parameters={}, inputs={})
        got = stage.store("v", da.from_array(vector, chunks=2), dims=("i",), units="", meaning="").compute()
        assert got.tobytes() == vector.tobytes()
        lazy = da.from_array(cube, chunks=(3, 2, 1))
        got = stage.store("c", lazy, dims=("i", "j", "k"), units="", meaning="").compute()
        np.testing.assert_array_equal(got, cube)


def test_block_of_many_chunks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("distembed.storage.blocks.CHUNK_BYTES", 64)
    monkeypatch.setattr("distembed.storage.blocks.CHUNK_ELEMENTS", 3)
    with Workspace.create(tmp_path / "ws", owner="test") as workspace:
        stage = workspace.stage("a", parameters={}, inputs={})
        stored = stage.store("x", dense_array(), **META)
        np.testing.assert_array_equal(stored.compute(), dense_array().compute())
        values = (np.arange(60).reshape(12, 5) % 3) * 2.5
        stored = stage.store("s", sparse_array(values, (5, 7)), **META)
        np.testing.assert_array_equal(stored.blocks[1].compute().toarray(), values[5:])
        stage.commit()
        assert workspace.verify() == []
    assert len(list((tmp_path / "ws/arrays.zarr/x/000002/c").iterdir())) > 1


def test_each_thread_stores_its_own_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What Zarr's own thread did for all threads was done for one after the other."""
    threads: set[str] = set()
    digest = arrays.new_digest
    monkeypatch.setattr(
        arrays, "new_digest", lambda data: threads.add(threading.current_thread().name) or digest(data)
    )
    decode = Crc32cCodec._decode_single

    async def noted(*args: Any) -> Any:
        threads.add(threading.current_thread().name)
        return await decode(*args)

    monkeypatch.setattr(Crc32cCodec, "_decode_single", noted)
    with Workspace.create(tmp_path / "ws", owner="test") as workspace:
        stage = workspace.stage("a", parameters={}, inputs={})
        stage.store("x", dense_array(), **META).compute()
    assert threads
    assert "zarr_io" not in threads


def test_blocks_are_read_and_written_where_an_event_loop_runs(tmp_path: Path) -> None:
    """As in a notebook, whose cells run in the thread of one."""
    values = dense_array().compute()
    output = Output("a", "x", "dense", (12,), values.shape, values.dtype.str, ("word", "component"))
    folder = Folder.at(tmp_path)

    async def cell() -> Array:
        arrays.write_block(folder, output, 0, 12, values)
        return arrays.read_block(folder, output, 0, 12)

    np.testing.assert_array_equal(asyncio.run(cell()), values)


def test_nothing_of_an_interrupted_run_is_left_in_a_block(tmp_path: Path) -> None:
    output = Output("a", "x", "csr", (3,), (3, 5), "<f4", ("word", "context"))
    folder, left = Folder.at(tmp_path), tmp_path / output.block_location(0) / "data" / "c" / "7"
    left.parent.mkdir(parents=True)
    left.write_bytes(b"left")
    record = arrays.write_block(folder, output, 0, 3, sparse.csr_array((3, 5), dtype=np.float32))
    assert set(record.files) == set(folder.find(output.block_location(0)))


def test_ctrl_c_at_the_end_of_a_block_is_not_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the coroutine that reads it waits for nothing more."""
    with Workspace.create(tmp_path / "ws", owner="test") as workspace:
        stage = workspace.stage("a", parameters={}, inputs={})
        stage.store("x", sparse_array(np.eye(6), (6,)), **META)
        stage.commit()
    join = arrays.join_csr
    monkeypatch.setattr(arrays, "join_csr", lambda *of: signal.raise_signal(signal.SIGINT) or join(*of))
    with pytest.raises(KeyboardInterrupt), dask.config.set(scheduler="synchronous"):
        Workspace.open(tmp_path / "ws").array("x").compute()
