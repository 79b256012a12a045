"""`distembed infer` of a psdvec job: new words solved as the fit would have solved them, and one sentence a mistake."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import distembed as de
from distembed.execution import compute
from distembed.job.opening import open_job
from distembed.stages.corpus import tokens_of, vocabulary_of
from distembed.stages.corpus_sections import counting_options
from distembed.systems.psdvec.inference import NewWords, fitted_model, solved
from tests.commands import run, succeed

Finished = tuple[Path, str, str]
TEXT = "the zorblat played the music of the city and the zorblat music was played in the city\n" * 60


def test_words_of_the_fit_are_solved_as_the_fit_has_solved_them(finished: Finished) -> None:
    """From the same texts, with the same vocabulary: the noncore words of the last band, by its ridge."""
    workspace = de.Workspace.open(finished[0])
    job, vocabulary = open_job(str(finished[0])), vocabulary_of(workspace)
    vectors, model = compute(workspace.array("vectors")), fitted_model(job, workspace)
    later = slice(300 + 200, 300 + 260)
    new = NewWords(vocabulary, vocabulary.words[later], [])
    found = solved(
        counting_options(job), model, tuple(vocabulary.words[: model.n_core_]), tokens_of(workspace), new
    )
    np.testing.assert_allclose(found, vectors[later], atol=1e-4 * np.abs(vectors[later]).max())


def test_new_words_follow_those_of_the_job(finished: Finished, tmp_path: Path) -> None:
    (tmp_path / "t.txt").write_text(TEXT + "unheard of\n")
    target = tmp_path / "all.safetensors"
    done = succeed("infer", finished[0], tmp_path / "t.txt", "--to", target)
    assert "1 new word" in done.output
    enlarged = de.WordVectors.load(target)
    workspace = de.Workspace.open(finished[0])
    own = compute(workspace.array("vectors"))
    assert enlarged.words[-1] == "zorblat"
    np.testing.assert_array_equal(enlarged.vectors[:-1], own)
    assert {"music", "played", "city"} & {word for word, _ in enlarged.most_similar("zorblat", n=20)}


def test_a_list_says_which_words_are_solved(finished: Finished, tmp_path: Path) -> None:
    (tmp_path / "t.txt").write_text(TEXT + "unheard of music in a city\n")
    (tmp_path / "w.txt").write_text("unheard\nmusic\nabsent\n")
    target = tmp_path / "all.txt"
    done = succeed("infer", finished[0], tmp_path / "t.txt", "--to", target, "--words", tmp_path / "w.txt")
    assert "1 word (music) of the list had a vector already" in done.output
    assert "1 word (absent) of the list do not stand in the texts" in done.output
    assert de.WordVectors.load(target).words[-1] == "unheard"


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("the music of the city", (), "the texts hold no new word that stands there 40 times or more"),
        ("the music of zorblat", (), "40 times or more, of 1 word that it lacks"),
        ("qwertz zuiop " * 50, (), "the texts hold none of the 300 core words of the job"),
        ("the music of zorblat", ("--words", "empty.txt"), "empty.txt holds no word: give one per line"),
        (
            "the music of the city\nzorblat qwertz",
            ("--min-count", "1"),
            "no new word stands near a core word: 2 words (qwertz, zorblat) stood near no core word",
        ),
    ],
)
def test_texts_without_anything_to_solve_are_refused(
    finished: Finished,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    text: str,
    options: tuple[str, ...],
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("t.txt").write_text(text)
    Path("empty.txt").write_text("")
    done = run("infer", finished[0], "t.txt", "--to", "all.txt", *options)
    assert done.exit_code == 1
    assert message in done.output
    assert not Path("all.txt").exists()


def test_a_missing_text_is_named(tmp_path: Path, finished: Finished) -> None:
    done = run("infer", finished[0], tmp_path / "missing.txt", "--to", tmp_path / "all.txt")
    assert done.exit_code == 1
    assert "missing.txt" in done.output
