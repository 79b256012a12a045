"""Any sequence of files that come, go and change equals counting what is left from scratch."""

from __future__ import annotations

import shutil
import tempfile
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

from tests.growing_corpus import count, digests, texts, write_file, write_job

SEEDS = st.integers(0, 5)


class ChangingCorpus(RuleBasedStateMachine):
    """A workspace, the folder that its job reads, and the documents that it should hold, by file."""

    def __init__(self) -> None:
        super().__init__()
        self.root = Path(tempfile.mkdtemp())
        self.held: dict[str, list[str]] = {}
        self.n_files = 0
        for seed in (0, 1):
            self.write(seed)
        write_job(self.root, {})
        count(self.root)

    def teardown(self) -> None:
        shutil.rmtree(self.root)

    def write(self, seed: int) -> None:
        self.n_files += 1
        name = f"{'mkcwa'[seed % 5]}{self.n_files}.jsonl"
        self.held[name] = texts(seed, 8)
        write_file(self.root, name, self.held[name])

    @rule(seed=SEEDS)
    def add(self, seed: int) -> None:
        self.write(seed)
        count(self.root)

    @precondition(lambda self: len(self.held) > 1)
    @rule(number=SEEDS)
    def remove(self, number: int) -> None:
        name = sorted(self.held)[number % len(self.held)]
        del self.held[name]
        (self.root / "text" / name).unlink()
        count(self.root)

    @rule(number=SEEDS, document=SEEDS)
    def take_out_a_document(self, number: int, document: int) -> None:
        name = sorted(self.held)[number % len(self.held)]
        self.held[name][document] = ""
        write_file(self.root, name, self.held[name])
        count(self.root)

    @invariant()
    def equals_counting_from_scratch(self) -> None:
        new = Path(tempfile.mkdtemp(dir=self.root))
        write_job(new, self.held)
        count(new)
        assert digests(self.root / "w") == digests(new / "w")


@pytest.mark.parametrize(
    ("n", "steps"), [(2, 4), pytest.param(40, 8, marks=pytest.mark.slow)]
)  # runs of minutes
def test_any_sequence_equals_counting_the_final_corpus(n, steps):
    run_state_machine_as_test(
        ChangingCorpus,
        settings=settings(
            max_examples=n, stateful_step_count=steps, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )
