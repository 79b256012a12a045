"""The gate of all paths and URLs: what it opens, what it refuses, and what it shows of a URL."""

from __future__ import annotations

from pathlib import Path

import fsspec
import pytest
from fsspec.implementations.local import LocalFileSystem
from fsspec.registry import known_implementations

import distembed as de
from distembed import urls
from distembed.formats.streams import reading

CARRIERS = {"file", "local", "memory", "s3", "s3a", "gs", "gcs", "az", "abfs", "http", "https"}
OTHERS = {*known_implementations, "remembering", "FILE", " file", "", "file "} - CARRIERS


@pytest.fixture
def asked(monkeypatch) -> list[str]:
    """Return the protocols whose file systems fsspec is asked for."""
    found: list[str] = []
    monkeypatch.setattr(urls.fsspec, "get_filesystem_class", found.append)
    return found


def test_only_protocols_that_carry_bytes_are_opened(asked, monkeypatch):
    monkeypatch.delenv(urls.PROTOCOLS_VARIABLE, raising=False)
    for protocol in CARRIERS:
        urls.check_url(f"{protocol}://127.0.0.1:9/a.txt")
    for protocol in OTHERS:
        with pytest.raises(urls.ProtocolError, match=r"names the protocol .* DISTEMBED_PROTOCOLS="):
            urls.url_to_fs(f"{protocol}://127.0.0.1:9/a.txt")
    assert asked == []


@pytest.mark.parametrize(
    "url",
    [
        "dask://127.0.0.1:9::file:///a.txt",
        "filecache::file:///a.txt",
        "simplecache::s3://bucket/a.txt",
        "zip://a.txt::s3://bucket/a.zip",
        "s3://bucket/a.txt::dask://127.0.0.1:9",
        "memory://a::memory://b",
        "https://example.org/a::b",
    ],
)
def test_no_protocol_is_opened_through_another(url, monkeypatch):
    monkeypatch.setenv(urls.PROTOCOLS_VARIABLE, "zip s3")  # not even then
    with pytest.raises(urls.ProtocolError, match='chains protocols by "::"'):
        urls.url_to_fs(url)


@pytest.mark.parametrize(
    "name", ["dask::a.txt", "filecache::a.txt", "data:,text", "dask:a.txt", "::", "C:a.txt"]
)
def test_a_name_without_slashes_is_a_file_here(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path(name).write_text("of this file")
    for url in (name, f"file://{tmp_path}/{name}"):
        filesystem, path = urls.url_to_fs(url)
        assert isinstance(filesystem, LocalFileSystem)
        assert path == str(tmp_path / name)
        with urls.opened(url, "rt") as file:
            assert file.read() == "of this file"
    assert [document.text for document in de.read_corpus(name).documents()] == ["of this file"]


@pytest.mark.parametrize("mode", ["wb", "wt"])
def test_a_file_is_written_and_read_as_fsspec_does(mode, tmp_path):
    for place in (tmp_path / "new" / "a.txt.gz", "memory://new/b.txt.gz"):
        with urls.opened(place, mode, compression="infer") as file:
            file.write("sea\n" if mode == "wt" else b"sea\n")
        with fsspec.open(str(place), "rt", compression="infer") as file:
            assert file.read() == "sea\n"


def test_readers_and_writers_of_the_library_pass_the_gate():
    own = de.WordVectors(["a"], [[1.0]])
    readers = (de.read_corpus, de.WordVectors.load, de.Workspace.open, de.Workspace.exists, de.read_distances)
    for call in (*readers, own.save, lambda url: reading(url).__enter__()):
        with pytest.raises(urls.ProtocolError, match="names the protocol 'sftp'"):
            call("sftp://127.0.0.1:9/a.txt")


@pytest.mark.parametrize(
    "url",
    [
        "https://example.org/a.txt?design=3&page=2",
        "abfs://container@account.dfs.core.windows.net/a.txt",
        "s3://bucket/key=1/a.txt",
        "/home/ann/a@b?sig=x",
        "https://example.org/@ann/a.txt",
    ],
)
def test_a_url_without_secrets_is_shown_as_it_is(url):
    assert urls.public(url) == url
    assert not urls.has_secret(url)
