"""Any sequence of files added, gone, withdrawn and merged equals counting what is left from scratch."""

from __future__ import annotations

import json
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

from distembed.job.opening import open_job
from distembed.job.run import run_stages
from distembed.stages.merging import merge
from distembed.stages.withdrawing import withdraw
from tests.growing_corpus import LAST, count, digests, texts, write_file, write_job

SEEDS = st.integers(0, 5)


class ChangingCorpus(RuleBasedStateMachine):
    """A workspace, the folders that its job reads, and the documents that it should hold, by folder and file."""

    def __init__(self) -> None:
        super().__init__()
        self.root = Path(tempfile.mkdtemp())
        self.place = self.root / "0" / "w"
        self.held: dict[str, dict[str, list[str]]] = {"0": {}}
        self.n_files = 0
        for seed in (0, 1):
            self.write("0", seed)
        write_job(self.root / "0", {})
        count(self.root / "0")

    def teardown(self) -> None:
        shutil.rmtree(self.root)

    def write(self, folder: str, seed: int, n: int = 8) -> None:
        self.n_files += 1
        name = f"{'mkcwa'[seed % 5]}{self.n_files}.jsonl"
        self.held[folder][name] = texts(seed, n)
        write_file(self.root / folder, name, self.held[folder][name])

    def run(self) -> None:
        run_stages(open_job(str(self.place)), until=LAST, replace=True)

    def files(self) -> list[tuple[str, str]]:
        return [(folder, name) for folder, files in self.held.items() for name in files]

    @rule(seed=SEEDS)
    def add(self, seed: int) -> None:
        self.write("0", seed)
        self.run()

    @precondition(lambda self: len(self.held["0"]) > 1)
    @rule(number=SEEDS)
    def remove(self, number: int) -> None:
        name = sorted(self.held["0"])[number % len(self.held["0"])]
        del self.held["0"][name]
        (self.root / "0" / "text" / name).unlink()
        self.run()

    @precondition(lambda self: len(self.held["0"]) > 1)
    @rule(number=SEEDS)
    def withdraw_file(self, number: int) -> None:
        name = sorted(self.held["0"])[number % len(self.held["0"])]
        del self.held["0"][name]
        withdraw(str(self.place), files=[name])

    @rule(number=SEEDS, document=SEEDS)
    def withdraw_document(self, number: int, document: int) -> None:
        folder, name = self.files()[number % len(self.files())]
        if self.held[folder][name][document]:
            self.held[folder][name][document] = ""
            withdraw(str(self.place), documents=[f"{name.split('.')[0]}-{document}"])

    @rule(seed=SEEDS)
    def merge_with_another(self, seed: int) -> None:
        folder = str(len(self.held))
        self.held[folder] = {}
        self.write(folder, seed)
        write_job(self.root / folder, {})
        count(self.root / folder)
        target = self.root / f"merged-{folder}"
        merge([str(self.place), str(self.root / folder / "w")], to=str(target), until=LAST)
        self.place = target

    @invariant()
    def equals_counting_from_scratch(self) -> None:
        new = Path(tempfile.mkdtemp(dir=self.root))
        for folder, files in self.held.items():
            for name, documents in files.items():
                write_file(new / folder, name, documents)
        write_job(new, {})
        paths = json.dumps([str(new / folder / "text") for folder, files in self.held.items() if files])
        text = (new / "job.toml").read_text().replace('paths = ["text"]', f"paths = {paths}")
        (new / "job.toml").write_text(text)
        count(new)
        assert digests(self.place) == digests(new / "w")


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
