"""Print what was planned for finished jobs beside what they took.

Run it as `python -m benchmarks.plans_and_runs WORKSPACE...`. Plans are by counted sizes, as a run held each stage
against them before it began. Peaks are of the whole process, with as many threads as the job has workers.
"""

from __future__ import annotations

from benchmarks.measures import run_main
from distembed.display import format_bytes
from distembed.job.opening import open_job
from distembed.job.plan import plan_job
from distembed.storage.workspace import Workspace


def tables(place: str) -> str:
    """Return a line for each stage of a finished job: bytes stored, and the peak of the process."""
    workspace, job = Workspace.open(place), open_job(place)
    plan, done = plan_job(job), workspace.stages()
    lines = [
        f"### {job.job.title}\n\n{plan.sizes}\n",
        "| stage | planned to store | wrote | planned peak | measured peak | planned / measured |",
        "|---|--:|--:|--:|--:|--:|",
    ]
    for name, stage in plan.stages.items():
        blocks = [block for output in done[name].outputs.values() for block in output.blocks]
        written = sum(file.size for block in blocks for file in block.files.values())
        planned, peak = plan.planned_bytes(name), done[name].facts["peak_process_bytes"]
        sizes = map(format_bytes, (stage.stored_bytes, written, planned, peak))
        lines.append(f"| {name} | {' | '.join(sizes)} | {planned / peak:.2f} |")
    return "\n".join(lines) + "\n"


def main(*workspaces: str) -> None:
    print("\n".join(map(tables, workspaces)))


if __name__ == "__main__":
    run_main(main)
