"""Change a random place of the program, and check whether a test of its folder fails.

    pytest -n 2 --cov=distembed --cov-context=test --cov-report= tests
    python -m tests.campaigns mutations --seed 0 --times 300 [--reached .coverage] [--folders storage job]

A mutation flips a comparison, negates a condition, moves a number by one, drops a statement that only calls, swaps min
and max, any and all, + and -, `and` and `or`, or returns nothing. It is made in a copy of the checkout, in which the
tests of the file and then of its folder run (`tests/X` for `distembed/X`) until one fails. With `--reached`, what
coverage.py wrote in the first command, the nearest `--most` tests run that reach the changed lines; what numba compiles
and what another process runs is not in that file, and has the tests of its folder. A mutation survives if all pass; it
is printed with its place, the line before and the line after. Tests that run longer than `--seconds` are counted apart:
most of them wait for what the mutation keeps from ending. Try N of a seed is always the same: `--first N --times 1`
repeats it.
"""

from __future__ import annotations

import ast
import copy
import difflib
import importlib
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import numba

from tests.benchmarks.measures import needed, tell, tell_head, tell_row

ROOT = Path(__file__).resolve().parents[2]
OPPOSITES: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}
SWAPPED = {"min": "max", "max": "min", "any": "all", "all": "any", "sorted": "list", "minimum": "maximum"}
LIBRARIES = (
    "pytest",
    "hypothesis.stateful",
    "numpy",
    "scipy.sparse.linalg",
    "llvmlite.binding",
    "pandas",
    "click",
    "pyarrow.parquet",
    "zarr.storage",
    "dask.array",
    "distributed",
    "sklearn.utils.estimator_checks",
    "pydantic",
)
"""Imported once, for all forks."""
SURVIVED = (0, 5)
"""The exit codes of pytest where no test failed: all passed, or there was none."""


def flip(node: ast.AST) -> bool:
    if not isinstance(node, ast.Compare):
        return False
    node.ops[0] = OPPOSITES[type(node.ops[0])]()
    return True


def negate(node: ast.AST) -> bool:
    if not isinstance(node, ast.If | ast.IfExp | ast.While):
        return False
    node.test = ast.UnaryOp(ast.Not(), node.test)
    return True


def move(node: ast.AST) -> bool:
    if not isinstance(node, ast.Constant) or type(node.value) is not int:
        return False
    node.value += 1
    return True


def drop(node: ast.AST) -> bool:
    """Drop a statement that calls a function for what it does."""
    if not isinstance(node, ast.Expr) or not isinstance(node.value, ast.Call):
        return False
    node.value = ast.Constant(None)
    return True


def swap(node: ast.AST) -> bool:
    if isinstance(node, ast.Name) and node.id in SWAPPED:
        node.id = SWAPPED[node.id]
    elif isinstance(node, ast.Attribute) and node.attr in SWAPPED:
        node.attr = SWAPPED[node.attr]
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub):
        node.op = ast.Sub() if isinstance(node.op, ast.Add) else ast.Add()
    elif isinstance(node, ast.BoolOp):
        node.op = ast.Or() if isinstance(node.op, ast.And) else ast.And()
    else:
        return False
    return True


def forget(node: ast.AST) -> bool:
    if not isinstance(node, ast.Return) or node.value is None or isinstance(node.value, ast.Constant):
        return False
    node.value = ast.Constant(None)
    return True


MUTATIONS: tuple[Callable[[ast.AST], bool], ...] = (flip, negate, move, drop, swap, forget)


class Mutant(NamedTuple):
    """A changed file: its path, the kind of change, the numbers of the lines, the text, the lines before and after."""

    file: Path
    kind: str
    where: range
    text: str
    lines: str


def places(tree: ast.Module) -> list[int]:
    """Return the numbers of the nodes of functions that may be changed: no signature, no docstring, no annotation."""
    inside: set[int] = set()
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef):
            inside |= {id(node) for statement in function.body for node in ast.walk(statement)}
            inside -= {id(node) for node in ast.walk(function.args)}
    return [number for number, node in enumerate(ast.walk(tree)) if id(node) in inside]


def mutant(file: Path, drawn: random.Random) -> Mutant | None:
    """Return a file with one change at a random place, or None where the change that was drawn fits none."""
    text = file.read_text(encoding="utf-8")
    tree, kind = ast.parse(text), drawn.choice(MUTATIONS)
    nodes = [*ast.walk(tree)]
    fitting = [number for number in places(tree) if kind(copy.deepcopy(nodes[number]))]
    if not fitting:
        return None
    before = ast.unparse(tree)
    changed = nodes[drawn.choice(fitting)]
    part = changed.test if isinstance(changed, ast.If | ast.While) else changed
    where = range(part.lineno, (part.end_lineno or part.lineno) + 1)
    kind(changed)
    after = ast.unparse(ast.fix_missing_locations(tree))
    lines = [
        line for line in difflib.ndiff(before.splitlines(), after.splitlines()) if line[:2] in ("- ", "+ ")
    ]
    return Mutant(file, kind.__name__, where, after, "\n".join(lines))


def reaching(changed: Mutant, reached: Any, most: int) -> list[str]:
    """Return the tests that reach the changed lines, of the file, its folder and others, or those of the folder."""
    contexts = reached.contexts_by_lineno(changed.file.as_posix()) if reached else {}
    found = {name.rpartition("|") for line in changed.where for name in contexts.get(line, ()) if name}
    shared = {
        test.partition("::")[0] for test, _, phase in found if phase == "setup"
    }  # files whose tests share it
    names = shared | {test for test, _, _ in found if test.partition("::")[0] not in shared}
    if not names:
        return tests_of(changed.file)
    near = tests_of(changed.file)
    return sorted(names, key=lambda name: ([not name.startswith(place) for place in near], name))[:most]


def tests_of(file: Path) -> list[str]:
    """Return the tests of a file of the program, then those of its folder."""
    folder = Path("tests") / file.relative_to("distembed").parent
    own = [path.as_posix() for path in [folder / f"test_{file.stem}.py"] if path.exists()]
    if folder == Path("tests"):
        return own or ["tests/test_files.py", "tests/test_execution.py", "tests/test_options.py"]
    return [*own, (folder if folder.exists() else Path("tests/systems")).as_posix()]


def survives(changed: Mutant, number: int, tests: list[str], seconds: float) -> bool | None:
    """Run tests of a mutant in this copy of the checkout; return whether none failed, or None if they did not end."""
    whole = changed.file.read_bytes()
    changed.file.write_text(changed.text, encoding="utf-8")
    os.utime(changed.file, (number, number))  # what Python compiled of another mutant is of another time
    pid = os.fork()
    if pid == 0:
        if "njit" in changed.text:  # what numba compiled of other files has the old lines in it
            os.environ["NUMBA_CACHE_DIR"] = numba.config.CACHE_DIR = str(
                Path.cwd().parent / f"compiled-{number}"
            )
        run_tests(tests)
    deadline = time.monotonic() + seconds
    try:
        while (ended := os.waitpid(pid, os.WNOHANG)) == (0, 0) and time.monotonic() < deadline:
            time.sleep(0.1)
        return os.waitstatus_to_exitcode(ended[1]) in SURVIVED if ended[0] == pid else None
    finally:
        with suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)  # with all that the tests started
        with suppress(ChildProcessError):
            os.waitpid(pid, 0)
        changed.file.write_bytes(whole)


def run_tests(names: list[str]) -> NoReturn:
    """Run tests in this process, a fork that has imported libraries and nothing of the checkout, and end it."""
    os.setsid()
    silent = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(silent, stream)
    for name in [name for name in sys.modules if name.partition(".")[0] in ("tests", "distembed")]:
        del sys.modules[name]
    sys.path[:] = [str(Path.cwd()), *(place for place in sys.path if Path(place).resolve() != ROOT)]
    words = ("-x", "-q", "-n", "0", "-p", "no:cacheprovider", "--no-header")
    os._exit(importlib.import_module("pytest").main([*words, *names]))


def mutants(files: list[Path], *, seed: int, first: int, times: int) -> Iterator[tuple[int, Mutant]]:
    """Yield so many mutants with their numbers; a longer file is drawn more often."""
    sizes = [file.stat().st_size for file in files]
    number = first
    while times > 0:
        drawn = random.Random(f"{seed} {number}")
        found = mutant(drawn.choices(files, sizes)[0], drawn)
        if found is not None:
            times -= 1
            yield number, found
        number += 1


def main(
    *,
    seed: int = 0,
    times: int = 300,
    first: int = 0,
    seconds: float = 600.0,
    folders: tuple[str, ...] = (),
    reached: str = "",
    most: int = 150,
) -> None:
    read = needed("coverage").CoverageData(str(Path(reached).resolve())) if reached else None
    if read:
        read.read()
    with tempfile.TemporaryDirectory(prefix="mutants-") as room:
        place = Path(room) / "checkout"
        shutil.copytree(ROOT, place, ignore=shutil.ignore_patterns(".git", "__pycache__", "_build", "site"))
        os.chdir(place)
        os.environ["PYTHONPATH"] = str(place)
        for library in LIBRARIES:
            importlib.import_module(library)
        files = sorted(path for path in Path("distembed").rglob("*.py") if path.stat().st_size)
        files = [file for file in files if not folders or file.parts[1] in folders]
        tried: dict[str, list[str]] = {}
        for number, changed in mutants(files, seed=seed, first=first, times=times):
            survived = survives(changed, number, reaching(changed, read, most), seconds)
            result = {True: "SURVIVED", False: "fell", None: "did not end"}[survived]
            tried.setdefault(changed.file.parts[1], []).append(result)
            tell(f"{seed}:{number} {changed.file} {changed.kind} {result}")
            if survived:
                tell(changed.lines)
        os.chdir(ROOT)
    tell_head("folder", "mutations", "did not end", "survived")
    for folder, results in sorted(tried.items()):
        tell_row(folder, len(results), results.count("did not end"), results.count("SURVIVED"))
    every = [one for results in tried.values() for one in results]
    n_survived = every.count("SURVIVED")
    tell(f"{len(every)} mutations, {n_survived} survived ({n_survived / max(1, len(every)):.0%})")
