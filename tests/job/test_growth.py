"""A corpus whose files come, go and change: only new files are read, and the bits are those of a run from scratch."""

from __future__ import annotations

import shutil
import tempfile
from functools import wraps
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from distembed.corpus import partitions
from distembed.job.opening import open_job
from distembed.job.run import run_stages
from distembed.job.stage import EXPLORER, REPORT
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


def test_damaged_tokens_and_those_of_other_options_are_read_again(tmp_path, read):
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
        found = Workspace.open(place)
        assert found.verify() == []
        return {name: found.digest([name]) for name in found.stages()}

    for name in (1, 2, 0):
        write_file(tmp_path, f"{name}.jsonl", texts(name, 20))
        (tmp_path / "job.toml").write_text(TOPICS, encoding="utf-8")
        read.clear()
        grown = run(f"memory://{tmp_path.name}")
        assert read == [f"{name}.jsonl"]
    assert grown == run(str(tmp_path / "scratch"))


# --- any sequence ----------------------------------------------------------------------------------------------------


SEEDS = st.integers(0, 5)


class ChangingCorpus(RuleBasedStateMachine):
    """A workspace, the folder that its job reads, and the documents that it should hold, by file."""

    def __init__(self) -> None:
        super().__init__()
        self.root = Path(tempfile.mkdtemp())
        self.held: dict[str, list[str]] = {}
        self.n_files = 0
        write_job(self.root, {})
        self.add(0)
        self.add(1)

    def teardown(self) -> None:
        shutil.rmtree(self.root)

    @rule(seed=SEEDS)
    def add(self, seed: int) -> None:
        self.n_files += 1
        name = f"{'mkcwa'[seed % 5]}{self.n_files}.jsonl"
        self.held[name] = texts(seed, 8)
        write_file(self.root, name, self.held[name])

    @precondition(lambda self: len(self.held) > 1)
    @rule(number=SEEDS)
    def remove(self, number: int) -> None:
        name = sorted(self.held)[number % len(self.held)]
        del self.held[name]
        (self.root / "text" / name).unlink()

    @rule(number=SEEDS, document=SEEDS)
    def take_out_a_document(self, number: int, document: int) -> None:
        name = sorted(self.held)[number % len(self.held)]
        self.held[name][document] = ""
        write_file(self.root, name, self.held[name])

    @invariant()
    def equals_counting_from_scratch(self) -> None:
        count(self.root)
        new = Path(tempfile.mkdtemp(dir=self.root))
        write_job(new, self.held)
        count(new)
        assert digests(self.root / "w") == digests(new / "w")


@pytest.mark.parametrize(("n", "steps"), [(1, 5), pytest.param(40, 8, marks=pytest.mark.slow)])
def test_any_sequence_equals_counting_the_final_corpus(n, steps):
    chosen = settings(max_examples=n, stateful_step_count=steps, suppress_health_check=list(HealthCheck))
    run_state_machine_as_test(ChangingCorpus, settings=chosen)
