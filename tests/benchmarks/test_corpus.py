"""Reading and tokenizing, measured on real text: prints rates, ratios and the share of each step, asserts no
time.

Run with ``pytest tests/benchmarks/test_corpus.py -s``. Times are CPU seconds of this thread.
"""

from __future__ import annotations

import bz2
import collections
import lzma
import re
from functools import partial

import pytest

from distembed.corpus import Tokenizer, read_corpus, tokenize_partition
from distembed.corpus.mediawiki import Stripper, page_pieces
from distembed.corpus.partitions import read_batches
from distembed.corpus.streams import Progress, pieces_of
from distembed.corpus.tokenizer import scanner
from tests.benchmarks.measures import least_cpu


@pytest.fixture(scope="module")
def seconds(is_measured):
    """Return what measures the least CPU seconds of three rounds, or of one, and returns the last result."""
    return partial(least_cpu, n_rounds=3 if is_measured else 1)


@pytest.fixture(scope="module")
def text_file(shared, tmp_path_factory, is_measured):
    n_bytes = 8_000_000 if is_measured else 200_000
    path = tmp_path_factory.mktemp("text") / "enwiki.txt"
    with lzma.open(shared / "data/english/enwiki2018-0.txt.xz") as source:
        path.write_bytes(source.read(n_bytes).rpartition(b"\n")[0])
    return path


def count_words(text):
    """Do plainly what the scanner does: the usual Python loop."""
    index = collections.defaultdict(lambda: len(index))
    return [index[word] for word in re.findall("[a-z]+", text.lower())]


def scan_all(partition, tokenizer):
    machine = scanner(tokenizer, errors="replace")
    for batch in read_batches(partition):
        machine.scan(batch)


@pytest.mark.parametrize("pattern", ["ascii", "unicode"])
@pytest.mark.parametrize("border", ["document", "sentence"])
def test_plain_text(text_file, tmp_path, seconds, pattern, border):
    tokenizer = Tokenizer(pattern=pattern, border=border)
    (partition,) = read_corpus(text_file, partition_bytes=1 << 30, tokenizer=tokenizer).partitions
    tokenize_partition(partition, tokenizer, str(tmp_path / "part"))
    whole, summary = seconds(lambda: tokenize_partition(partition, tokenizer, str(tmp_path / "part")))
    reading, _ = seconds(lambda: [None for _ in read_batches(partition)])
    scanning, _ = seconds(lambda: scan_all(partition, tokenizer))
    plain, _ = seconds(lambda: count_words(text_file.read_text(encoding="utf-8")))
    print(
        f"\n{pattern}, border {border}: "
        f"{summary.n_tokens / whole / 1e6:.1f} M tokens/s from text file to partition "
        f"({summary.n_bytes_text / whole / 1e6:.0f} MB/s); read {reading / whole:.0%}, tokenize "
        f"{(scanning - reading) / whole:.0%}, write {(whole - scanning) / whole:.0%}; "
        f"{plain / whole:.1f} times re.findall + dict"
    )
    assert summary.n_tokens > text_file.stat().st_size / 8


def test_mediawiki(shared, tmp_path, seconds, is_measured):
    path = next((shared / "data/dumps").glob("enwiki-latest*.bz2"))
    (partition,) = read_corpus(path, format="mediawiki").partitions
    data = bz2.decompress(path.read_bytes())
    tokenizer = Tokenizer(pattern="ascii")
    if is_measured:
        tokenize_partition(partition, tokenizer, str(tmp_path / "part"))  # compiles
    whole, summary = seconds(lambda: tokenize_partition(partition, tokenizer, str(tmp_path / "part")))
    decompress, _ = seconds(lambda: [None for _ in pieces_of(partition, Progress())])
    pages, found = seconds(lambda: list(page_pieces(partition, Progress())))
    stripper = Stripper(partition.namespace_names)
    strip, _ = seconds(lambda: [stripper(piece.text) for piece in found if not piece.page.redirect])
    scan, _ = seconds(lambda: scan_all(partition, tokenizer))
    print(
        f"\nMediaWiki bz2: {len(data) / whole / 1e6:.1f} MB/s of XML, "
        f"{summary.n_tokens / whole / 1e6:.2f} M tokens/s; "
        f"decompress {decompress / whole:.0%}, parse {(pages - decompress) / whole:.0%}, "
        f"strip {strip / whole:.0%}, "
        f"tokenize {(scan - pages - strip) / whole:.0%}, write {(whole - scan) / whole:.0%}"
    )
    plain = tmp_path / "dump.xml"
    plain.write_bytes(data)
    (partition,) = read_corpus(plain).partitions
    whole, _ = seconds(lambda: tokenize_partition(partition, tokenizer, str(tmp_path / "part")))
    rate = summary.n_tokens / whole / 1e6
    print(f"MediaWiki without compression: {len(data) / whole / 1e6:.0f} MB/s, {rate:.1f} M tokens/s")
    assert summary.n_documents == 106
