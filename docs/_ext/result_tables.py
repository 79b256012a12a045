"""The tables of figures in README and docs, written from `docs/results/figures.toml`, their one home.

`python docs/_ext/result_tables.py` writes the tables between the markers of their pages; with `--older` it lists the
runs whose code has changed since their commit. `tests/docs/test_results.py` fails if a table was edited by hand.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from collections import defaultdict
from pathlib import Path
from textwrap import fill, indent
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
FILE = "docs/results/figures.toml"
BLOCK = re.compile(r"(<!-- figures: (\w+) -->\n).*?(<!-- end of figures -->)", re.DOTALL)

Run = dict[str, Any]
Results = dict[str, dict[str, Run]]


def results(root: Path = ROOT) -> Results:
    """Return the runs and the tables of the file of results."""
    return tomllib.loads((root / FILE).read_text(encoding="utf-8"))


def pages(root: Path = ROOT) -> dict[Path, str]:
    """Return the pages that have such tables, with their text."""
    every = (root / "README.md", *sorted((root / "docs").rglob("*.md")))
    texts = {page: page.read_text(encoding="utf-8") for page in every if "_build" not in page.parts}
    return {page: text for page, text in texts.items() if BLOCK.search(text)}


def written(text: str, found: Results) -> str:
    """Return a page with its tables as the file has them; a table or figure that the file lacks is a KeyError."""
    return BLOCK.sub(lambda block: f"{block[1]}{table(found, block[2])}{block[3]}", text)


def table(found: Results, name: str) -> str:
    """Return one table as Markdown, with the origin of its figures below it."""
    one = found["tables"][name]
    figures = {key: run.get("figures") for key, run in found["runs"].items()}
    runs = [found["runs"][key] for key in one["runs"]]
    notes = {"origins": _origins, "posts": _posts, "commands": _commands}[one.get("notes", "posts")]
    return f"{one['rows'].format_map(figures)}\n{notes(runs)}\n\n"


def _origins(runs: list[Run]) -> str:
    """Return machine, commit and date of some runs, each machine once."""
    groups: dict[str, list[str]] = defaultdict(list)
    for run in runs:
        groups[run["machine"]].append(f"{run['of']} ({run['commit']}, {run['date']})")
    sentences = (f"{machine}: {', '.join(each)}." for machine, each in groups.items())
    return fill(" ".join(sentences), 118, break_on_hyphens=False)


def _posts(runs: list[Run]) -> str:
    """Return the origins, and what was done to the figures."""
    posts = dict.fromkeys(run["post"] for run in runs if "post" in run)
    return fill(" ".join([_origins(runs), *posts]), 118, break_on_hyphens=False)


def _commands(runs: list[Run]) -> str:
    """Return a list item for each command, with its runs."""
    groups: dict[str, list[Run]] = defaultdict(list)
    for run in runs:
        groups[run["command"].strip()].append(run)
    return "\n\n".join(
        "-" + indent(f"{_posts(each)}\n\n```bash\n{command}\n```", "  ")[1:]
        for command, each in groups.items()
    )


def older(root: Path = ROOT) -> list[str]:
    """Return a line for every run whose code has commits after the one that it measured."""
    lines = []
    for name, run in results(root)["runs"].items():
        command = ["git", "log", "--oneline", "--no-merges", f"{run['commit']}..HEAD", "--", *run["measures"]]
        shown = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True)  # noqa: S603
        log = shown.stdout.splitlines()
        if log:
            lines.append(
                f"{name}: {run['commit']} of {run['date']}, {len(log)} commits since, the last {log[0]}"
            )
    return lines


if __name__ == "__main__":
    if "--older" in sys.argv[1:]:
        sys.stdout.write("".join(f"{line}\n" for line in older()))
    else:
        for target, text in pages().items():
            target.write_text(written(text, results()), encoding="utf-8")
