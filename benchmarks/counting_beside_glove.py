"""Time counting beside GloVe's own program: from a text file to the committed counts.

``python -m benchmarks.counting_beside_glove TIMES N_WORDS GLOVE_BUILD TEXT_FILES...`` joins the files (one
article a block, as in data/english) into one file of lower-case words, an article a line, and runs both by turns.
GLOVE_BUILD is the folder of `vocab_count` and `cooccur`. Printed: wall seconds with everything (Python's start
too), CPU seconds, peak memory, and the ratio of the walls; for ours also the seconds of its stages alone.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

import distembed as de
from benchmarks.inputs import articles_of
from benchmarks.measures import DISTEMBED, Ran, alone, ran, run_main, tell

SETTINGS = {
    "window 10, symmetric, harmonic": (
        ["-window-size", "10"],
        {"window": "10", "direction": "symmetric", "weighting": "harmonic"},
    ),
    "window 3, left, flat": (
        ["-window-size", "3", "-symmetric", "0", "-distance-weighting", "0"],
        {"window": "3", "direction": "left", "weighting": "flat"},
    ),
}
JOB = """
[job]
workspace = "{folder}/workspace"
[corpus]
paths = ["{folder}/text.txt"]
pattern = "ascii"
[vocabulary]
max_size = {n_words}
min_count = 1
[resources]
block_memory = "256MiB"
workers = 2
"""


def write_text(sources: tuple[str, ...], target: Path) -> int:
    n_tokens = 0
    with target.open("w") as out:
        for words in articles_of(*sources):
            n_tokens += len(words)
            out.write(" ".join(words) + "\n")
    return n_tokens


def checked(*words: object, **pipes: object) -> Ran:
    found = ran(*words, stderr=subprocess.DEVNULL, **pipes)
    assert found.code == 0, words
    return found


def glove(build: str, folder: Path, n_words: int, options: list[str]) -> Ran:
    text, vocabulary = folder / "text.txt", folder / "vocab.txt"
    with text.open() as source, vocabulary.open("w") as target:
        command = [f"{build}/vocab_count", "-max-vocab", n_words, "-verbose", "0"]
        first = checked(*command, stdin=source, stdout=target)
    with text.open() as source, (folder / "cooccurrences.bin").open("w") as target:
        command = [f"{build}/cooccur", *options, "-memory", "4", "-vocab-file", vocabulary, "-verbose", "0"]
        second = checked(*command, stdin=source, stdout=target, cwd=folder)
    peak = max(first.peak_bytes, second.peak_bytes)
    return Ran(first.wall + second.wall, first.cpu + second.cpu, peak, 0, "")


def ours(folder: Path, options: dict[str, str]) -> Ran:
    shutil.rmtree(folder / "workspace", ignore_errors=True)
    settings = [word for key, value in options.items() for word in ("--set", f"counting.{key}={value}")]
    return checked(*DISTEMBED, "run", folder / "job.toml", *settings, "--until", "cooccurrence")


def stage_seconds(folder: Path) -> str:
    stages = de.Workspace.open(str(folder / "workspace")).stages()
    return ", ".join(f"{name} {manifest.facts['wall_seconds']:.1f}" for name, manifest in stages.items())


def main(times: int, n_words: int, build: str, *sources: str) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        # In a process of its own: a child's peak memory counts what its parent held when it was started.
        tell(f"{alone(write_text, sources, folder / 'text.txt'):,} tokens, {n_words} words")
        (folder / "job.toml").write_text(JOB.format(folder=folder, n_words=n_words))
        ours(folder, SETTINGS["window 3, left, flat"][1])  # compiles what is not compiled yet
        for setting, (theirs, own) in SETTINGS.items():
            for _ in range(times):
                first, second = glove(build, folder, n_words, theirs), ours(folder, own)
                tell(f"{setting}: GloVe {first}; distembed {second}; {first.wall / second.wall:.2f} times")
                tell(f"    {stage_seconds(folder)}")


if __name__ == "__main__":
    run_main(main)
