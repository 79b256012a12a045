"""Settings of an imputation job that belong together, by name; `distembed new` writes those of the first.

What each finds of hidden names is printed by `python -m tests.benchmarks.imputation_choice`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

PRESETS: Mapping[str, Mapping[str, Mapping[str, Any]]] = {
    "best": {"imputation": {"method": "auto", "kernel": "auto"}},
    "paper": {},
}
"""The method that finds hidden names best, and the paper's graph, which is the default of all keys."""
