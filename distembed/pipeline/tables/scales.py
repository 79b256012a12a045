"""Columns brought to mean 0 and variance 1, and new rows brought to the scale of earlier ones."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from distembed.formats.tables import Floats
from distembed.pipeline.tables.rows import Domain, Scales


def scaled(domain: Domain, *, standardize: bool) -> Domain:
    """Return a domain with its scales and, where it is to be standardized, columns of mean 0 and variance 1.

    A constant column becomes zeros and says nothing.
    """
    matrix, d = domain.matrix, domain.matrix.shape[1]
    medians = np.array([np.median(column) for column in matrix.T], np.float64)
    if not standardize:
        return domain._replace(scales=Scales(np.zeros(d), np.ones(d), medians))
    scales = Scales(matrix.mean(axis=0, dtype=np.float64), matrix.std(axis=0, dtype=np.float64), medians)
    return domain._replace(matrix=on_scales(matrix, scales), scales=scales)


def on_scales(matrix: Floats, scales: Scales) -> Floats:
    """Return rows less the means and divided by the spreads, in their dtype; zeros where a column has no spread."""
    has_spread = scales.spreads > 0
    measured = matrix - scales.means
    measured /= np.where(has_spread, scales.spreads, 1.0)
    measured[:, ~has_spread] = 0.0
    return measured.astype(matrix.dtype)


def scales_table(domain: Domain) -> pa.Table:
    """Return the columns of a domain with their scales, a row per column."""
    assert domain.scales is not None
    return pa.table({"column": domain.columns, **domain.scales._asdict()})


def scales_of(table: pa.Table) -> Scales:
    """Return the scales that `scales_table` wrote."""
    return Scales(*(np.asarray(table[name], np.float64) for name in Scales._fields))
