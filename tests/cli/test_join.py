"""`distembed join` joins files and jobs, writes every format, and says how much of each is in the result."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import distembed as de
from distembed.job.opening import load_vectors, parse_source
from tests.commands import run, succeed

FIRST = de.WordVectors(["ant", "bee", "cow", "new york"], [[1, 0, 2], [0.9, 0.1, 0], [0, 1, 1], [3, 1, 0]])
SECOND = de.WordVectors(["cow", "ant", "dog", "new york"], [[1, 0], [0, 1], [2, 1], [1, 3]])


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    FIRST.save(tmp_path / "first.parquet")
    SECOND.save(tmp_path / "second.safetensors")
    return tmp_path / "first.parquet", tmp_path / "second.safetensors"


def test_files_are_joined_and_the_parts_told(files: tuple[Path, Path], tmp_path: Path) -> None:
    target = tmp_path / "joined.safetensors"
    done = succeed("join", *files, "--to", target, "--weights", "1,0.5")
    assert done.output.splitlines() == [
        f"{files[0]}: 3 of 4 words x 3 dimensions, weight 1",
        f"{files[1]}: 3 of 4 words x 2 dimensions, weight 0.5",
        f"3 words x 5 dimensions in {target}",
    ]
    found = de.WordVectors.load(target)
    assert found.words == ("ant", "cow", "new york")
    np.testing.assert_array_equal(found.vectors, de.join_vectors([FIRST, SECOND], weights=[1, 0.5]).vectors)


@pytest.mark.parametrize(
    ("options", "arguments"),
    [
        (["--weights", "learned"], {"weights": "learned"}),
        (["--words", "union"], {"words": "union"}),
        (["--n-components", "2"], {"n_components": 2}),
    ],
)
def test_an_option_is_the_argument_of_its_name(
    files: tuple[Path, Path], tmp_path: Path, options: list[str], arguments: dict[str, str | int]
) -> None:
    succeed("join", *files, "--to", tmp_path / "j.parquet", *options)
    expected = de.join_vectors([FIRST, SECOND], **arguments)
    found = de.WordVectors.load(tmp_path / "j.parquet")
    assert found.words == expected.words
    np.testing.assert_array_equal(found.vectors, expected.vectors)


@pytest.mark.parametrize(
    "name", ["j.txt", "j.bin", "j.glove", "j.csv", "j.tsv", "j.npy", "j.txt.gz", "j.fasttext.bin"]
)
def test_every_format_of_an_export_is_written(files: tuple[Path, Path], tmp_path: Path, name: str) -> None:
    done = (
        succeed("join", *files, "--to", tmp_path / name, "--space", "_")
        if name in SPACED
        else succeed("join", *files, "--to", tmp_path / name)
    )
    assert f"3 words x 5 dimensions in {tmp_path / name}" in done.output
    if name not in ("j.csv", "j.tsv", "j.npy"):
        assert len(de.WordVectors.load(tmp_path / name)) == 3


SPACED = {"j.txt", "j.bin", "j.glove", "j.txt.gz"}


def test_a_workspace_and_a_job_file_are_joined_with_a_file(copy: Path, tmp_path: Path) -> None:
    words = load_vectors(parse_source(str(copy)))
    other = de.WordVectors(words.words[::-1], words.vectors[::-1, :3])
    other.save(tmp_path / "other.bin")
    done = succeed("join", copy, tmp_path / "other.bin", "--to", tmp_path / "j.bin")
    assert f"{copy}: {len(words):,} of {len(words):,} words" in done.output
    assert de.WordVectors.load(tmp_path / "j.bin").words == words.words


@pytest.mark.parametrize(
    ("words", "message", "code"),
    [
        (["first.parquet"], "give two views or more", 1),
        (["first.parquet", "second.safetensors", "--weights", "1"], "there are 1 weights for 2 views", 1),
        (["first.parquet", "second.safetensors", "--weights", "1,0"], "the weight of view 2 is 0", 1),
        (["first.parquet", "second.safetensors", "--weights", "1,x"], '"1,x" is no list of numbers', 2),
        (["first.parquet", "second.safetensors", "--weights", "1,nan"], "the weight of view 2 is nan", 1),
        (["first.parquet", "second.safetensors", "--n-components", "6"], "give 1 to 3", 1),
        (["first.parquet", "second.safetensors", "--n-components", "0"], "0 is not in the range", 2),
        (["first.parquet", "absent.bin"], "absent.bin", 1),
    ],
)
def test_what_cannot_be_joined_ends_in_one_sentence(
    files: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch, words: list[str], message: str, code: int
) -> None:
    monkeypatch.chdir(files[0].parent)
    done = run("join", *words, "--to", "joined.parquet")
    assert done.exit_code == code
    assert message in " ".join(done.output.split())
    assert not Path("joined.parquet").exists()
    if code == 1:
        assert len(done.output.splitlines()) == 1


def test_a_file_in_a_workspace_is_not_written(files: tuple[Path, Path], copy: Path) -> None:
    assert run("join", *files, "--to", copy / "joined.bin").exit_code == 2


def test_a_table_of_ngrams_that_is_left_out_is_told(tmp_path: Path) -> None:
    words = ["walk", "walks", "talk", "talks"]
    matrix = np.random.default_rng(0).normal(size=(4, 3)).astype(np.float32)
    table = de.SubwordMap(min_words=1, validation_fraction=0).fit(words, matrix).table_
    de.WordVectors(words, matrix, subwords=table).save(tmp_path / "a.safetensors")
    de.WordVectors(words, matrix[::-1]).save(tmp_path / "b.bin")
    done = succeed("join", tmp_path / "a.safetensors", tmp_path / "b.bin", "--to", tmp_path / "j.bin")
    assert f"4 of 4 words x 3 dimensions; {table.contents} are left out, weight 1" in done.output
