"""The spans that tags of words stand for, and their F1, as the program `conlleval` of the shared tasks counts them.

A tag is O, or a position in a span and the kind of span. I continues a span of its kind and begins one otherwise, B
and S (U in BILOU) begin one, E and S (L and U in BILOU) end one. So IOB1, where B stands only between two spans of one
kind, IOB2, BIOES and BILOU are read by one rule, and sequences of tags that no such scheme allows are read too.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

BEGINS = frozenset("BSU")
ENDS = frozenset("ESLU")


class Span(NamedTuple):
    """A span of words of a sentence: its first word, the one after its last, and its kind."""

    start: int
    stop: int
    kind: str


def spans(tags: Sequence[str]) -> list[Span]:
    """Return the spans of the tags of one sentence, in their order.

    >>> from distembed.evaluation.spans import spans
    >>> spans(["B-NP", "I-NP", "O", "I-VP", "B-VP"])
    [Span(start=0, stop=2, kind='NP'), Span(start=3, stop=4, kind='VP'), Span(start=4, stop=5, kind='VP')]
    """
    found, start, open_kind = list[Span](), 0, ""
    for place, tag in enumerate([*tags, "O"]):
        position, _, kind = tag.partition("-")
        if open_kind and (position in BEGINS or kind != open_kind):
            found.append(Span(start, place, open_kind))
            open_kind = ""
        if kind and not open_kind:
            start, open_kind = place, kind
        if kind and position in ENDS:
            found.append(Span(start, place + 1, kind))
            open_kind = ""
    return found


def iob2(tags: Sequence[str]) -> list[str]:
    """Return the tags of one sentence in the scheme IOB2: B at the beginning of every span, I within.

    >>> from distembed.evaluation.spans import iob2
    >>> iob2(["I-NP", "I-NP", "B-NP", "O", "U-VP"])
    ['B-NP', 'I-NP', 'B-NP', 'O', 'B-VP']
    """
    written = ["O"] * len(tags)
    for span in spans(tags):
        written[span.start : span.stop] = [f"B-{span.kind}"] + [f"I-{span.kind}"] * (
            span.stop - span.start - 1
        )
    return written


def span_counts(true: Iterable[Sequence[str]], found: Iterable[Sequence[str]]) -> NDArray[np.int64]:
    """Return the numbers of right, found and true spans of each sentence, int64 (n_sentences, 3)."""
    counts = list[tuple[int, int, int]]()
    for gold, guess in zip(true, found, strict=True):
        gold_spans, guessed = set(spans(gold)), set(spans(guess))
        counts.append((len(gold_spans & guessed), len(guessed), len(gold_spans)))
    return np.array(counts, np.int64).reshape(-1, 3)


def f1(counts: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the harmonic mean of precision and recall of counts (..., 3), 0 where there is no span at all."""
    right, found, true = np.moveaxis(counts, -1, 0).astype(np.float64)
    return np.asarray(2 * right / np.maximum(found + true, 1))
