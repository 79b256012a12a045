"""The memory that the stages of a corpus of very many words take, against what `plan` says of them."""

from __future__ import annotations

import json
import platform
import subprocess
import sys
import threading
from collections.abc import Iterable
from itertools import islice, product
from pathlib import Path
from types import SimpleNamespace

import psutil
import pyarrow.parquet as pq
import pytest
from distributed import Client

from distembed import heaps
from distembed.job import workers
from distembed.job.load import load_job
from distembed.job.plan import plan_job
from distembed.job.run import run_stages
from tests.commands import environment

N_TYPES = 1_200_000
STAGES = ("tokens", "vocabulary", "cooccurrence")
JOB = """
[job]
title = "many words"
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

RUN_STAGES = """
import json, os, sys
from distembed.job.load import load_job
from distembed.job.run import run_stages

def peak():
    lines = dict(line.split(":", 1) for line in open("/proc/self/status"))
    return 1024 * int(lines["VmHWM"].split()[0])

for stage in sys.argv[2:]:
    child = os.fork()
    if not child:
        run_stages(load_job(sys.argv[1], workspace=sys.argv[1] + ".w"), until=stage)
        print(json.dumps([stage, peak()]), flush=True)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
"""


def write_job(folder: Path, words: Iterable[str]) -> Path:
    """Write a job on a text of these words, two hundred a line."""
    folder.mkdir()
    words = iter(words)
    with (folder / "words.txt").open("w", encoding="utf-8") as file:
        while line := list(islice(words, 200)):
            file.write(" ".join(line) + "\n")
    (folder / "job.toml").write_text(JOB, encoding="utf-8")
    return folder / "job.toml"


def measured(job: Path) -> dict[str, int]:
    """Return the peak resident bytes of each stage, run in a process of its own."""
    command = [sys.executable, "-c", RUN_STAGES, str(job), *STAGES]
    done = subprocess.run(command, capture_output=True, text=True, env=environment(), check=False)
    assert done.returncode == 0, done.stderr
    return dict(json.loads(line) for line in done.stdout.splitlines())


@pytest.mark.slow  # more than a million words, so that tables of 2^20 have to grow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="peaks are read from Linux's /proc")
def test_many_distinct_words_take_what_the_plan_says(tmp_path: Path) -> None:
    letters = ["".join(word) for word in product("abcdefghijklmn", repeat=3)]
    job = write_job(tmp_path / "many", map("".join, islice(product(letters, letters), N_TYPES)))
    peaks = measured(job)
    (words,) = Path(f"{job}.w").glob("**/*.words.parquet")
    # A dictionary is written before the table of 2^20 words has to grow.
    assert pq.ParquetFile(words).metadata.row_group(0).num_rows < 2**20
    plan = plan_job(load_job(job, workspace=f"{job}.w"))
    planned = plan.stages
    for name in STAGES:
        assert planned[name].exact
        assert peaks[name] <= planned[name].process_bytes(1)
        assert planned[name].process_bytes(1) <= 2.5 * peaks[name], name


# --- memory between stages -----------------------------------------------------------------------------------

GIVEN_BACK: list[str] = []
"""The threads that gave memory back in the place of `give_memory_back`."""


def note_thread() -> None:
    GIVEN_BACK.append(threading.current_thread().name)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only glibc's allocator is asked")
def test_memory_that_is_no_longer_used_goes_back_to_the_system() -> None:
    """Pieces below one that is still used stay with the process, until it gives them back."""
    used = [bytes(1000) for _ in range(200_000)]
    del used[:-1]
    before = psutil.Process().memory_info().rss
    heaps.give_memory_back()
    assert before - psutil.Process().memory_info().rss > 100 * 2**20


def test_memory_is_not_looked_for_in_a_process_that_has_not_grown(monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_a_run_gives_memory_back_after_each_stage_on_all_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workers, "give_memory_back", note_thread)
    GIVEN_BACK.clear()
    run_stages(load_job(write_job(tmp_path / "a", ["word"] * 400)), until="vocabulary")
    assert len(GIVEN_BACK) == 2
    with Client(n_workers=1, threads_per_worker=1, processes=False, dashboard_address=":0") as client:
        GIVEN_BACK.clear()
        workers.Workers(client=client).give_memory_back()
        assert len(GIVEN_BACK) == 2


HEAPS_OF_THREADS = """
import ctypes, threading
import numpy as np
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
libc = ctypes.CDLL(None)
libc.fdopen.restype = ctypes.c_void_p
libc.malloc_info(0, ctypes.c_void_p(libc.fdopen(1, b"w")))
libc.fflush(None)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="needs the allocator of glibc")
@pytest.mark.parametrize(
    ("first", "variables", "most"),
    [("", {}, 2), ("", {"MALLOC_ARENA_MAX": "3"}, 3), ("import distembed.cli.main", {}, 1)],
)
def test_the_threads_of_a_run_make_no_heaps(first: str, variables: dict[str, str], most: int) -> None:
    """In Python there are two before: that of the process, and that of the thread which pyarrow starts as it is
    imported. A command asks for one heap before it imports pyarrow.
    """
    done = subprocess.run(
        [sys.executable, "-c", f"{first}\n{HEAPS_OF_THREADS}"],
        capture_output=True,
        text=True,
        env=environment() | variables,
        check=True,
    )
    assert done.stdout.count("<heap nr=") == most, done.stdout
