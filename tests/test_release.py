"""What a release is made from: the files beside the package say the same as the package."""

from __future__ import annotations

import itertools
import re
import tomllib
from importlib import import_module
from pathlib import Path

import yaml
from packaging.requirements import Requirement

import distembed

ROOT = Path(__file__).resolve().parents[1]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PROJECT = PYPROJECT["project"]
CONDA_NAMES = {"dask": {"dask-core", "distributed"}, "matplotlib": {"matplotlib-base"}}


def test_the_conda_recipe_asks_for_what_the_package_does():
    """The same libraries, built with the same tools, and no older extras."""
    recipe = yaml.safe_load((ROOT / "deploy" / "conda" / "recipe.yaml").read_text())
    python, *listed = recipe["requirements"]["run"]
    assert python == "python >=${{ python_min }}"
    assert PROJECT["requires-python"] == f">={recipe['context']['python_min']}"
    needed = map(Requirement, PROJECT["dependencies"])
    assert sorted(listed) == sorted(
        f"{name} {each.specifier}" for each in needed for name in CONDA_NAMES.get(each.name, {each.name})
    )
    build_system = map(Requirement, PYPROJECT["build-system"]["requires"])
    assert recipe["requirements"]["host"][2:] == [f"{each.name} {each.specifier}" for each in build_system]
    commands = [f"{name} = {function}" for name, function in PROJECT["scripts"].items()]
    assert recipe["build"]["python"]["entry_points"] == commands
    extras = map(Requirement, itertools.chain(*PROJECT["optional-dependencies"].values()))
    allowed = {each.name.lower(): str(each.specifier) for each in extras}
    constraints = dict(each.split() for each in recipe["requirements"]["run_constraints"])
    assert {name: allowed.get(name) for name in constraints} == constraints


def test_workflows_call_what_a_contributor_can_call():
    for workflow in (ROOT / ".github" / "workflows").iterdir():
        jobs = yaml.safe_load(workflow.read_text())["jobs"].values()
        commands = [step["run"] for job in jobs for step in job["steps"] if "run" in step]
        assert commands
        for command in commands:
            file = ROOT / command.split()[0]
            assert not command.startswith(".ci/") or file.stat().st_mode & 0o100, command


def test_every_python_that_is_promised_is_tested():
    jobs = yaml.safe_load((ROOT / ".github" / "workflows" / "test.yml").read_text())["jobs"]
    newest = [
        step["with"]["python-version"]
        for step in jobs["newest"]["steps"]
        if "python-version" in step.get("with", {})
    ]
    tested = jobs["everything"]["strategy"]["matrix"]["python"] + newest
    promised = [each.rpartition(" ")[2] for each in PROJECT["classifiers"] if "Python :: 3." in each]
    assert tested == promised
    assert PROJECT["requires-python"] == f">={tested[0]}"


def test_the_citation_names_the_five_papers():
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    named = " ".join(reference["notes"] for reference in cited["references"])
    assert len(cited["references"]) == 5
    assert set(re.findall(r"distembed\.(\w+)", named)) <= set(distembed.__all__)


def test_the_changelog_has_a_heading_for_each_release():
    headings = re.findall(r"^## (.*)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert headings[-1] == "0.1.0: first release"
    assert all(re.match(r"\d+\.\d+\.\d+: ", heading) for heading in headings)


def test_the_package_says_that_its_types_can_be_read():
    assert (ROOT / "distembed/py.typed").exists()
    assert PYPROJECT["tool"]["mypy"]["modules"] == ["tests.typing.program"]
    assert "py.typed" in PYPROJECT["tool"]["setuptools"]["package-data"]["distembed"]


def test_every_benchmark_uses_names_that_there_are():
    modules = [f"benchmarks.{file.stem}" for file in sorted((ROOT / "benchmarks").glob("*.py"))]
    assert len(modules) > 20
    for module in modules:
        import_module(module)
