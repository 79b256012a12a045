"""Score text vectors of several word vectors on sentences, each with the options that do best on STS-B's dev part.

``python -m benchmarks.sentences FOLDER WORKSPACE NAME=VECTORS ... [--classes]``: FOLDER has `sts/` and
`classification/`; the counts and the tokenizer of WORKSPACE are those of all vectors, which were made from the same
tokens. Vectors with a table of n-grams are scored with and without it. Nothing is chosen on a set of the table but the
development part of STS-B, which is shown as such.
"""

from __future__ import annotations

from itertools import product
from pathlib import Path

import distembed as de
from benchmarks.measures import run_main, tell
from distembed.display import aligned
from distembed.evaluation.sentences import evaluate_sentences
from distembed.evaluation.wordsets import EvaluationSet, find_sets
from distembed.job.opening import load_vectors, parse_source
from distembed.views.texts import open_encoder

CHOOSING = "stsb-dev"
TABLE = ("sts13", "sts14", "sts15", "sts16")
OPTIONS = [{"weighting": "mean"}, *(
    {"a": a, "whitening": whitening}
    for a, whitening in product((1e-3, 3e-4), ("none", "component", "half", "full"))
)]  # fmt: skip


def named(encoder: de.TextEncoder) -> str:
    """Return the options of an encoder in words."""
    return f"{encoder.weighting} {encoder.a:g}, whitening {encoder.whitening_}, unknown {encoder.unknown_}"


def chosen(
    vectors: de.WordVectors, common: dict, dev: EvaluationSet
) -> tuple[de.TextEncoder, dict[str, float]]:
    """Return the encoder that does best on the choosing set, and what all of them have there."""
    scores, best, most = {}, None, -1.0
    for options in OPTIONS:
        encoder = de.TextEncoder(vectors, **common, **options)
        (score,) = evaluate_sentences(encoder, [dev])
        scores[named(encoder)] = round(100 * score.value, 1)
        if score.value > most:
            best, most = encoder, score.value
    assert best is not None
    return best, scores


def row_of(name: str, encoder: de.TextEncoder, sets: list) -> tuple[list[str], dict[str, float]]:
    """Return the cells of an encoder's row without their mean, and the scores x 100 by set."""
    found = evaluate_sentences(encoder, sets)
    values = {score.set: 100 * score.value for score in found}
    known, total = (sum(getattr(score, field) for score in found) for field in ("known", "total"))
    return [
        name,
        named(encoder),
        *(f"{one:.1f}" for one in values.values()),
        f"{known}/{total}",
    ], values


def add_row(rows: list[list[str]], cells: list[str], values: list[float]) -> None:
    rows.append([*cells[:-1], f"{sum(values) / len(values):.1f}", cells[-1]])
    tell(rows[-1])


def main(folder: Path, workspace: str, *candidates: str, classes: bool = False) -> None:
    sets = {each.name: each for each in find_sets(folder, sentences=True).sets}
    labeled = [each for each in sets.values() if each.task == "classification"]
    base = open_encoder(parse_source(workspace), unknown="skip")
    tokenizer, counts = base.tokenizer, dict(zip(base.vectors.words, base.counts.tolist(), strict=True))
    del base
    pairs = [["vectors", "encoder", "STS12 *", *TABLE, "STS-B dev", "mean", "known/total"]]
    texts = [["vectors", "encoder", *(each.name for each in labeled), "mean", "known/total"]]
    for name, path in (candidate.split("=", 1) for candidate in candidates):
        vectors = load_vectors(parse_source(path))
        for unknown in ("skip", "subwords") if vectors.subwords is not None else ("skip",):
            common = {"counts": counts, "tokenizer": tokenizer, "unknown": unknown}
            encoder, every = chosen(vectors, common, sets[CHOOSING])
            tell(name, unknown, every)
            cells, values = row_of(name, encoder, [sets[each] for each in ("sts12", *TABLE, CHOOSING)])
            add_row(pairs, cells, [values[each] for each in (*TABLE, CHOOSING)])
            if classes:
                cells, values = row_of(name, encoder, labeled)
                add_row(texts, cells, list(values.values()))
    print(*aligned(pairs, [True] * len(pairs[0])), sep="\n")
    if classes:
        print(*aligned(texts, [True] * len(texts[0])), sep="\n")


if __name__ == "__main__":
    run_main(main)
