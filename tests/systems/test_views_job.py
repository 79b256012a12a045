"""A PSDVec job with views: each view as the library makes it, joined, and later words joined in the same way."""

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
from distembed.systems.psdvec.inference import NewWords, new_in_view
from distembed.systems.psdvec.views import page, view_neighbors
from tests.commands import run, succeed
from tests.small_jobs import psdvec

VIEWS = """
[views.sides]
method = "ppmi"
n_components = 5
n_passes = 40
[views.places]
method = "ppmi"
n_components = 3
exponent = 0.5
weight = 0.4
[views.narrow]
method = "psdvec"
window = 1
n_components = 4
n_iter = 2
[views.file]
method = "vectors"
path = "finished.txt"
weight = 0.5
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished job with four views and without subwords, whose file of vectors has half of the words."""
    folder = tmp_path_factory.mktemp("views")
    psdvec.write(folder)
    job = (folder / "job.toml").read_text().replace('block_memory = "64KiB"', 'block_memory = "1MiB"')
    (folder / "job.toml").write_text(job + VIEWS)
    vectors = np.random.default_rng(0).normal(size=(100, 3)).astype(np.float32)
    de.WordVectors([f"word{i}" for i in range(0, 200, 2)], vectors).save(str(folder / "finished.txt"))
    succeed("run", folder / "job.toml")
    return folder


@pytest.fixture
def own(folder: Path, tmp_path: Path) -> Path:
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


def test_the_vectors_are_the_weighted_directions_of_all_views(folder: Path) -> None:
    solved = np.concatenate([array(folder, "core_vectors"), array(folder, "noncore_vectors")])
    views = [array(folder, f"view_{name}") for name in ("sides", "places", "narrow", "file")]
    weighted = zip([1, 0.7, 0.4, 0.7, 0.5], [solved, *views], strict=True)
    expected = np.hstack([weight * directions(part) for weight, part in weighted])
    np.testing.assert_allclose(array(folder, "vectors"), expected, atol=1e-6)


def test_sides_are_the_left_singular_vectors_of_positive_pmi(folder: Path) -> None:
    """By NumPy's decomposition, of counts that the library counts of the same text; up to the sign of a component."""
    workspace = de.Workspace.open(str(folder / "w"))
    vocabulary = vocabulary_of(workspace)
    counts = de.count_cooccurrences(tokens_of(workspace), vocabulary, window=2, direction="left").compute()
    np.testing.assert_array_equal(array(folder, "view_sides_counts"), counts.toarray())
    weighted = de.ppmi(csr_array(hstack([counts, counts.T])), context_smoothing=0.75).toarray()
    left = np.linalg.svd(weighted.astype(float), full_matrices=False)[0][:, :5]
    found = array(folder, "view_sides")
    np.testing.assert_allclose(np.abs((left * found).sum(axis=0)), 1, atol=1e-3)


def test_words_that_a_file_lacks_keep_the_other_views(folder: Path) -> None:
    words = vocabulary_of(de.Workspace.open(str(folder / "w"))).words
    is_there = array(folder, "view_file").any(axis=1)
    assert {word for word, known in zip(words, is_there, strict=True) if known} == {
        f"word{i}" for i in range(0, 200, 2)
    }
    assert array(folder, "vectors").any(axis=1).all()


@pytest.mark.parametrize(("view", "tolerance"), [("sides", 1e-3), ("narrow", 0.5), ("file", 0)])
def test_later_words_are_placed_where_the_fit_has_placed_them(
    folder: Path, view: str, tolerance: float
) -> None:
    """Words of the fit as if they came later, from the same text: singular vectors are the same up to convergence."""
    workspace = de.Workspace.open(str(folder / "w"))
    job, vocabulary = open_job(str(folder / "w")), vocabulary_of(workspace)
    later = slice(20, 40)
    new = NewWords(vocabulary, list(vocabulary.words[later]), [])
    found = new_in_view(job, workspace, view, tokens_of(workspace), new)
    expected = array(folder, f"view_{view}")[later]
    np.testing.assert_allclose(found, expected, atol=tolerance * np.abs(expected).max())


def test_contexts_of_later_words_are_renumbered(folder: Path, tmp_path: Path) -> None:
    """In a text with other words, in which the job's words have other numbers, the contexts are the same."""
    workspace = de.Workspace.open(str(folder / "w"))
    job, vocabulary = open_job(str(folder / "w")), vocabulary_of(workspace)
    (tmp_path / "t.txt").write_text("zorb word1 word2\n" * 9 + "word7 zorb word3\n" * 4 + "other words\n")
    tokens = de.read_corpus(str(tmp_path / "t.txt"), tokenizer=de.Tokenizer(numbers=True)).tokenize(
        str(tmp_path / "tokens")
    )
    counted = de.build_vocabulary(tokens, min_count=1)
    found = new_in_view(job, workspace, "places", tokens, NewWords(counted, ["zorb"], []))
    n = len(vocabulary)
    contexts = np.zeros((1, 2 * n))
    one, two, three, seven = vocabulary.index(["word1", "word2", "word3", "word7"])
    contexts[0, [one, two, three, n + seven]] = [9, 9, 4, 4]
    totals = np.asarray(workspace.table("view_places_totals")["n_pairs"])
    weighted = de.ppmi(csr_array(contexts), column_totals=totals, context_smoothing=0.75).toarray()
    np.testing.assert_allclose(found, weighted @ array(folder, "view_places_axes"), atol=1e-4)


def test_new_words_are_joined_as_those_of_the_job(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "t.txt").write_text("zorb word1 word2 word3\nword5 zorb word1 word2\n" * 30)
    target = tmp_path / "all.safetensors"
    succeed("infer", folder / "w", tmp_path / "t.txt", "--to", target, "--min-count", "1")
    enlarged = de.WordVectors.load(str(target))
    assert enlarged.words[-1] == "zorb"
    np.testing.assert_array_equal(enlarged.vectors[:-1], array(folder, "vectors"))
    lengths = [np.linalg.norm(part) for part in np.split(enlarged["zorb"], np.cumsum([4, 5, 3, 4]))]
    np.testing.assert_allclose(lengths, [1, 0.7, 0.4, 0.7, 0], atol=1e-5)  # the file does not know it


def test_principal_components_keep_the_cosines_that_they_can(own: Path) -> None:
    whole = array(own, "vectors").astype(float)
    succeed("run", own / "job.toml", "--replace", "--set", "join.n_components=12")
    found = array(own, "vectors").astype(float)
    left, values, _ = np.linalg.svd(whole, full_matrices=False)
    expected = left[:, :12] * values[:12]
    np.testing.assert_allclose(found @ found.T, expected @ expected.T, atol=1e-4)
    (own / "t.txt").write_text("zorb word1 word2 word3\n" * 30)
    succeed("infer", own / "w", own / "t.txt", "--to", own / "all.txt", "--min-count", "1")
    assert de.WordVectors.load(str(own / "all.txt")).vectors.shape[1] == 12
    # What explain shows are the parts of a cosine before components were left out, and it says so.
    done = succeed("explain", own / "w", "word2", "word4")
    assert "of all 19 components, of which [join] n_components keeps 12" in " ".join(done.output.split())


def test_explain_says_which_view_makes_two_words_near(folder: Path, tmp_path: Path) -> None:
    succeed("explain", folder / "w", "word2", "word4", "--json", tmp_path / "found.json")
    record = json.loads((tmp_path / "found.json").read_text())
    rows = record["tables"]["views"]
    vectors = array(folder, "vectors").astype(float)
    pair = vectors[vocabulary_of(de.Workspace.open(str(folder / "w"))).index(["word2", "word4"])]
    cosine = pair[0] @ pair[1] / np.prod(np.linalg.norm(pair, axis=1))
    assert [row["view"] for row in rows] == ["psdvec", "sides", "places", "narrow", "file", "joined"]
    assert rows[-1]["part"] == pytest.approx(cosine, abs=1e-5)
    largest = max(rows[:-1], key=lambda row: row["part"])["view"]
    assert any(f"{largest} makes the words nearest" in sentence for sentence in record["sentences"])


def test_a_weight_is_changed_without_counting_again(own: Path) -> None:
    done = succeed("run", own / "job.toml", "--replace", "--set", "views.sides.weight=0.3")
    assert "view_sides_counts" not in done.output.replace("done before", "")
    assert np.linalg.norm(array(own, "vectors")[0, 4:9]) == pytest.approx(0.3, abs=1e-5)


def test_a_view_may_have_a_regularization_of_its_own(own: Path) -> None:
    """The n-grams of the words are one map, of which the components of each view have their own lambda."""
    common = ("--replace", "--until", "vectors", "--set", "subwords.enabled=true")
    succeed("run", own / "job.toml", *common)
    shared = array(own, "subword_vectors").T
    done = succeed("run", own / "job.toml", *common, "--set", "views.sides.regularization=5.0")
    assert "joined" not in done.output.replace("done before", "")
    found = array(own, "subword_vectors").T
    n_psdvec, n_sides = 4, 5
    is_of_sides = np.zeros(shared.shape[1], bool)
    is_of_sides[n_psdvec : n_psdvec + n_sides] = True
    np.testing.assert_allclose(found[:, ~is_of_sides], shared[:, ~is_of_sides], atol=1e-2)
    lengths = np.linalg.norm(found, axis=0) / np.linalg.norm(shared, axis=0)
    assert (lengths[is_of_sides] < 0.5).all()
    mixed = succeed(
        "run",
        own / "job.toml",
        *common,
        "--set",
        "views.sides.regularization=5.0",
        "--set",
        "join.n_components=6",
    )
    assert "has no effect: it needs a job without join.n_components" in mixed.output


@pytest.mark.parametrize(
    ("setting", "code", "message"),
    [
        ("views.sides.regularization=0.0", 2, "views.sides.regularization"),
        ("views.sides.regularization=0.1", 0, "has no effect: it needs subwords.enabled = true"),
        ("views.sides.weight=0.0", 2, "views.sides.weight"),
        ("views.sides.weight=nan", 2, "views.sides.weight"),
        ("views.sides.method=svd", 2, "'svd'"),
        ("views.Sides={method='ppmi'}", 2, "views.Sides"),
        (
            "views.narrow.subsample=1e-12",
            1,
            "views.narrow counts no pair of words: raise views.narrow.window",
        ),
        ("views.file.path=none.txt", 1, "none.txt"),
        ("views.file.window=2", 2, "window"),
        ("views.sides.n_components=1", 1, "one component"),
        ("join.n_components=100", 1, "n_components is 100"),
    ],
)
def test_a_wrong_view_is_one_sentence(own: Path, setting: str, code: int, message: str) -> None:
    done = run("run", own / "job.toml", "--replace", "--set", setting)
    assert done.exit_code == code, done.output
    assert message in done.output


def test_a_file_without_any_of_the_words_is_refused(own: Path) -> None:
    de.WordVectors(["a", "b"], np.eye(2, 3)).save(str(own / "other.txt"))
    done = run("run", own / "job.toml", "--replace", "--set", f"views.file.path={own / 'other.txt'}")
    assert done.exit_code == 1
    assert "views.file" in done.output
    assert "none of the 200 words of the vocabulary" in done.output


def test_the_report_shows_the_neighbors_of_words_in_each_view(folder: Path) -> None:
    """Each row is one view: its own nearest words by the directions that are joined."""
    job, workspace = open_job(str(folder / "job.toml")), de.Workspace.open(str(folder / "w"))
    words = [f"word{i}" for i in (4, 7)]
    rows = view_neighbors(job, workspace, words)
    assert [(row["view"], row["components"], row["weight"]) for row in rows[1:]] == [
        ("sides", 5, 0.7),
        ("places", 3, 0.4),
        ("narrow", 4, 0.7),
        ("file", 3, 0.5),
    ]
    known = vocabulary_of(workspace).words
    for row in rows[1:]:
        found = directions(array(folder, f"view_{row['view']}"))
        cosines = found @ found[known.index("word4")]
        cosines[known.index("word4")] = -2
        assert row["word4"] == ", ".join(known[i] for i in np.argsort(-cosines, kind="stable")[:5])
        assert row["words"] == int(found.any(axis=1).sum())
    assert rows[2]["made_of"] == "counts: window 2, left, flat"
    assert (rows[4]["made_of"], rows[4]["word7"]) == ("finished vectors", None)
    shown = page(job, workspace).replace("<wbr>", "")
    assert "Views</h2>" in shown
    assert "counts: window 1" in shown
