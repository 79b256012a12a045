"""Whether a benchmark is run for its figures, or as one of the tests."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="session")
def is_measured(pytestconfig: pytest.Config) -> bool:
    """Return whether figures are wanted: with `-s`, which prints them, or `--benchmark-only`.

    As one of the tests a benchmark only shows that it still runs, which a small input does as well.
    """
    return pytestconfig.getoption("capture") == "no" or pytestconfig.getoption("benchmark_only")
