"""Perplexity of headlines under a small LSTM on frozen word vectors, with names imputed and without (Table 2 of LSI).

Words seen fewer than three times while training are <unk>, as in the paper; its model has two layers, ours has one.
PyTorch is needed. The authors' files are in language_model/data/finance of their repository,
ShiboYao/LatentSemanticImputation: training headlines, affinities of 4,092 companies, and the vectors of Google, GloVe
and fastText. A line for each set of vectors has the perplexity of the test headlines (Table 2), the lines before it
those of the training and validation headlines after each epoch (figure 5):

    python -m tests.benchmarks.language_model subglove.txt ptb.valid.txt ptb.test.txt \
        --train ptb.train.txt --aff aff.txt --update --epochs 5 --seeds 10

Without `--train`, the first nine tenths of the validation headlines are trained on, and the last tenth decides which
epoch counts; without `--update` the vectors stay as they are; without `--aff`, the vectors are those of a workspace:

    distembed run jobs/imputation.toml --workspace names --set known.path=english.safetensors \
        --set imputation.method=graph \
        --set matching.ignore_case=true --set domain.max_missing=0.2
    python -m tests.benchmarks.language_model names headlines.valid.txt.xz headlines.test.txt.xz
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

import distembed as de
from distembed.job.stage import read_vectors
from tests.benchmarks.company_tables import imputed_names
from tests.benchmarks.inputs import open_text
from tests.benchmarks.measures import needed, run_main, spent, tell

torch = needed("torch")
nn = torch.nn

LEAST, BATCH, STEPS, HIDDEN = 3, 20, 20, 200
SPREAD = 0.3
"""Standard deviation, in the paper, of vectors drawn at random."""


def headlines(path: str) -> list[list[str]]:
    with open_text(path) as file:
        return [line.split() for line in file]


def vocabulary(train: Sequence[Sequence[str]]) -> list[str]:
    counts = Counter(word for line in train for word in line)
    return ["<eos>", "<unk>", *(w for w, n in counts.items() if n >= LEAST and w != "<unk>")]


def ids(words: list[str], lines: Sequence[Sequence[str]]) -> NDArray[np.int64]:
    index = {word: number for number, word in enumerate(words)}
    return np.array([index.get(word, 1) for line in lines for word in [*line, "<eos>"]])


def after_names(ids: NDArray[np.int64], names: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return for each token whether a name stands before it in its headline."""
    seen, found = False, np.zeros(len(ids), bool)
    for place, word in enumerate(ids.tolist()):
        found[place] = seen
        seen = (seen or bool(names[word])) and word != 0
    return found


class Model(nn.Module):
    """One layer of LSTM on vectors, frozen or updated."""

    def __init__(self, vectors: NDArray[np.float32], update: bool):
        super().__init__()
        self.vectors = nn.Embedding.from_pretrained(torch.from_numpy(vectors), freeze=not update)
        self.lstm = nn.LSTM(vectors.shape[1], HIDDEN, batch_first=True)
        self.drop = nn.Dropout(0.3)
        self.out = nn.Linear(HIDDEN, len(vectors))

    def forward(self, ids, state):
        hidden, state = self.lstm(self.drop(self.vectors(ids)), state)
        return self.out(self.drop(hidden)), state


def columns(ids: NDArray[np.int64]) -> torch.Tensor:
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


def perplexity(vectors, parts, epochs: int, seed: int, update: bool) -> tuple[float, float, int]:
    """Return the perplexity of the test part and of its tokens behind imputed names, and the epoch that was chosen."""
    train, choose, test, behind = parts
    torch.manual_seed(seed)
    model = Model(vectors, update)
    optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=2e-3)
    best = (math.inf, 0.0, 0.0, 0)
    for epoch in range(1, epochs + 1):
        fitted = float(losses(model, train, optimizer).mean())
        chosen = float(losses(model, choose).mean())
        tell(
            f"  seed {seed}, epoch {epoch}: training {math.exp(fitted):.2f}, validation {math.exp(chosen):.2f}"
        )
        if chosen < best[0]:
            loss = losses(model, test)
            marked = columns(behind.astype(np.int64)).numpy()[:, 1:].astype(bool)
            best = (chosen, float(loss.mean()), float(loss[marked].mean()), epoch)
    return math.exp(best[1]), math.exp(best[2]), best[3]


def names_of(workspace: de.Workspace) -> tuple[list[str], NDArray, NDArray]:
    """Return the words of a workspace, their vectors, and which are imputed."""
    found, origin = read_vectors(workspace), workspace.table("vocabulary")["origin"].to_pylist()
    return found.words, found.vectors, np.array(origin) == "imputed"


def rows_of(found: tuple[list[str], NDArray, NDArray], words: list[str]) -> tuple[NDArray, NDArray, NDArray]:
    """Return a vector for each word, which of them are known, and which are imputed to a name."""
    names, vectors, is_imputed = found
    rows = {word.lower(): row for row, word in reversed(list(enumerate(names)))}
    place = np.array([rows.get(word, -1) for word in words])
    imputed = (place >= 0) & is_imputed[place]
    known = (place >= 0) & ~imputed
    return vectors[place] / vectors[place[known]].std(), known, imputed  # known ones have spread 1


def conditions(base: NDArray, known: NDArray, imputed: NDArray) -> Iterator[tuple[str, NDArray]]:
    rng = np.random.default_rng(0)
    noise = rng.standard_normal(base.shape) * SPREAD
    shuffled = base.copy()
    shuffled[imputed] = base[rng.permutation(np.flatnonzero(imputed))]
    has = known[:, None], (known | imputed)[:, None]
    yield "known vectors, others zero", np.where(has[0], base, 0.0)
    yield "known vectors, others the mean", np.where(has[0], base, base[known].mean(axis=0))
    yield "known vectors, others random", np.where(has[0], base, noise)
    yield "known and imputed, others random", np.where(has[1], base, noise)
    yield "known and imputed to the wrong names, others random", np.where(has[1], shuffled, noise)


def main(
    vectors: str,
    valid: str,
    test: str,
    *,
    train: str | None = None,
    aff: str | None = None,
    update: bool = False,
    epochs: int = 6,
    seeds: int = 1,
) -> None:
    torch.set_num_threads(1)
    lines = headlines(valid)
    cut = len(lines) * 9 // 10
    learned, chosen = (headlines(train), lines) if train else (lines[:cut], lines[cut:])
    words = vocabulary(learned)
    found = imputed_names(aff, vectors) if aff else names_of(de.Workspace.open(vectors))
    base, known, imputed = rows_of(found, words)
    parts = [ids(words, part) for part in (learned, chosen, headlines(test))]
    behind = after_names(parts[2], imputed)
    tell(
        f"{len(words):,} words, {known.sum():,} with a known vector, {imputed.sum()} names with an imputed one; "
        f"{len(parts[2]):,} test tokens, {np.isin(parts[2], np.flatnonzero(imputed)).sum():,} of them such names and "
        f"{behind.sum():,} behind one in their headline"
    )
    for name, filled in conditions(base, known, imputed):
        rows = filled.astype(np.float32)
        runs = [spent(perplexity, rows, (*parts, behind), epochs, seed, update) for seed in range(seeds)]
        whole, after, _ = np.mean([run.result for run in runs], axis=0)
        cpu, epoch = sum(run.cpu for run in runs), runs[0].result[2]
        tell(f"{name:52} {whole:8.2f} {after:8.2f}  epoch {epoch}, {cpu:.0f} s")


if __name__ == "__main__":
    run_main(main)
