"""The rules of the house hold: layers, pure block functions, types and lint."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import cache
from graphlib import TopologicalSorter
from itertools import product
from pathlib import Path
from typing import NamedTuple

import grimp
import pytest

ROOT = Path(__file__).resolve().parents[1]


@cache
def sources() -> dict[str, str]:
    """Return the text of every module of the package by its path."""
    package = ROOT / "distembed"
    return {path.relative_to(package).as_posix(): path.read_text() for path in package.rglob("*.py")}


def test_help_loads_no_numerical_library():
    program = (
        "import sys\nfrom click.testing import CliRunner\nfrom distembed.cli.main import cli\n"
        "assert CliRunner().invoke(cli, ['--help']).exit_code == 0\n"
        "print(sorted({'numba', 'sklearn', 'scipy', 'matplotlib', 'pyarrow'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


@cache
def imports() -> grimp.ImportGraph:
    """Return which module imports which, packages from outside included."""
    return grimp.build_graph("distembed", include_external_packages=True, exclude_type_checking_imports=True)


NOT_MATHEMATICS = {"dask", "distributed", "zarr", "fsspec", "pyarrow", "logging", "os", "pathlib"}
MATHEMATICS = {"distembed.linalg.chunks", "distembed.linalg.columns", "distembed.linalg.csr"}
"""Modules under the same rule as block functions, beside those whose name ends in `blocks`."""


def block_modules(modules: set[str]) -> list[str]:
    of_store = "distembed.storage.blocks"  # which moves their bytes
    found = (name for name in modules if name.endswith((".blocks", "_blocks")) or name in MATHEMATICS)
    return sorted(name for name in found if name != of_store)


def test_block_functions_are_mathematics_only():
    """A file named `blocks.py` or `*_blocks.py` reaches no engine, no store, no file, by no detour."""
    modules = block_modules(imports().modules)
    assert len(modules) > 8
    others = product(modules, NOT_MATHEMATICS & imports().modules)
    chains = [imports().find_shortest_chain(module, other) for module, other in others]
    assert list(filter(None, chains)) == []


def test_no_modules_import_each_other():
    """Neither directly nor by a detour."""
    own = {name for name in imports().modules if name.startswith("distembed")}
    graph = {name: imports().find_modules_directly_imported_by(name) & own for name in own}
    TopologicalSorter(graph).prepare()


# --- what the source of a module may not hold --------------------------------------------------------------------

LIFTS = {
    "map_blocks", "blockwise", "reduction", "delayed", "compute", "map_overlap", "apply_gufunc", "from_map",
    "to_delayed",
}  # fmt: skip
HARMLESS = {"fsspec.implementations.local", "fsspec.config", "fsspec.utils"}
"""What of fsspec any module may import: it parses no URL."""

OPENERS = (
    "fsspec", "dask.bag", "dask.bytes", "dask.dataframe", "pyarrow.fs", "requests", "aiohttp", "urllib.request",
)  # fmt: skip
"""Packages and modules that open URLs, whatever their protocol."""


@cache
def nodes(source: str) -> tuple[ast.AST, ...]:
    return tuple(ast.walk(ast.parse(source)))


def lifts_of_dask(source: str) -> Iterator[str]:
    """Yield the places of a module where a function is lifted, or a result fetched, past `execution`."""
    for node in nodes(source):
        if isinstance(node, ast.Attribute) and node.attr in LIFTS:
            yield f"line {node.lineno}: .{node.attr}"
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("dask"):
            yield from (f"line {node.lineno}: {name.name}" for name in node.names if name.name in LIFTS)


def opened_past_the_gate(source: str) -> Iterator[str]:
    """Yield the places of a module that import what opens URLs, or have a store of Zarr parse one."""
    for node in nodes(source):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import | ast.ImportFrom) else []
        if isinstance(node, ast.ImportFrom):
            names = [str(node.module), *(f"{node.module}.{name}" for name in names)]
        opens = [name for name in names if f"{name}.".startswith(tuple(f"{opener}." for opener in OPENERS))]
        if opens and not HARMLESS & {*opens}:
            yield f"line {node.lineno}: {opens[0]}"
        if isinstance(node, ast.Attribute) and node.attr in ("from_url", "from_uri"):
            yield f"line {node.lineno}: .{node.attr}"


def decompositions(source: str) -> Iterator[str]:
    """Yield what a module calls to decompose or to solve, where it never limits BLAS to one thread."""
    if "one_blas_thread" not in source:
        called = (ast.unparse(node) for node in nodes(source) if isinstance(node, ast.Attribute))
        yield from (
            name for name in called if re.match(r"(np|scipy)\.linalg\.(?!norm|LinAlgError|blas)", name)
        )


CHECKSUMS = {
    **dict.fromkeys(("pq.write_table", "pq.ParquetWriter"), "write_page_checksum"),
    **dict.fromkeys(("pq.read_table", "pq.ParquetFile"), "page_checksum_verification"),
}


def unchecked_pages(source: str) -> Iterator[str]:
    """Yield the places of a module where pages of Parquet are written or read without their checksums."""
    for node in nodes(source) if "pq." in source else ():
        option = CHECKSUMS.get(ast.unparse(node.func)) if isinstance(node, ast.Call) else None
        if option and option not in {keyword.arg for keyword in node.keywords}:
            yield f"line {node.lineno}: {ast.unparse(node.func)}"


class Rule(NamedTuple):
    """What finds the breaches of a rule in a source, and the modules it is not for."""

    breaches: Callable[[str], Iterator[str]]
    exempt: set[str]


RULES = {
    "every lift passes through execution": Rule(
        lifts_of_dask,
        # the two that wrap Dask's lifts, and the store, which moves bytes only
        {"execution.py", "lift.py", "storage/tasks.py", "storage/blocks.py"},
    ),
    "files and URLs are opened at one gate": Rule(opened_past_the_gate, {"urls.py"}),
    "pages of Parquet have checksums": Rule(
        unchecked_pages, {"corpus/planning.py"}
    ),  # it reads metadata alone
    "nothing is decomposed by many threads": Rule(
        decompositions,
        # which others lift: a task has one thread
        {
            *(f"factorization/{name}.py" for name in ("blocks", "nmf_rounds", "replicates")),
            "linalg/blocks.py",
        },
    ),
}


@pytest.mark.parametrize("rule", RULES)
def test_no_module_breaks_a_rule(rule):
    breaches, exempt = RULES[rule]
    assert sources().keys() > exempt
    found = {name: [*breaches(text)] for name, text in sources().items() if name not in exempt}
    assert {name: places for name, places in found.items() if places} == {}


def test_no_file_is_too_long():
    """A file is to be divided, where its subject divides, before it has 600 lines."""
    folders = [ROOT / "distembed", ROOT / "tests", ROOT / "docs"]
    paths = [path for folder in folders for path in folder.rglob("*.py") if "_build" not in path.parts]
    lengths = {path.relative_to(ROOT).as_posix(): path.read_text().count("\n") for path in paths}
    assert len(lengths) > 300  # they are found
    assert {name: n_lines for name, n_lines in lengths.items() if n_lines >= 600} == {}
