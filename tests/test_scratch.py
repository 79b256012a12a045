"""Temporary folders last as long as anything reads what is in them; compiled kernels stay where a user can write."""

from __future__ import annotations

import gc
import os
import pickle
import signal
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest
from distributed import Client, Event

import distembed as de
from distembed import compiled
from distembed.demos import titles
from distembed.execution import compute
from distembed.scratch import Scratch
from tests.processes import CONTEXT


@pytest.fixture
def client():
    with Client(n_workers=1, threads_per_worker=1, processes=False, dashboard_address=":0") as client:
        yield client


def counts_of(scratch: Path, what: str) -> object:
    corpus = de.read_corpus(titles(), scratch=scratch)
    vocabulary = de.build_vocabulary(corpus, min_count=2, stop_words="english")
    if what == "documents":
        return de.count_document_terms(corpus, vocabulary)
    return de.ppmi(de.count_cooccurrences(corpus, vocabulary, window=3))


def test_a_folder_goes_with_the_last_that_refers_to_it(tmp_path):
    scratch = Scratch("a-", tmp_path)
    folder, copy = Path(scratch.url), pickle.loads(pickle.dumps(scratch))
    assert folder.parent == tmp_path
    assert copy == scratch.url
    del copy
    assert folder.is_dir()
    del scratch
    assert not folder.exists()


@pytest.mark.parametrize("what", ["documents", "pairs"])
def test_what_is_persisted_is_computed_though_its_graph_is_gone(what, client, tmp_path, monkeypatch):
    """The token files and the partial counts were removed before the workers had read them."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    lazy = counts_of(tmp_path, what)
    expected = compute(lazy).toarray()
    begin = Event()
    busy = client.submit(begin.wait)
    held = lazy.persist()
    del lazy
    gc.collect()
    assert any(tmp_path.iterdir())
    begin.set()
    assert np.array_equal(compute(held).toarray(), expected)
    assert busy.result()
    Scratch("another-", tmp_path)  # it goes at once, and nobody waits any more
    assert not any(tmp_path.iterdir())


def test_nothing_is_left_when_the_process_ends(tmp_path):
    program = (
        "import time\nfrom distributed import Client\nfrom distembed.scratch import Scratch\n"
        "client = Client(n_workers=1, threads_per_worker=1, processes=False, dashboard_address=':0')\n"
        "waiting = client.submit(time.sleep, 0.3)\n"
        f"scratch = Scratch('a-', {str(tmp_path)!r})\n"
        "url = scratch.url\ndel scratch\nimport os\nprint(os.path.isdir(url))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, env=dict(os.environ)
    )
    assert done.stdout == "True\n", done.stderr
    assert not any(tmp_path.iterdir())


def be_killed(folder: Path) -> None:
    scratch = Scratch("a-", folder)
    assert Path(scratch.url).is_dir()
    os.kill(os.getpid(), signal.SIGKILL)


def test_what_a_killed_process_left_goes_when_the_next_folder_is_created(tmp_path):
    process = CONTEXT.Process(target=be_killed, args=(tmp_path,))
    process.start()
    process.join(60)
    assert process.exitcode == -signal.SIGKILL
    [left] = tmp_path.iterdir()
    of_others = tmp_path / "a-of-another"
    of_others.mkdir()
    first, second = Scratch("a-", tmp_path), Scratch("a-", tmp_path)
    assert {*tmp_path.iterdir()} == {Path(first.url), Path(second.url), of_others}
    assert left not in tmp_path.iterdir()


def test_kernels_are_kept_in_a_folder_of_the_user_where_nothing_else_can_be_written(tmp_path, monkeypatch):
    """A package that is not there to be written, a user without a home, and temporary files of the test's own."""

    def place_of(package: Path) -> str:
        monkeypatch.setenv(compiled.VARIABLE, "")
        compiled.find_place(package)
        return os.environ[compiled.VARIABLE]

    def home(folder: Path) -> None:
        monkeypatch.setenv("HOME", str(folder))
        for variable in ("XDG_CACHE_HOME", "LOCALAPPDATA"):
            monkeypatch.setenv(variable, str(folder / "cache"))

    (tmp_path / "file").write_text("")  # below a file no folder can be made
    package = tmp_path / "file" / "package"
    home(tmp_path / "file")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    first = Path(place_of(package))
    assert first.parent == tmp_path
    assert stat.S_IMODE(first.stat().st_mode) == 0o700
    program = "import numba; print(numba.njit(lambda x: x + 1)(1), numba.config.CACHE_DIR)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["2", str(first)]
    first.chmod(0o777)  # and is not taken again
    assert place_of(package) not in ("", str(first))
    assert not place_of(tmp_path)  # the package can be written
    home(tmp_path)
    assert not place_of(package)
