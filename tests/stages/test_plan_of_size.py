"""Plans of corpora that are not here: a sample of the text and the size of all of it."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from distembed.corpus.growth_blocks import Repetition
from distembed.costs import PAIR_BYTES, STORED_VALUE_BYTES
from distembed.counting.cooccurrence_options import CooccurrenceOptions
from distembed.counting.costs import MERGED_FILES, PairModel, run_pairs
from distembed.display import format_bytes
from distembed.job.load import load_job
from distembed.job.planning import plan_job
from tests.commands import run, succeed

TERABYTES = 2_000_000_000_000
TERABYTES_OF_FEW_WORDS = ('plan.bytes="2TB"', "vocabulary.max_size=20_000")
"""The sizes of all their words are estimated for five seconds."""


@pytest.fixture
def missing(tmp_path: Path) -> Path:
    place = tmp_path / "job.toml"
    place.write_text(
        '[job]\nworkspace = "w"\n[corpus]\npaths = ["dump.xml.bz2"]\n[psdvec]\nn_components = 5\nn_core = 50\n'
        '[resources]\nblock_memory = "64MiB"\nworkers = 1\n'
    )
    return place


@pytest.fixture
def sample(tmp_path: Path) -> Path:
    """Return a text of 40,000 tokens, the words of which follow Zipf's law."""
    ranks = np.random.default_rng(0).zipf(1.4, 40_000) % 5000
    words = ["".join(chr(97 + int(digit)) for digit in str(rank)) for rank in ranks]
    place = tmp_path / "part.txt"
    place.write_text("\n".join(" ".join(words[i : i + 20]) for i in range(0, len(words), 20)))
    return place


def test_a_corpus_that_is_not_here_is_planned_from_a_sample(missing: Path, sample: Path) -> None:
    done = succeed("plan", missing, "--sample", sample, "--tokens", "4e8")
    assert "about 400,000,000 tokens" in done.output
    assert "estimated from a sample" in done.output
    grown = f"{format_bytes(10_000 * sample.stat().st_size)} of input"
    assert grown in done.output


def test_its_size_gives_its_partitions(missing: Path, sample: Path) -> None:
    settings = (f'corpus.paths=["{sample}"]', "plan.tokens=340_000_000_000", *TERABYTES_OF_FEW_WORDS)
    plan = plan_job(load_job(missing, settings=settings))
    assert "about 340,000,000,000 tokens" in plan.sizes
    n_partitions = -(-TERABYTES // 2**25)
    assert plan.stages["tokens"].tasks == plan.stages["partial_counts"].tasks == n_partitions
    assert plan.stages["tokens"].read_bytes == TERABYTES


def test_the_same_without_a_sample_names_the_files_that_are_missing(missing: Path) -> None:
    done = run("plan", missing, "--bytes", "2TB")
    assert done.exit_code != 0
    assert "dump.xml.bz2 matches no file" in done.output


def test_a_count_that_no_word_reaches_is_refused(missing: Path, sample: Path) -> None:
    rare = ("--sample", sample, "--set", "vocabulary.min_count=100_000")
    refused = run("plan", missing, *rare)
    assert refused.exit_code == 1
    largest = max(Counter(sample.read_text().split()).values())
    assert (
        f"min_count is 100000 and the largest count of a word is {largest}; give a smaller" in refused.output
    )
    grown = run("plan", missing, *rare, "--tokens", "80_000")
    assert f"a word is about {float(f'{2 * largest:.1e}'):.0f}; give" in grown.output
    succeed("plan", missing, *rare, "--tokens", "4e9")


def test_every_partition_holds_its_own_pairs(missing: Path, sample: Path) -> None:
    """Two terabytes have few distinct pairs beside those that their partitions hold one by one."""
    settings = (f'corpus.paths=["{sample}"]', *TERABYTES_OF_FEW_WORDS)
    stages = plan_job(load_job(missing, settings=settings)).stages
    partial, merged = stages["partial_counts"], stages["cooccurrence"]
    assert partial.written_bytes > 30 * (merged.written_bytes - partial.written_bytes)
    # more files than one task reads are added in groups, and read twice
    assert partial.tasks > MERGED_FILES
    assert merged.read_bytes == 2 * partial.written_bytes


def test_the_pairs_of_runs_are_those_of_the_partitions() -> None:
    """Beside words drawn independently, counted partition by partition and a run at a time."""
    rng, n, n_partitions = np.random.default_rng(0), 60_000, 6
    counts = np.sort(rng.multinomial(n, 1 / np.arange(1, 301) / (1 / np.arange(1, 301)).sum()))[::-1]
    tokens = rng.permutation(np.repeat(np.arange(300), counts))
    model = PairModel(counts.astype(float), 1.0, n, Repetition(0.0, n, 0.0))

    def distinct(piece: np.ndarray) -> int:
        return len(np.unique(piece[:-1] * 300 + piece[1:]))

    parts = np.array_split(tokens, n_partitions)
    whole = sum(distinct(part) for part in parts)
    assert model.n_in_runs(n_partitions, 10**9) == pytest.approx(whole, rel=0.05)
    cut = len(parts[0]) * 2 // 3
    in_two = sum(distinct(part[:cut]) + distinct(part[cut:]) for part in parts)
    assert model.n_in_runs(n_partitions, distinct(parts[0][:cut])) == pytest.approx(in_two, rel=0.05)
    in_one_order = CooccurrenceOptions(direction="left", block_memory=2**20)
    assert run_pairs(in_one_order) == 2**20 // 4 // 8
    assert run_pairs(replace(in_one_order, direction="symmetric")) == 2 * run_pairs(in_one_order)


def test_weights_whose_sums_are_too_large_are_refused_before_counting(missing: Path, sample: Path) -> None:
    harmonic = ("--set", "counting.window=40", "--set", "counting.weighting=harmonic")
    succeed("plan", missing, "--sample", sample, *harmonic)
    done = run("plan", missing, "--sample", sample, "--tokens", "1e12", *harmonic)
    assert done.exit_code == 2
    assert "counting: in about 1,000,000,000,000 tokens a count could reach" in done.output
    assert 'use weighting="flat" or a smaller window' in done.output


@pytest.mark.parametrize(
    ("stage", "setting"),
    [
        ("tokens", "corpus.min_border_tokens=15"),
        ("tokens", 'corpus.phrases_file="names.txt"'),
        ("partial_counts", "counting.subsample=1e-3"),
        ("partial_counts", "counting.window=1_000_000"),
        ("subwords", "subwords.max_n=12"),
        ("pmi", "vocabulary.max_size=100"),
    ],
)
def test_the_options_of_a_job_reach_the_costs_of_its_stages(
    missing: Path, sample: Path, stage: str, setting: str
) -> None:
    (sample.parent / "names.txt").write_text("b c\n")
    base = (f'corpus.paths=["{sample}"]', "subwords.enabled=true", "matrices.keep=['pmi']")
    before, after = (plan_job(load_job(missing, settings=(*base, *more))).stages for more in ((), (setting,)))
    assert before[stage].peak_bytes(1) != after[stage].peak_bytes(1)


def test_the_matrix_of_pmi_reads_counts_once(missing: Path, sample: Path) -> None:
    """The counts of the words are the sums of its columns."""
    settings = (f'corpus.paths=["{sample}"]', "matrices.keep=['pmi']")
    pmi = plan_job(load_job(missing, settings=settings)).stages["pmi"]
    assert pmi.read_bytes / PAIR_BYTES == pytest.approx(pmi.written_bytes / STORED_VALUE_BYTES, rel=1e-3)
    assert pmi.keeps == (("pmi", pmi.written_bytes),)


def test_the_vectors_solve_the_words_after_the_core_where_no_stage_before_them_does(
    missing: Path, sample: Path
) -> None:
    settings = (f'corpus.paths=["{sample}"]',)
    solving = plan_job(load_job(missing, settings=settings)).stages["vectors"]
    stages = plan_job(load_job(missing, settings=(*settings, "subwords.enabled=true"))).stages
    before, joining = stages["noncore"], stages["vectors"]
    assert solving.tasks >= before.tasks >= joining.tasks
    assert solving.read_bytes > before.read_bytes
    assert solving.peak_bytes(1) >= before.task_bytes > joining.task_bytes
    # with subwords the directions of their spelling are stored, too, as large as the vectors
    assert solving.written_bytes == before.written_bytes + joining.written_bytes // 2
