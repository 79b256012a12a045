"""The names that the benchmark of the language model imputes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.benchmarks.company_tables import imputed_names


def test_names_without_a_vector_are_imputed_from_the_affinities(tmp_path: Path):
    rng = np.random.default_rng(0)
    names, words = [f"company{i}" for i in range(12)], [*(f"company{i}" for i in range(7)), "profit"]
    affinities, vectors = rng.normal(size=(12, 4)).round(4), rng.normal(size=(8, 3)).round(4)
    files = {"aff.txt": (names, affinities), "subglove.txt": (words, vectors)}
    for file, (column, table) in files.items():
        lines = [" ".join([word, *map(str, row)]) for word, row in zip(column, table, strict=True)]
        (tmp_path / file).write_text("\n".join(lines) + "\n")
    found, filled, is_imputed = imputed_names(tmp_path / "aff.txt", tmp_path / "subglove.txt", min_degree=3)
    assert found == [*words, *names[7:]]
    assert is_imputed.tolist() == [False] * 8 + [True] * 5
    assert filled[:8] == pytest.approx(vectors, abs=1e-6)
    known = vectors[:7]  # an imputed vector is a mean of those of the companies
    assert (filled[8:] > known.min(axis=0)).all()
    assert (filled[8:] < known.max(axis=0)).all()
