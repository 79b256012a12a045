"""Score text vectors of several word vectors on sentences, each with the options that do best on STS-B's dev part.

``python -m tests.benchmarks.sentences FOLDER WORKSPACE NAME=VECTORS ... [--classes]``: FOLDER has `sts/` and
`classification/`; the counts and the tokenizer of WORKSPACE are those of all vectors, which were made from the same
tokens. Vectors with a table of n-grams are scored with and without it. Nothing is chosen on a set of the table but the
development part of STS-B, which is shown as such.
"""

from __future__ import annotations

import sys
from itertools import product
from pathlib import Path

import distembed as de
from distembed.evaluation.scoring import Score, text_table
from distembed.evaluation.sentence_files import SentencePairs, find_sentence_sets
from distembed.evaluation.sentences import encoder_name, evaluate_sentences
from distembed.job.opening import load_vectors, parse_source
from distembed.views.texts import open_encoder

CHOOSING = "stsb-dev"
TABLE = ("sts13", "sts14", "sts15", "sts16")
OPTIONS = [{"weighting": "mean"}, *(
    {"a": a, "whitening": whitening}
    for a, whitening in product((1e-3, 3e-4), ("none", "component", "half", "full"))
)]  # fmt: skip


def encoders(vectors: de.WordVectors, common: dict) -> list[de.TextEncoder]:
    """Return an encoder for each choice of options."""
    return [de.TextEncoder(vectors, **common, **options) for options in OPTIONS]


def chosen(
    vectors: de.WordVectors, common: dict, dev: SentencePairs
) -> tuple[de.TextEncoder, dict[str, float]]:
    """Return the encoder that does best on the choosing set, and what all of them have there."""
    scores, best, most = {}, None, -1.0
    for encoder in encoders(vectors, common):
        (score,) = evaluate_sentences(encoder, [dev])
        scores[encoder_name(encoder)] = 100 * score.value
        if score.value > most:
            best, most = encoder, score.value
        else:
            del encoder._folded
    assert best is not None
    return best, scores


def percent(scores: list[Score]) -> dict[str, float]:
    return {score.set: 100 * score.value for score in scores}


def main(folder: str, workspace: str, candidates: dict[str, str], *, classes: bool) -> None:
    sets = {each.name: each for each in find_sentence_sets([Path(folder)]).sets}
    base = open_encoder(parse_source(workspace), unknown="skip")
    counts = dict(zip(base.vectors.words, base.counts.tolist(), strict=True))
    tokenizer = base.tokenizer
    del base
    pairs, texts = [], []
    labeled = [each for each in sets.values() if not isinstance(each, SentencePairs)]
    for name, path in candidates.items():
        vectors = load_vectors(parse_source(path))
        for unknown in ("skip", "subwords") if vectors.subwords is not None else ("skip",):
            common = {"counts": counts, "tokenizer": tokenizer, "unknown": unknown}
            encoder, every = chosen(vectors, common, sets[CHOOSING])
            print(name, unknown, {key: round(value, 1) for key, value in every.items()}, flush=True)
            found = evaluate_sentences(encoder, [sets[each] for each in ("sts12", *TABLE, CHOOSING)])
            values = percent(found)
            mean = sum(values[each] for each in (*TABLE, CHOOSING)) / (len(TABLE) + 1)
            known, total = (sum(getattr(score, field) for score in found) for field in ("known", "total"))
            row = [
                name,
                encoder_name(encoder),
                *(f"{values[each]:.1f}" for each in ("sts12", *TABLE, CHOOSING)),
            ]
            pairs.append([*row, f"{mean:.1f}", f"{known}/{total}"])
            print(pairs[-1], flush=True)
            if classes:
                found = evaluate_sentences(encoder, labeled)
                values = percent(found)
                known, total = (sum(getattr(score, field) for score in found) for field in ("known", "total"))
                shown = [f"{value:.1f}" for value in values.values()]
                texts.append(
                    [name, encoder_name(encoder), *shown, f"{sum(values.values()) / len(values):.1f}"]
                )
                texts[-1].append(f"{known}/{total}")
                print(texts[-1], flush=True)
    print(text_table([["vectors", "encoder", "STS12 *", *TABLE, "STS-B dev", "mean", "known/total"], *pairs]))
    if classes:
        names = [each.name for each in labeled]
        print(text_table([["vectors", "encoder", *names, "mean", "known/total"], *texts]))


if __name__ == "__main__":
    words = [word for word in sys.argv[1:] if word != "--classes"]
    named = dict(word.split("=", 1) for word in words[2:])
    main(words[0], words[1], named, classes="--classes" in sys.argv)
