"""jobs/fetch.py: what jobs name is downloaded from a server on loopback, made, checked, and found by the job."""

from __future__ import annotations

import hashlib
import io
import lzma
import os
import re
import runpy
import subprocess
import sys
import tarfile
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
BY_HAND = ("novels", "libreoffice", "reuters", "20newsgroups")
PAIRS = b"cat\tdog\t7.5\n"


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Print nothing."""


@pytest.fixture
def fetch(tmp_path: Path):
    """Yield what runs a copy of the program whose registry has a file, on a server, with some content."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(tmp_path)))
    Thread(target=server.serve_forever, daemon=True).start()
    (tmp_path / "fetch.py").write_bytes((JOBS / "fetch.py").read_bytes())
    job = tmp_path / "job.toml"
    job.write_text('[job]\nworkspace = "w"\n[corpus]\npaths = ["{data}/sets/*.xz"]\n# {data}/tale.txt\n')

    def run_fetch(content: bytes) -> subprocess.CompletedProcess[str]:
        address = f"http://127.0.0.1:{server.server_port}/served"
        digest = hashlib.sha256(PAIRS).hexdigest()
        (tmp_path / "registry.txt").write_text(f"sets/pairs.txt.xz {digest} copy {address}\n")
        (tmp_path / "served").write_bytes(content)
        command = [sys.executable, tmp_path / "fetch.py", job]
        environment = {**os.environ, "DISTEMBED_DATA": str(tmp_path / "data")}
        return subprocess.run(command, capture_output=True, text=True, env=environment, check=False)

    yield run_fetch
    server.shutdown()
    server.server_close()


def test_what_a_job_names_is_fetched_once_and_checked(fetch, tmp_path, monkeypatch) -> None:
    done = fetch(PAIRS)
    made = tmp_path / "data" / "sets/pairs.txt.xz"
    assert lzma.decompress(made.read_bytes()) == PAIRS
    assert done.stdout.splitlines() == [
        str(made), f"{tmp_path}/data/tale.txt is not there, and docs/data.md says where it comes from",
    ]  # fmt: skip
    assert str(made) not in fetch(b"gone").stdout
    monkeypatch.setenv("DISTEMBED_DATA", str(tmp_path / "data"))
    assert "jobs/fetch.py" not in run("plan", tmp_path / "job.toml").output


def test_other_content_makes_no_file(fetch, tmp_path, monkeypatch) -> None:
    done = fetch(b"<html>moved</html>")
    assert done.returncode == 1
    assert re.search(r"the sources of sets/pairs.txt.xz in .* make [0-9a-f]{64}, not", done.stderr)
    assert not (tmp_path / "data/sets").exists()
    monkeypatch.setenv("DISTEMBED_DATA", str(tmp_path / "data"))
    missing = run("plan", tmp_path / "job.toml")
    assert missing.exit_code == 2
    assert "jobs/fetch.py brings the data of jobs, and DISTEMBED_DATA names another folder" in missing.stderr


def test_without_the_variable_the_folder_is_in_the_cache(monkeypatch, tmp_path) -> None:
    monkeypatch.delenv("DISTEMBED_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert data_folder().name == "distembed"
    assert sys.platform == "darwin" or data_folder() == tmp_path / "distembed"


def test_every_file_that_a_job_names_is_in_the_registry_or_brought_by_hand() -> None:
    lines = (JOBS / "registry.txt").read_text().splitlines()
    entries = [line.split() for line in lines if not line.startswith("#")]
    for path, digest, how, *addresses in entries:
        assert re.fullmatch("[0-9a-f]{64}", digest), path
        assert how in FETCH
        assert all(re.match(r"https://.*/[0-9a-f]{40}(/|$)", address) for address in addresses)
    for job in JOBS.glob("*.toml"):
        for name in re.findall(r"\{data\}/([^\s\"',\])]+)", job.read_text()):
            found = [path for path, *_ in entries if path.startswith(name.partition("*")[0])]
            assert found or any(part in name for part in BY_HAND), name


def test_files_of_the_folder_have_the_digests_of_the_registry(shared: Path) -> None:
    checked = 0
    for line in (JOBS / "registry.txt").read_text().splitlines()[2:]:
        path, digest, how, *_ = line.split()
        if how != "pages":  # the folder has 90 to 95 % of them
            raw = (shared / "data" / path).read_bytes()
            content = lzma.decompress(raw) if path.endswith(".xz") else raw
            assert hashlib.sha256(content).hexdigest() == digest, path
            checked += 1
    assert checked > 30


def test_pages_are_joined_without_short_ones_repeated_ones_and_tags() -> None:
    text = "one &lt;br&gt; two &amp; three " + "word " * 20
    pages = [
        ("1", "A", text),
        ("1", "B", text + "x"),
        ("2", "C", text),
        ("3", "D", "short"),
        ("4", "E", "y " * 30),
    ]
    source = "".join(f'<doc id="{i}" url="u" title="{t}">\n{t}\n\n{x}\n</doc>\n' for i, t, x in pages)
    FETCH["BORDERS"] |= {"all": ("", ""), "first": ("", "E")}
    first = "A\none two & three " + "word " * 19 + "word\n"
    assert FETCH["pages"]([source.encode()], "first").decode() == first
    assert FETCH["pages"]([source.encode()], "all").decode() == f"{first}\nE\n{'y ' * 29}y\n"


def test_documents_of_smart_and_norms_become_tables() -> None:
    source = b".I 1\n.T\nA title\n.A\nAuthor\n.W\nIts text\n.I 2\n.T\n.X\n1 2\n"
    rows = FETCH["smart"]([source] * 4, "").decode().splitlines()
    assert rows[0] == '{"id": "cacm.1", "label": "cacm", "text": "A title Its text"}'
    assert rows[3] == '{"id": "cran.1", "label": "cran", "text": "Its text"}'
    norms = b"<PRE>\nCUE, TARGET, FSG\nA, B, .454\nC, !, \xa5\n</PRE>\n"
    assert FETCH["associations"]([norms, norms], "").decode().splitlines() == [
        "CUE\tTARGET\tFSG", "A\tB\t.454", "C\t\t", "A\tB\t.454", "C\t\t",
    ]  # fmt: skip


def archive(files: dict[str, str]) -> bytes:
    """Return a packed folder of files of prices, their lines between spaces."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        for name, lines in files.items():
            member = tarfile.TarInfo(f"r/{name}")
            member.size = len(lines)
            tar.addfile(member, io.BytesIO(lines.replace(" ", "\n").encode()))
    return packed.getvalue()


def test_prices_of_two_archives_become_a_table() -> None:
    """Of two files of one company that which begins in an earlier year, else the first; days within the limits."""
    first = archive({
        "stock_dfs/B-C.csv": "date,close 2015-01-02,1.23456 2019-01-01,9",
        "stock_dfs/LATE.csv": "date,close 2015-01-02,20",
        "stock_dfs/SAME.csv": "date,close 2015-01-02,30",
        "stock_dfs/UNLISTED.csv": "date,close 2015-01-02,8",
    })  # fmt: skip
    second = archive({
        "x/D_data.csv": "Date,Close 2015-01-03,2",
        "x/LATE_data.csv": "Date,Close 2014-12-31,1 2015-01-02,21",
        "x/SAME_data.csv": "Date,Close 2015-01-02,31",
    })  # fmt: skip
    listed = b"Symbol\nB/C\nD\nE\nLATE\nSAME\nMON\n"
    assert FETCH["prices"]([listed, first, second], "").decode().splitlines() == [
        "date,B/C,D,LATE,SAME", "2015-01-02,1.2346,,21.0000,30.0000", "2015-01-03,,2.0000,,",
    ]  # fmt: skip
