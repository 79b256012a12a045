"""The neighbor graph by the command line, from files of several formats, beside brute force."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp
from scipy.sparse.csgraph import minimum_spanning_tree
from sklearn.neighbors import NearestNeighbors

import distembed as de
from distembed.storage import arrays
from tests.commands import job_fixtures, run, succeed
from tests.small_jobs.neighbors import JOB, NAMES, K, N, X, write
from tests.stages.test_matrices import h5ad

JOBS = Path(__file__).resolve().parents[2] / "jobs"


NO_TREE = ("--set", "neighbors.spanning_tree=false")
SMALL_BLOCKS = ("--set", "resources.block_memory=32KiB")


job, finished, _ = job_fixtures("neighbors", write, *SMALL_BLOCKS)


def expected(metric: str):
    """Return the neighbors of every row, nearest first, equal ones by number, and their values."""
    if metric == "euclidean":
        values = np.sqrt(((X[:, None].astype(np.float64) - X) ** 2).sum(axis=2))
    else:
        wide = X.astype(np.float64)
        values = wide @ wide.T
        lengths = np.linalg.norm(wide, axis=1)
        values = values if metric == "inner_product" else 1 - values / lengths[:, None] / lengths
    ordered = -values if metric == "inner_product" else values.copy()
    np.fill_diagonal(ordered, np.inf)
    order = np.argsort(ordered, axis=1, kind="stable")[:, :K]
    return order, np.take_along_axis(values, order, axis=1)


def test_lists_csr_and_edges_say_the_same_and_equal_brute_force(finished: tuple[Path, str]) -> None:
    workspace, _ = finished
    graph = de.read_neighbors(workspace)
    order, values = expected("euclidean")
    np.testing.assert_array_equal(graph.indices, order)
    np.testing.assert_allclose(graph.values, values, rtol=1e-9, atol=1e-12)
    assert graph.names == NAMES
    assert graph.values[30, 0] == 0.0
    stored = de.Workspace.open(workspace).array("neighbors")
    assert stored.numblocks[0] > 3
    csr = sp.vstack([stored.blocks[i].compute() for i in range(stored.numblocks[0])], format="csr")
    assert csr.nnz == N * K  # the edge of length zero as well
    np.testing.assert_array_equal(csr[np.arange(N)[:, None], graph.indices].toarray(), graph.values)
    np.testing.assert_array_equal(graph.csr.indices.reshape(N, K), order)
    assert (graph.csr != csr).nnz == 0
    edges = pq.read_table(workspace / "edges").to_pydict()
    assert edges["source"] == [name for name in NAMES for _ in range(K)]
    assert edges["target"] == [NAMES[j] for j in order.ravel()]
    assert edges["distance"] == graph.values.ravel().tolist()


def test_scikit_learn_finds_the_same(finished: tuple[Path, str]) -> None:
    graph = de.read_neighbors(finished[0])
    D_, order = NearestNeighbors(n_neighbors=K + 1, algorithm="brute").fit(X.astype(np.float64)).kneighbors()
    unequal = np.ones(N, bool)
    unequal[[20, 30]] = False
    # Rows 20 and 30 are equal, and scikit-learn takes either first.
    found, known = (np.where(places == 30, 20, places)[unequal] for places in (graph.indices, order[:, :K]))
    np.testing.assert_array_equal(found, known)
    np.testing.assert_allclose(graph.values[unequal], D_[unequal, :K], rtol=1e-7)


@pytest.mark.parametrize("metric", ["cosine", "inner_product"])
def test_other_metrics(job: Path, tmp_path: Path, metric: str) -> None:
    options = ["--set", f"neighbors.metric={metric}", *NO_TREE]
    succeed("run", job, "--workspace", tmp_path / "w", *options, "--set", "input.path=rows.npy")
    graph, (order, values) = de.read_neighbors(tmp_path / "w"), expected(metric)
    np.testing.assert_allclose(graph.values, values, rtol=1e-9, atol=1e-12)
    assert (
        graph.indices == order
    ).mean() > 0.999  # rows 20 and 30 are equal but for the rounding of the oracle
    edges = pq.read_table(tmp_path / "w" / "edges")
    assert edges["source"].to_pylist()[:K] == [0] * K  # no names: row numbers
    assert edges.column_names[2] == ("similarity" if metric == "inner_product" else "distance")


def test_the_spanning_tree_has_the_weight_of_scipys(finished: tuple[Path, str]) -> None:
    tree = de.Workspace.open(finished[0]).table("spanning_tree")
    assert tree.num_rows == N - 1
    lengths = np.sqrt(((X[:, None].astype(np.float64) - X) ** 2).sum(axis=2))
    apart = np.where(lengths == 0, 1e-6, lengths)  # SciPy takes what is nearly zero for no edge
    assert np.isclose(sum(tree["distance"].to_pylist()), minimum_spanning_tree(apart).sum())
    place = {name: i for i, name in enumerate(NAMES)}
    ends = np.array(
        [
            [place[a], place[b]]
            for a, b in zip(tree["source"].to_pylist(), tree["target"].to_pylist(), strict=True)
        ]
    )
    np.testing.assert_allclose(tree["distance"], lengths[ends[:, 0], ends[:, 1]], rtol=1e-9, atol=1e-12)


def test_the_last_lines_and_the_report(finished: tuple[Path, str]) -> None:
    workspace, output = finished
    assert "500 rows x 12 numbers, 7 neighbors each by euclidean (exact): 3,500 edges" in output
    assert re.search(r"^word_0: word_\d+ \d\.\d+", output, re.MULTILINE)
    page = (workspace / "report" / "index.html").read_text(encoding="utf-8")
    for title in (
        "Nearest neighbors",
        "nearest neighbor",
        "among their neighbors",
        "spanning tree",
        "Hubness",
    ):
        assert title in page


def test_counts_and_hubs_get_advice(job: Path, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    counts = rng.poisson(rng.lognormal(0, 1, (60, 1)) * rng.lognormal(-2, 1, 40))
    np.save(tmp_path / "cells.npy", counts)
    np.save(tmp_path / "logs.npy", np.log1p(counts))
    words = ("--workspace", tmp_path / "w", *NO_TREE, "--set")
    plan = succeed("plan", job, *words, f"input.path={tmp_path / 'cells.npy'}").output
    assert "cells.npy looks like counts, whose totals run from" in plan
    assert "counts" not in succeed("plan", job, *words, f"input.path={tmp_path / 'logs.npy'}").output
    done = succeed("run", job, *words, f"input.path={tmp_path / 'cells.npy'}").output
    assert 'A few rows are neighbors of very many: set neighbors.metric = "cosine"' in done


def test_the_search_holds_few_blocks_of_the_rows(
    job: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each tile reads its block of columns again, so that rows larger than memory are searched."""
    succeed("run", job, "--workspace", tmp_path, "--until", "rows")
    n_blocks, read, names = de.Workspace.open(tmp_path).array("vectors").numblocks[0], arrays.read_block, []

    def recorded(folder, output, index, rows):
        names.append(output.name)
        return read(folder, output, index, rows)

    monkeypatch.setattr(arrays, "read_block", recorded)
    succeed("run", job, "--workspace", tmp_path, "--until", "search")
    assert n_blocks == 3
    assert names.count("vectors") >= n_blocks**2 + n_blocks


def test_sparse_rows_of_anndata_by_the_cosine_and_dense_ones_by_distance(tmp_path: Path) -> None:
    place = h5ad(tmp_path / "cells.h5ad")
    (tmp_path / "job.toml").write_text(
        JOB.replace("vectors.parquet", place).replace("n_neighbors = 7", "n_neighbors = 3")
    )
    refused = run("run", tmp_path / "job.toml")
    assert refused.exit_code == 1
    assert 'set neighbors.metric = "cosine"' in refused.output
    succeed("run", tmp_path / "job.toml", "--set", "input.dense=true")
    cosine = ["--set", "neighbors.metric=cosine"]
    empty = run("run", tmp_path / "job.toml", *cosine, "--workspace", tmp_path / "empty", *NO_TREE)
    assert "row 2 (counted from 0) holds only zeros" in empty.output
    pca = ["--set", "input.key=obsm/X_pca", "--workspace", tmp_path / "pca"]
    succeed("run", tmp_path / "job.toml", *pca)
    assert de.read_neighbors(tmp_path / "pca").names[0] == "name 0"


def test_sparse_rows_have_the_neighbors_of_dense_ones(job: Path, tmp_path: Path) -> None:
    rows = sp.csr_array(np.where(np.abs(X) > 1.5, X, 0))
    rows = rows[np.diff(rows.indptr) > 0]
    sp.save_npz(tmp_path / "x.npz", rows)
    cosine = ["--set", "neighbors.metric=cosine", "--set", f"input.path={tmp_path / 'x.npz'}"]
    for name, options in (("sparse", []), ("dense", ["--set", "input.dense=true"])):
        succeed("run", job, "--workspace", tmp_path / name, *cosine, *options, *NO_TREE)
    sparse, dense = (de.read_neighbors(tmp_path / name) for name in ("sparse", "dense"))
    np.testing.assert_allclose(sparse.values, dense.values, atol=1e-12)
    assert (sparse.indices == dense.indices).mean() > 0.99  # equal but for ties
    assert "are sparse, and no word vectors" in run("neighbors", tmp_path / "sparse", "3").output


@pytest.mark.slow  # pynndescent compiles for a minute
def test_an_approximate_search_says_its_recall(job: Path, tmp_path: Path) -> None:
    pytest.importorskip("pynndescent")
    done = succeed("run", job, "--workspace", tmp_path, "--set", "neighbors.search=approximate")
    recall = float(re.search(r"recall ([\d.]+)%", done.output)[1])
    order, _ = expected("euclidean")
    found = de.read_neighbors(tmp_path).indices
    hits = np.mean([np.isin(a, b).mean() for a, b in zip(order, found, strict=True)])
    assert recall == pytest.approx(100 * hits, abs=0.01)
    assert recall > 90


def test_equal_names_and_rows_of_zeros_are_refused(job: Path, tmp_path: Path) -> None:
    names = [*NAMES[:-1], "word_3"]
    (tmp_path / "names.txt").write_text("\n".join(names))
    twice = ["--set", f"input.names={tmp_path / 'names.txt'}", "--workspace", tmp_path / "a"]
    assert "'word_3' in rows 3 and 499" in run("run", job, *twice).output
    np.save(tmp_path / "zeros.npy", np.where(np.arange(N)[:, None] == 8, 0, X))
    zeros = ["--set", f"input.path={tmp_path / 'zeros.npy'}", "--set", "neighbors.metric=cosine"]
    assert (
        "row 8 (counted from 0) holds only zeros"
        in run("run", job, *zeros, "--workspace", tmp_path / "b").output
    )


def test_the_job_of_this_folder_runs_from_installed_packages(tmp_path: Path) -> None:
    pytest.importorskip("gensim")
    done = succeed("run", JOBS / "neighbors.toml", "--workspace", tmp_path)
    assert re.search(r"^police: ", done.output, re.MULTILINE)
