"""`Workspace.verify` names every kind of damage by its file."""

from __future__ import annotations

import shutil
from pathlib import Path

import dask.array as da
import numpy as np
import pyarrow as pa
import pytest

from distembed.storage import manifest as records
from distembed.storage import verify
from distembed.storage.folder import Folder
from distembed.storage.records import DamagedError, StageManifest
from distembed.storage.workspace import Workspace
from tests.storage.examples import META, dense_array, sparse_array, store_all, write_item


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("stored") / "ws"
    with Workspace.create(root, owner="test") as workspace:
        store_all(workspace).commit()
    return root


@pytest.fixture
def root(stored: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(stored, tmp_path / "ws"))


def found(root: Path) -> list[tuple[str, int, str, str]]:
    return [tuple(problem)[1:] for problem in Workspace.open(root).verify()]


@pytest.mark.parametrize(
    ("file", "output", "block"),
    [
        ("arrays.zarr/dense/000001/c/0/0", "dense", 1),
        ("arrays.zarr/dense/000001/zarr.json", "dense", 1),
        ("arrays.zarr/dense/zarr.json", "dense", -1),
        ("arrays.zarr/sparse/000002/data/c/0", "sparse", 2),
        ("arrays.zarr/sparse/000002/indices/c/0", "sparse", 2),
        ("arrays.zarr/sparse/000000/indptr/zarr.json", "sparse", 0),
        ("arrays.zarr/sparse/000000/zarr.json", "sparse", 0),
        ("words.parquet", "words", 0),
        ("report/index.html", "report/index.html", 0),
        ("tokens/part-000001.txt", "tokens", 1),
    ],
)
def test_damage_to_data(root: Path, file: str, output: str, block: int) -> None:
    data = (root / file).read_bytes()
    for position in (0, len(data) // 2, len(data) - 1):
        flipped = bytearray(data)
        flipped[position] ^= 4
        (root / file).write_bytes(flipped)
        assert found(root) == [(output, block, file, "flipped or damaged")]
    for length in (0, len(data) - 1):
        (root / file).write_bytes(data[:length])
        assert found(root) == [(output, block, file, "truncated")]
    (root / file).write_bytes(data + b"x")
    assert found(root) == [(output, block, file, "flipped or damaged")]
    (root / file).unlink()
    assert found(root) == [(output, block, file, "missing")]
    (root / file).write_bytes(data)
    assert found(root) == []


def test_deleted_chunk_of_zeros_is_missing_not_zeros(tmp_path: Path) -> None:
    import dask.array as da

    with Workspace.create(tmp_path / "ws", owner="test") as workspace:
        stage = workspace.stage("a", parameters={}, inputs={})
        stage.store("x", da.zeros((4, 3), chunks=(2, 3)), dims=("i", "j"), units="", meaning="")
        stage.commit()
    (tmp_path / "ws/arrays.zarr/x/000001/c/0/0").unlink()
    assert found(tmp_path / "ws") == [("x", 1, "arrays.zarr/x/000001/c/0/0", "missing")]
    with pytest.raises(OSError, match="missing"):
        Workspace.open(tmp_path / "ws").array("x").compute()


def test_a_block_that_decodes_to_other_values_than_were_stored_is_found(root: Path) -> None:
    folder = Folder.at(root)
    record = records.committed_output(folder, "dense")
    assert record is not None
    check = verify.checks(folder, record, decode=True)[-1]
    assert verify.check_block(check) == []
    other = check._replace(digest="0" * len(check.digest))  # as if Zarr read the same bytes in another way
    assert [problem.file for problem in verify.check_block(other)] == ["arrays.zarr/dense/000002"]
    assert verify.check_block(other._replace(decode=False)) == []


def test_swapped_chunks_are_found(root: Path) -> None:
    one, two = (root / f"arrays.zarr/dense/00000{i}/c/0/0" for i in (0, 2))
    first, second = one.read_bytes(), two.read_bytes()
    one.write_bytes(second)
    two.write_bytes(first)
    assert {problem[1] for problem in found(root)} == {0, 2}


@pytest.mark.parametrize(
    "file",
    [
        "arrays.zarr/dense/000001/c/0/1",
        "arrays.zarr/dense/000009/zarr.json",
        "arrays.zarr/stray",
        "tokens/part-000009.txt",
        "manifest/a/dense/blocks/000009.json",
        "arrays.zarr/dense/000001/c/0/0.abc.partial",
    ],
)
def test_extra_file(root: Path, file: str) -> None:
    (root / file).parent.mkdir(parents=True, exist_ok=True)
    (root / file).write_bytes(b"stray")
    [(_, _, name, what)] = found(root)
    assert (name, what) == (file, "unexpected file")


def test_files_beside_the_outputs_are_the_users_own(root: Path) -> None:
    (root / "notes.txt").write_text("mine")
    (root / "report/extra.css").write_text("mine")
    (root / "tokens/notes").write_text("mine")
    assert found(root) == []


@pytest.mark.parametrize("damage", [b"", b"{}", b"[]", b"not json", b"\xff\xfe"])
@pytest.mark.parametrize(
    "file", ["manifest/a.json", "manifest/a/stage.json", "manifest/a/dense/blocks/000001.json"]
)
def test_damaged_record(root: Path, file: str, damage: bytes) -> None:
    (root / file).write_bytes(damage)
    assert ("", -1, file, "flipped or damaged") in found(root)


def test_every_byte_of_a_manifest_counts(root: Path) -> None:
    file = root / "manifest/a.json"
    data = file.read_bytes()
    for position in np.linspace(0, len(data) - 1, 40).astype(int):
        flipped = bytearray(data)
        flipped[position] ^= 1
        file.write_bytes(flipped)
        assert "a" not in Workspace.open(root).stages()


def test_every_block_of_a_task_that_checks_many_is_judged(tmp_path: Path) -> None:
    n = 2 * verify.TASK_BLOCKS + 1

    def write(index: int, prefix: str) -> dict[str, int]:
        return {"n": Path(prefix + ".txt").write_text(str(index))}

    with Workspace.create(tmp_path / "ws", owner="test") as workspace:
        stage = workspace.stage("a", parameters={}, inputs={})
        stage.store_files("items", n, write)
        stage.commit()
    damaged = (0, verify.TASK_BLOCKS - 1, verify.TASK_BLOCKS, n - 1)
    for index in damaged:
        (tmp_path / f"ws/items/part-{index:06d}.txt").write_text("x")
    assert tuple(problem[1] for problem in found(tmp_path / "ws")) == damaged


def test_interrupted_stage_is_no_problem(root: Path) -> None:
    with Workspace.create(root, owner="test") as workspace:
        stage = workspace.stage("b", parameters={}, inputs={})
        stage.store_bytes("half", b"done")
        assert workspace.verify() == []
        assert sorted(workspace.stages()) == ["a"]


def test_progress_counts_the_blocks(root: Path) -> None:
    seen: list[tuple[int, int]] = []
    Workspace.open(root).verify(progress=lambda done, total: seen.append((done, total)))
    total = seen[-1][1]
    assert seen == [(done, total) for done in range(1, total + 1)]


def test_what_a_run_is_writing_is_no_problem_and_what_is_damaged_is_one(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run takes back one stage, drops, and begins another, all after `verify` has listed the files."""
    with Workspace.create(root, owner="test") as workspace:
        for name in ("b", "c"):  # "c" is also what Zarr calls the folder of an array's chunks
            stage = workspace.stage(name, parameters={}, inputs={})
            stage.states().store("kept", dense_array())
            stage.store_bytes(name, b"x")
            stage.commit()
    (root / "tokens/part-000001.txt").unlink()
    (root / "manifest/a/stage.json").write_bytes(b"{}")
    with Workspace.create(root, owner="writer") as workspace:
        (root / "arrays.zarr/half").write_bytes(b"being written")
        committed = records.committed

        def write_meanwhile(folder: Folder) -> dict[str, StageManifest]:
            found = committed(folder)
            monkeypatch.undo()
            workspace.stage("b", parameters={}, inputs={}).reopen([])
            (root / "b").unlink()
            workspace.drop_temporary("c")
            workspace.stage("d", parameters={}, inputs={}).store("new", dense_array(), **META)
            return found

        monkeypatch.setattr(records, "committed", write_meanwhile)
        assert [problem[2:] for problem in found(root)] == [
            ("manifest/a/stage.json", "flipped or damaged"),
            ("tokens/part-000001.txt", "missing"),
        ]
        assert workspace.writer().startswith("writer (process")


@pytest.mark.parametrize("name", ["dense", "sparse"])
def test_a_block_that_was_swapped_with_its_sibling_is_told_where_it_is_read(
    tmp_path: Path, name: str
) -> None:
    with Workspace.create(tmp_path / "ws", owner="test") as workspace:
        stage = workspace.stage("a", parameters={}, inputs={})
        values = np.arange(12, dtype=np.float32).reshape(6, 2)
        array = da.from_array(values, chunks=(3, 2)) if name == "dense" else sparse_array(values, (3, 3))
        stage.store(name, array, **META)
        stage.commit()
    swap(tmp_path / f"ws/arrays.zarr/{name}/000000", tmp_path / f"ws/arrays.zarr/{name}/000001")
    with pytest.raises(
        DamagedError, match=f"Block 0 of '{name}' .* is not the block .*'distembed run' writes it"
    ):
        Workspace.open(tmp_path / "ws").array(name).blocks[0].compute(scheduler="sync")


def test_a_table_or_file_that_was_swapped_is_told_where_it_is_read(tmp_path: Path) -> None:
    with Workspace.create(tmp_path / "ws", owner="test") as workspace:
        stage = workspace.stage("a", parameters={}, inputs={})
        for name in "xy":
            stage.store_table(f"table_{name}", pa.table({"word": [name]}))
            stage.store_bytes(f"{name}.txt", name.encode())
        stage.store_files("parts", 2, write_item)
        stage.commit()
    swap(tmp_path / "ws/parts/part-000000.txt", tmp_path / "ws/parts/part-000001.txt")
    swap(tmp_path / "ws/table_x.parquet", tmp_path / "ws/table_y.parquet")
    swap(tmp_path / "ws/x.txt", tmp_path / "ws/y.txt")
    workspace = Workspace.open(tmp_path / "ws")
    for read in (
        lambda: workspace.table("table_x"),
        lambda: list(workspace.batches("table_x")),
        lambda: workspace.read_bytes("x.txt"),
        lambda: workspace.files("parts"),
    ):
        with pytest.raises(
            DamagedError, match="is not the file that stage 'a' wrote: 'distembed run' writes it again"
        ):
            read()


def swap(one: Path, other: Path) -> None:
    one.rename(one.with_suffix(".kept"))
    other.rename(one)
    one.with_suffix(".kept").rename(other)


def test_the_last_time_that_all_was_whole_is_remembered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Workspace.create(tmp_path / "ws", owner="test") as workspace:
        store_all(workspace).commit()
    workspace = Workspace.open(tmp_path / "ws")
    assert workspace.verified() is None
    with monkeypatch.context() as patch:  # a workspace that may only be read is verified as well
        patch.setattr(Folder, "write", refuse_to_write)
        assert workspace.verify() == []
    assert workspace.verified() is None
    assert workspace.verify() == []
    assert workspace.verified()[1]
    with Workspace.create(tmp_path / "ws", owner="test") as again:
        store_all(again, scale=2).commit()
    assert not workspace.verified()[1]
    (tmp_path / "ws/words.parquet").write_bytes(b"")
    (tmp_path / "ws/verified.json").write_text("{}")
    assert workspace.verified() is None
    verify.remember(workspace._folder, "0")
    assert workspace.verified()
    assert workspace.verify()
    assert workspace.verified() is None


def refuse_to_write(*_: object, **__: object) -> None:
    raise PermissionError(13, "Permission denied")
