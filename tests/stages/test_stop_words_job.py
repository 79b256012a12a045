"""Stop words of a job of word vectors: they get no vector, by text and by table, and none changes nothing."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from distembed.stages.given_counts import _chosen

from distembed.corpus import Vocabulary
from distembed.job.load import load_job
from distembed.stages.corpus import VOCABULARY
from distembed.stages.corpus_sections import VocabularySection
from tests.commands import succeed
from tests.stages.test_phrases_job import JOB, TEXT, counts


def test_function_words_get_no_vector(tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text(TEXT)
    job = tmp_path / "job.toml"
    job.write_text(JOB.replace('phrases_file = "names.txt"\n', ""))
    assert set(VOCABULARY.parameters(load_job(job))["vocabulary"]) == {"min_count", "max_size", "keep"}
    chosen = ("--set", "vocabulary.stop_words=english", "--set", "vocabulary.keep=['of']")
    succeed("run", job, "--until", "vocabulary", *chosen, "--set", "vocabulary.max_size=5")
    assert sorted(counts(job)) == ["city", "louis", "new", "of", "york"]


def test_function_words_of_a_table_are_left_out_before_it_is_cut() -> None:
    words = Vocabulary(["the", "city", "of", "york", "rare"], np.array([9, 8, 7, 6, 1]), np.ones(5, np.int64))
    options = VocabularySection(min_count=2, max_size=2, stop_words="english", keep=("of",))
    assert [words.words[row] for row in _chosen(words, options)] == ["city", "of", "york"]
    everything = VocabularySection(min_count=2, max_size=2)
    assert [words.words[row] for row in _chosen(words, everything)] == ["the", "city"]
