"""The page to explore of a finished job, beside its report."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import distembed as de
from distembed.job.stage import EXPLORER, REPORT
from tests.commands import run, succeed


def test_the_page_lies_beside_the_report_and_is_damaged_and_replaced_like_other_outputs(copy: Path) -> None:
    report, page = copy / REPORT.name, copy / EXPLORER.name
    assert "<code>distembed explore " in report.read_text(encoding="utf-8")
    for n_words in (200, 100):
        assert f"{n_words} words in {page}" in succeed("explore", copy, "-n", n_words).stdout
        assert 'href="index.html"' in page.read_text(encoding="utf-8")
        succeed("verify", copy)
    page.write_text("cut", encoding="utf-8")
    assert "explore.html: truncated (stage explorer" in run("verify", copy).stdout
    assert "100 words" in succeed("explore", copy, "-n", 100).stdout
    succeed("verify", copy)


def test_a_vector_file_needs_a_place_for_its_page(tmp_path: Path) -> None:
    vectors = tmp_path / "vectors.txt"
    de.WordVectors(["a", "b", "c"], [[1, 0], [1, 1], [0, 1]]).save(vectors)
    refused = run("explore", vectors)
    assert refused.exit_code == 2
    assert "name the page with --to page.html" in refused.stderr
    target = tmp_path / "page.html"
    done = succeed("explore", vectors, "--to", target)
    assert "3 words in" in done.stdout
    assert target.stat().st_size > 1_000_000


def test_missing_libraries_are_named_before_any_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "v.bin").write_bytes(b"")
    for name in ("openTSNE", "bokeh"):
        monkeypatch.setitem(sys.modules, name, None)
    refused = run("explore", tmp_path / "v.bin")
    assert refused.exit_code == 2
    assert "needs openTSNE and bokeh: pip install" in refused.stderr
