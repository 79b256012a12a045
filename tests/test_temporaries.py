"""What block functions declare that they hold beside their arguments and result, measured while estimators run."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from typing import Any

import pytest

import distembed
from tests.runs_of_blocks import RUNS
from tests.temporaries import measured

ABOVE, BELOW = 0.05, 0.55
"""A function may take so much more than it declares, and so much less, in multiples of its largest array."""


def declared() -> dict[Callable[..., Any], float]:
    """Return every function of the package that declares its temporaries."""
    modules = (
        importlib.import_module(found.name)
        for found in pkgutil.walk_packages(distembed.__path__, "distembed.")
    )
    return {
        value: value.temporaries
        for module in modules
        for value in vars(module).values()
        if callable(value) and isinstance(getattr(value, "temporaries", None), int | float)
    }


@pytest.fixture(scope="module")
def taken() -> dict[Callable[..., Any], float]:
    """Return the most that each block function took in the runs, in multiples of its largest array."""
    with measured() as found:
        for run in RUNS:
            run()
    return {function: max(times for times, _ in calls) for function, calls in found.items()}


def test_every_block_function_is_measured(taken: dict[Callable[..., Any], float]) -> None:
    missing = [function for function in declared() if function not in taken]
    assert not [f"{one.__module__}.{one.__qualname__}" for one in missing]
    undeclared = [function for function in taken if not hasattr(function, "temporaries")]
    assert not [f"{one.__module__}.{one.__qualname__}" for one in undeclared]


def test_block_functions_hold_what_they_declare(taken: dict[Callable[..., Any], float]) -> None:
    wrong = {
        f"{function.__module__}.{function.__qualname__}": (declares, round(taken[function], 2))
        for function, declares in declared().items()
        if function in taken and not declares - BELOW <= taken[function] <= declares + ABOVE
    }
    assert not wrong, f"declared and measured multiples of the largest array: {wrong}"
