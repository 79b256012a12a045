"""The documentation: what the program and the README name exists, links lead somewhere, and the reference is whole."""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path
from runpy import run_path
from typing import Any

import pytest

import distembed
from distembed.job.keys import keys_of
from distembed.job.registry import SYSTEMS
from distembed.job.stage import system_named

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
FENCE = re.compile(r"^( *)(```+|~~~+).*?^\1\2 *$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\((?![a-z]+:)([^)\s#]*)(?:#([^)\s]+))?\)")
NAMED = re.compile(r"\bdocs/[\w./-]*\w")


def tracked(*patterns: str) -> list[Path]:
    """Return the files of the checkout that git knows, and those that it does not ignore."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *patterns]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\n")
    return [ROOT / name for name in sorted(set(listed)) if name and (ROOT / name).is_file()]


PAGES = tracked("*.md")


def prose(page: Path) -> str:
    """Return the Markdown of a page without its blocks of code."""
    return FENCE.sub("", page.read_text(encoding="utf-8"))


def anchors(page: Path) -> set[str]:
    """Return the anchors of the headings of a page, as GitHub and MyST make them."""
    headings = re.findall(r"^#+ +(.+)$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


def broken_links(page: Path) -> list[str]:
    """Return the relative links of a page whose file or heading is not there."""
    broken = []
    for path, anchor in LINK.findall(prose(page)):
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and target.suffix == ".md" and anchor not in anchors(target)):
            broken.append(f"{path}#{anchor}")
    return broken


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_of_a_page_leads_somewhere(page):
    assert broken_links(page) == []


def test_every_page_that_the_program_names_exists():
    kinds = ("distembed/*.py", "distembed/demos/*", "jobs/*", "deploy/*", "tests/*.py", "README.md", ".ci/*")
    files = tracked(*kinds)
    named = {(file.name, path) for file in files for path in NAMED.findall(file.read_text(encoding="utf-8"))}
    assert named  # the pattern finds something
    assert [one for one in named if not (ROOT / one[1]).exists() and "_build" not in one[1]] == []


def test_every_public_name_is_on_the_page_of_the_library():
    page = (DOCS / "reference" / "api.md").read_text(encoding="utf-8")
    listed = re.findall(r"^   (\w+)$", page, re.MULTILINE)
    assert sorted(listed) == sorted(set(distembed.__all__) - {"__version__"})


def extension(name: str) -> dict[str, Any]:
    """Return the names of one of the site's own extensions of Sphinx, which imports without Sphinx."""
    return run_path(str(DOCS / "_ext" / f"{name}.py"))


@pytest.mark.parametrize("system", SYSTEMS)
def test_the_pages_of_a_system_have_every_key_and_every_output(system):
    pages = extension("generated_pages")
    page = pages["page_of"](system)
    sections = dict(part.split("]`\n", 1) for part in page.split("\n## `[")[1:])
    assert page.startswith("# ")
    for key in keys_of(system):
        assert f'\n| <a id="{key.section}.{key.name}" ' in sections[key.section]
    section = pages["outputs_page"]().partition(f"\n## `{system}`\n")[2].partition("\n## ")[0]
    for output in system_named(system).outputs:
        assert f"| `{output.name}` |" in section
        assert output.meaning in section


def test_every_extra_every_command_and_the_page_to_explore_are_on_their_pages():
    """The page of commands is written from the group that they join, the page to explore by the build."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    page = (DOCS / "start" / "install.md").read_text(encoding="utf-8")
    assert [name for name in project["optional-dependencies"] if f"`{name}`" not in page] == []
    page = (DOCS / "reference" / "commands.md").read_text(encoding="utf-8")
    assert ".. click:: distembed.cli.main:cli\n   :prog: distembed\n   :nested: full\n" in page
    shown = extension("live_explorer")["TARGET"]
    assert f'<iframe src="{shown}"' in (DOCS / "index.md").read_text(encoding="utf-8")
    assert f"docs/{Path(shown).parent}/" in (ROOT / ".gitignore").read_text(encoding="utf-8").split("\n")
