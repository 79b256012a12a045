"""What the block functions of weighting hold beside their arguments and results is what they declare."""

from __future__ import annotations

import dask.array as da
import numpy as np
import scipy.sparse as sp

import distembed as de
from distembed.execution import compute
from distembed.weighting import blocks, documents, pmi
from tests.temporaries import assert_declared, measured


def test_the_block_functions_of_weighting_declare_what_they_hold():
    whole = sp.csr_array(sp.random(6_000, 2_000, density=0.1, random_state=0, format="csr"))
    whole.data = np.ceil(20 * whole.data).astype(np.int32)
    whole[0, 0] = 400
    counts = da.concatenate(
        [da.from_array(whole[at : at + 2_000], chunks=-1, asarray=False) for at in range(0, 6_000, 2_000)]
    )
    pairs = counts[:2_000]
    with measured() as found:
        compute([de.pmi(counts), de.ppmi(counts), de.log_entropy(counts), de.tf_idf(counts, sublinear=True)])
        compute([de.smoothed_pmi(pairs, np.arange(1, 2_001)).excess, de.directional_contexts(pairs)])
        pmi.weight_cutoff(counts, "halving")
        pmi.largest_count(counts)
        compute(documents.select_words(counts, np.arange(0, 2_000, 2)))
        compute(documents.select_pairs(pairs, np.arange(1_999, -1, -1)))
    assert_declared(
        found, blocks.column_sums, blocks.pmi, blocks.excess_of_block, blocks.count_at_least,
        blocks.largest_value, blocks.weigh_tf_idf, blocks.weigh_log_entropy, blocks.column_frequencies,
        blocks.column_entropy_sums, blocks.chosen_columns, blocks.times_sparse, pmi.beside,
    )  # fmt: skip
