"""`distembed export --to static:DIR`: the folder of a real job and of a vector file, and its card."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import distembed as de
from distembed.job.opening import parse_source
from distembed.views.texts import open_encoder
from tests.commands import run, succeed

model2vec = pytest.importorskip("model2vec", reason="loads the folder: pip install 'distembed[test]'")


def test_a_job_becomes_a_model_with_the_vectors_of_its_encoder(
    finished: tuple[Path, str, str], tmp_path: Path
) -> None:
    done = succeed("export", finished[0], "--to", f"static:{tmp_path}/model")
    assert "weights from the counts of the words" in done.output
    texts = ["The history of the city.", "music, xyzzy!"]
    expected = open_encoder(parse_source(str(finished[0]))).transform(texts)
    found = model2vec.StaticModel.from_pretrained(tmp_path / "model").encode(texts)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-7)
    card = (tmp_path / "model" / "README.md").read_text(encoding="utf-8")
    assert finished[1] in card
    assert "enwiki-latest-pages-articles1.xml-p000000010p000030302-shortened.bz2" in card
    assert str(Path(finished[0]).parent) not in card


def test_a_vector_file_says_where_weights_come_from_and_which_words_no_text_gives(tmp_path: Path) -> None:
    words = ["of", "king", "new_york", "u.s."]
    de.WordVectors(words, np.eye(4)).save(tmp_path / "v.txt")
    done = succeed("export", tmp_path / "v.txt", "--to", f"static:{tmp_path}/m", "--whitening", "component")
    assert "weights from Zipf's law, by the order of the words" in done.output
    assert (
        "2 of 4 words never come out of a text as the tokenizer cuts it ('new_york', 'u.s.')" in done.output
    )
    assert "2 of 4 words never" in (tmp_path / "m" / "README.md").read_text(encoding="utf-8")


def test_what_cannot_be_written_is_said_in_one_sentence(tmp_path: Path) -> None:
    de.WordVectors(["a"], [[1.0]]).save(tmp_path / "v.txt")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.tex").touch()
    refused = run("export", tmp_path / "v.txt", "--to", f"static:{tmp_path}/full")
    assert refused.exit_code == 2
    assert "no model folder that distembed has written: name another folder" in refused.output
    for words in (["--to", "static:m", "--space", "_"], ["--to", "v.bin", "--weighting", "mean"]):
        assert run("export", tmp_path / "v.txt", *words).exit_code == 2
