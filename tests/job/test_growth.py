"""A corpus to which files are added, or from which they go: the bits of a run from scratch, for the cost of change."""

from __future__ import annotations

from pathlib import Path

import pytest

from distembed.job.progress import Silent
from distembed.stages import corpus as corpus_stages
from distembed.storage import Workspace
from tests.commands import succeed
from tests.growing_corpus import count, digests, from_scratch, texts, write_file, write_job

FILES = {"a.jsonl": texts(1), "c.jsonl": texts(2)}


class Notes(Silent):
    """A reporter that keeps what it is told."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def note(self, line: str) -> None:
        self.lines.append(line)


@pytest.fixture
def read(monkeypatch):
    """Return the files that were cut into tokens, as they are."""
    found = []
    real = corpus_stages.tokenize_partition

    def tokenize(bundle, *arguments, **options):
        found.extend(Path(one.url).name for one in bundle)
        return real(bundle, *arguments, **options)

    monkeypatch.setattr(corpus_stages, "tokenize_partition", tokenize)
    return found


@pytest.fixture
def counted(monkeypatch):
    """Return which pairs were counted of each partition, as they are."""
    found = []
    real = corpus_stages.count_partition

    def count_one(*arguments, **options):
        found.append(options["what"].part.pairs)
        return real(*arguments, **options)

    monkeypatch.setattr(corpus_stages, "count_partition", count_one)
    return found


@pytest.mark.parametrize(
    "counting",
    [
        'direction = "left"',
        'direction = "symmetric"',
        'direction = "right"\nweighting = "ramp"',
        'direction = "left"\nweighting = "dynamic"\ndraw = 3',
        'direction = "symmetric"\nweighting = "harmonic"',
        'direction = "symmetric"\nweighting = "dynamic"\nsubsample = 0.05\noov = "remove"',
        'direction = "left"\noov = "remove"',
        'direction = "left"\nsubsample = 0.05',
    ],
)
def test_files_added_anywhere_give_the_bits_of_a_run_from_scratch(tmp_path, counting, read):
    write_job(tmp_path, FILES, counting=counting)
    count(tmp_path)
    for name, seed in (("d.jsonl", 3), ("b.jsonl", 4)):
        write_file(tmp_path, name, texts(seed))
        read.clear()
        count(tmp_path)
        assert read == [name]
        assert digests(tmp_path / "w") == from_scratch(tmp_path)
        assert Workspace.open(tmp_path / "w").verify() == []


VIEWS = """
[views.syntax]
method = "ppmi"
window = 2
positions = "apart"
n_components = 4
[views.wide]
method = "psdvec"
subsample = 0.05
oov = "remove"
direction = "symmetric"
n_components = 4
"""


@pytest.mark.parametrize(
    "counting", ['direction = "left"', 'weighting = "dynamic"\nsubsample = 0.05\noov = "remove"']
)
def test_only_new_partitions_are_counted_and_of_others_only_changes(tmp_path, counted, counting):
    write_job(tmp_path, FILES, counting=counting + VIEWS)
    count(tmp_path, until=None)
    write_file(tmp_path, "b.jsonl", texts(3))
    counted.clear()
    count(tmp_path, until=None)
    assert sorted(counted) == 3 * ["all"] + 6 * ["changed"]
    assert digests(tmp_path / "w") == from_scratch(tmp_path, until=None)


def test_files_that_go_or_change_are_subtracted(tmp_path, counted):
    write_job(tmp_path, FILES | {"b.jsonl": texts(5, 3), "d.jsonl": texts(6, 3)})
    count(tmp_path)
    (tmp_path / "text" / "b.jsonl").unlink()
    write_file(tmp_path, "d.jsonl", texts(7, 3))
    counted.clear()
    count(tmp_path)
    assert sorted(counted) == ["all", "changed", "changed", "had", "had"]
    assert digests(tmp_path / "w") == from_scratch(tmp_path)


def test_a_corpus_most_of_which_is_gone_is_counted_as_a_whole(tmp_path, counted):
    write_job(tmp_path, {"a.jsonl": texts(1, 20), "b.jsonl": texts(5, 3)})
    count(tmp_path)
    (tmp_path / "text" / "a.jsonl").unlink()
    counted.clear()
    count(tmp_path)
    assert counted == ["all"]
    assert digests(tmp_path / "w") == from_scratch(tmp_path)


def test_damaged_counts_and_tokens_are_not_taken_over(tmp_path, counted, read):
    write_job(tmp_path, FILES)
    count(tmp_path)
    w = tmp_path / "w"
    (w / "tokens" / "part-000000.words.parquet").write_bytes(b"spoilt")
    next((w / "arrays.zarr" / "cooccurrence").glob("*/data/c/0")).write_bytes(b"spoilt")
    write_file(tmp_path, "d.jsonl", texts(3))
    counted.clear()
    read.clear()
    count(tmp_path)
    assert sorted(read) == ["a.jsonl", "d.jsonl"]
    assert counted == ["all", "all", "all"]
    assert digests(w) == from_scratch(tmp_path)


def test_the_last_results_stay_readable_until_the_next_are_whole(tmp_path):
    write_job(tmp_path, FILES)
    count(tmp_path, until=None)
    before = digests(tmp_path / "w")
    vectors = Workspace.open(tmp_path / "w").array("vectors")
    write_file(tmp_path, "d.jsonl", texts(3))
    count(tmp_path, until="cooccurrence")
    assert digests(tmp_path / "w") == before
    assert vectors.compute().shape == vectors.shape
    assert Workspace.open(tmp_path / "w").verify() == []
    notes = Notes()
    done = count(tmp_path, until=None, reporter=notes)
    assert done.ran == ("core", "vectors", "evaluation")
    assert digests(tmp_path / "w") == from_scratch(tmp_path, until=None)
    assert not (tmp_path / "w" / "next").exists()
    assert count(tmp_path, until=None).ran == ()


def test_a_run_with_other_settings_forgets_the_next_content(tmp_path):
    write_job(tmp_path, FILES)
    count(tmp_path, until="vectors")
    write_file(tmp_path, "d.jsonl", texts(3))
    count(tmp_path)
    assert (tmp_path / "w" / "next").exists()
    (tmp_path / "text" / "d.jsonl").unlink()
    assert count(tmp_path).ran == ()
    assert not (tmp_path / "w" / "next").exists()


def words(place: Path) -> list[str]:
    return Workspace.open(place).table("vocabulary")["word"].to_pylist()


def test_a_frozen_vocabulary_keeps_its_words_until_it_is_unfrozen(tmp_path, counted):
    write_job(tmp_path, FILES)
    count(tmp_path, settings=("vocabulary.freeze=true",))
    before = words(tmp_path / "w")
    write_file(tmp_path, "b.jsonl", texts(3))
    counted.clear()
    count(tmp_path, settings=("vocabulary.freeze=true",))
    assert words(tmp_path / "w") == before
    assert sorted(counted) == ["all", "changed", "changed"]
    frozen = Workspace.open(tmp_path / "w").digest()
    (tmp_path / "w" / "vocabulary.parquet").unlink()
    count(tmp_path, settings=("vocabulary.freeze=true",))
    assert Workspace.open(tmp_path / "w").digest() == frozen
    count(tmp_path)
    assert set(words(tmp_path / "w")) > set(before)
    assert digests(tmp_path / "w") == from_scratch(tmp_path)


def test_a_workspace_that_never_froze_its_words_does_not_know_the_key(tmp_path):
    write_job(tmp_path, FILES)
    count(tmp_path)
    assert "freeze" not in Workspace.open(tmp_path / "w").stages()["vocabulary"].parameters["vocabulary"]


@pytest.mark.parametrize(
    ("counting", "why"),
    [
        ('direction = "left"', ""),
        ("subsample = 0.05", ""),
        ('oov = "remove"', ""),
        ('weighting = "dynamic"', ""),
        (
            'weighting = "harmonic"',
            'all partitions are counted again: counting.weighting = "harmonic" stores',
        ),
    ],
)
def test_plan_says_what_is_new_and_why_all_is_counted_again(tmp_path, counting, why):
    window = ("counting.window=25",)
    write_job(tmp_path, FILES, counting=counting)
    count(tmp_path, settings=window)
    write_file(tmp_path, "b.jsonl", texts(3))
    printed = succeed("plan", tmp_path / "job.toml", "--set", *window).output
    assert "the corpus has changed: 1 of 3 partitions are new and read" in printed
    assert ("counted again: " in printed) == bool(why)
    assert why in printed
