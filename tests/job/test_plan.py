"""Plans: what a job takes by estimate and by count, and what is refused."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import psutil
import pytest

from distembed import heaps
from distembed.costs import WORKER_BYTES, Cost
from distembed.job import plan as plan_module
from distembed.job.load import load_job
from distembed.job.model import Job
from distembed.job.plan import Plan
from distembed.job.planning import plan_job
from distembed.job.run import run_stages
from distembed.storage.workspace import Workspace

N_DOCUMENTS = 3000


def words_of(number: int) -> str:
    """Return a short document of some of two hundred words and one that no other document has."""
    chosen = np.random.default_rng(number).zipf(1.3, 20) % 200
    return " ".join(
        chr(97 + word % 26) * 3 + chr(97 + word // 26) for word in chosen
    ) + f" once{number:x}".replace("0", "q")


@pytest.fixture(scope="module")
def job_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a topics job on JSON lines, of whose words only a few are in five documents."""
    folder = tmp_path_factory.mktemp("plan")
    lines = (json.dumps({"text": words_of(number)}) + "\n" for number in range(N_DOCUMENTS))
    (folder / "a.jsonl").write_text("".join(lines))
    (folder / "job.toml").write_text(
        '[job]\nsystem = "topics"\nworkspace = "w"\n[corpus]\npaths = ["a.jsonl"]\nnumbers = true\n'
        '[vocabulary]\nmin_documents = 5\nstop_words = "none"\n[resources]\nworkers = 1\n'
    )
    return folder / "job.toml"


def test_words_in_few_documents_are_not_planned_for(job_file: Path, tmp_path: Path) -> None:
    """The plan of a collection counted every word of Heaps' law: 2.5 million where 18,000 were."""
    estimated = plan_job(load_job(job_file))
    job = load_job(job_file, workspace=str(tmp_path / "w"))
    run_stages(job, until="vocabulary")
    counted = plan_job(job)
    assert "estimated from the whole text" in estimated.sizes
    assert "estimated" not in counted.sizes.split("words")[0]
    n_words = int(counted.sizes.split(" words")[0].rsplit(" ", 1)[1].replace(",", ""))
    assert n_words < 250 < N_DOCUMENTS
    assert f"about {float(f'{n_words:.1e}'):,.0f} words" in estimated.sizes
    for name, stage in estimated.stages.items():
        assert stage.peak_bytes(1) == pytest.approx(counted.stages[name].peak_bytes(1), rel=0.2), name
    assert not estimated.stages["vocabulary"].exact
    assert not estimated.stages["partial_counts"].exact
    assert counted.stages["partial_counts"].exact


def test_what_was_counted_for_another_vocabulary_is_an_estimate_again(job_file: Path, tmp_path: Path) -> None:
    settings = ("vocabulary.min_documents=1",)
    job = load_job(job_file, workspace=str(tmp_path / "w"), settings=settings)
    run_stages(job, until="vocabulary")
    large = plan_job(job).stages["partial_counts"]
    small = plan_job(load_job(job_file, workspace=str(tmp_path / "w"))).stages["partial_counts"]
    assert large.exact
    assert not small.exact
    assert small.task_bytes < large.task_bytes


MIB = 2**20


def test_a_plan_of_counted_sizes_writes_what_a_run_wrote(job: Path, finished: tuple[Path, str, str]) -> None:
    """Runs as their numbers take two bytes or four, and the vectors of each round beside the result."""
    plan = plan_job(load_job(job, workspace=str(finished[0])))
    done = Workspace.open(finished[0]).stages()
    assert plan.stages["cooccurrence"].tasks == done["cooccurrence"].facts["n_row_blocks"]
    for name in ("partial_counts", "core", "vectors"):
        blocks = [block for output in done[name].outputs.values() for block in output.blocks]
        written = sum(file.size for block in blocks for file in block.files.values())
        assert plan.stages[name].written_bytes == pytest.approx(written, rel=0.15), name


@pytest.fixture(scope="module")
def english(tmp_path_factory: pytest.TempPathFactory) -> Job:
    """Return a job of PSDVec with 600 MiB for each process."""
    path = tmp_path_factory.mktemp("english") / "job.toml"
    path.write_text(
        '[job]\nworkspace = "w"\n[corpus]\npaths = ["a.txt"]\n'
        '[resources]\nmemory_limit = "600MiB"\nblock_memory = "64MiB"\nworkers = 4\n'
    )
    return load_job(path)


def planned(job: Job, stage: Cost) -> Plan:
    return Plan(job, "", {"core": stage})


def test_a_refusal_names_the_two_keys_that_help(english: Job) -> None:
    with pytest.raises(MemoryError) as refused:
        planned(english, Cost(1, 0, 0, 1024 * MIB)).check()
    assert str(refused.value) == (
        "a task of stage core would need 1.0 GiB beside the 500.0 MiB of a worker, over the limit of 600.0 MiB: lower "
        'resources.block_memory (it is 64.0 MiB), or set resources.memory_limit = "1524MiB"'
    )


def test_without_a_limit_the_workers_share_the_memory_of_the_machine(
    job_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heaps, "memory_of_machine", lambda: 8 << 30)
    monkeypatch.setattr(plan_module, "memory_of_machine", lambda: 8 << 30)
    job = load_job(job_file, settings=("resources.workers=3",))
    assert job.resources.process_memory == 2 << 30
    stage = Cost(3, 0, 0, 2048 * MIB, 1024 * MIB)
    assert (
        "each worker process: 3.5 GiB of at most 2.0 GiB; 3 threads of one process: 7.5 GiB of at most 6.0 GiB, 75%"
        in (planned(job, stage).table())
    )
    with pytest.raises(MemoryError, match=r"^3 tasks at once of stage core .*or set resources\.workers = 2$"):
        planned(job, stage).check()
    planned(
        load_job(job_file, settings=("resources.workers=2",)), stage
    ).check()  # what they share counts once
    planned(job, stage).check(memory=False)  # as on a cluster, whose workers have limits of their own
    with pytest.raises(MemoryError, match=r'or set resources\.memory_limit = "10740MiB"$'):
        planned(job, Cost(1, 0, 0, 10240 * MIB)).check()


def test_the_memory_of_the_machine_is_that_of_its_control_group(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, limit in {
        "memory.max": "max\n", "user/memory.max": "5000\n", "user/run/memory.max": "7000\n",
        "memory/memory.limit_in_bytes": "9223372036854771712\n", "memory/job/memory.limit_in_bytes": "6000\n",
    }.items():  # fmt: skip
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(limit)
    monkeypatch.setattr(heaps, "CGROUPS", tmp_path)
    monkeypatch.setattr(heaps, "OWN_CGROUPS", tmp_path / "own")
    machine = psutil.virtual_memory().total
    for own, limit in {
        "0::/\n": machine, "0::/user/run\n": 5000, "3:memory:/job\n0::/\n": 6000, "3:memory:/elsewhere\n": machine
    }.items():  # fmt: skip
        (tmp_path / "own").write_text(own)
        assert heaps.memory_of_machine() == limit, own
    (tmp_path / "own").unlink()  # a system without control groups
    assert heaps.memory_of_machine() == machine


def test_too_many_tasks_are_those_of_all_stages_together(english: Job) -> None:
    """Two stages of 70,000 tasks each passed a limit that each of them alone was held against."""

    def two_stages(n_core: int, n_vectors: int, *, n_rounds: int = 1) -> Plan:
        vectors = Cost(n_vectors * n_rounds, 0, 0, 1, graphs=n_rounds)
        return Plan(english, "", {"core": Cost(n_core, 0, 0, 1), "vectors": vectors})

    plan = two_stages(60_000, 70_000)
    told = (
        "the 2 stages to be run would be 130,000 tasks, over 100,000, of which stage vectors has 70,000: raise "
        "resources.block_memory or corpus.partition_bytes, or give it less input"
    )
    with pytest.raises(ValueError, match=f"^{re.escape(told)}$"):
        plan.check()
    plan.check({"core"})
    plan._replace(done=frozenset({"core"})).check()
    two_stages(50_000, 50_000).check()
    two_stages(50_000, 50_000, n_rounds=100).check()


def test_a_warning_is_no_refusal(english: Job) -> None:
    plan = planned(english, Cost(1, 0, 0, 515 * MIB))
    estimated = plan._replace(stages={"core": plan.stages["core"]._replace(exact=False)})
    estimated.check()
    (warning,) = estimated.warnings()
    assert "lower resources.block_memory" in warning
    smaller = estimated.stages["core"]._replace(task_bytes=estimated.stages["core"].task_bytes - 1)
    (both,) = estimated._replace(stages={"noncore": smaller, **estimated.stages}).warnings()
    assert "a task of stage core would need" in both
    assert "; too large, too: noncore (" in both
    assert estimated._replace(done=frozenset({"core"})).warnings() == ()
    assert estimated.process_bytes(1) == WORKER_BYTES + 515 * MIB
