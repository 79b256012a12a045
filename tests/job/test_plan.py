"""Plans: what a job takes by estimate and by count, and which one option would make it fit."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from distembed.costs import TASK_NETWORK_BYTES, WORKER_BYTES, Cost, Exchange
from distembed.factorization.psdvec_costs import CoreOptions, core_exchange
from distembed.job.load import load_job
from distembed.job.model import Job
from distembed.job.plan import FEWER_TASKS, LESS_MEMORY, Plan, Remedy, changed
from distembed.job.planning import plan_job
from distembed.job.run import run_stages
from distembed.storage.workspace import Workspace
from tests.commands import run, succeed

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


class Needs:
    """Plans a stage whose peak depends on one option; `bytes_of` takes a job."""

    def __init__(self, bytes_of, *, n_tasks=lambda _: 1):
        self.bytes_of, self.n_tasks = bytes_of, n_tasks

    def __call__(self, job: Job) -> Plan:
        stage = Cost(self.n_tasks(job), 0, 0, int(self.bytes_of(job)))
        return Plan(job, "", {"core": stage}, again=self)


MIB = 2**20
NEEDS = {
    "resources.block_memory": lambda job: 8 * job.resources.block_memory + 3 * MIB,
    "vocabulary.max_size": lambda job: 1000 * (job.vocabulary.max_size or 10**6),
    "vocabulary.min_count": lambda job: 400 * MIB / job.vocabulary.min_count**0.5,
    "psdvec.n_core": lambda job: 4000 * (job.psdvec.n_core or 10**5),
    "resources.workers": lambda job: 80 * MIB * job.resources.n_workers,
}


def test_a_plan_of_counted_sizes_writes_what_a_run_wrote(job: Path, finished: tuple[Path, str, str]) -> None:
    """Runs as their numbers take two bytes or four, and the vectors of each round beside the result."""
    plan = plan_job(load_job(job, workspace=str(finished[0])))
    done = Workspace.open(finished[0]).stages()
    assert plan.stages["cooccurrence"].tasks == done["cooccurrence"].facts["n_row_blocks"]
    for name in ("partial_counts", "core", "vectors"):
        blocks = [block for output in done[name].outputs.values() for block in output.blocks]
        written = sum(file.size for block in blocks for file in block.files.values())
        assert plan.stages[name].written_bytes == pytest.approx(written, rel=0.15), name


def test_what_goes_over_the_network_grows_with_the_hosts_as_the_parts_of_it_do(english: Job) -> None:
    """An array that each worker needs is sent once to each, what is moved but once, and one block stays where it is."""
    whole = 10**6
    assert [Exchange(8, whole).sent_bytes(n) for n in (1, 2, 4)] == [0, 1.5 * whole, 3.75 * whole]
    assert [Exchange(8, moved_bytes=whole).sent_bytes(n) for n in (1, 2, 4, 99)] == [0, 5e5, 7.5e5, 8.75e5]
    assert Exchange(1, whole, whole).sent_bytes(4) == 0
    assert Cost(20, 0, 0, 0, exchange=Exchange()).network_bytes(4) == 20 * TASK_NETWORK_BYTES
    assert Cost(20, 0, 0, 0).network_bytes(4) is None
    core = core_exchange(CoreOptions.of(english.psdvec), 10_000, 10**8, english.resources.block_memory)
    assert core.n_blocks == 10**8 // 2**20
    assert core.gathered_bytes > 4 * 10_000 * english.psdvec.n_components * english.psdvec.first_passes // 2
    one_block = core_exchange(CoreOptions.of(english.psdvec), 10_000, 10**5, english.resources.block_memory)
    assert one_block.sent_bytes(8) == 0


def test_a_plan_for_hosts_tells_the_store_from_the_network(job_file: Path) -> None:
    assert "over the network" not in run("plan", job_file).output
    done = succeed("plan", job_file, "--hosts", "4")
    table = done.output.split("over the network", 1)[1].splitlines()
    assert table[0].endswith("between the hosts, at least")
    found = {line.split()[0]: line for line in table[1:] if line}
    assert "KiB" in found["tokens"]
    assert "not planned" in found["evaluation"]
    assert "between 4 workers on hosts of their own" in done.output
    assert run("plan", job_file, "--hosts", "0").exit_code == 2


@pytest.fixture(scope="module")
def english(tmp_path_factory: pytest.TempPathFactory) -> Job:
    """Return a job of PSDVec with 600 MiB for each process."""
    path = tmp_path_factory.mktemp("english") / "job.toml"
    path.write_text(
        '[job]\nworkspace = "w"\n[corpus]\npaths = ["a.txt"]\n'
        '[resources]\nmemory_limit = "600MiB"\nblock_memory = "64MiB"\nworkers = 4\n'
    )
    return load_job(path)


@pytest.mark.parametrize("key", NEEDS)
def test_a_refusal_names_the_option_that_helps(english: Job, key: str) -> None:
    plan = Needs(NEEDS[key])(english)
    with pytest.raises(MemoryError, match=rf"set {key} = .*, or resources.memory_limit = ") as refused:
        plan.check()
    setting, value = str(refused.value).split("set ")[1].split(",")[0].split(" = ")
    number = int(value.strip('"').removesuffix("MiB")) * (MIB if "MiB" in value else 1)
    helped = changed(english, Remedy(setting, number))
    assert helped is not None
    Needs(NEEDS[key])(helped).check()
    limit = int(str(refused.value).rsplit('"', 2)[1].removesuffix("MiB")) * MIB
    raised = changed(english, Remedy("resources.memory_limit", limit))
    assert raised is not None
    Needs(NEEDS[key])(raised).check()


def test_where_nothing_else_helps_a_refusal_says_so(english: Job) -> None:
    with pytest.raises(
        MemoryError, match=r'set resources.memory_limit = "1524MiB"; no other option is enough'
    ):
        Needs(lambda _: 1024 * MIB)(english).check()


def test_an_option_that_leaves_no_word_is_no_remedy(tmp_path: Path) -> None:
    """A refusal tries larger counts of words: on a small text it ended in "the vocabulary is empty"."""
    (tmp_path / "a.txt").write_text("the cat sat on the mat\n" * 9)
    (tmp_path / "job.toml").write_text(
        '[job]\nworkspace = "w"\n[corpus]\npaths = ["a.txt"]\n[vocabulary]\nmin_count = 1\n'
        '[psdvec]\nn_components = 2\n[resources]\nworkers = 1\nmemory_limit = "100MiB"\n'
    )
    job = load_job(tmp_path / "job.toml")
    with pytest.raises(MemoryError, match="no other option is enough"):
        run_stages(job)


def test_a_dense_solver_that_cannot_fit_is_refused_before_it_runs(tmp_path: Path) -> None:
    """No plan had a term for its matrices of all pairs of words."""
    words = [f"w{number:04d}".translate(str.maketrans("0123456789", "abcdefghij")) for number in range(2500)]
    (tmp_path / "a.txt").write_text(" ".join(words) + "\n")
    (tmp_path / "job.toml").write_text(
        '[job]\nworkspace = "w"\n[corpus]\npaths = ["a.txt"]\n[vocabulary]\nmin_count = 1\n'
        '[psdvec]\nn_components = 20\nsolver = "dense"\n[resources]\nworkers = 1\nmemory_limit = "800MiB"\n'
    )
    with pytest.raises(MemoryError, match=r"a task of stage core .*: set vocabulary.max_size = 2000, or"):
        run_stages(load_job(tmp_path / "job.toml"))
    krylov = load_job(tmp_path / "job.toml", settings=('psdvec.solver="krylov"',))
    assert plan_job(krylov).stages["core"].peak_bytes(1) < 100 * MIB


def test_an_option_the_job_has_not_is_not_named(job_file: Path) -> None:
    job = load_job(job_file)
    assert changed(job, Remedy("psdvec.n_core", 100)) is None
    assert Remedy("resources.block_memory", 2**17).setting == 'resources.block_memory = "128KiB"'
    assert changed(job, Remedy("vocabulary.min_documents", 7)).vocabulary.min_documents == 7


def test_too_many_tasks_name_the_block_memory_of_fewer(english: Job) -> None:
    many = Needs(lambda _: 1, n_tasks=lambda job: 2**37 // job.resources.block_memory * 100)
    with pytest.raises(
        ValueError, match=r'204,800 tasks, over 100,000.* 204,800: set resources.block_memory = "256MiB"'
    ):
        many(english).check()
    small = changed(english, Remedy("resources.block_memory", 1000))
    assert small is not None
    with pytest.raises(ValueError, match=r'set resources\.block_memory = "2000"'):
        Needs(lambda _: 1, n_tasks=lambda job: 2 * 10**8 // job.resources.block_memory)(small).check()


def two_stages(n_core: int, n_vectors: int, *, n_rounds: int = 1) -> Callable[[Job], Plan]:
    """Return what plans two stages, whose tasks are given for blocks of 64 MiB and fall as blocks grow."""

    def planned(job: Job) -> Plan:
        core, vectors = (n * 64 * MIB // job.resources.block_memory for n in (n_core, n_vectors))
        stages = {"core": Cost(core, 0, 0, 1), "vectors": Cost(vectors * n_rounds, 0, 0, 1, graphs=n_rounds)}
        return Plan(job, "", stages, again=planned)

    return planned


def test_too_many_tasks_are_those_of_all_stages_together(english: Job) -> None:
    """Two stages of 70,000 tasks each passed a limit that each of them alone was held against."""
    plan = two_stages(60_000, 70_000)(english)
    told = (
        "the 2 stages to be run would be 130,000 tasks, over 100,000, of which stage vectors has 70,000: "
        'set resources.block_memory = "128MiB"'
    )
    with pytest.raises(ValueError, match=f"^{re.escape(told)}$"):
        plan.check()
    plan.check({"core"})
    plan._replace(done=frozenset({"core"})).check()
    two_stages(50_000, 50_000)(english).check()
    two_stages(50_000, 50_000, n_rounds=100)(english).check()


def test_where_no_one_option_makes_few_enough_tasks_the_refusal_names_all(english: Job) -> None:
    def planned(job: Job) -> Plan:
        tokens, core = 2**46 // job.corpus.partition_bytes, 2**43 // job.resources.block_memory
        return Plan(job, "", {"tokens": Cost(tokens, 0, 0, 1), "core": Cost(core, 0, 0, 1)}, again=planned)

    assert planned(english).stages["tokens"].tasks > 100_000 < planned(english).stages["core"].tasks
    with pytest.raises(ValueError, match=r"raise resources.block_memory and corpus.partition_bytes, or give"):
        planned(english).check()


def test_an_option_that_outgrows_the_memory_is_no_remedy_for_tasks(english: Job) -> None:
    """A block of 128 MiB would make few enough tasks, each of which needs more than the 600 MiB of a process."""

    def planned(job: Job) -> Plan:
        core = Cost(2**37 // job.resources.block_memory * 60, 0, 0, job.resources.block_memory)
        return Plan(job, "", {"core": core}, again=planned)

    with pytest.raises(ValueError, match="no one option is enough"):
        planned(english).check()


def test_a_warning_is_no_refusal(english: Job) -> None:
    plan = Needs(NEEDS["resources.block_memory"])(english)
    estimated = plan._replace(stages={"core": plan.stages["core"]._replace(exact=False)})
    estimated.check()
    (warning,) = estimated.warnings()
    assert 'set resources.block_memory = "8MiB"' in warning
    smaller = estimated.stages["core"]._replace(task_bytes=estimated.stages["core"].task_bytes - 1)
    (both,) = estimated._replace(stages={"noncore": smaller, **estimated.stages}).warnings()
    assert "a task of stage core would need" in both
    assert "; too large, too: noncore (" in both
    assert estimated._replace(done=frozenset({"core"})).warnings() == ()
    assert estimated.process_bytes(1) == WORKER_BYTES + 515 * MIB


@pytest.mark.parametrize("key", [key for key, _ in (*LESS_MEMORY, *FEWER_TASKS)])
def test_every_option_that_is_tried_is_one_of_a_job(english: Job, job_file: Path, key: str) -> None:
    assert any(changed(job, Remedy(key, 2**20)) is not None for job in (english, load_job(job_file)))
