"""What stages store is what systems declare, and nothing is read that is not declared."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import distembed
from distembed.job.outputs import ArrayOutput, TableOutput
from distembed.job.registry import SYSTEMS
from distembed.job.stage import REPORT, SUMMARY, system_named
from distembed.storage.workspace import Workspace
from tests.commands import run_once, written_once
from tests.small_jobs import topics
from tests.test_promises import SYSTEMS as SMALL

PACKAGE = Path(distembed.__file__).parent


def pattern_of(text):
    """A regular expression for a name or a meaning, of which a job fills in the parts in braces."""
    return re.sub(r"\\\{\w+\\\}", ".*", re.escape(text))


def declared_for(system, spec):
    kinds = {"table": "TableOutput", "files": "FilesOutput", "bytes": "FileOutput", "page": "FileOutput"}
    wanted = kinds.get(spec.kind, "ArrayOutput")
    found = [
        output
        for output in (*system_named(system).outputs, REPORT, SUMMARY)
        if type(output).__name__ == wanted and re.fullmatch(pattern_of(output.name), spec.name)
    ]
    if spec.is_array:
        found = [output for output in found if re.fullmatch(pattern_of(output.meaning), spec.meaning)]
    assert found, f"{system} stores {spec.name}, which its outputs do not declare"
    return found


@pytest.mark.parametrize("system", SYSTEMS)
def test_a_finished_job_holds_what_its_system_declares(system, tmp_path_factory):
    write, settings = SMALL[system].write, SMALL[system].settings
    folder = system
    if system == "topics":  # one with classes, which the tests of its system run
        write, folder = topics.write, "topics-of-classes"
    job = written_once(tmp_path_factory, folder, write)
    words = (word for one in settings for word in ("--set", one))
    workspace = Workspace.open(run_once(tmp_path_factory, job, *words)[0])
    specs = [record.spec for done in workspace.stages().values() for record in done.outputs.values()]
    for spec in (spec for spec in specs if not spec.name.startswith("checkpoints/")):
        outputs = declared_for(system, spec)
        assert spec.temporary in {output.temporary for output in outputs}
        if spec.kind == "table":
            names = set(workspace.table(spec.name).column_names)
            assert any(isinstance(output, TableOutput) and names >= {*output.columns} for output in outputs)
        if spec.is_array:
            dims = {output.dims for output in outputs if isinstance(output, ArrayOutput)}
            assert spec.dims in {*dims, ("left_word", "right_word")}
            kinds = {name for output in outputs for name in output.dtype.split(" or ")}
            assert str(workspace.array(spec.name).dtype) in kinds
            assert spec.units in {output.units for output in outputs}


def names_read(path):
    """The names that a module opens in a workspace by a string of its own."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args):
            continue
        first = node.args[0]
        of_workspace = ast.unparse(node.func.value) not in {"report", "pa"}
        opens = of_workspace and node.func.attr in {"array", "table", "files", "describe"}
        if opens and isinstance(first, ast.Constant) and isinstance(first.value, str):
            yield first.value


def test_every_name_that_is_read_is_declared():
    declared = {output.name for name in SYSTEMS for output in system_named(name).outputs}
    named = {name for name in declared if re.search(r"\w", re.sub(r"\{\w+\}", "", name))}
    patterns = re.compile("|".join(map(pattern_of, named)))
    for folder in ("stages", "systems", "views", "job", "tables"):
        for path in (PACKAGE / folder).rglob("*.py"):
            for name in names_read(path):
                assert patterns.fullmatch(name), f"{path.name} reads {name}"
