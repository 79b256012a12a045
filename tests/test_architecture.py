"""The rules of the house hold: layers, pure block functions, types and lint."""

from __future__ import annotations

import ast
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


LIFTS = {
    "map_blocks",
    "blockwise",
    "reduction",
    "delayed",
    "compute",
    "map_overlap",
    "apply_gufunc",
    "from_map",
}
OWN_LIFTS = {"execution.py", "storage/tasks.py", "storage/arrays.py"}
"""Where Dask's own lifts may be called: the one place that wraps them, and the store, which moves bytes only."""


def lifts_of_dask(source: str) -> list[str]:
    """Return the places of a module where a function is lifted, or a result fetched, past `execution`."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute) and node.attr in LIFTS:
            found.append(f"line {node.lineno}: .{node.attr}")
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("dask"):
            found += [f"line {node.lineno}: {name.name}" for name in node.names if name.name in LIFTS]
    return found


def test_every_lift_passes_through_execution() -> None:
    """Block functions and callers get aligned arrays only where `execution` lifts and computes."""
    package = ROOT / "distembed"
    files = {path.relative_to(package).as_posix(): path.read_text() for path in package.rglob("*.py")}
    bypasses = {name: lifts_of_dask(source) for name, source in files.items() if name not in OWN_LIFTS}
    assert {name: found for name, found in bypasses.items() if found} == {}


@pytest.mark.parametrize(
    "line",
    ["da.map_blocks(f, x)", "x.map_blocks(f)", "dask.delayed(f)", "x.compute()", "from dask import delayed"],
)
def test_a_lift_past_execution_is_found(line: str) -> None:
    assert lifts_of_dask(line)
