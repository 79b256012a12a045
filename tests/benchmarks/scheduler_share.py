"""What the scheduler itself costs: empty tasks by the thousand, and their milliseconds each.

``python -m tests.benchmarks.scheduler_share [N_TASKS ...]`` runs so many tasks that do nothing through
`storage.tasks.run_each`, which every stage of a job runs its blocks with, on two threads and on two worker processes.
"""

from __future__ import annotations

import sys
import time

from distembed.job.workers import Workers
from distembed.storage.tasks import run_each


def nothing(item: int) -> int:
    return item


def main(*numbers: str) -> None:
    for scheduler in ("threads", "processes"):
        with Workers(scheduler=scheduler, n_workers=2) as workers:
            workers.start()
            run_each(nothing, range(10), lambda _: None)
            for n_tasks in map(int, numbers):
                done: list[int] = []
                begin = time.perf_counter()
                run_each(nothing, range(n_tasks), done.append)
                seconds = time.perf_counter() - begin
                assert sorted(done) == list(range(n_tasks))
                print(
                    f"{scheduler}: {n_tasks:,} tasks {seconds:.2f} s, {1000 * seconds / n_tasks:.2f} ms each"
                )


if __name__ == "__main__":
    main(*(sys.argv[1:] or ("100", "1000", "10000", "30000")))
