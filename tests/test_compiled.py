"""Where numba keeps the compiled kernels."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

from distembed import compiled


def test_kernels_are_kept_in_a_folder_of_the_user_where_nothing_else_can_be_written(tmp_path, monkeypatch):
    """A package that is not there to be written, a user without a home, and temporary files of the test's own."""

    def place_of(package: Path) -> str:
        monkeypatch.setenv(compiled.VARIABLE, "")
        compiled.find_place(package)
        return os.environ[compiled.VARIABLE]

    def home(folder: Path) -> None:
        monkeypatch.setenv("HOME", str(folder))
        for variable in ("XDG_CACHE_HOME", "LOCALAPPDATA"):
            monkeypatch.setenv(variable, str(folder / "cache"))

    (tmp_path / "file").write_text("")  # below a file no folder can be made
    package = tmp_path / "file" / "package"
    home(tmp_path / "file")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    first = Path(place_of(package))
    assert first.parent == tmp_path
    assert stat.S_IMODE(first.stat().st_mode) == 0o700
    program = "import numba; print(numba.njit(lambda x: x + 1)(1), numba.config.CACHE_DIR)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["2", str(first)]
    first.chmod(0o777)  # and is not taken again
    assert place_of(package) not in ("", str(first))
    assert not place_of(tmp_path)  # the package can be written
    home(tmp_path)
    assert not place_of(package)
