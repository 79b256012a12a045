"""Exit codes of a run: 2 for what another try meets again, 1 where it may help, 3 where the same command goes on."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import distembed as de
from distembed.storage.records import FORMAT, VERSION, WORKSPACE_FILE, Header, dumped
from tests.commands import run


def nothing(_: Path) -> None:
    pass


def no_corpus(folder: Path) -> None:
    shutil.rmtree(folder / "text")
    shutil.rmtree(folder / "w")


def no_job(folder: Path) -> None:
    (folder / "job.toml").unlink()


def wrong_key(folder: Path) -> None:
    with (folder / "job.toml").open("a") as file:
        file.write("block_memry = '1MiB'\n")


def no_results(folder: Path) -> None:
    shutil.rmtree(folder / "w")


def other_things(folder: Path) -> None:
    no_results(folder)
    (folder / "w").mkdir()
    (folder / "w" / "letter.txt").write_text("mine")


def newer_format(folder: Path) -> None:
    (folder / "w" / WORKSPACE_FILE).write_bytes(dumped(Header(format=FORMAT, version=VERSION + 1)))


def no_text(folder: Path) -> None:
    no_results(folder)
    for file in (folder / "text").iterdir():
        file.write_bytes(b"\xff\xfe\x00")


def a_file_in_place_of_the_workspace(folder: Path) -> None:
    no_results(folder)
    (folder / "w").write_text("mine")


FAULTS = [
    (nothing, (), 0, "nothing to do"),
    (no_corpus, (), 2, "matches no file"),
    (no_job, (), 2, "job.toml"),
    (wrong_key, (), 2, "block_memory"),
    (nothing, ("--until", "nowhere"), 2, "the job has no stage 'nowhere'"),
    (no_results, ("--set", "resources.memory_limit=100MiB"), 2, "lower resources.block_memory"),
    (other_things, (), 2, "holds other things"),
    (newer_format, (), 2, "newer distembed"),
    (a_file_in_place_of_the_workspace, (), 2, "w is a file: a workspace needs a folder of its own"),
    (no_text, (), 2, "text"),
    (no_results, ("--set", "vocabulary.min_count=100000"), 2, "The vocabulary is empty"),
    (no_results, ("--set", "psdvec.n_core=100000"), 2, "n_core is 100000"),
    (no_results, ("--scheduler", "tcp://127.0.0.1:1"), 1, "no Dask scheduler answers"),
]


@pytest.mark.parametrize(
    ("spoil", "options", "code", "sentence"),
    FAULTS,
    ids=[f"{f[0].__name__} {' '.join(f[1])}" for f in FAULTS],
)
def test_the_exit_code_says_whether_another_try_helps(
    tiny: Path, spoil: Callable[[Path], None], options: tuple[str, ...], code: int, sentence: str
) -> None:
    spoil(tiny)
    done = run("run", tiny / "job.toml", "--workspace", tiny / "w", *options)
    assert (done.exit_code, sentence in done.output) == (code, True), done.output
    assert "Traceback" not in done.output


def test_a_second_run_goes_on_later(tiny: Path) -> None:
    with de.Workspace.create(tiny / "w", owner="the first run"):
        done = run("run", tiny / "job.toml")
    assert done.exit_code == 3, done.output
    assert "the first run" in done.output
