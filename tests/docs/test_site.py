"""The documentation: what the program and the README name exists, links lead somewhere, and the reference is whole."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

import distembed

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
FENCE = re.compile(r"^( *)(```+|~~~+|:::+).*?^\1\2 *$", re.MULTILINE | re.DOTALL)
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
def test_every_link_of_a_page_leads_somewhere(page: Path) -> None:
    assert broken_links(page) == []


def test_every_page_that_the_program_names_exists() -> None:
    files = tracked(
        "distembed/*.py", "distembed/demos/*", "jobs/*", "deploy/*", "tests/*.py", "README.md", ".ci/*"
    )
    named = {(file.name, path) for file in files for path in NAMED.findall(file.read_text(encoding="utf-8"))}
    assert named  # the pattern finds something
    assert {
        (file, path) for file, path in named if not (ROOT / path).exists() and "_build" not in path
    } == set()


def test_every_folder_of_the_site_is_in_its_navigation() -> None:
    """A page appears by itself: its folder has an index with a glob, and the index is in the first page's tree."""
    home = (DOCS / "index.md").read_text(encoding="utf-8")
    for page in tracked("docs/*.md", "docs/*.ipynb"):
        folder = page.parent.relative_to(DOCS)
        if folder == Path():
            assert page.stem == "index" or re.search(rf"^{page.stem}$", home, re.MULTILINE), page
        else:
            index = (page.parent / "index.md").read_text(encoding="utf-8")
            assert re.search(rf"^{folder}/index$", home, re.MULTILINE), page
            assert re.search(rf"^(\*|{page.stem})$", index, re.MULTILINE), page


def test_every_page_of_figures_is_on_the_site() -> None:
    for page in tracked("tests/benchmarks/*.md"):
        shown = (DOCS / "results" / f"{page.stem.lower()}.md").read_text(encoding="utf-8")
        assert f"```{{include}} ../../tests/benchmarks/{page.name}\n" in shown


def test_every_public_name_is_on_the_page_of_the_library() -> None:
    listed = re.findall(
        r"^   (\w+)$", (DOCS / "reference" / "api.md").read_text(encoding="utf-8"), re.MULTILINE
    )
    assert sorted(listed) == sorted(set(distembed.__all__) - {"__version__"})
