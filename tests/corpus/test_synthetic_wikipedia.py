"""The synthetic Wikipedia of the benchmarks is an export that distembed reads, token by token what was counted."""

from __future__ import annotations

import numpy as np

import distembed as de
from benchmarks.synthetic_wikipedia import Growth, read_source, write


def test_export_is_read_and_is_the_same_for_any_number_of_processes(tmp_path, capsys):
    draw = np.random.default_rng(0)
    words = ["aleph", "beth", "gimel", "daleth", "he", "waw", "zayin", "heth", "Teth,", "yodh."]
    documents = [" ".join(draw.choice(words, 80)) + f"\n& <more> [[{'q' * n}]]" for n in range(1, 40)]
    (tmp_path / "text.txt").write_text("\n\n".join(documents))
    source = read_source([tmp_path / "text.txt"], seed=0)
    for n in (1, 2):
        write(tmp_path / str(n), source, n_tokens=20_000, n_files=1, seed=0, plain=n == 1, processes=n)
    told = int(capsys.readouterr().out.split(": ")[1].split(" tokens")[0].replace(",", ""))
    plain, packed = (de.build_vocabulary(de.read_corpus(f"{tmp_path}/{n}/*")) for n in (1, 2))
    assert packed.to_pandas().equals(plain.to_pandas())
    assert plain.counts.sum() == told


def test_growth_counts_words_and_pairs_within_pages():
    growth = Growth(keep=1)
    growth.add(np.array([0, 1, 2, 3, 4, 0, 1]), np.array([0, 5, 7]))
    # of 0..4: distances one to three, 4 + 3 + 2 pairs; of (0, 1): one that was there
    assert growth.numbers() == (5, 9)
