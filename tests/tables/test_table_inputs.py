"""A vector file as domain."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import distembed as de
from distembed.formats.tables import TableError
from distembed.tables.domain import holds_vectors, read_domain, read_new_rows
from distembed.tables.rows import Scales
from distembed.tables.sections import DomainSection
from tests.commands import succeed

WORDS = ["General_Motors", "Ford", "Shell", "BP", "Total", "Fiat"]
VECTORS = de.WordVectors(WORDS, np.random.default_rng(0).standard_normal((6, 4)))


@pytest.mark.parametrize(
    "name", ["v.bin", "v.vec", "v.txt", "v.safetensors", "v.txt.xz", "v.glove", "v.parquet"]
)
def test_a_vector_file_is_a_domain_as_it_stands(tmp_path: Path, name: str) -> None:
    VECTORS.save(tmp_path / name)
    options: dict[str, Any] = {"path": str(tmp_path / name)}
    options |= {"format": "vectors"} if name == "v.parquet" else {}
    domain = read_domain(DomainSection(**options))
    assert domain.names == WORDS
    np.testing.assert_allclose(domain.matrix, VECTORS.vectors, rtol=1e-6)
    assert read_domain(DomainSection(**options, max_words=3)).names == WORDS[:3]


@pytest.mark.parametrize(
    ("text", "holds"),
    [("Ford 1 2 3\n", True), ("1 3\nFord 1 2 3\n", True), ("Ford 1\n", False), ("a,b 1 2\n", False)],
)
def test_the_first_line_of_a_text_says_whether_it_holds_vectors(
    tmp_path: Path, text: str, holds: bool
) -> None:
    (tmp_path / "v.txt").write_text(text)
    assert holds_vectors(str(tmp_path / "v.txt"), "auto") == holds


def test_new_rows_of_vectors_stand_on_the_scales_of_the_old(tmp_path: Path) -> None:
    VECTORS.save(tmp_path / "v.bin")
    section, columns = DomainSection(path=str(tmp_path / "v.bin")), ["1", "2", "3", "4"]
    scales = Scales(np.arange(4.0), np.full(4, 2.0), np.zeros(4))
    found = read_new_rows(section, columns, scales)
    assert found.names == WORDS
    np.testing.assert_allclose(found.matrix, (VECTORS.vectors - np.arange(4)) / 2, rtol=1e-6)
    with pytest.raises(TableError, match=r"v\.bin holds vectors of 4 components, but the job has 3 columns"):
        read_new_rows(section, columns[:3], scales)


@pytest.mark.parametrize("options", [{"columns": ("a",)}, {"transform": "return_correlation"}])
def test_a_key_of_tables_is_refused_for_vectors(tmp_path: Path, options: dict[str, Any]) -> None:
    VECTORS.save(tmp_path / "v.bin")
    with pytest.raises(TableError, match=rf"domain\.{next(iter(options))} says nothing"):
        read_domain(DomainSection(path=str(tmp_path / "v.bin"), **options))


JOB = """
[job]
system = "imputation"
workspace = "w"
[domain]
path = "domain.bin"
[known]
path = "known.csv"
[imputation]
min_degree = 4
[evaluation]
n_folds = 2
"""


def test_a_job_reads_the_vocabulary_of_one_embedding_and_the_vectors_of_another(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    names, Y = [f"n{i}" for i in range(40)], rng.standard_normal((40, 5))
    de.WordVectors(names, rng.standard_normal((40, 3))).save(tmp_path / "domain.bin")
    lines = [f"{names[i]}," + ",".join(map(str, Y[i])) for i in range(20)]
    (tmp_path / "known.csv").write_text("name,a,b,c,d,e\n" + "\n".join(lines) + "\n")
    (tmp_path / "job.toml").write_text(JOB)
    planned = succeed("plan", tmp_path / "job.toml").output
    assert "40 names x 3 numbers, vectors of 5 components" in planned
    assert 'imputation.metric = "cosine"' in planned
    succeed("run", tmp_path / "job.toml", "--until", "join")
    joined = de.Workspace.open(tmp_path / "w")
    assert joined.stages()["join"].facts["n_known"] == 20
    np.testing.assert_array_equal(joined.array("known_vectors").compute()[:20], Y[:20].astype(np.float32))
