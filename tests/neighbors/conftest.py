"""The cuts of a grid of rows that every search is tried on."""

from __future__ import annotations

import numpy as np
import pytest

from distembed.neighbors import distances

CUTS = {"whole": 24, "even": 8, "ragged": 7, "a row alone": 23, "single rows": 1}


@pytest.fixture(params=CUTS)
def cut(request, monkeypatch):
    """Make the grid cut 24 rows into one, three or ragged blocks or single rows, or leave one alone in the last."""
    cut_into(CUTS[request.param], monkeypatch)


def cut_into(chunk, monkeypatch):
    monkeypatch.setattr(distances, "row_chunk", lambda n_rows, row_bytes, block_memory: chunk)
    monkeypatch.setattr(
        distances,
        "cut_rows",
        lambda sizes, *_: tuple(np.diff([*range(0, len(sizes), chunk), len(sizes)]).tolist()),
    )
