"""The fixtures of the tests that the benchmarks use, too."""

from tests.conftest import shared

__all__ = ["shared"]
