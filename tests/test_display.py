"""One line for each object at a prompt, and a small table in a notebook, however large it is."""

from __future__ import annotations

import re

import dask.array as da
import numpy as np
import pytest
from scipy.sparse import csr_array

import distembed as de
from distembed.corpus.partitions import Tokens
from distembed.corpus.vocabulary import Vocabulary

WORDS = ["<b>the</b>", "\u202eof", "a", *(f"w{i}" for i in range(5000))]


def written_workspace(path):
    with de.Workspace.create(str(path), owner="a test") as workspace:
        stage = workspace.stage("counting", parameters={}, inputs={})
        lazy = da.from_array(np.eye(4), chunks=(2, 4)).map_blocks(csr_array, meta=csr_array((0, 0)))
        stage.store("counts", lazy, dims=("word", "context"), units="pairs", meaning="pairs <seen>")
        stage.commit()
    return workspace


@pytest.fixture
def objects(tmp_path):
    counts = np.full(len(WORDS), 2)
    for number in range(3):
        (tmp_path / f"{number}.txt").write_text("the cat sat\n")
    return {
        "Vocabulary(5,003 words, 10,006 tokens: '<b>the</b>', '\\u202eof', 'a', …)": Vocabulary(
            WORDS, counts, counts
        ),
        "WordVectors(5,003 words, 2 components: '<b>the</b>', '\\u202eof', 'a', …)": de.WordVectors(
            WORDS, np.ones((len(WORDS), 2))
        ),
        f"Corpus(3 files, 3 partitions: '{tmp_path}/0.txt', '{tmp_path}/1.txt', '{tmp_path}/2.txt')": (
            de.read_corpus(str(tmp_path / "*.txt"))
        ),
        f"Workspace('{tmp_path}/w', open for reading)": written_workspace(tmp_path / "w"),
        "Tokens(2,000 partitions: 'p0', 'p1', 'p2', …)": Tokens(tuple(f"p{i}" for i in range(2000))),
    }


def test_each_object_is_one_line(objects):
    assert [repr(found) for found in objects.values()] == list(objects)


def test_a_notebook_shows_a_small_escaped_table(objects):
    for found in objects.values():
        if not isinstance(found, Tokens):
            html = found._repr_html_()
            assert 0 < html.count("<tr>") <= 11
            assert len(html) < 3000
            assert not re.search("<b>the|<seen>", html)
    assert "and 4,993 more" in next(iter(objects.values()))._repr_html_()
