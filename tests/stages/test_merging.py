"""Workspaces that were counted apart become one with the bits of counting together."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from distembed.job.model import JobError
from distembed.stages.merging import merge
from distembed.stages.withdrawing import withdraw
from distembed.storage import Workspace
from tests.growing_corpus import LAST, count, digests, texts, write_file, write_job

NO_CORPUS = (
    '[job]\nsystem = "imputation"\nworkspace = "w"\n[domain]\npath = "d.csv"\n[known]\npath = "k.txt"\n'
)
TOPICS = '[job]\nsystem = "topics"\nworkspace = "w"\n[corpus]\npaths = ["text"]\n'
NAMES = ("one", "two", "three")


def apart(root: Path, *, counting: str = 'direction = "left"', min_count: int = 5) -> list[str]:
    """Count three corpora apart, of which none has all words that all have together often enough."""
    for number, name in enumerate(NAMES, 1):
        write_job(root / name, {f"{name}.jsonl": texts(number)}, counting=counting, min_count=min_count)
        count(root / name)
    return [str(root / name / "w") for name in NAMES]


def together(root: Path, places: list[str], *, counting: str = 'direction = "left"') -> dict[str, str]:
    """Count the same files at once, in the order of the workspaces."""
    (root / "all").mkdir()
    write_job(root / "all", {}, counting=counting, min_count=5)
    paths = ", ".join(f'"{Path(place).parent / "text"}"' for place in places)
    job = root / "all" / "job.toml"
    job.write_text(job.read_text().replace('paths = ["text"]', f"paths = [{paths}]"))
    count(root / "all")
    return digests(root / "all" / "w")


@pytest.mark.parametrize(
    "counting",
    ['direction = "left"', 'direction = "symmetric"\nweighting = "dynamic"\ndraw = 1', 'oov = "remove"'],
)
def test_a_merge_has_the_bits_of_counting_together(tmp_path, counting):
    places = apart(tmp_path, counting=counting)
    merge(places, to=str(tmp_path / "c"), until=LAST)
    found = digests(tmp_path / "c")
    assert found == together(tmp_path, places, counting=counting)
    assert Workspace.open(tmp_path / "c").verify() == []
    words = [set(Workspace.open(place).table("vocabulary")["word"].to_pylist()) for place in places]
    merged = set(Workspace.open(tmp_path / "c").table("vocabulary")["word"].to_pylist())
    assert merged - set.union(*words)  # words that were too rare in each


def test_a_merge_needs_no_text_and_ends_as_any_job(tmp_path):
    places = apart(tmp_path)[:2]
    for name in NAMES:
        shutil.rmtree(tmp_path / name / "text")
    first = merge(places, to=str(tmp_path / "c"))
    assert first.ran[-1] == "evaluation"
    assert merge(places, to=str(tmp_path / "c")).ran == ()
    assert (tmp_path / "c" / "report" / "index.html").exists()
    assert Workspace.open(tmp_path / "c").verify() == []
    before = digests(tmp_path / "c")
    shutil.rmtree(tmp_path / "one")  # it stands alone
    assert digests(tmp_path / "c") == before
    assert Workspace.open(tmp_path / "c").verify() == []


def test_what_cannot_be_merged_is_told_in_a_sentence(tmp_path):
    one, two, _ = apart(tmp_path)
    to = str(tmp_path / "c")
    with pytest.raises(JobError, match="cannot be merged with itself"):
        merge([one, two, one], to=to)
    with pytest.raises(JobError, match="name two or more"):
        merge([one], to=to)
    with pytest.raises(JobError, match="one of the workspaces to merge"):
        merge([one, two], to=two)
    write_job(tmp_path / "other", {"x.jsonl": texts(7)}, counting='direction = "right"', min_count=2)
    count(tmp_path / "other")
    other = str(tmp_path / "other" / "w")
    with pytest.raises(
        JobError, match=r"vocabulary.min_count is 5 and 2; counting.direction is 'left' and 'right'"
    ):
        merge([one, other], to=to)
    with pytest.raises(JobError, match="holds another job"):
        merge([one, two], to=other)
    shutil.copytree(tmp_path / "one" / "w", tmp_path / "copy")
    with pytest.raises(JobError, match=r"both hold the file one.jsonl"):
        merge([one, str(tmp_path / "copy")], to=to)
    copy = tmp_path / "copy"
    (copy / "job.toml").write_text(NO_CORPUS)
    with pytest.raises(JobError, match="copy is of a job that reads no corpus: it cannot be merged"):
        merge([one, str(copy)], to=to)
    (copy / "job.toml").write_text(TOPICS)
    with pytest.raises(
        JobError, match=r"one/w is of method psdvec and .*copy of topics: they cannot be merged"
    ):
        merge([one, str(copy)], to=to)
    (copy / "manifest" / "tokens.json").unlink()
    with pytest.raises(JobError, match="copy has read no corpus yet: run its job first"):
        merge([one, str(copy)], to=to)
    assert not Workspace.exists(to)
    (damaged,) = (tmp_path / "two" / "w").glob("tokens/**/*.tokens.parquet")
    damaged.write_bytes(damaged.read_bytes()[:-9])
    with pytest.raises(
        OSError, match="is damaged: run the job of its workspace again, and merge again after that"
    ):
        merge([one, two], to=to)


def test_what_was_withdrawn_from_one_stays_out_of_the_merge(tmp_path):
    one, two, _ = apart(tmp_path)
    withdraw(one, documents=["one-3"])
    merge([one, two], to=str(tmp_path / "c"), until=LAST)
    ids = Workspace.open(tmp_path / "c").table("documents")["id"].to_pylist()
    assert "one-3" not in ids
    assert (tmp_path / "c" / "withdrawn.json").exists()
    write_file(tmp_path / "more", "more.jsonl", texts(8))
    shutil.copy(tmp_path / "one" / "job.toml", tmp_path / "more" / "job.toml")
    text = (tmp_path / "more" / "text" / "more.jsonl").read_text().replace("more-0", "one-3")
    (tmp_path / "more" / "text" / "more.jsonl").write_text(text)
    count(tmp_path / "more")
    with pytest.raises(JobError, match="document 'one-3' was withdrawn"):
        merge([one, str(tmp_path / "more" / "w")], to=str(tmp_path / "d"), until=LAST)
