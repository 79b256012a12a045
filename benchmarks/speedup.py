"""Run the stages of every method with one and more workers, and say how fast their graphs let many workers be.

    python -m benchmarks.speedup FOLDER words noncore topics starts imputation --workers 1 2 \
        --schedulers threads processes hosts --figure speedup.svg

`words`       all of data/english (82 M tokens) as jobs/english_all.toml has it: counting, and all words core
`noncore`     the same with 25,000 core words: the core, and 55,000 words against it
`topics`      plain NMF of the 152,000 documents of two files (22 M tokens), in row blocks
`starts`      ten starts of plain NMF of the documents of one file, which are one block
`imputation`  80,000 drawn names of which a fifth has vectors of 300 numbers

Each run is a process of its own with a workspace of its own in FOLDER, and what it took stays there: the command goes
on where it was ended, and the table has all that is there. `hosts` are four network namespaces (`tests/hosts`).

The bound is not a measurement with so many workers. Of the run on one thread every task, what it needs and its
processor seconds are recorded (`recorded_graphs`), and laid out on so many workers that wait for nothing but tasks.
What the client does between graphs, and handing the tasks out, are not divided by anything. What a bound leaves out:
memory that cores share, Python's lock, disks, and what is sent between processes.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq
from matplotlib import pyplot as plt

from benchmarks.measures import alone, run_main, tell, tell_head, tell_row
from benchmarks.recorded_graphs import RecordedStage, Recorder, stage_of_json
from distembed.cli.main import cli
from distembed.job import run
from tests.hosts.network import WORKERS, Network, cluster

ROOT = Path(__file__).parents[1]
ENGLISH_ALL = ROOT / "jobs/english_all.toml"
SPLIT = (
    "psdvec.n_core=25000",
    "psdvec.ridge=[2.0,4.0,8.0]",
    "psdvec.bands=[18333,18333,18334]",
)
N_ROWS, N_COLUMNS, N_CENTERS = 80_000, 300, 1_000
RUN_SECONDS = 3600.0
COUNTS = (1, 2, 4, 8, 16)

TOPICS = """
[job]
system = "topics"
title = "Topics of English text"
workspace = "w"
[corpus]
paths = [{paths}]
layout = "blocks"
pattern = "ascii"
[vocabulary]
min_documents = 20
max_share = 0.2
stop_words = "english"
[counting]
window = 5
[topics]
method = "nmf"
n_topics = 20
n_starts = {n_starts}
max_iter = 30
tol = 0
[resources]
block_memory = "{block_memory}"
memory_limit = "6GiB"
"""
IMPUTATION = """
[job]
system = "imputation"
title = "Imputation of drawn names"
workspace = "w"
[domain]
path = "domain.parquet"
[known]
path = "known.parquet"
[imputation]
min_degree = 8
[resources]
memory_limit = "6GiB"
"""


class Case(NamedTuple):
    """A job, the `--set` of its runs, the last stage that is run, and the stages that stand in the table."""

    write: Callable[[Path], Path]
    options: tuple[str, ...]
    until: str
    stages: tuple[str, ...]


def topics(paths: str, n_starts: int, block_memory: str) -> Callable[[Path], Path]:
    def write(folder: Path) -> Path:
        files = ", ".join(json.dumps(f"{{data}}/english/{one}") for one in paths.split())
        return written(folder, TOPICS.format(paths=files, n_starts=n_starts, block_memory=block_memory))

    return write


def drawn_rows(seed: int) -> np.ndarray:
    """Return rows around as many centers as there are topics in a corpus, float32."""
    rng = np.random.default_rng(seed)
    centers = rng.standard_normal((N_CENTERS, N_COLUMNS)).astype(np.float32)
    noise = rng.standard_normal((N_ROWS, N_COLUMNS)).astype(np.float32)
    return centers[rng.integers(0, N_CENTERS, N_ROWS)] + noise


def imputation(folder: Path) -> Path:
    rows = drawn_rows(0)
    turned = rows @ np.linalg.qr(np.random.default_rng(1).standard_normal((N_COLUMNS, N_COLUMNS)))[0]
    columns = {"name": np.arange(N_ROWS).astype(str)} | {f"c{place}": one for place, one in enumerate(rows.T)}
    pq.write_table(pa.table(columns), folder / "domain.parquet")
    known = turned[::5].astype(np.float32)
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(known.ravel()), N_COLUMNS)
    pq.write_table(pa.table({"word": columns["name"][::5], "vector": vectors}), folder / "known.parquet")
    return written(folder, IMPUTATION)


def written(folder: Path, text: str) -> Path:
    (folder / "job.toml").write_text(text)
    return folder / "job.toml"


COUNTING = ("tokens", "vocabulary", "cooccurrence")
SIMPLE = "simplewiki2021-0.txt.xz simplewiki2021-1.txt.xz"
CASES = {
    "words": Case(lambda _: ENGLISH_ALL, (), "core", (*COUNTING, "core")),
    "noncore": Case(lambda _: ENGLISH_ALL, SPLIT, "vectors", ("core", "vectors")),
    "topics": Case(topics(SIMPLE, 1, "8MiB"), (), "topics", ("document_terms", "association", "topics")),
    "starts": Case(topics("enwiki2018-0.txt.xz", 10, "64MiB"), (), "topics", ("topics",)),
    "imputation": Case(imputation, (), "vectors", ("join", "graph", "weights", "vectors")),
}


# --- the runs --------------------------------------------------------------------------------------------------


def measured(words: list[str], scheduler: str, n_workers: int) -> dict[str, Any]:
    """Run a command of distembed in this process; return the figures of each stage, and its graphs on one thread."""
    recorder, found, run_stage = Recorder(), {}, run._run_stage

    def run_noted(running: run.Run, name: str, **options: bool) -> bool:
        client = running.workers.client
        begun, cpu, moved = time.perf_counter(), cpu_seconds(), moved_bytes(client)
        with recorder.stage(name):
            ran = run_stage(running, name, **options)
        found[name] = {
            "wall": time.perf_counter() - begun,
            "cpu": cpu_seconds() - cpu,
            "moved": moved_bytes(client) - moved,
        }
        return ran

    run._run_stage = run_noted
    is_recorded = scheduler == "threads" and n_workers == 1
    with recorder.recording() if is_recorded else nullcontext():
        cli(words, standalone_mode=False)
    return {"stages": found, "graphs": recorder.stages if is_recorded else {}}


def cpu_seconds() -> float:
    """Return the processor seconds of this process and of those that it started and that still run."""
    here = psutil.Process()
    return sum(sum(one.cpu_times()[:2]) for one in (here, *here.children(recursive=True)))


def moved_bytes(client: Any) -> int:
    """Return the bytes of the arrays that workers have fetched from each other."""
    if client is None:
        return 0
    return sum(client.run(_fetched).values())


def _fetched(dask_worker: Any) -> int:
    return sum(transfer["total"] for transfer in dask_worker.transfer_incoming_log)


class Wire(NamedTuple):
    """What went over the network during a stage: its seconds, and the bytes that each host has sent."""

    stage: str
    seconds: float
    sent: dict[str, int]


def follow(hosts: Network, client: subprocess.Popen[bytes], workspace: Path, *, seconds: float) -> list[Wire]:
    """Wait for the end of a run; return what went over the network until each of its stages was committed."""
    begin, before = time.monotonic(), hosts.sent()
    deadline, wires, committed = begin + seconds, [], _committed(workspace)
    while (ended := client.poll() is not None) or time.monotonic() < deadline:
        now, count = time.monotonic(), hosts.sent()
        for stage in sorted(_committed(workspace) - committed):
            wires.append(Wire(stage, now - begin, {host: count[host] - before[host] for host in count}))
            committed.add(stage)
            begin, before = now, count
        if ended:
            return wires
        time.sleep(0.05)
    raise AssertionError(f"the run took over {seconds:.0f} s:\n{hosts.log('client').read_text()}")


def _committed(workspace: Path) -> set[str]:
    return {file.stem for file in (workspace / "manifest").glob("*.json")}


def measured_on_hosts(job: Path, workspace: Path, words: list[str]) -> dict[str, Any]:
    """Run a job on four hosts of a network; the bytes are those of its frames."""
    with tempfile.TemporaryDirectory(prefix="hosts-") as folder, cluster(Path(folder)) as hosts:
        client = hosts.run_job(job, workspace, *words)
        wires = follow(hosts, client, workspace, seconds=RUN_SECONDS)
        if client.returncode:
            raise SystemExit(hosts.log("client").read_text())
    found = {
        wire.stage: {"wall": wire.seconds, "cpu": None, "moved": sum(wire.sent.values())} for wire in wires
    }
    return {"stages": found, "graphs": {}}


def run_case(folder: Path, case: Case, scheduler: str, n_workers: int) -> dict[str, Any]:
    folder.mkdir(parents=True, exist_ok=True)
    job, workspace = case.write(folder), folder / f"{scheduler}-{n_workers}"
    shutil.rmtree(workspace, ignore_errors=True)  # of a command that was ended
    words = [*(word for option in case.options for word in ("--set", option)), "--until", case.until]
    if scheduler == "hosts":
        return measured_on_hosts(job, workspace, words)
    words += ["--workspace", str(workspace), "--scheduler", scheduler, "--workers", str(n_workers)]
    return alone(measured, ["run", str(job), *words], scheduler, n_workers)


# --- the table and the figure ------------------------------------------------------------------------------------


class Row(NamedTuple):
    """A stage of a case: its figures by scheduler and workers, and its graphs on one thread."""

    case: str
    stage: str
    runs: dict[str, dict[str, Any]]
    recorded: RecordedStage | None


def rows_in(folder: Path) -> Iterator[Row]:
    for name, case in CASES.items():
        results = {
            file.stem: json.loads(file.read_text()) for file in sorted((folder / name).glob("*-*.json"))
        }
        graphs = results.get("threads-1", {}).get("graphs", {})
        for stage in case.stages:
            runs = {run: found["stages"][stage] for run, found in results.items() if stage in found["stages"]}
            if runs:
                yield Row(name, stage, runs, stage_of_json(graphs[stage]) if stage in graphs else None)


def tell_table(rows: list[Row]) -> None:
    columns = sorted(
        {run for row in rows for run in row.runs}, key=lambda run: (run.split("-")[0] != "threads", run)
    )
    tell_head("job", "stage", *(f"{run.replace('-', ' x ')}: wall, CPU, moved" for run in columns))
    for row in rows:
        tell_row(row.case, row.stage, *(_figures(row.runs.get(run)) for run in columns))
    tell()
    tell_head("job", "stage", "tasks", "client, s", "longest path, s", *(f"bound at {p}" for p in COUNTS[1:]))
    for row in rows:
        if row.recorded is not None:
            bounds = [f"{row.recorded.bound(p):.1f}" for p in COUNTS[1:]]
            n_tasks = sum(len(graph.tasks) for graph in row.recorded.graphs)
            path = row.recorded.seconds_on(n_tasks)
            tell_row(
                row.case,
                row.stage,
                f"{n_tasks:,}",
                f"{row.recorded.client_seconds:.2f}",
                f"{path:.2f}",
                *bounds,
            )


def _figures(found: dict[str, Any] | None) -> str:
    if found is None:
        return "-"
    cpu = "-" if found["cpu"] is None else f"{found['cpu']:.1f} s"
    return f"{found['wall']:.1f} s, {cpu}, {found['moved'] / 1e6:,.0f} MB"


def draw(rows: list[Row], target: Path) -> None:
    figure, axes = plt.subplots(figsize=(7, 5))
    axes.plot(COUNTS, COUNTS, color="0.7", linewidth=1)
    for place, row in enumerate(row for row in rows if row.recorded is not None):
        style = ("-", "--", ":")[place // 10]
        axes.plot(
            COUNTS,
            [row.recorded.bound(p) for p in COUNTS],
            style,
            marker=".",
            label=f"{row.case}: {row.stage}",
        )
    axes.set(xscale="log", yscale="log", xlabel="workers", ylabel="times as fast as one, at most")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_ticks(COUNTS, labels=map(str, COUNTS))
        axis.minorticks_off()
    axes.legend(fontsize=7, frameon=False)
    figure.savefig(target, bbox_inches="tight", metadata={"Date": None} if target.suffix == ".svg" else None)


def main(
    folder: Path, *cases: Literal["words", "noncore", "topics", "starts", "imputation"],
    workers: tuple[int, ...] = (1, 2), schedulers: tuple[Literal["threads", "processes", "hosts"], ...] = ("threads",),
    figure: Path | None = None,
) -> None:  # fmt: skip
    for name in cases:
        for scheduler in schedulers:
            for n_workers in workers if scheduler != "hosts" else (len(WORKERS),):
                kept = folder.resolve() / name / f"{scheduler}-{n_workers}.json"
                if not kept.exists():
                    found = run_case(kept.parent, CASES[name], scheduler, n_workers)
                    kept.write_text(json.dumps(found))
    rows = list(rows_in(folder.resolve()))
    tell(f"{os.cpu_count()} cores\n")
    tell_table(rows)
    if figure is not None:
        draw(rows, figure)


if __name__ == "__main__":
    run_main(main)
