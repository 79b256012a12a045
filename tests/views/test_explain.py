"""`distembed explain`: terms that add up, counts and passages that are the workspace's, one sentence a mistake."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

import distembed as de
from distembed.corpus.concordance import Passage
from distembed.execution import compute
from distembed.views.answers import Answer, as_page, as_text
from distembed.views.explain import NO_TOKENS
from distembed.views.report.page import Passages, ShownTable
from tests.commands import run, succeed

Finished = tuple[Path, str, str]


def test_two_words_are_explained(finished, tmp_path):
    workspace, found, page = finished[0], tmp_path / "e.json", tmp_path / "e.html"
    done = succeed("explain", workspace, "Music", "art", "-n", 8, "--to", found)
    assert done.output.startswith("music and art: cosine 0.")
    assert "Music has no vector, and music is taken for it\n" in done.output
    succeed("explain", workspace, "music", "art", "-n", 8, "--to", page)
    record = json.loads(found.read_text())
    *rows, last = record["tables"]["contexts"]
    assert last["context"] == "cosine"
    assert sum(row["term"] for row in rows) == pytest.approx(last["term"], abs=1e-6)
    _check_cosine(workspace, last["term"])
    _check_counts(workspace, rows[:8])
    assert len(record["passages"]) > 1
    for title, group in record["passages"].items():
        for line in group:
            marked = {line["words"][place] for place in line["marked"]}
            assert {"music", "art"} & marked
            assert title.removeprefix("passages with ") in marked | {"music and art"}
    assert "<table" in page.read_text()


def _check_cosine(workspace: Path, cosine: float) -> None:
    opened = de.Workspace.open(workspace)
    vectors = de.WordVectors(opened.table("vocabulary")["word"].to_pylist(), compute(opened.array("vectors")))
    assert vectors.similarity("music", "art") == pytest.approx(cosine, abs=1e-6)


def _check_counts(workspace: Path, rows: list[dict[str, float]]) -> None:
    """Compare counts in both orders, and PMI, with those of the whole matrix."""
    opened = de.Workspace.open(workspace)
    vocabulary = opened.table("vocabulary")
    place = {word: row for row, word in enumerate(vocabulary["word"].to_pylist())}
    shares = np.asarray(vocabulary["count"]) / sum(vocabulary["count"].to_pylist())
    totals = np.asarray(opened.table("row_totals")["n_pairs"])
    matrix = np.vstack(
        [compute(block).toarray() for block in opened.array("cooccurrence").to_delayed().ravel()]
    )
    assert any(row["with art"] for row in rows)
    for row in rows:
        for word in ("music", "art"):
            k, j = place[word], place[row["context"]]
            both = matrix[k, j] + matrix[j, k]
            assert row[f"with {word}"] == both
            if both:
                chance = totals[k] * shares[j] + totals[j] * shares[k]
                assert row[f"PMI {word}"] == pytest.approx(math.log(both / chance))


def test_one_word_has_its_passages_with_their_lines(finished, tmp_path):
    found = tmp_path / "e.json"
    done = succeed("explain", finished[0], "music", "-n", 5, "--to", found)
    assert done.output.startswith("music: its first 5 passages\n")
    lines = json.loads(found.read_text())["passages"]["music"]
    assert [[line["words"][place] for place in line["marked"]] for line in lines] == [["music"]] * 5
    (tmp_path / "a.txt").write_text("sea\nthe sun\nno\na sun\n")
    (tmp_path / "job.toml").write_text(
        '[job]\nsystem = "psdvec"\nworkspace = "w"\n[corpus]\npaths = ["a.txt"]\n'
        "[vocabulary]\nmin_count = 1\n[psdvec]\nn_components = 2\n"
    )
    succeed("run", tmp_path / "job.toml", "--until", "documents")
    done = succeed("explain", tmp_path / "job.toml", "sun")
    assert all(f"{tmp_path / 'a.txt'}, line {number}\n" in done.output for number in (2, 4))


def test_without_tokens_the_terms_remain(copy):
    for file in (copy / "tokens").rglob("*.parquet"):
        file.unlink()
    done = succeed("explain", copy, "music", "art")
    assert NO_TOKENS in done.output
    assert "contexts:" in done.output
    assert NO_TOKENS in run("explain", copy, "music").output


def test_what_is_written_cannot_steer_terminal_or_page():
    bad = Passage("id", "<script>", ("a", "\x1b[2Jb"), (1,))
    table = ShownTable("terms", [{"context": "<b>\x1b", "term": 0.25}], {"term": 2})
    answer = Answer("<title>", ["one"], {}, [table], [Passages("passages", [bad])])
    assert "\x1b" not in as_text(answer)
    page = as_page(answer)
    assert "<script>" not in page
    assert "\x1b" not in page
    assert "0.25" in page
