"""Planted changes: how many a comparison finds, and how many it reports where there are none.

Simple English Wikipedia is divided at random into two parts of documents, so that no word differs. Then words of
similar counts change places in the second part, each in a share of its occurrences. `plant` writes the text, a job and
the truth; `distembed run FOLDER/job.toml` compares the parts; `score` prints the power and the false alarms of its
verdicts. Rivals have no verdicts: `rivals` prints how well their distances order the words, and their power at the
threshold that would give so many false alarms, which nobody knows without the truth: positive PMI with a singular value
decomposition and skip-gram (gensim) of each part, turned onto each other (Hamilton et al. 2016).
"""

from __future__ import annotations

import csv
import json
import re
from collections import Counter
from pathlib import Path
from typing import Literal

import numpy as np
from scipy.linalg import orthogonal_procrustes
from sklearn.metrics import roc_auc_score

import distembed as de
from benchmarks.inputs import open_text
from benchmarks.measures import needed, run_main, tell
from distembed.job.load import load_job
from distembed.job.model import data_folder
from distembed.linalg.csr import unit_rows
from distembed.systems.comparison.changes import CHANGED, UNJUDGED, changes_of
from distembed.weighting.pmi import ppmi

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


def documents(path: str, n_tokens: int) -> list[str]:
    """Return the first documents of a file of blocks that have so many tokens together, in lower case."""
    found, total = [], 0
    with open_text(path) as file:
        for text in file.read().lower().split("\n\n"):
            found.append(" ".join(text.split()))
            total += found[-1].count(" ") + 1
            if total >= n_tokens:
                break
    return found


def plant(folder: Path, text: str, tokens: int, second: float, n_pairs: int, seed: int) -> None:
    """Write the text of two parts, the second with swapped words, the truth and a job."""
    rng = np.random.default_rng(seed)
    texts = documents(text, tokens)
    is_second = (rng.random(len(texts)) < second).astype(int)
    counts = [Counter[str](), Counter[str]()]
    for one, part in zip(texts, is_second, strict=True):
        counts[part].update(WORD.findall(one))
    swaps, truth = {}, []
    for low, high in BANDS:
        words = [
            w for w, n in counts[1].items() if low <= n < high and low <= counts[0][w] < high and len(w) > 2
        ]
        words.sort(key=lambda word: (counts[1][word], word))
        for number, start in enumerate(rng.permutation(len(words) // 2)[: n_pairs * len(SHARES)]):
            one, other = words[2 * start], words[2 * start + 1]
            share = SHARES[number % len(SHARES)]
            swaps |= {one: (other, share), other: (one, share)}
            truth += [(one, share), (other, share)]

    def swapped(found: re.Match[str]) -> str:
        word = found[0]
        other, share = swaps.get(word, (word, 0.0))
        return other if rng.random() < share else word

    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "text.jsonl").open("w") as file:
        for number, (one, part) in enumerate(zip(texts, is_second, strict=True)):
            own = WORD.sub(swapped, one) if part else one
            file.write(json.dumps({"id": f"d{number}", "part": ("one", "two")[part], "text": own}) + "\n")
    with (folder / "truth.csv").open("w") as file:
        csv.writer(file).writerows([("word", "share"), *truth])
    (folder / "job.toml").write_text(JOB)


# --- scores ----------------------------------------------------------------------------------------------------


class Truth:
    """The words of a finished comparison that can be judged, with the share of each that was swapped."""

    def __init__(self, folder: Path) -> None:
        self.changes = changes_of(load_job(folder / "job.toml"), de.Workspace.open(folder / "w"))
        self.columns = self.changes.between(*self.changes.pairs[0])
        with (folder / "truth.csv").open() as file:
            planted = {row["word"]: float(row["share"]) for row in csv.DictReader(file)}
        verdicts = np.array(self.columns["verdict"])
        self.judged = np.flatnonzero(verdicts != UNJUDGED)
        self.words = [self.changes.words[word] for word in self.judged]
        self.changed = verdicts[self.judged] == CHANGED
        self.share = np.array([planted.get(word, 0.0) for word in self.words])

    def order(self, scores: np.ndarray) -> dict[str, float]:
        """Return how well scores order the words: by area, and by power at thresholds of 1 % and 5 % false alarms."""
        scores = np.nan_to_num(scores, nan=-1.0)
        known = self.share == 0
        judged = known | (self.share >= 0.25)
        found = {"area": roc_auc_score(self.share[judged] > 0, scores[judged])}
        for rate in (0.01, 0.05):
            over = scores > np.quantile(scores[known], 1 - rate)
            found |= {f"{share:g} at {rate:.0%}": over[self.share == share].mean() for share in SHARES}
        return found


def tell_shares(name: str, found: dict[str, float]) -> None:
    tell(f"{name:28}", "  ".join(f"{key} {value:.2f}" for key, value in found.items()))


def score(folder: Path) -> None:
    """Print the power and the false alarms of the verdicts."""
    truth = Truth(folder)
    known, low = truth.share == 0, truth.columns["low"][truth.judged]
    tell(f"{len(truth.words):,} words judged, {int((~known).sum())} of them swapped")
    alarms = {"verdicts": truth.changed[known].mean(), "intervals above 0": (low > 0)[known].mean()}
    tell_shares("false alarms", alarms)
    tell_shares("power", {f"{share:g}": truth.changed[truth.share == share].mean() for share in SHARES})
    noise = truth.columns["floor"][truth.judged]
    tell_shares("change over floor", truth.order(truth.columns["change"][truth.judged] / noise))
    tell_shares("distance alone", truth.order(truth.columns["distance"][truth.judged]))


def rivals(folder: Path) -> None:
    """Print how well the distances of rotated vectors order the words."""
    truth = Truth(folder)
    texts: dict[str, list[list[str]]] = {"one": [], "two": []}
    with (folder / "text.jsonl").open() as file:
        for row in map(json.loads, file):
            texts[row["part"]].append(WORD.findall(row["text"]))
    sides = [ppmi_svd(folder, part) for part in texts]
    tell_shares("PPMI-SVD, turned", truth.order(distances_of(sides, truth.words)))
    sides = [skip_gram(lines) for lines in texts.values()]
    tell_shares("skip-gram, turned", truth.order(distances_of(sides, truth.words)))


def distances_of(sides: list[de.WordVectors], words: list[str]) -> np.ndarray:
    """Return 1 - cosine of each word, after the rotation that brings the shared words of two sides nearest."""
    shared = [word for word in sides[0].words if word in sides[1]]
    first, second = (
        unit_rows((side.vectors - side.vectors.mean(axis=0)).astype(np.float64))[side.index(shared)]
        for side in sides
    )
    first = first @ orthogonal_procrustes(first, second)[0]
    known = dict(zip(shared, 1 - (first * second).sum(axis=1), strict=True))
    return np.array([known.get(word, np.nan) for word in words])


def ppmi_svd(folder: Path, part: str) -> de.WordVectors:
    """Return the left singular vectors of positive PMI of the counts of a part, as the comparison counted them."""
    workspace = de.Workspace.open(folder / "w")
    words = workspace.table("vocabulary")["word"].to_pylist()
    parts = workspace.table("parts").to_pylist()
    names = [row["part"] for row in parts]
    first = sum(row["n_groups"] for row in parts[: names.index(part)])
    counts = workspace.array("group_counts")
    last = first + parts[names.index(part)]["n_groups"]
    whole = sum(
        counts[group * len(words) : (group + 1) * len(words)].compute() for group in range(first, last)
    )
    association = ppmi(whole, context_smoothing=0.75)
    association.eliminate_zeros()
    vectors = de.LSA(100, exponent=0.5, n_passes=12).fit_transform(association)
    return de.WordVectors(words, np.asarray(vectors, np.float32))


def skip_gram(lines: list[list[str]]) -> de.WordVectors:
    """Return the vectors of a skip-gram model of some documents."""
    pieces = [line[start : start + 5_000] for line in lines for start in range(0, len(line), 5_000)]
    options = {
        "vector_size": 100,
        "sg": 1,
        "min_count": 20,
        "workers": 1,
        "seed": 1,
        "epochs": 5,
        "sample": 1e-3,
    }
    model = needed("gensim.models").Word2Vec(pieces, **options)
    return de.WordVectors(model.wv.index_to_key, model.wv.vectors)


def main(
    action: Literal["plant", "score", "rivals"], folder: Path, *,
    text: str = str(data_folder() / "english/simplewiki2021-0.txt.xz"), tokens: int = 5_000_000,
    second: float = 0.5, pairs: int = 12, seed: int = 0,
) -> None:  # fmt: skip
    if action == "plant":
        plant(folder, text, tokens, second, pairs, seed)
    else:
        {"score": score, "rivals": rivals}[action](folder)


if __name__ == "__main__":
    run_main(main)
