"""Measure the bytes a second that the kernels of counting move, beside copying, on one core and on two.

``python -m tests.benchmarks.counting_kernels``: each kernel alone in one process, then in two that share nothing.
Printed are the GB a second of one, and how many times as many the two move together. Bytes are those of the arrays
that a kernel reads and writes, each once for every pass over it; tables that stay in the cache are not among them.
"""

from __future__ import annotations

import numpy as np

from distembed.corpus.streams import Batch
from distembed.corpus.tokenizer import Tokenizer, scanner
from distembed.counting import blocks
from distembed.storage.schema import new_digest
from tests.benchmarks.measures import run_main, tell
from tests.benchmarks.second_core import SECONDS, calls_of

N_WORDS, N_TOKENS, WINDOW, N_PIECES = 20_000, 800_000, 10, 4


def text_of(tokens) -> Batch:
    """Return tokens as a batch of one document, whose words are as long as those of English."""
    names = np.array(
        [f"{chr(97 + n % 26)}{'abcdefghij'[: n % 9]}{chr(97 + n // 26 % 26)}" for n in range(N_WORDS)]
    )
    data = np.frombuffer(" ".join(names[tokens]).encode(), np.uint8)
    one = np.array([""])
    return Batch(data, np.zeros(1, np.int64), np.array([len(data)]), 1, one, one, one, 0)


def kernels():
    """Yield a name, the bytes that a call moves, and the call, for each kernel on arrays of its own."""
    shares = 1 / np.arange(1, N_WORDS + 1)
    tokens = np.random.default_rng(0).choice(N_WORDS, N_TOKENS, p=shares / shares.sum()).astype(np.int32)
    source, target = np.ones(16 << 20, np.float32), np.ones(16 << 20, np.float32)
    yield "copying 64 MB", 2 * source.nbytes, lambda: np.copyto(target, source)
    yield "filling 64 MB of new memory", source.nbytes, lambda: np.ones(16 << 20, np.float32)
    yield "digest of 64 MB (BLAKE2b)", source.nbytes, lambda: new_digest(source)
    batch = text_of(tokens)
    words = scanner(Tokenizer(pattern="ascii"))
    yield "text to token ids", batch.data.nbytes + 4 * N_TOKENS, lambda: words.scan(batch)
    units = blocks.distance_units(WINDOW, "harmonic").weights
    counter = blocks.PairCounter(N_WORDS, units, blocks.UPPER, WINDOW * N_TOKENS)
    pieces = [np.roll(tokens, shift)[: N_TOKENS // 2] for shift in range(0, N_TOKENS, N_TOKENS // N_PIECES)]
    runs = [counter.count(piece, np.zeros(0, np.int32)) for piece in pieces]
    reach, pairs, entries = np.zeros(0, np.int32), WINDOW * N_TOKENS, [len(run.indices) for run in runs]
    upper = counter.count(tokens, reach)
    moved = 2 * tokens.nbytes + 2 * 4 * pairs + 8 * len(upper.indices)
    yield "token ids to a run of pairs", moved, lambda: counter.count(tokens, reach)
    merged = blocks.merge_runs(runs, N_WORDS)
    together = 8 * (sum(entries) + len(merged.indices))
    yield f"{N_PIECES} runs added", together, lambda: blocks.merge_runs(runs, N_WORDS)
    bounds = (0, 50, 500, 2_000, 6_000, N_WORDS)
    yield "a run mirrored", 3 * 8 * len(merged.indices), lambda: list(blocks.mirror_rows(merged, bounds))


def main() -> None:
    for number, (name, n_bytes, _) in enumerate(kernels()):
        one, two = (max(calls_of(kernels, number, n) for _ in range(3)) for n in (1, 2))
        rate = one * n_bytes / SECONDS / 1e9
        tell(f"{name:<32}{rate:6.2f} GB/s on one core, {two / one:.2f} times on two")


if __name__ == "__main__":
    run_main(main)
