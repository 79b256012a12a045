"""What a stage keeps of an interrupted or another run, what it takes of time and reads, and its tables."""

import contextlib
import os
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import dask
import llvmlite.binding
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from threadpoolctl import threadpool_info

from distembed.storage import blocks, journal
from distembed.storage.workspace import Workspace
from tests.storage.examples import META, Calls, dense_array, keep_state, write_item, writing


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


def test_a_stage_of_two_processors_is_resumed_by_the_block_and_names_both(tmp_path, monkeypatch):
    """It was thrown away whole where the workers of a cluster were others than before."""
    for kernel, calls in (("Haswell", Calls(fail_at=0)), ("SkylakeX", Calls())):
        monkeypatch.setattr(blocks, "kernel", lambda kernel=kernel: kernel)
        in_turn = dask.config.set(scheduler="sync")
        with writing(tmp_path / "ws") as (workspace, stage), in_turn, contextlib.suppress(RuntimeError):
            stage.store("x", calls.count(dense_array()), **META)
            stage.commit()
    assert calls.blocks == [0]
    assert workspace.stages()["a"].kernels() == {"Haswell": 2, "SkylakeX": 1}
    assert workspace.verify() == []


def test_a_kernel_is_that_of_the_blas_in_use():
    blocks.kernel.cache_clear()
    blas = {pool.get("architecture") for pool in threadpool_info() if pool["user_api"] == "blas"}
    assert blas
    assert set(blocks.kernel().split()) == {llvmlite.binding.get_host_cpu_name(), *blas}


def test_a_state_more_reads_no_announcement_again(tmp_path, read):
    with Workspace.create(tmp_path / "ws", owner="test") as workspace:
        for stage in (workspace.stage(name, parameters={}, inputs={}) for name in "ab"):
            for state in range(12):
                keep_state(stage, f"{state}", dense_array())
    announcements = Counter(name for name in read if name.endswith("output.json"))
    # one while it is stored, and one by the other stage, however many states follow
    assert max(announcements.values(), default=0) <= 4


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
