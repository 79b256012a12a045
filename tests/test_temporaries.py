"""What block functions declare that they hold beside their arguments and result, measured while estimators run."""

from __future__ import annotations

import importlib
import pkgutil
import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import distembed as de
from tests.runs_of_estimators import RUNS
from tests.temporaries import measured

UNMEASURED = (
    "corpus.partitions.tokenize_partition",
    "corpus.selection.select_documents",
    "corpus.vocabulary.build_vocabulary",
    "counting.cooccurrence.count_bundle",
    "counting.document_groups._own_columns",
    "encoding.encoder.encode_block",
    "factorization.consensus.run_start",
    "factorization.document_rows.inspect",
    "linalg.csr.row_lengths",
    "linalg.csr.to_single",
)
"""What no test measures. The first four read and write files: the peaks of their stages show what they hold."""

ABOVE, BELOW = 0.05, 0.55
"""A function may take so much more than it declares, and so much less, in multiples of its largest array."""


def name_of(function: Callable[..., Any]) -> str:
    """Return the module of a function and its name."""
    return f"{function.__module__.removeprefix('distembed.')}.{function.__qualname__}"


def measured_elsewhere() -> set[str]:
    """Return the names that stand in other tests of what functions declare."""
    texts = (file.read_text() for file in Path(__file__).parent.glob("*/test_*.py"))
    return {name for text in texts if "assert_declared(" in text for name in re.findall(r"\w+", text)}


def declared() -> dict[Callable[..., Any], float]:
    """Return every function of the package that declares its temporaries."""
    names = (found.name for found in pkgutil.walk_packages(de.__path__, "distembed."))
    values = [value for name in names for value in vars(importlib.import_module(name)).values()]
    return {
        value: value.temporaries
        for value in values
        if callable(value) and isinstance(getattr(value, "temporaries", None), int | float)
    }


def test_block_functions_hold_what_they_declare():
    declares, elsewhere, least = declared(), measured_elsewhere(), dict[Callable[..., Any], float]()
    for _ in range(3):  # the first may compile, and other threads may allocate in some
        with measured() as found, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of searches that end before they have converged
            for run in RUNS:
                run()
        for one, calls in found.items():
            least[one] = min(least.get(one, np.inf), max(multiple for multiple, _ in calls))
        wrong = {
            name_of(one): (declares[one], round(most, 2))
            for one, most in least.items()
            if one in declares and not declares[one] - BELOW <= most <= declares[one] + ABOVE
        }
        if not wrong:
            break
    missing = {name_of(one) for one in declares if one not in found and one.__name__ not in elsewhere}
    assert missing <= {*UNMEASURED} <= {*map(name_of, declares)}
    assert not [name_of(one) for one in found if one not in declares], "they declare nothing"
    assert not wrong, f"declared and measured multiples of the largest array: {wrong}"
