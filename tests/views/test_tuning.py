"""The search over keys of a job: shared counts, finished candidates kept, halves that do not meet, bad grids."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow.csv as pacsv
import pytest

from distembed.cli.tuning import answer_of
from distembed.evaluation.scoring import Policy
from distembed.evaluation.words import evaluate_sets
from distembed.evaluation.wordsets import find_sets
from distembed.job.model import JobError
from distembed.job.opening import open_job
from distembed.job.progress import Reporter
from distembed.job.run import run_stages
from distembed.job.stage import read_vectors
from distembed.storage.workspace import Workspace
from distembed.views.tuning import Candidate, JobOf, Tuned, halves_of, parse_grids, tune
from tests.commands import refusal, succeed
from tests.small_jobs import imputation

WORDS = [f"{first}{second}" for first in "bdfglm" for second in ("ai", "eo", "iu")]
JOB = """
[job]
workspace = "w"
[corpus]
paths = ["text.txt"]
[vocabulary]
min_count = 1
[psdvec]
n_components = 3
n_iter = 1
first_passes = 4
[resources]
workers = 1
"""
GRID = {"psdvec.smoothing": [0.02, 0.3], "counting.window": [1]}


class Notes(Reporter):
    """Keeps what is told; stops at a candidate if asked to."""

    def __init__(self, stop_at: int = 0) -> None:
        self.candidates: list[str] = []
        self.stop_at = stop_at

    def note(self, text: str) -> None:
        if text.startswith("candidate"):
            self.candidates.append(text)
            if len(self.candidates) == self.stop_at:
                raise KeyboardInterrupt


@pytest.fixture
def job(tmp_path):
    """Return a job on 300 sentences in which words of the same ending stand together, and a set of its words."""
    rng = np.random.default_rng(0)
    groups = [
        rng.choice([w for w in WORDS if w.endswith(end)], 6) for end in rng.choice(["ai", "eo", "iu"], 300)
    ]
    (tmp_path / "text.txt").write_text("\n\n".join(" ".join(group) for group in groups), encoding="utf-8")
    pairs = [(a, b, (a[1:] == b[1:]) + rng.random() / 2) for a in WORDS for b in WORDS if a < b]
    (tmp_path / "pairs.txt").write_text("\n".join(f"{a}\t{b}\t{score}" for a, b, score in pairs))
    (tmp_path / "job.toml").write_text(JOB)
    return str(tmp_path / "job.toml")


def pairs_of(job: str) -> str:
    return str(Path(job).parent / "pairs.txt")


def with_keys(job: str, *settings: str) -> JobOf:
    return lambda keys: open_job(job, settings=(*settings, *keys))


def test_every_candidate_is_scored_and_none_is_made_twice(job, tmp_path):
    """Those of equal counts share a workspace, and a search that was stopped goes on."""
    with pytest.raises(KeyboardInterrupt):
        tune(with_keys(job), GRID, pairs_of(job), reporter=Notes(stop_at=2))
    rest, again = Notes(), Notes()
    found = tune(with_keys(job), GRID, pairs_of(job), reporter=rest)
    assert len(rest.candidates) == 2  # of two of the grid, and the job as it is
    assert {one.keys["psdvec.smoothing"] for one in found.candidates} == {0.02, 0.3}
    values = [one.chosen["value"] for one in found.candidates]
    assert values == sorted(values, reverse=True)
    assert len(set(values)) > 1
    assert found.measure == "pairs, similarity, spearman"
    best = found.candidates[0]
    assert best.held_out["total"] + best.chosen["total"] == 153
    assert repr(tune(with_keys(job), GRID, pairs_of(job), reporter=again)) == repr(found)
    assert not again.candidates
    assert sum(Workspace.exists(place) for place in (tmp_path / "w.tune").iterdir()) == 2
    assert not (tmp_path / "w").exists()
    settings = tuple(f"{name}={value}" for name, value in best.keys.items())
    run_stages(open_job(job, settings=settings), until="vectors")
    word_set = find_sets(pairs_of(job)).sets[0]
    half = word_set.part(halves_of(map(repr, word_set.items)) == 0)
    score = evaluate_sets(read_vectors(Workspace.open(tmp_path / "w")), [half], Policy())[0]
    assert score.value == best.chosen["value"]


def test_an_imputation_is_judged_by_its_hidden_names(tmp_path):
    imputation.write(tmp_path)
    job, folds = str(tmp_path / "job.toml"), "evaluation.n_folds=2"
    grid = {"domain.standardize": [False]}
    found = tune(with_keys(job, folds), grid)
    assert found.measure == "hidden names, centered cosine"
    assert len(list((tmp_path / "w.tune").glob("*/manifest"))) == 2  # each scaling of the table that is read
    best = found.candidates[0]
    succeed("run", job, "--set", folds, "--set", "domain.standardize=false", "--until", "hold_out")
    names = Workspace.open(tmp_path / "w").table("hold_out_names").to_pylist()
    own = {row["word"]: row["centered_cosine"] for row in names if row["method"] == names[0]["method"]}
    halves = best.chosen, best.held_out
    assert sum(half["known"] for half in halves) == len(own) == 20
    assert sum(half["value"] * half["known"] for half in halves) == pytest.approx(sum(own.values()))
    with pytest.raises(JobError, match="judges itself by its hidden names, centered cosine: leave out --on"):
        tune(with_keys(job), grid, str(tmp_path / "names.txt"))


def test_halves_are_of_words_alone_and_meet_in_no_item(job):
    word_set = find_sets(pairs_of(job)).sets[0]
    halves = halves_of(map(repr, word_set.items))
    assert 50 < halves.sum() < 100
    rest = word_set.part(np.arange(len(word_set.items)) > 0)
    np.testing.assert_array_equal(halves_of(map(repr, rest.items)), halves[1:])


def test_pairs_of_sentences_choose_by_the_vectors_of_their_words(job, tmp_path):
    rng = np.random.default_rng(1)
    lines = [
        f"x\t{rng.random():.3f}\t{' '.join(rng.choice(WORDS, 3))}\t{' '.join(rng.choice(WORDS, 3))}"
        for _ in range(60)
    ]
    (tmp_path / "sts.tsv").write_text("\n".join(lines))
    found = tune(with_keys(job), {"psdvec.components_removed": [0, 1]}, str(tmp_path / "sts.tsv"))
    assert found.measure == "sts, sentences, spearman"
    one, other = found.candidates
    assert one.chosen["value"] != other.chosen["value"]
    assert one.chosen["total"] + one.held_out["total"] == 60 * 6
    assert one.chosen["known"] == one.chosen["total"]


TOPICS = '[job]\nsystem = "topics"\nworkspace = "t"\n[corpus]\npaths = ["text/*.txt"]\n'
SMOOTHING = {"psdvec.smoothing": [0.1]}


@pytest.mark.parametrize(
    ("name", "grid", "on", "sentence"),
    [
        ("job", {"psdvec.smoothin": [1]}, "pairs.txt", "did you mean smoothing"),
        ("job", {"psdvec.smoothing": [0.1, 7]}, "pairs.txt", "psdvec.smoothing"),
        ("job", {"report.n_map_words": [10, 20]}, "pairs.txt", "changes neither the vectors nor how they are judged"),
        ("job", SMOOTHING, None, "give --on FILE, an evaluation set"),
        ("topics", {"topics.n_topics": [2]}, "pairs.txt", "topics has no stages cooccurrence and vectors"),
        ("job", SMOOTHING, "sets", "holds 2 evaluation sets: name the file of one, which chooses"),
    ],
)  # fmt: skip
def test_what_cannot_be_searched_is_refused_before_anything_runs(job, tmp_path, name, grid, on, sentence):
    (tmp_path / "topics.toml").write_text(TOPICS)
    (tmp_path / "sets").mkdir()
    for one in "ab":
        (tmp_path / f"sets/{one}.csv").write_text("word1,word2,score\nsea,shore,1\nsea,sand,2\n")
    more = {"psdvec.n_components": [2, 3]} if name == "job" else {}
    with pytest.raises(ValueError, match=sentence):
        tune(with_keys(str(tmp_path / f"{name}.toml")), more | grid, on and str(tmp_path / on))
    assert not list(tmp_path.rglob("*.tune"))


@pytest.mark.parametrize("item", ["cat{0} dog{0} {0}", "cat{0} dog{0} cow{0} hen{0}"])
def test_a_set_of_other_words_is_refused(job, tmp_path, item):
    (tmp_path / "other.txt").write_text("\n".join(map(item.format, range(20))))
    with pytest.raises(ValueError, match="of the half of other that is chosen, 0 of"):
        tune(with_keys(job), SMOOTHING, str(tmp_path / "other.txt"))


def test_values_of_a_grid_are_written_as_in_toml_and_those_of_one_key_joined():
    grids = {
        "psdvec.ridge=[2.0, 4.0],8": [[2.0, 4.0], 8],
        "counting.weighting=flat,harmonic": ["flat", "harmonic"],
        'corpus.border="line"': ["line"],
        "psdvec.bands=[1],[1]": [[1]],
    }
    assert parse_grids(grids) == {text.partition("=")[0]: values for text, values in grids.items()}
    assert parse_grids(["a.b=0.1,0.2", "a.b=0.3,0.1"]) == {"a.b": [0.1, 0.2, 0.3]}
    with pytest.raises(JobError, match="not of the form section"):
        parse_grids(["smoothing"])


def test_the_command_prints_the_gain_and_the_line_to_type_and_leaves_finished_counts_as_they_are(
    job, tmp_path
):
    run_stages(open_job(job))
    before = Workspace.open(tmp_path / "w").digest()
    (tmp_path / "text.txt").unlink()  # the counts are there: no candidate reads the text
    words = ("tune", job, "--on", pairs_of(job), "--grid", "psdvec.smoothing=0.3", "--to")
    done = succeed(*words, tmp_path / "t.csv")
    assert Workspace.open(tmp_path / "w").digest() == before
    assert not Workspace.open(tmp_path / "w").verify()
    refused = refusal(*words, tmp_path / "t.npy")
    assert "t.npy cannot be detected from its name: end it in .json, .html, .csv, .tsv or .parquet" in refused
    assert "the half that is held out:" in done.output
    assert f"distembed run {job} --set psdvec.smoothing=0.3\n" in done.output
    table = pacsv.read_csv(tmp_path / "t.csv")
    assert table.column_names == ["psdvec.smoothing", "value", "low", "high", "known", "total"]
    assert table["psdvec.smoothing"].to_pylist() == [0.3]


@pytest.mark.parametrize(("value", "doubts"), [(0.4, 1), (0.5, 1), (0.6, 1), (0.8, 0)])
def test_a_candidate_that_is_as_good_as_the_job_is_not_better(value, doubts):
    score = {"value": 0.5, "low": 0.4, "high": 0.6, "known": 9, "total": 9}
    base = Candidate({}, score, score)
    best = Candidate({"a": 1}, score, score | {"value": value, "low": value - 0.2})
    found = answer_of(Tuned([best], base, "MEN")).sentences
    assert len(found) == doubts
    assert ["keep the job" in one for one in found] == [value <= 0.5] * doubts
