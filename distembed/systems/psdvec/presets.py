"""Settings of a psdvec job that belong together, by name; `distembed new` writes those of the first.

They were chosen on one half of each evaluation set and are reported on the other (tests/benchmarks/VIEWS.md).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

WIDE = {"window": 5, "weighting": "dynamic", "subsample": 1e-4, "oov": "remove"}
"""Counts that say what a word is about: a wide window that weighs near words more, and fewer function words."""

PRESETS: Mapping[str, Mapping[str, Mapping[str, Any]]] = {
    "best": {
        "counting": WIDE,
        "psdvec": {"n_components": 400, "smoothing": 0.1},
        "views": {
            "sides": {
                "method": "ppmi",
                "window": 2,
                "n_components": 200,
                "weight": 0.9,
                "regularization": 0.1,
            }
        },
        "subwords": {"enabled": True, "weight": 1.0, "regularization": 0.025},
    },
    "fast": {"counting": WIDE, "psdvec": {"n_components": 100, "smoothing": 0.1}},
    "paper": {},
}
"""The best vectors, at about the time of a tuned skip-gram; those of one count matrix alone; and the paper's settings,
which are the defaults of all keys."""
