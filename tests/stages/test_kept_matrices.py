"""Matrices that a job keeps: in every system planned, stored within the plan, right, and opened again."""

from __future__ import annotations

import re
import shutil
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.metrics import pairwise_distances

import distembed as de
from distembed.job.load import load_job
from distembed.job.model import Job, JobError
from distembed.job.plan import plan_job
from distembed.job.run import run_stages
from distembed.plan import Dimension, Dimensions
from distembed.stages.kept_matrices import KeptRows
from distembed.systems.psdvec.outputs import VECTORS
from tests.commands import run, run_once, written_once

ROWS = {"psdvec": "vectors", "wordspaces": "vectors", "imputation": "domain"}
"""The rows between which a system keeps distances."""

SETTINGS = {"wordspaces": ("wordspaces.spaces=['lsa']",)}

Finished = tuple[Path, Path, tuple[str, ...]]


def words(settings: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(word for setting in settings for word in ("--set", setting))


@pytest.fixture(params=ROWS)
def kept(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Finished]:
    """Return a system, and its small job with distances, run once."""
    settings = (*SETTINGS.get(request.param, ()), "matrices.keep=['distances']")
    write = import_module(f"tests.small_jobs.{request.param}").write
    job = written_once(tmp_path_factory, request.param, write)
    workspace, _ = run_once(tmp_path_factory, job, *words(settings))
    return request.param, (job, workspace, settings)


def plain(X: np.ndarray, metric: str) -> np.ndarray:
    return np.asarray(pairwise_distances(X.astype(np.float64), metric=metric))


def bytes_of(workspace: Path, name: str) -> int:
    return sum(
        file.stat().st_size for file in (workspace / "arrays.zarr" / name).rglob("*") if file.is_file()
    )


def test_distances_are_kept_as_planned_and_opened(kept: tuple[str, Finished]) -> None:
    system, (job, folder, settings) = kept
    workspace, found = de.Workspace.open(folder), de.read_distances(folder)
    rows = np.asarray(workspace.array(ROWS[system]).compute())
    assert found.metric == ("euclidean" if system == "imputation" else "cosine")
    np.testing.assert_allclose(found.values.compute(), plain(rows, found.metric), rtol=1e-5, atol=1e-6)
    assert found.names == workspace.table("vocabulary")["word"].to_pylist()[: len(rows)]
    assert found.values.dtype == np.float32
    plan = plan_job(load_job(job, workspace=str(folder), settings=settings))
    assert plan.stages["distances"].stored_bytes == found.values.nbytes
    heads, filled_up = 1024 * (1 + found.values.numblocks[0]), found.values.blocks[0].nbytes
    assert 0 < bytes_of(folder, "distances") <= plan.stages["distances"].stored_bytes + heads + filled_up
    took = workspace.stages()["distances"].facts["peak_process_bytes"]
    assert took <= plan.planned_bytes("distances")


def test_what_is_kept_changes_no_other_output(kept: tuple[str, Finished], tmp_path: Path) -> None:
    system, (job, folder, settings) = kept
    plainly = load_job(job, workspace=str(tmp_path / "w"), settings=settings[:-1])
    run_stages(plainly)
    ours, theirs = (de.Workspace.open(place).stages() for place in (folder, tmp_path / "w"))
    assert ours.keys() - theirs.keys() == {"distances"}
    for name, stage in theirs.items():
        for output, record in stage.outputs.items():
            if not (record.spec.temporary or record.spec.kind in ("bytes", "page")):
                assert ours[name].outputs[output].digest == record.digest, output
    with pytest.raises(
        KeyError, match=r"keeps no distances: run its job with matrices.keep = \['distances'\]"
    ):
        de.read_distances(tmp_path / "w")
    again = load_job(job, workspace=str(tmp_path / "w"), settings=settings)
    ran = run_stages(again).ran
    # the graph of names reads the distances, and all later stages rest on it
    assert ran[0] == "distances"
    assert system == "imputation" or len(ran) == 2
    kept_now = de.Workspace.open(tmp_path / "w").describe("distances")
    assert kept_now.digest == de.Workspace.open(folder).describe("distances").digest


def test_distances_that_exceed_the_disk_are_refused_before_they_are_computed(
    kept: tuple[str, Finished], tmp_path: Path
) -> None:
    system, (job, folder, settings) = kept
    is_counted = system == "imputation"
    n_bytes = de.read_distances(folder).values.nbytes
    disk = n_bytes - 1 if is_counted else n_bytes // 2
    whole = (job, "--workspace", tmp_path / "w", *words(settings), "--set", f"matrices.disk={disk}")
    planned, done = run("plan", *whole), run("run", *whole)
    limit = "would keep distances, .* on disk, over the limit of .*: set matrices.disk = "
    assert planned.exit_code == done.exit_code == 2
    if is_counted:
        begun = tmp_path / "w" / "manifest"  # a run of imputation reads its tables before it plans
        assert not begun.exists() or [*de.Workspace.open(tmp_path / "w").stages()] == ["join"]
    else:  # the rows are counted with the vocabulary
        assert [*de.Workspace.open(tmp_path / "w").stages()] == ["tokens", "vocabulary"]
    for output in (planned.output, done.stderr):
        assert re.search(limit, " ".join(output.split())), output
    fits = load_job(job, workspace=str(tmp_path / "x"), settings=(*settings, f"matrices.disk={n_bytes}"))
    plan_job(fits).check()


def test_distances_need_memory_for_their_rows() -> None:
    kept = KeptRows(VECTORS, "vectors", "two words", lambda job: "cosine", "word", lambda job, dims: 300)
    job = SimpleNamespace(resources=SimpleNamespace(block_memory=2**26))
    few, many = (
        kept.plan(job, Dimensions({"word": Dimension(n, n)})).process_bytes(1) for n in (10**4, 10**6)
    )
    assert few < 2 * 2**30 < many


def psdvec_job(tmp_path: Path, *settings: str) -> Job:
    import_module("tests.small_jobs.psdvec").write(tmp_path)
    return load_job(tmp_path / "job.toml", settings=settings)


@pytest.mark.parametrize("kept", ["psdvec"], indirect=True)
def test_words_are_compared_by_either_metric(kept: tuple[str, Finished], tmp_path: Path) -> None:
    """Another metric makes the distances, and nothing else, again."""
    _, (path, folder, settings) = kept
    copy = shutil.copytree(folder, tmp_path / "w")
    job = load_job(path, workspace=str(copy), settings=(*settings, "matrices.metric=euclidean"))
    assert len(run_stages(job, until="distances", replace=True).ran) == 1
    found = de.read_distances(copy)
    vectors = np.asarray(de.Workspace.open(copy).array("vectors").compute())
    assert found.metric == "euclidean"
    np.testing.assert_allclose(found.values.compute(), plain(vectors, "euclidean"), rtol=1e-4, atol=1e-6)


REFUSED = {
    "wordspaces": (
        "matrices.keep=['distances']",
        "wordspaces.vectors=''",
        "needs wordspaces.vectors, the space whose words are compared",
    ),
    "transfer": ("matrices.keep=['distances']", "pairs.share=0.1", "unknown key matrices"),
}


@pytest.mark.parametrize("system", REFUSED)
def test_what_cannot_be_kept_is_refused(tmp_path: Path, system: str) -> None:
    import_module(f"tests.small_jobs.{system}").write(tmp_path)
    text = (tmp_path / "job.toml").read_text()
    (tmp_path / "job.toml").write_text(text.replace('vectors = "lsa"\n', ""))
    *settings, sentence = REFUSED[system]
    with pytest.raises(JobError, match=sentence):
        load_job(tmp_path / "job.toml", settings=tuple(one for one in settings if not one.endswith("=''")))
