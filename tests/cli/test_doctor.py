"""The command that examines an installation: what is missing is named, and what is wrong ends it with 1."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import pytest

from distembed.cli import doctor
from tests.commands import run


def test_what_is_needed_and_missing_or_old_is_wrong() -> None:
    requirements = ["numpy>=99", "nosuchpackage>=1", "click>=8", "absent>=1; extra == 'x'"]
    found = {each.name: each for each in doctor.needed_packages(requirements)}
    assert {name: each.is_wrong for name, each in found.items()} == {
        "click": False,
        "nosuchpackage": True,
        "numpy": True,
    }
    assert found["nosuchpackage"].note == "it is needed: pip install 'nosuchpackage>=1'"
    extra = doctor._extra("x", requirements)
    assert extra == ("x", "absent missing", "pip install 'distembed[x]'", False)


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
