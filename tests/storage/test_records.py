"""Records, listings and blocks survive the trip through JSON and a disk, whatever they hold."""

import contextlib
import json
import os
import tempfile
from pathlib import Path
from typing import Any, ClassVar

import fsspec
import pytest
from fsspec import AbstractFileSystem
from fsspec.implementations.memory import MemoryFileSystem
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import sparse

from distembed.storage import catalog, records
from distembed.storage.blocks import StoredBlock, read_block, write_block
from distembed.storage.catalog import Catalog, read_record
from distembed.storage.folder import Folder
from distembed.storage.records import Begun, ManifestError, dumped, loaded, seal, unseal
from distembed.storage.workspace import Workspace
from tests.storage.examples import store_all

DTYPES = st.sampled_from(["<f4", "<f8", "<i4", "<i8", "|u1", "|b1"])
SHAPES = hnp.array_shapes(min_dims=2, max_dims=2, min_side=0, max_side=6)


@settings(max_examples=25, deadline=None)
@given(DTYPES.flatmap(lambda dtype: hnp.arrays(dtype, SHAPES)), st.booleans(), st.booleans())
def test_block_round_trip(values, as_csr, temporary):
    block, rows = sparse.csr_array(values) if as_csr else values, values.shape[0]
    output = records.Output(
        stage="s", name="x", kind="csr" if as_csr else "dense", row_blocks=(rows,), shape=values.shape,
        dtype=values.dtype.str, dims=("i", "j"), temporary=temporary,
    )  # fmt: skip
    with tempfile.TemporaryDirectory() as root:
        folder = Folder.at(root)
        record = write_block(folder, output, 0, rows, block)
        again = write_block(folder, output, 0, rows, block)
        back = read_block(folder, output, StoredBlock(0, rows, record.files, record.summary))
        on_disk = {str(p.relative_to(root)) for p in Path(root).rglob("*") if p.is_file()}
    assert set(record.files) == on_disk
    assert again.digest == record.digest
    assert back.dtype == values.dtype
    got = back.toarray() if as_csr else back
    expected = block.toarray() if as_csr else values
    assert got.tobytes() == expected.tobytes()


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


@settings(max_examples=15, deadline=None)
@given(st.dictionaries(st.text(), JSON, min_size=1))
def test_seal_round_trip(body):
    document = seal(json.dumps(body).encode())
    assert json.loads(unseal(document, "file")) == body
    assert json.loads(document).keys() == {*body, "seal"}


@settings(max_examples=50, deadline=None)
@given(st.data())
def test_any_flipped_bit_breaks_the_seal(data):
    document = bytearray(seal(b'{"a":[1,2.5,"x"],"b":{"c":null}}'))
    position = data.draw(st.integers(0, len(document) - 1))
    document[position] ^= 1 << data.draw(st.integers(0, 7))
    with pytest.raises(ManifestError, match="damaged"):
        unseal(bytes(document), "file")


def manifest_of(**given):
    output = records.Output(
        stage="s", name="x", kind="dense", row_blocks=(2, 1), shape=(3, 4), dtype="<f4", dims=("i", "j")
    )
    files = ({"arrays.zarr/x/c/0/0": records.FileRecord(3, "e" * 40)}, {})
    blocks = tuple(records.Block(index=i, files=files[i], **given.get("block", {})) for i in range(2))
    record = records.OutputRecord(spec=output, blocks=blocks)
    return records.StageManifest(
        version=1, stage="s", fingerprint="print", parameters={"p": 1.5}, inputs={"up": "q"},
        outputs={"x": record}, facts=given.get("facts", {}), made_with=given.get("made_with", {}),
    )  # fmt: skip


@pytest.mark.parametrize(
    "given",
    [{"facts": {"seconds": 0.5}}, {"made_with": {"numpy": "2"}}, {"block": {"kernel": "k"}}],
)
def test_manifest_round_trip_and_what_is_outside_the_digest(given):
    written = manifest_of(**given)
    back = loaded(dumped(written), records.StageManifest, "file")
    assert back == written
    assert (back.kernels() == {"k": 2}) == ("block" in given)
    assert written.digest == manifest_of().digest != manifest_of(block={"summary": {"n": 1}}).digest


def test_fingerprint_depends_on_name_parameters_and_inputs_but_not_on_their_order():
    base = records.fingerprint("s", {"a": 1, "b": 2}, {"x": "1"})
    assert base == records.fingerprint("s", {"b": 2, "a": 1}, {"x": "1"})
    others = [
        ("t", {"a": 1, "b": 2}, {"x": "1"}),
        ("s", {"a": 1, "b": 3}, {"x": "1"}),
        ("s", {"a": 1, "b": 2}, {}),
    ]
    assert len({base, *(records.fingerprint(*other) for other in others)}) == 4


WRONG = [
    *({"inputs": inputs} for inputs in ({"../x": "f"}, None)),
    *({"made_with": made_with} for made_with in ({"numpy": 2}, None)),
    *({"fingerprint": 1}, {"parameters": []}, {"input_digests": {"x": None}}, {"more": 1}),
]


def test_a_stage_begun_with_what_nobody_wrote_has_not_begun(tmp_path):
    body = {"version": 1, "stage": "a", "fingerprint": "f", "parameters": {}, "inputs": {"x": "f"}}
    folder = Folder.at(tmp_path)
    folder.write(catalog.begun_file("a"), seal(json.dumps(body).encode()))
    assert read_record(folder, catalog.begun_file("a"), Begun) == Begun(**body)
    assert list(Catalog(folder, is_writer=False).begun()) == ["a"]
    for wrong in WRONG:
        folder.write(catalog.begun_file("a"), seal(json.dumps(body | wrong).encode()))
        assert Catalog(folder, is_writer=False).begun() == {}, wrong


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


def test_a_store_is_asked_again_for_what_another_process_may_have_written(
    monkeypatch,
):
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
