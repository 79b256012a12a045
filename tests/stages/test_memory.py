"""The memory that the stages of a corpus of very many words take, and the memory that goes back between stages."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import threading
from itertools import islice, product
from pathlib import Path
from types import SimpleNamespace

import pyarrow.parquet as pq
import pytest
from distributed import Client

from distembed import heaps
from distembed.job import workers
from distembed.job.load import load_job
from distembed.job.plan import plan_job
from distembed.job.run import run_stages
from tests.commands import environment
from tests.processes import Process
from tests.tiny_job import computed

N_TYPES = 1_200_000
STAGES = ("tokens", "vocabulary", "cooccurrence")
JOB = """
[job]
workspace = "w"
[corpus]
paths = ["words.txt"]
[vocabulary]
min_count = 1
[counting]
window = 1
[psdvec]
n_components = 2
n_core = 10
[resources]
block_memory = "8MiB"
workers = 1
memory_limit = "8GiB"
"""


def print_peak(job: str, stage: str) -> None:
    """Run a stage, and print the largest number of bytes that were resident in this process."""
    run_stages(load_job(job), until=stage)
    lines = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    print(1024 * int(lines["VmHWM"].split()[0]))


@pytest.mark.slow  # more than a million words, so that tables of 2^20 have to grow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="peaks are read from Linux's /proc")
def test_many_distinct_words_take_what_the_plan_says(tmp_path):
    letters = ["".join(word) for word in product("abcdefghijklmn", repeat=3)]
    words = map("".join, islice(product(letters, letters), N_TYPES))
    lines = iter(lambda: " ".join(islice(words, 200)), "")
    (tmp_path / "words.txt").write_text("\n".join(lines))
    (tmp_path / "job.toml").write_text(JOB)
    job, peaks = str(tmp_path / "job.toml"), {}
    for stage in STAGES:
        process = Process(job, stage, program=print_peak, apart=True)
        peaks[stage] = int(process.communicate()[0].split()[-1])
    (words_file,) = (tmp_path / "w").glob("**/*.words.parquet")
    # A dictionary is written before the table of 2^20 words has to grow.
    assert pq.ParquetFile(words_file).metadata.row_group(0).num_rows < 2**20
    planned = plan_job(load_job(job)).stages
    for name in STAGES:
        assert planned[name].exact
        assert peaks[name] <= planned[name].process_bytes(1) <= 2.5 * peaks[name], name


# --- memory between stages -------------------------------------------------------------------------------------------


def test_memory_is_not_looked_for_in_a_process_that_has_not_grown(monkeypatch):
    """A search among the objects of a large process takes longer than a small stage."""
    resident, searches = [3 << 30], list[int]()
    memory = SimpleNamespace(memory_info=lambda: SimpleNamespace(rss=resident[0]))
    monkeypatch.setattr(heaps.psutil, "Process", lambda: memory)
    monkeypatch.setattr(heaps.gc, "collect", lambda: searches.append(resident[0]))
    monkeypatch.setattr(heaps, "_resident", 0)
    monkeypatch.setattr(heaps, "GROWTH", 1 << 20)
    for resident[0] in (3 << 30, (3 << 30) + heaps.GROWTH - 1, 1 << 30, (1 << 30) + heaps.GROWTH):
        heaps.give_memory_back()
    assert searches == [3 << 30, (1 << 30) + heaps.GROWTH]


GIVEN_BACK: list[str] = []
"""The threads that gave memory back in the place of `give_memory_back`."""


def note_thread() -> None:
    GIVEN_BACK.append(threading.current_thread().name)


def test_a_run_gives_memory_back_after_each_stage_on_all_processes(tiny, monkeypatch):
    monkeypatch.setattr(workers, "give_memory_back", note_thread)
    GIVEN_BACK.clear()
    assert len(computed(tiny, "counting.window=2").ran) == len(GIVEN_BACK) == 4
    with Client(n_workers=1, threads_per_worker=1, processes=False, dashboard_address=":0") as client:
        GIVEN_BACK.clear()
        workers.Workers(client=client).give_memory_back()
        assert len(GIVEN_BACK) == 2


HEAPS_OF_A_COMMAND = """
import ctypes, threading
import distembed.cli.main
import numpy as np
import psutil
from distembed.heaps import give_memory_back
from distembed.job.workers import Workers

with Workers(n_workers=2) as workers:
    workers.start()
    together = threading.Barrier(4)

    def hold():
        held = np.ones(2000)
        together.wait()

    threads = [threading.Thread(target=hold) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
used = [bytes(1000) for _ in range(200_000)]
del used[:-1]
before = psutil.Process().memory_info().rss
give_memory_back()
print((before - psutil.Process().memory_info().rss) >> 20, flush=True)
libc = ctypes.CDLL(None)
libc.fdopen.restype = ctypes.c_void_p
libc.malloc_info(0, ctypes.c_void_p(libc.fdopen(1, b"w")))
libc.fflush(None)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="needs the allocator of glibc")
def test_the_threads_of_a_run_make_no_heaps_and_memory_goes_back_to_the_system():
    """Pieces below one that is still used stay with the process, until it gives them back."""
    command = [sys.executable, "-c", HEAPS_OF_A_COMMAND]
    done = subprocess.run(command, capture_output=True, text=True, env=environment(), check=True)
    assert done.stdout.count("<heap nr=") == 1, done.stdout
    assert int(done.stdout.split()[0]) > 100


def test_the_number_of_heaps_that_a_user_sets_stands(monkeypatch):
    asked: list[tuple[int, int]] = []
    monkeypatch.setattr(heaps.ctypes, "CDLL", lambda _: SimpleNamespace(mallopt=lambda *to: asked.append(to)))
    monkeypatch.setitem(os.environ, "MALLOC_ARENA_MAX", "3")
    heaps.share_one_heap()
    assert asked == []
    monkeypatch.delenv("MALLOC_ARENA_MAX")
    heaps.share_one_heap()
    assert asked == [(heaps.M_ARENA_MAX, 1)] * (sys.platform == "linux")
