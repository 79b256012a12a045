"""Records and CSR blocks survive the trip through JSON and Zarr, whatever they hold."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import fsspec
import numpy as np
import pytest
from fsspec import AbstractFileSystem
from fsspec.implementations.memory import MemoryFileSystem
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import sparse

from distembed.storage import manifest, schema
from distembed.storage.blocks import canonical_csr, content_digest, index_dtype, read_block, write_block
from distembed.storage.folder import Folder
from distembed.storage.workspace import Workspace
from tests.storage.examples import store_all

DTYPES = st.sampled_from(["<f4", "<f8", "<i4", "<i8", "|u1", "|b1"])
SHAPES = hnp.array_shapes(min_dims=2, max_dims=2, min_side=0, max_side=6)


@settings(max_examples=25, deadline=None)
@given(DTYPES.flatmap(lambda dtype: hnp.arrays(dtype, SHAPES)), st.booleans())
def test_block_round_trip(values: np.ndarray, as_csr: bool) -> None:
    block = sparse.csr_array(values) if as_csr else values
    kind = "csr" if as_csr else "dense"
    rows = values.shape[0]
    output = schema.Output("s", "x", kind, (rows,), values.shape, values.dtype.str, ("i", "j"))
    with tempfile.TemporaryDirectory() as root:
        record = write_block(Folder.at(root), output, 0, rows, block)
        back = read_block(Folder.at(root), output, 0, rows)
        on_disk = {str(p.relative_to(root)) for p in Path(root).rglob("*") if p.is_file()}
    assert set(record.files) <= on_disk
    assert content_digest(back) == record.digest
    assert back.dtype == values.dtype
    got = back.toarray() if as_csr else back
    expected = block.toarray() if as_csr else values
    assert got.tobytes() == expected.tobytes()


@settings(max_examples=50, deadline=None)
@given(hnp.arrays("<f4", (3, 4)), hnp.arrays("<f4", (3, 4)))
def test_digest_tells_content_apart(one: np.ndarray, other: np.ndarray) -> None:
    assert (content_digest(one) == content_digest(other)) == (one.tobytes() == other.tobytes())
    assert content_digest(one) != content_digest(one.reshape(4, 3))
    assert content_digest(one) != content_digest(one.view("<i4"))


def test_canonical_csr_keeps_wide_indices_only_where_needed() -> None:
    wide = sparse.csr_array(
        (np.ones(2), np.array([3, 1], np.int64), np.array([0, 2], np.int64)), shape=(1, 5)
    )
    assert canonical_csr(wide, np.dtype(float)).indices.dtype == np.int32
    assert index_dtype((1, 2**31 - 1), 5) == np.int32
    assert index_dtype((1, 2**31), 5) == np.int64


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


@settings(max_examples=30, deadline=None)
@given(st.dictionaries(st.text().filter(lambda key: key != "seal"), JSON))
def test_seal_round_trip(body: dict[str, object]) -> None:
    assert schema.unseal(schema.seal(body), "file") == body


@settings(max_examples=50, deadline=None)
@given(st.data())
def test_any_flipped_bit_breaks_the_seal(data: st.DataObject) -> None:
    document = bytearray(schema.seal({"a": [1, 2.5, "x"], "b": {"c": None}}))
    position = data.draw(st.integers(0, len(document) - 1))
    document[position] ^= 1 << data.draw(st.integers(0, 7))
    with pytest.raises(schema.ManifestError, match="damaged"):
        schema.unseal(bytes(document), "file")


def test_manifest_round_trip_and_facts_outside_the_digest() -> None:
    output = schema.Output("s", "x", "dense", (1, 2), (3, 4), "<f4", ("i", "j"), "1", "meaning")
    blocks = (
        schema.BlockRecord(0, "d0", {"arrays.zarr/x/000000/c/0/0": schema.FileRecord(3, "e")}),
        schema.BlockRecord(1, "d1", {}, {"n": 2}),
    )
    record = schema.OutputRecord(output, blocks, {"arrays.zarr/x/zarr.json": schema.FileRecord(1, "h")})
    written = schema.StageManifest("s", "print", {"p": 1}, {"up": "q"}, {"x": record}, {"seconds": 1.5})
    back = schema.manifest_from_json(
        schema.unseal(schema.seal(schema.manifest_to_json(written)), "file"), "s"
    )
    assert back == written
    faster = schema.StageManifest("s", "print", {"p": 1}, {"up": "q"}, {"x": record}, {"seconds": 0.5})
    assert faster.digest == written.digest


def test_fingerprint_depends_on_name_parameters_and_inputs_but_not_on_their_order() -> None:
    base = schema.fingerprint("s", {"a": 1, "b": 2}, {"x": "1"})
    assert base == schema.fingerprint("s", {"b": 2, "a": 1}, {"x": "1"})
    others = [
        schema.fingerprint("t", {"a": 1, "b": 2}, {"x": "1"}),
        schema.fingerprint("s", {"a": 1, "b": 3}, {"x": "1"}),
        schema.fingerprint("s", {"a": 1, "b": 2}, {"x": "2"}),
    ]
    assert len({base, *others}) == 4


@pytest.mark.parametrize(
    "wrong",
    [
        {"fingerprint": 1},
        {"parameters": []},
        {"inputs": {"../x": "f"}},
        {"inputs": None},
        {"made_with": {"numpy": 2}},
        {"made_with": None},
        {"input_digests": {"x": None}},
    ],
)
def test_a_stage_begun_with_what_nobody_wrote_has_not_begun(tmp_path: Path, wrong: dict[str, object]) -> None:
    body = {"fingerprint": "f", "parameters": {}, "inputs": {"x": "f"}, "made_with": {}, "input_digests": {}}
    folder = Folder.at(tmp_path)
    folder.write(manifest.begun_file("a"), schema.seal(body))
    assert manifest.read_begun(folder, "a") == schema.Begun(**body, seconds=0.0)
    folder.write(manifest.begun_file("a"), schema.seal(body | wrong))
    assert manifest.read_begun(folder, "a") is None


def test_an_interrupted_stage_took_the_time_between_its_records(tmp_path: Path) -> None:
    with Workspace.create(tmp_path / "ws", owner="test") as workspace:
        store_all(workspace).commit()
        workspace.stage("b", parameters={"k": 2}, inputs={"a": "f"}).store_bytes("x", b"x")
    written = sorted(file for file in (tmp_path / "ws/manifest/b").rglob("*") if file.is_file())
    for seconds, file in enumerate(written):
        os.utime(file, (0, 1000 + seconds))
    found = Workspace.open(tmp_path / "ws").begun()
    assert list(found) == ["b"]
    assert (found["b"].parameters, found["b"].inputs) == ({"k": 2}, {"a": "f"})
    assert found["b"].seconds == len(written) - 1 > 1


class Remembering(MemoryFileSystem):
    """A store whose client answers from what it has listed before, as those of S3 and of Google do."""

    protocol = "remembering"
    store: ClassVar[dict[str, Any]] = {}
    pseudo_dirs: ClassVar[list[str]] = [""]

    @classmethod
    def _strip_protocol(cls, path: str) -> Any:
        return super()._strip_protocol(path.replace("remembering://", "memory://"))

    find = AbstractFileSystem.find

    def ls(self, path: str, detail: bool = True, **options: Any) -> list[Any]:
        if path not in self.dircache:
            self.dircache[path] = super().ls(path, detail=True)
        return [entry if detail else entry["name"] for entry in self.dircache[path]]

    def invalidate_cache(self, path: str | None = None) -> None:
        self.dircache.clear()


def test_a_store_is_asked_again_for_what_another_process_may_have_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("DISTEMBED_PROTOCOLS", "remembering")
    fsspec.register_implementation("remembering", Remembering, clobber=True)
    folder, elsewhere = Folder.at("remembering://ws"), Remembering(skip_instance_cache=True)
    lists = (folder.find, lambda: folder.directly_in("manifest"), lambda: folder.beginning("manifest/a"))
    for listed in lists:
        elsewhere.pipe_file("/ws/manifest/b.json", b"x")
        listed()
        elsewhere.pipe_file("/ws/manifest/a.json", b"x")
        assert "manifest/a.json" in listed()
        elsewhere.rm_file("/ws/manifest/a.json")


def test_what_vanishes_while_it_is_listed_is_absent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that commits renames partial files while readers list them."""
    folder, scandir = Folder.at(tmp_path), os.scandir

    @contextlib.contextmanager
    def renamed_meanwhile(path: str) -> Iterator[list[os.DirEntry[str]]]:
        with scandir(path) as entries:
            found = list(entries)
        for name in Path(path).iterdir():
            if name.suffix == ".partial":
                name.unlink()
        yield found

    monkeypatch.setattr(os, "scandir", renamed_meanwhile)
    lists = (folder.find, lambda: folder.directly_in("manifest"), lambda: folder.beginning("manifest/a"))
    for listed in lists:
        for name in ("manifest/a.json", "manifest/a.json.1.partial"):
            folder.write(name, b"x")
        (tmp_path / "manifest/a.link").unlink(missing_ok=True)
        (tmp_path / "manifest/a.link").symlink_to(tmp_path / "nowhere")
        assert sorted(listed()) == ["manifest/a.json", "manifest/a.link"]
    assert folder.directly_in("manifest/a.json") == []


def test_a_record_of_a_newer_format_is_told_from_a_damaged_one(tmp_path: Path) -> None:
    with Workspace.create(tmp_path / "ws", owner="test") as workspace:
        store_all(workspace).commit()
    path = next((tmp_path / "ws/manifest").glob("*.json"))
    body = schema.unseal(path.read_bytes(), "")
    newer = json.loads(schema.seal({**body, "version": schema.VERSION + 1}))
    for indent in (None, 4):  # a later format may be laid out otherwise
        path.write_bytes(json.dumps(newer, indent=indent).encode())
        for action in (workspace.stages, workspace.verify):
            with pytest.raises(schema.NewerFormatError, match="install a newer distembed"):
                action()
    path.write_bytes(schema.seal(body).replace(b'"version":1', b'"version":3'))
    assert [(problem.file, problem.what) for problem in workspace.verify()] == [
        (f"manifest/{path.name}", "flipped or damaged")
    ]


def test_an_input_is_named_as_a_stage_is(tmp_path: Path) -> None:
    """A record of a stage with another input would be read as damaged, and everything done be computed again."""
    with (
        Workspace.create(tmp_path / "ws", owner="test") as workspace,
        pytest.raises(ValueError, match=r"'texts/a\.txt' must not contain '/'"),
    ):
        workspace.stage("a", parameters={}, inputs={"texts/a.txt": "f"})
