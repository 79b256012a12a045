"""The word spaces job by the command line: on a generated corpus, and on the dump in gensim's wheel."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import distembed as de
from distembed.evaluation.scoring import Policy
from distembed.evaluation.words import evaluate_sets
from distembed.evaluation.wordsets import find_sets
from distembed.factorization.lsa import LSA
from distembed.job.load import load_job
from distembed.job.run import run_stages
from distembed.manifold.projection import LocalityPreservingProjection
from distembed.stages.words import read_nearest, read_scores
from distembed.systems.wordspaces.outputs import NEAREST, SCORES
from distembed.systems.wordspaces.stages import with_linear
from distembed.weighting.documents import log_entropy
from tests.commands import DUMP, digest_here, job_fixtures, run, succeed, untimed
from tests.small_jobs.wordspaces import N_DOCUMENTS, write

JOBS = Path(__file__).resolve().parents[2] / "jobs"


job, finished, copy = job_fixtures("wordspaces", write)


def test_spaces_are_what_the_library_makes(finished: tuple[Path, str]) -> None:
    workspace = de.Workspace.open(finished[0])
    terms = workspace.array("document_terms").compute()
    vsm = workspace.array("spaces/vsm").compute()
    assert (vsm != terms.T).nnz == 0
    weighted = log_entropy(terms).T.tocsr()
    np.testing.assert_allclose(
        workspace.array("spaces/log_entropy").compute().toarray(), weighted.toarray(), rtol=1e-6
    )
    expected = LSA(4).fit_transform(weighted)
    np.testing.assert_allclose(np.abs(workspace.array("spaces/lsa").compute()), np.abs(expected), atol=2e-4)
    without = workspace.array("spaces/lsa_without_first").compute()
    np.testing.assert_allclose(np.abs(without), np.abs(expected[:, 1:]), atol=2e-4)


def test_the_copy_of_the_job_in_its_workspace_is_a_job(job: Path, finished: tuple[Path, str]) -> None:
    assert load_job(finished[0] / "job.toml").recipes == load_job(job).recipes


def test_a_projection_is_the_estimator_s_and_graphs_are_shared(finished: tuple[Path, str]) -> None:
    workspace = de.Workspace.open(finished[0])
    vsm = workspace.array("spaces/vsm").compute()
    model = LocalityPreservingProjection(4, n_neighbors=6)
    expected = model.fit_transform(vsm)
    np.testing.assert_allclose(workspace.array("spaces/lpp").compute(), expected, rtol=1e-3, atol=1e-5)
    np.testing.assert_allclose(
        workspace.array("spaces/maps").compute(), model.eigenmaps_, rtol=1e-3, atol=1e-5
    )
    names = set(workspace.stages())
    assert {name for name in names if name.startswith("graph_")} == {
        "graph_vsm_6_cosine_union",
        "graph_vsm_6_binary_union",
        "graph_log_entropy_above_0.15_cosine_union",
    }
    model.set_params(constant_column=True)
    expected = model.fit_transform(vsm)
    np.testing.assert_allclose(
        workspace.array("spaces/lpp_constant").compute(), expected, rtol=1e-3, atol=1e-5
    )


def test_a_projection_by_the_eigenproblem_on_a_graph_of_a_threshold(finished: tuple[Path, str]) -> None:
    workspace = de.Workspace.open(finished[0])
    rows = workspace.array("spaces/log_entropy").compute()
    model = LocalityPreservingProjection(4, solver="eigen", svd_components=12, threshold=0.15)
    expected = model.fit_transform(rows)
    np.testing.assert_allclose(workspace.array("spaces/lpp_eigen").compute(), expected, rtol=1e-3, atol=1e-5)
    assert (
        workspace.stages()["graph_log_entropy_above_0.15_cosine_union"].facts["n_edges"] == model.graph_.nnz
    )


@pytest.mark.parametrize(
    ("setting", "fault"),
    [
        ("recipes.maps.affinity=binry", "recipes.maps.affinity = 'binry' is not allowed"),
        ("recipes.lpp_eigen.svd_components=3", "svd_components, 4 \\(n_components\\) or more; it is 3"),
        ("recipes.wc.solver=eigen", "unknown key recipes.wc.solver"),
        ("evaluation.dimensions=[0]", "evaluation.dimensions.0 = 0"),
        ("recipes.lpp_eigen.constant_column=true", "constant_column belongs to the regression"),
        ("recipes.lpp.svd_components=9", 'svd_components belongs to solver = "eigen"'),
        ("recipes.lpp_eigen.affinity=local", "threshold joins words by their cosine"),
    ],
)
def test_options_of_a_projection_that_do_not_fit_are_refused(job: Path, setting: str, fault: str) -> None:
    done = run("plan", job, "--set", setting)
    assert done.exit_code == 2
    assert re.search(fault, " ".join(done.output.split()))


def test_a_baseline_of_counts_has_a_shift_an_exponent_and_contexts_added(job: Path, copy: Path) -> None:
    """The options `neg`, `eig` and `w+c` of Levy, Goldberg and Dagan (2015), against NumPy."""
    settings = (
        "recipes.ppmi={of='contexts', method='ppmi', context_smoothing=0.75, negative_samples=2.0}",
        "recipes.svd={of='ppmi', method='lsa', n_components=3, exponent=0.5, add_contexts=true}",
        "wordspaces.spaces=['svd']", "wordspaces.vectors=svd", "contexts.direction='left'",
    )  # fmt: skip
    run_stages(load_job(job, workspace=str(copy), settings=settings), until="space_svd")
    workspace = de.Workspace.open(copy)
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


def test_the_first_components_of_a_space_are_scored(job: Path, finished: tuple[Path, str]) -> None:
    workspace = de.Workspace.open(finished[0])
    words = workspace.table("vocabulary")["word"].to_pylist()
    sets = find_sets(job.parent / "sets").sets
    largest = workspace.array("spaces/lpp").compute()
    for k in (1, 3):
        fewer = LocalityPreservingProjection(k, n_neighbors=6).fit_transform(
            workspace.array("spaces/vsm").compute()
        )
        np.testing.assert_allclose(largest[:, :k], fewer, rtol=1e-3, atol=1e-5)
        expected = evaluate_sets(de.WordVectors(words, largest[:, :k]), sets, Policy())
        found = read_scores(workspace, SCORES.of(recipe=f"lpp-{k}"))
        assert [score.value for score in found[: len(expected)]] == pytest.approx(
            [score.value for score in expected], abs=1e-6, nan_ok=True
        )
    stored = workspace.stages()["scores_lsa_without_first"].outputs
    assert "scores_lsa_without_first-1.json" in stored
    assert "scores_lsa_without_first-3.json" not in stored  # it has three components
    assert not any("-" in name for name in workspace.stages()["scores_wc"].outputs)  # a sparse space
    page = (finished[0] / "report" / "index.html").read_text(encoding="utf-8")
    assert "Scores by dimension: lpp" in page
    assert "LSA, 3" in page


def test_columns_are_chosen(finished: tuple[Path, str]) -> None:
    workspace = de.Workspace.open(finished[0])
    n_words = len(workspace.table("vocabulary"))
    assert workspace.array("hal").shape == (n_words, n_words)
    assert workspace.array("spaces/both_sides").shape == (n_words, 40)
    assert workspace.array("spaces/wc").shape == (n_words, 30)


def test_scores_are_those_of_the_evaluation(job: Path, finished: tuple[Path, str]) -> None:
    workspace = de.Workspace.open(finished[0])
    words = workspace.table("vocabulary")["word"].to_pylist()
    sets = find_sets(job.parent / "sets").sets
    for name in ("vsm", "lpp", "wc"):
        space = workspace.array(f"spaces/{name}").compute()
        dense = de.WordVectors(words, space.toarray() if hasattr(space, "toarray") else space)
        found = read_scores(workspace, SCORES.of(recipe=name))
        for mine, expected in zip(found, evaluate_sets(dense, with_linear(sets), Policy()), strict=True):
            assert mine[:3] == expected[:3]
            assert (mine.known, mine.total) == (expected.known, expected.total)
            assert mine.value == pytest.approx(expected.value, abs=1e-6)


def test_short_documents_are_left_out_and_counted(job: Path, tmp_path: Path) -> None:
    """The documents have 40 tokens each, the first one more."""
    shorter = (job.parent / "corpus.txt").read_text() + "a0 a1 b0\nc0 short\n"
    text = tmp_path / "shorter.txt"
    text.write_text(shorter)
    settings = ["--set", f"corpus.paths=['{text}']", "--set", "corpus.min_border_tokens=40"]
    settings += ["--set", "wordspaces.spaces=['lsa']"]
    done = succeed("run", job, "--workspace", tmp_path / "w", *settings)
    workspace = de.Workspace.open(tmp_path / "w")
    assert workspace.array("document_terms").shape[0] == N_DOCUMENTS
    assert workspace.stages()["tokens"].facts["n_tokens"] == 40 * N_DOCUMENTS + 1
    omitted = "2 documents, lines or sentences of fewer tokens than corpus.min_border_tokens"
    assert omitted in done.output
    assert omitted in (tmp_path / "w" / "report" / "index.html").read_text(encoding="utf-8")


def test_neighbors_are_of_the_topic_and_those_of_the_vectors(finished: tuple[Path, str]) -> None:
    workspace = de.Workspace.open(finished[0])
    words = workspace.table("vocabulary")["word"].to_pylist()
    vectors = de.WordVectors(words, workspace.array("spaces/lsa").compute())
    nearest = read_nearest(workspace, NEAREST.of(recipe="lsa"))
    found = [cosine for _, cosine in nearest["a0"]]
    assert found == pytest.approx([near.similarity for near in vectors.most_similar("a0", n=3)], abs=1e-6)
    assert found == pytest.approx([vectors.similarity("a0", word) for word, _ in nearest["a0"]], abs=1e-6)
    for name in ("vsm", "lsa", "lpp"):
        found = read_nearest(workspace, NEAREST.of(recipe=name))
        assert {word[0] for word, _ in found["a0"]} == {"a"}
        assert {word[0] for word, _ in found["b1"]} == {"b"}


def test_the_report_and_the_last_lines(job: Path, finished: tuple[Path, str]) -> None:
    workspace, output = finished
    page = (workspace / "report" / "index.html").read_text(encoding="utf-8")
    for title in (
        "Word choice, association",
        "Nearest words, space by space",
        "The spaces",
        "Time and memory",
    ):
        assert title in page
    # In tables a space has the title of its recipe, or else its name.
    assert [load_job(job).title_of(name) for name in ("lsa", "vsm")] == ["LSA", "vsm"]
    assert re.search(
        r"^ *similar +similarity +spearman( +–)+ +5/6$", output, re.MULTILINE
    )  # too few for a score
    assert run("neighbors", workspace, "a0", "-n", "2").output.startswith("a0: a")


def test_words_of_the_sets_are_kept_however_rare(
    job: Path, finished: tuple[Path, str], tmp_path: Path
) -> None:
    assert "seldom" in de.Workspace.open(finished[0]).table("vocabulary")["word"].to_pylist()
    settings = ["--set", "evaluation.keep_words=false", "--until", "vocabulary"]
    succeed("run", job, "--workspace", tmp_path / "w", *settings)
    assert "seldom" not in de.Workspace.open(tmp_path / "w").table("vocabulary")["word"].to_pylist()


def test_one_recipe_redoes_only_what_depends_on_it(job: Path, finished: tuple[Path, str], copy: Path) -> None:
    done = run("run", job, "--workspace", copy, "--replace", "--set", "recipes.lpp.alpha=1.0")
    ran = set(re.findall(r"^(\w+) +[\d.]+ m?s", untimed(done.output), re.MULTILINE))
    assert ran == {"space_lpp", "scores_lpp", "report"}  # neither neighbors nor eigenvectors
    assert digest_here(job, copy) != digest_here(job, finished[0])


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("recipes.maps.n_components=300", "300 eigenvectors are wanted"),
        ("recipes.both_sides.n_columns=100000", "n_columns is 100000"),
        (
            "evaluation.sets=['{gensim}/test/test_data/questions-words.txt']",
            "questions-words asks for analogies, which the sparse space vsm",
        ),
    ],
)
def test_a_fault_of_a_space_is_one_sentence(job: Path, copy: Path, setting: str, message: str) -> None:
    done = run("run", job, "--workspace", copy, "--replace", "--set", setting)
    assert done.exit_code in (1, 2)
    assert message in done.output.splitlines()[-1]


def test_no_known_pair_is_an_error_that_says_why(job: Path, copy: Path, tmp_path: Path) -> None:
    strange = tmp_path / "strange.txt"
    strange.write_text("nobody nowhere 3\nsomebody somewhere 2\n")
    settings = ["--set", f"evaluation.sets=['{strange}']", "--set", "evaluation.keep_words=false"]
    settings += ["--set", "wordspaces.spaces=['vsm', 'lsa']"]
    done = run("run", job, "--workspace", copy, "--replace", *settings)
    assert done.exit_code == 2, done.output
    last = done.output.splitlines()[-1]
    assert last.startswith(
        "distembed: 0 of 2 pairs known (strange): too few of their 4 words (nobody, nowhere,"
    )
    # the whole vocabulary, of which the sparse space holds only the words of the sets
    assert re.search(r"among the [1-9]\d* words of the vocabulary \(\w", last)


@pytest.mark.filterwarnings("ignore:Number of distinct clusters")  # one column: two distinct unit rows
def test_words_without_a_value_are_named(job: Path, copy: Path) -> None:
    settings = ["--set", "recipes.wc.n_columns=1", "--set", "wordspaces.spaces=['wc', 'lsa']"]
    succeed("run", job, "--workspace", copy, "--replace", *settings)
    facts = de.Workspace.open(copy).stages()["space_wc"].facts
    assert facts["n_zero_words"] > 0
    assert len(facts["zero_words"].split(", ")) == min(facts["n_zero_words"], 20)


def test_the_job_we_ship_on_the_dump_of_the_wheel(tmp_path: Path) -> None:
    pytest.importorskip("gensim", reason="the embedded input lies in gensim's wheel")
    settings = {
        "corpus.paths": f"['{DUMP}']",
        "corpus.layout": "line",
        "corpus.min_border_tokens": 1,
        "vocabulary.min_count": 150,
        "evaluation.keep_words": "false",
        "wordspaces.n_components": 20,
        "wordspaces.spaces": "['vsm', 'lsa', 'vsm_lpp', 'wc_lpp', 'hal_space']",
        "evaluation.sets": "['{gensim}/test/test_data/wordsim353.tsv']",
        "paper.TASA.rows": "{}",
        "paper.Wikipedia.rows": "{}",
    }
    words = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
    done = succeed("run", JOBS / "wordspaces_paper.toml", "--workspace", tmp_path / "w", *words)
    assert re.search(r"^wordsim353 +similarity +spearman .* \d+/353$", done.output, re.MULTILINE)
