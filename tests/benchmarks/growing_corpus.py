"""What adding text costs beside counting all of it: processor seconds and bytes of each stage, and equal digests.

    python -m tests.benchmarks.growing_corpus                                    # 20.5 M + 2.2 M tokens
    python -m tests.benchmarks.growing_corpus --all                              # 73.8 M + 8.7 M tokens
    python -m tests.benchmarks.growing_corpus --counting 'subsample = 1e-3'      # other keys of [counting]

The corpus is that of `jobs/english.toml`, cut into files of plain text, with new articles of 2018 added. Rounds are:
the old text from scratch, the new text added to that, with and without `vocabulary.freeze`, and all text from scratch.
"""

from __future__ import annotations

import argparse
import json
import lzma
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

from distembed.job.opening import open_job
from distembed.job.progress import Silent
from distembed.job.run import run_stages
from distembed.storage import Workspace
from tests.benchmarks.measures import tell, tell_head, tell_row
from tests.growing_corpus import LAST

ENGLISH = Path(__file__).resolve().parents[3] / "shared" / "data" / "english"
NEW = "enwiki2018-new.txt.xz"
OLD = ("simplewiki2021-0.txt.xz", "enwiki2018-0.txt.xz")
STAGES = ("tokens", "vocabulary", "partial_counts", "cooccurrence")
JOB = """
[job]
title = "a growing corpus"
workspace = "w"
[corpus]
paths = ["text"]
layout = "blocks"
pattern = "ascii"
[vocabulary]
{vocabulary}
[counting]
window = 3
direction = "left"
{counting}
[psdvec]
n_components = 200
[resources]
block_memory = "64MiB"
workers = 2
"""


class Clock(Silent):
    """A reporter that takes the processor seconds of each stage, and the bytes of runs that were written."""

    def __init__(self, place: Path) -> None:
        super().__init__()
        self.place, self.seconds, self.run_bytes, self.lines = place, dict[str, float](), 0, list[str]()

    def note(self, message: str) -> None:
        self.lines.append(message)

    def tell(self, event: str, line: str = "", **facts: Any) -> None:
        super().tell(event, line, **facts)
        if event == "stage_begun":
            self.begun = time.process_time()
        if event == "stage_committed":
            stage = str(facts["stage"])
            self.seconds[stage] = time.process_time() - self.begun
            if stage == "partial_counts":
                self.run_bytes = sum(
                    file.stat().st_size for file in self.place.rglob("partial_counts/*.counts")
                )


def count(folder: Path, name: str, *settings: str) -> Clock:
    """Count the text of a folder in a workspace, in this process."""
    clock = Clock(folder / name)
    job = open_job(str(folder / "job.toml"), settings=settings, workspace=str(folder / name))
    run_stages(job, until=LAST, reporter=clock)
    return clock


def cut(source: Path, folder: Path, *, bytes_each: int, most: int | None = None) -> None:
    """Write a file of text as several, cut at the ends of documents."""
    with lzma.open(source, "rt", encoding="utf-8") as file:
        text = file.read(-1 if most is None else most)
    pieces, first = 0, 0
    while first < len(text):
        last = text.find("\n\n", first + bytes_each)
        last = len(text) if last < 0 else last + 2
        (folder / f"{source.name.split('.')[0]}-{pieces:02d}.txt").write_text(
            text[first:last], encoding="utf-8"
        )
        pieces, first = pieces + 1, last


def show(what: str, clock: Clock, full: Clock) -> None:
    """Print a row: the seconds of each stage, their sum, and the bytes of runs, as shares of those of all text."""
    seconds, whole = ([one.seconds[stage] for stage in STAGES] for one in (clock, full))
    tell_row(
        what,
        *(f"{value:.1f}" for value in seconds),
        f"{sum(seconds):.1f}",
        f"{(seconds[0] + seconds[2]) / (whole[0] + whole[2]):.0%}",
        f"{sum(seconds) / sum(whole):.0%}",
        f"{clock.run_bytes / full.run_bytes:.0%}",
    )


def measure(root: Path, vocabulary: str, counting: str, *, whole: bool) -> None:
    """Print the table of one vocabulary, and whether the digests are equal."""
    text = root / "text"
    text.mkdir(parents=True)
    (root / "job.toml").write_text(JOB.format(vocabulary=vocabulary, counting=counting))
    names = sorted(path.name for path in ENGLISH.glob("*-?.txt.xz")) if whole else OLD
    for name in names:
        cut(ENGLISH / name, text, bytes_each=16 << 20)
    old = count(root, "grown")
    shutil.copytree(root / "grown", root / "frozen")
    cut(ENGLISH / NEW, text, bytes_each=16 << 20, most=None if whole else 13_500_000)
    added, kept = count(root, "grown"), count(root, "frozen", "vocabulary.freeze=true")
    full = count(root, "full")
    tell(f"[vocabulary] {vocabulary}: {json.dumps(added.lines[-8:], indent=1)}")
    tell_head("", *STAGES, "all four, s", "of reading and counting", "of all four", "of bytes of runs")
    for what, clock in (("the old text", old), ("the new text added", added), ("added, words frozen", kept),
                        ("all text", full)):  # fmt: skip
        show(what, clock, full)
    equal = Workspace.open(root / "grown").digest() == Workspace.open(root / "full").digest()
    tell(f"digests of added and of all text are {'equal' if equal else 'DIFFERENT'}")


def main() -> None:
    """Measure what adding costs."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--counting", default="")
    asked = parser.parse_args()
    for vocabulary in ("max_size = 30000\nmin_count = 5", "min_count = 5"):
        with tempfile.TemporaryDirectory() as root:
            measure(Path(root) / "job", vocabulary, asked.counting, whole=asked.all)


if __name__ == "__main__":
    main()
