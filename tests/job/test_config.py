"""A job file is checked whole, each of its keys decides something, and what a user names is told once."""

from __future__ import annotations

import json.decoder
import os
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import pytest
import tomli_w

from distembed.files import BombError
from distembed.job.inputs import inputs_of
from distembed.job.keys import Key, keys_of, toml_value
from distembed.job.load import checked_job, load_job
from distembed.job.model import Job, JobError
from distembed.job.opening import job_of, load_vectors, open_job, parse_source
from distembed.job.registry import SYSTEMS
from distembed.job.run import run_stages
from distembed.job.stage import system_of
from distembed.storage.records import DamagedError
from distembed.storage.workspace import Workspace
from tests.commands import run, succeed

JOBS = Path(__file__).resolve().parents[2] / "jobs"
MINIMAL = '[job]\nworkspace = "w"\n[corpus]\npaths = ["a.txt"]\n'


def write(folder: Path, text: str) -> Path:
    path = folder / "job.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_every_job_we_ship_is_valid():
    assert all(load_job(path).job.workspace for path in JOBS.glob("*.toml"))


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


NO_JOBS = {
    MINIMAL.replace("paths", "pats"): "unknown key corpus.pats; did you mean paths?",
    MINIMAL.replace("[corpus]", "[corpuss]"): "unknown key corpuss; did you mean corpus?",
    MINIMAL.replace("a.txt", "{no_such_package}/a.txt"): "pip install",
    '[job]\nworkspace = "w"\n': "corpus is required and not there",
    "[job\n": "line 1",
    "a = " + "[" * 3000 + "]" * 3000: "inside each other too deeply",
    "a = " + "{b = " * 3000 + "1" + "}" * 3000: "inside each other too deeply",
}
"""The text of a job file, and a part of the sentence."""


@pytest.mark.parametrize("text", NO_JOBS, ids=NO_JOBS.values())
def test_a_text_that_is_no_job_is_refused(tmp_path, text):
    with pytest.raises(JobError) as refused:
        load_job(write(tmp_path, text))
    assert NO_JOBS[text] in str(refused.value)


def test_a_file_of_a_windows_editor_is_read_or_told_to_be_saved_as_utf8(tmp_path):
    marked = write(tmp_path, f"\ufeff{MINIMAL}")
    assert load_job(marked).corpus.paths == (str(tmp_path / "a.txt"),)
    marked.write_bytes(MINIMAL.replace("a.txt", "Über.txt").encode("cp1252"))
    with pytest.raises(
        JobError, match=r"job\.toml is not UTF-8: line 4 holds the byte 0xdc; save the file as UTF-8"
    ):
        load_job(marked)


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
    given = ("psdvec.n_components=7", "job.title=a name", "corpus.id_field=2016-08-24")
    job = load_job(path, settings=given, workspace="v")
    assert (job.psdvec.n_components, job.job.title, job.job.workspace) == (7, "a name", str(Path.cwd() / "v"))
    assert job.corpus.id_field == "2016-08-24"  # a day is a text, without quotes too
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
    slow = run("run", job, "--set", r"corpus.pattern='(a+)+b'")  # an expression may take years of a line
    assert 'corpus.pattern = "(a+)+b" is a regular expression of its author: if you trust it' in slow.output
    with pytest.raises(JobError, match="allow_code=True"):
        run_stages(load_job(job))
    assert not (tmp_path / "called").exists()
    assert not (tmp_path / "w").exists()
    allowed = run("run", job, "--allow-code")
    assert allowed.exit_code == 2
    assert "the tokenizer 'os:system' failed" in allowed.output
    assert (tmp_path / "called").exists()


def test_a_job_of_a_gigabyte_is_not_read(tmp_path):
    with (tmp_path / "job.toml").open("wb") as file:
        file.truncate(1 << 30)
    with pytest.raises(BombError, match=r"job\.toml has more than 16,777,216 bytes"):
        load_job(tmp_path / "job.toml")
    Workspace.create(tmp_path / "run", owner="test").close()
    (tmp_path / "job.toml").rename(tmp_path / "run/job.toml")
    with pytest.raises(DamagedError, match=r"job\.toml has more than 16,777,216 bytes"):
        open_job(str(tmp_path / "run"))


LEAST = dict.fromkeys(("comparison", "psdvec", "topics"), "[corpus]\npaths = ['text']") | {
    "imputation": "[domain]\npath = 'd.csv'\n[known]\npath = 'k.txt'",
    "transfer": "[collections.first]\npaths = ['a.jsonl']\n[collections.second]\npaths = ['b.jsonl']",
    "wordspaces": "[corpus]\npaths = ['text']\n[recipes.a]\nof = 'contexts'\nmethod = 'ppmi'",
}
"""The least job of each system, after its section `[job]`."""


def least_job(system: str, *settings: str) -> Job:
    text = f"[job]\nsystem = '{system}'\nworkspace = 'w'\n{LEAST[system]}\n"
    return checked_job(text, name="job.toml", folder=Path(), settings=settings)


def parameters_of(job: Job) -> dict[str, Any]:
    return {spec.name: spec.parameters(job) for spec in system_of(job).stages(job)}


REFUSED = {
    "comparison": {
        "parts.column='year' parts.bins=['1900'] parts.every=10": "bins and every both divide the dates: give one of",
        "psdvec.ridge=0": "psdvec.ridge = 0 is not allowed: ... greater than 0",
        "comparison.groups=3": "groups = 3 is not allowed: ... greater than or equal to 4",
    },
    "imputation": {
        "domain.thousands='.'": 'domain: decimal and thousands are both ".": set decimal = ","',
        "domain.max_missing=0.5": "unknown key domain.max_missing; ... methods with it are return_correlation",
    },
    "psdvec": {
        "psdvec=3": "not of the form section.key",
        "corpus.paths.0=b.txt": "corpus.paths is no section; set all of corpus.paths",
        "psdvec.random_state=-1": "psdvec.random_state = -1 is not allowed",
        "psdvec.ridge=[2,4]": "ridge has 2 values and bands has 1 size; give one ridge",
        "psdvec.bands=[10,20]": "and bands has 2 sizes; give one ridge",
        "job.system=nets": "job.system = 'nets' is not allowed: there are psdvec,",
        # values that would stall, and places that are not written
        "psdvec.n_iter=999999999": "n_iter = 999999999 is not allowed: ... less than or equal to 10000",
        "counting.window=10000000": "window = 10000000 is not allowed: ... less than or equal to 10000",
        "corpus.partition_bytes=1": "partition_bytes = 1 is not allowed: ... greater than or equal to 1024",
        "resources.block_memory=1": "block_memory = 1 is not allowed: ... greater than or equal to 1024",
        "job.workspace='{gensim}/x'": "workspace = '{gensim}/x': nothing is written there: name a folder",
        "job.workspace='http://localhost/x'": "workspace = 'http://localhost/x': nothing is written there",
        # without words of Python
        "corpus.lowercase='ja'": "corpus.lowercase = 'ja' is not allowed: input should be true or false",
        "report.words='king'": """'king' is not allowed: input should be a list, as ["a", "b"]""",
        "corpus.paths=[]": "corpus.paths = [] is not allowed: input should be a list that is not empty",
        **{f"resources.block_memory={value}": f"block_memory = {value}: this is no size: give a size"
           for value in ("['c']", "inf", "nan", "'1e400GiB'")},
        # keys of another section, or of none
        "psdvec.epochs=50": "unknown key psdvec.epochs; the keys here are n_components,",
        "psdvec.n_componets=50": "unknown key psdvec.n_componets; did you mean n_components?",
        "psdvec.window=5": "unknown key psdvec.window; did you mean counting.window?",
        "counting.min_count=5": "unknown key counting.min_count; did you mean vocabulary.min_count?",
        "vocabluary.min_count=5": "unknown key vocabluary; did you mean vocabulary?",
        "report.frobnicate=5": "unknown key report.frobnicate; the keys here are words,",
    },
    "topics": {
        "topics.method='nmf' topics.shift=3": "unknown key topics.shift; ... with it are consensus, semantic_nmf",
        "topics.method='orthogonal_nmf' topics.solver='hals'": "unknown key topics.solver; ... semantic_nmf, nmf",
        "topics.method='spherical_kmeans' topics.init='random'": "unknown key topics.init; ... nmf, orthogonal_nmf",
        "topics.method='nmff'": "'nmff' is not allowed: input should be 'consensus', 'semantic_nmf', ",
        "topics.method=['nmf']": "topics.method = ",
        "topics.compare_with=3": "topics.compare_with = 3 is not allowed: input should be a list",
        # a value of several kinds, by what every kind asks for
        "topics.n_topics=0": "topics.n_topics = 0 is not allowed: ... equal to 1",
        "corpus.text_field=['title',3]": "corpus.text_field.1 = 3 is not allowed: ... a valid string",
        "counting.window=0": "counting.window = 0 is not allowed: ... equal to 1",
        "topics.n_topics=true": "n_topics = true: ... no numbers: give an integer",
        "resources.block_memory=true": "resources.block_memory = true: ... : give a size, such as 64MiB",
        "vocabulary.lowercase=false": "unknown key vocabulary.lowercase; did you mean corpus.lowercase?",
        "topics.num_topics=5": "unknown key topics.num_topics; did you mean n_topics?",
        "topics.min_document=2": "unknown key topics.min_document; did you mean vocabulary.min_documents?",
    },
    "transfer": {
        "representation.kind='tf_idf' alignment.propagate=false representation.n_components=5":
            "unknown key representation.n_components; ... 'tf_idf' has no such key: methods with it are lsa",
        "representation.kind='tf_idf'": "set alignment.propagate = false, or representation.kind = 'lsa'",
    },
    "wordspaces": {
        "recipes.a.alpha=0.5": "unknown key recipes.a.alpha; ... 'ppmi' has no such key: methods with it are lpp",
    },
}  # fmt: skip
"""Settings of the least job of a system, and parts of the sentence that refuses the last of them."""


@pytest.mark.parametrize(
    ("system", "settings"), [(system, settings) for system in REFUSED for settings in REFUSED[system]]
)
def test_a_key_that_is_wrong_is_refused_when_a_job_is_loaded(system, settings):
    with pytest.raises(JobError) as refused:
        least_job(system, *settings.split())
    for part in REFUSED[system][settings].split(" ... "):
        assert part in str(refused.value)


TAKEN = [
    ("topics", ["topics.method='nmf'", "topics.compare_with=['semantic_nmf']"], "topics.shift=3"),
    ("topics", [], "topics.shift=3"),
    ("topics", ["topics.method='semantic_nmf'", "topics.compare_with=['nmf']"], "topics.solver='hals'"),
    ("imputation", ["domain.transform='return_correlation'"], "domain.max_missing=0.5"),
    ("psdvec", ["psdvec.ridge=[2, 4]", "psdvec.bands=[10, 20]"], "psdvec.n_iter=3"),
]
"""A system, settings, and a key of a method that they have, be it only to compare it."""


@pytest.mark.parametrize(("system", "settings", "key"), TAKEN)
def test_a_key_of_a_method_that_is_compared_is_taken_and_kept(system, settings, key):
    job = least_job(system, *settings, key)
    assert parameters_of(job) != parameters_of(least_job(system, *settings))
    text = tomli_w.dumps(job.model_dump(mode="json", exclude_none=True))
    assert checked_job(text, name="w", folder=Path()) == job  # the copy in a workspace


READ_ELSEWHERE = {"job", "resources", "plan", "paper.NAME", "recipes.NAME", "matrices.disk"}
"""Sections and keys that decide no content; a recipe refuses the keys that its method does not have."""
TABLES = "recipes.of_{0}={{of='{0}', method='counts'}}"
WITH = {
    "psdvec": [(
        "subwords.enabled=true", "counting.weighting='dynamic'", "counting.subsample=0.1", "sides.weight=0.5",
        "matrices.keep=['distances']", "psdvec.n_core=1000",
    )],
    "imputation": [("domain.transform='return_correlation'", "domain.names='n'", "matrices.keep=['distances']")],
    "transfer": [(
        "collections.first.features='f.csv'", "collections.second.features='g.csv'", "alignment.propagate=false",
        "collections.a.paths=['o.jsonl']",
    )],
    "topics": [("topics.graph_weight=2", "counting.weighting='dynamic'")],
    "wordspaces": [
        (
            *(TABLES.format(table) for table in ("contexts", "hal")),
            *(f"{table}.weighting='dynamic'" for table in ("contexts", "hal")),
            "recipes.b={of='contexts', method='ppmi'}", "recipes.c={of='b', method='lsa'}",
            "wordspaces.spaces=['of_contexts', 'of_hal', 'c']", "evaluation.sets=['s']",
        ),
        (
            "recipes.b={of='contexts', method='ppmi'}", "recipes.c={of='b', method='lsa'}",
            "wordspaces.vectors='c'", "matrices.keep=['distances']",
        ),
    ],
}  # fmt: skip
"""Settings under which keys have an effect that have none in the least job."""
VALUES = ("true", "false", "3", "2", "0.3", "0.6", "'x'", "['x']", "[3]", "[0.3]", "12345", "'64KiB'", "['nmf']",
          "['pmi']", "'c'")  # fmt: skip
"""Values of any type that a key may take, as TOML writes them."""


def choices_of(annotation: Any) -> Iterator[Any]:
    if get_origin(annotation) is Literal:
        yield from get_args(annotation)
    else:
        for inner in get_args(annotation):
            yield from choices_of(inner)


def decides(system: str, key: Key, settings: tuple[str, ...]) -> bool:
    """Return whether a key changes a parameter of a stage under some settings."""
    place = key.place.replace("NAME", "a")
    before = parameters_of(least_job(system, *settings))
    for value in ("['c']", *map(toml_value, choices_of(key.annotation)), *VALUES):
        try:
            job = least_job(system, *settings, f"{place}={value}")
        except JobError:
            continue
        if parameters_of(job) != before:
            return True
    return False


@pytest.mark.parametrize("system", list(SYSTEMS))
def test_every_key_decides_something(system):
    """A key that is no parameter of any stage, or not in the code of the report, is accepted and ignored."""
    folder = Path(str(import_module(SYSTEMS[system]).__file__)).parent
    source, choices = "".join(file.read_text() for file in folder.glob("*.py")), [(), *WITH.get(system, [])]
    for key in keys_of(system):
        if key.section == "report":
            assert f"report.{key.name}" in source or f'"{key.name}"' in source, key
        elif not READ_ELSEWHERE & {key.section, key.place} and len(list(choices_of(key.annotation))) != 1:
            assert any(decides(system, key, one) for one in choices), key


def test_a_source_is_told_once(tiny_once, tmp_path):
    """A job file stays typed, a workspace gives a recorded job, and a URL that is no workspace is a vector file."""
    vectors = str(tmp_path / "vectors.txt")
    typed, place = parse_source(str(tiny_once / "job.toml")), parse_source(str(tiny_once / "w"))
    assert isinstance(typed, Job)
    assert isinstance(place, Workspace)
    assert [job_of(one).is_recorded for one in (typed, place, job_of(place))] == [False, True, True]
    kept = load_vectors(place)
    kept.save(vectors)
    for source in (place, job_of(place), vectors):
        assert list(load_vectors(source, max_words=5).words) == list(kept.words[:5])
    for text in (vectors, "memory://nowhere/vectors.bin"):
        assert parse_source(text) == text
    for text, error, sentence in (
        (tmp_path, IsADirectoryError, "is a folder and no workspace"),
        (tmp_path / "job.toml", FileNotFoundError, "there is no job file or workspace"),
    ):
        with pytest.raises(error, match=sentence):
            parse_source(str(text))


def test_a_workspace_older_than_its_corpus_says_so(tiny):
    """With the job file, whose inputs are looked at; the workspace alone says nothing of them."""
    job, corpus = tiny / "job.toml", next(tiny.glob("text/*.txt"))
    before, old = corpus.read_bytes(), "is older than the job"
    assert old not in run("neighbors", job, "word1").stderr
    corpus.write_bytes(before + b"another line\n")
    for words in (("neighbors", job, "word1"), ("export", job, "--to", tiny / "out.csv")):
        told = run(*words).stderr
        assert f"{old}: tokens would be computed again because " in told, words
        assert corpus.name in told
        assert "distembed run makes it new" in told
    assert old not in run("neighbors", tiny / "w", "word1").stderr
    corpus.write_bytes(before)
    assert old not in run("neighbors", job, "word1").stderr


def test_status_is_short_and_tells_the_time_left_where_each_stage_has_run(tiny):
    job, changed = tiny / "job.toml", ("--set", "counting.window=2")
    short, long = run("status", job).output, run("status", job, "--verbose").output
    assert len(short.splitlines()) < len(long.splitlines())
    for internal in ("peak", "made with"):
        assert internal not in short
        assert internal in long
    succeed("run", job, *changed, "--replace")
    assert " left, as the last run took; " in run("status", job).output.splitlines()[0]
    succeed("run", job, "--workspace", tiny / "x", *changed, "--until", "cooccurrence")
    told = run("status", job, "--workspace", tiny / "x").output.splitlines()[0]
    assert ", and what is outdated took " in told
    assert " left, " not in told
