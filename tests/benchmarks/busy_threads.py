"""Show how many threads of a run compute at a time, and what a lone one does: what more cores would not make faster.

``python -m tests.benchmarks.busy_threads JOB [--workers N] [OPTIONS OF distembed run]``: for each stage the seconds in
which so many threads were busy (each for more than half of a sample of 40 milliseconds), and below them the places in
this package where the only busy thread was. The sampling takes up to a tenth of a core. Linux only.
"""

from __future__ import annotations

import sys
import threading
import time
from collections import Counter, defaultdict
from pathlib import Path

from distembed.cli.main import main as run_command
from distembed.job import run
from tests.benchmarks.measures import run_main

SAMPLE_SECONDS = 0.04
SHOWN = 8

TASKS = Path("/proc/self/task")


class Sampler:
    """What the threads of this process do, sampled from one of them."""

    def __init__(self) -> None:
        self.stage = "before the stages"
        self.seconds: dict[str, Counter[int]] = defaultdict(Counter)
        self.alone: dict[str, Counter[str]] = defaultdict(Counter)

    def run(self) -> None:
        spent: dict[int, float] = {}
        before = time.perf_counter()
        while True:
            time.sleep(SAMPLE_SECONDS)
            now = time.perf_counter()
            passed, before = now - before, now
            busy = [one for one in self.advanced(spent, passed / 2) if one != threading.get_native_id()]
            self.seconds[self.stage][len(busy)] += passed
            if len(busy) == 1:
                self.alone[self.stage][place_of(busy[0])] += passed

    @staticmethod
    def advanced(spent: dict[int, float], least: float) -> list[int]:
        """Return the threads that used more processor seconds than `least` since the last call."""
        found = []
        for task in TASKS.iterdir():
            try:
                total = int((task / "schedstat").read_text().split()[0]) / 1e9
            except OSError:  # it has ended
                continue
            thread = int(task.name)
            if total - spent.get(thread, total) > least:
                found.append(thread)
            spent[thread] = total
        return found

    def show(self) -> None:
        for stage, seconds in self.seconds.items():
            total = sum(seconds.values())
            print(f"{stage}: {total:.1f} s")
            for n_busy in sorted(seconds):
                print(f"  {n_busy:2d} busy {seconds[n_busy]:6.1f} s  {seconds[n_busy] / total:4.0%}")
            for place, alone in self.alone[stage].most_common(SHOWN):
                print(f"    alone {alone:5.1f} s  {place}")


def place_of(thread: int) -> str:
    """Return where a thread is: the innermost line, and the innermost two of this package."""
    idents = {each.native_id: each.ident for each in threading.enumerate()}
    frame = sys._current_frames().get(idents.get(thread) or 0)
    if frame is None:
        return "outside Python"
    lines: list[str] = []
    while frame is not None and len(lines) < 3:
        code = frame.f_code
        if not lines or "distembed" in code.co_filename:
            lines.append(f"{code.co_name} ({Path(code.co_filename).name}:{frame.f_lineno})")
        frame = frame.f_back
    return " < ".join(lines)


def main(*options: str) -> None:
    sampler, run_stage = Sampler(), run._run_stage

    def run_named(standing, run):
        sampler.stage = standing.spec.name
        return run_stage(standing, run)

    run._run_stage = run_named
    threading.Thread(target=sampler.run, daemon=True).start()
    sys.argv = ["distembed", "run", *options]
    try:
        run_command()
    finally:
        sampler.show()


if __name__ == "__main__":
    run_main(main)
