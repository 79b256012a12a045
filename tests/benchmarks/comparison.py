"""Planted changes: how many a comparison finds, and how many it reports where there are none, beside Procrustes.

Simple English Wikipedia is divided at random into two parts of documents, so that no word differs. Then words of
similar counts change places in the second part, each in a share of its occurrences. `plant` writes the text, a job and
the truth; `distembed run` compares the parts; `score` prints power and false alarms, and those of vectors of each part
that are rotated onto each other: positive PMI with a singular value decomposition, and skip-gram of gensim.
"""

from __future__ import annotations

import argparse
import csv
import json
import re
from pathlib import Path
from typing import Any

import numpy as np

import distembed as de

SHARES = (0.1, 0.25, 0.5, 1.0)
BANDS = ((50, 150), (150, 500), (500, 2500))
"""Occurrences in a part of the words that are swapped."""
WORD = re.compile(r"[^\W\d_]+")

JOB = """\
[job]
system = "comparison"
workspace = "w"
[corpus]
paths = ["text.jsonl"]
id_field = "id"
label_field = "part"
[vocabulary]
min_count = 20
[counting]
window = 5
weighting = "dynamic"
[resources]
workers = 1
"""


def documents(path: Path, n_tokens: int) -> list[str]:
    """Return the first documents of a file of blocks that have so many tokens together."""
    found, total = [], 0
    block: list[str] = []
    for line in de.formats.streams.open_text(str(path)) if False else _lines(path):
        if line.strip():
            block.append(line)
            continue
        if block:
            found.append(" ".join(block).lower())
            total += len(found[-1].split())
            block = []
        if total >= n_tokens:
            break
    return found


def _lines(path: Path) -> Any:
    import lzma

    with lzma.open(path, "rt", encoding="utf-8") as file:
        yield from file


def plant(options: argparse.Namespace) -> None:
    """Write the text of two parts, the second with swapped words, the truth and a job."""
    rng = np.random.default_rng(options.seed)
    texts = documents(Path(options.text), options.tokens)
    is_second = rng.random(len(texts)) < options.second
    counts = [
        _counts([text for text, second in zip(texts, is_second, strict=True) if second == part])
        for part in (0, 1)
    ]
    swaps, truth = {}, []
    for low, high in BANDS:
        words = [
            w
            for w, n in counts[1].items()
            if low <= n < high and low <= counts[0].get(w, 0) < high and len(w) > 2
        ]
        words.sort(key=lambda word: (counts[1][word], word))
        starts = rng.permutation(len(words) // 2)[: options.pairs * len(SHARES)]
        for number, start in enumerate(starts):
            one, other = words[2 * start], words[2 * start + 1]
            share = SHARES[number % len(SHARES)]
            swaps |= {one: (other, share), other: (one, share)}
            truth += [(word, SHARES[number % len(SHARES)], low) for word in (one, other)]

    def swapped(found: re.Match[str]) -> str:
        word = found[0]
        other, share = swaps.get(word, (word, 0.0))
        return other if rng.random() < share else word

    folder = Path(options.folder)
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "text.jsonl").open("w") as file:
        for number, (text, second) in enumerate(zip(texts, is_second, strict=True)):
            own = WORD.sub(swapped, text) if second else text
            file.write(
                json.dumps({"id": f"d{number}", "part": "two" if second else "one", "text": own}) + "\n"
            )
    with (folder / "truth.csv").open("w") as file:
        csv.writer(file).writerows([("word", "share", "band"), *truth])
    (folder / "job.toml").write_text(JOB)


def _counts(texts: list[str]) -> dict[str, int]:
    found: dict[str, int] = {}
    for text in texts:
        for word in WORD.findall(text):
            found[word] = found.get(word, 0) + 1
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(required=True)
    one = commands.add_parser("plant")
    one.add_argument("folder")
    one.add_argument("--text", default="../shared/data/english/simplewiki2021-0.txt.xz")
    one.add_argument("--tokens", type=int, default=5_000_000)
    one.add_argument("--second", type=float, default=0.5, help="the share of documents in the second part")
    one.add_argument("--pairs", type=int, default=12, help="pairs of each band and share")
    one.add_argument("--seed", type=int, default=0)
    one.set_defaults(run=plant)
    options = parser.parse_args()
    options.run(options)


if __name__ == "__main__":
    main()
