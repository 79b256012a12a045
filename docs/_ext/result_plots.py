"""Draw the plots of the pages of results from their tables: `python docs/_ext/result_plots.py`."""

from __future__ import annotations

import re
from pathlib import Path

import matplotlib as mpl
from matplotlib import pyplot as plt
from matplotlib.axes import Axes

DOCS = Path(__file__).resolve().parents[1]
FOLDER = DOCS / "_static/results"


def rows(name: str) -> list[list[str]]:
    """Return the cells of the table below `<!-- table: NAME -->` of a page of results, its head first."""
    pages = "".join(page.read_text(encoding="utf-8") for page in sorted((DOCS / "results").glob("*.md")))
    table = pages.partition(f"<!-- table: {name} -->\n")[2].partition("\n\n")[0]
    lines = [line for line in table.split("\n") if "|--" not in line]
    return [[cell.strip(" *") for cell in line.strip("|").split("|")] for line in lines]


def numbers(cell: str) -> list[float]:
    """Return the numbers of a cell; a comma inside one divides thousands."""
    return [float(one) for one in re.findall(r"[+-]?\d+\.?\d*", re.sub(r"(?<=\d),(?=\d)", "", cell))]


def draw_time(axes: Axes) -> None:
    """Draw the seconds of counting against millions of tokens."""
    counted = [row for row in rows("counting")[1:] if "window 10" in row[0]]
    for column, (label, marker) in enumerate(
        [("GloVe's C programs, wall", "s"), ("distembed, wall", "o")], 1
    ):
        points = [(numbers(row[0])[0], y) for row in counted for y in numbers(row[column])]
        axes.plot(*zip(*points, strict=True), marker, alpha=0.7, label=label)
    large = [(numbers(row[0])[0], numbers(row[1])[0]) for row in rows("growth")[1:]]
    axes.plot(*zip(*large, strict=True), "^-", label="distembed, from XML, processor seconds")
    axes.set(xscale="log", yscale="log", xlabel="million tokens", ylabel="seconds")


def draw_memory(axes: Axes) -> None:
    """Draw the planned beside the measured peak of each stage."""
    stages = rows("memory")[1:]
    for i, label in enumerate(["planned", "measured"], 1):
        places = [place + 0.4 * i - 0.6 for place in range(len(stages))]
        axes.barh(places, [numbers(row[i])[0] / 1024 for row in stages], 0.38, label=label)
    axes.set(yticks=range(len(stages)), yticklabels=[row[0] for row in stages], xlabel="GiB of the process")
    axes.invert_yaxis()


def draw_scores(axes: Axes) -> None:
    """Draw the difference to each rival with its interval."""
    head, *sets = [row for row in rows("rivals") if "analogies" not in row[0]]
    for i, column in enumerate([3, 5]):
        middle, low, high = zip(*(numbers(row[column]) for row in sets), strict=True)
        places = [place + 0.3 * i - 0.15 for place in range(len(sets))]
        axes.hlines(places, low, high, f"C{i}")
        axes.plot(middle, places, "o", label=f"less tuned {head[column - 1]}")
    axes.axvline(0, color="gray", linewidth=0.8)
    axes.set(yticks=range(len(sets)), yticklabels=[row[0] for row in sets], xlabel="points, 95 % interval")
    axes.invert_yaxis()


def draw_starts(axes: Axes) -> None:
    """Draw mean and deviation of the starts of each method."""
    head, *methods = [row for row in rows("starts") if "paper" not in row[0]]
    for i, (label, *cells) in enumerate(methods):
        middle, deviation = zip(*(numbers(cell)[:2] for cell in cells[::2]), strict=True)
        places = [place + 0.15 * (i - 1.5) for place in range(len(middle))]
        axes.errorbar(places, middle, yerr=deviation, fmt="o", capsize=3, label=label)
    collections = [cell.partition(":")[0] for cell in head[1::2]]
    axes.set(xticks=range(len(collections)), xticklabels=collections, ylabel="NMI, 50 starts", ylim=(0, 1))


if __name__ == "__main__":
    mpl.rcParams |= {
        "svg.hashsalt": "results",
        "svg.fonttype": "none",
        "legend.frameon": False,
        "font.size": 9,
    }
    for name in ("time", "memory", "scores", "starts"):
        figure, panel = plt.subplots(figsize=(6, 3.8), layout="constrained")
        globals()[f"draw_{name}"](panel)
        figure.legend(loc="outside upper center", ncols=2)
        figure.savefig(FOLDER / f"{name}.svg", metadata={"Date": None, "Creator": None})
