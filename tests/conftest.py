"""Fixtures shared by all tests: where the real data lies, and one BLAS thread for equal bits."""

from __future__ import annotations

from pathlib import Path

import pytest

SHARED = Path(__file__).resolve().parents[2] / "shared"


@pytest.fixture(scope="session")
def shared() -> Path:
    """Return the folder of real data beside the checkout, or skip where it is absent."""
    if not SHARED.is_dir():
        pytest.skip(f"needs the real data in {SHARED}, which is absent here")
    return SHARED
