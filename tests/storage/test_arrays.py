"""Arrays of a workspace: what is stored is what is read, dense and sparse, in any row blocks, also by other readers."""

import contextlib
import os
import signal

import anndata
import dask
import dask.array as da
import numpy as np
import pytest
import xarray as xr
import zarr
from distributed import Client
from scipy import sparse

from distembed.storage import blocks
from distembed.storage.folder import Folder
from distembed.storage.records import DamagedError, Output
from distembed.storage.workspace import Workspace
from tests.storage.examples import META, dense_array, finish, sparse_array, store_all, writing

VALUES = np.arange(60).reshape(12, 5) % 7
SPECIAL = np.array([0.0, -0.0, np.nan, np.inf, 1e-45], dtype=np.float32)
CUBE = np.arange(24).reshape(4, 3, 2)
DENSE = [
    (VALUES.astype("float32"), ((12,), 2), ((12,), (5,))),
    (VALUES.astype("float64"), ((4, 4, 4), 2), ((4, 4, 4), (5,))),
    (VALUES.astype("complex64"), ((5, 5, 2), 2), ((5, 5, 2), (5,))),
    (VALUES.astype("int64"), ((1, 7, 4), 2), ((4, 4, 4), (5,))),
    (VALUES.astype("uint8"), ((1,) * 12, 2), ((1,) * 12, (5,))),
    (VALUES.astype("bool"), ((5, 0, 7), 2), ((4, 4, 4), (5,))),
    (VALUES[:, :0].astype("float32"), ((5, 0, 7), 0), ((4, 4, 4), (0,))),
    (SPECIAL, 2, ((2, 2, 1),)),
    (CUBE, (3, 2, 1), ((3, 1), (3,), (2,))),
]
"""Values, the blocks in which they are given, and those in which they are stored."""


@pytest.mark.parametrize(("values", "given", "stored"), DENSE)
def test_dense_round_trip(tmp_path, values, given, stored):
    with writing(tmp_path / "ws") as (_, stage):
        named = {"dims": ["i", "j", "k"][: values.ndim], "units": "", "meaning": ""}
        found = stage.store("x", da.from_array(values, chunks=given), **named)
        stage.commit()
    assert (found.chunks, found.dtype) == (stored, values.dtype)
    assert found.compute().tobytes() == values.tobytes()
    assert zarr.open(tmp_path / "ws/arrays.zarr/x", mode="r")[:].tobytes() == values.tobytes()


@pytest.mark.parametrize("rows", [(12,), (4, 4, 4), (1, 7, 4), (1,) * 12, (5, 0, 7)])
def test_sparse_round_trip(tmp_path, rows):
    values = np.zeros((12, 9), dtype=np.int64)
    values[::3, ::2] = np.arange(1, 21).reshape(4, 5)
    values[4:8] = 0
    with writing(tmp_path / "ws") as (workspace, stage):
        stored = stage.store("x", sparse_array(values, rows), **META)
        row_nonzeros = stage.row_nonzeros("x")
        stage.commit()
        assert workspace.verify() == []
    assert row_nonzeros.chunks == (rows,)
    np.testing.assert_array_equal(row_nonzeros.compute(), np.count_nonzero(values, axis=1))
    found = [stored.blocks[i].compute() for i in range(len(rows))]
    for block in found:
        assert isinstance(block, sparse.csr_array)
        assert block.dtype == np.int64
        assert block.indices.dtype == block.indptr.dtype == np.int32
        parts = (block.data, block.indices, block.indptr)
        assert sparse.csr_array(parts, shape=block.shape).has_canonical_format
    np.testing.assert_array_equal(np.vstack([block.toarray() for block in found]), values)


# --- other readers ---------------------------------------------------------------------------------------------


def test_other_readers_open_what_is_stored(tmp_path):
    with Workspace.create(tmp_path / "ws", owner="test") as workspace:
        store_all(workspace).commit()
        dense, counts = workspace.array("dense").compute(), workspace.array("sparse")
    root = tmp_path / "ws/arrays.zarr"
    plain, labelled = (
        zarr.open_group(root, mode="r")["dense"],
        xr.open_zarr(root, consolidated=False)["dense"],
    )
    assert plain.metadata.dimension_names == labelled.dims == META["dims"]
    assert plain.chunks == (4, 5)
    assert dict(plain.attrs) == {"units": META["units"], "long_name": META["meaning"]}
    for found in (plain[:], da.from_zarr(root / "dense").compute(), labelled.values):
        np.testing.assert_array_equal(found, dense)
    group = zarr.open_group(root / "sparse", mode="r")
    assert group.attrs["row_blocks"] == [1, 7, 4]
    for index in range(3):
        block, ours = anndata.io.read_elem(group[f"{index:06d}"]), counts.blocks[index].compute()
        assert (block != ours).nnz == 0
        assert block.shape == ours.shape


@pytest.mark.parametrize("dtype", ["float32", "complex128"])
def test_other_readers_take_a_deleted_chunk_for_no_numbers_and_ours_raises(tmp_path, dtype):
    """Chunks of zeros are written, too: else one that is missing could not be told from them."""
    workspace = finish(tmp_path / "ws", "x", da.zeros((6, 2), chunks=(2, 2), dtype=dtype))
    root = tmp_path / "ws/arrays.zarr"
    (root / "x/c/1/0").unlink()
    readers = [zarr.open(root / "x", mode="r")[:], da.from_zarr(root / "x").compute()]
    if dtype != "complex128":
        readers.append(xr.open_zarr(root, consolidated=False)["x"].values)
    for found in readers:
        assert np.isnan(found[2:4]).all()
        assert (found[[0, 1, 4, 5]] == 0).all()
    with pytest.raises(DamagedError, match=r"Block 1 of 'x' .*'distembed run' writes it again"):
        workspace.array("x").compute()


@pytest.mark.cluster
@pytest.mark.parametrize("workers", ["threads", "cluster"])
def test_an_array_opened_before_a_rerun_raises(request, tmp_path, workers):
    at = Client(request.getfixturevalue("cluster")) if workers == "cluster" else contextlib.nullcontext()
    kinds = {"dense": dense_array(), "sparse": sparse_array(np.eye(12), (4, 4, 4))}
    with at:
        for kind, array in kinds.items():
            opened = finish(tmp_path / kind, "x", array).array("x")
            opened.blocks[0].compute()
            with Workspace.create(tmp_path / kind, owner="rerun") as workspace:
                stage = workspace.stage("a", parameters={"again": True}, inputs={})
                stage.store("x", array * 2, **META)
                stage.commit()
            for index in (0, 1):
                with pytest.raises(DamagedError, match=rf"Block {index} of 'x' .*opened: open it again"):
                    opened.blocks[index].compute()
            again = Workspace.open(tmp_path / kind).array("x").blocks[1].compute()
            assert (again != 2 * array.blocks[1].compute()).sum() == 0


# --- blocks ----------------------------------------------------------------------------------------------------


def test_what_is_to_be_added_to_every_cell_is_kept_with_a_sparse_array(tmp_path):
    digests = set()
    for given in ({}, {"constant": 2.5}):
        root = tmp_path / f"{len(given)}"
        with writing(root) as (_, stage):
            stage.store("x", sparse_array(np.eye(3), (1, 2)), **META, **given)
            stage.commit()
        found, constant = Workspace.open(root), given.get("constant", 0.0)
        assert found.describe("x").spec.constant == constant
        assert zarr.open_group(root / "arrays.zarr/x", mode="r").attrs.get("constant", 0.0) == constant
        digests.add(found.digest())
    assert len(digests) == 2


def test_unsorted_duplicated_block_is_stored_canonical_and_not_touched(tmp_path):
    block = sparse.csr_array((np.array([1.0, 2.0, 3.0]), np.array([4, 1, 4]), np.array([0, 3])), shape=(1, 6))
    before = block.indices.copy()
    lazy = da.zeros((1, 6)).map_blocks(lambda _: block, dtype=float, meta=sparse.csr_array((0, 0)))
    stored = finish(tmp_path / "ws", "x", lazy).array("x").compute()
    assert stored.indices.tolist() == [1, 4]
    assert stored.data.tolist() == [2.0, 4.0]
    assert block.indices.tolist() == before.tolist()


def test_block_of_many_chunks(tmp_path, monkeypatch):
    monkeypatch.setattr(blocks, "CHUNK_ELEMENTS", 3)
    values = (np.arange(65).reshape(13, 5) % 3) * 2.5
    workspace = finish(tmp_path / "ws", "s", sparse_array(values, (5, 8)))
    np.testing.assert_array_equal(workspace.array("s").blocks[1].compute().toarray(), values[5:])
    assert workspace.verify() == []
    place = tmp_path / "ws/arrays.zarr/s/000001"
    assert len(list((place / "data/c").iterdir())) > 1
    theirs = anndata.io.read_elem(zarr.open_group(place, mode="r"))
    np.testing.assert_array_equal(theirs.toarray(), values[5:])


def test_the_thread_that_packs_numbers_decides_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr("numcodecs.blosc.use_threads", None)  # as it is where Zarr is not imported
    values = np.random.default_rng(0).poisson(2.0, (1, 4_000_000)).astype(np.int32)
    with dask.config.set(
        scheduler="synchronous"
    ):  # in the main thread, where Blosc would start threads of its own
        found = {finish(tmp_path / f"{n}", "x", da.from_array(values)).digest() for n in range(4)}
    assert len(found) == 1


def test_nothing_of_an_interrupted_run_is_left_in_a_block(tmp_path):
    output = Output(stage="a", name="x", kind="csr", row_blocks=(3,), shape=(3, 5), dtype="<f4")
    folder, left = Folder.at(tmp_path), tmp_path / output.block_location(0) / "data" / "c" / "7"
    left.parent.mkdir(parents=True)
    left.write_bytes(b"left")
    record = blocks.write_block(folder, output, 0, 3, sparse.csr_array((3, 5), dtype=np.float32))
    assert set(record.files) == set(folder.find(output.block_location(0)))


def test_ctrl_c_in_a_block_is_not_lost(tmp_path, monkeypatch):
    """It says nothing of the block, and is no damage."""
    stored = finish(tmp_path / "ws", "x", sparse_array(np.eye(6), (6,))).array("x")
    value = blocks.google_crc32c.value
    stopped = lambda data: signal.raise_signal(signal.SIGINT) or (os.getpid() and value(data))  # noqa: E731
    monkeypatch.setattr(blocks.google_crc32c, "value", stopped)
    with pytest.raises(KeyboardInterrupt), dask.config.set(scheduler="synchronous"):
        stored.compute()
