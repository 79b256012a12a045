"""jobs/fetch.py: what jobs name is downloaded from a server on loopback, made, checked, and found by the job."""

from __future__ import annotations

import hashlib
import lzma
import re
import runpy
import sys
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from distembed.job.model import data_folder
from tests.commands import run

pytest.importorskip("pooch", reason="jobs/fetch.py downloads by pooch")
JOBS = Path(__file__).resolve().parents[1] / "jobs"
FETCH = runpy.run_path(str(JOBS / "fetch.py"))
ENTRIES = [line.split() for line in (JOBS / "registry.txt").read_text().splitlines() if line[0] != "#"]
BY_HAND = ("novels", "libreoffice", "reuters", "20newsgroups")
PAIRS = b"cat\tdog\t7.5\n"


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Print nothing."""


@pytest.fixture
def fetch(tmp_path, monkeypatch):
    """Yield what runs a copy of the program whose registry has a file, on a server, with some content."""
    monkeypatch.setenv("DISTEMBED_DATA", str(tmp_path / "data"))
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(tmp_path)))
    Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    (tmp_path / "fetch.py").write_bytes((JOBS / "fetch.py").read_bytes())
    address, digest = f"http://127.0.0.1:{server.server_port}/served", hashlib.sha256(PAIRS).hexdigest()
    (tmp_path / "registry.txt").write_text(f"sets/pairs.txt.xz {digest} copy {address}\n")
    job = '[job]\nworkspace = "w"\n[corpus]\npaths = ["{data}/sets/*.xz"]\n# {data}/tale.txt\n'
    (tmp_path / "job.toml").write_text(job)

    def run_fetch(content: bytes) -> None:
        (tmp_path / "served").write_bytes(content)
        runpy.run_path(str(tmp_path / "fetch.py"))["main"]([tmp_path / "job.toml"])

    yield run_fetch
    server.shutdown()
    server.server_close()


def test_what_a_job_names_is_fetched_once_and_checked(fetch, tmp_path, capsys):
    fetch(PAIRS)
    made = tmp_path / "data" / "sets/pairs.txt.xz"
    assert lzma.decompress(made.read_bytes()) == PAIRS
    absent = f"{tmp_path}/data/tale.txt is not there, and docs/data.md says where it comes from"
    assert capsys.readouterr().out.splitlines() == [str(made), absent]
    fetch(b"gone")
    assert capsys.readouterr().out.splitlines() == [absent]
    assert "jobs/fetch.py" not in run("plan", tmp_path / "job.toml").output


def test_other_content_makes_no_file(fetch, tmp_path):
    with pytest.raises(SystemExit, match=r"the sources of sets/pairs.txt.xz in .* make [0-9a-f]{64}, not"):
        fetch(b"<html>moved</html>")
    assert not (tmp_path / "data/sets").exists()
    missing = run("plan", tmp_path / "job.toml")
    assert missing.exit_code == 2
    assert "jobs/fetch.py brings the data of jobs, and DISTEMBED_DATA names another folder" in missing.stderr


def test_without_the_variable_the_folder_is_in_the_cache(monkeypatch, tmp_path):
    monkeypatch.delenv("DISTEMBED_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert data_folder().name == "distembed"
    assert sys.platform == "darwin" or data_folder() == tmp_path / "distembed"


def test_every_file_that_a_job_names_is_in_the_registry_or_brought_by_hand():
    for path, digest, how, *addresses in ENTRIES:
        assert re.fullmatch("[0-9a-f]{64}", digest), path
        assert how in FETCH
        assert all(re.match(r"https://.*/[0-9a-f]{40}(/|$)", address) for address in addresses)
    for job in JOBS.glob("*.toml"):
        for name in re.findall(r"\{data\}/([^\s\"',\])]+)", job.read_text()):
            found = [path for path, *_ in ENTRIES if path.startswith(name.partition("*")[0])]
            assert found or any(part in name for part in BY_HAND), name
