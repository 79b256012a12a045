"""Tokens per second with names of several words joined, against none: 0, 500 and 50,000 names.

The names are the most frequent pairs and triples of words of the text itself, so that they are found as often as
names can be; a real list of names is found less often.

    python -m tests.benchmarks.phrase_speed TEXT [--megabytes 20]
"""

from __future__ import annotations

import tempfile
import tracemalloc
from collections import Counter
from itertools import islice
from pathlib import Path

import numpy as np
import pyarrow as pa

from distembed.corpus.streams import Batch
from distembed.corpus.tokenizer import Tokenizer, gazetteer_of, scanner
from tests.benchmarks.inputs import open_text
from tests.benchmarks.measures import least_cpu, run_main, spent, tell

PIECE = 1 << 20


def batches(data: bytes) -> list[Batch]:
    nothing = [pa.nulls(1, pa.string())] * 3
    text = np.frombuffer(data, np.uint8)
    pieces = [text[begin : begin + PIECE] for begin in range(0, len(text), PIECE)]
    return [Batch(piece, np.array([0]), np.array([len(piece)]), 0, *nothing) for piece in pieces]


def seconds(tokenizer: Tokenizer, data: bytes) -> tuple[float, int]:
    """Return the least processor time of three scans of a text, and its tokens."""
    machines, parts = iter([scanner(tokenizer) for _ in range(3)]), batches(data)
    return least_cpu(
        lambda: sum(len(machine.scan(part).ids) for machine in [next(machines)] for part in parts), 3
    )


def frequent_names(words: list[str]) -> list[str]:
    """Return the most frequent pairs and triples of words."""
    pairs = Counter(zip(words, islice(words, 1, None), strict=False))
    triples = Counter(zip(words, islice(words, 1, None), islice(words, 2, None), strict=False))
    return [" ".join(name) for name, _ in (pairs + triples).most_common(70_000)]


def main(text: Path, *, megabytes: int = 20) -> None:
    """Print tokens per second, what is joined, and the memory of the names."""
    with open_text(text) as file:
        data = file.buffer.read(megabytes << 20).decode(errors="ignore").encode("ascii", "ignore")
    names = frequent_names(data.decode().lower().split())
    base, n_words = seconds(Tokenizer(), data)
    tell(f"no names: {n_words / base / 1e6:.1f} M tokens per second of processor time")
    for n_names in (500, 50_000):
        with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
            n_bytes = file.write("\n".join(names[:n_names]))
            file.flush()
            rules = Tokenizer(phrases_file=file.name)
            tracemalloc.start()
            read = spent(gazetteer_of, rules)
            kept, peak = tracemalloc.get_traced_memory()
            tracemalloc.stop()
            taken, n_tokens = seconds(rules, data)
        tell(
            f"{len(read.result.words):,} names: {n_words / taken / 1e6:.1f} M, {taken / base:.2f} times as long; "
            f"{n_words - n_tokens:,} of {n_words:,} tokens joined to the one before; "
            f"names read in {read.cpu:.2f} s (traced), {kept / n_bytes:.0f} bytes per byte of their file, "
            f"{peak / n_bytes:.0f} at the peak"
        )


if __name__ == "__main__":
    run_main(main)
