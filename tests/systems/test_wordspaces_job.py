"""The word spaces job by the command line, on a generated corpus."""

from __future__ import annotations

import re

import numpy as np
import pytest

import distembed as de
from distembed.evaluation.scoring import Policy
from distembed.evaluation.words import evaluate_sets
from distembed.evaluation.wordsets import find_sets
from distembed.factorization.lsa import LSA
from distembed.job.load import load_job
from distembed.manifold.projection import LocalityPreservingProjection
from distembed.stages.words import read_nearest, read_scores
from distembed.systems.wordspaces.outputs import NEAREST, SCORES
from distembed.systems.wordspaces.stages import with_linear
from distembed.weighting.documents import log_entropy
from tests.commands import changes, job_fixtures, made, refusal, run, succeed
from tests.small_jobs.wordspaces import N_DOCUMENTS, write

job, finished, copy = job_fixtures("wordspaces", write)


def test_spaces_are_what_the_library_makes(workspace):
    terms = workspace.array("document_terms").compute()
    vsm = workspace.array("spaces/vsm").compute()
    assert (vsm != terms.T).nnz == 0
    weighted = log_entropy(terms).T.tocsr()
    stored = workspace.array("spaces/log_entropy").compute()
    np.testing.assert_allclose(stored.toarray(), weighted.toarray(), rtol=1e-6)
    expected = LSA(4).fit_transform(weighted)
    np.testing.assert_allclose(np.abs(workspace.array("spaces/lsa").compute()), np.abs(expected), atol=2e-4)
    without = workspace.array("spaces/lsa_without_first").compute()
    np.testing.assert_allclose(np.abs(without), np.abs(expected[:, 1:]), atol=2e-4)
    n_words = len(workspace.table("vocabulary"))
    assert workspace.array("hal").shape == (n_words, n_words)
    assert workspace.array("spaces/both_sides").shape == (n_words, 40)
    assert workspace.array("spaces/wc").shape == (n_words, 30)


def test_projections_are_the_estimator_s_and_graphs_are_shared(workspace):
    vsm, weighted = (workspace.array(f"spaces/{name}").compute() for name in ("vsm", "log_entropy"))
    model = LocalityPreservingProjection(4, n_neighbors=6)
    constant = LocalityPreservingProjection(4, n_neighbors=6, constant_column=True)
    eigen = LocalityPreservingProjection(4, solver="eigen", svd_components=12, threshold=0.15)
    expected = {
        "lpp": model.fit_transform(vsm),
        "maps": model.eigenmaps_,
        "lpp_constant": constant.fit_transform(vsm),
        "lpp_eigen": eigen.fit_transform(weighted),
    }
    for name, rows in expected.items():
        stored = workspace.array(f"spaces/{name}").compute()
        np.testing.assert_allclose(stored, rows, rtol=1e-3, atol=1e-5, err_msg=name)
    stages = workspace.stages()
    assert {name for name in stages if name.startswith("graph_")} == {
        "graph_vsm_6_cosine_union",
        "graph_vsm_6_binary_union",
        "graph_log_entropy_above_0.15_cosine_union",
    }
    assert stages["graph_log_entropy_above_0.15_cosine_union"].facts["n_edges"] == eigen.graph_.nnz


def test_a_baseline_of_counts_has_a_shift_an_exponent_and_contexts_added(job, copy):
    """The options `neg`, `eig` and `w+c` of Levy, Goldberg and Dagan (2015), against NumPy."""
    settings = (
        "recipes.ppmi={of='contexts', method='ppmi', context_smoothing=0.75, negative_samples=2.0}",
        "recipes.svd={of='ppmi', method='lsa', n_components=3, exponent=0.5, add_contexts=true}",
        "wordspaces.spaces=['svd']", "wordspaces.vectors=svd", "contexts.direction='left'",
    )  # fmt: skip
    workspace = made(job, copy, *settings, until="space_svd")
    x = workspace.array("contexts").compute().toarray()
    p = x.sum(axis=0) ** 0.75 / (x.sum(axis=0) ** 0.75).sum()
    with np.errstate(divide="ignore"):
        ppmi = np.maximum(np.log(x / (np.maximum(x.sum(axis=1, keepdims=True), 1) * p)) - np.log(2), 0)
    np.testing.assert_allclose(workspace.array("spaces/ppmi").compute().toarray(), ppmi, atol=1e-5)
    u, s, v = np.linalg.svd(ppmi)
    expected = (u[:, :3] + v[:3].T) * np.sqrt(s[:3])
    np.testing.assert_allclose(
        np.abs(workspace.array("spaces/svd").compute()), np.abs(expected), atol=2e-3 * np.abs(expected).max()
    )


def test_the_first_components_of_a_space_are_scored(job, workspace, page):
    words = workspace.table("vocabulary")["word"].to_pylist()
    sets = find_sets(job.parent / "sets").sets
    largest = workspace.array("spaces/lpp").compute()
    vsm = workspace.array("spaces/vsm").compute()
    for k in (1, 3):
        fewer = LocalityPreservingProjection(k, n_neighbors=6).fit_transform(vsm)
        np.testing.assert_allclose(largest[:, :k], fewer, rtol=1e-3, atol=1e-5)
        expected = evaluate_sets(de.WordVectors(words, largest[:, :k]), sets, Policy())
        found = read_scores(workspace, SCORES.of(recipe=f"lpp-{k}"))[: len(expected)]
        wanted = pytest.approx([score.value for score in expected], abs=1e-6, nan_ok=True)
        assert [score.value for score in found] == wanted
    stored = workspace.stages()["scores_lsa_without_first"].outputs
    assert "scores_lsa_without_first-1.json" in stored
    assert "scores_lsa_without_first-3.json" not in stored  # it has three components
    assert not any("-" in name for name in workspace.stages()["scores_wc"].outputs)  # a sparse space
    assert "Scores by dimension: lpp" in page
    assert "LSA, 3" in page


def test_scores_and_neighbors_are_those_of_the_vectors(job, workspace):
    words = workspace.table("vocabulary")["word"].to_pylist()
    sets = find_sets(job.parent / "sets").sets
    for name in ("vsm", "lpp", "wc", "lsa"):
        space = workspace.array(f"spaces/{name}").compute()
        dense = de.WordVectors(words, space.toarray() if hasattr(space, "toarray") else space)
        found = read_scores(workspace, SCORES.of(recipe=name))
        for mine, expected in zip(found, evaluate_sets(dense, with_linear(sets), Policy()), strict=True):
            assert mine[:3] == expected[:3]
            assert (mine.known, mine.total) == (expected.known, expected.total)
            assert mine.value == pytest.approx(expected.value, abs=1e-6)
        if name == "wc":
            continue
        nearest = read_nearest(workspace, NEAREST.of(recipe=name))
        cosines = [cosine for _, cosine in nearest["a0"]]
        assert cosines == pytest.approx([near[1] for near in dense.most_similar("a0", n=3)], abs=1e-6)
        assert cosines == pytest.approx([dense.similarity("a0", word) for word, _ in nearest["a0"]], abs=1e-6)
        assert {word[0] for word, _ in nearest["a0"]} == {"a"}
        assert {word[0] for word, _ in nearest["b1"]} == {"b"}


def test_short_documents_are_left_out_and_counted(job, tmp_path):
    """The documents have 40 tokens each, the first one more."""
    shorter = (job.parent / "corpus.txt").read_text() + "a0 a1 b0\nc0 short\n"
    text = tmp_path / "shorter.txt"
    text.write_text(shorter)
    settings = {"corpus.paths": [text], "corpus.min_border_tokens": 40, "wordspaces.spaces": ["lsa"]}
    done = succeed("run", job, "--workspace", tmp_path / "w", *changes(settings))
    workspace = de.Workspace.open(tmp_path / "w")
    assert workspace.array("document_terms").shape[0] == N_DOCUMENTS
    assert workspace.stages()["tokens"].facts["n_tokens"] == 40 * N_DOCUMENTS + 1
    omitted = "2 documents, lines or sentences of fewer tokens than corpus.min_border_tokens"
    assert omitted in done.output
    assert omitted in (tmp_path / "w" / "report" / "index.html").read_text(encoding="utf-8")


def test_the_report_and_the_last_lines(job, finished, output, page):
    titles = ("Word choice, association", "Nearest words, space by space", "The spaces", "Time and memory")
    assert [title for title in titles if title not in page] == []
    # In tables a space has the title of its recipe, or else its name.
    own = load_job(finished[0] / "job.toml")
    assert own.recipes == load_job(job).recipes
    assert [own.title_of(name) for name in ("lsa", "vsm")] == ["LSA", "vsm"]
    assert re.search(
        r"^ *similar +similarity +spearman( +–)+ +5/6$", output, re.MULTILINE
    )  # too few for a score
    assert run("neighbors", finished[0], "a0", "-n", "2").output.startswith("a0: a")


def test_words_of_the_sets_are_kept_however_rare(job, workspace, tmp_path):
    fewer = made(job, tmp_path / "w", "evaluation.keep_words=false", until="vocabulary")
    kept = ["seldom" in one.table("vocabulary")["word"].to_pylist() for one in (workspace, fewer)]
    assert kept == [True, False]


def test_no_known_pair_is_an_error_that_says_why(job, copy, tmp_path):
    strange = tmp_path / "strange.txt"
    strange.write_text("nobody nowhere 3\nsomebody somewhere 2\n")
    settings = {
        "evaluation.sets": [strange],
        "evaluation.keep_words": False,
        "wordspaces.spaces": ["vsm", "lsa"],
    }
    told = refusal("run", job, "--workspace", copy, "--replace", *changes(settings))
    assert "distembed: 0 of 2 pairs known (strange): too few of their 4 words (nobody, nowhere," in told
    # the whole vocabulary, of which the sparse space holds only the words of the sets
    assert re.search(r"among the [1-9]\d* words of the vocabulary \(\w", told)


@pytest.mark.filterwarnings("ignore:Number of distinct clusters")  # one column: two distinct unit rows
def test_words_without_a_value_are_named(job, copy):
    settings = ("recipes.wc.n_columns=1", "wordspaces.spaces=['wc', 'lsa']")
    facts = made(job, copy, *settings).stages()["space_wc"].facts
    assert facts["n_zero_words"] > 0
    assert len(facts["zero_words"].split(", ")) == min(facts["n_zero_words"], 20)
