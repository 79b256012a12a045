"""Print the speed and memory of counting on real text; nothing is asserted about either.

Run with ``pytest tests/benchmarks/test_counting.py -m slow -s``.
"""

from __future__ import annotations

import lzma
import re
import time
import tracemalloc
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest

from distembed.counting import CooccurrenceOptions, cooccurrence_row_blocks, count_partition, merge_row_block
from tests.counting.partitions import vocabulary_of, write_tables

N_WORDS = 20_000
SETTINGS = {
    "window 3 left flat": {"window": 3, "direction": "left"},
    "window 10 symmetric harmonic": {"window": 10, "weighting": "harmonic"},
}


@pytest.fixture(scope="module")
def articles(shared) -> list[list[str]]:
    text = lzma.decompress((shared / "data/english/enwiki2018-0.txt.xz").read_bytes()).decode()
    return [re.findall("[a-z]+", article.lower()) for article in text.split("\n\n")]


def write(prefix, articles, n_tokens) -> int:
    ids, numbers, offsets = [], {}, [0]
    for article in articles:
        ids += [numbers.setdefault(word, len(numbers)) for word in article]
        offsets.append(len(ids))
        if len(ids) >= n_tokens:
            break
    rows = pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), pa.array(ids, pa.int32()))
    counts = np.bincount(ids)
    lengths = np.diff(offsets)
    write_tables(
        prefix, documents=range(len(lengths)), rows=rows, words=list(numbers), counts=counts, lengths=lengths
    )
    return len(ids)


@pytest.mark.slow
def test_speed(articles, tmp_path):
    commonest = Counter(word for article in articles for word in article).most_common(N_WORDS)
    vocabulary = vocabulary_of(*zip(*commonest, strict=True))
    sizes = [write(f"{tmp_path}/{millions}", articles, millions * 10**6) for millions in (1, 3, 9)]
    for name, values in SETTINGS.items():
        options = CooccurrenceOptions(**values)
        blocks = cooccurrence_row_blocks(
            vocabulary.counts, window=options.window, direction=options.direction
        )
        count_partition(f"{tmp_path}/1", vocabulary, options, blocks, f"{tmp_path}/warm")  # compiles
        for millions, n_tokens in zip((1, 3, 9), sizes, strict=True):
            start, cpu = time.perf_counter(), time.process_time()
            partial = count_partition(
                f"{tmp_path}/{millions}", vocabulary, options, blocks, f"{tmp_path}/out"
            )
            wall, cpu = time.perf_counter() - start, time.process_time() - cpu
            start = time.perf_counter()
            nnz = sum(merge_row_block([partial], blocks, block).nnz for block in range(len(blocks) - 1))
            print(
                f"{name}: {n_tokens:,} tokens, count {n_tokens / wall / 1e6:.1f} M tokens a second, "
                f"{n_tokens / cpu / 1e6:.1f} M a CPU second, {partial.n_runs} runs; "
                f"merge {time.perf_counter() - start:.2f} s, {nnz:,} non-zeros, {len(blocks) - 1} blocks"
            )
        tracemalloc.start()
        count_partition(f"{tmp_path}/9", vocabulary, options, blocks, f"{tmp_path}/out")
        peak = tracemalloc.get_traced_memory()[1]
        print(f"{name}: peak {peak / 2**20:.0f} MiB of {options.block_memory >> 20}")
        tracemalloc.stop()
