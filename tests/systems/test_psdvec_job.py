"""The main job on a real dump: what it prints, that it is idempotent, and that its bits do not depend on workers."""

from __future__ import annotations

import json
import random
import webbrowser
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import pytest
import zarr

import distembed as de
from distembed import display
from distembed.job.load import load_job
from distembed.job.model import JobError
from distembed.job.plan import Plan, plan_job
from distembed.job.run import run_stages
from distembed.job.status import status_record, status_text, verify_job
from distembed.linalg.operators import whole_csr
from distembed.stages.outputs import EVALUATION
from distembed.stages.words import shown_scores
from distembed.storage.stage import Stage
from distembed.storage.workspace import Workspace
from distembed.systems.psdvec import views
from tests.commands import forget_stage, made, run, succeed
from tests.kept_states import KilledError

JOBS = Path(__file__).resolve().parents[2] / "jobs"


def test_a_run_ends_with_ten_scores_neighbors_and_the_report_which_opens_in_a_browser(finished, monkeypatch):
    workspace, _, output = finished
    page, shown = workspace / "report" / "index.html", list[str]()
    assert [text for text in ("wordsim353", "music:", str(page)) if text not in output] == []
    assert "<svg" in page.read_text(encoding="utf-8")
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


def test_evaluate_prints_a_table(finished, tmp_path):
    target, scores = tmp_path / "vectors.parquet", tmp_path / "scores.json"
    succeed("export", finished[0], "--to", target)
    done = succeed("evaluate", target, "--sets", "{gensim}/test/test_data/wordsim353.tsv", "--to", scores)
    assert "wordsim353" in done.stdout
    (score,) = json.loads(scores.read_text())["tables"]["scores"]
    assert score["set"] == "wordsim353"
    assert score["low"] < score["value"] < score["high"]


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


def test_the_paper_s_job_runs_on_a_file_of_the_user(tmp_path):
    draw = np.random.default_rng(0).zipf(1.4, (3000, 20)) % 300
    (tmp_path / "text.txt").write_text(
        "\n".join(" ".join(chr(97 + w % 26) + chr(97 + w // 26) for w in row) for row in draw)
    )
    settings = (f"corpus.paths=['{tmp_path / 'text.txt'}']", "vocabulary.min_count=5", "psdvec.n_components=10",
                "psdvec.n_core=50", "psdvec.bands=[50,50,50]")  # fmt: skip
    paper = load_job(JOBS / "psdvec_paper.toml", workspace=str(tmp_path / "w"), settings=settings)
    options = paper.psdvec
    assert (options.uniform_weight, options.smoothing) == (0.0, 0.02)
    assert tuple(plan_job(paper).stages) == (*run_stages(paper, until="vectors").ran, "evaluation", "report")
    assert de.Workspace.open(str(tmp_path / "w")).array("vectors").shape[0] > 150


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


def test_until_is_refused_for_the_chosen_stages_only(job, copy):
    stages = plan_job(load_job(job, workspace=str(copy))).stages
    settings = (f"resources.memory_limit={stages['evaluation'].process_bytes(1) - 1}",)
    small = load_job(job, workspace=str(copy), settings=settings)
    assert run_stages(small).ran == ()  # what is done takes no memory
    forget_stage(copy, "evaluation")
    assert run_stages(small, until="vectors").ran == ()
    with pytest.raises(MemoryError, match="stage evaluation"):
        run_stages(small)
    with pytest.raises(JobError, match="has no stage 'last'; its stages are tokens, vocabulary, documents"):
        run_stages(small, until="last")
