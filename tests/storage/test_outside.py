"""A stranger's workspace: whatever its records, its lock and its links say, nothing outside of it is touched."""

import contextlib
import json
import shutil
import tempfile
import tracemalloc
from pathlib import Path

import dask
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from distembed.storage import lock
from distembed.storage.folder import Folder
from distembed.storage.records import (
    Begun,
    DamagedError,
    ManifestError,
    OutsideError,
    StageManifest,
    loaded,
    seal,
)
from distembed.storage.verify import header_text
from distembed.storage.workspace import Workspace
from tests.references.checksums import crc32c
from tests.storage.examples import META, dense_array, keep_state, store_all, write_item, writing

OUTSIDE = (
    "../victim",
    "/VICTIM",
    "..",
    ".",
    "x/../../victim",
    "arrays.zarr/../../victim",
    "C:/victim",
    "",
    "x\0",
)


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    """Return a folder with a workspace of two stages, one committed, and a folder that is none of its business."""
    home = tmp_path_factory.mktemp("home")
    for name in ("keep.txt", "000000/keep.txt", "dense/keep.txt"):
        (home / "victim" / name).parent.mkdir(parents=True, exist_ok=True)
        (home / "victim" / name).write_text("mine")
    (home / "victim.parquet").write_text("mine")
    with Workspace.create(home / "ws", owner="stranger") as workspace:
        stage = store_all(workspace)
        stage.commit()
        begun = workspace.stage("b", parameters={}, inputs={"a": stage.fingerprint})
        begun.store("half", dense_array(), **META)
        keep_state(begun, "round", dense_array())
        kept = (home / "ws/lock.json").read_bytes()
    (home / "ws/lock.json").write_bytes(kept)
    return home


def contents(home):
    """Return every file of a folder that lies outside its workspace."""
    files = (path for path in home.rglob("*") if path.is_file() and (home / "ws") not in path.parents)
    return {str(path.relative_to(home)): path.read_bytes() for path in files}


def leaves(value, path=()):
    """Yield the place of every entry of a JSON document."""
    if path:
        yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield from leaves(inner, (*path, key))


def changed(document, path, value, *, key):
    *way, last = path
    place = document
    for step in way:
        place = place[step]
    if key and isinstance(place, dict) and isinstance(value, str):
        place[value] = place.pop(last)
    else:
        place[last] = value
    return document


def unsealed(home, name="manifest/a.json"):
    """Return what a record of a workspace says, without its seal."""
    body = json.loads((home / "ws" / name).read_bytes())
    body.pop("seal", None)
    return body


def sealed(body):
    return seal(json.dumps(body).encode())


def use(root):
    """Do everything with a workspace that writes or removes."""
    with Workspace.create(root, owner="victim") as workspace, dask.config.set(scheduler="sync"):
        workspace.verify()
        stage = workspace.stage("a", parameters={"scale": 1}, inputs={})
        stage.reopen()
        store_all(workspace).commit()
        store_all(workspace, scale=2).commit()


def check_nothing_outside_is_touched(home):
    before = contents(home)
    with contextlib.suppress(OSError, ValueError):  # a refusal is one sentence of these kinds
        use(home / "ws")
    assert contents(home) == before


values = st.sampled_from(OUTSIDE) | st.none() | st.booleans() | st.integers() | st.text(max_size=5)
values = values | st.lists(values, max_size=2) | st.dictionaries(st.sampled_from(OUTSIDE), values, max_size=2)


@settings(max_examples=8, deadline=None)
@given(st.randoms(use_true_random=False), values, st.booleans())
@example(None, "../victim", False)
def test_nothing_outside_is_touched_whatever_a_record_says(template, rng, value, key):
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as folder:
        patch.setattr(lock, "POLL_SECONDS", 0.01)
        patch.setattr(lock, "STALE_SECONDS", 0.01)
        home = Path(folder) / "home"
        shutil.copytree(template, home)
        records = [home / "ws/lock.json", home / "ws/workspace.json", *home.glob("ws/manifest/a.json")]
        records += home.glob("ws/journal/**/*.json")
        file = home / "ws/manifest/a.json" if rng is None else rng.choice(sorted(records))
        body = unsealed(home, file.relative_to(home / "ws"))
        path = ("outputs", "dense", "spec", "name") if rng is None else rng.choice(list(leaves(body)))
        if isinstance(value, str):
            value = value.replace("/VICTIM", f"{home}/victim")
        body = changed(body, path, value, key=key)
        is_lock = file.name == "lock.json"
        file.write_bytes(json.dumps(body).encode() if is_lock else sealed(body))
        (home / "ws/manifest/copies/a.json").unlink()
        check_nothing_outside_is_touched(home)


@pytest.fixture
def home(template, tmp_path):
    """Return a copy of the template that nobody writes."""
    home = shutil.copytree(template, tmp_path / "home")
    (home / "ws/lock.json").unlink()
    return home


def link_out(home, name):
    """Move a file or folder of a workspace out of it, and leave a link in its place."""
    place = home / "ws" / name
    shutil.move(place, home / "moved")
    place.symlink_to(home / "moved")
    return place


@pytest.mark.parametrize(
    "link", ["arrays.zarr", "manifest", "manifest/copies", "journal", "report", "tokens"]
)
def test_links_to_folders_are_not_followed(home, link):
    place = link_out(home, link)
    before = contents(home)
    with pytest.raises(OutsideError, match="symbolic link"):
        Folder.at(home / "ws").writable(f"{link}/x")
    if link not in ("report", "tokens"):
        with pytest.raises(
            OutsideError, match=f"{place} is a symbolic link to .* put the file or folder itself"
        ):
            Workspace.open(home / "ws")
    with pytest.raises(OutsideError, match=f"{place} is a symbolic link"):
        use(home / "ws")
    assert contents(home) == before


@pytest.mark.parametrize(
    "link", ["arrays.zarr/dense", "arrays.zarr/sparse/000002", "tokens/000001", "arrays.zarr/dense/c/1/0"]
)
def test_links_are_replaced_or_removed_and_what_they_lead_to_is_left(home, link):
    place = link_out(home, link)
    before = contents(home)
    use(home / "ws")
    assert contents(home) == before
    assert not place.is_symlink()


def test_a_plain_file_replaces_a_link_and_the_workspace_itself_may_be_one(tmp_path):
    (tmp_path / "victim").write_text("mine")
    (tmp_path / "disk").mkdir()
    (tmp_path / "ws").symlink_to(tmp_path / "disk")
    with Workspace.create(tmp_path / "ws", owner="test") as workspace:
        (tmp_path / "disk/report").mkdir()
        for name in ("job.toml", "report/more.html"):
            (tmp_path / "ws" / name).symlink_to(tmp_path / "victim")
            workspace.write_file(name, b"new")
            assert (tmp_path / "ws" / name).read_bytes() == b"new"
        store_all(workspace).commit()
        assert workspace.verify() == []
    assert (tmp_path / "disk/manifest/a.json").exists()
    assert (tmp_path / "victim").read_text() == "mine"


@pytest.mark.parametrize("name", [name for name in OUTSIDE if name] + ["x\\y", "/etc/x", "a//b"])
def test_a_folder_refuses_names_that_lead_out_of_it(tmp_path, name):
    for folder in (Folder.at(tmp_path / "ws"), Folder.at("memory://ws")):
        for call, *more in (
            (folder.write, b"x"),
            (folder.create, b"x"),
            (folder.remove,),
            (folder.read,),
            (folder.writable,),
            (folder.record,),
            (folder.path,),
        ):
            with pytest.raises(OutsideError, match="names inside are relative"):
                call(name, *more)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("stage",), "b/c"),
        (("outputs", "dense", "spec", "name"), "../victim"),
        (("outputs", "dense", "spec", "name"), "sparse"),
        (("outputs", "dense", "spec", "stage"), "a/b"),
        (("outputs", "words", "spec", "kind"), "folder"),
        (("outputs", "dense", "spec", "row_blocks"), [12, -1]),
        (("outputs", "dense", "blocks", 0, "files"), {"arrays.zarr/dense/c/01": [1, "x"]}),
        (("outputs", "dense", "spec", "shape"), []),
        (("outputs", "sparse", "spec", "shape"), [12]),
        (("outputs", "dense", "spec", "dtype"), "evil"),
        (("outputs", "dense", "spec", "dtype"), "|O8"),
        (("outputs", "dense", "blocks", 0, "index"), 1),
        (("outputs", "dense", "spec", "row_blocks"), [4, 1, 7]),
        (("outputs", "tokens", "blocks", 0, "key"), "../x"),
        (("outputs", "sparse", "blocks", 0, "summary", "n_values"), -1),
        (("outputs", "sparse", "blocks", 0, "summary", "index_dtype"), "|O8"),
        *((("inputs",), inputs) for inputs in ({"../b": "x"}, None)),
        *((("made_with",), made_with) for made_with in ({"numpy": 2}, None)),
        (("fingerprint",), 1),
        (("parameters",), []),
        (("input_digests",), {"x": None}),
        (("more",), 1),
    ],
)
def test_a_record_is_read_only_if_each_name_and_value_is_one_of_its_place(template, path, value):
    for name, kind in (("manifest/a.json", StageManifest), ("journal/b/stage.json", Begun)):
        body = unsealed(template, name)
        assert loaded(sealed(body), kind, name)
        if path[0] != "outputs" or kind is StageManifest:
            with pytest.raises(ManifestError, match="is not what this package writes"):
                loaded(sealed(changed(body, path, value, key=False)), kind, name)


def stored(home):
    """Make a workspace with a dense and a sparse array, and return the folder of its arrays."""
    with Workspace.create(home / "ws", owner="stranger") as workspace, dask.config.set(scheduler="sync"):
        store_all(workspace).commit()
    return home / "ws/arrays.zarr"


def test_what_other_heads_say_of_a_block_changes_nothing(tmp_path):
    """A head may say that chunks are pickled, packed by Gzip, or terabytes large: no library reads it for us."""
    place = stored(tmp_path)
    workspace = Workspace.open(tmp_path / "ws")
    dense, counts = workspace.array("dense").compute(), workspace.array("sparse").compute()
    lies = {"shape": [1 << 40, 1 << 40], "codecs": [{"name": "pickle"}], "fill_value": 10**400}
    lies |= {"dimension_names": [["x"], "y"]}
    heads = list(place.rglob("zarr.json"))
    for head in heads:
        head.write_text(json.dumps(json.loads(head.read_text()) | lies))
    (place / "dense/.zarray").write_text(json.dumps({"zarr_format": 2, **lies}))
    np.testing.assert_array_equal(workspace.array("dense").compute(scheduler="sync"), dense)
    assert (workspace.array("sparse").compute(scheduler="sync") != counts).nnz == 0
    named = {tmp_path / "ws" / problem.file for problem in workspace.verify()}
    assert named == {*heads, place / "dense/.zarray"}


@pytest.mark.parametrize("name", ["dense/c/0/0", "sparse/000001/data/c/0"])
def test_a_chunk_of_another_size_than_its_block_is_not_unpacked(tmp_path, name):
    """A stranger's chunk and the records of it may fit each other."""
    chunk = stored(tmp_path) / name
    data = bytearray(chunk.read_bytes())
    if name.startswith("dense"):
        del data[4:8]
    else:
        data[4:8] = (1 << 30).to_bytes(4, "little")  # what Blosc says the chunk unpacks to
    data[-4:] = crc32c(bytes(data[:-4])).to_bytes(4, "little")
    chunk.write_bytes(data)
    body, file = unsealed(tmp_path), f"arrays.zarr/{name}"
    for block in body["outputs"][name.partition("/")[0]]["blocks"]:
        if file in block["files"]:
            block["files"][file] = list(Folder.at(tmp_path / "ws").record(file))
    (tmp_path / "ws/manifest/a.json").write_bytes(sealed(body))
    with pytest.raises(DamagedError, match=r"holds [\d,]+ bytes in place of [\d,]+"):
        Workspace.open(tmp_path / "ws").array(name.partition("/")[0]).compute(scheduler="sync")


def test_a_record_takes_no_more_memory_than_it_has_bytes(tmp_path):
    stored(tmp_path)
    Workspace.open(tmp_path / "ws").stages()
    tracemalloc.start()
    Workspace.open(tmp_path / "ws").stages()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1 << 20


# --- the files of the user ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mine", "content"),
    [
        ("tokens/000000/part.txt", header_text()),
        ("report/index.html", b"\0\0"),
        ("arrays/x", header_text()),
        ("words.parquet", b"\0\0"),
    ],
)
def test_a_planted_first_file_vouches_for_no_folder(tmp_path, mine, content):
    """A stranger may send a folder, or a part of one, with a file that says that it is a workspace."""
    (tmp_path / mine).parent.mkdir(exist_ok=True, parents=True)
    (tmp_path / mine).write_text("mine")
    (tmp_path / "workspace.json").write_bytes(content)
    with pytest.raises(FileExistsError, match="is no workspace and holds other things"):
        use(tmp_path)
    assert (tmp_path / mine).read_text() == "mine"
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(["workspace.json", Path(mine).parts[0]])


def test_what_the_user_puts_where_a_stranger_s_record_names_an_output_is_left(tmp_path):
    """Only files named as items, folders of outputs, and files that are what was announced are the workspace's."""
    place = tmp_path / "ws"
    with writing(place) as (_, stage):
        stage.store_files("src", 2, write_item)
        for name in ("notes", "notes.txt"):
            stage.store_bytes(name, b"Nine titles.")
        stage.store_table("words", pa.table({"word": ["a", "b"]}))
        stage.store_bytes("other.txt", b"x")
        stage.commit()
    (place / "src/main.c").write_text("mine")
    (place / "src/000009").mkdir()
    (place / "src/000009/part.txt").write_text("stray")
    (place / "notes").unlink()
    (place / "notes").mkdir()
    (place / "notes/mine.txt").write_text("mine")
    (place / "notes.txt").write_text("My own notes.")
    pq.write_table(pa.table({"mine": [1]}), place / "words.parquet")
    mine = {"src/main.c", "notes/mine.txt", "notes.txt", "words.parquet"}
    before = {name: (place / name).read_bytes() for name in mine}
    with Workspace.create(place, owner="victim") as workspace:
        assert [problem.file for problem in workspace.repaired] == ["src/000009/part.txt"]
        workspace.stage("a", parameters={"other": 1}, inputs={}).commit()
    left = {str(path.relative_to(place)) for path in place.rglob("*") if path.is_file()}
    assert left == {*mine, "workspace.json", "manifest/a.json", "manifest/copies/a.json"}
    assert {name: (place / name).read_bytes() for name in mine} == before
