"""Time partial counts whose memory is new for each partition beside those in the memory that each thread keeps.

``python -m tests.benchmarks.counting_memory TIMES N_WORDS N_THREADS TEXT_FILES...`` tokenizes the files (articles with
a blank line between them, as in data/english) and counts each partition twice, window 10 with harmonic weights, by
turns. Printed are the processor seconds, and those that the system spends of them, most of it on clearing new pages.
"""

from __future__ import annotations

import resource
import tempfile
from concurrent.futures import ThreadPoolExecutor

import distembed as de
from distembed.counting import CooccurrenceOptions, cooccurrence_row_blocks, count_partition
from distembed.counting.partial_counts import ThreadMemory
from tests.benchmarks.measures import run_main, tell

OPTIONS = CooccurrenceOptions(window=10, weighting="harmonic", block_memory=2**28)


def spent(partitions, vocabulary, n_threads: int, memory: ThreadMemory | None) -> tuple[float, float]:
    """Return the seconds in all and those of the system."""
    row_blocks = cooccurrence_row_blocks(vocabulary.counts, window=10, block_memory=OPTIONS.block_memory)
    before = resource.getrusage(resource.RUSAGE_SELF)
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(n_threads) as pool:

        def count(number: int) -> None:
            target = f"{folder}/{number}.counts"
            count_partition(partitions[number], vocabulary, OPTIONS, row_blocks, target, memory=memory)

        list(pool.map(count, range(len(partitions))))
    after = resource.getrusage(resource.RUSAGE_SELF)
    system = after.ru_stime - before.ru_stime
    return after.ru_utime - before.ru_utime + system, system


def main(times: int, n_words: int, n_threads: int, *files: str) -> None:
    tokens = de.read_corpus(files, layout="blocks", tokenizer=de.Tokenizer(pattern="ascii")).tokenize()
    vocabulary = de.build_vocabulary(tokens, max_size=n_words, min_count=1)
    partitions = tokens.partitions * 2
    spent(partitions[:1], vocabulary, 1, None)  # compiles what is not compiled yet
    for _ in range(times):
        for name, memory in (("new memory", None), ("kept memory", ThreadMemory())):
            total, system = spent(partitions, vocabulary, n_threads, memory)
            tell(f"{name}, {n_threads} threads: {total:.2f} s of the processor, {system:.2f} of the system")


if __name__ == "__main__":
    run_main(main)
