"""The command that examines an installation: what is missing is named, and what is wrong ends it with 1."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import pytest

from distembed.cli import doctor
from tests.commands import run


def test_a_missing_extra_is_a_note_with_the_line_that_installs_it() -> None:
    requirements = [
        "numpy>=2",
        "nosuchpackage>=1; extra == 'x'",
        "click>=8; extra == 'y'",
        "distembed[y]; extra == 'x'",
    ]
    assert doctor._extra("x", requirements) == (
        "x",
        "nosuchpackage missing",
        "pip install 'distembed[x]'",
        False,
    )
    assert doctor._extra("y", requirements)[2:] == ("", False)


def test_what_is_needed_and_missing_or_old_is_wrong() -> None:
    found = doctor.needed_packages(["numpy>=99", "nosuchpackage>=1", "click>=8", "absent>=1; extra == 'x'"])
    assert {each.name: each.is_wrong for each in found} == {
        "click": False,
        "nosuchpackage": True,
        "numpy": True,
    }
    (missing,) = doctor.needed_packages(["nosuchpackage>=1"])
    assert missing.note == "it is needed: pip install 'nosuchpackage>=1'"


def test_a_healthy_installation_keeps_its_promises(tmp_path: Path) -> None:
    done = run("doctor", "--to", tmp_path / "d.json")
    found = json.loads((tmp_path / "d.json").read_text())["tables"]
    assert done.exit_code == 0
    assert list(found) == ["program", "extras", "self check"]
    (small_job,) = found["self check"]
    assert "the same bytes by one worker and by two, a damaged byte found" in small_job["found"]


def test_a_temporary_folder_that_is_none_is_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "file"))
    found = doctor.self_check()
    assert found.is_wrong
    assert str(tmp_path / "file") in found.value
