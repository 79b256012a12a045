"""Plans: what a job takes by estimate and by count, what is refused, and the memory that goes back between stages."""

from __future__ import annotations

import gzip
import json
import os
import platform
import re
import subprocess
import sys
import threading
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import psutil
import pytest
from distributed import Client

from distembed import heaps
from distembed.job import plan as plan_module
from distembed.job import workers
from distembed.job.load import load_job
from distembed.job.model import Job, JobError
from distembed.job.plan import Plan, plan_job
from distembed.job.run import run_stages
from distembed.job.status import spent_text
from distembed.lift import block
from distembed.plan import Dimension, Dimensions, StagePlan, stage_plan, task
from distembed.storage.records import StageFacts
from tests.commands import environment
from tests.tiny_job import computed

N_DOCUMENTS, MIB = 3000, 2**20


def words_of(number: int) -> str:
    """Return a short document of some of two hundred words and one that no other document has."""
    chosen = np.random.default_rng(number).zipf(1.3, 20) % 200
    words = " ".join(chr(97 + word % 26) * 3 + chr(97 + word // 26) for word in chosen)
    return f"{words} once{number:x}".replace("0", "q")


@pytest.fixture(scope="module")
def job_file(tmp_path_factory) -> Path:
    """Return a topics job on JSON lines, of whose words only a few are in five documents."""
    folder = tmp_path_factory.mktemp("plan")
    lines = (json.dumps({"text": words_of(number)}) + "\n" for number in range(N_DOCUMENTS))
    (folder / "a.jsonl").write_text("".join(lines))
    (folder / "job.toml").write_text(
        '[job]\nsystem = "topics"\nworkspace = "w"\n[corpus]\npaths = ["a.jsonl"]\nnumbers = true\n'
        '[vocabulary]\nmin_documents = 5\nstop_words = "none"\n[resources]\nworkers = 1\n'
    )
    return folder / "job.toml"


def test_what_is_not_counted_or_counted_for_another_vocabulary_is_a_bound(job_file, tmp_path):
    bounds = plan_job(load_job(job_file))
    job = load_job(job_file, workspace=str(tmp_path / "w"))
    run_stages(job, until="vocabulary")
    counted = plan_job(job)
    assert "about 3,000 documents" in bounds.sizes
    assert "3,000 documents" in counted.sizes
    assert "sample" not in counted.sizes
    assert not bounds.stages["vocabulary"].exact
    assert counted.stages["cooccurrence"].exact
    for name, stage in bounds.stages.items():
        assert stage.process_bytes(1) >= counted.stages[name].process_bytes(1), name
    other = load_job(job_file, workspace=str(tmp_path / "w"), settings=("vocabulary.min_documents=1",))
    for plan in (bounds, plan_job(other)):
        assert not plan.stages["cooccurrence"].exact


def test_a_file_that_cannot_be_cut_is_planned_as_one_partition(job_file):
    packed = job_file.with_name("a.jsonl.gz")
    packed.write_bytes(gzip.compress(job_file.with_name("a.jsonl").read_bytes(), 0))
    settings = ("corpus.paths=['a.jsonl']", "corpus.paths=['a.jsonl.gz']")
    cut, whole = (
        plan_job(load_job(job_file, settings=(one, "corpus.partition_bytes=100000"))) for one in settings
    )
    assert "in 1 partition;" in whole.sizes
    for name in ("cooccurrence", "document_terms"):
        assert whole.stages[name].task_bytes - cut.stages[name].task_bytes > 32 * N_DOCUMENTS / 2


# --- limits ----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def english(tmp_path_factory) -> Job:
    """Return a job of PSDVec with 600 MiB for each process."""
    path = tmp_path_factory.mktemp("english") / "job.toml"
    path.write_text(
        '[job]\nworkspace = "w"\n[corpus]\npaths = ["a.txt"]\n'
        '[resources]\nmemory_limit = "600MiB"\nblock_memory = "64MiB"\nworkers = 4\n'
    )
    return load_job(path)


def planned(job: Job, stage: StagePlan, **options: bool) -> Plan:
    return Plan(job, "", {"core": stage}, **options)


def test_a_plan_that_is_exact_is_refused_and_names_the_two_keys_that_help_and_a_bound_is_a_warning(english):
    too_large = planned(english, StagePlan(1024 * MIB, 10 * MIB))
    with pytest.raises(MemoryError) as refused:
        too_large.check()
    assert str(refused.value) == (
        "a task of stage core would need 1.0 GiB and 10.0 MiB held whole beside the 500.0 MiB of the libraries, over "
        "the limit of 600.0 MiB: lower resources.block_memory (it is 64.0 MiB), or set "
        'resources.memory_limit = "1534MiB"'
    )
    bound = too_large.stages["core"]._replace(exact=False)
    stages = {"noncore": bound._replace(task_bytes=bound.task_bytes - 1), "core": bound}
    both = planned(english, bound)._replace(stages=stages)
    both.check()
    (warning,) = both.warnings()
    assert "a task of stage core would need" in warning
    assert "lower resources.block_memory" in warning
    assert "; too large, too: noncore (" in warning
    assert both._replace(done=frozenset({"core", "noncore"})).warnings() == []


def test_a_job_that_is_refused_leaves_no_folder(tmp_path, monkeypatch):
    (tmp_path / "a.txt").write_text("cat dog\n" * 50)
    (tmp_path / "job.toml").write_text('[job]\nworkspace = "w"\n[corpus]\npaths = ["a.txt"]\n')
    monkeypatch.setattr(plan_module, "MAX_TASKS", 3)
    with pytest.raises(JobError, match="tasks, over 3, of which stage"):
        run_stages(load_job(tmp_path / "job.toml"))
    assert not (tmp_path / "w").exists()


@pytest.mark.parametrize(
    ("task", "states", "n_workers", "planned_mib", "states_fit"),
    [
        (40, 0, 2, 580, True),
        (100, 0, 1, 600, True),
        (101, 0, 0, 601, False),
        (10, 60, 4, 600, True),
        (10, 61, 4, 540, False),
    ],
)
def test_room_decides_how_many_workers_run_a_stage_and_whether_its_states_stay_in_memory(
    english, task, states, n_workers, planned_mib, states_fit
):
    stage = StagePlan(task * MIB, tasks=100, states_bytes=states * MIB)
    plan = planned(english, stage)
    assert (plan.n_workers("core"), plan.states_fit("core")) == (n_workers, states_fit)
    if n_workers:
        assert plan.planned_bytes("core") == planned_mib * MIB
    assert planned(english, stage, processes=True).n_workers("core") == (4 if task <= 100 else 0)


def test_without_a_limit_the_workers_share_the_memory_of_the_machine(job_file, monkeypatch):
    for module in (heaps, plan_module):
        monkeypatch.setattr(module, "memory_of_machine", lambda: 8 << 30)
    job = load_job(job_file, settings=("resources.workers=3",))
    assert job.resources.process_memory == 2 << 30
    plan = planned(job, StagePlan(2048 * MIB, 1024 * MIB, tasks=3))
    assert "of at most 6.0 GiB, 75% of the 8.0 GiB here" in plan.table()
    assert plan.n_workers("core") == 2  # what they share counts once
    assert plan._replace(processes=True).n_workers("core") == 1
    large = planned(job, StagePlan(10240 * MIB))
    with pytest.raises(MemoryError, match=r'or set resources\.memory_limit = "10740MiB"$'):
        large.check()
    large.check(memory=False)  # as on a cluster, whose workers have limits of their own


def test_the_memory_of_the_machine_is_that_of_its_control_group(tmp_path, monkeypatch):
    for name, limit in {
        "memory.max": "max\n", "user/memory.max": "5000\n", "user/run/memory.max": "7000\n",
        "memory/memory.limit_in_bytes": "9223372036854771712\n", "memory/job/memory.limit_in_bytes": "6000\n",
    }.items():  # fmt: skip
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(limit)
    monkeypatch.setattr(heaps, "CGROUPS", tmp_path)
    monkeypatch.setattr(heaps, "OWN_CGROUPS", tmp_path / "own")
    machine = psutil.virtual_memory().total
    assert heaps.memory_of_machine() == machine  # a system without control groups
    for own, limit in {
        "0::/\n": machine, "0::/user/run\n": 5000, "3:memory:/job\n0::/\n": 6000, "3:memory:/elsewhere\n": machine
    }.items():  # fmt: skip
        (tmp_path / "own").write_text(own)
        assert heaps.memory_of_machine() == limit, own


def test_too_many_tasks_are_those_of_all_stages_together(english):
    """Two stages of 70,000 tasks each passed a limit that each of them alone was held against."""

    def two_stages(n_core: int, n_vectors: int) -> Plan:
        stages = {"core": StagePlan(1, tasks=n_core), "vectors": StagePlan(1, tasks=n_vectors)}
        return Plan(english, "", stages)

    plan = two_stages(60_000, 70_000)
    told = (
        "the 2 stages to be run would be about 130,000 tasks, over 100,000, of which stage vectors has 70,000: raise "
        "resources.block_memory or corpus.partition_bytes, or give it less input"
    )
    with pytest.raises(ValueError, match=f"^{re.escape(told)}$"):
        plan.check()
    plan.check({"core"})
    plan._replace(done=frozenset({"core"})).check()
    two_stages(50_000, 50_000).check()


def test_a_plan_is_exact_if_all_that_it_asks_for_is_counted():
    dims = Dimensions({"word": Dimension(10, 5), "pair": Dimension(100, 10, counted=False)})
    of_words = dims.planned(
        lambda _, dims: stage_plan(dims.block("word", 3), n_tasks=dims.n_blocks("word")), None
    )
    assert of_words == StagePlan(4 * 5 * 3, tasks=2)
    assert not dims.planned(lambda _, dims: stage_plan(dims.whole("pair")), None).exact
    assert dims.planned(lambda *_: stage_plan(7), None).exact


def test_a_task_holds_its_inputs_twice_its_result_and_its_temporaries():
    @block(temporaries=2)
    def product(left: object, right: object) -> None: ...

    assert task(product, 10, 30, output=20) == 2 * 40 + 20 + 2 * 30
    assert task(partial(product, right=1), output=50) == 50 + 2 * 50


def test_a_stage_above_its_plan_is_named_and_one_without_figures_is_shown_without_them():
    facts = {"wall_seconds": 1.0, "peak_process_bytes": 2 << 30, "peak_total_bytes": 2 << 30}
    assert "above its plan of 1.0 GiB" in spent_text({**facts, "planned_process_bytes": 1 << 30})
    for planned in ({"planned_process_bytes": 3 << 30}, {"planned_process_bytes": (2 << 30) - (4 << 20)}, {}):
        assert "above" not in spent_text(facts | planned)  # the libraries take some MiB more or less
    nothing = "         –   peak – per process, – together"
    absurd = StageFacts({"wall_seconds": 1e308, "peak_process_bytes": 10**300})
    assert spent_text({}) == spent_text(absurd) == nothing


# --- memory between stages -------------------------------------------------------------------------------------------


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

together = threading.Barrier(4)
for _ in range(4):
    threading.Thread(target=lambda: (np.ones(2000), together.wait())).start()
libc = ctypes.CDLL(None)
libc.fdopen.restype = ctypes.c_void_p
libc.malloc_info(0, ctypes.c_void_p(libc.fdopen(1, b"w")))
libc.fflush(None)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="needs the allocator of glibc")
def test_the_threads_of_a_command_make_no_heaps():
    command = [sys.executable, "-c", HEAPS_OF_A_COMMAND]
    done = subprocess.run(command, capture_output=True, text=True, env=environment(), check=True)
    assert done.stdout.count("<heap nr=") == 1, done.stdout


def test_the_number_of_heaps_that_a_user_sets_stands_and_what_is_unused_goes_back(monkeypatch):
    asked: list[object] = []
    library = SimpleNamespace(
        mallopt=lambda *to: asked.append(to), malloc_trim=lambda _: asked.append("trim")
    )
    monkeypatch.setattr(heaps.ctypes, "CDLL", lambda _: library)
    monkeypatch.setitem(os.environ, "MALLOC_ARENA_MAX", "3")
    heaps.share_one_heap()
    assert asked == []
    monkeypatch.delenv("MALLOC_ARENA_MAX")
    heaps.share_one_heap()
    heaps.give_memory_back()
    assert asked == [(heaps.M_ARENA_MAX, 1), "trim"] * (sys.platform == "linux")
