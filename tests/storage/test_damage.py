"""Whatever stands where a file should be: `verify` names it and goes on, readers refuse it, and a run repairs it."""

import contextlib
import ctypes
import errno
import os
import re
import shutil
import stat
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from distembed.storage import verify
from distembed.storage.folder import Folder
from distembed.storage.records import DamagedError
from distembed.storage.workspace import Workspace
from tests.storage.examples import (
    META,
    Calls,
    dense_array,
    flip,
    run_both,
    sparse_array,
    store_all,
    write_item,
    writing,
)


@contextlib.contextmanager
def bound_by_modes():
    """Let this thread, and those that it starts, read no file whose mode forbids it, as every user but root."""
    if os.geteuid() != 0 or sys.platform != "linux":
        yield
        return
    libc, head, sets = ctypes.CDLL(None), (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
    assert libc.capget(head, sets) == 0
    kept = sets[0]
    sets[0] &= ~0b110  # CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH
    assert libc.capset(head, sets) == 0
    try:
        yield
    finally:
        sets[0] = kept
        assert libc.capset(head, sets) == 0


def linked(path):
    moved = next(folder for folder in path.parents if folder.name == "copy").with_name("elsewhere")
    path.rename(moved)
    path.symlink_to(moved)


def replaced(make):
    def fault(path):
        path.unlink()
        make(path)

    return fault


def filled(path):
    path.mkdir()
    (path / "inside").write_text("x")


FAULTS: dict[str, tuple[Callable[[Path], object], str]] = {
    "flipped": (flip, verify.FLIPPED),
    "longer": (lambda path: path.write_bytes(path.read_bytes() + b"x"), verify.FLIPPED),
    "cut off": (lambda path: path.write_bytes(path.read_bytes()[:-1]), verify.TRUNCATED),
    "emptied": (lambda path: path.write_bytes(b""), verify.TRUNCATED),
    "deleted": (Path.unlink, verify.MISSING),
    "pipe": (replaced(os.mkfifo), verify.NO_FILE),
    "socket": (replaced(lambda path: os.mknod(path, stat.S_IFSOCK | 0o666)), verify.NO_FILE),
    "device": (replaced(lambda path: os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, 5))), verify.NO_FILE),
    "folder": (replaced(Path.mkdir), verify.NO_FILE),
    "full folder": (replaced(filled), verify.NO_FILE),
    "link to the same": (linked, verify.NO_FILE),
    "unreadable": (lambda path: path.chmod(0), verify.UNREADABLE),
}
KINDS = {
    "arrays.zarr/zarr.json": "",
    "arrays.zarr/dense/zarr.json": "",
    "arrays.zarr/dense/c/1/0": "dense 1",
    "arrays.zarr/sparse/zarr.json": "",
    "arrays.zarr/sparse/000001/zarr.json": "sparse 1",
    "arrays.zarr/sparse/000001/data/zarr.json": "sparse 1",
    "arrays.zarr/sparse/000001/indptr/c/0": "sparse 1",
    "words.parquet": "words 0",
    "report/index.html": "report/index.html 0",
    "tokens/000001/part-more.txt": "tokens 1",
    "manifest/a.json": "",
    "manifest/copies/a.json": "",
    "workspace.json": "",
}
"""A file of each kind, and the block that is made again where it is damaged."""


@pytest.mark.parametrize("fault", FAULTS)
def test_damage_to_any_file_is_named_and_repaired_and_nothing_else_made_again(two_stages, root, fault):
    """Each alone: what a damaged record names could be made again for that reason. A fourth of them is repaired."""
    spoil, what = FAULTS[fault]
    elsewhere = root.with_name("elsewhere")
    for number, (name, block) in enumerate(KINDS.items(), start=[*FAULTS].index(fault)):
        shutil.rmtree(root)
        shutil.copytree(two_stages[0], root)
        try:
            spoil(root / name)
        except PermissionError:
            pytest.skip("only root makes devices, and not in every container")
        calls, before = Calls(), times_of(root)
        with bound_by_modes():
            problems = Workspace.open(root).verify()
            inside = {f"{name}/inside"} if fault == "full folder" and is_own(name) else set()
            assert {p.file for p in problems} == {name, *inside}
            assert [(p.what, p.block) for p in problems if p.file == name] == [(what, block_number(block))]
            if number % 4:
                elsewhere.unlink(missing_ok=True)
                continue
            assert run_both(root, calls=calls) == (two_stages[1], []), name
        assert calls.blocks == ([1] if block == "dense 1" else []), name
        assert (root / name).is_file()
        assert not (root / name).is_symlink()
        changed = {other for other, time in times_of(root).items() if time != before.get(other)}
        made_again = (name, of_block(name) or name, "report/index.html", *RECORDS)  # which are at hand
        assert [other for other in changed if not other.startswith(made_again)] == []
        if elsewhere.exists():
            assert elsewhere.read_bytes() == (two_stages[0] / name).read_bytes()
            elsewhere.unlink()


def test_a_folder_that_may_not_be_listed_is_no_end_of_the_check(root):
    (root / "words.parquet").unlink()
    (root / "arrays.zarr/dense/c").chmod(0)
    with bound_by_modes():
        problems = Workspace.open(root).verify()
    (root / "arrays.zarr/dense/c").chmod(0o755)
    blocks = [p for p in problems if p.output == "dense"]
    assert {p.what for p in blocks} == {verify.UNREADABLE}
    assert len(blocks) == len(problems) - 1
    assert ("words.parquet", verify.MISSING) in {p[3:] for p in problems}


RECORDS = ("manifest/", "workspace.json", "arrays.zarr/zarr.json")


def block_number(block):
    return int(block.split()[1]) if block else -1


def is_own(name):
    """Return whether a stray file below a name is told from a file of the user."""
    return name.startswith(("arrays.zarr/", "manifest/", "tokens/"))


def of_block(name):
    """Return what is written again with a file."""
    found = re.match(r"arrays\.zarr/.*/(\d{6}|c/\d+)/|tokens/\d+/", name)
    return found[0] if found else ""


def times_of(root):
    files = sorted(path for path in root.rglob("*") if path.is_file())
    return {path.relative_to(root).as_posix(): path.lstat().st_mtime_ns for path in files}


def test_pipes_are_all_named_and_none_is_read(root):
    """It would never end; a device neither. `verify` once ended at the first."""
    data = ["arrays.zarr/dense/c/1/0", "words.parquet", "report/index.html"]
    for name in data:
        FAULTS["pipe"][0](root / name)
    workspace = Workspace.open(root)
    for read in (
        lambda: workspace.array("dense").compute(scheduler="sync"),
        lambda: workspace.table("words"),
        lambda: workspace.read_bytes("report/index.html"),
    ):
        with pytest.raises(OSError, match=r"is a pipe|is not the file that stage 'a' wrote"):
            read()
    names = {name for name in KINDS if "copies" not in name}
    for name in names.difference(data):
        FAULTS["pipe"][0](root / name)
    assert {problem.file for problem in Workspace.open(root).verify()} == names


def test_what_was_swapped_is_told_where_it_is_read(tmp_path, monkeypatch):
    """Blocks and files that were swapped are whole by themselves, and their siblings are read."""
    with writing(tmp_path / "ws") as (_, stage):
        stage.store("dense", dense_array(), **META)
        stage.store("sparse", sparse_array(np.eye(12), (4, 4, 4)), **META)
        for name in "xy":
            stage.store_table(f"table_{name}", pa.table({"word": [name]}))
            stage.store_bytes(f"{name}.txt", name.encode())
        stage.store_files("parts", 2, write_item)
        stage.commit()
    for one, other in (
        ("arrays.zarr/dense/c/0/0", "arrays.zarr/dense/c/1/0"),
        ("arrays.zarr/sparse/000000", "arrays.zarr/sparse/000001"),
        ("parts/000000", "parts/000001"),
        ("table_x.parquet", "table_y.parquet"),
        ("x.txt", "y.txt"),
    ):
        swap(tmp_path / "ws" / one, tmp_path / "ws" / other)
    workspace = Workspace.open(tmp_path / "ws")

    def block(name, index):
        return lambda: workspace.array(name).blocks[index].compute(scheduler="sync")

    for read in (
        *(block(name, index) for name in ("dense", "sparse") for index in (0, 1)),
        lambda: workspace.table("table_x"),
        lambda: list(workspace.batches("table_x")),
        lambda: workspace.read_bytes("x.txt"),
        lambda: workspace.files("parts"),
    ):
        with pytest.raises(DamagedError, match="'distembed run' writes it again"):
            read()
    assert {p.block for p in workspace.verify() if p.output in ("dense", "sparse")} == {0, 1}
    for name in ("dense", "sparse"):
        block(name, 2)()
    flip(tmp_path / "ws/arrays.zarr/dense/c/2/0")
    with pytest.raises(DamagedError, match="does not fit its checksum"):
        block("dense", 2)()
    monkeypatch.setattr("distembed.storage.workspace.CHECKED_BYTES", 0)  # it is large
    (tmp_path / "ws/table_x.parquet").write_bytes(b"spoilt")
    with pytest.raises(DamagedError, match=r"table_x\.parquet cannot be read as a table .*writes it again"):
        workspace.table("table_x")


def swap(one, other):
    one.rename(one.with_suffix(".kept"))
    other.rename(one)
    one.with_suffix(".kept").rename(other)


@pytest.mark.parametrize(
    ("places", "computed"),
    [
        (["manifest/*.json"], []),
        (["manifest/copies/*.json"], []),
        (["manifest/a.json", "manifest/copies/a.json"], [0, 1, 2]),
    ],
)
def test_either_manifest_serves_and_without_both_the_stage_is_made_again(root, two_stages, places, computed):
    """What rests on the stage is kept. The others cost no computation, also where all are damaged at once."""
    for file in (file for place in places for file in root.glob(place)):
        flip(file)
    if computed:
        problems = [p[3:] for p in Workspace.open(root).verify()]
        assert [p for p in problems if p[0] == "manifest/a.json"] == [("manifest/a.json", verify.FLIPPED)]
    else:
        assert Workspace.open(root).digest() == two_stages[1]
    calls = Calls()
    assert run_both(root, calls=calls) == (two_stages[1], [])
    assert sorted(calls.blocks) == computed


def test_a_stage_whose_records_cannot_be_read_for_the_moment_is_kept(root, two_stages, monkeypatch):
    def fail(self, name, **options):
        if name.endswith("/a.json"):
            raise OSError(errno.EIO, "Input/output error", name)
        return real(self, name, **options)

    real = Folder.read
    with monkeypatch.context() as patched:
        patched.setattr(Folder, "read", fail)
        with pytest.raises(OSError, match="Input/output error"):
            run_both(root)
    assert run_both(root) == (two_stages[1], [])


STRAY = (
    "arrays.zarr/dense/c/1/0.abc.partial",
    "arrays.zarr/dense/c/1/1",
    "arrays.zarr/dense/c/9/0",
    "arrays.zarr/sparse/000009/zarr.json",
    "arrays.zarr/stray",
    "journal/a/dense/000009.json",
    "manifest/stray",
    "tokens/000001/more.txt",
    "tokens/000009/part.txt",
)
OF_THE_USER = ("notes.txt", "report/extra.css", "tokens/notes", "tokens/src/main.c")


def test_stray_files_are_named_and_removed_and_those_beside_the_outputs_are_the_users_own(root, two_stages):
    for name in (*STRAY, *OF_THE_USER):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("mine")
    assert {p[3:] for p in Workspace.open(root).verify()} == {(name, verify.UNEXPECTED) for name in STRAY}
    assert run_both(root) == (two_stages[1], [])
    assert run_both(root, scale=2)[1] == []
    assert not [name for name in STRAY if (root / name).exists()]
    assert {(root / name).read_text() for name in OF_THE_USER} == {"mine"}


@pytest.mark.parametrize(
    ("file", "damage"),
    [
        ("stage.json", b""),
        ("stage.json", b"{}"),
        ("dense/output.json", b"[]"),
        ("dense/output.json", "sparse/output.json"),
        ("dense/output.json", 100_000 * b"["),
        ("dense/000001.json", b"not json"),
        ("dense/000001.json", b"\xff\xfe"),
    ],
)
def test_a_damaged_journal_computes_what_it_does_not_name(tmp_path, file, damage):
    with Workspace.create(tmp_path / "ws", owner="test") as workspace:
        store_all(workspace)
    journal = tmp_path / "ws/journal/a"
    (journal / file).write_bytes(damage if isinstance(damage, bytes) else (journal / damage).read_bytes())
    calls = Calls()
    with Workspace.create(tmp_path / "ws", owner="test") as workspace:
        store_all(workspace, calls=calls).commit()
        assert workspace.verify() == []
    assert sorted(calls.blocks) == ([1] if file == "dense/000001.json" else [0, 1, 2])


def test_a_stage_that_others_were_made_from_and_is_gone_is_named(root):
    def uncommitted():
        return [
            problem.stage for problem in Workspace.open(root).verify() if problem.what == verify.UNCOMMITTED
        ]

    for name in ("manifest/a.json", "manifest/copies/a.json"):
        (root / name).unlink()
    assert uncommitted() == ["a"]
    with writing(root, "c") as (workspace, stage):
        stage.store("half", dense_array(), **META)
        assert uncommitted() == []  # what a run is writing is no problem
    assert uncommitted() == ["a", "c"]
    assert ("c", "", -1, "manifest/c.json", verify.UNCOMMITTED) in workspace.verify()


def test_every_block_of_a_task_that_checks_many_is_judged_and_counted(tmp_path):
    n = 2 * verify.TASK_BLOCKS + 1
    with writing(tmp_path / "ws") as (workspace, stage):
        stage.store_files("items", n, write_item)
        stage.commit()
    damaged = [0, verify.TASK_BLOCKS - 1, verify.TASK_BLOCKS, n - 1]
    for index in damaged:
        (tmp_path / f"ws/items/{index:06d}/part.txt").write_text("x")
    seen: list[tuple[int, int]] = []
    problems = workspace.verify(progress=lambda done, total: seen.append((done, total)))
    assert [problem.block for problem in problems] == damaged
    assert [done for done, _ in seen] == sorted({done for done, _ in seen})
    assert seen[-1] == (n, n)


def test_what_a_run_is_writing_is_no_problem_and_what_is_damaged_is_one(root, monkeypatch):
    """A run takes back one stage and begins another, all after `verify` has read the commits."""
    with Workspace.create(root, owner="test") as workspace:
        stage = workspace.stage("c", parameters={}, inputs={})  # also what Zarr calls the folder of chunks
        stage.store_bytes("c", b"x")
        stage.commit()
    with Workspace.create(root, owner="writer") as workspace:
        (root / "tokens/000001/part.txt").unlink()
        (root / "manifest/copies/a.json").write_bytes(b"{}")
        (root / "arrays.zarr/half").write_bytes(b"being written")
        checked = verify.check_blocks

        def write_meanwhile(*arguments, **options):
            monkeypatch.undo()
            workspace.stage("c", parameters={}, inputs={}).reopen([])
            (root / "c").unlink()
            workspace.stage("d", parameters={}, inputs={}).store("new", dense_array(), **META)
            return checked(*arguments, **options)

        monkeypatch.setattr(verify, "check_blocks", write_meanwhile)
        assert [problem[2:4] for problem in Workspace.open(root).verify()] == [
            (-1, "manifest/copies/a.json"),
            (1, "tokens/000001/part.txt"),
        ]
        assert workspace.writer().startswith("writer (process")
