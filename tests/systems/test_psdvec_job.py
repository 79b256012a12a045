"""The main job on a real dump, and tiny ones: what it prints and keeps, given cores, new words, and subwords."""

from __future__ import annotations

import json
import random
import shutil
import webbrowser
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import pandas as pd
import pytest
import zarr

import distembed as de
from distembed import display
from distembed.execution import compute
from distembed.job.load import load_job
from distembed.job.opening import open_job
from distembed.job.plan import Plan, plan_job
from distembed.job.run import run_stages
from distembed.job.stage import read_subwords, read_vectors
from distembed.job.status import status_record, status_text, verify_job
from distembed.linalg.operators import whole_csr
from distembed.stages.corpus import tokens_of, vocabulary_of
from distembed.stages.corpus_sections import counting_options
from distembed.stages.outputs import EVALUATION
from distembed.stages.words import read_scores, shown_scores
from distembed.storage.stage import Stage
from distembed.storage.workspace import Workspace
from distembed.systems.psdvec import views
from distembed.systems.psdvec.inference import NewWords, fitted_model, solved
from tests.commands import forget_stage, made, refusal, run, succeed
from tests.kept_states import KilledError


def test_a_run_ends_with_ten_scores_neighbors_and_the_report_which_opens_in_a_browser(
    finished, tmp_path, monkeypatch
):
    workspace, _, output = finished
    page, shown = workspace / "report" / "index.html", list[str]()
    assert [text for text in ("wordsim353", "music:", str(page)) if text not in output] == []
    assert "<svg" in page.read_text(encoding="utf-8")
    target, sets = tmp_path / "scores.json", "{gensim}/test/test_data/wordsim353.tsv"
    assert "wordsim353" in succeed("evaluate", workspace, "--sets", sets, "--to", target).stdout
    (score,) = json.loads(target.read_text())["tables"]["scores"]
    assert score["set"] == "wordsim353"
    assert score["low"] < score["value"] < score["high"]
    monkeypatch.setattr(webbrowser, "open", lambda url: shown.append(url) or True)
    assert succeed("report", workspace, "--open").output.strip() == str(page)
    assert shown == [page.as_uri()]
    monkeypatch.setattr(webbrowser, "open", lambda _url: False)
    done = run("report", "--open", workspace)
    assert (done.exit_code, "no browser can be started here" in done.output) == (1, True)
    job, opened = load_job(workspace / "job.toml"), Workspace.open(str(workspace))
    (score, *_) = shown_scores(opened, EVALUATION)
    monkeypatch.setattr(views, "shown_scores", lambda *_: [score] * 12)
    lines = views.page(job, opened).closing.splitlines()
    assert sum(line.startswith(score.set) for line in lines) == 10
    assert "2 more scores in the report:" in lines


def test_a_core_that_is_stopped_goes_on_from_its_last_round_and_its_states_may_lie_anywhere(
    job, finished, copy, monkeypatch
):
    """The states of the finished job were in memory beside the workspace, those of this one are read from it."""
    forget_stage(copy, "core")
    monkeypatch.setattr(Plan, "states_fit", lambda *_: False)
    stored: list[str] = []
    store, stopping = Stage.store, {"round-00002/vectors"}

    def store_or_stop(stage: Stage, name: str, array: da.Array, **about: Any) -> da.Array:
        if any(name.endswith(end) for end in stopping):
            raise KilledError(name)
        stored.append(name)
        return store(stage, name, array, **about)

    monkeypatch.setattr(Stage, "store", store_or_stop)
    with pytest.raises(KilledError):
        made(job, copy, until="core")
    assert any(name.endswith("round-00001/vectors") for name in stored)
    stored.clear()
    stopping.clear()
    made(job, copy, until="core")
    assert not any("round-00001" in name or "problem" in name for name in stored)
    vectors = [Workspace.open(str(place)).array("core_vectors").compute() for place in (finished[0], copy)]
    np.testing.assert_array_equal(*vectors)


def test_a_workspace_may_be_a_url(tiny):
    elsewhere = load_job(tiny / "job.toml", workspace="memory://a-job/w")
    assert len(run_stages(elsewhere).ran) == 8
    assert verify_job(elsewhere) == ([], Workspace.open(str(tiny / "w")).digest())
    assert run_stages(elsewhere).ran == ()
    done = run("report", "--open", "memory://a-job/w")
    assert (
        "a browser does not open memory:///a-job/w/report/index.html: copy it to this machine" in done.output
    )


def test_the_smoothed_pmi_is_kept_where_the_job_asks_for_it(job, finished, copy):
    """A constant for all pairs, and what the counted pairs have beside it; the rest of the job stays as it is."""
    asked = load_job(job, workspace=str(copy), settings=("matrices.keep=['pmi']",))
    with pytest.raises(KeyError, match=r"keeps no PMI: run its job with matrices.keep = \['pmi'\]"):
        de.read_pmi(copy)
    assert run_stages(asked).ran == ("pmi", "report")
    workspace, found = de.Workspace.open(copy), de.read_pmi(copy)
    x = whole_csr(workspace.array("cooccurrence")).toarray().astype(float)
    counts = workspace.table("vocabulary")["count"].to_numpy()
    u = counts / counts.sum()
    expected = np.log((0.98 * x / x.sum(axis=1, keepdims=True) + 0.02 * u) / u)
    np.testing.assert_allclose(
        found.constant + whole_csr(found.excess).toarray(), expected, rtol=1e-5, atol=1e-5
    )
    assert found.constant == workspace.describe("pmi").spec.constant == np.log(0.02)
    assert zarr.open_group(copy / "arrays.zarr" / "pmi", mode="r").attrs["constant"] == np.log(0.02)
    assert whole_csr(workspace.array("pmi")).nnz == np.count_nonzero(x)
    assert not workspace.verify()
    n_bytes = plan_job(asked).stages["pmi"].stored_bytes
    stored = sum(
        file.stat().st_size for file in (copy / "arrays.zarr" / "pmi").glob("0*/**/*") if file.is_file()
    )
    assert 0.5 * n_bytes < stored < 1.05 * n_bytes  # compressed
    text = status_text(status_record(asked), command="distembed run", verbose=True)
    assert f"; arrays: pmi {display.format_bytes(stored)}" in text


def test_a_core_is_planned_by_the_pairs_that_its_words_have(job, finished):
    """Its matrices have those of both orders; a bound by all pairs refused the job of the paper's size."""
    rows = np.asarray(Workspace.open(str(finished[0])).table("row_nonzeros")["n_nonzero"])
    for n in (60, len(rows) // 2):
        settings = (f"psdvec.n_core={n}", "psdvec.n_components=9")
        asked = load_job(job, workspace=str(finished[0]), settings=settings)
        pairs, stored = 48 * min(rows[:n].sum(), n**2), plan_job(asked).stages["core"].stored_bytes
        assert pairs <= stored <= pairs + 48 * n < 48 * rows.sum()


def test_the_options_of_the_job_are_those_of_the_estimator(tiny):
    """Each of them moves the vectors far more than the tolerance."""
    options = {"weight_cutoff": 2.0, "uniform_weight": 0.3}
    settings = tuple(f"psdvec.{name}={value}" for name, value in options.items())
    workspace = made(tiny / "job.toml", tiny / "w", *settings, until="vectors")
    model = de.PSDVec(**{**load_job(tiny / "job.toml").psdvec.options, **options})
    model.fit(workspace.array("cooccurrence"), workspace.table("vocabulary")["count"].to_numpy())
    expected, found = (
        rows.compute() @ rows.compute().T for rows in (model.vectors_, workspace.array("vectors"))
    )
    assert np.linalg.norm(found - expected) < 1e-4 * np.linalg.norm(expected)


def test_bad_records_are_counted_and_the_first_are_named_in_the_report(tmp_path):
    letters = "abcdefghij"
    texts = [" ".join(random.Random(seed).choices(letters, k=40)) for seed in range(20)]
    lines = [json.dumps({"text": text}) for text in texts]
    lines[3:3] = ['{"text": 7}', json.dumps({"text": "k" * 2000})]
    (tmp_path / "a.jsonl").write_text("\n".join(lines))
    path = tmp_path / "job.toml"
    path.write_text(
        f'[job]\nworkspace = "{tmp_path}/w"\n[corpus]\npaths = ["a.jsonl"]\nbad_records = "skip"\n'
        "[vocabulary]\nmin_count = 1\n[psdvec]\nn_components = 2\n[report]\nn_map_words = 10\n"
    )
    run_stages(load_job(path))
    workspace = de.Workspace.open(f"{tmp_path}/w")
    facts = workspace.stages()["tokens"].facts
    ((_, place, reason),) = facts["bad_records"]
    assert place == f"byte {sum(len(line) + 1 for line in lines[:3])}"
    assert reason.startswith('holds int in "text"')
    assert facts["n_bad_records"] == 1
    page = (tmp_path / "w/report/index.html").read_text()
    assert "1 bad records, 1 tokens of over 1,024 bytes" in page
    assert f"a.jsonl, {place}, holds int in" in page
    assert not (tmp_path / "w/scratch").exists()


def test_a_plan_that_does_not_fit_is_refused_for_the_chosen_stages_only(tiny):
    stages = plan_job(load_job(tiny / "job.toml")).stages
    settings = (f"resources.memory_limit={stages['evaluation'].process_bytes(1) - 1}",)
    small = load_job(tiny / "job.toml", settings=settings)
    assert run_stages(small).ran == ()  # what is done takes no memory
    forget_stage(tiny / "w", "evaluation")
    assert run_stages(small, until="vectors").ran == ()
    with pytest.raises(MemoryError, match="stage evaluation"):
        run_stages(small)


# --- given core vectors stay, and all other words are solved against them ------------------------------------------


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


def test_the_directions_of_the_spelling_are_added_with_their_weight_and_only_while_they_are_asked_for(
    job, finished, learned, own
):
    """What an earlier run has learned is not taken for a part of a later one without subwords."""
    made(job, own, ON, "subwords.weight=0", until="vectors")
    plain, spelled, before = (de.Workspace.open(str(place)) for place in (own, learned, finished[0]))
    assert plain.digest(["vectors"]) == before.digest(["vectors"])
    assert plain.digest(["subwords"]) == spelled.digest(["subwords"])
    expected, found = read_vectors(plain).with_spelling(0.6), read_vectors(spelled)
    np.testing.assert_allclose(found.vectors, expected.vectors, atol=1e-6)
    np.testing.assert_allclose(found["musicalses"], expected["musicalses"], atol=1e-6)
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
