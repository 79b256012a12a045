"""Tokens per second with names of several words joined, against none: 0, 500 and 50,000 names.

The names are the most frequent pairs and triples of words of the text itself, so that they are found as often as
names can be; a real list of names is found less often.

    python -m tests.benchmarks.phrase_speed TEXT [--megabytes 20]
"""

from __future__ import annotations

import argparse
import lzma
import tempfile
import time
import tracemalloc
from collections import Counter
from itertools import islice
from pathlib import Path

import numpy as np
import pyarrow as pa

from distembed.corpus.streams import Batch
from distembed.corpus.tokenizer import Tokenizer, gazetteer_of, scanner

PIECE = 1 << 20


def batches(data: bytes) -> list[Batch]:
    """Return a text as batches of one document."""
    nothing = pa.nulls(1, pa.string())
    text = np.frombuffer(data, np.uint8)
    return [
        Batch(
            text[begin : begin + PIECE],
            np.array([0]),
            np.array([len(text[begin : begin + PIECE])]),
            0,
            *[nothing] * 3,
        )
        for begin in range(0, len(text), PIECE)
    ]


def seconds(tokenizer: Tokenizer, data: bytes) -> tuple[float, int]:
    """Return the least processor time of three scans of a text, and its tokens."""
    taken, n_tokens = [], 0
    for _ in range(3):
        machine = scanner(tokenizer)
        begin = time.thread_time()
        n_tokens = sum(len(machine.scan(batch).ids) for batch in batches(data))
        taken.append(time.thread_time() - begin)
    return min(taken), n_tokens


def main() -> None:
    """Print tokens per second, what is joined, and the memory of the names."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("text")
    parser.add_argument("--megabytes", type=int, default=20)
    given = parser.parse_args()
    opener = lzma.open if given.text.endswith(".xz") else open
    with opener(given.text, "rb") as file:
        data = file.read(given.megabytes << 20).decode(errors="ignore").encode("ascii", "ignore")
    words = data.decode().lower().split()
    pairs = Counter(zip(words, islice(words, 1, None), strict=False))
    triples = Counter(zip(words, islice(words, 1, None), islice(words, 2, None), strict=False))
    names = [" ".join(name) for name, _ in (pairs + triples).most_common(70_000)]
    base, n_words = seconds(Tokenizer(), data)
    print(f"no names: {n_words / base / 1e6:.1f} M tokens per second of processor time")
    for n_names in (500, 50_000):
        with tempfile.NamedTemporaryFile("w", suffix=".txt", delete=False) as file:
            file.write("\n".join(names[:n_names]))
        rules = Tokenizer(phrases_file=file.name)
        tracemalloc.start()
        begin = time.thread_time()
        found = gazetteer_of(rules)
        read, (kept, peak) = time.thread_time() - begin, tracemalloc.get_traced_memory()
        tracemalloc.stop()
        taken, n_tokens = seconds(rules, data)
        n_bytes = Path(file.name).stat().st_size
        print(
            f"{len(found.words):,} names: {n_words / taken / 1e6:.1f} M, {taken / base:.2f} times as long; "
            f"{n_words - n_tokens:,} of {n_words:,} tokens joined to the one before; "
            f"names read in {read:.2f} s (traced), {kept / n_bytes:.0f} bytes per byte of their file, "
            f"{peak / n_bytes:.0f} at the peak"
        )
        Path(file.name).unlink()


if __name__ == "__main__":
    main()
