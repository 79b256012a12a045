"""A PSDVec job with sides: they are as the library makes them, joined, and later words are joined in the same way."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_array, hstack

import distembed as de
from distembed.execution import compute
from distembed.job.opening import open_job
from distembed.stages.corpus import tokens_of, vocabulary_of
from distembed.systems.psdvec.inference import NewWords, new_sides
from distembed.systems.psdvec.views import page, part_neighbors
from tests.commands import made, succeed
from tests.small_jobs import psdvec

SIDES = """
[sides]
n_components = 5
n_passes = 40
weight = 0.7
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A finished job with sides and without subwords."""
    folder = tmp_path_factory.mktemp("sides")
    psdvec.write(folder)
    job = (folder / "job.toml").read_text().replace('block_memory = "64KiB"', 'block_memory = "1MiB"')
    (folder / "job.toml").write_text(job + SIDES)
    succeed("run", folder / "job.toml")
    return folder


@pytest.fixture
def own(folder, tmp_path):
    return Path(shutil.copytree(folder, tmp_path / "own"))


def array(folder: Path, name: str) -> np.ndarray:
    found = compute(de.Workspace.open(str(folder / "w")).array(name))
    return found.toarray() if isinstance(found, csr_array) else np.asarray(found)


def directions(vectors: np.ndarray) -> np.ndarray:
    """Return the rows that are not zero less their mean, of length 1."""
    is_there = vectors.any(axis=1)
    centered = vectors.astype(float) - vectors[is_there].mean(axis=0, dtype=float)
    centered[~is_there] = 0
    return centered / np.maximum(np.linalg.norm(centered, axis=1, keepdims=True), 1e-300)


def test_the_vectors_are_weighted_directions_of_both_parts_and_sides_are_singular_vectors_of_positive_pmi(
    folder,
):
    """By NumPy's decomposition, of counts that the library counts of the same text; up to the sign of a component."""
    solved = np.concatenate([array(folder, "core_vectors"), array(folder, "noncore_vectors")])
    expected = np.hstack([directions(solved), 0.7 * directions(array(folder, "sides"))])
    np.testing.assert_allclose(array(folder, "vectors"), expected, atol=1e-6)
    workspace = de.Workspace.open(str(folder / "w"))
    vocabulary = vocabulary_of(workspace)
    counts = de.count_cooccurrences(tokens_of(workspace), vocabulary, window=2, direction="left").compute()
    np.testing.assert_array_equal(array(folder, "sides_counts"), counts.toarray())
    weighted = de.ppmi(csr_array(hstack([counts, counts.T])), context_smoothing=0.75).toarray()
    left = np.linalg.svd(weighted.astype(float), full_matrices=False)[0][:, :5]
    found = array(folder, "sides")
    np.testing.assert_allclose(np.abs((left * found).sum(axis=0)), 1, atol=1e-3)


def test_later_words_are_placed_where_the_fit_has_placed_them_by_contexts_that_are_renumbered(
    folder, tmp_path
):
    """Words of the fit as if they came later: singular vectors are the same up to convergence.

    In a text with other words, in which the job's words have other numbers, the contexts are the same.
    """
    workspace = de.Workspace.open(str(folder / "w"))
    job, vocabulary = open_job(str(folder / "w")), vocabulary_of(workspace)
    later = slice(20, 40)
    new = NewWords(vocabulary, list(vocabulary.words[later]), [])
    expected = array(folder, "sides")[later]
    found = new_sides(job.sides, workspace, tokens_of(workspace), new)
    np.testing.assert_allclose(found, expected, atol=1e-3 * np.abs(expected).max())
    (tmp_path / "t.txt").write_text("zorb word1 word2\n" * 9 + "word7 zorb word3\n" * 4 + "other words\n")
    corpus = de.read_corpus(str(tmp_path / "t.txt"), tokenizer=de.Tokenizer(numbers=True))
    tokens = corpus.tokenize(str(tmp_path / "tokens"))
    counted = de.build_vocabulary(tokens, min_count=1)
    found = new_sides(job.sides, workspace, tokens, NewWords(counted, ["zorb"], []))
    n = len(vocabulary)
    contexts = np.zeros((1, 2 * n))
    one, two, three, seven = vocabulary.index(["word1", "word2", "word3", "word7"])
    contexts[0, [one, two, three, n + seven]] = [9, 9, 4, 4]
    totals = np.asarray(workspace.table("sides_totals")["n_pairs"])
    weighted = de.ppmi(csr_array(contexts), column_totals=totals, context_smoothing=0.75).toarray()
    np.testing.assert_allclose(found, weighted @ array(folder, "sides_axes"), atol=1e-4)


def test_new_words_are_joined_as_those_of_the_job(folder, tmp_path):
    (tmp_path / "t.txt").write_text("zorb word1 word2 word3\nword5 zorb word1 word2\n" * 30)
    target = tmp_path / "all.safetensors"
    succeed("infer", folder / "w", tmp_path / "t.txt", "--to", target, "--min-count", "1")
    enlarged = de.WordVectors.load(str(target))
    assert enlarged.words[-1] == "zorb"
    np.testing.assert_array_equal(enlarged.vectors[:-1], array(folder, "vectors"))
    lengths = [np.linalg.norm(part) for part in np.split(enlarged["zorb"], [4])]
    np.testing.assert_allclose(lengths, [1, 0.7], atol=1e-5)


def test_report_and_explain_say_which_part_makes_two_words_near(folder, tmp_path):
    succeed("explain", folder / "w", "word2", "word4", "--to", tmp_path / "found.json")
    record = json.loads((tmp_path / "found.json").read_text())
    rows = record["tables"]["parts"]
    vectors = array(folder, "vectors").astype(float)
    pair = vectors[vocabulary_of(de.Workspace.open(str(folder / "w"))).index(["word2", "word4"])]
    cosine = pair[0] @ pair[1] / np.prod(np.linalg.norm(pair, axis=1))
    assert [row["part"] for row in rows] == ["psdvec", "sides", "joined"]
    assert rows[-1]["share"] == pytest.approx(cosine, abs=1e-5)
    largest = max(rows[:-1], key=lambda row: row["share"])["part"]
    assert any(f"{largest} makes the words nearest" in sentence for sentence in record["sentences"])
    job, workspace = open_job(str(folder / "job.toml")), de.Workspace.open(str(folder / "w"))
    rows = part_neighbors(job, workspace, ["word4", "word7"])
    said = [(row["part"], row["components"], row["weight"]) for row in rows]
    assert said == [("psdvec", 4, 1.0), ("sides", 5, 0.7)]
    known, found = vocabulary_of(workspace).words, directions(array(folder, "sides"))
    cosines = found @ found[known.index("word4")]
    cosines[known.index("word4")] = -2
    assert rows[1]["word4"] == ", ".join(known[i] for i in np.argsort(-cosines, kind="stable")[:5])
    assert rows[1]["words"] == int(found.any(axis=1).sum())
    assert rows[1]["made_of"] == "counts: window 2, left, flat"
    shown = page(job, workspace).html().replace("<wbr>", "")
    assert "Parts</h2>" in shown
    assert "counts: window 2" in shown


def test_sides_have_a_regularization_of_their_own(own):
    """The n-grams of the words are one map, of which the components of the sides have their own lambda."""
    subwords = (own / "job.toml", own / "w", "subwords.enabled=true")
    made(*subwords, until="vectors")
    before = array(own, "subword_vectors").T
    made(*subwords, "sides.regularization=5.0", until="vectors")
    found = array(own, "subword_vectors").T
    np.testing.assert_allclose(found[:, :4], before[:, :4], atol=1e-2)
    assert (np.linalg.norm(found[:, 4:], axis=0) / np.linalg.norm(before[:, 4:], axis=0) < 0.5).all()


def test_the_last_step_removes_components_from_all_that_vectors_are_made_of(own, tmp_path):
    (tmp_path / "t.txt").write_text("zorb word1 word2 word3\nword5 zorb word1 word2\n" * 30)

    def vectors(*settings: str) -> tuple[np.ndarray, np.ndarray]:
        made(own / "job.toml", own / "w", "subwords.enabled=true", *settings, until="vectors")
        target = tmp_path / "all.safetensors"
        succeed("infer", own / "w", tmp_path / "t.txt", "--to", target, "--min-count", "1")
        enlarged = de.WordVectors.load(str(target))
        return enlarged.vectors.astype(float), enlarged["wordly"].astype(float)

    before, composed = vectors()
    after, composed_after = vectors("psdvec.components_removed=2")
    mean = before[:-1].mean(axis=0)
    axes = np.linalg.eigh(np.cov(before[:-1].T))[1][:, -2:]

    def removed(rows: np.ndarray) -> np.ndarray:
        return (rows - mean) - (rows - mean) @ axes @ axes.T

    np.testing.assert_allclose(after, removed(before), atol=1e-5)
    np.testing.assert_allclose(composed_after, removed(composed), atol=1e-5)
    said = succeed("explain", own / "w", "wordly", "wordish").output  # which have no vector in a part
    assert "cosine" in said
    assert "joined" not in said
