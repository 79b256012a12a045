"""A PSDVec job that learns subwords: the same bytes however it is run, and a vector for any string."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

import distembed as de
from distembed.job.load import load_job
from distembed.job.stage import read_subwords, read_vectors
from distembed.stages.outputs import EVALUATION
from distembed.stages.words import read_scores
from tests.commands import run, succeed
from tests.processes import distembed

ON = ("--set", "subwords.enabled=true")


def finish(job: Path, workspace: Path, *words: str) -> str:
    """Run the job to its vectors, and return the digest of the two stages."""
    done = distembed(
        "run", str(job), "--workspace", str(workspace), "--replace", "--until", "vectors", *words
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return de.Workspace.open(str(workspace)).digest(["subwords", "vectors"])


@pytest.fixture(scope="module")
def learned(
    job: Path, finished: tuple[Path, str, str], tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, str]:
    workspace = Path(shutil.copytree(finished[0], tmp_path_factory.mktemp("subwords") / "w"))
    return workspace, finish(job, workspace, *ON)


@pytest.fixture
def own(learned: tuple[Path, str], tmp_path: Path) -> Path:
    return Path(shutil.copytree(learned[0], tmp_path / "own"))


def test_the_table_is_that_of_the_estimator(learned: tuple[Path, str]) -> None:
    """The map learns from the words of the core and from those that were solved against it."""
    workspace = de.Workspace.open(str(learned[0]))
    vocabulary = workspace.table("vocabulary")
    solved = [workspace.array(name).compute() for name in ("core_vectors", "noncore_vectors")]
    model = de.SubwordMap().fit(vocabulary["word"].to_pylist(), np.concatenate(solved))
    table = read_vectors(workspace).subwords
    assert table is not None
    np.testing.assert_array_equal(table.ngrams, model.table_.ngrams)
    strings = ["musicals", "語"]
    np.testing.assert_allclose(table.compose(strings), model.transform(strings) - model.mean_, atol=1e-6)
    facts = workspace.stages()["subwords"].facts
    assert facts["n_ngrams"] == len(table) > 0
    assert len(solved[1]) > 0


def test_the_directions_of_the_spelling_are_added_with_their_weight(
    job: Path, finished: tuple[Path, str, str], learned: tuple[Path, str], own: Path
) -> None:
    finish(job, own, *ON, "--set", "subwords.weight=0")
    plain, spelled, before = (de.Workspace.open(str(place)) for place in (own, learned[0], finished[0]))
    assert plain.digest(["vectors"]) == before.digest(["vectors"])
    assert plain.digest(["subwords"]) == spelled.digest(["subwords"])
    expected, found = read_vectors(plain).with_spelling(0.6), read_vectors(spelled)
    np.testing.assert_allclose(found.vectors, expected.vectors, atol=1e-6)
    np.testing.assert_allclose(found["musicalses"], expected["musicalses"], atol=1e-6)


def test_without_subwords_the_vectors_are_as_before(
    job: Path, finished: tuple[Path, str, str], own: Path
) -> None:
    """What an earlier run has learned is not taken for a part of this one."""
    succeed("run", job, "--workspace", own, "--replace", "--until", "vectors")
    before, after = (de.Workspace.open(str(place)) for place in (finished[0], own))
    assert after.digest(["vectors"]) == before.digest(["vectors"])
    assert read_vectors(after).subwords is None


def test_a_core_of_all_words_has_no_noncore_vectors(job: Path, own: Path) -> None:
    """Where `n_core` is the size of the vocabulary its stage stores nothing, and the rest goes on."""
    workspace = de.Workspace.open(str(own))
    n_words = len(workspace.table("vocabulary"))
    finish(job, own, *ON, "--set", f"psdvec.n_core={n_words}")
    assert workspace.stages()["noncore"].facts["n_noncore"] == 0
    assert len(workspace.array("vectors")) == len(workspace.array("core_vectors"))
    assert read_vectors(workspace).subwords is not None


def test_lengths_that_fall_are_refused(job: Path, tmp_path: Path) -> None:
    done = run("plan", job, "--workspace", tmp_path / "w", *ON, "--set", "subwords.min_n=7")
    assert done.exit_code == 2
    assert "min_n is 7 and max_n is 6" in done.output


def test_words_outside_the_vocabulary_are_scored(job: Path, own: Path, tmp_path: Path) -> None:
    (tmp_path / "pairs.tsv").write_text("musicalest\tmusical\t3\nmusic\tmusicals\t2\nunmusical\tmusic\t1\n")
    sets = f'evaluation.sets=["{tmp_path / "pairs.tsv"}"]'
    composed = ("--set", "evaluation.unknown=subwords", "--set", sets)
    refused = run("plan", job, "--workspace", own, *composed)
    assert refused.exit_code == 2
    assert 'evaluation.unknown = "subwords" needs vectors of n-grams: give subwords.enabled' in refused.output
    succeed("run", job, "--workspace", own, "--replace", *ON, *composed)
    (score,) = read_scores(de.Workspace.open(str(own)), EVALUATION)
    assert score.composed
    assert score.known + score.composed == score.total == 3


def test_new_words_have_the_direction_of_their_spelling_too(
    finished: tuple[Path, str, str], learned: tuple[Path, str], tmp_path: Path
) -> None:
    """`infer` beside that of the job without subwords, with the formula of `WordVectors.with_spelling`."""
    (tmp_path / "t.txt").write_text("the zorblats played the music of the city\n" * 60)
    solved = []
    for workspace in (finished[0], learned[0]):
        succeed("infer", workspace, tmp_path / "t.txt", "--to", tmp_path / "all.txt")
        solved.append(de.WordVectors.load(tmp_path / "all.txt")["zorblats"].astype(np.float64))
    table = read_subwords(de.Workspace.open(str(learned[0])))
    own, spelling = solved[0] - table.mean, table.compose(["zorblats"])[0] - table.mean
    weight = load_job(str(learned[0] / "job.toml")).subwords.weight
    expected = own / np.linalg.norm(own) + weight * spelling / np.linalg.norm(spelling)
    np.testing.assert_allclose(solved[1], expected, atol=1e-4)
