"""What the scheduler itself costs: empty tasks by the thousand, and their milliseconds each.

``python -m tests.benchmarks.scheduler_share [N_TASKS ...]`` runs so many tasks that do nothing through
`storage.tasks.run_each`, which every stage of a job runs its blocks with, on two threads and on two worker processes.
"""

from __future__ import annotations

from distembed.job.workers import Workers
from distembed.storage.tasks import run_each
from tests.benchmarks.measures import run_main, spent, tell


def nothing(item: int) -> int:
    return item


def main(numbers: tuple[int, ...] = (100, 1_000, 10_000, 30_000)) -> None:
    for scheduler in ("threads", "processes"):
        with Workers(scheduler=scheduler, n_workers=2) as workers:
            workers.start()
            run_each(nothing, range(10), lambda _: None)
            for n_tasks in numbers:
                done: list[int] = []
                wall = spent(run_each, nothing, range(n_tasks), done.append).wall
                assert sorted(done) == list(range(n_tasks))
                tell(f"{scheduler}: {n_tasks:,} tasks {wall:.2f} s, {1000 * wall / n_tasks:.2f} ms each")


if __name__ == "__main__":
    run_main(main)
