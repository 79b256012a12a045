"""A comparison finds the words that were changed, whatever the order of parts and documents, and refuses bad parts."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path

import numpy as np
import pytest

import distembed as de
from distembed.corpus import readers
from distembed.job.load import load_job
from distembed.job.plan import plan_job
from distembed.job.stage import REPORT_BYTES
from distembed.systems.comparison.changes import CHANGED, UNJUDGED, changed_words, changes_of, own_contexts
from distembed.systems.comparison.views import course, summary
from tests.commands import job_fixtures, made, refusal, succeed
from tests.small_jobs import comparison


def changes_in(folder: Path, *settings: str, until="differences"):
    made(folder / "job.toml", folder / "w", *settings, until=until)
    return changes_of(load_job(folder / "job.toml", settings=settings), de.Workspace.open(folder / "w"))


job, finished, copy = job_fixtures("comparison", comparison.write)


@pytest.fixture
def workspace(finished):
    return finished[0]


@pytest.fixture
def plain(job, workspace):
    """Return the changes of the small job."""
    return changes_of(load_job(job), de.Workspace.open(workspace))


@pytest.fixture
def rows(tmp_path):
    """Return the documents of the small job, which is written anew; `write_rows` writes them back."""
    comparison.write(tmp_path)
    return [json.loads(line) for line in (tmp_path / "text.jsonl").read_text().splitlines()]


def write_rows(folder, rows):
    (folder / "text.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def test_swapped_words_have_changed_and_have_the_contexts_of_each_other(plain, workspace):
    columns = plain.between("new", "old")
    verdicts = dict(zip(columns["word"], columns["verdict"], strict=True))
    assert plain.between("new", "old", [5, 2])["verdict"] == [columns["verdict"][row] for row in (5, 2)]
    assert verdicts["pa"] == verdicts["ra"] == CHANGED
    assert not [word for word, verdict in verdicts.items() if word[0] in "qsx" and verdict == CHANGED]
    assert {plain.words[word] for word in changed_words(plain)[:2]} == {"pa", "ra"}
    few = plain.counts.min(axis=1) < 30
    assert few.any()
    assert {verdicts[plain.words[word]] for word in np.flatnonzero(few)} == {UNJUDGED}
    is_alone = plain.judged.sum(axis=1) < 2  # in one part a word has nothing to be compared with
    assert is_alone.any()
    assert all(np.isnan(values[is_alone]).all() for values in plain.measures.values())
    places = [plain.words.index(word) for word in ("pa", "ra")]
    found = own_contexts(plain, de.Workspace.open(workspace), places, 500)
    assert min(map(len, found["pa"].values())) > 1  # those that it has more often there, and no others
    assert not set(found["pa"]["new"]) & set(found["pa"]["old"])
    topics = {
        (word, part): {one[0] for one in found[word][part][:5]} for word in found for part in ("new", "old")
    }
    assert topics == {("pa", "new"): {"r"}, ("pa", "old"): {"p"}, ("ra", "new"): {"p"}, ("ra", "old"): {"r"}}


def test_neither_the_order_of_documents_nor_that_of_names_changes_a_bit(plain, tmp_path, rows):
    write_rows(tmp_path, rows[::-1])
    mixed = changes_in(tmp_path, "parts.names=['old', 'new']")
    assert mixed.words == plain.words
    assert mixed.floor == plain.floor
    for name, values in plain.measures.items():
        np.testing.assert_array_equal(mixed.measures[name], values)


def test_the_report_shows_both_sides_and_the_table_has_every_word(job, workspace, tmp_path):
    page = (workspace / "report/index.html").read_text()
    assert plan_job(load_job(job)).stages["report"].whole_bytes > REPORT_BYTES  # for the measures
    for what in ("Words that differ", "Both sides of each word", "own contexts", "occurrences<"):
        assert what in page
    passages = re.findall(r"<li>(.*?) <small>", page)
    assert passages
    assert all(passage.count("<b>") == 2 for passage in passages)
    assert "has no map to explore: read its report" in refusal("explore", workspace)
    succeed("export", workspace, "--what", "changes", "--to", tmp_path / "changes.csv")
    with (tmp_path / "changes.csv").open(encoding="utf-8-sig") as file:
        rows = list(csv.DictReader(file))
    assert {row["word"] for row in rows if row["verdict"] == CHANGED} >= {"pa", "ra"}
    assert len(rows) == de.Workspace.open(workspace).table("vocabulary").num_rows
    succeed("export", workspace, "--what", "parts", "--to", tmp_path / "parts.csv")
    succeed("export", workspace, "--what", "words", "--to", tmp_path / "words.parquet")
    assert succeed("explain", workspace, "ra").output.startswith("ra: its first 12 passages\n")


def test_words_of_more_parts_have_the_course_of_their_change(tmp_path, rows):
    for number, row in enumerate(rows):
        if row["age"] == "old" and number // 8 % 2:
            row["age"] = "older"
    write_rows(tmp_path, rows)
    found = changes_in(tmp_path, until=None)
    curves, (x, low, high) = course(found, [found.words.index(name) for name in ("pa", "qa")])
    for name, (_, changes) in curves.items():
        word = found.words.index(name)
        expected = [found.between("new", part)["change"][word] for part in ("old", "older")]
        np.testing.assert_array_equal(changes, expected)
    assert x.tolist() == [2.0, 3.0]
    np.testing.assert_array_less(low, curves["pa"][1])
    np.testing.assert_array_less(curves["pa"][1], high)
    assert (min(low) > 0.5, max(abs(curves["qa"][1])) < 0.1) == (True, True)
    assert "since new" in (tmp_path / "w/report/index.html").read_text()


def write_planted(folder: Path, concentration: float, window: int) -> None:
    """Write two parts of eight novels each, in one of which two frequent words stand for each other.

    Each novel has its own persons and things, the more so the smaller the concentration, and uses frequent words at its
    own rate.
    """
    rng = np.random.default_rng(0)
    nouns, verbs = ([f"{kind}{a}{b}" for a in "abcde" for b in "klmnopqr"] for kind in ("n", "v"))
    for part in ("left", "right"):
        (folder / "novels" / part).mkdir(parents=True)
        for number in range(8):
            of_nouns, of_verbs = (rng.dirichlet(np.full(40, concentration)) for _ in range(2))
            rates = rng.dirichlet(np.full(4, 4.0))
            lines = []
            for _ in range(300):
                words = []
                for kind in rng.choice(4, 8, p=rates):
                    noun, verb = rng.choice(nouns, p=of_nouns), rng.choice(verbs, p=of_verbs)
                    words += [("the", noun, verb), ("for", noun), ("but", verb), ("and", verb, noun)][kind]
                lines.append(" ".join(words))
            text = "\n".join(lines)
            if part == "right":
                text = text.replace("for ", "BUT ").replace("but ", "for ").replace("BUT ", "but ")
            (folder / "novels" / part / f"{number}.txt").write_text(f"{text}\n")
    (folder / "job.toml").write_text(
        '[job]\nsystem = "comparison"\nworkspace = "w"\n[corpus]\npaths = ["novels"]\npath_fields = ["side"]\n'
        f"[vocabulary]\nmin_count = 1\n[counting]\nwindow = {window}\n[psdvec]\nn_components = 6\nn_iter = 2\n"
        '[parts]\ncolumn = "side"\n'
        "[comparison]\nmin_count = 30\nmin_documents = 3\nhalves = 5\nbootstrap = 30\n[resources]\nworkers = 1\n"
    )


@pytest.mark.slow
def test_frequent_words_that_were_exchanged_in_few_novels_have_changed(tmp_path):
    write_planted(tmp_path, 5.0, 1)
    columns = changes_in(tmp_path).between("left", "right")
    verdicts = dict(zip(columns["word"], columns["verdict"], strict=True))
    assert verdicts["for"] == verdicts["but"] == CHANGED
    assert verdicts["the"] != CHANGED != verdicts["and"]


@pytest.mark.slow
def test_words_of_few_novels_that_differ_have_no_change_below_zero(tmp_path):
    """A half of a part is a text of its own, whose frequent words are not those of the whole part."""
    write_planted(tmp_path, 0.3, 3)
    columns = changes_in(tmp_path).between("left", "right")
    is_judged = np.array(columns["verdict"]) != UNJUDGED
    assert abs(columns["change"][is_judged].mean()) < 0.05
    below, above = columns["high"] < 0, columns["low"] > 0
    assert below[is_judged].mean() < 0.05
    is_other = is_judged & ~np.isin(columns["word"], ["for", "but"])
    assert abs(below[is_other].mean() - above[is_other].mean()) < 0.05


def test_fewer_changes_than_by_chance_are_no_evidence(job, workspace, plain):
    for false_alarms, is_doubtful in ((0.01, False), (0.9, True)):
        asked = load_job(job, settings=(f"comparison.false_alarms={false_alarms}",))
        said = summary(asked, plain, changed_words(plain), de.Workspace.open(workspace))
        assert ("by chance, so that these are no evidence of a change" in said) == is_doubtful


@pytest.mark.parametrize("share", [0.1, 1])
def test_many_parts_in_which_each_word_changed_once_are_evidence(job, workspace, plain, share):
    """Of 16 parts a word has 120 pairs, of which chance changes more than one, but not one of each word."""
    draw, names, n_words = np.random.default_rng(0), [f"p{n:02}" for n in range(16)], 50
    pairs = [(one, other) for place, one in enumerate(names) for other in names[place + 1 :]]
    alone = {("noise", name, None): np.full(n_words, 0.1) for name in names}
    of_pairs = {
        (kind, *pair): np.full(n_words, -0.1)
        for kind in ("distance", "change", "low", "high")
        for pair in pairs
    }
    for word in range(int(share * n_words)):
        pair = pairs[draw.integers(len(pairs))]
        for kind in ("change", "low", "high"):
            of_pairs[kind, *pair][word] = 1.0
    counts = np.full((n_words, 16), 99)
    many = plain._replace(
        words=[f"w{n}" for n in range(n_words)], parts=names, counts=counts, documents=counts,
        judged=counts > 0, measures=alone | of_pairs, floor=1.0,
    )  # fmt: skip
    said = summary(load_job(job), many, changed_words(many), de.Workspace.open(workspace))
    assert ("no evidence" in said) == (share < 1)


def write_novels(folder: Path) -> None:
    """Write a folder of novels, a line a paragraph, whose paths hold author and year."""
    years = ["1801", "1803", "1805", "1807", "1811", "1812", "1813", "1814"]
    for number, document in enumerate(comparison.documents(len(years) * 10)):
        place = folder / "novels" / "austen" / years[number % len(years)]
        place.mkdir(parents=True, exist_ok=True)
        with (place / "novel.txt").open("a") as file:
            file.write(f"{document['text']}\n")
    (folder / "job.toml").write_text(
        '[job]\nsystem = "comparison"\nworkspace = "w"\n[corpus]\npaths = ["novels"]\n'
        'path_fields = ["author", "year"]\n'
        "[vocabulary]\nmin_count = 1\n[psdvec]\nn_components = 3\nn_iter = 1\n"
        '[parts]\ncolumn = "year"\nbins = [1800, 1810, 1820]\n'
        "[comparison]\nmin_count = 10\nmin_documents = 3\nhalves = 2\nbootstrap = 4\n[resources]\nworkers = 1\n"
    )


@pytest.fixture(scope="module")
def novels(tmp_path_factory):
    """Return the folder of a job on novels, whose parts the tests choose."""
    folder = tmp_path_factory.mktemp("here")
    write_novels(folder)
    return folder


def test_decades_of_novels_come_from_their_paths_and_files_are_drawn_wherever_they_lie(novels, tmp_path):
    decades = made(novels / "job.toml", novels / "w", "parts.bins=[]", "parts.every=10", until="parts")
    parts = decades.table("parts").to_pylist()
    assert [(part["part"], part["n_units"], part["n_groups"]) for part in parts] == [
        ("1800-1809", 4, 4),
        ("1810-1819", 4, 4),
    ]
    assert sum(part["n_documents"] for part in parts) == 81
    write_novels(tmp_path / "deeper")
    elsewhere = made(tmp_path / "deeper" / "job.toml", tmp_path / "w", until="parts")
    assert elsewhere.table("document_groups").equals(decades.table("document_groups"))


@pytest.mark.parametrize(
    ("setting", "metadata", "sentence"),
    [
        ("parts.bins=[1800, 1810, 1820, 1830]", None, "the part '1820-1829' has no documents"),
        ("parts.bins=[1801, 1802, 1812]", None, "the part '1801' has one document or file alone"),
        ("parts.bins=[1800, 1804, 1820]", None, "could be judged: it has 21 documents in 2 files drawn as one"),
        ("comparison.min_documents=42", None, "'1800-1809' could be judged: it has 41 documents in 4 files drawn"),
        ("parts.bins=[1820, 1810]", None, "parts.bins has 1820 before 1810"),
        ("parts.unit=file", "file,date\nnovel,1801\n", "the documents have 'label', 'title', 'id', 'file', 'date'"),
        ("parts.unit=file", "file,year\nausten/1801/novel.txt,spring\n", "has 'spring', which is no date"),
    ],
)  # fmt: skip
def test_parts_that_cannot_be_are_one_sentence(novels, setting, metadata, sentence):
    settings = ("--set", setting)
    if metadata is not None:
        (novels / "m.csv").write_text(metadata)
        settings += ("--set", "corpus.path_fields=[]", "--set", "corpus.metadata=m.csv")
    assert sentence in refusal("run", novels / "job.toml", *settings)


def test_small_files_that_are_read_together_are_drawn_whole(tmp_path, monkeypatch):
    """Also where their documents have ids of their own, and the names of files are what is compared."""
    write_novels(tmp_path)
    monkeypatch.setattr(readers, "FEWEST_BUNDLES", 1)
    for number, file in enumerate(sorted((tmp_path / "novels").rglob("novel.txt"))):
        texts = file.read_text().splitlines()
        lines = [json.dumps({"id": f"n{number}-{line}", "text": text}) for line, text in enumerate(texts)]
        file.with_name(f"n{number}.jsonl").write_text("\n".join(lines))
        file.unlink()
    job = (tmp_path / "job.toml", tmp_path / "w", "corpus.id_field=id")
    assert made(*job, until="parts").table("parts")["n_units"].to_pylist() == [4, 4]
    parts = made(*job, "parts.column=file", "parts.bins=[]", until="parts").table("parts")
    assert parts["part"].to_pylist() == [f"n{n}" for n in range(8)]
