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
from tests.commands import made, succeed

ON = "subwords.enabled=true"


@pytest.fixture(scope="module")
def learned(job, finished, tmp_path_factory):
    """Return the workspace of the small job with subwords."""
    copied = shutil.copytree(finished[0], tmp_path_factory.mktemp("subwords") / "w")
    made(job, copied, ON, until="vectors")
    return Path(copied)


@pytest.fixture
def own(learned, tmp_path):
    return Path(shutil.copytree(learned, tmp_path / "own"))


def test_the_table_is_that_of_the_estimator(learned):
    workspace = de.Workspace.open(str(learned))
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


def test_the_directions_of_the_spelling_are_added_with_their_weight(job, finished, learned, own):
    made(job, own, ON, "subwords.weight=0", until="vectors")
    plain, spelled, before = (de.Workspace.open(str(place)) for place in (own, learned, finished[0]))
    assert plain.digest(["vectors"]) == before.digest(["vectors"])
    assert plain.digest(["subwords"]) == spelled.digest(["subwords"])
    expected, found = read_vectors(plain).with_spelling(0.6), read_vectors(spelled)
    np.testing.assert_allclose(found.vectors, expected.vectors, atol=1e-6)
    np.testing.assert_allclose(found["musicalses"], expected["musicalses"], atol=1e-6)


def test_without_subwords_the_vectors_are_as_before(job, finished, own):
    """What an earlier run has learned is not taken for a part of this one."""
    before, after = de.Workspace.open(str(finished[0])), made(job, own, until="vectors")
    assert after.digest(["vectors"]) == before.digest(["vectors"])
    assert read_vectors(after).subwords is None


def test_a_core_of_all_words_has_no_noncore_vectors(job, own):
    """Where `n_core` is the size of the vocabulary its stage stores nothing, and the rest goes on."""
    n_words = len(de.Workspace.open(str(own)).table("vocabulary"))
    workspace = made(job, own, ON, f"psdvec.n_core={n_words}", until="vectors")
    assert workspace.stages()["noncore"].facts["n_noncore"] == 0
    assert len(workspace.array("vectors")) == len(workspace.array("core_vectors"))
    assert read_vectors(workspace).subwords is not None


def test_words_outside_the_vocabulary_are_scored(job, own, tmp_path):
    (tmp_path / "pairs.tsv").write_text("musicalest\tmusical\t3\nmusic\tmusicals\t2\nunmusical\tmusic\t1\n")
    composed = ("evaluation.unknown=subwords", f"evaluation.sets=['{tmp_path / 'pairs.tsv'}']")
    with pytest.raises(ValueError, match=r'= "subwords" needs vectors of n-grams: give subwords\.enabled'):
        load_job(job, settings=composed)
    (score,) = read_scores(made(job, own, ON, *composed, until="evaluation"), EVALUATION)
    assert score.composed
    assert score.known + score.composed == score.total == 3


def test_new_words_have_the_direction_of_their_spelling_too(finished, learned, tmp_path):
    (tmp_path / "t.txt").write_text("the zorblats played the music of the city\n" * 60)
    solved = []
    for workspace in (finished[0], learned):
        succeed("infer", workspace, tmp_path / "t.txt", "--to", tmp_path / "all.txt")
        solved.append(de.WordVectors.load(tmp_path / "all.txt")["zorblats"].astype(np.float64))
    table = read_subwords(de.Workspace.open(str(learned)))
    own, spelling = solved[0] - table.mean, table.compose(["zorblats"])[0] - table.mean
    weight = load_job(str(learned / "job.toml")).subwords.weight
    expected = own / np.linalg.norm(own) + weight * spelling / np.linalg.norm(spelling)
    np.testing.assert_allclose(solved[1], expected, atol=1e-4)
