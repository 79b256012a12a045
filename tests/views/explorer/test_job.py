"""The page to explore of a finished job: beside the report, which links to it while it is that of the workspace."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import distembed as de
from distembed.job import derived
from distembed.storage.records import canonical_json, new_digest, seal
from distembed.storage.workspace import Workspace
from tests.commands import run, succeed


def test_the_report_links_to_the_page_while_it_is_whole(copy: Path) -> None:
    report = copy / "report" / "index.html"
    assert "<code>distembed explore " in report.read_text(encoding="utf-8")
    done = succeed("explore", copy, "-n", 200)
    assert "200 words in " in done.stdout
    assert 'href="explore.html"' in report.read_text(encoding="utf-8")
    assert 'href="index.html"' in (copy / derived.EXPLORER).read_text(encoding="utf-8")
    succeed("verify", copy)
    (copy / derived.EXPLORER).write_text("cut", encoding="utf-8")
    assert 'href="explore.html"' not in _report(copy)


def _report(workspace: Path) -> str:
    succeed("report", workspace)
    return (workspace / "report" / "index.html").read_text(encoding="utf-8")


def test_a_page_of_other_content_is_not_linked(copy: Path) -> None:
    page, of_page = derived.EXPLORER, derived.EXPLORER.replace(".html", ".json")
    with Workspace.create(str(copy), owner="test") as workspace:
        derived.keep(workspace, page, b"<p>a page</p>")
        assert derived.is_kept(workspace, page)
        known = {"made_from": "another digest", "content": new_digest(b"<p>a page</p>").hexdigest()}
        long = {**known, "made_from": workspace.digest(), "more": "x" * derived.SEAL_BYTES}
        for damage in (seal(canonical_json(known)), seal(canonical_json(long)), b"torn"):
            workspace.write_file(of_page, damage)
            assert not derived.is_kept(workspace, page)
            assert derived.stale(workspace) == [page, of_page]
        assert derived.remove_stale(workspace) == [page, of_page]
        assert derived.stale(workspace) == []


def test_a_vector_file_needs_a_place_for_its_page(tmp_path: Path) -> None:
    vectors = tmp_path / "vectors.txt"
    de.WordVectors(["a", "b", "c"], [[1, 0], [1, 1], [0, 1]]).save(vectors)
    refused = run("explore", vectors)
    assert refused.exit_code == 1
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
    assert refused.exit_code == 1
    assert "needs openTSNE and bokeh: pip install" in refused.stderr
