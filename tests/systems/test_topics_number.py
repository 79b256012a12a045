"""The number of topics that a job chooses: the true one of a generated collection, and none of shuffled words."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import distembed as de
from distembed.factorization import nmf_rounds
from distembed.systems.topics.report import number_sections, number_sentence
from tests.commands import run, succeed
from tests.small_jobs.topics import JOB, collection, write_lines

AUTO: dict[str, Any] = {
    "n_topics": "auto",
    "n_topics_range": [2, 3, 4],
    "compare_with": [],
    "n_starts": 4,
    "init": "random",
}


def job_of(folder: Path, documents: list[dict[str, str | None]]) -> Path:
    write_lines(folder / "collection.jsonl", documents)
    (folder / "job.toml").write_text(JOB)
    return folder / "job.toml"


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return job_of(tmp_path_factory.mktemp("number"), collection())


@pytest.fixture(scope="module")
def finished(job: Path) -> Any:
    return de.run_job(job, until="topics", topics=AUTO)


@pytest.fixture(scope="module")
def chosen(finished: Any) -> de.Workspace:
    workspace: de.Workspace = finished.workspace
    return workspace


def test_the_number_of_classes_is_found(finished: Any, chosen: de.Workspace) -> None:
    rows = chosen.table("n_topics").to_pylist()
    assert [row["n_topics"] for row in rows if row["chosen"]] == [3]
    assert all(row["loss"] > after["loss"] for row, after in pairwise(rows))
    assert chosen.array("vectors").shape[1] == 3
    assert number_sentence(finished.job, chosen).startswith("3 topics: the largest number tried")
    (section,) = number_sections(finished.job, chosen)
    assert section.title == "Number of topics"
    assert "least silhouette" in section.html(section.title)


def test_shuffled_words_have_no_number_of_topics(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    documents = collection()[:60]
    words = random.permutation(" ".join(str(one["text"]) for one in documents).split())
    shuffled = [
        document | {"text": " ".join(part)}
        for document, part in zip(documents, np.array_split(words, 60), strict=True)
    ]
    done = de.run_job(job_of(tmp_path, shuffled), until="n_topics", topics=AUTO)
    assert not done.workspace.stages()["n_topics"].facts["is_stable"]
    said = number_sentence(done.job, done.workspace)
    assert said.startswith("No number of topics is stable")


def test_a_choice_that_was_stopped_keeps_its_finished_starts(
    job: Path, chosen: de.Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, calls = nmf_rounds._advance, []

    def counted(*arguments: Any) -> Any:
        calls.append(1)
        if len(calls) == 20:  # of 24: four starts of two tens of rounds for each of three numbers
            raise OSError("the power is gone")
        return before(*arguments)

    monkeypatch.setattr(nmf_rounds, "_advance", counted)
    with pytest.raises(OSError, match="the power is gone"):
        de.run_job(job, workspace=tmp_path / "w", until="n_topics", topics=AUTO)
    again = de.run_job(job, workspace=tmp_path / "w", until="n_topics", topics=AUTO).workspace
    # The four starts of a number are fitted in memory side by side, where those that were stopped are lost.
    assert len(calls) <= 24 + 4 * 2
    assert again.digest(["n_topics"]) == chosen.digest(["n_topics"])


def test_a_plan_says_what_the_choice_takes(job: Path, tmp_path: Path) -> None:
    words = (
        "--set",
        "topics.n_topics=auto",
        "--set",
        "topics.n_topics_range=[2, 3, 4]",
        "--set",
        "topics.n_starts=4",
    )
    plan = succeed("plan", job, "--workspace", tmp_path / "w", *words).output
    assert (
        'n_topics = "auto" fits 12 times (3 numbers of topics, 4 starts each), about 2.2 times the time'
        in plan
    )


def test_one_start_cannot_be_stable(job: Path, tmp_path: Path) -> None:
    words = ("--set", "topics.n_topics=auto", "--set", "topics.n_starts=1")
    done = run("run", job, "--workspace", tmp_path / "w", *words)
    assert done.exit_code == 2
    assert "give n_starts of 2 or more" in done.stderr
