"""The synthetic Wikipedia of the benchmarks is an export that distembed reads, token by token what was counted."""

from __future__ import annotations

import numpy as np
import pytest

import distembed as de
from benchmarks.synthetic_wikipedia import Growth, read_source, walk_over, write


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    draw = np.random.default_rng(0)
    words = ["aleph", "beth", "gimel", "daleth", "he", "waw", "zayin", "heth", "Teth,", "yodh."]
    documents = [" ".join(draw.choice(words, 80)) + f"\n& <more> [[{'q' * n}]]" for n in range(1, 40)]
    path = tmp_path_factory.mktemp("source") / "text.txt"
    path.write_text("\n\n".join(documents))
    return read_source([path], seed=0)


def test_export_is_read_and_is_the_same_for_any_number_of_processes(source, tmp_path, capsys):
    for processes in (1, 2):
        folder = tmp_path / str(processes)
        write(folder, source, n_tokens=50_000, n_files=1, seed=0, plain=processes == 1, processes=processes)
    told = int(capsys.readouterr().out.split(": ")[1].split(" tokens")[0].replace(",", ""))
    plain, packed = (de.build_vocabulary(de.read_corpus(f"{tmp_path}/{n}/*"), min_count=1) for n in (1, 2))
    assert plain.words == packed.words
    np.testing.assert_array_equal(plain.counts, packed.counts)
    assert plain.counts.sum() == told


def test_rare_words_become_new_ones_that_grow(source):
    _, few, _ = walk_over(source, 20_000, 1)
    _, many, _ = walk_over(source, 200_000, 1)
    assert 0 < len(np.unique(few)) < len(np.unique(many))


def test_growth_counts_words_and_pairs_within_pages():
    growth = Growth(keep=1)
    growth.add(np.array([0, 1, 2, 3, 4, 0, 1]), np.array([0, 5, 7]))
    # of 0..4: distances one to three, 4 + 3 + 2 pairs; of (0, 1): one that was there
    assert growth.numbers() == (5, 9)
