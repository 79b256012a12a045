"""Matrices that a job keeps: in every system planned, stored within the plan, right, and opened again."""

from __future__ import annotations

import re
import shutil
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

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
from tests import test_promises
from tests.commands import forget_stage, run, run_once, written_once

ROWS = {"psdvec": "vectors", "wordspaces": "vectors", "imputation": "domain"}
"""The rows between which a system keeps distances."""


class Kept(NamedTuple):
    """The small job of a system, with distances, that the tests of the promises run as well."""

    system: str
    file: Path
    workspace: Path
    settings: tuple[str, ...]

    def job(self, workspace: Path, *settings: str) -> Job:
        return load_job(self.file, workspace=str(workspace), settings=(*self.settings, *settings))

    def check(self, workspace: Path, metric: str) -> None:
        """Compare the distances in a workspace with plain ones."""
        found, rows = de.read_distances(workspace), de.Workspace.open(workspace).array(ROWS[self.system])
        assert (found.metric, found.values.dtype) == (metric, np.float32)
        expected = pairwise_distances(np.asarray(rows.compute(), np.float64), metric=metric)
        np.testing.assert_allclose(found.values.compute(), expected, rtol=1e-4, atol=1e-6)


@pytest.fixture(params=ROWS)
def kept(request, tmp_path_factory) -> Kept:
    settings = test_promises.SYSTEMS[request.param].settings
    job = written_once(tmp_path_factory, request.param, test_promises.SYSTEMS[request.param].write)
    words = (word for setting in settings for word in ("--set", setting))
    return Kept(request.param, job, run_once(tmp_path_factory, job, *words)[0], settings)


def test_distances_are_kept_as_planned_and_opened(kept):
    kept.check(kept.workspace, "euclidean" if kept.system == "imputation" else "cosine")
    workspace, found = de.Workspace.open(kept.workspace), de.read_distances(kept.workspace)
    assert found.names == workspace.table("vocabulary")["word"].to_pylist()[: len(found.values)]
    plan = plan_job(kept.job(kept.workspace))
    assert plan.stages["distances"].stored_bytes == found.values.nbytes
    files = (kept.workspace / "arrays.zarr" / "distances").rglob("*")
    heads, filled_up = 1024 * (1 + found.values.numblocks[0]), found.values.blocks[0].nbytes
    n_bytes = sum(file.stat().st_size for file in files if file.is_file())
    assert 0 < n_bytes <= found.values.nbytes + heads + filled_up
    took = workspace.stages()["distances"].facts["peak_process_bytes"]
    assert took <= plan.planned_bytes("distances")


def test_what_is_kept_changes_no_other_output(kept, tmp_path):
    copy = Path(shutil.copytree(kept.workspace, tmp_path / "w"))
    before = de.Workspace.open(copy).stages()
    done = run_stages(kept.job(copy, "matrices.keep=[]"), replace=True)
    assert kept.system == "imputation" or set(done.ran) <= {
        "report"
    }  # there, the graph is made of the distances
    for name, stage in de.Workspace.open(copy).stages().items():
        for output, record in stage.outputs.items():
            if not (record.spec.temporary or record.spec.kind in ("bytes", "page")):
                assert before[name].outputs[output].digest == record.digest, output
    forget_stage(copy, "distances")
    with pytest.raises(
        KeyError, match=r"keeps no distances: run its job with matrices.keep = \['distances'\]"
    ):
        de.read_distances(copy)
    run_stages(kept.job(copy), until="distances", replace=True)
    one, other = (de.Workspace.open(place).describe("distances").digest for place in (copy, kept.workspace))
    assert one == other


def test_distances_that_exceed_the_disk_are_refused_before_they_are_computed(kept, tmp_path):
    is_counted = kept.system == "imputation"
    n_bytes = de.read_distances(kept.workspace).values.nbytes
    disk = n_bytes - 1 if is_counted else n_bytes // 2
    settings = (*kept.settings, "matrices.keep=['distances']", f"matrices.disk={disk}")
    words = (kept.file, "--workspace", tmp_path / "w", *(word for one in settings for word in ("--set", one)))
    for command in ("plan", "run"):
        done = run(command, *words)
        assert done.exit_code == 2
        limit = "would keep distances, .* on disk, over the limit of .*: set matrices.disk = "
        assert re.search(limit, " ".join(done.output.split())), done.output
    begun = [*de.Workspace.open(tmp_path / "w").stages()] if (tmp_path / "w" / "manifest").exists() else []
    # a run of imputation reads its tables before it plans; elsewhere the rows are counted with the vocabulary
    assert begun in ([], ["join"]) if is_counted else begun == ["tokens", "vocabulary"]
    fits = kept.job(tmp_path / "x", "matrices.keep=['distances']", f"matrices.disk={n_bytes}")
    plan_job(fits).check()


@pytest.mark.parametrize("kept", ["psdvec"], indirect=True)
def test_another_metric_makes_the_distances_and_nothing_else_again(kept, tmp_path):
    copy = Path(shutil.copytree(kept.workspace, tmp_path / "w"))
    done = run_stages(kept.job(copy, "matrices.metric=euclidean"), until="distances", replace=True)
    assert done.ran == ("distances",)
    kept.check(copy, "euclidean")


def test_distances_need_memory_for_their_rows():
    kept = KeptRows(VECTORS, "vectors", "two words", lambda job: "cosine", "word", lambda job, dims: 300)
    job = SimpleNamespace(resources=SimpleNamespace(block_memory=2**26))
    plans = (kept.plan(job, Dimensions({"word": Dimension(n, n)})) for n in (10**4, 10**6))
    few, many = (plan.process_bytes(1) for plan in plans)
    assert few < 2 * 2**30 < many


@pytest.mark.parametrize(
    ("system", "sentence"),
    [
        ("wordspaces", "needs wordspaces.vectors, the space whose words are compared"),
        ("transfer", "unknown key matrices"),
    ],
)
def test_what_cannot_be_kept_is_refused(tmp_path, system, sentence):
    import_module(f"tests.small_jobs.{system}").write(tmp_path)
    text = (tmp_path / "job.toml").read_text()
    (tmp_path / "job.toml").write_text(text.replace('vectors = "lsa"\n', ""))
    with pytest.raises(JobError, match=sentence):
        load_job(tmp_path / "job.toml", settings=("matrices.keep=['distances']",))
