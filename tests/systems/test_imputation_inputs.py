"""The imputation job on tables of its own: prices with a gap, the real prices, and as many names as show its memory."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import distembed as de
from distembed.job.load import load_job
from distembed.job.plan import Plan, plan_job
from distembed.plan import RESERVED_BYTES
from tests.commands import by_a_new_interpreter, changes, made, run, succeed
from tests.small_jobs.imputation import JOB, write
from tests.systems.test_imputation_job import JOBS


def test_the_names_are_given_away_with_where_they_come_from(tmp_path):
    folder = tmp_path / "input"
    folder.mkdir()
    prices = ["date,a,b,c,gone"] + [
        f"2020-01-{day:02d},{1 + day % 3},{1 + day % 4},{1 + day % 5},{'1.5' if day > 1 else ''}"
        for day in range(1, 20)
    ]
    (folder / "prices.csv").write_text("\n".join(prices) + "\n")
    de.WordVectors(["a", "elsewhere"], np.eye(2, 5)).save(folder / "known.txt")
    text = JOB.replace('label_column = "kind"\n', "").replace("domain.csv", "prices.csv")
    text = text.replace("[known]", 'transform = "return_correlation"\n[known]').replace("= 4", "= 1")
    (folder / "job.toml").write_text(text)
    succeed("run", folder / "job.toml")
    done = run("export", folder / "job.toml", "--to", tmp_path / "names.parquet")
    assert done.output.startswith("4 names: 1 known, 2 imputed, 1 left out; vectors of 5 dimensions in ")
    rows = pq.read_table(tmp_path / "names.parquet").to_pylist()
    origins = {row["name"]: row["origin"] for row in rows}
    assert origins == {"a": "known", "b": "imputed", "c": "imputed", "gone": "left out"}
    assert [row["vector"] is None for row in rows] == [False, False, False, True]
    assert rows[3]["reason"] == "a price is missing or not positive"
    assert rows[0]["vector"] == [1, 0, 0, 0, 0]
    assert (
        "'gone' was left out of the table: a price is missing" in run("explain", folder / "w", "gone").output
    )
    succeed("export", folder / "job.toml", "--to", tmp_path / "names.npy")
    assert np.isnan(np.load(tmp_path / "names.npy")).all(axis=1).tolist() == [False, False, False, True]


def test_a_table_in_which_most_names_are_equal_is_judged(tmp_path):
    """45 of the 60 names have the same category, so that the middle one of all distances is 0."""
    write(tmp_path)
    rows = [f"name {i}," + ("1,0,0" if i % 4 else "0,1,0" if i % 8 else "0,0,1") for i in range(60)]
    (tmp_path / "domain.csv").write_text("\n".join(["name,a,b,c", *rows]) + "\n")
    (tmp_path / "job.toml").write_text(JOB.replace('label_column = "kind"\n', ""))
    found = made(tmp_path / "job.toml", tmp_path / "w", until="hold_out").table("hold_out").to_pylist()
    assert np.isfinite([row["cosine"] for row in found]).all()


def test_the_job_on_the_real_prices(shared, tmp_path):
    folder = shared / "data" / "lsi"
    settings = {
        "domain.path": folder / "sp500_close_2015_2018.csv.xz",
        "domain.names": folder / "sp500_token.csv",
        "known.path": folder / "googleMat.csv.xz",
    }
    words = changes(settings | {"evaluation.n_folds": 2, "report.n_map_words": 20})
    done = succeed("run", JOBS / "imputation_paper.toml", "--workspace", tmp_path / "w", *words)
    assert "480 names: 117 matched a known vector, 363 were imputed; 4 more were left out" in done.output
    assert "Boston_Scientific: Baxter" in done.output


def job_of_names(folder: Path, n_names: int) -> Path:
    """Write a job on random names, a fifth of them known."""
    folder.mkdir()
    rng = np.random.default_rng(0)
    names, n_known = np.array([f"n{i}" for i in range(n_names)]), n_names // 5
    columns = {f"x{i}": rng.standard_normal(n_names).astype(np.float32) for i in range(300)}
    pq.write_table(pa.table({"name": names, **columns}), folder / "domain.parquet")
    known = rng.standard_normal((n_known, 200)).astype(np.float32)
    de.WordVectors(names[:n_known].tolist(), known).save(folder / "known.safetensors")
    text = JOB.replace("domain.csv", "domain.parquet").replace("known.txt", "known.safetensors")
    (folder / "job.toml").write_text(text.replace('label_column = "kind"\n', ""))
    return folder / "job.toml"


def peaks_and_plan(job: Path) -> tuple[dict[str, int], Plan]:
    """Return the peak resident bytes of each stage of a job, run in a process of its own, and its plan."""
    done = by_a_new_interpreter("run", str(job), "--until", "hold_out")
    assert done.returncode == 0, done.stdout + done.stderr
    stages = de.Workspace.open(job.parent / "w").stages().items()
    return {name: stage.facts["peak_process_bytes"] for name, stage in stages}, plan_job(load_job(job))


@pytest.mark.slow  # it measures two runs in interpreters of their own, one of 4,000 names
def test_the_plan_bounds_the_measured_memory_closely(tmp_path):
    """The libraries, for which the plan allows much, are in both processes: what many names take more is compared."""
    compiled = run("run", job_of_names(tmp_path / "compiled", 100), "--until", "hold_out")
    assert compiled.exit_code == 0, compiled.output  # a process that compiles takes a hundred megabytes more
    few, _ = peaks_and_plan(job_of_names(tmp_path / "few", 100))
    many, plan = peaks_and_plan(job_of_names(tmp_path / "many", 4000))
    measured, planned = max(many.values()), max(stage.process_bytes(2) for stage in plan.stages.values())
    assert measured <= planned <= 2.3 * measured, (measured >> 20, planned >> 20)
    for name in ("graph", "hold_out"):  # the largest; on a busy machine a peak may be missed
        taken, planned = many[name] - few[name], plan.stages[name].process_bytes(2) - RESERVED_BYTES
        assert taken <= planned, (name, taken >> 20, planned >> 20)
