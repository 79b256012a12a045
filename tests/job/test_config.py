"""A job file is checked whole, and a fault is named with the nearest remedy."""

from __future__ import annotations

import json.decoder
import os
import re
import sys
from pathlib import Path

import pytest

import distembed as de
from distembed.files import BombError
from distembed.job.inputs import inputs_of
from distembed.job.load import load_job
from distembed.job.model import JobError, Section, section_of
from distembed.job.opening import open_job
from distembed.job.run import run_stages
from distembed.job.status import spent_text
from distembed.options import options_of
from distembed.stages.corpus_sections import CountingSection, LeftCountingSection
from distembed.storage.records import DamagedError, ManifestError, StageFacts
from distembed.storage.workspace import Workspace
from distembed.systems.imputation.job import ImputationSection
from distembed.systems.psdvec.job import PSDVecSection
from distembed.systems.transfer.job import AlignmentSection
from distembed.systems.wordspaces.recipes import RECIPES
from tests.commands import run
from tests.processes import Process

JOBS = Path(__file__).resolve().parents[2] / "jobs"
MINIMAL = '[job]\nworkspace = "w"\n[corpus]\npaths = ["a.txt"]\n'


def write(folder: Path, text: str) -> Path:
    path = folder / "job.toml"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize("path", sorted(JOBS.glob("*.toml")), ids=lambda path: path.name)
def test_every_job_we_ship_is_valid(path):
    assert load_job(path).job.workspace


def test_every_path_in_a_job_file_is_relative_to_it(tmp_path, monkeypatch):
    system = MINIMAL.replace("[job]", '[job]\nsystem = "topics"') + '[semantic]\nworkspace = "other"\n'
    assert load_job(write(tmp_path, system)).semantic.workspace == str(tmp_path / "other")
    urls = MINIMAL.replace('"a.txt"', '"s3://bucket/a.txt", "/b.txt"')
    assert load_job(write(tmp_path, urls)).corpus.paths == ("s3://bucket/a.txt", "/b.txt")
    path = write(tmp_path, MINIMAL.replace('"w"', '"../w"'))
    (tmp_path / "elsewhere").mkdir()
    for folder in (tmp_path, tmp_path / "elsewhere"):
        monkeypatch.chdir(folder)
        job = load_job(os.path.relpath(path))
        assert job.corpus.paths == (str(tmp_path / "a.txt"),)
        assert job.job.workspace == str(tmp_path.parent / "w")
    assert load_job(path, workspace="v").job.workspace == str(tmp_path / "elsewhere" / "v")
    assert load_job(path, workspace="memory://v").job.workspace == "memory://v"


COMPARISON = MINIMAL.replace("[job]", '[job]\nsystem = "comparison"') + '[parts]\ncolumn = "year"\n'
TOPICS = MINIMAL.replace("[corpus]", 'system = "topics"\n[corpus]')
REFUSED = [
    (MINIMAL.replace("paths", "pats"), "", r"unknown key corpus\.pats; did you mean paths\?"),
    (MINIMAL.replace("[corpus]", "[corpuss]"), "", r"unknown key corpuss; did you mean corpus\?"),
    (MINIMAL.replace("a.txt", "{no_such_package}/a.txt"), "", "pip install"),
    ('[job]\nworkspace = "w"\n', "", r"corpus is required and not there"),
    ("[job\n", "", "line 1"),
    ("a = " + "[" * 3000 + "]" * 3000, "", "inside each other too deeply"),
    ("a = " + "{b = " * 3000 + "1" + "}" * 3000, "", "inside each other too deeply"),
    (MINIMAL, "psdvec=3", "not of the form section.key"),
    (MINIMAL, "psdvec.random_state=-1", r"psdvec\.random_state = -1 is not allowed"),
    (MINIMAL, "job.system=nets", r"job\.system = 'nets' is not allowed: there are psdvec,"),
    (COMPARISON + 'bins = ["1900"]\nevery = 10\n', "", "parts: bins and every both divide the dates: give one of them"),
    # a value of several kinds, by what every kind asks for
    (TOPICS, "topics.n_topics=0", r"topics\.n_topics = 0 is not allowed: .*equal to 1$"),
    (TOPICS, 'corpus.text_field=["title", 3]', r"corpus\.text_field\.1 = 3 is not allowed: .* a valid string$"),
    (TOPICS, "counting.window=0", r"counting\.window = 0 is not allowed: .*equal to 1$"),
    (TOPICS, "topics.n_topics=true", r'n_topics = true: .* no numbers: give an integer'),
    (TOPICS, "resources.block_memory=true", r"resources\.block_memory = true: .*: give a size, such as 64MiB$"),
    # values that would stall, and places that are not written
    (MINIMAL, "psdvec.n_iter=999999999", "n_iter = 999999999 is not allowed: .* less than or equal to 10000"),
    (MINIMAL, "counting.window=10000000", "window = 10000000 is not allowed: .* less than or equal to 10000"),
    (MINIMAL, "corpus.partition_bytes=1", "partition_bytes = 1 is not allowed: .* greater than or equal to 1024"),
    (MINIMAL, "job.workspace='{gensim}/x'", "workspace = '{gensim}/x': nothing is written there: name a folder"),
    (MINIMAL, "job.workspace='http://localhost/x'", "workspace = 'http://localhost/x': nothing is written there"),
    # without words of Python
    (MINIMAL, "corpus.lowercase='ja'", "corpus.lowercase = 'ja' is not allowed: input should be true or false"),
    (MINIMAL, "report.words='king'", r"""'king' is not allowed: input should be a list, as \["a", "b"\]"""),
    (MINIMAL, "corpus.paths=[]", r"corpus.paths = \[\] is not allowed: input should be a list that is not empty"),
]  # fmt: skip
"""A job file, a setting, and the sentence."""


@pytest.mark.parametrize(("text", "setting", "message"), REFUSED, ids=[message for *_, message in REFUSED])
def test_a_job_that_is_wrong_is_refused(tmp_path, text, setting, message):
    with pytest.raises(JobError, match=message):
        load_job(write(tmp_path, text), settings=(setting,) if setting else ())


def test_a_file_of_a_windows_editor_is_read_or_told_to_be_saved_as_utf8(tmp_path):
    marked = write(tmp_path, f"\ufeff{MINIMAL}")
    assert load_job(marked).corpus.paths == (str(tmp_path / "a.txt"),)
    marked.write_bytes(MINIMAL.replace("a.txt", "Über.txt").encode("cp1252"))
    with pytest.raises(
        JobError, match=r"job\.toml is not UTF-8: line 4 holds the byte 0xdc; save the file as UTF-8"
    ):
        load_job(marked)


def print_systems(path: str) -> None:
    """Print the systems whose jobs are imported, with those of a job file."""
    for name in [name for name in sys.modules if name.startswith("distembed.systems.")]:
        del sys.modules[name]
    load_job(path)
    print([name for name in sys.modules if re.fullmatch(r"distembed\.systems\.\w+\.job", name)])


def test_a_system_is_imported_when_a_job_asks_for_it(tmp_path):
    process = Process(str(write(tmp_path, MINIMAL)), program=print_systems)
    assert process.communicate(60)[0] == "['distembed.systems.psdvec.job']\n"


def test_what_a_stage_reads_is_found_in_its_parameters(tmp_path):
    text = MINIMAL + 'pattern = "json.decoder:tokenize"\n[evaluation]\nsets = ["a.tsv", "s3://b/c"]\n'
    job = load_job(write(tmp_path, text))
    code = str(Path(json.decoder.__file__))
    sets = {str(tmp_path / "a.tsv"), "s3://b/c"}
    assert inputs_of(job) == {
        str(tmp_path / "a.txt"): (str(tmp_path / "a.txt"),),
        "json.decoder:tokenize": (code,),
        **{name: (name,) for name in sets},
    }


def test_settings_override_one_key_and_sizes_are_written_as_people_write_them(tmp_path):
    path = write(tmp_path, MINIMAL + '[resources]\nblock_memory = "16MiB"\n')
    job = load_job(path, settings=("psdvec.n_components=7", "job.title=a name"), workspace="v")
    assert (job.psdvec.n_components, job.job.title, job.job.workspace) == (7, "a name", str(Path.cwd() / "v"))
    assert job.resources.block_memory == 16 * 2**20
    for written in (
        "",
        "[counting]",
        '[counting]\nweighting = "ramp"',
    ):  # in part, the system's defaults stay
        counting = load_job(write(tmp_path, MINIMAL + written)).counting
        assert (counting.window, counting.direction) == (3, "left")


def test_a_package_in_a_path_is_found_and_never_imported(tmp_path, monkeypatch):
    package = tmp_path / "package_of_a_stranger"
    (package / "inner").mkdir(parents=True)
    for folder in (package, package / "inner"):
        (folder / "__init__.py").write_text("raise SystemExit('imported')")
    monkeypatch.syspath_prepend(tmp_path)
    inside = write(tmp_path, MINIMAL.replace("a.txt", "{package_of_a_stranger}/inner/a.txt"))
    assert load_job(inside).corpus.paths == (str(package / "inner/a.txt"),)
    dotted = write(tmp_path, MINIMAL.replace("a.txt", "{package_of_a_stranger.inner}/a.txt"))
    with pytest.raises(JobError, match=r"write \{package_of_a_stranger\} and the folders below it"):
        load_job(dotted)


def test_a_job_calls_no_code_that_nobody_allowed(tmp_path):
    (tmp_path / "a.txt").write_text(5 * f"touch {tmp_path}/called\n")
    text = MINIMAL.replace('"w"', f'"{tmp_path}/w"') + 'pattern = "os:system"\nlowercase = false\n'
    job = write(tmp_path, text)
    planned = run("plan", job)
    assert 'corpus.pattern = "os:system" calls the Python function os:system' in planned.output
    refused = run("run", job)
    assert refused.exit_code == 2
    assert "give --allow-code" in refused.output
    with pytest.raises(JobError, match="allow_code=True"):
        run_stages(load_job(job))
    assert not (tmp_path / "called").exists()
    assert not (tmp_path / "w").exists()
    allowed = run("run", job, "--allow-code")
    assert allowed.exit_code == 2
    assert "the tokenizer 'os:system' failed" in allowed.output
    assert (tmp_path / "called").exists()


@pytest.mark.parametrize(
    ("section", "source", "left_out", "otherwise"),
    [
        (PSDVecSection, de.PSDVec, "", {"core_vectors": None, "components_removed": 0}),
        (ImputationSection, de.LatentSemanticImputation, "regressor", {"method": "graph"}),
        (AlignmentSection, de.FeaturePreservingEmbedding, "metric", {"regularization": 0.1, "propagate": True}),
        (CountingSection, de.count_cooccurrences, "block_memory scratch", {}),
        (LeftCountingSection, de.count_cooccurrences, "block_memory scratch", {"window": 3, "direction": "left"}),
        (RECIPES["lsa"], de.LSA, "", {"n_components": 300}),
        (RECIPES["lpp"], de.LocalityPreservingProjection, "", {"n_components": 300}),
    ],
)  # fmt: skip
def test_a_section_is_the_signature_of_its_estimator(section, source, left_out, otherwise):
    library = {name: one.default for name, one in options_of(source).items() if name not in left_out.split()}
    fields = {name: field.default for name, field in section.model_fields.items()}
    if section in RECIPES.values():  # which say what they are made of, and have some of the options
        assert {"n_components", "random_state"} < library.keys() & fields.keys()
        library, fields = (
            {name: one[name] for name in library.keys() & fields.keys()} for one in (library, fields)
        )
    else:
        assert all(section.model_fields[name].description for name in library)
    assert fields == library | otherwise


def test_an_option_that_no_source_has_is_refused_where_the_section_is_written():
    with pytest.raises(TypeError, match="no option n_componets of"):
        section_of(de.PSDVec, exclude={"n_componets": "misspelt"})(type("Empty", (Section,), {}))


def test_a_job_of_a_gigabyte_is_not_read(tmp_path):
    with (tmp_path / "job.toml").open("wb") as file:
        file.truncate(1 << 30)
    with pytest.raises(BombError, match=r"job\.toml has more than 16,777,216 bytes"):
        load_job(tmp_path / "job.toml")
    Workspace.create(tmp_path / "run", owner="test").close()
    (tmp_path / "job.toml").rename(tmp_path / "run/job.toml")
    with pytest.raises(DamagedError, match=r"job\.toml has more than 16,777,216 bytes"):
        open_job(str(tmp_path / "run"))


def test_a_stage_without_its_figures_is_shown_without_them():
    assert spent_text({}) == "         –   peak – per process, – together"
    with pytest.raises(ManifestError, match="lacks its fact 'n_words'"):
        StageFacts({"n_tokens": 1})["n_words"]
