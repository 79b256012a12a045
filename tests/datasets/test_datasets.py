"""`distembed data`: the table of data sets, downloads from a server on loopback, and what makes the files."""

from __future__ import annotations

import hashlib
import io
import json
import lzma
import re
import tarfile
import tomllib
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from distembed.datasets import catalog, preparations
from distembed.datasets.fetching import source_path
from tests.commands import run, succeed

ROOT = Path(__file__).resolve().parents[2]
PAIRS = b"cat\tdog\t7.5\n"
CHANGED_SINCE = {"wikipedia", "wikipedia_new", "simplewiki"}
"""Data sets of which the folder beside the checkout has a part of the pages."""


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Print nothing."""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[tuple[Path, str]]:
    """Yield the folder of a server on loopback, and its address."""
    served = tmp_path / "served"
    served.mkdir()
    running = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(served)))
    Thread(target=running.serve_forever, daemon=True).start()
    yield served, f"http://127.0.0.1:{running.server_port}/"
    running.shutdown()
    running.server_close()


@pytest.fixture
def folder(tmp_path: Path, server: tuple[Path, str], monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Yield an empty folder of data; the table has two data sets, one of the server and one made by hand."""
    table = tmp_path / "data_sets.toml"
    digest = hashlib.sha256(PAIRS).hexdigest()
    table.write_text(
        f'[pairs]\nwhat = "pairs"\nlicence = "MIT"\nsource = "{server[1]}"\n[pairs.files]\n'
        f'"sets/pairs.txt" = {{ from = "a/pairs.txt", sha256 = "{digest}" }}\n'
        f'"sets/pairs.txt.xz" = {{ from = "a/pairs.txt", sha256 = "{digest}" }}\n'
        f'[tales]\nwhat = "tales"\nlicence = "none"\nby_hand = "a tale,"\n[tales.files]\n'
        f'"tales.txt" = {{ sha256 = "{digest}" }}\n'
    )
    monkeypatch.setattr(catalog, "TABLE", table)
    monkeypatch.setenv(catalog.VARIABLE, str(tmp_path / "data"))
    catalog.data_sets.cache_clear()
    yield tmp_path / "data"
    catalog.data_sets.cache_clear()


def serve(server: tuple[Path, str], content: bytes) -> None:
    (server[0] / "a").mkdir(exist_ok=True)
    (server[0] / "a/pairs.txt").write_bytes(content)


def test_fetch_downloads_once_and_makes_every_file(server: tuple[Path, str], folder: Path) -> None:
    serve(server, PAIRS)
    assert "missing" in succeed("data", "list").output
    assert succeed("data", "fetch", "pairs").output.count("downloading") == 1
    assert (folder / "sets/pairs.txt").read_bytes() == PAIRS
    assert lzma.decompress((folder / "sets/pairs.txt.xz").read_bytes()) == PAIRS
    assert "here" in succeed("data", "list").output
    assert "downloading" not in succeed("data", "fetch", "pairs").output
    assert "something else" not in succeed("data", "list", "--check").output
    (folder / "sets/pairs.txt.xz").write_bytes(lzma.compress(PAIRS + b"x"))
    said = succeed("data", "list", "--check").output
    assert [line.split()[0] for line in said.splitlines() if "something else" in line] == [
        "sets/pairs.txt.xz"
    ]


def test_other_content_than_that_of_the_table_makes_no_file(server: tuple[Path, str], folder: Path) -> None:
    serve(server, b"<html>moved</html>")
    done = run("data", "fetch", "pairs")
    assert done.exit_code == 1
    assert "do not make sets/pairs.txt: its SHA-256 would be" in done.output
    assert not (folder / "sets").exists()


def test_without_a_network_the_command_says_what_to_put_where(server: tuple[Path, str], folder: Path) -> None:
    done = run("data", "fetch", "pairs")  # the server has no such file
    assert done.exit_code == 1
    place = source_path(f"{server[1]}a/pairs.txt")
    assert f"put that file at {place}, then type distembed data prepare pairs" in done.output
    assert run("data", "prepare", "pairs").exit_code == 1
    assert [file for file in folder.rglob("*") if file.is_file()] == []
    place.write_bytes(PAIRS)
    succeed("data", "prepare", "pairs")
    by_hand = run("data", "fetch", "tales")
    assert by_hand.exit_code == 1
    assert by_hand.output.endswith(f"put a tale, into {folder / 'tales.txt'}\n")


def test_a_wrong_name_is_a_wrong_command(folder: Path) -> None:
    done = run("data", "fetch", "pair")
    assert (done.exit_code, "pairs" in done.output) == (2, True)


def test_a_job_without_its_data_names_the_command(
    server: tuple[Path, str], folder: Path, tmp_path: Path
) -> None:
    job = tmp_path / "job.toml"
    job.write_text(
        '[job]\nworkspace = "w"\n[corpus]\npaths = ["{data}/sets/*.txt"]\n[vocabulary]\nmin_count = 1\n'
    )
    done = run("plan", job)
    assert done.exit_code != 0
    assert done.output.endswith("type distembed data fetch pairs\n")
    both = f"{folder}/sets/pairs.txt, {folder}/tales.txt are not there"
    assert catalog.missing_advice(both) == "distembed data fetch pairs tales"
    assert catalog.missing_advice("/elsewhere/sets/pairs.txt is not there") is None
    serve(server, PAIRS)
    succeed("data", "fetch", "pairs")
    assert "data fetch" not in run("plan", job).output


def test_the_list_for_machines_has_addresses_licences_and_digests() -> None:
    sets = json.loads(succeed("data", "list", "--json").output)["data_sets"]
    for each in sets.values():
        assert each["what"]
        assert each["licence"]
        for file in each["files"]:
            assert re.fullmatch("[0-9a-f]{64}", file["sha256"])
            assert bool(file["addresses"]) != bool(each["by_hand"])
            assert all(re.match(r"https://.*/[0-9a-f]{40}(/|$)", address) for address in file["addresses"])
            assert file["preparation"] in preparations.PREPARATIONS


def named_in(job: Path) -> list[str]:
    """Return the paths in the folder of data that a job names, its comments included."""
    return re.findall(r"\{data\}/[^\s\"'\],)]+", job.read_text())


@pytest.mark.parametrize("job", sorted((ROOT / "jobs").glob("*.toml")), ids=lambda job: job.stem)
def test_every_file_of_the_data_that_a_job_names_is_in_the_table(job: Path) -> None:
    tomllib.loads(job.read_text())
    for path in named_in(job):
        advice = catalog.missing_advice(path.replace("{data}", str(catalog.data_folder())))
        assert str(advice).startswith("distembed data fetch "), path


def test_files_beside_the_checkout_have_the_digests_of_the_table(shared: Path) -> None:
    checked = 0
    for data_set in catalog.data_sets().values():
        for file in data_set.files if data_set.name not in CHANGED_SINCE else ():
            raw = (shared / "data" / file.path).read_bytes()
            content = lzma.decompress(raw) if file.path.endswith(".xz") else raw
            assert hashlib.sha256(content).hexdigest() == file.sha256, file.path
            checked += 1
    assert checked > 60


# --- what makes the files ---------------------------------------------------------------------------------------


def test_pages_that_were_extracted_and_prepared_come_out_as_they_are(shared: Path) -> None:
    with lzma.open(shared / "data/english/enwiki2018-0.txt.xz", "rt", encoding="utf-8") as file:
        wanted = file.read(3_000_000).split("\n\n")[:-1]
    titles, texts = zip(*(page.split("\n", 1) for page in wanted), strict=True)
    extracted = "".join(
        f'<doc id="{n}" url="u" title="{title}">\n{title}\n\n{text.replace("<", "&lt;")}\n</doc>\n'
        for n, (title, text) in enumerate(zip(titles, texts, strict=True))
    )
    as_json = "\n".join(
        json.dumps({"id": str(n), "title": title, "text": text})
        for n, (title, text) in enumerate(zip(titles, texts, strict=True))
    )
    for source in (extracted, as_json):
        assert preparations.pages([source.encode()]).decode().rstrip("\n").split("\n\n") == wanted
    part = preparations.pages([as_json.encode()], first=titles[3], end=titles[5]).decode()
    assert part.rstrip("\n").split("\n\n") == wanted[3:5]


def test_pages_leaves_out_short_ones_repeated_ones_and_tags() -> None:
    text = "one <br> two &amp; three " + "word " * 20
    rows = [("1", "A", text), ("1", "B", text + "x"), ("2", "C", text), ("3", "D", "too short")]
    source = "\n".join(json.dumps({"id": i, "title": t, "text": x}) for i, t, x in rows).encode()
    assert preparations.pages([source]).decode() == "A\none two & three " + "word " * 19 + "word\n"


def test_messages_lose_their_headers() -> None:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        for name, text in (
            ("x/20news-bydate-train/sci.med/7", b"From: a\nSubject: on it\n\nHello\n\nyou \n"),
            ("x/other", b"no"),
        ):
            member = tarfile.TarInfo(name)
            member.size = len(text)
            tar.addfile(member, io.BytesIO(text))
    row = json.loads(preparations.newsgroups([packed.getvalue()]))
    assert row == {
        "id": "7",
        "split": "train",
        "label": "sci.med",
        "subject": "on it",
        "text": "Hello\n\nyou",
    }


def test_a_story_of_reuters() -> None:
    story = (
        '<REUTERS TOPICS="YES" LEWISSPLIT="TRAIN" CGISPLIT="TRAINING-SET" NEWID="9">\n<DATE> 26-FEB-1987</DATE>'
        "<TOPICS><D>cocoa</D></TOPICS><PLACES></PLACES><TEXT>&#2;<TITLE>BAHIA &lt;B></TITLE>"
        "<BODY>It\nrained.&#3;</BODY></TEXT></REUTERS>"
    )
    row = json.loads(preparations.reuters([story.encode()]))
    assert (row["id"], row["label"], row["topics"], row["date"]) == (9, "cocoa", ["cocoa"], "26-FEB-1987")
    assert (row["title"], row["text"]) == ("BAHIA <B>", "It rained.")


def test_a_document_of_smart_has_the_fields_of_its_collection() -> None:
    source = b".I 1\n.T\nA title\n.A\nAuthor\n.W\nIts text\n.I 2\n.T\n.X\n1 2\n"
    rows = preparations.smart([source, source], labels="cisi cran", fields="TW W").decode().splitlines()
    assert [json.loads(row)["text"] for row in rows] == ["A title Its text", "Its text"]


def test_norms_become_a_table() -> None:
    norms = b"<PRE>\nCUE, TARGET, FSG\nA, B, .454\nC, !, \xa5\n</PRE>\n"
    assert preparations.associations([norms, norms]).decode().splitlines() == [
        "CUE\tTARGET\tFSG", "A\tB\t.454", "C\t\t", "A\tB\t.454", "C\t\t",
    ]  # fmt: skip


def archive(files: dict[str, str]) -> bytes:
    """Return a packed folder of files of prices, their lines between spaces."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        for name, lines in files.items():
            text = lines.replace(" ", "\n").encode()
            member = tarfile.TarInfo(f"r/{name}")
            member.size = len(text)
            tar.addfile(member, io.BytesIO(text))
    return packed.getvalue()


def test_prices_of_two_archives_become_a_table() -> None:
    """Listed companies but those left out, days within the limits; of two files the one that begins earlier."""
    first = {
        "B-C": "date,close 2015-01-02,1.23456 2019-01-01,9",
        "EARLY": "date,close 2014-12-31,1 2015-01-02,10",
        "LATE": "date,close 2015-01-02,20",
        "SAME": "date,close 2015-01-02,30",
        "OUT": "date,close 2015-01-02,7",
        "UNLISTED": "date,close 2015-01-02,8",
    }
    second = {
        "D": "Date,Close 2015-01-03,2",
        "EARLY": "Date,Close 2015-01-02,11",
        "LATE": "Date,Close 2014-12-31,1 2015-01-02,21",
        "SAME": "Date,Close 2015-01-02,31",
    }
    archives = [
        archive({f"stock_dfs/{name}.csv": lines for name, lines in first.items()}),
        archive({f"x/{name}_data.csv": lines for name, lines in second.items()}),
    ]
    listed = b"Symbol\nB/C\nD\nE\nEARLY\nLATE\nSAME\nOUT\n"
    made = preparations.prices([listed, *archives], first="2015-01-01", last="2018-12-31", without="OUT")
    assert made.decode().splitlines() == [
        "date,B/C,D,EARLY,LATE,SAME", "2015-01-02,1.2346,,10.0000,21.0000,30.0000", "2015-01-03,,2.0000,,,",
    ]  # fmt: skip
