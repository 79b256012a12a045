"""What the benchmarks note beside their times."""

from __future__ import annotations

from typing import Any


def note_rate(benchmark: Any, name: str, amount: float) -> None:
    """Note an amount per second of a mean round; pytest-xdist's workers measure none."""
    if benchmark.stats:
        benchmark.extra_info[name] = round(amount / benchmark.stats.stats.mean, 1)
