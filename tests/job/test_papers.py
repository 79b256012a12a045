"""The preset of a paper is its job in jobs/, and figures of a paper stand above ours or nowhere."""

from __future__ import annotations

import re
import shutil
import tomllib
from pathlib import Path
from typing import Any

import pytest

import distembed as de
from distembed.job.load import load_job
from distembed.job.model import Job, JobError, PaperSection
from distembed.job.registry import SYSTEMS
from distembed.job.stage import system_named, system_of
from distembed.systems.imputation.stages import AMONG, VOTED
from distembed.views.report.sections import paper_tables
from tests.commands import run, run_once, succeed, written_once
from tests.job.test_start import inputs_for
from tests.small_jobs import imputation

JOBS = Path(__file__).resolve().parents[2] / "jobs"
PAPERS = {
    "psdvec": "psdvec_paper", "imputation": "imputation_paper", "wordspaces": "wordspaces_paper",
    "topics": "topics_paper", "transfer": "feature_preserving_paper",
}  # fmt: skip
OF_ONE_INPUT = {
    "job", "resources", "paper", "known", "collections", "corpus.paths", "corpus.layout", "corpus.id_field",
    "corpus.label_field", "domain.path", "domain.name_column", "domain.first", "domain.last", "domain.names",
    "domain.names_from", "domain.names_to", "domain.names_label", "evaluation.sets", "report.words",
    "report.n_neighbors", "report.n_map_words",
}  # fmt: skip
"""The sections and keys of a paper's job that say what it reads, what it is called, where it runs and what is shown."""


def flat(preset: Any) -> dict[str, Any]:
    return {f"{section}.{key}": value for section, table in preset.items() for key, value in table.items()}


@pytest.mark.parametrize("system", PAPERS)
def test_the_preset_is_the_job_of_the_paper_and_a_new_job_has_it_on_a_small_file_too(system, tmp_path):
    path, job = JOBS / f"{PAPERS[system]}.toml", tmp_path / "job.toml"
    tree = tomllib.loads(path.read_text())
    if system == "wordspaces":
        tree["recipes"] = {name: tree["recipes"][name] for name in load_job(path).needed()}
    wanted = {
        place: value
        for place, value in flat(tree).items()
        if not {place, place.partition(".")[0]} & OF_ONE_INPUT
    }
    assert flat(system_named(system).presets["paper"]) == wanted
    succeed("new", system, *inputs_for(system, tmp_path), "--preset", "paper", "--to", job)
    written = flat(tomllib.loads(job.read_text()))
    assert {place: written.get(place) for place in wanted} == wanted
    assert written.keys() & {"recipes.lsa"} == wanted.keys() & {"recipes.lsa"}


# --- figures ---------------------------------------------------------------------------------------------------------


def check_stages(job: Any) -> None:
    for spec in system_of(job).stages(job):
        spec.check(job)


@pytest.mark.parametrize("system", PAPERS)
def test_every_figure_of_a_paper_has_its_place_in_the_report(system, shared):
    pytest.importorskip("gensim", reason="SimLex-999 lies in its wheel")
    settings = (f"corpus.paths=['{__file__}']",) * (system == "psdvec")
    job = load_job(JOBS / f"{PAPERS[system]}.toml", settings=settings)
    assert job.paper
    check_stages(job)
    name, table = next(iter(job.paper.items()))
    job.paper[name] = table.model_copy(update={"rows": {"no such row": next(iter(table.rows.values()))}})
    told = rf"paper\.{name}\.rows: the report has no row 'no such row'; (it has|did you)"
    with pytest.raises(JobError, match=told):
        check_stages(job)


def test_a_measure_that_the_report_lacks_is_refused_unless_it_has_no_figure():
    text = (f"corpus.paths=['{__file__}']", "corpus.format='text'")
    other = "paper.table_2.columns=['NMI', 'ARI', 'nmi', 'ARI']"
    told = r"no column 'nmi'.*--set paper\.table_2\.rows=\{\} leaves the figures out"
    with pytest.raises(JobError, match=told):
        check_stages(load_job(JOBS / "topics_paper.toml", settings=(*text, other)))
    check_stages(load_job(JOBS / "topics_paper.toml", settings=(*text, "paper.table_2.rows={}")))
    with pytest.raises(ValueError, match=r"rows\.a has 1 figure for 2 columns: give one for each"):
        PaperSection(source="", columns=("x", "y"), rows={"a": (1.0,)})


FIGURES = """
[paper.table_1]
source = "somebody"
columns = ["{}", "{}"]
rows."{}" = [0.5, "worse"]
"""


@pytest.mark.parametrize("system", sorted({*SYSTEMS} - {*PAPERS}))
def test_a_system_without_a_paper_takes_no_figure(system, tmp_path):
    job = tmp_path / "job.toml"
    succeed("new", system, *inputs_for(system, tmp_path), "--to", job)
    job.write_text(job.read_text() + FIGURES.format("x", "y", "a"))
    refused = run("plan", job)
    assert refused.exit_code != 0
    assert "paper.table_1.rows: the report has no row 'a'; it has none" in refused.output


def text_of(html: str) -> str:
    return re.sub("<[^>]*>|^[^>]*>", "", html).strip()


def test_rows_of_a_paper_stand_above_ours():
    tasa = PaperSection(source="essays", columns=("x", "y"), rows={"LSA": (0.25, "best"), "VSM": (0.5, 0.75)})
    wiki = PaperSection(source="articles", columns=("y",), rows={"LSA": (1.0,)})
    ours = {"LSA": {"x": 0.125, "y": float("nan"), "z": 9.0}, "other": {"x": 3.0}}
    both, one, none = (
        Job.model_construct(paper=paper) for paper in ({"tasa": tasa, "wiki": wiki}, {"wiki": wiki}, {})
    )
    names: Any = {"rows": ("LSA", "VSM"), "columns": ("x", "y")}
    (section,) = paper_tables(both, ours, **names)
    rows = [[text_of(cell) for cell in row.split("<td")[1:]] for row in section.html("").split("<tr>")[2:]]
    assert rows == [
        ["LSA", "the paper, tasa", "0.250", "best"],
        ["LSA", "the paper, wiki", "–", "1.000"],
        ["LSA", "this job", "0.125", "–"],
    ]
    assert "tasa: essays. wiki: articles." in section.html("")
    assert paper_tables(none, ours, **names) == paper_tables(one, {}, **names) == []
    with pytest.raises(JobError, match="no column 'y'; it has x"):
        paper_tables(both, ours, rows=("LSA", "VSM"), columns=("x",))


def test_figures_that_are_added_later_are_drawn(tmp_path_factory, tmp_path):
    """Nothing is computed again for them."""
    job = written_once(tmp_path_factory, "imputation", imputation.write)
    shutil.copytree(run_once(tmp_path_factory, job)[0], tmp_path / "w")
    page, row = tmp_path / "w" / "report" / "index.html", VOTED.format("known and imputed vectors", "uniform")
    assert "The paper and this job" not in page.read_text()
    for name in ("job.toml", "domain.csv", "known.txt"):
        shutil.copy(job.parent / name, tmp_path)
    with (tmp_path / "job.toml").open("a") as file:
        file.write(FIGURES.format(AMONG.format(2), AMONG.format(5), row))
    assert de.run_job(tmp_path / "job.toml").ran == ("report",)
    assert "the paper, table 1" in text_of(page.read_text())
    assert "worse" in page.read_text()
    text = (tmp_path / "job.toml").read_text()
    (tmp_path / "job.toml").write_text(text.replace("uniform", "unifrom"))
    refused = run("run", tmp_path / "job.toml")
    assert refused.exit_code != 0
    assert f"did you mean {row}?" in refused.output
