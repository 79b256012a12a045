"""A run repairs exactly what `verify` names, and no stage rests on content of an input that was replaced."""

import shutil

import pytest

from distembed.storage.catalog import Catalog
from distembed.storage.folder import Folder
from distembed.storage.records import Problem
from distembed.storage.workspace import Workspace
from tests.storage.examples import META, Calls, dense_array, flip, keep_state, run_both, store_all, writing


def test_a_damaged_block_of_a_state_is_made_again_alone(tmp_path):
    place, calls = tmp_path / "ws/arrays.zarr/checkpoints/a/round_1", Calls()
    for damaged in (None, "c/1/0", "c/2/0"):
        with Workspace.create(tmp_path / "ws", owner="test") as workspace:
            stage = workspace.stage("a", parameters={}, inputs={})
            if damaged:
                flip(place / damaged)
                assert not stage.is_stored(f"{stage.states}round_1")
            keep_state(stage, "round_1", calls.count(dense_array()))
            assert stage.is_stored(f"{stage.states}round_1")
    assert sorted(calls.blocks) == [0, 1, 1, 2, 2]


# --- a stage and the content of its inputs ---------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:Stage 'a' was repaired")
def test_a_run_that_is_killed_as_it_commits_leaves_nothing_on_replaced_content(root, tmp_path, monkeypatch):
    """The commit stands, and what rests on the content before it was not yet removed."""
    (root / "arrays.zarr/dense/c/1/0").unlink()
    shutil.copytree(root, tmp_path / "whole")
    with pytest.warns(UserWarning, match="Stage 'a' was repaired, but its content differs from before"):
        expected, _ = run_both(tmp_path / "whole", version=1)
    with monkeypatch.context() as patch:
        patch.setattr("distembed.storage.stage.remove_stage", stop)
        with pytest.raises(KeyboardInterrupt):
            run_both(root, version=1)
    [problem] = Workspace.open(root).verify()
    assert problem == ("b", "", -1, "manifest/b.json", "computed from another a than there is now")
    assert not Workspace.open(root).stage("b", **made_from(root, "b")).is_committed
    with Workspace.create(root, owner="test") as workspace:  # goes on where the commit was stopped
        assert sorted(workspace.stages()) == ["a"]
    assert run_both(root, version=1) == (expected, [])


def test_what_was_begun_on_other_content_is_begun_again(tmp_path):
    """A stage may hold no blocks that were computed from two states of an input."""
    calls = Calls()
    with Workspace.create(tmp_path / "ws", owner="test") as workspace:
        for scale in (1, 2):
            up = workspace.stage("up", parameters={}, inputs={})
            if up.is_committed:
                up.reopen(spoilt("up", "x"))
            up.store("x", dense_array() * scale, **META)
            up.commit()
            down = workspace.stage("down", parameters={}, inputs={"up": up.fingerprint})
            down.store("y", calls.count(workspace.array("x")), **META)
        assert calls.blocks.count(0) == 2
        down.commit()
        assert workspace.verify() == []


def test_what_rests_on_a_withdrawn_stage_is_judged_when_that_is_committed_again(tmp_path):
    """A stage that is made again of other content may give the same result."""
    root = tmp_path / "ws"
    with Workspace.create(root, owner="test") as workspace:

        def commit(name, array, **inputs):
            made_from = {stage.name: stage.fingerprint for stage in inputs.values()}
            stage = workspace.stage(name, parameters={}, inputs=made_from)
            stage.store(name, array, **META)
            stage.commit()
            return stage

        up = commit("up", dense_array())
        middle = commit("middle", dense_array(), up=up)
        commit("leaf", dense_array(), middle=middle)
        for stage in (middle, up):
            stage.reopen(spoilt(stage.name))
        commit("up", dense_array() * 2)
        assert not (root / "journal/middle").exists()  # it would resume what was computed from other content
        assert sorted(workspace.stages()) == ["leaf", "up"]
        commit("middle", dense_array(), up=up)
        assert sorted(workspace.stages()) == ["leaf", "middle", "up"]
        assert workspace.verify() == []


def test_a_stage_is_not_committed_on_an_input_that_was_replaced_meanwhile(tmp_path):
    with Workspace.create(tmp_path / "ws", owner="test") as workspace:
        up = store_all(workspace)
        up.commit()
        down = workspace.stage("down", parameters={}, inputs={"a": up.fingerprint})
        down.store_bytes("y", b"y")
        up.reopen(spoilt("a", "dense"))
        again = workspace.stage("a", parameters={"scale": 1}, inputs={})
        again.store("dense", dense_array() * 3, **META)
        again.commit()
        with pytest.raises(ValueError, match="an input of it was replaced since it began"):
            down.commit()


def spoilt(stage, output=""):
    """Return what says that every block of an output is damaged."""
    return [Problem(stage, output or stage, index, "", "") for index in range(3)]


def stop_at_a_copy(write):
    def writes(self, name, *pieces, **options):
        return stop() if name.startswith("manifest/copies/") else write(self, name, *pieces, **options)

    return writes


def stop(*_, **__):
    """End a run here, as Ctrl-C does."""
    raise KeyboardInterrupt


def made_from(root, stage):
    found = Workspace.open(root).stages()[stage]
    return {"parameters": found.parameters, "inputs": found.inputs}


# --- what an interrupted run left ------------------------------------------------------------------------------


@pytest.mark.parametrize("place", ["remove_journal", "copy"])
def test_what_a_commit_that_was_stopped_did_not_remove_is_removed_by_the_next_run(
    tmp_path, monkeypatch, place
):
    root = tmp_path / "ws"
    with writing(root) as (workspace, stage):
        keep_state(stage, "round_1", dense_array())
        stage.store("x", dense_array(), **META)
        with monkeypatch.context() as patch:
            patch.setattr(Folder, "write", stop_at_a_copy(Folder.write))
            if place == "remove_journal":
                patch.undo()
                patch.setattr("distembed.storage.stage.remove_journal", stop)
            with pytest.raises(KeyboardInterrupt):
                stage.commit()
    assert (root / "arrays.zarr/checkpoints/a/round_1").exists()
    assert list(Catalog(stage._folder, is_writer=False).manifests()) == ["a"]
    with Workspace.create(root, owner="test") as workspace:
        assert workspace.stage("a", parameters={}, inputs={}).is_committed
    assert not (root / "arrays.zarr/checkpoints/a").exists()
    assert not (root / "journal/a").exists()
    assert Workspace.open(root).verify() == []


def test_what_an_interrupted_run_announced_and_this_one_does_not_store_is_removed(tmp_path):
    for names in (("x", "state"), ("x",)):
        with writing(tmp_path / "ws") as (_, stage):
            for name in names:
                stage.store_bytes(name, b"x")
    with writing(tmp_path / "ws") as (_, stage):
        stage.store_bytes("x", b"x")
        stage.commit()
    assert not (tmp_path / "ws/state").exists()
    assert not (tmp_path / "ws/journal/a").exists()
