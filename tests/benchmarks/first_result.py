"""Time to the first result of a new user: the demo of a system by the code of some checkouts, one after the other.

    python -m tests.benchmarks.first_result psdvec OLDER-CHECKOUT . [--rounds 2]

The first run of each round compiles the kernels, as after an installation; the second finds them.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from tests.benchmarks.measures import DISTEMBED, ran, run_main, tell_head, tell_row


def main(system: str, *checkouts: Path, rounds: int = 2) -> None:
    tell_head("code of", "round", "kernels", "wall s", "processor s", "peak MiB")
    for number in range(1, rounds + 1):
        for checkout in checkouts:
            with tempfile.TemporaryDirectory(prefix="first-result-") as folder:
                here = os.environ | {
                    "PYTHONPATH": str(checkout.resolve()),
                    "NUMBA_CACHE_DIR": f"{folder}/kernels",
                }
                for kernels in ("compiled", "there"):
                    words = ("demo", system, "--folder", f"{folder}/{kernels}")
                    found = ran(*DISTEMBED, *words, env=here, cwd=folder)
                    assert found.code == 0, found.output
                    took = f"{found.wall:.1f}", f"{found.cpu:.1f}", f"{found.peak_bytes / 2**20:.0f}"
                    tell_row(checkout, number, kernels, *took)


if __name__ == "__main__":
    run_main(main)
