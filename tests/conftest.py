"""What all tests share: where the real data lies, and no example of Hypothesis judged by its time."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")

SHARED = Path(__file__).resolve().parents[2] / "shared"


@pytest.fixture(scope="session")
def shared() -> Path:
    """Return the folder of real data beside the checkout, or skip where it is absent."""
    if not SHARED.is_dir():
        pytest.skip(f"needs the real data in {SHARED}, which is absent here")
    return SHARED
