"""A start: keys, a job file for own files, demos, and the presets and figures of papers."""

from __future__ import annotations

import gzip
import json
import random
import re
import shutil
import tomllib
from pathlib import Path
from typing import Any

import openpyxl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from distembed.demos import titles
from distembed.formats.tables import read_table, texts_of
from distembed.job import demos
from distembed.job.keys import as_markdown, as_text, keys_of
from distembed.job.load import load_job
from distembed.job.model import Job, JobError, PaperSection, Section
from distembed.job.new import look_at_table, look_at_texts, text_layout
from distembed.job.plan import plan_job
from distembed.job.registry import SYSTEMS
from distembed.job.stage import system_named, system_of
from distembed.systems.imputation.stages import AMONG, VOTED
from distembed.views.report.sections import paper_tables
from tests.commands import refusal, run, run_once, succeed, written_once
from tests.small_jobs import imputation

STORIES = "\n".join(f"story {number} tells of the sea and of the wind" for number in range(40)) + "\n"


@pytest.mark.parametrize("system", SYSTEMS)
def test_every_key_has_a_meaning_and_a_type_and_a_section_left_out_is_an_empty_one(system):
    keys = keys_of(system)
    assert [key.place for key in keys if not key.meaning or not key.kind] == []
    assert len({key.place for key in keys}) == len(keys)
    assert all(f"| `{key.name}` |" in as_markdown(system, keys) for key in keys)
    assert max(map(len, as_text(keys, width=80).splitlines())) <= 100
    for name, field in system_named(system).job.model_fields.items():
        kind = type(field.default)
        if issubclass(kind, Section) and not any(one.is_required() for one in kind.model_fields.values()):
            assert field.default == kind(), name


def test_keys_are_those_that_a_job_takes(tmp_path):
    for end in ("csv", "parquet"):
        assert run("keys", "psdvec", "--to", tmp_path / f"k.{end}").exit_code == 0
    assert "counting.window" not in run("keys", "psdvec", "--to", tmp_path / "k.json").output
    printed = json.loads((tmp_path / "k.json").read_text())["tables"]["keys"]
    found = {f"{row['section']}.{row['name']}": row for row in printed}
    assert found["psdvec.n_components"]["default"] == 100
    assert found["psdvec.n_components"]["kind"] == "an integer of 1 or more"
    assert found["counting.window"]["default"] == 3  # the section's, where the library has 5
    assert found["resources.block_memory"]["default"] == "64MiB"
    assert found["corpus.paths"]["required"]
    assert run("keys", "psdvecs").exit_code == 2


def inputs_for(system: str, folder: Path) -> list[Path]:
    """Write what a user has: texts, or a table and vectors."""
    (folder / "stories.txt").write_text(STORIES)
    (folder / "table.csv").write_text("revenue,company,employees\n1.5,Ant,3\n2.5,Bee,4\n3.5,Cow,5\n")
    (folder / "vectors.txt").write_text("2 2\nAnt 1 0\nBee 0 1\n")
    both = {"english": "the sea and the wind " * 3, "german": "die See und"}
    (folder / "both.jsonl").write_text("\n".join(json.dumps({"id": str(i), **both}) for i in range(20)))
    files = {"imputation": ["table.csv", "vectors.txt"], "transfer": ["both.jsonl"]}
    return [folder / name for name in files.get(system, ["stories.txt"])]


@pytest.mark.parametrize("system", SYSTEMS)
def test_a_new_job_for_a_users_file_is_planned_as_it_is(system, tmp_path):
    job = tmp_path / "jobs" / "mine.toml"
    job.parent.mkdir()
    words = ("new", system, *inputs_for(system, tmp_path), "--to", job)
    said = succeed(*words).output
    plan_job(load_job(job))
    text = job.read_text()
    assert all(f"# {line}\n" in text for line in said.splitlines()[:-1])
    stated = {f"{section}.{name}" for section, table in tomllib.loads(text).items() for name in table}
    assert {*system_named(system).job.first_keys} <= {key.place for key in keys_of(system)} & stated
    assert len([line for line in text.splitlines() if line and line[0] not in "#["]) <= 20
    assert run(*words).exit_code == 2
    assert job.read_text() == text
    if system not in PAPERS:
        job.write_text(text + FIGURES.format("x", "y", "a"))
        assert "paper.table_1.rows: the report has no row 'a'; it has none" in refusal("plan", job)


@pytest.mark.parametrize("system", SYSTEMS)
def test_a_demo_is_laid_out_and_planned(system, tmp_path):
    pytest.importorskip("gensim", reason="it carries the inputs: pip install 'distembed[demo]'")
    job = demos.lay_out(system, tmp_path / "a" / "demo")
    succeed("plan", job)
    assert load_job(job).job.workspace == str(job.parent / "workspace")
    job.write_text(job.read_text() + "# mine\n")
    assert demos.lay_out(system, job.parent).read_text().endswith("# mine\n")


@pytest.mark.parametrize(
    ("system", "until"), [("psdvec", "vectors"), ("wordspaces", "scores_lsa"), ("topics", "evaluation")]
)
def test_a_new_job_for_nine_titles_runs_though_they_have_fewer_words_than_components(system, until, tmp_path):
    succeed("new", system, titles(), "--to", tmp_path / "job.toml")
    succeed("run", tmp_path / "job.toml", "--until", until)


def test_a_new_job_for_the_folder_that_it_lies_in_reads_its_texts_alone(tmp_path, monkeypatch):
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts/a [1].txt").write_text(STORIES)
    monkeypatch.chdir(tmp_path / "texts")
    succeed("new", "psdvec", ".")
    job = tomllib.loads(Path("psdvec.toml").read_text())
    assert (job["job"]["title"], job["job"]["workspace"]) == ("psdvec: texts", "../psdvec-workspace")
    assert job["corpus"]["paths"] == ["**/*.txt"]
    assert "files: 1 text" in succeed("plan", "psdvec.toml").output


def test_what_of_a_folder_is_not_read_is_said_and_the_job_leaves_it_out(tmp_path):
    texts = tmp_path / "texts"
    texts.mkdir()
    for name, data in {"a.txt": "a text of words\n", ".notes": "x", "b.txt": "", "c.pdf": "%PDF-1.5"}.items():
        (texts / name).write_text(data)
    (texts / "d.txt").symlink_to(texts / "a.txt")
    (texts / "more").symlink_to(tmp_path)
    said = succeed("new", "psdvec", texts, "--to", tmp_path / "job.toml").output
    for part in (
        "files: 2 text, 32 B; 1 link", "left out: ",
        "1 more that cannot be read; 1 hidden file; the folder behind the link",
    ):  # fmt: skip
        assert part in said
    assert load_job(tmp_path / "job.toml").corpus.bad_records == "skip"
    succeed("run", tmp_path / "job.toml", "--until", "tokens")


def test_a_few_files_become_a_list_and_many_of_a_folder_a_glob(tmp_path):
    """A shell makes a list of names out of `*.txt`."""
    folder = tmp_path / "Meine Texte [1]"
    folder.mkdir()
    files = [folder / f"Text {number}.txt" for number in range(12)]
    for file in files:
        file.write_text(STORIES)
    files[0].write_text("")  # the first file may be an empty one

    def new(*texts: Path) -> Any:
        to = tmp_path / f"{len(texts)}.toml"
        succeed("new", "psdvec", *texts, "--to", to)
        return load_job(to)

    assert new(*files).corpus.paths == (str(tmp_path / "Meine Texte [[]1]" / "*.txt"),)
    assert [Path(path).name for path in new(*files[1:]).corpus.paths] == [file.name for file in files[1:]]
    assert '    "Meine Texte [1]/Text 11.txt",\n]' in (tmp_path / "11.toml").read_text()
    assert new(*files[1:6]).job.title == "psdvec: Text 1.txt, Text 2.txt, Text 3.txt and 2 more"


def test_the_size_of_all_files_decides_and_an_empty_one_is_left_out(tmp_path):
    words = [f"{first}{second}o" for first in "bcdfghklmnprstvw" for second in "aeiouybcdfghklmnprst"]
    for name, text in {"a": "", "b": "one story\n", "c": (" ".join(words) + "\n") * 6}.items():
        (tmp_path / f"{name}.txt").write_text(text)
    for name, files, least in (("all", "*.txt", 5), ("one", "b.txt", 1)):
        succeed("new", "psdvec", tmp_path / files, "--to", tmp_path / f"{name}.toml")
        assert load_job(tmp_path / f"{name}.toml").vocabulary.min_count == least


REFUSED = {
    "topics absent.txt": "matches no file",
    "topics a.txt": "holds binary data, not text",
    "topics cut.txt.gz": "cut.txt.gz cannot be read to its end",
    "topics survey.xlsx": "is a ZIP archive or an office document, not text: unpack it",
    "topics empty.txt": "empty.txt is empty",
    "topics": "topics reads 1 file, corpus.paths: give 1 and not 0, or type: distembed demo topics",
    "topics stories.txt --preset fast": "topics has no preset 'fast'; it has best, paper",
    "psdvec stories.txt --preset fasst": "psdvec has no preset 'fasst'; it has best, fast, paper",
    "imputation table.csv": "reads 2 files, domain.path, known.path",
    "transfer one.jsonl": "one.jsonl has no two fields of text: give one file for each of the two",
}
"""The words of a command, and a part of its sentence."""


def test_no_job_is_written_for_what_does_not_fit(tmp_path, monkeypatch):
    inputs_for("psdvec", tmp_path)
    workbook(tmp_path / "survey.xlsx")
    data = random.Random(0).randbytes(4000)
    whole = gzip.compress(b"some words\n" + data)
    one = b'{"english": "the sea", "german": ""}\n'
    files = {"a.txt": data, "cut.txt.gz": whole[: len(whole) // 2], "empty.txt": b"", "one.jsonl": one}
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    monkeypatch.chdir(tmp_path)
    for words, sentence in REFUSED.items():
        assert sentence in refusal("new", *words.split(), "--to", "new.toml")
        assert not Path("new.toml").exists()


TEXT_KEYS = {"text_field", "id_field", "title_field", "label_field", "encoding", "layout", "bad_records"}
TABLE_KEYS = {"name_column", "path", "delimiter", "skip_rows", "encoding"}


def workbook(path: Path) -> Path:
    """Write a table of prices and nine companies."""
    book = openpyxl.Workbook()
    for row in [["price", "company"], *([number, f"company {number}"] for number in range(9))]:
        book.active.append(row)
    book.save(path)
    return path


def test_the_fields_of_a_file_are_found(tmp_path):
    jsonl, parquet, table = tmp_path / "a.jsonl", tmp_path / "a.parquet", tmp_path / "t.csv"
    deep = 100_000 * "["  # a record that no reader takes
    one, two = ({"id": name, "title": f"{name}1", "body": f"{name}2"} for name in "ab")
    jsonl.write_text(f"{json.dumps(one)}\n{deep}\n{json.dumps(two)}\n")
    pq.write_table(pa.table({"n": [1], "headline": ["a"], "prose": ["a long text"], "label": ["x"]}), parquet)
    table.write_text("x;Name;y\n1,5;Ant;2\n")
    for file, keys, found in (
        (jsonl, TEXT_KEYS, {"text_field": "body", "id_field": "id", "title_field": "title"}),
        (jsonl, {"text_field", "bad_records"}, {"text_field": "body"}),
        (parquet, TEXT_KEYS, {"text_field": "prose", "title_field": "headline", "label_field": "label"}),
    ):
        assert look_at_texts([str(file)], keys).settings == found
    assert look_at_table(str(table), {"name_column"}).settings == {"name_column": "Name"}
    book = str(workbook(tmp_path / "survey.xlsx"))
    assert look_at_table(book, {"name_column"}).settings == {"name_column": "company"}
    assert text_layout("A title\nsome text\n\nAnother\nmore text\n\n") == "blocks"
    assert text_layout("A first document.\n\nA second one.\n\nA third.\n") == "line"


GERMAN = "Das schöne „Lied“ und die Größe der Straße, nicht aber das Übrige.\n"


@pytest.mark.parametrize(
    ("text", "encoding", "language"),
    [
        (GERMAN, "cp1252", "german"),
        (GERMAN, "utf-16", "german"),
        ("Это было давно, и я не помню, что он сказал тогда мне о них и о нас.\n", "cp1251", "russian"),
        ("It was the best of times, it was the worst of times, and we were there.\n", "utf-8", "english"),
        ("Lorem ipsum dolor sit amet consectetur.\n", "ascii", "none"),
    ],
)
def test_what_is_not_utf_8_gets_an_encoding_and_the_language_is_said(text, encoding, language, tmp_path):
    (tmp_path / "a.txt").write_bytes((text * 20).encode(encoding))
    found = look_at_texts([str(tmp_path / "a.txt")], TEXT_KEYS)
    own = encoding if encoding.startswith("cp") else None
    assert (found.settings.get("encoding"), found.language) == (own, language)
    said = f"encoding: a.txt is not UTF-8, and seems to be {own}" if own else "encoding: UTF-8"
    assert any(line.startswith(said) for line in found.lines)


@pytest.mark.parametrize("encoding", ["cp1252", "utf-8-sig", "utf-16"])
def test_a_header_of_two_lines_and_of_any_encoding_is_read(tmp_path, encoding):
    table, name = tmp_path / "Firmen.csv", "Firma\r\n(kurz)"
    rows = f'"{name}";Umsatz €;Notiz\r\n3M;1,5;"a,b,c,d,e"\r\nAbbott;2,5;""\r\n'
    table.write_bytes(rows.encode(encoding))
    reading = {"delimiter": ";"} | ({"encoding": "cp1252"} if encoding == "cp1252" else {})
    assert look_at_table(str(table), TABLE_KEYS).settings == {"name_column": name} | reading
    columns = {name: texts_of(one) for name, one in read_table(str(table), **reading).columns.items()}
    assert columns == {name: ["3M", "Abbott"], "Umsatz €": ["1,5", "2,5"], "Notiz": ["a,b,c,d,e", ""]}


JOBS = Path(__file__).resolve().parents[2] / "jobs"
PAPERS = {
    "psdvec": "psdvec_paper", "imputation": "imputation_paper", "wordspaces": "wordspaces_paper",
    "topics": "topics_paper", "transfer": "feature_preserving_paper",
}  # fmt: skip
OF_ONE_INPUT = {
    "job", "resources", "paper", "known", "collections", "corpus.paths", "corpus.layout", "corpus.id_field",
    "corpus.label_field", "domain.path", "domain.name_column", "domain.first", "domain.last", "domain.names",
    "domain.names_from", "domain.names_to", "domain.names_label", "evaluation.sets", "evaluation.topic",
    "evaluation.topic_share", "report.words", "report.n_neighbors", "report.n_map_words",
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


def test_a_measure_that_the_report_lacks_is_refused_unless_it_has_no_figure(shared):
    other = "paper.table_2.columns=['NMI', 'ARI', 'nmi', 'ARI']"
    told = r"no column 'nmi'.*--set paper\.table_2\.rows=\{\} leaves the figures out"
    with pytest.raises(JobError, match=told):
        check_stages(load_job(JOBS / "topics_paper.toml", settings=(other,)))
    check_stages(load_job(JOBS / "topics_paper.toml", settings=(other, "paper.table_2.rows={}")))


def test_a_row_of_a_paper_has_a_figure_for_each_column():
    with pytest.raises(ValueError, match=r"rows\.a has 1 figure for 2 columns: give one for each"):
        PaperSection(source="", columns=("x", "y"), rows={"a": (1.0,)})


FIGURES = """
[paper.table_1]
source = "somebody"
columns = ["{}", "{}"]
rows."{}" = [0.5, "worse"]
"""


def text_of(html: str) -> str:
    return re.sub("<[^>]*>|^[^>]*>", "", html).strip()


def test_figures_of_a_paper_stand_beside_ours():
    tasa = PaperSection(source="essays", columns=("x", "y"), rows={"LSA": (0.25, "best"), "VSM": (0.5, 0.75)})
    wiki = PaperSection(source="articles", columns=("y",), rows={"LSA": (1.0,)})
    ours = {"LSA": {"x": 0.125, "y": float("nan"), "z": 9.0}, "other": {"x": 3.0}}
    both, one, none = (
        Job.model_construct(paper=paper) for paper in ({"tasa": tasa, "wiki": wiki}, {"wiki": wiki}, {})
    )
    names: Any = {"rows": ("LSA", "VSM"), "columns": ("x", "y")}
    (section,) = paper_tables(both, ours, **names)
    rows = [[text_of(cell) for cell in row.split("<td")[1:]] for row in section.html("").split("<tr>")[2:]]
    assert rows == [["LSA", "x", "0.250", "–", "0.125"], ["LSA", "y", "best", "1.000", "–"]]
    assert "the paper, tasa: essays. the paper, wiki: articles." in section.html("")
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
    lines = succeed("run", tmp_path / "job.toml").output.splitlines()
    assert [line.split()[1] for line in lines if "   peak " in line] == ["report"]
    assert [line.split()[-3:-1] for line in lines if line.startswith(row)] == [["2", "0.500"], ["5", "worse"]]
    assert "the paper, table 1" in text_of(page.read_text())
    text = (tmp_path / "job.toml").read_text()
    (tmp_path / "job.toml").write_text(text.replace("uniform", "unifrom"))
    assert f"did you mean {row}?" in refusal("run", tmp_path / "job.toml")
