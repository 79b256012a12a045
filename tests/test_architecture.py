"""The rules of the house hold: layers, pure block functions, types and lint."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.mark.parametrize(
    "command",
    [
        ["-c", "from importlinter.cli import lint_imports_command; lint_imports_command()"],
        ["-m", "ruff", "check", "distembed", "tests"],
        ["-m", "ruff", "format", "--check", "distembed", "tests"],
        ["-m", "mypy"],
    ],
    ids=["import-linter", "ruff", "format", "mypy"],
)
def test_rules(command: list[str]) -> None:
    done = subprocess.run([sys.executable, *command], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]


def test_help_loads_no_numerical_library() -> None:
    """`--help` answers at once: it imports neither numba nor scikit-learn."""
    program = (
        "import sys\nfrom click.testing import CliRunner\nfrom distembed.pipeline.cli import cli\n"
        "assert CliRunner().invoke(cli, ['--help']).exit_code == 0\n"
        "print(sorted({'numba', 'sklearn', 'scipy', 'matplotlib', 'pyarrow'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
