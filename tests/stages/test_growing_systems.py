"""Systems on a corpus, in a folder or a store, keep what they have read when files are added."""

from __future__ import annotations

import pytest

from distembed.job.opening import open_job
from distembed.job.run import run_stages
from distembed.stages import corpus as corpus_stages
from distembed.storage import Workspace
from tests.growing_corpus import texts, write_file

TOPICS = """
[job]
system = "topics"
title = "topics of a growing corpus"
workspace = "w"
[corpus]
paths = ["text"]
numbers = true
id_field = "id"
[vocabulary]
max_share = 1.0
[counting]
window = 3
[topics]
n_topics = 2
"""
SPACES = """
[job]
system = "wordspaces"
title = "word spaces of a growing corpus"
workspace = "w"
[corpus]
paths = ["text"]
numbers = true
id_field = "id"
[recipes.both_sides]
of = "hal"
method = "counts"
[recipes.few]
of = "both_sides"
method = "lsa"
n_components = 2
"""


@pytest.mark.parametrize(
    ("store", "text", "last"),
    [
        ("folder", TOPICS, "cooccurrence"),
        ("memory", TOPICS, "cooccurrence"),
        ("folder", SPACES, "hal_following"),
    ],
)
def test_systems_take_over_tokens_and_counts(tmp_path, monkeypatch, store, text, last):
    counted = []
    real = corpus_stages.count_partition

    def count_one(*arguments, **options):
        counted.append(options["what"].part.pairs)
        return real(*arguments, **options)

    def run(place: str) -> dict[str, str]:
        job = open_job(str(tmp_path / "job.toml"), workspace=place)
        run_stages(job, until=last, replace=True)
        found = Workspace.open(place)
        assert found.verify() == []
        return {name: found.digest([name]) for name in found.stages()}

    monkeypatch.setattr(corpus_stages, "count_partition", count_one)
    for seed in (1, 2):
        write_file(tmp_path, f"{seed}.jsonl", texts(seed, 20))
    (tmp_path / "job.toml").write_text(text, encoding="utf-8")
    place = str(tmp_path / "w") if store == "folder" else f"memory://{tmp_path.name}"
    run(place)
    write_file(tmp_path, "0.jsonl", texts(3, 20))
    counted.clear()
    grown = run(place)
    assert sorted(counted) == ["all", "changed", "changed"]
    assert grown == run(str(tmp_path / "scratch"))
