"""Print what was planned for finished jobs beside what they took.

Run it as `python -m tests.benchmarks.plans_and_runs WORKSPACE...`. The plan is that of a first run: it knows the input
files, and nothing of the workspace. Peaks are of one process with as many threads as the job has workers.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from distembed.display import format_bytes
from distembed.job.opening import open_job
from distembed.job.stage import system_of
from distembed.storage.workspace import Workspace
from tests.benchmarks.measures import run_main

COUNTED = {
    "tokens": ("tokens", "n_tokens"),
    "documents": ("tokens", "n_documents"),
    "words": ("vocabulary", "n_words"),
    "pairs": ("cooccurrence", "n_nonzero"),
    "document terms": ("document_terms", "n_nonzero"),
}
"""What is counted, by the stage and the fact that know it."""


def estimates_of(sizes: Any) -> dict[str, int]:
    """Return what a system expects of a job, by the names of `COUNTED`."""
    corpus = sizes.corpus
    found = {name: getattr(corpus, f"n_{name}") for name in ("tokens", "documents", "words")}
    found["document terms"] = corpus.n_terms
    return found | ({"pairs": sizes.n_nonzero} if hasattr(sizes, "n_nonzero") else {})


def size_rows(sizes: Any, workspace: Workspace) -> Iterator[str]:
    """Yield a line for each size that was estimated and counted."""
    done = workspace.stages()
    for name, estimate in estimates_of(sizes).items():
        stage, fact = COUNTED[name]
        if stage in done and fact in done[stage].facts:
            real = int(done[stage].facts[fact])
            yield f"| {name} | {estimate:,} | {real:,} | {estimate / real:.2f} |"


def stage_table(place: str) -> str:
    """Return a line for each stage: bytes written and peak memory, planned and measured."""
    workspace, job = Workspace.open(place), open_job(place)
    plan, done = system_of(job).plan(job, None), workspace.stages()
    lines = ["| stage | planned to write | wrote | planned peak | measured peak |\n|---|---:|---:|---:|---:|"]
    for name, stage in plan.stages.items():
        blocks = [block for output in done[name].outputs.values() for block in output.blocks]
        written = sum(file.size for block in blocks for file in block.files.values())
        peak = stage.process_bytes(job.resources.n_workers)
        columns = (stage.stored_bytes, written, peak, done[name].facts["peak_process_bytes"])
        lines.append(f"| {name} | " + " | ".join(map(format_bytes, columns)) + " |")
    return "\n".join(lines)


def tables(place: str) -> str:
    workspace, job = Workspace.open(place), open_job(place)
    sizes = system_of(job).sizes(job, None)
    lines = [
        f"### {job.job.title}\n\n{sizes.sentence}\n\n| | estimated | counted | ratio |\n|---|---:|---:|---:|",
        *size_rows(sizes, workspace),
    ]
    return "\n".join(lines) + f"\n\n{stage_table(place)}\n"


def main(*workspaces: str) -> None:
    print("\n".join(map(tables, workspaces)))


if __name__ == "__main__":
    run_main(main)
