"""Published figures: README and docs show what `docs/results/figures.toml` has, and old figures are named."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from runpy import run_path

ROOT = Path(__file__).resolve().parents[2]
TABLES = run_path(str(ROOT / "docs/_ext/result_tables.py"))
NUMBERS = re.compile(r"^\|[-|: ]*--:[-|: ]*$", re.MULTILINE)
PUBLISHED = [
    ROOT / "README.md",
    ROOT / "docs/index.md",
    ROOT / "docs/results/summary.md",
    *sorted(ROOT.glob("docs/guide/*.md")),
]


def test_every_published_table_is_the_one_of_the_file_of_results() -> None:
    found, pages = TABLES["results"](), TABLES["pages"]()
    assert [page for page, text in pages.items() if TABLES["written"](text, found) != text] == []
    blocks = [name for text in pages.values() for _, name, _ in TABLES["BLOCK"].findall(text)]
    assert set(blocks) == set(found["tables"])
    assert {run for table in found["tables"].values() for run in table["runs"]} == set(found["runs"])


def test_no_published_figure_is_missing_in_the_file_of_results() -> None:
    """A table of numbers stands between markers, and so does what the prose of the summary says after a point."""
    prose = {page: TABLES["BLOCK"].sub("", page.read_text(encoding="utf-8")) for page in PUBLISHED}
    assert [page for page, text in prose.items() if NUMBERS.search(text)] == []
    section = prose[ROOT / "README.md"].partition("\n## Measured\n")[2].partition("\n## ")[0]
    written = set(re.findall(r"\d+\.\d+", section + prose[ROOT / "docs/results/summary.md"]))
    assert written <= set(re.findall(r"\d+\.\d+", (ROOT / TABLES["FILE"]).read_text(encoding="utf-8")))


def test_the_command_names_the_figures_that_are_older_than_their_code(tmp_path: Path) -> None:
    def git(*words: str) -> str:
        who = ("-c", "user.name=a", "-c", "user.email=a@b.c")
        return subprocess.run(
            ["git", *who, *words], cwd=tmp_path, capture_output=True, text=True, check=True
        ).stdout.strip()

    git("init", "-q")
    for name in ("fast.py", "slow.py"):
        (tmp_path / name).write_text("1")
        git("add", name)
        git("commit", "-qm", f"Add {name}")
    run = '[runs.{0}]\ncommit = "{1}"\ndate = 2026-01-01\nmeasures = ["{0}.py"]\n'
    file = tmp_path / TABLES["FILE"]
    file.parent.mkdir(parents=True)
    file.write_text("".join(run.format(name, git("rev-parse", "HEAD~1")) for name in ("fast", "slow")))
    assert [line.partition(":")[0] for line in TABLES["older"](tmp_path)] == ["slow"]
