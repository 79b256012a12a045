"""The cuts of a grid of rows that every search is tried on."""

from __future__ import annotations

import pytest

from distembed.neighbors import distances


@pytest.fixture(params=["whole", "even", "ragged", "single rows"])
def cut(request, monkeypatch):
    """Make the grid cut 24 rows into one, three, ragged or 24 blocks."""
    chunk = {"whole": 24, "even": 8, "ragged": 7, "single rows": 1}[request.param]
    monkeypatch.setattr(distances, "row_chunk", lambda n_rows, row_bytes, block_memory: chunk)
    monkeypatch.setattr(
        distances, "sparse_bounds", lambda sizes, _: [*range(0, len(sizes), chunk), len(sizes)]
    )
