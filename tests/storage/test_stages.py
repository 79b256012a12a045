"""What a stage keeps of an interrupted or another run, and of its inputs, which may be replaced; its tables."""

import contextlib
import os
import shutil
from pathlib import Path
from types import SimpleNamespace

import dask
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from distembed.storage import journal
from distembed.storage.catalog import Catalog
from distembed.storage.folder import Folder
from distembed.storage.records import Problem
from distembed.storage.workspace import Workspace
from tests.storage.examples import (
    META,
    Calls,
    dense_array,
    flip,
    keep_state,
    run_both,
    store_all,
    write_item,
    writing,
)


def test_growth_keeps_the_items_of_the_keys_that_are_still_wanted(tmp_path):
    """Equal keys share a folder; an item that is damaged or of other versions is made again."""
    made: list[str] = []

    def run(keys, version="1"):
        def make(index, prefix):
            made.append(keys[index])
            Path(f"{prefix}.txt").write_text(keys[index])
            return {"key": keys[index]}

        made.clear()
        with Workspace.create(tmp_path / "ws", owner="test") as workspace:
            stage = workspace.stage("a", parameters={"keys": keys}, inputs={}, made_with={"code": version})
            if damaged := stage.damaged_blocks():
                stage.reopen(damaged)
            items = stage.store_files("t", len(keys), make, keys=keys)
            stage.commit()
            assert workspace.verify() == []
        assert [item.summary["key"] for item in items] == keys
        assert [Path(item.paths[0]).read_text() for item in items] == keys
        assert sorted(path.name for path in (tmp_path / "ws/t").iterdir()) == sorted(set(keys))
        return sorted(made)

    a, b, c, d = (letter * 6 for letter in "abcd")
    assert run([a, b, c]) == [a, b, c]
    assert run([d, c, a]) == [d]
    assert run([a, a, c]) == []
    (tmp_path / "ws/t" / a / "part.txt").write_text("zzzzzz")
    assert run([a, a, c]) == [a]
    (tmp_path / "ws/t" / c / "part.txt").unlink()
    assert run([a, c, b]) == [b, c]
    assert run([a, c], version="2") == [a, c]


def test_equal_runs_on_one_cluster_share_no_task_that_reads_what_one_of_them_removes(tmp_path):
    def names(place):
        with Workspace.create(tmp_path / place, owner="test") as workspace:
            stage = workspace.stage("a", parameters={}, inputs={})
            stored = [stage.store(f"x{n}", dense_array(), **META, temporary=bool(n)) for n in range(2)]
            return [array.name for array in stored]

    (lasting, first), (same, second) = names("one"), names("other")
    assert lasting == same
    assert first != second
    assert names("one") == [lasting, first]


def test_temporary_outputs_take_no_part_and_end_with_their_stage(tmp_path):
    digests = set()
    for n in (1, 2):
        root = tmp_path / f"{n}"
        with writing(root) as (workspace, stage):
            stage.store_files("partials", n, write_item, temporary=True)
            keep_state(stage, f"round_{n}", dense_array())
            stage.store("x", dense_array(), **META)
            assert (root / "partials").exists()
            assert list(stage.commit().outputs) == ["x"]
            assert workspace.verify() == []
            digests.add(workspace.digest())
            with pytest.raises(ValueError, match=r"committed and does not hold 'partials': call reopen\(\)"):
                stage.store_files("partials", n, write_item, temporary=True)
            stage.reopen()
            assert len(stage.store_files("partials", n, write_item, temporary=True)) == n
            stage.store("x", dense_array(), **META)
            stage.commit()
            digests.add(workspace.digest())
        files = {path.relative_to(root).parts[0] for path in root.rglob("*") if path.is_file()}
        assert files == {"arrays.zarr", "manifest", "workspace.json"}
        files = {path.relative_to(root).parts[1] for path in root.glob("arrays.zarr/**/*") if path.is_file()}
        assert files == {"x", "zarr.json"}
    assert len(digests) == 1


def test_seconds_of_work_do_not_count_pauses(tmp_path, monkeypatch):
    """A run that was killed on Monday and went on on Tuesday has not worked for a day."""
    now = [1000.0]
    monkeypatch.setattr(journal, "time", SimpleNamespace(monotonic=lambda: now[0]))

    def slow(block, block_id, fail_at):
        now[0] += 5
        if block_id[0] == fail_at:
            raise RuntimeError("planned")
        return block

    for run, (fail_at, worked) in enumerate([(1, 5), (0, 10), (-1, 15)]):
        with Workspace.create(tmp_path / "ws", owner="test") as workspace, dask.config.set(scheduler="sync"):
            lazy = dense_array().map_blocks(slow, dtype=np.float32, fail_at=fail_at)
            with contextlib.suppress(RuntimeError):
                workspace.stage("a", parameters={"k": 2}, inputs={"b": "f"}).store("x", lazy, **META)
        now[0] += 86_400
        for file in (tmp_path / "ws/journal/a").rglob("*.json"):
            time_of = file.stat().st_mtime
            os.utime(file, (time_of - 86_400, time_of - 86_400))
        begun = Workspace.open(tmp_path / "ws").begun()["a"]
        assert (begun.parameters, begun.inputs, begun.worked.seconds) == ({"k": 2}, {"b": "f"}, worked), run


def test_a_table_is_one_file_of_the_same_bytes_however_it_is_stored(tmp_path):
    """A table given whole is written as pyarrow writes it, so that its digest is that of earlier runs."""
    pieces = [pa.table({"word": ["a", "b"], "n": [1, 2]}), pa.table({"word": ["c"], "n": [3]})]
    whole = pa.concat_tables(pieces).combine_chunks()
    pq.write_table(whole, tmp_path / "expected.parquet", compression="zstd", write_page_checksum=True)
    with writing(tmp_path / "w") as (workspace, stage):
        with pytest.raises(ValueError, match="said to have 4 rows, and its pieces have 3"):
            stage.store_batches("wrong", whole.schema, pieces, n_rows=4)
        assert not stage.is_stored("wrong")
        stage.forget("wrong")
        stage.store_batches("pieces", whole.schema, iter(pieces), n_rows=3)
        stage.store_table("whole", whole)
        stage.commit()
    assert workspace.table("pieces") == workspace.table("whole") == whole
    assert workspace.describe("pieces").spec.shape == (3, 2)
    assert (tmp_path / "w/whole.parquet").read_bytes() == (tmp_path / "expected.parquet").read_bytes()
    assert workspace.verify() == []


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
    """Another shape of an output too; of several runs that were interrupted, each."""
    for names in (("x", "state"), ("x", "unwanted")):
        with writing(tmp_path / "ws") as (_, stage):
            for name in names:
                stage.store(name, dense_array(), **META)
    with writing(tmp_path / "ws") as (workspace, stage):
        stage.store("x", dense_array().rechunk((6, 5)), **META)
        stage.commit()
        assert list(workspace.stages()["a"].outputs) == ["x"]
        assert workspace.array("x").chunks[0] == (6, 6)
        assert workspace.verify() == []
    assert sorted(path.name for path in (tmp_path / "ws/arrays.zarr").iterdir()) == ["x", "zarr.json"]
    assert not (tmp_path / "ws/journal/a").exists()
