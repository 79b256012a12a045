"""What programs read of a job: exit codes, events, and JSON whose fields the reference lists."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import dask.array as da
import pytest

from distembed.states import keep, keeping
from distembed.storage import journal
from distembed.storage.workspace import Workspace
from tests.commands import environment, reopen_stage, run

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGE = (DOCS / "reference/json.md").read_text()


def listed(part: str, number: int) -> set[str]:
    """Return the fields in the first column of a table of a part of the page."""
    text = PAGE.split(f"## `{part} --json`")[1].split("\n## ")[0].split("\n\n|")[1:][number]
    return {name for line in text.splitlines()[2:] for name in re.findall(r"`(\w+)`", line.split("|")[1])}


def events_of(output: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in output.splitlines() if line.startswith("{")]


def test_every_event_has_the_fields_that_the_page_lists(tiny: Path) -> None:
    table = {
        row[0]: set(re.findall(r"`(\w+)`", row[1]))
        for row in re.findall(r"^\| `(\w+)` \| (.*) \|$", PAGE.split("## `status")[0], re.MULTILINE)
    }
    done = run("run", tiny / "job.toml", "--workspace", tiny / "v", "--json")
    events = events_of(done.output)
    assert len(events) == len(done.output.splitlines())
    for event in events:
        assert event.keys() - {"event", "time"} == table[event["event"]]
    stages = events[0]["stages"]
    for name in ("stage_begun", "stage_committed"):
        assert [event["stage"] for event in events if event["event"] == name] == stages
    assert {event["stage"] for event in events if event["event"] == "progress"} <= set(stages)
    assert [event["event"] for event in events[-2:]] == ["stage_committed", "run_finished"]
    again = [
        event["event"]
        for event in events_of(run("run", tiny / "job.toml", "--workspace", tiny / "v", "--json").output)
    ]
    assert again.count("stage_skipped") == len(stages)
    assert again[-1] == "run_finished"


def test_status_and_plan_have_the_fields_that_the_page_lists(tiny: Path) -> None:
    for command, code in (("status", 0), ("plan", 0)):
        done = run(command, tiny / "job.toml", "--json")
        assert done.exit_code == code
        found = json.loads(done.output)
        assert found.keys() == listed(command, 0)
        assert all(stage.keys() == listed(command, 1) for stage in found["stages"])
    assert found["nothing_left"]
    assert run("plan", tiny / "job.toml").output.startswith("nothing is left to do: all 8 stages are done\n")
    scores = json.loads(run("status", tiny / "w", "--json").output)["scores"]
    assert scores["evaluation.json"][0]["set"] == "first"


def test_status_tells_finished_unfinished_and_empty_apart(tiny: Path) -> None:
    def told(*words: object) -> tuple[int, str]:
        done = run("status", tiny / "job.toml", *words, "--json")
        return done.exit_code, json.loads(done.output)["state"]

    assert told() == (0, "finished")
    assert told("--set", "counting.window=2") == (3, "unfinished")
    assert told("--workspace", tiny / "no") == (4, "empty")
    changed = run("status", tiny / "job.toml", "--set", "counting.window=2").output
    assert "unfinished, 3 of 8 stages are done" in changed


def test_a_run_beside_another_ends_with_3_and_says_so(tiny: Path) -> None:
    with Workspace.create(tiny / "w", owner="another run"):
        done = run("run", tiny / "job.toml", "--json")
    assert done.exit_code == 3
    stopped = events_of(done.output)[-1]
    assert (stopped["event"], stopped["exit_code"]) == ("run_stopped", 3)
    assert f"another run (process {os.getpid()}" in done.output


def test_quiet_prints_nothing(tiny: Path) -> None:
    assert run("run", tiny / "job.toml", "--quiet").output == ""


@pytest.mark.parametrize(("tool", "file"), [("make", "Makefile"), ("snakemake", "Snakefile")])
def test_the_example_of_the_page_makes_the_job(tiny: Path, tool: str, file: str) -> None:
    if shutil.which(tool) is None:
        pytest.skip(f"{tool} is not installed")
    language = {"make": "make", "snakemake": "python"}[tool]
    example = (DOCS / "howto/orchestration.md").read_text().split(f"```{language}\n")[1].split("```")[0]
    (tiny / file).write_text(example)
    (tiny / "bin").mkdir()
    command = tiny / "bin/distembed"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m distembed.cli.main "$@"\n')
    command.chmod(0o755)
    words = [tool, *(["--cores", "1"] if tool == "snakemake" else [])]
    path = {**environment(), "PATH": f"{tiny}/bin{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(words, cwd=tiny, env=path, capture_output=True, text=True, check=False, timeout=200)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (tiny / "runs/a/report/index.html").exists()


def test_an_unfinished_stage_says_how_far_it_is_and_names_none_of_its_states(
    tiny: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stage of a large job has sixty of them."""
    monkeypatch.setattr(journal, "WORKED_SECONDS", 0.0)
    reopen_stage(tiny / "w", "core")
    with Workspace.create(tiny / "w", owner="test") as workspace:
        manifest = workspace.begun()["core"]
        stage = workspace.stage(
            "core", parameters=manifest.parameters, inputs=manifest.inputs, made_with=manifest.made_with
        )
        with keeping(stage):
            keep("basis-0", lambda: da.ones((2, 2)))
        for done in (1, 9, 1, 2):  # it may take more than were announced
            stage.note("rounds", done, 8)
    line = next(line for line in run("status", tiny / "w").output.splitlines() if " core " in line)
    assert re.search(r"not finished: 2 of 8 rounds, about \S+ \S+ of them left", line)
    assert "basis" not in line
