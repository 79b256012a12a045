"""A corpus whose files come, go and change: only new files are read, and the bits are those of a run from scratch."""

from __future__ import annotations

from functools import wraps
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from distembed.corpus import partitions
from distembed.job.opening import open_job
from distembed.job.run import run_stages
from distembed.storage.workspace import Workspace
from tests.growing_corpus import count, digests, from_scratch, texts, write_file, write_job

FILES = {"a.jsonl": texts(1), "c.jsonl": texts(2)}
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


@pytest.fixture
def read(monkeypatch):
    """Return the files that were cut into tokens, as they are."""
    found = []
    real = partitions.tokenize_partition

    @wraps(real)
    def tokenize(bundle, *arguments, **options):
        found.extend(Path(one.url).name for one in bundle)
        return real(bundle, *arguments, **options)

    monkeypatch.setattr(partitions, "tokenize_partition", tokenize)
    return found


def documents_held(place: Path) -> set[str]:
    """Return the ids of the documents of all token files that lie in a workspace, whatever its records say."""
    items = (place / "tokens").glob("**/*.documents.parquet")
    return {ident for item in items for ident in pq.read_table(item)["id"].to_pylist()}


@pytest.mark.parametrize("counting", ['direction = "left"', 'subsample = 0.05\noov = "remove"'])
def test_files_added_anywhere_give_the_bits_of_a_run_from_scratch(tmp_path, counting, read):
    write_job(tmp_path, FILES, counting=counting)
    count(tmp_path)
    for name, seed in (("d.jsonl", 3), ("b.jsonl", 4), ("0.jsonl", 5)):
        write_file(tmp_path, name, texts(seed))
        read.clear()
        count(tmp_path)
        assert read == [name]
        assert digests(tmp_path / "w") == from_scratch(tmp_path)
        assert Workspace.open(tmp_path / "w").verify() == []


def test_nothing_of_a_file_that_goes_or_changes_is_left(tmp_path, read):
    write_job(tmp_path, FILES | {"b.jsonl": texts(5), "d.jsonl": texts(6)})
    count(tmp_path, until=None)
    (tmp_path / "text" / "b.jsonl").unlink()
    write_file(tmp_path, "d.jsonl", texts(7, 3))
    read.clear()
    count(tmp_path, until=None)
    assert read == ["d.jsonl"]
    w = tmp_path / "w"
    assert digests(w) == from_scratch(tmp_path, until=None)
    assert {ident.split("-")[0] for ident in documents_held(w)} == {"a", "c", "d"}
    assert "d-3" not in documents_held(w)
    assert not [path for path in w.glob("**/*") if path.is_file() and b"own5x" in path.read_bytes()]
    assert Workspace.open(w).verify() == []


def test_two_files_of_one_content_are_told_apart_by_how_many_there_are(tmp_path, read):
    write_job(tmp_path, {"a.jsonl": texts(1), "b.jsonl": texts(2)})
    (tmp_path / "text" / "c.jsonl").write_bytes((tmp_path / "text" / "b.jsonl").read_bytes())
    count(tmp_path)
    (tmp_path / "text" / "b.jsonl").unlink()
    read.clear()
    count(tmp_path)
    assert read == []
    assert digests(tmp_path / "w") == from_scratch(tmp_path)


def test_damaged_tokens_are_read_again(tmp_path, read):
    write_job(tmp_path, FILES)
    count(tmp_path)
    one, other = (Path(item.paths[0]).parent for item in Workspace.open(tmp_path / "w").files("tokens"))
    (one / "part.words.parquet").write_bytes(b"spoilt")
    (other / "part.tokens.parquet").unlink()
    write_file(tmp_path, "d.jsonl", texts(3))
    read.clear()
    count(tmp_path)
    assert sorted(read) == ["a.jsonl", "c.jsonl", "d.jsonl"]
    assert digests(tmp_path / "w") == from_scratch(tmp_path)


def test_a_reader_of_other_options_keeps_nothing(tmp_path, read):
    write_job(tmp_path, FILES)
    count(tmp_path)
    read.clear()
    count(tmp_path, settings=("corpus.lowercase=false",))
    assert sorted(read) == ["a.jsonl", "c.jsonl"]


@pytest.mark.parametrize("store", ["folder", "memory"])
def test_topics_in_a_folder_or_a_store_read_new_files_only(tmp_path, read, store):
    def run(place: str) -> dict[str, str]:
        job = open_job(str(tmp_path / "job.toml"), workspace=place)
        run_stages(job, until="cooccurrence", replace=True)
        found = Workspace.open(place)
        assert found.verify() == []
        return {name: found.digest([name]) for name in found.stages()}

    for seed in (1, 2):
        write_file(tmp_path, f"{seed}.jsonl", texts(seed, 20))
    (tmp_path / "job.toml").write_text(TOPICS, encoding="utf-8")
    place = str(tmp_path / "w") if store == "folder" else f"memory://{tmp_path.name}"
    run(place)
    write_file(tmp_path, "0.jsonl", texts(3, 20))
    read.clear()
    grown = run(place)
    assert read == ["0.jsonl"]
    assert grown == run(str(tmp_path / "scratch"))
