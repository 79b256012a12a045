"""Where numba keeps the compiled kernels."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from distembed import compiled


@pytest.fixture
def sealed(tmp_path, monkeypatch):
    """A package that is not there to be written, a user without a home, and temporary files of the test's own."""
    (tmp_path / "file").write_text("")
    monkeypatch.setenv(
        "XDG_CACHE_HOME", str(tmp_path / "file" / "cache")
    )  # below a file no folder can be made
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path / "file" / "cache"))
    monkeypatch.setenv("HOME", str(tmp_path / "file"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv(compiled.VARIABLE, "")
    return tmp_path / "file" / "package"


def test_kernels_are_kept_in_a_temporary_folder_of_the_user_where_nothing_else_can_be_written(sealed):
    compiled.find_place(sealed)
    place = Path(os.environ[compiled.VARIABLE])
    assert place.parent == sealed.parents[1]
    assert stat.S_IMODE(place.stat().st_mode) == 0o700
    program = "import numba; print(numba.njit(lambda x: x + 1)(1), numba.config.CACHE_DIR)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["2", str(place)]


def test_a_folder_that_others_can_write_is_not_taken(sealed):
    compiled.find_place(sealed)
    shared = Path(os.environ.pop(compiled.VARIABLE))
    shared.chmod(0o777)
    compiled.find_place(sealed)
    assert os.environ[compiled.VARIABLE] != str(shared)


def test_nothing_is_changed_where_the_package_or_the_cache_can_be_written(sealed, tmp_path, monkeypatch):
    compiled.find_place(tmp_path)
    assert not os.environ[compiled.VARIABLE]
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path / "cache"))
    monkeypatch.setenv("HOME", str(tmp_path))
    compiled.find_place(sealed)
    assert not os.environ[compiled.VARIABLE]
