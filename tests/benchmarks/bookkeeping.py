"""Measure what the bookkeeping of very many partitions and row blocks costs, with next to no text in them.

``python -m tests.benchmarks.bookkeeping [N_PARTITIONS...]`` makes a job whose corpus has so many partitions and whose
counts have 7,500 row blocks (2 TB of text have 64,000 partitions), and prints for each step the processor seconds of
this process, its peak of resident memory and of open files. The items of stages are links to a few real files, so
that they take no disk but for their records. ``scheduler [N_TASKS...]`` sends so many tasks that do nothing through
a scheduler and two workers of their own, and prints the peak of the scheduler's memory. Linear bookkeeping doubles
from one number to the next.
"""

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import dask
import numpy as np
import psutil
import pyarrow as pa
from distributed import Client

from distembed.corpus import build_vocabulary, tokenize_partition
from distembed.corpus.costs import words_in_memory
from distembed.corpus.partitions import DOCUMENTS_SCHEMA
from distembed.counting.blocks import Run
from distembed.counting.cooccurrence import merge_files, merge_partials, merge_row_block
from distembed.counting.costs import MERGED_FILES
from distembed.counting.partial_counts import PartialCounts
from distembed.counting.runs import RunWriter
from distembed.job.load import load_job
from distembed.job.model import Job
from distembed.job.planning import plan_job
from distembed.job.state import Standing, standings
from distembed.job.status import job_status
from distembed.stages import corpus as corpus_stages
from distembed.stages.corpus_sections import corpus_of
from distembed.storage.stage import Stage
from distembed.storage.tasks import run_each
from distembed.storage.workspace import Workspace
from tests.benchmarks.measures import run_main, spent, tell
from tests.benchmarks.scheduler_share import nothing
from tests.campaigns.workers import cluster

N_BLOCKS, N_RUN_FILES, PARTITION_BYTES = 7_500, 100, 1_024
SAMPLE_SECONDS = 0.02
NO_COSTS = {"wall_seconds": 0, "peak_process_bytes": 0, "peak_total_bytes": 0}
LINE = "Text of a few words beside which there is next to nothing here\n"
JOB = f"""
[job]
workspace = "w"
[corpus]
paths = ["text.txt"]
partition_bytes = {PARTITION_BYTES}
[vocabulary]
min_count = 1
[psdvec]
n_components = 2
[resources]
workers = 1
"""


@contextmanager
def watched(process: psutil.Process) -> Iterator[list[int]]:
    """Yield the most resident bytes and the most open files of a process until the block is left."""
    most, stop = [0, 0], threading.Event()

    def look() -> None:
        while not stop.wait(SAMPLE_SECONDS):
            most[:] = max(most[0], process.memory_info().rss), max(most[1], process.num_fds())

    sampling = threading.Thread(target=look)
    sampling.start()
    try:
        yield most
    finally:
        stop.set()
        sampling.join()


def step(name: str, function: Callable[[], Any]) -> Any:
    with watched(psutil.Process()) as most:
        found = spent(function)
    tell(f"  {name:<44}{found.cpu:9.2f} s {most[0] / 2**20:8.0f} MiB {most[1]:5} files")
    return found.result


def link_tokens(_: int, prefix: str, *, template: str, made: Iterator[int], stop: int) -> dict[str, int]:
    """Link the three files of a partition; after `stop` items be killed."""
    if next(made) >= stop:
        raise KeyboardInterrupt
    for kind in ("tokens", "words", "documents"):
        os.link(f"{template}.{kind}.parquet", f"{prefix}.{kind}.parquet")
    return {"n_tokens": 1, "n_documents": 1, "n_words": 1}


def write_runs(index: int, url: str) -> None:
    """Write a file of runs with one pair in every hundredth row block."""
    run = Run(np.array([0, 1], np.int64), np.array([index], np.int32), np.array([1], np.int32))
    with RunWriter(url, N_BLOCKS) as writer:
        for block in range(index, N_BLOCKS, 100):
            writer.append(block, run)


def link_runs(index: int, prefix: str, *, template: str) -> dict[str, int]:
    os.link(f"{template}-{index % N_RUN_FILES}.counts", f"{prefix}.counts")
    return {"denominator": 1, "largest_cell": 1, "n_tokens": 1, "n_runs": 1}


def templates(job: Job, folder: Path) -> None:
    """Write the few files that all items are links to."""
    corpus = corpus_of(job.corpus)
    tokenize_partition(corpus.partitions[0], corpus.tokenizer, str(folder / "tokens"))
    for index in range(N_RUN_FILES):
        write_runs(index, str(folder / f"runs-{index}.counts"))


def begun(workspace: Workspace, standing: Standing) -> Stage:
    """Return the stage of a job, as a run of it would make it."""
    return workspace.stage(standing.spec.name, parameters=standing.parameters, inputs=standing.inputs)


def make_tokens(workspace: Workspace, standing: Standing, n: int, template: str) -> None:
    """Store the token partitions, killed after half of them, and resume."""

    def store(stop: int) -> Stage:
        stage = begun(workspace, standing)
        stage.store_files("tokens", n, partial(link_tokens, template=template, made=count(), stop=stop))
        return stage

    def half() -> None:
        with suppress(KeyboardInterrupt):
            store(n // 2)

    step("tokens: store one half", half)
    stage = step("tokens: check it and store the other", lambda: store(n))
    facts = {"n_tokens": n, "n_documents": n * 16, "n_words": n * 12}
    step("tokens: commit", lambda: stage.commit({**facts, **NO_COSTS}))


def make_vocabulary(workspace: Workspace, standing: Standing, n: int) -> None:
    """Merge the dictionaries, once in memory and once by buckets, and store the list of documents."""
    tokens, stage = corpus_stages.tokens_of(workspace), begun(workspace, standing)
    with corpus_stages.local_scratch(workspace) as scratch:
        merge = partial(build_vocabulary, tokens, min_count=1, scratch=scratch)
        found = step("vocabulary: merge in memory", lambda: merge(words_in_memory=words_in_memory(2**26)))
        step("vocabulary: merge by buckets", lambda: merge(words_in_memory=2**14))
    stage.store_table("vocabulary", pa.table({"word": found.array, "count": np.asarray(found.counts)}))
    tables = corpus_stages.grouped_documents(tokens)
    n_rows = sum(table.num_rows for table in corpus_stages.document_tables(tokens))
    store = partial(stage.store_batches, "documents", DOCUMENTS_SCHEMA, n_rows=n_rows)
    step("documents: store", lambda: store(tables))
    stage.commit({"n_words": len(found), **NO_COSTS})
    step("documents: read by batches", lambda: sum(b.num_rows for b in workspace.batches("documents")))
    print(f"  {'documents: bytes':<44}{Path(workspace.path('documents.parquet')).stat().st_size:12,}", n)


def make_counts(workspace: Workspace, standing: Standing, n: int, template: str) -> list[PartialCounts]:
    """Store the partial counts, commit them, and return the items of the stage as the merge takes them."""
    stage = begun(workspace, standing)
    make = partial(link_runs, template=template)
    step("partial counts: store", lambda: stage.store_files("partial_counts", n, make, temporary=True))
    facts = {**NO_COSTS, "row_blocks": list(range(N_BLOCKS + 1))}
    step("partial counts: commit", lambda: stage.commit(facts))
    items = step("partial counts: list", lambda: workspace.files("partial_counts"))
    return [PartialCounts(**{**item.summary, "url": item.paths[0]}) for item in items]


def merge_groups(partials: list[PartialCounts], folder: Path) -> None:
    """Merge one group of files, and make the graph that merges as many merged files as there are groups."""
    row_blocks, group = tuple(range(N_BLOCKS + 1)), partials[:MERGED_FILES]
    merge = partial(merge_files, group, row_blocks, f"{folder}/merged")
    merged = step(f"merge {len(group)} files into one", merge)
    files = [merged] * -(-len(partials) // MERGED_FILES)
    step("graph of the merge", lambda: merge_partials(files, row_blocks).__dask_graph__().to_dict())
    step(f"merge a row block of {len(files)} files", lambda: merge_row_block(files, row_blocks, 0))


def look_at(job: Job, workspace: Workspace) -> None:
    """Look at the workspace as a task, a user and a second run do."""
    place = workspace.url
    step("a task reads the vocabulary", lambda: Workspace.open(place).table("vocabulary"))
    step("plan of what is left", lambda: plan_job(job))
    step("status", lambda: job_status(job))
    step("verify", lambda: len(workspace.verify()))
    announce = lambda: workspace.stage("core", parameters={}, inputs={})  # noqa: E731 - as each round of a stage does
    step("announce one more output", lambda: announce().store_bytes("state", b"one more"))


def measure(n: int, folder: Path) -> None:
    """Print what each step takes for so many partitions."""
    print(f"{n:,} partitions, {N_BLOCKS:,} row blocks")
    (folder / "text.txt").write_text(LINE * (PARTITION_BYTES // len(LINE) * n + n // 4), encoding="ascii")
    (folder / "job.toml").write_text(JOB, encoding="ascii")
    job = load_job(folder / "job.toml")
    step("plan", lambda: plan_job(job))
    templates(job, folder)
    found = {standing.spec.name: standing for standing in standings(job, None)}
    with Workspace.create(folder / "w", owner="bench") as workspace, dask.config.set(scheduler="sync"):
        make_tokens(workspace, found["tokens"], n, str(folder / "tokens"))
        make_vocabulary(workspace, found["vocabulary"], n)
        partials = make_counts(workspace, found["partial_counts"], n, str(folder / "runs"))
        merge_groups(partials, folder)
        look_at(job, workspace)


def through_a_scheduler(n: int, folder: Path) -> None:
    """Send so many tasks through a scheduler and two workers, processes of their own."""
    with cluster(folder) as dask_commands:
        scheduler, done = psutil.Process(dask_commands.scheduler.pid), list[int]()
        with Client(dask_commands.address, set_as_default=True), watched(scheduler) as most:
            before = scheduler.memory_info().rss
            seconds = spent(run_each, nothing, range(n), done.append).wall
    tell(
        f"{len(done):,} tasks: scheduler {before / 2**20:.0f} MiB before, {most[0] / 2**20:.0f} MiB at its "
        f"peak; {seconds:.0f} s of wall time"
    )


def main(words: tuple[str, ...] = ()) -> None:
    """Print the steps for each number of partitions, or the scheduler's memory for each number of tasks."""
    run = through_a_scheduler if words[:1] == ["scheduler"] else measure
    for number in (words[1:] if run is through_a_scheduler else words) or ("1000", "2000", "4000"):
        with tempfile.TemporaryDirectory() as folder:
            run(int(number), Path(folder))


if __name__ == "__main__":
    run_main(main)
