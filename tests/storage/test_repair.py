"""A run repairs exactly what `verify` names, and no stage rests on content of an input that was replaced."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from distembed.storage import lock, schema
from distembed.storage.folder import Folder
from distembed.storage.ledger import Ledger
from distembed.storage.stage import Stage
from distembed.storage.workspace import Workspace
from tests.storage.examples import META, Calls, dense_array, run_both, store_all


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    root = tmp_path_factory.mktemp("finished") / "ws"
    digest, problems = run_both(root)
    assert problems == []
    return root, digest


@pytest.fixture
def root(finished: tuple[Path, str], tmp_path: Path) -> Path:
    return Path(shutil.copytree(finished[0], tmp_path / "ws"))


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


FAULTS: dict[str, Callable[[Path], object]] = {
    "deleted": Path.unlink,
    "emptied": lambda path: path.write_bytes(b""),
    "flipped": flip,
    "stray": lambda path: path.with_name(f"{path.name}-stray").write_bytes(b"x"),
}
GROUPS = {
    "blocks": ["arrays.zarr/dense/**/*", "arrays.zarr/sparse/000001/**/*", "words.parquet", "tokens/part-*"],
    "records": ["manifest/*/**/*", "arrays.zarr/zarr.json"],
    "commits": ["manifest/*.json", "workspace.json"],
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_run_mends_whatever_verify_names(root: Path, finished: tuple[Path, str], fault: str) -> None:
    for patterns in GROUPS.values():
        files = [path for pattern in patterns for path in sorted(root.glob(pattern)) if path.is_file()]
        if fault == "stray":  # outside of these folders a file is the user's
            files = [path for path in files if path.parent != root and path.parent != root / "manifest"]
        for file in files:
            FAULTS[fault](file)
        expected = [path.with_name(f"{path.name}-stray") for path in files] if fault == "stray" else files
        named = {root / problem.file for problem in Workspace.open(root).verify()}
        assert named == set(expected)
        assert run_both(root) == (finished[1], [])


def test_the_group_of_an_earlier_zarr_is_whole(root: Path) -> None:
    group = root / "arrays.zarr/zarr.json"
    group.write_text(json.dumps({**json.loads(group.read_bytes()), "consolidated_metadata": None}))
    assert Workspace.open(root).verify() == []
    for other in ("{}", '{"zarr_format": 3, "node_type": "group"}', 100_000 * "["):
        group.write_text(other)
        assert [problem.file for problem in Workspace.open(root).verify()] == ["arrays.zarr/zarr.json"]


def test_a_repair_of_the_records_computes_nothing(root: Path) -> None:
    for file in root.glob("manifest/a/**/*.json"):
        file.write_bytes(b"")
    calls = Calls()
    assert run_both(root, calls=calls)[1] == []
    assert calls.blocks == []


@pytest.mark.parametrize("committed", [True, False])
def test_a_damaged_head_of_a_checkpoint_is_written_again_and_nothing_computed(
    tmp_path: Path, committed: bool
) -> None:
    head = tmp_path / "ws/arrays.zarr/checkpoints/a/round_1/zarr.json"
    with Workspace.create(tmp_path / "ws", owner="test") as workspace:
        stage = workspace.stage("a", parameters={}, inputs={})
        stage.states().store("round_1", dense_array())
        if committed:
            stage.commit()
    whole = head.read_bytes()
    flip(head)
    with Workspace.create(tmp_path / "ws", owner="test") as workspace:
        stage = workspace.stage("a", parameters={}, inputs={})
        if committed:
            stage.reopen()
        assert stage.states().find("round_1") is not None
        stage.commit()
        assert workspace.verify() == []
    assert head.read_bytes() == whole


def test_the_library_names_a_stage_that_is_not_there(root: Path) -> None:
    def named(stage: str) -> bool:
        found = {(p.stage, p.file, p.what) for p in Workspace.open(root).verify()}
        return (stage, f"manifest/{stage}.json", "missing: the stage is not committed") in found

    (root / "manifest/b.json").unlink()
    assert named("b")
    (root / "manifest/a.json").unlink()
    shutil.rmtree(root / "manifest/b")
    shutil.rmtree(root / "arrays.zarr/dense")
    assert named("a")
    assert not named("b")


def test_an_input_that_is_gone_with_all_its_records_is_named(root: Path) -> None:
    (root / "manifest/a.json").unlink()
    shutil.rmtree(root / "manifest/a")
    assert [p.file for p in Workspace.open(root).verify() if "not committed" in p.what] == ["manifest/a.json"]


# --- a stage and the content of its inputs ---------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:Stage 'a' was repaired")
def test_a_run_that_is_killed_as_it_commits_leaves_nothing_on_replaced_content(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The commit stands, and what rests on the content before it was not yet removed."""
    (root / "arrays.zarr/dense/000001/c/0/0").unlink()
    shutil.copytree(root, tmp_path / "whole")
    expected, _ = run_both(tmp_path / "whole", version=1)
    with monkeypatch.context() as patch:
        patch.setattr(Ledger, "_remove_outdated", stop)
        with pytest.raises(KeyboardInterrupt):
            run_both(root, version=1)
    [problem] = Workspace.open(root).verify()
    assert problem == ("b", "", -1, "manifest/b.json", "computed from another a than there is now")
    assert not Workspace.open(root).stage("b", **made_from(root, "b")).is_committed
    with Workspace.create(root, owner="test") as workspace:  # goes on where the commit was stopped
        assert sorted(workspace.stages()) == ["a"]
    assert run_both(root, version=1) == (expected, [])


def test_repair_with_other_content_warns(tmp_path: Path) -> None:
    with Workspace.create(tmp_path / "ws", owner="test") as workspace:
        stage = workspace.stage("a", parameters={}, inputs={})
        stage.store("x", dense_array(), **META)
        stage.commit()
        down = workspace.stage("down", parameters={}, inputs={"a": stage.fingerprint})
        down.store_bytes("y", b"y")
        down.commit()
        (tmp_path / "ws/arrays.zarr/x/000000/c/0/0").unlink()
        stage.reopen()
        stage.store("x", dense_array() + 1, **META)
        with pytest.warns(UserWarning, match="differs from before"):
            stage.commit()


def test_what_was_begun_on_other_content_is_begun_again(tmp_path: Path) -> None:
    """A stage may hold no blocks that were computed from two states of an input."""
    calls = Calls()
    with Workspace.create(tmp_path / "ws", owner="test") as workspace:
        for scale in (1, 2):
            up = workspace.stage("up", parameters={}, inputs={})
            if up.is_committed:
                up.reopen([])
                shutil.rmtree(tmp_path / "ws/manifest/up/x/blocks")
            up.store("x", dense_array() * scale, **META)
            up.commit()
            down = workspace.stage("down", parameters={}, inputs={"up": up.fingerprint})
            down.store("y", calls.count(workspace.array("x")), **META)
        assert calls.blocks.count(0) == 2
        down.commit()
        assert workspace.verify() == []


def test_what_rests_on_a_withdrawn_stage_is_judged_when_that_is_committed_again(tmp_path: Path) -> None:
    """Temporary inputs that were dropped and made again may be packed in other bytes and give the same result."""
    root = tmp_path / "ws"
    with Workspace.create(root, owner="test") as workspace:

        def commit_up(scale: int) -> Stage:
            up = workspace.stage("up", parameters={}, inputs={})
            if up.states().find("x") is None:
                up.states().store("x", dense_array() * scale)
            up.commit()
            return up

        def commit(name: str, upper: Stage) -> Stage:
            stage = workspace.stage(name, parameters={}, inputs={upper.name: upper.fingerprint})
            stage.store(name, dense_array(), **META)
            stage.commit()
            return stage

        up = commit_up(1)
        middle = commit("middle", up)
        commit("leaf", middle)
        middle.reopen([])
        up.reopen([])
        shutil.rmtree(root / "manifest/up/checkpoints/up/x/blocks")
        commit_up(2)
        assert not (root / "manifest/middle").exists()  # it would resume what was computed from other bytes
        assert sorted(workspace.stages()) == ["leaf", "up"]
        commit("middle", up)
        assert sorted(workspace.stages()) == ["leaf", "middle", "up"]
        assert workspace.verify() == []


def test_a_stage_is_not_committed_on_an_input_that_was_replaced_meanwhile(tmp_path: Path) -> None:
    with Workspace.create(tmp_path / "ws", owner="test") as workspace:
        up = store_all(workspace)
        up.commit()
        down = workspace.stage("down", parameters={}, inputs={"a": up.fingerprint})
        down.store_bytes("y", b"y")
        up.reopen()
        for block in (tmp_path / "ws/manifest/a/dense/blocks").iterdir():
            block.unlink()
        store_all(workspace, version=0)
        again = workspace.stage("a", parameters={"scale": 1}, inputs={})
        again.store("dense", dense_array() * 3, **META)
        again.commit()
        with pytest.raises(ValueError, match="an input of it was replaced since it began"):
            down.commit()


def test_temporary_outputs_count_where_later_stages_read_nothing_else(root: Path) -> None:
    stage = Workspace.open(root).stages()["a"]
    assert stage.content == stage.digest
    temporary = {"checkpoints/a/round_1": stage.outputs["checkpoints/a/round_1"]}
    one = replace(stage, outputs=temporary)
    other = replace(stage, outputs={name: replace(r, blocks=r.blocks[:1]) for name, r in temporary.items()})
    assert one.digest == other.digest
    assert one.content != other.content


def stop(*_: object, **__: object) -> None:
    """End a run here, as Ctrl-C does."""
    raise KeyboardInterrupt


def made_from(root: Path, stage: str) -> dict[str, object]:
    found = Workspace.open(root).stages()[stage]
    return {"parameters": found.parameters, "inputs": found.inputs}


# --- what an interrupted run left ------------------------------------------------------------------------------


def test_what_was_dropped_and_not_yet_removed_is_removed_by_the_next_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "ws/arrays.zarr/checkpoints/a/round_1"
    with Workspace.create(tmp_path / "ws", owner="test") as workspace:
        stage = workspace.stage("a", parameters={}, inputs={})
        stage.states().store("round_1", dense_array())
        stage.commit()
        with monkeypatch.context() as patch:
            patch.setattr(Folder, "remove", stop)
            with pytest.raises(KeyboardInterrupt):
                workspace.drop_temporary("a")
    assert place.exists()
    Workspace.create(tmp_path / "ws", owner="test").close()
    assert not place.exists()
    assert Workspace.open(tmp_path / "ws").verify() == []


def test_what_an_interrupted_run_announced_and_this_one_does_not_store_is_removed(tmp_path: Path) -> None:
    for names in (("x", "state"), ("x",)):
        with Workspace.create(tmp_path / "ws", owner="test") as workspace:
            stage = workspace.stage("a", parameters={}, inputs={})
            for name in names:
                stage.store_bytes(name, b"x")
    with Workspace.create(tmp_path / "ws", owner="test") as workspace:
        stage = workspace.stage("a", parameters={}, inputs={})
        stage.store_bytes("x", b"x")
        stage.commit()
    assert not (tmp_path / "ws/state").exists()
    assert not (tmp_path / "ws/manifest/a/state").exists()


# --- the first file and the lock -------------------------------------------------------------------------------


@pytest.mark.parametrize("damage", ["deleted", "emptied", "zeroed", "flipped"])
def test_a_workspace_is_known_by_its_records_where_its_first_file_is_damaged(
    root: Path, finished: tuple[Path, str], damage: str
) -> None:
    file = root / "workspace.json"
    whole = file.read_bytes()
    {**FAULTS, "zeroed": lambda path: path.write_bytes(b"\0" * 50)}[damage](file)
    assert Workspace.exists(root)
    [problem] = Workspace.open(root).verify()
    assert problem.file == "workspace.json"
    assert run_both(root) == (finished[1], [])
    assert file.read_bytes() == whole


def test_a_first_file_that_a_power_cut_emptied_is_no_workspace_and_can_become_one(tmp_path: Path) -> None:
    (tmp_path / "workspace.json").write_bytes(b"\0\0")
    with pytest.raises(FileNotFoundError, match="no distembed workspace"):
        Workspace.open(tmp_path)
    Workspace.create(tmp_path, owner="test").close()
    assert Workspace.open(tmp_path).verify() == []


def test_a_file_of_that_name_of_another_program_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "workspace.json").write_bytes(b'{"folders": []}')
    with pytest.raises(schema.ManifestError, match="damaged"):
        Workspace.create(tmp_path, owner="test")
    assert (tmp_path / "workspace.json").read_bytes() == b'{"folders": []}'


@pytest.mark.parametrize("content", [b"", b"\0\0\0", b'{"host": "a'], ids=["empty", "zeros", "cut off"])
def test_a_lock_that_cannot_be_read_holds_nobody_up(
    root: Path, monkeypatch: pytest.MonkeyPatch, content: bytes
) -> None:
    monkeypatch.setattr(lock, "POLL_SECONDS", 0.01)
    (root / "lock.json").write_bytes(content)
    assert Workspace.open(root).writer() == ""
    Workspace.create(root, owner="heir").close()
    assert not list(root.glob("lock*"))
