"""Graphs in row blocks: the same bits as in memory."""

from __future__ import annotations

import dask.array as da
import numpy as np
import pytest
import scipy.sparse as sp

from distembed.linalg.operators import row_blocks
from distembed.neighbors.graphs import (
    RowBlocks,
    components,
    degrees_of,
    joint_adjacency,
    joint_rows,
    laplacian,
    row_sizes,
)


def graph(n: int, seed: int, density: float = 0.04) -> sp.csr_array:
    half = sp.random_array((n, n), density=density, format="csr", rng=np.random.default_rng(seed))
    half.setdiag(0)
    both = sp.csr_array(half + half.T)
    both.eliminate_zeros()
    return both


@pytest.fixture(scope="module")
def joint() -> tuple[sp.csr_array, da.Array]:
    """Return a joint graph of two sets in memory, and in row blocks; one vertex has no edge, parts are several."""
    first, second = graph(60, 0, 0.02), graph(47, 1)
    links = sp.random_array((60, 47), density=0.004, format="csr", rng=np.random.default_rng(2))
    whole = joint_adjacency([first, second], {(0, 1): links}, weight=0.3)
    parts = [row_blocks(each, values_per_block=40) for each in (first, second, links)]
    stored = joint_rows(parts[:2], parts[2:], weight=0.3)
    return whole, stored.rechunk(((20, 50, 1, 36), -1)).persist()


def equal(stored: da.Array, whole: sp.csr_array) -> bool:
    return (sp.csr_array(stored.compute()) != whole).nnz == 0


def test_degrees_of_float32_are_added_in_float64() -> None:
    weights = (1 / np.arange(1, 10_001)).astype(np.float32)
    graph = sp.csr_array(weights[None])
    for each in (graph, row_blocks(graph)):
        np.testing.assert_allclose(degrees_of(each), weights.sum(dtype=np.float64), rtol=1e-13)


def test_the_joint_graph_and_what_it_gives_are_those_in_memory(joint: tuple[sp.csr_array, da.Array]) -> None:
    whole, stored = joint
    assert equal(stored, whole)
    np.testing.assert_array_equal(row_sizes(stored), np.diff(whole.indptr))
    np.testing.assert_array_equal(degrees_of(stored), degrees_of(whole))
    assert components(whole).max() > 1
    np.testing.assert_array_equal(components(stored), components(whole))
    vectors = np.random.default_rng(3).standard_normal((107, 3))
    for normalization in ("none", "symmetric"):
        expected = laplacian(whole, normalization=normalization)
        found = laplacian(stored, normalization=normalization)
        assert equal(found, expected)
        np.testing.assert_array_equal(RowBlocks.of(found) @ vectors, expected @ vectors)
        np.testing.assert_array_equal(RowBlocks.of(found).diagonal(), expected.diagonal())


def test_one_graph_alone_is_its_own_joint_graph() -> None:
    whole = graph(60, 0)
    assert equal(joint_rows([row_blocks(whole, values_per_block=40)], []), whole)


def test_others_are_linked_to_the_first_of_four_graphs() -> None:
    sizes = 60, 47, 1, 30
    whole = [graph(n, seed) for seed, n in enumerate(sizes)]
    links = [
        sp.random_array((60, n), density=0.05, format="csr", rng=np.random.default_rng(n)) for n in sizes[1:]
    ]
    expected = joint_adjacency(whole, {(0, i): link for i, link in enumerate(links, start=1)}, weight=0.3)
    parts = [[row_blocks(each, values_per_block=40) for each in some] for some in (whole, links)]
    assert equal(joint_rows(*parts, weight=0.3), expected)
