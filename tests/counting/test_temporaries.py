"""What the block functions of counting hold beside their arguments and results is what they declare."""

from __future__ import annotations

import dask
import numpy as np

import distembed as de
from distembed.counting.cooccurrence import merge_row_block
from distembed.counting.document_groups import (
    sum_of_blocks,
    sum_of_groups,
    words_of_block,
    words_of_groups,
)
from distembed.counting.documents import count_document_block
from distembed.execution import compute
from tests.temporaries import assert_declared, measured

LETTERS = str.maketrans("0123456789ABCDEFGHIJKLMNOP", "abcdefghijklmnopqrstuvwxyz")


def test_the_block_functions_of_counting_declare_what_they_hold(tmp_path):
    """Of 400,000 words in documents of a hundred: in one partition, and in many, whose runs are added up."""
    ranks = np.random.default_rng(0).zipf(1.2, 600_000)
    names = np.array(["w" + np.base_repr(rank, 26).translate(LETTERS) for rank in range(3_000)])
    words, path = names[ranks[ranks < len(names)]][:400_000], tmp_path / "text.txt"
    path.write_text("\n".join(" ".join(words[at : at + 100]) for at in range(0, len(words), 100)))
    whole = de.read_corpus(path).tokenize()
    many = de.read_corpus(path, partition_bytes=path.stat().st_size // 12).tokenize()
    vocabulary = de.build_vocabulary(whole)
    groups = (np.arange(whole.n_documents) % 2).astype(np.int32)
    with dask.config.set({"distembed.block_memory": 2**22}), measured() as found:
        counts = de.count_cooccurrences(many, vocabulary, weighting="harmonic")
        compute([counts, sum_of_groups([counts] * 3), words_of_groups(whole, vocabulary, groups, 2)])
    assert_declared(found, count_document_block, merge_row_block, words_of_block, sum_of_blocks)
