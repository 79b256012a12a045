"""A psdvec job whose core vectors are given: they stay, and all other words are solved against them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import distembed as de
from distembed.execution import compute
from distembed.job.opening import open_job
from distembed.stages.corpus import tokens_of, vocabulary_of
from distembed.stages.corpus_sections import counting_options
from distembed.storage.workspace import Workspace
from distembed.systems.psdvec.inference import NewWords, fitted_model, solved
from tests.commands import made, refusal, succeed


def vectors_of(workspace: Workspace) -> pd.DataFrame:
    words = workspace.table("vocabulary")["word"].to_pylist()
    return pd.DataFrame(workspace.array("vectors").compute(), index=words)


def save_core(folder: Path, vectors: pd.DataFrame, words: Sequence[str]) -> None:
    """Save the vectors of a core, of words that may be called otherwise."""
    rows = vectors[: len(words)].to_numpy(np.float32)
    de.WordVectors(list(words), rows).save(folder / "core.safetensors")


GIVEN = "psdvec.core_vectors=core.safetensors"


def test_given_core_vectors_stay_and_other_words_get_those_of_the_job_that_solved_both(tiny):
    split = vectors_of(made(tiny / "job.toml", tiny / "split", "psdvec.n_core=20", until="vectors"))
    core = split.index[:20]
    save_core(tiny, split, core)
    given = vectors_of(made(tiny / "job.toml", tiny / "given", GIVEN, until="vectors"))
    pd.testing.assert_frame_equal(given.loc[core], split.loc[core], check_exact=True)
    np.testing.assert_allclose(given, split, atol=1e-5)
    assert (np.linalg.norm(given, axis=1) > 0).all()
    again = ("run", tiny / "job.toml", "--workspace", tiny / "given", "--replace", "--set", GIVEN)
    told = refusal(*again, "--set", "psdvec.n_components=3")
    assert "have 4 components and psdvec.n_components is 3" in told
    save_core(tiny, split, [f"no {word}" for word in core])
    told = refusal(*again)
    assert "have none of the words of the core: are they of one language, and written" in told


def test_new_words_of_a_text_that_has_grown_are_solved_beside_the_vectors_of_a_workspace(tiny):
    before = vectors_of(Workspace.open(str(tiny / "w")))
    lines = [f"word{i} novel word{i + 1} modern word{i + 2}" for i in range(30)]
    (tiny / "text" / "b.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    given = ("--set", "psdvec.core_vectors=w", "--workspace", tiny / "grown", "--until", "vectors")
    assert "core: 40 words known, 2 words new" in succeed("run", tiny / "job.toml", *given).output
    after = vectors_of(Workspace.open(str(tiny / "grown")))
    pd.testing.assert_frame_equal(after.loc[before.index], before, check_exact=True)
    assert (np.linalg.norm(after.loc[["novel", "modern"]], axis=1) > 0).all()


def test_words_are_solved_anew_when_the_regression_or_the_given_vectors_change(tiny):
    """The words beside the given core are solved in the stage `core`, whose parameters hold all that it depends on."""
    first = vectors_of(Workspace.open(str(tiny / "w")))

    def solved(folder: str, *settings: str) -> str:
        return made(tiny / "job.toml", tiny / folder, GIVEN, *settings, until="vectors").digest(["vectors"])

    save_core(tiny, first, first.index[:20])
    found = [solved("given")]
    changed = (
        ["psdvec.ridge=50"],
        ["psdvec.uniform_weight=0.7"],
        ["psdvec.ridge=[2,50]", "psdvec.bands=[5,15]"],
    )
    found += [solved("given", *settings) for settings in changed]
    assert len(set(found)) == 4
    assert found[-1] == solved("fresh", *changed[-1])
    save_core(tiny, first / 2, first.index[:20])
    assert solved("given") == solved("fresh") != found[0]


# --- `distembed infer`: new words solved as the fit would have solved them, and one sentence a mistake --------------


Finished = tuple[Path, str, str]
TEXT = "the zorblat played the music of the city and the zorblat music was played in the city\n" * 60


def test_words_of_the_fit_are_solved_as_the_fit_has_solved_them(finished, workspace):
    """From the same texts, with the same vocabulary: the noncore words of the last band, by its ridge."""
    job, vocabulary = open_job(str(finished[0])), vocabulary_of(workspace)
    vectors, model = compute(workspace.array("vectors")), fitted_model(job, workspace)
    later = slice(300 + 200, 300 + 260)
    new = NewWords(vocabulary, vocabulary.words[later], [])
    found = solved(
        counting_options(job), model, tuple(vocabulary.words[: model.n_core_]), tokens_of(workspace), new
    )
    np.testing.assert_allclose(found, vectors[later], atol=1e-4 * np.abs(vectors[later]).max())


def test_new_words_follow_those_of_the_job_or_those_that_a_list_names(finished, tmp_path, workspace):
    (tmp_path / "t.txt").write_text(TEXT + "unheard of music in a city\n")
    infer = ("infer", finished[0], tmp_path / "t.txt", "--to", tmp_path / "all.safetensors")
    assert "1 new word" in succeed(*infer).output
    enlarged = de.WordVectors.load(tmp_path / "all.safetensors")
    assert enlarged.words[-1] == "zorblat"
    np.testing.assert_array_equal(enlarged.vectors[:-1], compute(workspace.array("vectors")))
    assert {"music", "played", "city"} & {word for word, _ in enlarged.most_similar("zorblat", n=20)}
    (tmp_path / "w.txt").write_text("unheard\nmusic\nabsent\n")
    done = succeed(*infer, "--words", tmp_path / "w.txt")
    assert "1 word (music) of the list had a vector already" in done.output
    assert "1 word (absent) of the list do not stand in the texts" in done.output
    assert de.WordVectors.load(tmp_path / "all.safetensors").words[-1] == "unheard"


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("the music of the city", "", "the texts hold no new word that stands there 40 times or more"),
        ("the music of zorblat", "", "40 times or more, of 1 word that it lacks"),
        ("qwertz zuiop " * 50, "", "the texts hold none of the 300 core words of the job"),
        ("the music of zorblat", "--words empty.txt", "empty.txt holds no word: give one per line"),
        (
            "the music of the city\nzorblat qwertz",
            "--min-count 1",
            "(qwertz, zorblat) stood near no core word",
        ),
    ],
)
def test_texts_without_anything_to_solve_are_refused(finished, tmp_path, monkeypatch, text, options, message):
    monkeypatch.chdir(tmp_path)
    Path("t.txt").write_text(text)
    Path("empty.txt").write_text("")
    assert message in refusal("infer", finished[0], "t.txt", "--to", "all.txt", *options.split())
    assert not Path("all.txt").exists()
    assert "missing.txt" in refusal("infer", finished[0], "missing.txt", "--to", "all.txt")
