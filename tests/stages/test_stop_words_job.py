"""Stop words of a job of word vectors: they get no vector."""

from __future__ import annotations

from pathlib import Path

from tests.commands import succeed
from tests.stages.test_phrases_job import JOB, TEXT, counts


def test_function_words_get_no_vector(tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text(TEXT)
    job = tmp_path / "job.toml"
    job.write_text(JOB.replace('phrases_file = "names.txt"\n', ""))
    chosen = ("--set", "vocabulary.stop_words=english", "--set", "vocabulary.keep=['of']")
    succeed("run", job, "--until", "vocabulary", *chosen, "--set", "vocabulary.max_size=5")
    assert sorted(counts(job)) == ["city", "louis", "new", "of", "york"]
