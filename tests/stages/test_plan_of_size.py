"""Plans of corpora that are not here: a sample of the text and the size of all of it."""

from __future__ import annotations

import numpy as np
import pytest

from distembed.display import format_bytes
from distembed.job.load import load_job
from distembed.job.plan import plan_job
from distembed.job.run import run_stages
from distembed.job.stage import Counted
from distembed.storage.workspace import Workspace
from distembed.systems.psdvec.stages import psdvec_dimensions
from tests.commands import run, succeed

TERABYTES = 2_000_000_000_000


@pytest.fixture
def missing(tmp_path):
    place = tmp_path / "job.toml"
    place.write_text(
        '[job]\nworkspace = "w"\n[corpus]\npaths = ["dump.xml.bz2"]\n[psdvec]\nn_components = 5\nn_core = 50\n'
        '[resources]\nblock_memory = "64MiB"\nworkers = 1\n'
    )
    return place


@pytest.fixture
def sample(tmp_path):
    """Return a text of 40,000 tokens, the words of which follow Zipf's law."""
    ranks = np.random.default_rng(0).zipf(1.4, 40_000) % 5000
    words = ["".join(chr(97 + int(digit)) for digit in str(rank)) for rank in ranks]
    place = tmp_path / "part.txt"
    place.write_text("\n".join(" ".join(words[i : i + 20]) for i in range(0, len(words), 20)))
    return place


def test_a_corpus_that_is_not_here_is_planned_from_a_sample(missing, sample):
    done = succeed("plan", missing, "--sample", sample, "--tokens", "4e8")
    grown = f"{format_bytes(10_000 * sample.stat().st_size)} of input"
    for part in ("about 400,000,000 tokens", "by a sample of the text", grown):
        assert part in done.output
    without = run("plan", missing, "--bytes", "2TB")
    assert without.exit_code != 0
    assert "dump.xml.bz2 matches no file" in without.output


def test_its_size_gives_its_partitions(missing, sample):
    settings = (f'corpus.paths=["{sample}"]', "plan.tokens=340_000_000_000", 'plan.bytes="2TB"')
    plan = plan_job(load_job(missing, settings=settings))
    assert "about 340,000,000,000 tokens" in plan.sizes
    n_partitions = -(-TERABYTES // 2**25)
    assert plan.stages["tokens"].tasks == n_partitions <= plan.stages["cooccurrence"].tasks


def test_every_size_before_the_text_is_read_is_no_less_than_what_is_counted(missing, sample):
    settings = (f'corpus.paths=["{sample}"]', "vocabulary.min_count=3")
    job = load_job(missing, settings=settings, workspace=str(sample.parent / "w"))
    before = psdvec_dimensions(job, None)
    run_stages(job, until="cooccurrence")
    workspace = Workspace.open(job.job.workspace)
    after = psdvec_dimensions(job, Counted(workspace, workspace.stages()))
    for name in ("token", "document", "word", "pair"):
        assert not before[name].counted
        assert after[name].counted
        assert after[name].size <= before[name].size, name
        assert after[name].block <= before[name].block, name
