"""Planted changes: how many a comparison finds, and how many it reports where there are none, beside rivals.

Simple English Wikipedia is divided at random into two parts of documents, so that no word differs. Then words of
similar counts change places in the second part, each in a share of its occurrences. `plant` writes the text, a job and
the truth; `distembed run FOLDER/job.toml` compares the parts; `score` prints the power and the false alarms of its
verdicts. Rivals have no verdicts: `rivals` prints how well their distances order the words, and their power at the
threshold that would give so many false alarms, which nobody knows without the truth: positive PMI with a singular value
decomposition and skip-gram (gensim) of each part, turned onto each other (Hamilton et al. 2016), and skip-gram whose
input vectors are those of all text and stay as they are, which is the idea of CADE (Di Carlo et al. 2019). CADE itself
needs its own fork of gensim 3, which no package index has.
"""

from __future__ import annotations

import argparse
import csv
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
from scipy.linalg import orthogonal_procrustes
from sklearn.metrics import roc_auc_score

import distembed as de
from benchmarks.inputs import open_text
from benchmarks.measures import needed
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


def plant(options: argparse.Namespace) -> None:
    """Write the text of two parts, the second with swapped words, the truth and a job."""
    rng = np.random.default_rng(options.seed)
    texts = documents(options.text, options.tokens)
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


# --- scores ----------------------------------------------------------------------------------------------------


class Truth:
    """The words of a finished comparison that can be judged, with the share of each that was swapped."""

    def __init__(self, folder: Path) -> None:
        self.changes = changes_of(load_job(folder / "job.toml"), de.Workspace.open(folder / "w"))
        self.columns = self.changes.between(*self.changes.pairs[0])
        with (folder / "truth.csv").open() as file:
            planted = {row["word"]: (float(row["share"]), int(row["band"])) for row in csv.DictReader(file)}
        verdicts = np.array(self.columns["verdict"])
        self.judged = np.flatnonzero(verdicts != UNJUDGED)
        self.words = [self.changes.words[word] for word in self.judged]
        self.changed = verdicts[self.judged] == CHANGED
        self.share, self.band = np.array([planted.get(word, (0.0, 0)) for word in self.words]).T

    def order(self, scores: np.ndarray) -> dict[str, float]:
        """Return how well scores order the words: by area, and by power at thresholds of 1 % and 5 % false alarms."""
        scores = np.nan_to_num(scores, nan=-1.0)
        known = self.share == 0
        found = {"area": roc_auc_score(self.share[(self.share == 0) | (self.share >= 0.25)] > 0,
                                       scores[(self.share == 0) | (self.share >= 0.25)])}  # fmt: skip
        for rate in (0.01, 0.05):
            over = scores > np.quantile(scores[known], 1 - rate)
            found |= {f"{share:g} at {rate:.0%}": over[self.share == share].mean() for share in SHARES}
        return found


def tell(name: str, found: dict[str, float]) -> None:
    print(f"{name:28}", "  ".join(f"{key} {value:.2f}" for key, value in found.items()), flush=True)


def score(options: argparse.Namespace) -> None:
    """Print the power and the false alarms of the verdicts."""
    truth = Truth(Path(options.folder))
    known = truth.share == 0
    print(f"{len(truth.words):,} words judged, {int((~known).sum())} of them swapped")
    low = truth.columns["low"][truth.judged]
    tell(
        "false alarms",
        {"verdicts": truth.changed[known].mean(), "intervals above 0": (low > 0)[known].mean()},
    )
    for band, _ in BANDS:
        shares = {
            f"{share:g}": truth.changed[(truth.share == share) & (truth.band == band)].mean()
            for share in SHARES
        }
        tell(f"power from {band} on", shares)
    tell("power", {f"{share:g}": truth.changed[truth.share == share].mean() for share in SHARES})
    noise = truth.columns["floor"][truth.judged]
    tell("change over floor", truth.order(truth.columns["change"][truth.judged] / noise))
    tell("distance alone", truth.order(truth.columns["distance"][truth.judged]))


def rivals(options: argparse.Namespace) -> None:
    """Print how well the distances of rotated vectors order the words."""
    folder = Path(options.folder)
    truth = Truth(folder)
    texts: dict[str, list[list[str]]] = {"one": [], "two": []}
    with (folder / "text.jsonl").open() as file:
        for line in file:
            row = json.loads(line)
            texts[row["part"]].append(WORD.findall(row["text"]))
    if "ppmi" in options.methods:
        sides = [ppmi_svd(folder, part) for part in ("one", "two")]
        tell("PPMI-SVD, turned", truth.order(distances_of(sides, truth.words)))
    if "skipgram" in options.methods:
        sides = [skip_gram(texts[part]) for part in ("one", "two")]
        tell("skip-gram, turned", truth.order(distances_of(sides, truth.words)))
    if "frozen" in options.methods:
        compass = trained([*texts["one"], *texts["two"]])
        sides = [skip_gram(texts[part], compass) for part in ("one", "two")]
        tell("skip-gram, inputs frozen", truth.order(distances_of(sides, truth.words, turned=False)))


def distances_of(sides: list[de.WordVectors], words: list[str], *, turned: bool = True) -> np.ndarray:
    """Return 1 - cosine of each word, after the rotation that brings the shared words of two sides nearest."""
    shared = [word for word in sides[0].words if word in sides[1]]
    rows = [side.vectors - side.vectors.mean(axis=0) if turned else side.vectors for side in sides]
    first, second = (
        unit_rows(each.astype(np.float64))[side.index(shared)] for each, side in zip(rows, sides, strict=True)
    )
    if turned:
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


def trained(lines: list[list[str]], **options: Any) -> Any:
    """Return a skip-gram model of some documents."""
    pieces = [line[start : start + 5_000] for line in lines for start in range(0, len(line), 5_000)]
    settings = {
        "vector_size": 100,
        "sg": 1,
        "min_count": 20,
        "workers": 1,
        "seed": 1,
        "epochs": 5,
        "sample": 1e-3,
    }
    return needed("gensim.models").Word2Vec(pieces, **{**settings, **options})


def skip_gram(lines: list[list[str]], compass: Any = None) -> de.WordVectors:
    """Return the vectors of a part: its own, or its output vectors where the inputs are those of a compass."""
    if compass is None:
        model = trained(lines)
        return de.WordVectors(model.wv.index_to_key, model.wv.vectors)
    pieces = [line[start : start + 5_000] for line in lines for start in range(0, len(line), 5_000)]
    model = needed("gensim.models").Word2Vec(vector_size=100, sg=1, min_count=20, workers=1, seed=1)
    model.build_vocab(pieces)
    words = model.wv.index_to_key
    rows = [compass.wv.key_to_index[word] for word in words]
    model.wv.vectors[:] = compass.wv.vectors[rows]
    model.wv.vectors_lockf = np.zeros(1, np.float32)
    model.syn1neg[:] = compass.syn1neg[rows]
    model.train(pieces, total_examples=len(pieces), epochs=5)
    return de.WordVectors(words, model.syn1neg)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(required=True)
    one = commands.add_parser("plant")
    one.add_argument("folder")
    one.add_argument("--text", default=str(data_folder() / "english/simplewiki2021-0.txt.xz"))
    one.add_argument("--tokens", type=int, default=5_000_000)
    one.add_argument("--second", type=float, default=0.5, help="the share of documents in the second part")
    one.add_argument("--pairs", type=int, default=12, help="pairs of each band and share")
    one.add_argument("--seed", type=int, default=0)
    one.set_defaults(run=plant)
    for command in (score, rivals):
        other = commands.add_parser(command.__name__)
        other.add_argument("folder")
        other.set_defaults(run=command)
    other.add_argument("--methods", nargs="+", default=["ppmi", "skipgram", "frozen"])
    options = parser.parse_args()
    options.run(options)


if __name__ == "__main__":
    main()
