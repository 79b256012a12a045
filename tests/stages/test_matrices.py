"""Matrices of every format: equal rows however they are read, and one clear sentence for each fault."""

from __future__ import annotations

import json
import os
import pickle
from pathlib import Path

import numcodecs
import numcodecs.pickles
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.io
import scipy.sparse as sp
import zarr
from zarr.codecs import BloscCodec, GzipCodec, ZstdCodec

import distembed as de
from distembed import files
from distembed.files import BombError
from distembed.formats import matrices
from distembed.formats.matrix import MatrixError, row_array
from distembed.stages.matrices import MatrixSection, matrix_size, open_matrix
from tests.references.checksums import crc32c

N, D = 23, 4
X = np.random.default_rng(0).standard_normal((N, D)).astype(np.float32)
SPARSE = sp.csr_array(np.where(X > 0.5, X, 0))
NAMES = [f"name {i}" for i in range(N)]


def test_rows_that_no_row_group_has_are_damage(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": [1.0, 2.0]}), tmp_path / "m.parquet")
    with pytest.raises(MatrixError, match=r"m\.parquet cannot be read as a Parquet file"):
        matrices._parquet_rows(str(tmp_path / "m.parquet"), ["a"], [0], 1, 0, 2)


def save_anndata(root, *, layer="csr"):
    """Write an AnnData file by its on-disk format, in h5py or Zarr."""
    create = "create_array" if isinstance(root, zarr.Group) else "create_dataset"
    obs, obsm, arrays = (root.create_group(name) for name in ("obs", "obsm", "X"))
    obs.attrs["_index"] = "cell"
    text = np.dtypes.StringDType() if isinstance(root, zarr.Group) else object
    getattr(obs, create)("cell", data=np.array(NAMES, dtype=text))
    getattr(obsm, create)("X_pca", data=X, chunks=(5, D))
    matrix = SPARSE if layer == "csr" else sp.csc_array(SPARSE)
    arrays.attrs["encoding-type"], arrays.attrs["shape"] = f"{layer}_matrix", [N, D]
    for part in ("data", "indices", "indptr"):
        getattr(arrays, create)(part, data=getattr(matrix, part))


def h5ad(path: Path, **options) -> str:
    h5py = pytest.importorskip("h5py")
    with h5py.File(path, "w") as file:
        save_anndata(file, **options)
    return str(path)


def anndata_zarr(path: Path) -> str:
    save_anndata(zarr.open_group(path, mode="w"))
    return str(path)


def parquet(path: Path, columns, **options) -> str:
    pq.write_table(pa.table(columns), path, row_group_size=5, **options)
    return str(path)


def named_columns():
    return {"id": NAMES, **{f"c{i}": X[:, i] for i in range(D)}}


def npy(path: Path, values=X) -> str:
    np.save(path, values)
    return str(path)


def npz(path: Path) -> str:
    np.savez(path, words=np.array(NAMES), M=X)
    return str(path)


def mtx(path: Path) -> str:
    scipy.io.mmwrite(path, SPARSE.astype(float), precision=17)
    return str(path)


def scipy_npz(path: Path) -> str:
    sp.save_npz(path, SPARSE)
    return str(path)


def vectors(path: Path) -> str:
    de.WordVectors(NAMES, X).save(path)
    return str(path)


def table(path: Path) -> str:
    lines = [",".join([name, *map(repr, row.tolist())]) for name, row in zip(NAMES, X, strict=True)]
    path.write_text("\n".join(["id,a,b,c,d", *lines]) + "\n")
    return str(path)


def plain_zarr(path: Path) -> str:
    zarr.create_array(str(path), data=X, chunks=(5, 2))
    return str(path)


FORMATS = {
    "npy": (lambda f: MatrixSection(path=npy(f / "x.npy")), X, None),
    "npy by columns": (lambda f: MatrixSection(path=npy(f / "x.npy", np.asfortranarray(X))), X, None),
    "npz": (lambda f: MatrixSection(path=npz(f / "x.npz"), name_column="words"), X, NAMES),
    "Matrix Market": (lambda f: MatrixSection(path=mtx(f / "x.mtx")), SPARSE, None),
    "sparse npz": (lambda f: MatrixSection(path=scipy_npz(f / "x.npz")), SPARSE, None),
    "parquet columns": (lambda f: MatrixSection(path=parquet(f / "x.parquet", named_columns())), X, NAMES),
    "parquet list": (
        lambda f: MatrixSection(path=parquet(f / "x.parquet", {"id": NAMES, "v": list(X)})),
        X,
        NAMES,
    ),
    "vectors": (lambda f: MatrixSection(path=vectors(f / "x.safetensors")), X, NAMES),
    "csv": (lambda f: MatrixSection(path=table(f / "x.csv")), X, NAMES),
    "zarr": (lambda f: MatrixSection(path=plain_zarr(f / "x.zarr")), X, None),
    "anndata zarr": (lambda f: MatrixSection(path=anndata_zarr(f / "x.zarr")), SPARSE, NAMES),
    "h5ad": (lambda f: MatrixSection(path=h5ad(f / "x.h5ad")), SPARSE, NAMES),
    "h5ad by columns": (lambda f: MatrixSection(path=h5ad(f / "x.h5ad", layer="csc")), SPARSE, NAMES),
    "h5ad obsm": (lambda f: MatrixSection(path=h5ad(f / "x.h5ad"), key="obsm/X_pca"), X, NAMES),
}


def values(block):
    return block.toarray() if sp.issparse(block) else block


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_gives_the_rows_and_names_that_it_holds(name, tmp_path):
    make, expected, names = FORMATS[name]
    section = make(tmp_path)
    matrix, size = open_matrix(section), matrix_size(section)
    assert matrix.shape == (N, D)
    assert not size.exact or (size.rows.n_rows, size.rows.n_columns) == (N, D)
    assert size.exact == (name != "vectors")
    assert size.rows.is_sparse == matrix.is_sparse == sp.issparse(expected)
    assert matrix.names() == names or list(matrix.names()) == names
    rows = row_array(matrix, [0, 7, 8, N], dense=False, need_direction=False)
    assert rows.chunks[0] == (7, 1, N - 8)
    found = [values(rows.blocks[i].compute()) for i in range(3)]
    np.testing.assert_array_equal(np.concatenate(found), values(expected).astype(rows.dtype))


def test_only_the_rows_asked_for_are_read(tmp_path, monkeypatch):
    """A row range of an npy file or a CSR group costs its own bytes."""
    matrix = open_matrix(MatrixSection(path=npy(tmp_path / "x.npy")))
    assert matrix.held is None
    (tmp_path / "x.npy").write_bytes((tmp_path / "x.npy").read_bytes()[: 128 + 16 * 4])
    np.testing.assert_array_equal(matrix.read(1, 4), X[1:4])


def test_small_whole_numbers_stay_exact_in_float32(tmp_path):
    whole = np.arange(N * D, dtype=np.int16).reshape(N, D)
    for dtype, stored in ((np.int16, np.float32), (np.int64, np.float64), (np.float16, np.float32)):
        matrix = open_matrix(MatrixSection(path=npy(tmp_path / "x.npy", whole.astype(dtype))))
        rows = row_array(matrix, [0, N], dense=False, need_direction=False)
        assert rows.dtype == stored
        np.testing.assert_array_equal(rows.compute(), whole)


def with_value(row, column, value):
    changed = X.copy()
    changed[row, column] = value
    return changed


def cut(path: str) -> str:
    data = Path(path).read_bytes()
    Path(path).write_bytes(data[: len(data) // 2])
    return path


FAULTS = {
    "short npy": (lambda f: {"path": cut(npy(f / "x.npy"))}, "ends .* bytes before its 23 rows do"),
    "short npz": (lambda f: {"path": cut(npz(f / "x.npz"))}, "cannot be read as an npz file"),
    "short parquet": (
        lambda f: {"path": cut(parquet(f / "x.parquet", named_columns()))},
        "cannot be read as a Parquet file",
    ),
    "short h5ad": (lambda f: {"path": cut(h5ad(f / "x.h5ad"))}, "cannot be read as an HDF5 file"),
    "no key": (lambda f: {"path": anndata_zarr(f / "x.zarr"), "key": "Y"}, "nothing under 'Y'.* obsm/X_pca"),
    "a table as key": (lambda f: {"path": h5ad(f / "x.h5ad"), "key": "obs"}, "no matrix"),
    "one dimension": (lambda f: {"path": npy(f / "x.npy", X[0])}, r"the shape \(4,\)"),
    "text": (lambda f: {"path": npy(f / "x.npy", X.astype("U5"))}, "give numbers"),
    "no column": (
        lambda f: {"path": parquet(f / "x.parquet", named_columns()), "columns": ("e",)},
        "no column 'e'",
    ),
    "cut Matrix Market": (lambda f: {"path": cut(mtx(f / "x.mtx"))}, "cannot be read as Matrix Market"),
    "two matrices": (lambda f: {"path": _two(f / "x.npz")}, "set input.key"),
    "NaN": (lambda f: {"path": npy(f / "x.npy", with_value(9, 2, np.nan))}, "row 9, column 2 .* holds nan"),
    "infinity in a list": (
        lambda f: {"path": parquet(f / "x.parquet", {"v": list(with_value(20, 0, np.inf))})},
        "row 20, column 0 .* holds inf",
    ),
    "no value": (
        lambda f: {"path": parquet(f / "x.parquet", {"c": pa.array([1.0] * 7 + [None]), "d": [1.0] * 8})},
        "row 7 .* no value in 'c'",
    ),
    "ragged lists": (
        lambda f: {"path": parquet(f / "x.parquet", {"v": [[1.0, 2.0], [3.0]]})},
        "row 1 .* has 1 values in 'v', and row 0 has 2",
    ),
    "objects": (lambda f: {"path": _objects(f / "x.npz")}, "cannot be read as an npz file"),
    "a key without use": (lambda f: {"path": npy(f / "x.npy"), "key": "X"}, "no use for input.key"),
    "a folder": (lambda f: {"path": str(f)}, "a folder, and neither a Zarr store nor a workspace"),
    "no X": (lambda f: {"path": _without_x(f / "x.zarr")}, "holds no array X: set input.key to one of Y"),
    "rows that fall": (lambda f: {"path": _sparse(f, "indptr", 3, -1)}, "non-decreasing"),
    "too few rows": (
        lambda f: {"path": _sparse(f, "indptr", N, 999)},
        "do not belong together: write the file",
    ),
    "a column beside": (lambda f: {"path": _sparse(f, "indices", 3, 1000)}, "indices must be < 4"),
    "a column in csc": (lambda f: {"path": _sparse(f, "indices", 3, 1000, "csc")}, "indices must be < 23"),
    "a column in npz": (lambda f: {"path": _beside(f / "x.npz")}, "cannot be read as an npz file .* < 4"),
    "large chunks": (
        lambda f: {"path": _large_chunks(f / "x.zarr")},
        "read: write it again in smaller chunks",
    ),
    "no array of npz": (
        lambda f: {"path": npz(f / "x.npz"), "key": "Q"},
        "no array 'Q'; it holds 'words', 'M'",
    ),
    "complex Matrix Market": (lambda f: {"path": _complex(f / "x.mtx")}, "begins with .*: write it as"),
    "text of CSV": (
        lambda f: {"path": table(f / "x.csv"), "columns": ("id", "a")},
        "the columns 'id' hold no numbers: leave them out of input.columns",
    ),
    "CSV of text": (lambda f: {"path": _text_table(f / "x.csv")}, "no column of numbers; it has 'id', 'a'"),
    "text of Parquet": (
        lambda f: {"path": parquet(f / "x.parquet", named_columns()), "columns": ("id", "c0")},
        "set input.columns to one column of lists of numbers, or to columns of numbers",
    ),
    "lists of text": (
        lambda f: {"path": parquet(f / "x.parquet", {"v": [["x"]]}), "columns": ("v",)},
        "set input.columns to one column of lists of numbers",
    ),
    "no first list": (
        lambda f: {"path": parquet(f / "x.parquet", {"v": [None, [1.0]]})},
        "row 0 has no values in the column 'v': fill them in, or drop the row",
    ),
    "no rows": (
        lambda f: {"path": parquet(f / "x.parquet", {"v": pa.array([], pa.float64())})},
        "has no rows: give",
    ),
    "no value in a list": (
        lambda f: {"path": parquet(f / "x.parquet", {"v": [[1.0, 2.0], [3.0, None]]})},
        "row 1 .* misses a value in 'v': fill it in",
    ),
    "zeros": (lambda f: {"path": npy(f / "x.npy", with_value(4, slice(None), 0))}, "row 4 .* no cosine"),
}


def _objects(path: Path) -> str:
    np.savez(path, A=np.array([[1, "x"]], dtype=object))
    return str(path)


def _without_x(path: Path) -> str:
    zarr.open_group(path, mode="w").create_array("Y", data=X)
    return str(path)


def _sparse(folder: Path, part: str, place: int, number: int, layout: str = "csr") -> str:
    """Write a sparse matrix with one of its indices changed: SciPy would write beside its arrays."""
    matrix = sp.csr_array(X) if layout == "csr" else sp.csc_array(X)
    getattr(matrix, part)[place] = number
    group = zarr.open_group(folder / "x.zarr", mode="w").create_group("X")
    group.attrs.update({"encoding-type": f"{layout}_matrix", "shape": [N, D]})
    for name in ("data", "indices", "indptr"):
        group.create_array(name, data=getattr(matrix, name))
    return str(folder / "x.zarr")


def _beside(path: Path) -> str:
    sp.save_npz(path, SPARSE)
    arrays = dict(np.load(path))
    arrays["indices"][3] = 1000
    np.savez(path, **arrays)
    return str(path)


def _large_chunks(path: Path) -> str:
    zarr.create_array(str(path), shape=(1 << 20, 1 << 10), chunks=(1 << 20, 1 << 10), dtype="f4")
    return str(path)


def _complex(path: Path) -> str:
    scipy.io.mmwrite(path, SPARSE.astype(complex))
    return str(path)


def _text_table(path: Path) -> str:
    path.write_text("id,a\nu,x\nv,y\n")
    return str(path)


def _two(path: Path) -> str:
    np.savez(path, A=X, B=X)
    return str(path)


def _read_whole(section: MatrixSection) -> None:
    matrix = open_matrix(section)
    bounds = [0, matrix.shape[0] // 2, matrix.shape[0]]
    row_array(matrix, bounds, dense=False, need_direction=True).compute()


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_one_sentence_with_its_place(name, tmp_path):
    make, sentence = FAULTS[name]
    section = MatrixSection(**make(tmp_path))
    with pytest.raises(MatrixError, match=sentence):
        _read_whole(section)


def test_a_list_of_names_has_as_many_lines_as_the_matrix_rows(tmp_path):
    (tmp_path / "names.txt").write_text("\n".join(NAMES[:-1]))
    section = MatrixSection(path=npy(tmp_path / "x.npy"), names=str(tmp_path / "names.txt"))
    with pytest.raises(MatrixError, match="22 lines, and the matrix 23 rows"):
        open_matrix(section).names()
    (tmp_path / "names.txt").write_text("\n".join(NAMES))
    assert open_matrix(section).names() == NAMES


def test_a_column_of_text_that_repeats_holds_no_names(tmp_path):
    columns = {"city": ["Ulm", "Bonn"] * 4, "id": list("abcdefgh"), "x": np.arange(8.0), "y": np.ones(8)}
    text = "city,id,x,y\n" + "".join(
        ",".join(map(str, row)) + "\n" for row in zip(*columns.values(), strict=True)
    )
    (tmp_path / "x.csv").write_text(text)
    for path in (parquet(tmp_path / "x.parquet", columns), str(tmp_path / "x.csv")):
        matrix = open_matrix(MatrixSection(path=path))
        assert list(matrix.names()) == list("abcdefgh")
        assert matrix.note == f"{path}: the matrix is 2 columns ('x', 'y'), the names are in 'id'"
        assert open_matrix(MatrixSection(path=path, name_column="city")).names()[:2] == ["Ulm", "Bonn"]


class Payload:
    """What runs where it is unpickled."""

    def __init__(self, place: Path) -> None:
        self.place = place

    def __reduce__(self):
        return (os.mkdir, (str(self.place),))


def pickled_array(place: Path, shape: list[int], payload: Path) -> None:
    """Write an array of Zarr's second format whose chunk is unpickled by numcodecs before 0.16.6."""
    filters = [{"id": "vlen-utf8"}, {"id": "pickle", "protocol": 5}]
    head = {
        "zarr_format": 2,
        "dtype": "|O",
        "compressor": None,
        "fill_value": None,
        "order": "C",
        "filters": filters,
    }
    place.mkdir()
    (place / ".zarray").write_text(json.dumps({**head, "shape": shape, "chunks": shape}))
    (place / ".".join("0" * len(shape))).write_bytes(pickle.dumps(Payload(payload)))


@pytest.mark.parametrize("place", ["X", "obs/_index"])
def test_no_codec_of_a_stranger_unpickles(tmp_path, monkeypatch, place):
    monkeypatch.setattr(numcodecs.pickles, "ALLOW_UNSAFE_PICKLE_DECODE", True)
    root = zarr.open_group(tmp_path / "x.zarr", mode="w", zarr_format=2)
    if place == "obs/_index":
        root.create_array("X", data=X)
        root.create_group("obs").attrs["_index"] = "_index"
    shape = [N, D] if place == "X" else [N]
    pickled_array(tmp_path / "x.zarr" / place, shape, tmp_path / "ran")
    with pytest.raises(MatrixError, match="with vlen-utf8, pickle"):
        open_matrix(MatrixSection(path=str(tmp_path / "x.zarr"))).names()
    assert not (tmp_path / "ran").exists()


CODECS = {
    "gzip": {"compressors": GzipCodec()},
    "zstd": {"compressors": ZstdCodec()},
    "blosc": {"compressors": BloscCodec()},
    "shards": {"shards": (20, 4), "compressors": GzipCodec()},
    "gzip 2": {"compressors": numcodecs.GZip(), "zarr_format": 2},
    "lz4 2": {"compressors": numcodecs.LZ4(), "zarr_format": 2},
    "bz2 2": {"compressors": numcodecs.BZ2(), "zarr_format": 2},
    "lzma 2": {"compressors": numcodecs.LZMA(), "zarr_format": 2},
}


@pytest.mark.parametrize("name", CODECS)
def test_a_chunk_unpacks_to_what_its_array_says(name, tmp_path):
    """A chunk of few bytes that unpacks to many is refused before it is unpacked."""
    place = str(tmp_path / "x.zarr")
    options = {"chunks": (5, 2), **CODECS[name]}
    zarr.create_array(place, data=X, **options)
    matrix = open_matrix(MatrixSection(path=place))
    np.testing.assert_array_equal(matrix.read(0, N), X)
    np.testing.assert_array_equal(matrix.read(3, 9), X[3:9])
    zarr.create_array(
        str(tmp_path / "large.zarr"),
        data=np.ones((40, 4000), np.float32),
        **options | {"chunks": (5, 4000)} | ({"shards": (20, 4000)} if name == "shards" else {}),
    )
    chunk = "0.0" if "2" in name.split() else "c/0/0"
    bomb = (tmp_path / "large.zarr" / chunk).read_bytes()
    if name == "shards":  # an index of as many chunks
        bomb = shard_of(bomb, n_chunks=8)
    (tmp_path / "x.zarr" / chunk).write_bytes(bomb)
    for start, stop in ((0, 5), (0, N)):
        with pytest.raises(MatrixError, match="would unpack to"):
            matrix.read(start, stop)


def shard_of(shard: bytes, n_chunks: int) -> bytes:
    """Return a shard of so many chunks, each the first one of another shard."""
    (start, length), *_ = np.frombuffer(shard[-16 * 4 - 4 : -4], "<u8").reshape(-1, 2).tolist()
    index = np.tile(np.array([0, length], "<u8"), n_chunks).tobytes()
    return shard[start : start + length] + index + crc32c(index).to_bytes(4, "little")


@pytest.mark.parametrize("kind", ["external", "virtual", "link"])
def test_no_hdf5_file_takes_values_from_another_file(kind, tmp_path):
    h5py = pytest.importorskip("h5py")
    X.tofile(tmp_path / "secret.bin")
    with h5py.File(tmp_path / "other.h5", "w") as file:
        file["X"] = X
    with h5py.File(tmp_path / "x.h5", "w") as file:
        if kind == "external":
            file.create_dataset(
                "X", shape=X.shape, dtype="f4", external=[(str(tmp_path / "secret.bin"), 0, X.nbytes)]
            )
        elif kind == "virtual":
            layout = h5py.VirtualLayout(X.shape, "f4")
            layout[:] = h5py.VirtualSource(str(tmp_path / "other.h5"), "X", X.shape)
            file.create_virtual_dataset("X", layout)
        else:
            file["X"] = h5py.ExternalLink(str(tmp_path / "other.h5"), "X")
    with pytest.raises(MatrixError, match="from another file"):
        open_matrix(MatrixSection(path=str(tmp_path / "x.h5")))


def test_a_small_file_that_unpacks_to_a_large_matrix_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "UNPACKED_BYTES", 1 << 20)
    monkeypatch.setattr(files, "UNPACKED_RATIO", 50)
    monkeypatch.setattr("distembed.formats.parquet.BATCH_BYTES", 1 << 20)
    zeros = np.zeros((1 << 18, 4), np.float32)
    np.savez_compressed(tmp_path / "x.npz", M=zeros)
    sp.save_npz(tmp_path / "sparse.npz", sp.csr_array(np.ones((1 << 10, 1 << 10), np.int8)))
    pq.write_table(
        pa.table({"name": ["a" * (1 << 10)] * (1 << 12), "x": range(1 << 12)}), tmp_path / "x.parquet"
    )
    for name in ("x.npz", "sparse.npz", "x.parquet"):
        with pytest.raises(BombError, match="unpack to"):
            open_matrix(MatrixSection(path=str(tmp_path / name)))


def test_a_head_of_numpy_with_a_negative_number_of_rows_is_refused(tmp_path):
    data = Path(npy(tmp_path / "x.npy")).read_bytes()
    (tmp_path / "x.npy").write_bytes(data.replace(b"(23, 4)", b"(-1, 4)"))
    with pytest.raises(MatrixError, match=r"the shape \(-1, 4\)"):
        open_matrix(MatrixSection(path=str(tmp_path / "x.npy")))
