"""Perplexity of headlines under a small LSTM on frozen word vectors, with names imputed and without (Table 2 of LSI).

The training headlines of the paper were not published. The first nine tenths of the published validation headlines are
trained on here, the last tenth decides which epoch counts, and the published test headlines are reported. Words seen
fewer than three times while training are <unk>, as in the paper. The vectors stay as they are, the paper's are trained
further. PyTorch is needed.

    distembed run jobs/imputation.toml --workspace names --set known.path=english.safetensors \
        --set matching.ignore_case=true --set domain.max_missing=0.2
    python -m tests.benchmarks.language_model names headlines.valid.txt.xz headlines.test.txt.xz
"""

from __future__ import annotations

import argparse
import lzma
import math
import time
from collections import Counter
from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

import distembed as de
from distembed.job.stage import read_vectors

LEAST, BATCH, STEPS, HIDDEN = 3, 20, 20, 200
SPREAD = 0.3
"""Standard deviation, in the paper, of vectors drawn at random."""


def headlines(path: str) -> list[list[str]]:
    """Return the headlines of a file, each a list of words."""
    with lzma.open(path, "rt", encoding="utf-8") as file:
        return [line.split() for line in file]


class Texts:
    """Headlines as numbers: the vocabulary of the training part, and for each token whether a name stands before it."""

    def __init__(self, train: Sequence[Sequence[str]]):
        counts = Counter(word for line in train for word in line)
        self.words = ["<eos>", "<unk>", *(w for w, n in counts.items() if n >= LEAST and w != "<unk>")]
        self.index = {word: number for number, word in enumerate(self.words)}

    def ids(self, lines: Sequence[Sequence[str]]) -> NDArray[np.int64]:
        """Return the numbers of all words, a headline after the other."""
        return np.array([self.index.get(word, 1) for line in lines for word in [*line, "<eos>"]])


def after_names(ids: NDArray[np.int64], names: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return for each token whether a name stands before it in its headline."""
    seen, found = False, np.zeros(len(ids), bool)
    for place, word in enumerate(ids.tolist()):
        found[place] = seen
        seen = (seen or bool(names[word])) and word != 0
    return found


class Model(nn.Module):
    """One layer of LSTM on frozen vectors."""

    def __init__(self, vectors: NDArray[np.float32]):
        super().__init__()
        self.vectors = nn.Embedding.from_pretrained(torch.from_numpy(vectors), freeze=True)
        self.lstm = nn.LSTM(vectors.shape[1], HIDDEN, batch_first=True)
        self.drop = nn.Dropout(0.3)
        self.out = nn.Linear(HIDDEN, len(vectors))

    def forward(self, ids, state):
        """Return the scores of the next words, and the state."""
        hidden, state = self.lstm(self.drop(self.vectors(ids)), state)
        return self.out(self.drop(hidden)), state


def columns(ids: NDArray[np.int64]) -> torch.Tensor:
    """Return tokens as parallel rows of one text each."""
    n = len(ids) // BATCH
    return torch.from_numpy(ids[: n * BATCH].reshape(BATCH, n))


def losses(model: Model, ids: NDArray[np.int64], optimizer=None) -> NDArray[np.float64]:
    """Return the loss of each token but the first of each row, (rows, tokens); with an optimizer, train."""
    rows, state, found = columns(ids), None, []
    model.train(optimizer is not None)
    for begin in range(0, rows.shape[1] - 1, STEPS):
        stop = min(begin + STEPS, rows.shape[1] - 1)
        with torch.set_grad_enabled(optimizer is not None):
            scores, state = model(rows[:, begin:stop], state)
            target = rows[:, begin + 1 : stop + 1]
            loss = nn.functional.cross_entropy(scores.transpose(1, 2), target, reduction="none")
        if optimizer is not None:
            optimizer.zero_grad()
            loss.mean().backward()
            nn.utils.clip_grad_norm_(model.parameters(), 5.0)
            optimizer.step()
        state = tuple(part.detach() for part in state)
        found.append(loss.detach().numpy())
    return np.concatenate(found, axis=1)


def perplexity(vectors, parts, epochs: int, seed: int) -> tuple[float, float, int]:
    """Return the perplexity of the test part and of its tokens behind imputed names, and the epoch that was chosen."""
    train, choose, test, behind = parts
    torch.manual_seed(seed)
    model = Model(vectors)
    optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=2e-3)
    best = (math.inf, 0.0, 0.0, 0)
    for epoch in range(1, epochs + 1):
        losses(model, train, optimizer)
        chosen = float(losses(model, choose).mean())
        if chosen < best[0]:
            loss = losses(model, test)
            marked = columns(behind.astype(np.int64)).numpy()[:, 1:].astype(bool)
            best = (chosen, float(loss.mean()), float(loss[marked].mean()), epoch)
    return math.exp(best[1]), math.exp(best[2]), best[3]


def main() -> None:
    """Print a table of perplexities."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("workspace")
    parser.add_argument("valid")
    parser.add_argument("test")
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--seeds", type=int, default=1)
    given = parser.parse_args()
    torch.set_num_threads(1)
    lines = headlines(given.valid)
    cut = len(lines) * 9 // 10
    texts = Texts(lines[:cut])
    workspace = de.Workspace.open(given.workspace)
    found, origin = read_vectors(workspace), workspace.table("vocabulary")["origin"].to_pylist()
    rows = {word.lower(): row for row, word in reversed(list(enumerate(found.words)))}
    place = np.array([rows.get(word, -1) for word in texts.words])
    imputed = np.array([row >= 0 and origin[row] == "imputed" for row in place])
    known = (place >= 0) & ~imputed
    base = found.vectors[place] / found.vectors[place[known]].std()  # the spread of known vectors is 1
    parts = [texts.ids(part) for part in (lines[:cut], lines[cut:], headlines(given.test))]
    behind = after_names(parts[2], imputed)
    print(
        f"{len(texts.words):,} words, {known.sum():,} with a known vector, {imputed.sum()} names with an imputed one; "
        f"{len(parts[2]):,} test tokens, {np.isin(parts[2], np.flatnonzero(imputed)).sum():,} of them such names and "
        f"{behind.sum():,} behind one in their headline"
    )
    rng = np.random.default_rng(0)
    noise = rng.standard_normal(base.shape) * SPREAD
    shuffled = base.copy()
    shuffled[imputed] = base[rng.permutation(np.flatnonzero(imputed))]
    has = known[:, None], (known | imputed)[:, None]
    conditions = {
        "known vectors, others zero": np.where(has[0], base, 0.0),
        "known vectors, others the mean": np.where(has[0], base, base[known].mean(axis=0)),
        "known vectors, others random": np.where(has[0], base, noise),
        "known and imputed, others random": np.where(has[1], base, noise),
        "known and imputed to the wrong names, others random": np.where(has[1], shuffled, noise),
    }
    for name, vectors in conditions.items():
        begin = time.thread_time()
        scores = [
            perplexity(vectors.astype(np.float32), (*parts, behind), given.epochs, seed)
            for seed in range(given.seeds)
        ]
        print(
            f"{name:52} {np.mean([s[0] for s in scores]):8.2f} {np.mean([s[1] for s in scores]):8.2f}  "
            f"epoch {scores[0][2]}, {time.thread_time() - begin:.0f} s",
            flush=True,
        )


if __name__ == "__main__":
    main()
