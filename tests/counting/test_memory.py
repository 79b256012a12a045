"""Memory that counting uses again leaves no trace in the counts, and each thread and process has its own."""

from __future__ import annotations

import pickle
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from distembed.counting import blocks, partial_counts
from distembed.counting.blocks import Run, RunMemory
from distembed.counting.cooccurrence_options import CooccurrenceOptions
from distembed.counting.partial_counts import ThreadMemory, count_partition
from tests.counting.partitions import vocabulary_of, write_partition

WORDS = [f"w{number}" for number in range(40)]
OPTIONS = CooccurrenceOptions(window=4, weighting="harmonic")


@pytest.mark.parametrize("n_bytes", [600, 4_000, 2**40])
@pytest.mark.parametrize("direction", ["left", "symmetric"])
def test_partitions_counted_in_the_same_memory_have_the_same_bytes(tmp_path, monkeypatch, direction, n_bytes):
    """Whether runs are spilled after each piece, are added up several times before, or all fit."""
    rng = np.random.default_rng(0)
    vocabulary = vocabulary_of(WORDS)
    options = CooccurrenceOptions(window=4, weighting="harmonic", direction=direction)
    monkeypatch.setattr(partial_counts, "pairs_per_piece", lambda *_: 400)
    real = partial_counts.run_bytes
    monkeypatch.setattr(partial_counts, "run_bytes", lambda runs: real(runs) * 2**16 / n_bytes)
    shared, files = ThreadMemory(2**16), []
    for number in range(4):
        text = [list(rng.choice(WORDS, 300 * (1 + number % 2)))]
        partition = write_partition(f"{tmp_path}/p{number}", text)
        for name, memory in (("fresh", ThreadMemory(2**16)), ("shared", shared)):
            target = f"{tmp_path}/{name}{number}.counts"
            count_partition(partition, vocabulary, options, (0, 7, 40), target, number=number, memory=memory)
            files.append(Path(target).read_bytes())
    assert files[::2] == files[1::2]
    assert len(set(files)) == 4


def test_each_thread_and_each_process_has_its_own_memory():
    shared = ThreadMemory()
    own = shared.of(OPTIONS, 40)
    assert shared.of(OPTIONS, 40) is own
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(shared.of, OPTIONS, 40).result() is not own
    assert len(pickle.dumps(shared)) < 200
    assert pickle.loads(pickle.dumps(shared)).of(OPTIONS, 40) is not own
    assert shared.of(OPTIONS, 41) is not own


def test_runs_stand_one_after_another_and_those_without_room_have_their_own():
    room = RunMemory(14)
    indptr, runs = np.array([0, 3]), []
    for number, kind in enumerate([np.int32, np.int64, np.int32, np.int64, np.int32]):
        indices, values = room.place(5, kind)
        indices[:], values[:] = number, number
        runs.append(room.kept(Run(indptr, indices, values), 3))
    assert [run.values.tolist() for run in runs] == [[number] * 3 for number in range(5)]
    assert [run.indices.tolist() for run in runs] == [[number] * 3 for number in range(5)]
    assert all(run.values.flags.aligned for run in runs)
    # Before the last, 12 of 14 are taken.
    assert [np.shares_memory(run.values, room._values) for run in runs] == [True] * 4 + [False]
    room.clear()
    assert room.place(14, np.int64)[0].base is runs[0].indices.base


def test_the_sum_of_runs_is_put_where_none_of_them_stands():
    memory = ThreadMemory().of(CooccurrenceOptions(window=1, direction="left"), 3)
    words = np.array([blocks.BORDER, 0, 1, 2, 0, 1], np.int32)
    for _ in range(3):  # the sum of all before, and one more
        runs = [memory.counter.count(words, memory.room) for _ in range(2)]
        total = memory.merged(runs)
        assert not any(np.shares_memory(total.values, run.values) for run in runs)
        assert total.values.tolist() == [4, 2, 2]
