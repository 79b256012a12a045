"""Workers whose code or processor is not that of the run."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest
from distributed import Client

import distembed as de
from distembed.pipeline import cluster, provenance
from distembed.pipeline.tls import TLS

from .conftest import dask_cluster

WAIT = 60.0


def copy_with_another_line(folder: Path) -> Path:
    """Copy the package, with one more line in one file; return the folder that is put before the others."""
    package = folder / "distembed"
    shutil.copytree(Path(de.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__"))
    with (package / "files.py").open("a") as file:
        file.write("# another version\n")
    return folder


@pytest.mark.cluster
def test_a_worker_with_other_code_is_refused(tmp_path: Path) -> None:
    other = copy_with_another_line(tmp_path / "other")

    def other_worker(address: str) -> subprocess.Popen[bytes]:
        words = ("-m", "dask", "worker", address, "--no-nanny", "--no-dashboard", "--host", "127.0.0.1")
        with (tmp_path / "other.log").open("wb") as log:
            return subprocess.Popen(
                [sys.executable, *words],
                stdout=log,
                stderr=log,
                cwd=tmp_path,
                env={**os.environ, "PYTHONPATH": str(other)},
            )

    with dask_cluster(tmp_path, n_workers=1) as address:
        with ExitStack() as run:
            client = cluster.connect(run, address, TLS())
            (own,) = client.scheduler_info()["workers"]
            late = other_worker(address)  # one that joins during a run is closed, with the reason in its log
            late.wait(WAIT)
            assert "install the same versions there" in (tmp_path / "other.log").read_text()
            assert list(client.scheduler_info()["workers"]) == [own]
        early = other_worker(address)  # after the run any may join, and the next run is refused
        with Client(address) as client:
            client.wait_for_workers(2, timeout=WAIT)
        with (
            ExitStack() as run,
            pytest.raises(ConnectionError, match=r"worker tcp://\S+ has distembed .* where this run has"),
        ):
            cluster.connect(run, address, TLS())
        early.terminate()
        early.wait(WAIT)


def test_code_must_be_the_same_and_kinds_are_said() -> None:
    own = provenance.of_this_process()
    assert provenance.other_code(own, own) == ""
    assert (
        provenance.other_code({**own, "numpy": "1.0"}, own) == f"numpy 1.0 where this run has {own['numpy']}"
    )
    assert provenance.other_code({**own, "processor": "znver4"}, own) == ""
    assert provenance.kinds({**own, "numpy": "1.0 | 2.0"}) == ""
    assert "processor znver4 | znver5" in provenance.kinds({**own, "processor": "znver4 | znver5"})
