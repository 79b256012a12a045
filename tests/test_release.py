"""What a release is made from: the files beside the package say the same as the package."""

from __future__ import annotations

import itertools
import re
import subprocess
import tomllib
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement

import distembed

ROOT = Path(__file__).resolve().parents[1]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PROJECT = PYPROJECT["project"]
CONDA_NAMES = {"dask": {"dask-core", "distributed"}, "matplotlib": {"matplotlib-base"}}
WORKFLOWS = sorted(file.name for file in (ROOT / ".github" / "workflows").iterdir())


def steps(workflow: str) -> list[dict[str, Any]]:
    jobs = yaml.safe_load((ROOT / ".github" / "workflows" / workflow).read_text())["jobs"]
    return [step for job in jobs.values() for step in job["steps"]]


def conda_recipe() -> dict[str, Any]:
    """Return the recipe as it is written; what the build sets in stands as ${{ ... }}."""
    return yaml.safe_load((ROOT / "deploy" / "conda" / "recipe.yaml").read_text())


def test_the_conda_recipe_asks_for_what_the_package_does():
    recipe = conda_recipe()
    python, *listed = recipe["requirements"]["run"]
    assert python == "python >=${{ python_min }}"
    assert PROJECT["requires-python"] == f">={recipe['context']['python_min']}"
    needed = map(Requirement, PROJECT["dependencies"])
    assert sorted(listed) == sorted(
        f"{name} {each.specifier}" for each in needed for name in CONDA_NAMES.get(each.name, {each.name})
    )


def test_the_conda_recipe_is_built_with_what_the_package_is():
    recipe = conda_recipe()
    build_system = map(Requirement, PYPROJECT["build-system"]["requires"])
    assert recipe["requirements"]["host"][2:] == [f"{each.name} {each.specifier}" for each in build_system]
    commands = [f"{name} = {function}" for name, function in PROJECT["scripts"].items()]
    assert recipe["build"]["python"]["entry_points"] == commands


def test_the_conda_recipe_allows_no_older_extras():
    extras = {
        Requirement(each).name.lower(): str(Requirement(each).specifier)
        for each in itertools.chain(*PROJECT["optional-dependencies"].values())
    }
    constraints = [each.split() for each in conda_recipe()["requirements"]["run_constraints"]]
    assert {name: extras.get(name) for name, _ in constraints} == dict(constraints)


@pytest.mark.parametrize("workflow", WORKFLOWS)
def test_a_workflow_calls_what_a_contributor_can_call(workflow):
    commands = [step["run"] for step in steps(workflow) if "run" in step]
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


TOP = {
    ".ci", ".git_archival.txt", ".gitattributes", ".github", ".gitignore", ".pre-commit-config.yaml", "CHANGELOG.md",
    "CITATION.cff", "CODE_OF_CONDUCT.md", "CONTRIBUTING.md", "LICENSE", "README.md", "SECURITY.md", "benchmarks",
    "deploy", "distembed", "docs", "jobs", "pyproject.toml", "tests",
}  # fmt: skip
"""What may stand at the top of the repository."""


def test_nothing_else_stands_at_the_top_of_the_repository():
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip("this is no checkout")
    assert {name.split("/")[0] for name in listed.stdout.splitlines()} <= TOP


def test_every_benchmark_uses_names_that_there_are():
    modules = [f"benchmarks.{file.stem}" for file in sorted((ROOT / "benchmarks").glob("*.py"))]
    assert len(modules) > 20
    for module in modules:
        import_module(module)
