"""The peaks of counting stay below what their costs say."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import distembed as de
from distembed.corpus.costs import TextSizes, tokens_cost
from distembed.costs import Cost
from distembed.counting.cooccurrence_options import CooccurrenceOptions
from distembed.counting.costs import RunSizes, document_terms_cost, partial_counts_cost

Options = dict[str, Any]

PEAK = """
import sys
from concurrent.futures import ThreadPoolExecutor
import dask
from tests.costs import test_peaks

def resident(field):
    return 1024 * int(dict(line.split(":", 1) for line in open("/proc/self/status"))[field].split()[0])

prepare = getattr(test_peaks, sys.argv[1])
with dask.config.set(scheduler="threads", pool=ThreadPoolExecutor(2)):
    prepare(1)()
    run = prepare(int(sys.argv[2]))
    before = resident("VmRSS")
    open("/proc/self/clear_refs", "w").write("5")
    run()
    print(resident("VmHWM") - before)
"""

DIGITS = str.maketrans("01234567", "abcdefgh")

PEAK_MEMORY = 2**22


def prepared_counts(n_thousands: int, block_memory: int = PEAK_MEMORY) -> Callable[[], Any]:
    """Return what counts the pairs of a text, a partition after the other."""
    ranks = np.random.default_rng(0).zipf(1.3, 1000 * n_thousands) % 5000
    words = np.array(["".join(chr(97 + int(digit)) for digit in str(rank)) for rank in range(5000)])[ranks]
    Path("text.txt").write_text("\n".join(" ".join(words[i : i + 50]) for i in range(0, len(words), 50)))
    tokens = de.read_corpus("text.txt").tokenize("tokens")
    found = de.build_vocabulary(tokens)
    options: Options = {"window": 10, "subsample": 1e-2, "block_memory": block_memory}
    return lambda: de.execution.compute(
        list(de.execution.delayed_blocks(de.count_cooccurrences(tokens, found, **options)).ravel()[:1])
    )


def prepared_few(n_thousands: int) -> Callable[[], Any]:
    """Return what counts the pairs of a text that takes less than a block."""
    return prepared_counts(n_thousands, 2**28)


def prepared_tokens(n_thousands: int) -> Callable[[], Any]:
    """Return what tokenizes a text of words that stand there once each, all of which its dictionary holds."""
    words = ["word" + f"{place:o}".translate(DIGITS) for place in range(1000 * n_thousands)]
    Path("words.txt").write_text("\n".join(" ".join(words[i : i + 50]) for i in range(0, len(words), 50)))
    return lambda: de.read_corpus("words.txt").tokenize(f"tokens-{n_thousands}")


def prepared_terms(n_thousands: int) -> Callable[[], Any]:
    """Return what counts the words of each document of a text that takes less than a block."""
    prepared_counts(n_thousands)
    tokens = de.read_corpus("text.txt").tokenize("terms")
    found = de.build_vocabulary(tokens)
    return lambda: de.execution.compute(de.count_document_terms(tokens, found, block_memory=2**28))


@pytest.mark.slow  # two megabytes of the allocator decide it where other tests run beside it
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="peaks are read from Linux's /proc")
@pytest.mark.parametrize(
    ("prepare", "n_thousands", "cost"),
    [
        (
            "prepared_counts",
            1000,
            partial_counts_cost(
                TextSizes(4_000_000, 1, 1_000_000, 5000, 20_000),
                5000,
                RunSizes(10**7, 1),
                CooccurrenceOptions(window=10, subsample=1e-2, block_memory=PEAK_MEMORY),
            ),
        ),
        (
            "prepared_few",
            500,
            partial_counts_cost(
                TextSizes(2_000_000, 1, 500_000, 5000, 10_000),
                5000,
                RunSizes(5 * 10**6, 1),
                CooccurrenceOptions(window=10, subsample=1e-2, block_memory=2**28),
            ),
        ),
        (
            "prepared_tokens",
            300,
            tokens_cost(TextSizes(3_000_000, 1, 300_000, 300_000, 6000), partition_bytes=2**26),
        ),
        (
            "prepared_terms",
            500,
            document_terms_cost(
                TextSizes(2_000_000, 1, 500_000, 5000, 10_000), 5000, 500_000, block_memory=2**28
            ),
        ),
    ],
    ids=["counts", "counts of less than a block", "tokens", "document terms"],
)
def test_a_run_takes_what_its_cost_says(tmp_path: Path, prepare: str, n_thousands: int, cost: Cost) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PEAK, prepare, str(n_thousands)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    peak = json.loads(done.stdout)
    assert peak <= cost.peak_bytes(2)
    assert cost.peak_bytes(2) < 12 * peak
