"""A short run of each campaign finds no fault, and the campaign of power cuts finds one where a sync is left out."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.commands import environment

# each imports the whole package and runs jobs for minutes
pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

SHORT = (
    "kills --times 20 --systems imputation add remove",
    "power --times 60",
    "corruption --times 30 --systems psdvec imputation",
    "store --times 20",
    "fuzzing --times 2 --seed 7",
)


def ended(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *words]
    return subprocess.run(command, env=environment(), text=True, capture_output=True, check=False)


@pytest.mark.parametrize("words", SHORT)
def test_a_short_campaign_finds_no_fault(words: str) -> None:
    done = ended("-m", "tests.campaigns", *words.split())
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    "left_out",
    ["folder.Folder.sync = lambda *_: None", "folder.replacing = unsynced"],
    ids=["files", "names"],
)
def test_a_sync_that_is_left_out_is_found(left_out: str) -> None:
    program = (
        "from distembed.storage import folder\nfrom tests.campaigns import power\n"
        "real = folder.replacing\ndef unsynced(path, durable=False): return real(path)\n"
        f"{left_out}\npower.main(times=120)"
    )
    done = ended("-c", program)
    assert done.returncode == 1, done.stdout + done.stderr
