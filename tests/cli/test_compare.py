"""`distembed compare`: rotated vectors are equal, what differs comes first, and mistakes are sentences."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest

import distembed as de
from distembed.manifold.compared_vectors import compare_vectors
from tests.commands import run, succeed

WORDS = [f"word{number}" for number in range(60)]


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    """Write vectors, and the same turned around with two words in each other's places and one word more."""
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((len(WORDS), 5)).astype(np.float32)
    turn, _ = np.linalg.qr(rng.standard_normal((5, 5)))
    other = rows.copy()
    other[[3, 4]] = other[[4, 3]]
    de.WordVectors(WORDS, rows).save(tmp_path / "a.txt")
    turned = np.concatenate([other @ turn, np.ones((1, 5))]).astype(np.float32)
    de.WordVectors([*WORDS, "later"], turned).save(tmp_path / "b.txt")
    return tmp_path / "a.txt", tmp_path / "b.txt"


def test_the_words_that_differ_come_first_with_their_neighbors(files, tmp_path):
    told = run("compare", *files, "-n", "2", "--json", "--to", tmp_path / "d.csv")
    found = json.loads(told.stdout)
    assert {row["word"] for row in found["words"]} == {"word3", "word4"}
    assert found["words"][0]["first"] != found["words"][0]["second"]
    assert "60 words in both" in found["sentences"][0]
    assert "An orthogonal map has no noise floor of its own" in found["sentences"][1]
    with (tmp_path / "d.csv").open(encoding="utf-8-sig") as file:
        distances = {row["word"]: float(row["distance"]) for row in csv.DictReader(file)}
    assert max(distance for word, distance in distances.items() if word not in ("word3", "word4")) < 0.2
    lines = succeed("compare", *files, "word3", "--neighbors", 3).output.splitlines()
    assert lines[-1].startswith("word3 ")
    assert lines[-1].count(", ") == 4


def test_without_a_map_turned_vectors_differ(files):
    first, second = (de.WordVectors.load(file) for file in files)
    plain = compare_vectors(first, second, axes="none").distances
    turned = compare_vectors(first, second).distances
    assert np.median(plain) > 10 * np.median(turned)
    same = compare_vectors(first, first, axes="none").distances
    np.testing.assert_allclose(same, 0, atol=1e-6)


def test_words_renamed_by_a_dictionary_bring_the_others_along(files):
    first, second = (de.WordVectors.load(file) for file in files)
    renamed = de.WordVectors(
        [word if word in WORDS[10:40] else f"{word} (en)" for word in WORDS], first.vectors
    )
    found = compare_vectors(renamed, second)
    assert found.words == WORDS[10:40]
    cosines = found.first[[f"{word} (en)" for word in WORDS[45:]]] @ found.second.vectors.T
    assert [found.second.words[place] for place in cosines.argmax(axis=1)] == WORDS[45:]


def test_mistakes_are_one_sentence(files, tmp_path):
    few = tmp_path / "few.txt"
    de.WordVectors(["word1", "x"], np.eye(2, 5, dtype=np.float32)).save(few)
    wide = tmp_path / "wide.txt"
    de.WordVectors(WORDS, np.ones((60, 7), np.float32)).save(wide)
    for words, sentence in [
        ((files[0], files[0]), "is named twice"),
        ((files[0], few), "share 1 words, and the comparison needs 5"),
        ((files[0], wide, "--map", "none"), "have 5 and 7 dimensions"),
        ((*files, "nowhere"), "'nowhere' is not among the 60 words that both sides have"),
        ((*files, "--to", tmp_path / "d.docx"), "cannot be detected from its name"),
    ]:
        done = run("compare", *words)
        assert done.exit_code == 1, words
        assert sentence in done.stderr


def test_two_runs_have_their_keys_and_scores_side_by_side(tiny, tmp_path):
    rng = np.random.default_rng(0)
    vocabulary = de.Workspace.open(tiny / "w").table("vocabulary")["word"].to_pylist()
    pairs = {tuple(rng.choice(vocabulary[:20], 2, replace=False)) for _ in range(40)}
    lines = [f"{a}\t{b}\t{score}" for score, (a, b) in enumerate(sorted(pairs))]
    (tmp_path / "pairs.tsv").write_text("word1\tword2\tscore\n" + "\n".join(lines))
    words = ("--set", f'evaluation.sets=["{tmp_path / "pairs.tsv"}"]')
    for n in (2, 3):
        succeed(
            "run",
            tiny / "job.toml",
            "--workspace",
            tmp_path / str(n),
            *words,
            "--set",
            f"psdvec.n_components={n}",
        )
    told = succeed("compare", tmp_path / "2", tmp_path / "3").output
    assert "keys that differ: psdvec.n_components was 2, is 3\n" in told
    values = [
        succeed("evaluate", tmp_path / n, "--sets", tmp_path / "pairs.tsv").output.splitlines()[-1].split()[3]
        for n in ("2", "3")
    ]
    first, second = map(float, values)
    (row,) = (line.split() for line in told.splitlines() if line.startswith("pairs") and ".." in line)
    assert float(row[1]) == pytest.approx(second - first, abs=0.11)
    low, high = map(float, row[2].split(".."))
    assert low < float(row[1]) < high
    assert row[3] == str(len(pairs))
