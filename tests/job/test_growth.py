"""A corpus whose files come, go and change: only new files are read, and the bits are those of a run from scratch."""

from __future__ import annotations

import itertools
import random
import shutil
from functools import wraps
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import patch

import pytest

from distembed.corpus import partitions
from distembed.job.opening import open_job
from distembed.job.run import run_stages
from distembed.job.stage import EXPLORER, REPORT
from distembed.storage.stage import Stage
from distembed.storage.workspace import Workspace
from tests.commands import succeed
from tests.growing_corpus import count, digests, from_scratch, holders, texts, write_file, write_job

FILES = {"a.jsonl": texts(1), "c.jsonl": texts(2)}


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


def test_a_file_added_anywhere_is_read_alone(tmp_path, read):
    write_job(tmp_path, FILES, counting='subsample = 0.05\noov = "remove"')
    count(tmp_path)
    for name, seed in (("d.jsonl", 3), ("b.jsonl", 4)):
        write_file(tmp_path, name, texts(seed))
        assert "tokens will be computed of the new files" in succeed("plan", tmp_path / "job.toml").output
        read.clear()
        count(tmp_path)
        assert read == [name]
    # two files of one content are told apart by how many there are
    shutil.copy(tmp_path / "text" / "a.jsonl", tmp_path / "text" / "e.jsonl")
    count(tmp_path)
    (tmp_path / "text" / "a.jsonl").unlink()
    read.clear()
    count(tmp_path)
    assert read == []
    assert digests(tmp_path / "w") == from_scratch(tmp_path)
    assert Workspace.open(tmp_path / "w").verify() == []


def test_a_file_added_to_tokens_that_were_interrupted_loses_none_of_them(tmp_path, read):
    write_job(tmp_path, FILES)
    clock = SimpleNamespace(monotonic=itertools.count(0, 2000).__next__)
    interrupted = patch.object(Stage, "commit", side_effect=KeyboardInterrupt)
    with patch("distembed.storage.journal.time", clock), interrupted, pytest.raises(KeyboardInterrupt):
        count(tmp_path)
    write_file(tmp_path, "d.jsonl", texts(3))
    read.clear()
    run_stages(open_job(str(tmp_path / "job.toml")), until="tokens")
    assert read == ["d.jsonl"]


def test_a_run_killed_when_it_withdrew_the_commit_keeps_the_tokens(tmp_path, read):
    write_job(tmp_path, FILES | {"d.jsonl": texts(6)})
    count(tmp_path)
    (tmp_path / "text" / "d.jsonl").unlink()
    write_file(tmp_path, "b.jsonl", texts(5))
    stop = patch("distembed.storage.journal.remove_data", side_effect=KeyboardInterrupt)
    with stop, pytest.raises(KeyboardInterrupt):
        count(tmp_path)
    count(tmp_path)
    assert sorted(read) == ["a.jsonl", "b.jsonl", "c.jsonl", "d.jsonl"]
    assert Workspace.open(tmp_path / "w").verify() == []


def test_nothing_of_a_file_that_goes_or_changes_is_left(tmp_path, read):
    write_job(tmp_path, FILES | {"b.jsonl": texts(5), "d.jsonl": texts(6)})
    count(tmp_path, until=None, settings=("report.words=['own5x1']",))
    w = tmp_path / "w"
    succeed("explore", w)
    assert {REPORT.name, EXPLORER.name, "vocabulary.parquet"} < holders(w, "own5x1")
    (tmp_path / "text" / "b.jsonl").unlink()
    write_file(tmp_path, "d.jsonl", texts(7, 3))
    read.clear()
    count(tmp_path, until=None)
    assert read == ["d.jsonl"]
    assert ((w / REPORT.name).exists(), (w / EXPLORER.name).exists()) == (True, False)
    assert digests(w) == from_scratch(tmp_path, until=None)
    for gone, stays in (("own5x", "own7x"), ("b-3", "a-3"), ("d-3", "d-2")):
        assert (holders(w, gone), bool(holders(w, stays))) == (set(), True)
    assert Workspace.open(w).verify() == []


def test_damaged_tokens_and_those_of_other_options_are_read_again(tmp_path, read, monkeypatch):
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
    read.clear()
    count(tmp_path, settings=("corpus.lowercase=false",))
    assert sorted(read) == ["a.jsonl", "c.jsonl", "d.jsonl"]
    advance = "distembed.job.progress.Reporter.advance"
    monkeypatch.setattr(advance, lambda *_, **__: write_file(tmp_path, "c.jsonl", texts(9)))
    with pytest.raises(ValueError, match=r"c\.jsonl changed while it was read"):
        count(tmp_path)


TOPICS = """
[job]
system = "topics"
[corpus]
paths = ["text"]
numbers = true
id_field = "id"
[vocabulary]
max_share = 1.0
"""


def test_topics_in_a_store_read_new_files_only(tmp_path, read):
    def run(place: str) -> dict[str, str]:
        job = open_job(str(tmp_path / "job.toml"), workspace=place)
        run_stages(job, until="document_terms", replace=True)
        assert Workspace.open(place).verify() == []
        return digests(place)

    for name in (1, 2, 0):
        write_file(tmp_path, f"{name}.jsonl", texts(name, 20))
        (tmp_path / "job.toml").write_text(TOPICS, encoding="utf-8")
        read.clear()
        grown = run(f"memory://{tmp_path.name}")
        assert read == [f"{name}.jsonl"]
    assert grown == run(str(tmp_path / "scratch"))


def changed(drawn: random.Random, folder: Path, held: dict[str, list[str]]) -> None:
    """Add a file to a corpus, remove one, or take a document out of one; `held` has what is in each file."""
    how = drawn.choice(["add", "add", "remove", "take out"])
    name = f"{drawn.choice('mkcwa')}{drawn.randrange(100)}.jsonl"
    if how == "add" or len(held) < 2:
        held[name] = texts(drawn.randrange(6), 8)
    else:
        name = drawn.choice(sorted(held))
        held[name][drawn.randrange(8)] = ""
    write_file(folder, name, held[name])
    if how == "remove" and len(held) > 1:
        del held[name]
        (folder / "text" / name).unlink()


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 25))])
def test_any_sequence_equals_counting_the_final_corpus(tmp_path, seed):
    drawn, held = random.Random(seed), dict[str, list[str]]()
    write_job(tmp_path, {})
    for _ in range(4):
        for _ in range(drawn.randint(1, 3)):
            changed(drawn, tmp_path, held)
        count(tmp_path)
    write_job(tmp_path / "new", held)
    count(tmp_path / "new")
    assert digests(tmp_path / "w") == digests(tmp_path / "new" / "w")
