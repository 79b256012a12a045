"""Files appear whole or not at all, and the gate of all paths and URLs opens what carries bytes."""

from __future__ import annotations

import bz2
import errno
import gzip
import lzma
import os
import pickle
import re
import subprocess
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pytest
from fsspec.implementations.local import LocalFileSystem
from fsspec.implementations.memory import MemoryFileSystem
from fsspec.registry import known_implementations

import distembed as de
from distembed import files, urls
from distembed.corpus.partitions import DOCUMENTS_SCHEMA, Tokens, partition_writers, token_rows, write_group
from distembed.corpus.paths import files_at
from distembed.corpus.stop_words import stop_words_of
from distembed.counting import partition_rows
from distembed.evaluation.wordsets import find_sets, read_set
from distembed.files import PARTIAL, DiskFullError, naming_a_full_disk, replacing, replacing_folder, sync
from distembed.formats.streams import reading
from distembed.formats.tables import read_table
from distembed.job.inputs import file_sizes
from distembed.job.load import load_job
from distembed.storage.folder import Folder
from distembed.urls import NoFileError
from tests.storage.examples import record_disk

# --- whole or not at all ---------------------------------------------------------------------------------------------


@pytest.fixture(params=["file", "memory"])
def store(request, tmp_path) -> tuple[Any, str]:
    filesystem, folder = fsspec.filesystem(request.param), f"{tmp_path}/{request.param}"
    filesystem.makedirs(folder)
    return filesystem, folder


def write_and_fail(path: str, filesystem: Any, error: BaseException) -> None:
    with replacing(path, filesystem=filesystem) as partial:
        filesystem.pipe_file(partial, b"half")
        raise error


@pytest.mark.parametrize("error", [OSError(), KeyboardInterrupt()], ids=repr)
def test_attempts_at_one_file_do_not_touch_each_other_and_an_error_leaves_what_was_there(store, error):
    filesystem, folder = store
    path = f"{folder}/x"
    with replacing(path, filesystem=filesystem) as one:
        filesystem.pipe_file(one, b"one")
        with replacing(path, filesystem=filesystem) as other:
            filesystem.pipe_file(other, b"other")
        with pytest.raises(type(error)):
            write_and_fail(path, filesystem, error)
        assert filesystem.cat_file(path) == b"other"
        assert one.endswith(PARTIAL)
    assert filesystem.cat_file(path) == b"one"
    assert [Path(name).name for name in filesystem.ls(folder, detail=False)] == ["x"]


def test_a_full_disk_is_named_with_the_file_also_where_a_library_tells_it_in_words(tmp_path):
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("only Linux has a device that is always full")
    outer, inner = replacing(f"{tmp_path}/outer"), replacing(f"{tmp_path}/x")
    with pytest.raises(DiskFullError) as caught, outer, inner, full.open("wb") as file:
        file.write(b"x")
    named = (
        rf"{tmp_path}/x was not written: No space left on device, /\S* \([\d,]+ bytes free\); make room .*"
    )
    assert re.fullmatch(named, str(pickle.loads(pickle.dumps(caught.value))))
    assert caught.value.errno == errno.ENOSPC
    said = "Error while serializing: I/O error: No space left on device (os error 28)"
    place = f"{tmp_path}/x"
    for told in (replacing(place), replacing_folder(Path(place)), naming_a_full_disk(place)):
        with pytest.raises(DiskFullError, match=r"/x was not written: No space left on device"), told:
            raise RuntimeError(said)
    with pytest.raises(RuntimeError, match="os error 5"), naming_a_full_disk("x"):
        raise RuntimeError("I/O error (os error 5)")


def test_a_durable_file_is_synced_before_and_its_folder_after_the_rename(tmp_path, monkeypatch):
    seen = record_disk(monkeypatch)
    path = f"{tmp_path}/x"
    with replacing(path, durable=True) as partial:
        Path(partial).write_bytes(b"x")
    assert seen == [("sync", partial), ("rename", path), ("sync", str(tmp_path))]


def test_a_disk_that_cannot_keep_a_file_is_an_error_and_a_store_without_sync_is_none(tmp_path, monkeypatch):
    def fail(number: int) -> None:
        def fsync(handle: int) -> None:
            raise OSError(number, os.strerror(number))

        monkeypatch.setattr(os, "fsync", fsync)

    fail(errno.EINVAL)
    sync(str(tmp_path))
    fail(errno.EIO)
    with pytest.raises(OSError, match="Input/output"):
        sync(str(tmp_path))


# --- tables of tokens -------------------------------------------------------------------------------------------------


def write_tokens(part: str) -> Path:
    ids = np.random.default_rng(0).integers(0, 1 << 30, 1000, dtype=np.int32)
    with partition_writers(part, DOCUMENTS_SCHEMA) as writers:
        write_group(writers["tokens"], token_rows(ids, np.array([1000]), np.array([0])).columns)
    return Path(f"{part}.tokens.parquet")


@pytest.mark.parametrize(("place", "what"), [(0.5, r".*CRC checksum"), (1, ".*magic bytes")])
def test_a_flipped_bit_in_token_ids_is_an_error_that_names_the_file(tmp_path, place, what):
    file = write_tokens(f"{tmp_path}/p")
    assert sum(len(batch.ids) for batch in Tokens(()).iter_partition(f"{tmp_path}/p")) == 1000
    data = bytearray(file.read_bytes())
    data[int(place * (len(data) - 1))] ^= 1
    file.write_bytes(data)
    with pytest.raises(ValueError, match=rf"p\.tokens\.parquet cannot be read as tokens \({what}"):
        list(Tokens(()).iter_partition(f"{tmp_path}/p"))
    with pytest.raises(ValueError, match=rf"p\.tokens\.parquet cannot be read as tokens \({what}"):
        list(partition_rows.token_rows(f"{tmp_path}/p", 1 << 20, range(1)))


def test_a_part_whose_writing_fails_leaves_no_file(tmp_path):
    with pytest.raises(MemoryError), partition_writers(f"{tmp_path}/p", DOCUMENTS_SCHEMA):
        raise MemoryError
    assert list(tmp_path.iterdir()) == []
    write_tokens(f"{tmp_path}/p")
    made = sorted(path.name for path in tmp_path.iterdir())
    assert made == [f"p.{kind}.parquet" for kind in ("documents", "tokens", "words")]


# --- what is no file, or too much of one ------------------------------------------------------------------------------


READERS = [
    files.read_small, lambda place: files.read_small(Path(place)), de.WordVectors.load, de.Vocabulary.load,
    lambda place: de.read_corpus(place).tokenize(), lambda place: stop_words_of((), file=place), read_set, load_job,
    read_table,
]  # fmt: skip


def test_what_is_no_file_is_not_opened(tmp_path):
    """A pipe that nobody writes waits for good, and a device never ends; what a shell passes is a pipe, and read."""
    pipe, table = tmp_path / "pipe", tmp_path / "words.parquet"
    os.mkfifo(pipe)
    os.mkfifo(table)
    cases = [(read, place) for place in (str(pipe), "/dev/zero") for read in READERS]
    cases += [(read, str(table)) for read in (de.WordVectors.load, de.Vocabulary.load, read_table)]
    for read, place in cases:
        with pytest.raises(NoFileError, match="is a pipe, a socket or a device"):
            read(place)
    ends = os.pipe()
    os.write(ends[1], b"the\n")
    os.close(ends[1])
    assert stop_words_of((), file=f"/dev/fd/{ends[0]}") == {"the"}
    os.close(ends[0])
    for place in ("/dev/none-of-ours", "/dev/fd/none-of-ours"):  # of root, `--to /dev/null` made a file of it
        with pytest.raises(NoFileError, match="is a pipe or a device"), replacing(place):
            pass


PACKED = {"": bytes, ".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress}


@pytest.mark.parametrize("suffix", PACKED)
def test_a_list_is_not_unpacked_beyond_the_size_of_any(tmp_path, monkeypatch, suffix):
    """A gzip file of 2 MB became a table that took 16 GB."""
    data, place = b"a " * (1 << 20), tmp_path / f"words.txt{suffix}"
    place.write_bytes(PACKED[suffix](data))
    monkeypatch.setattr(files, "UNPACKED_BYTES", 1 << 20)
    if suffix:
        with pytest.raises(files.BombError, match="unpack to 2,097,152"):
            files.read_small(place)
    else:
        assert files.read_small(place) == data
    monkeypatch.setattr(files, "SMALL_BYTES", 1 << 16)
    for path in (place, str(place)):
        with pytest.raises(files.BombError, match="more than 65,536 bytes"):
            files.read_small(path)


def test_folders_far_inside_each_other_are_one_sentence(tmp_path, request):
    handles = [os.open(tmp_path, os.O_RDONLY)]
    for _ in range(1200):
        os.mkdir("d", dir_fd=handles[-1])
        handles.append(os.open("d", os.O_RDONLY, dir_fd=handles[-1]))
        os.close(handles[-2])
    os.close(handles[-1])
    # Python cannot remove it
    request.addfinalizer(lambda: subprocess.run(["rm", "-rf", tmp_path / "d"], check=True))
    assert Folder.at(tmp_path).find() == {}
    for read in (de.read_corpus, lambda place: find_sets([place]), lambda place: files_at(str(place))):
        with pytest.raises(OSError, match="folders inside each other too deeply"):
            read(tmp_path)


def test_a_file_of_a_store_that_tells_no_size_is_one_sentence(monkeypatch):
    made = {"name": "/page", "size": None, "type": "file"}
    monkeypatch.setattr(MemoryFileSystem, "info", lambda *_, **__: made)
    for read in (de.read_corpus, lambda place: file_sizes([place])):
        with pytest.raises(OSError, match="memory://page does not say how large the file is: download it"):
            read("memory://page")


CARRIERS = {"file", "local", "memory", "s3", "s3a", "gs", "gcs", "az", "abfs", "http", "https"}
OTHERS = {*known_implementations, "remembering", "FILE", " file", "", "file "} - CARRIERS
CHAINS = [
    "dask://127.0.0.1:9::file:///a.txt", "filecache::file:///a.txt", "simplecache::s3://bucket/a.txt",
    "zip://a.txt::s3://bucket/a.zip", "s3://bucket/a.txt::dask://127.0.0.1:9", "memory://a::memory://b",
    "https://example.org/a::b",
]  # fmt: skip


def test_only_protocols_that_carry_bytes_are_opened(monkeypatch):
    asked: list[str] = []
    monkeypatch.setattr(urls.fsspec, "get_filesystem_class", asked.append)
    monkeypatch.delenv(urls.PROTOCOLS_VARIABLE, raising=False)
    for protocol in CARRIERS:
        urls.check_url(f"{protocol}://127.0.0.1:9/a.txt")
    for protocol in OTHERS:
        with pytest.raises(urls.ProtocolError, match=r"names the protocol .* DISTEMBED_PROTOCOLS="):
            urls.url_to_fs(f"{protocol}://127.0.0.1:9/a.txt")
    assert asked == []
    monkeypatch.setenv(urls.PROTOCOLS_VARIABLE, "zip s3")  # not even then
    for url in CHAINS:
        with pytest.raises(urls.ProtocolError, match='chains protocols by "::"'):
            urls.url_to_fs(url)


@pytest.mark.parametrize(
    "name", ["dask::a.txt", "simplecache::a.txt", "data:,text", "dask:a.txt", "::", "C:a.txt"]
)
def test_a_name_without_slashes_is_a_file_here(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path(name).write_text("of this file")
    assert files.read_small(Path(name)) == b"of this file"
    for url in (name, f"file://{tmp_path}/{name}"):
        filesystem, path = urls.url_to_fs(url)
        assert isinstance(filesystem, LocalFileSystem)
        assert path == str(tmp_path / name)
        with urls.opened(url, "rt") as file:
            assert file.read() == "of this file"
    assert [document.text for document in de.read_corpus(name).documents()] == ["of this file"]


def test_a_file_is_written_and_read_as_fsspec_does(tmp_path):
    for place in (tmp_path / "new" / "a.txt.gz", "memory://new/b.txt.gz"):
        for mode, text in (("wb", b"sea\n"), ("wt", "tide\n")):
            with urls.opened(place, mode, compression="infer") as file:
                file.write(text)
            with fsspec.open(str(place), f"r{mode[1]}", compression="infer") as file:
                assert file.read() == text


def test_readers_and_writers_of_the_library_pass_the_gate():
    own = de.WordVectors(["a"], [[1.0]])
    readers = (de.read_corpus, de.WordVectors.load, de.Workspace.open, de.Workspace.exists, de.read_distances)
    for call in (*readers, own.save, lambda url: reading(url).__enter__()):
        with pytest.raises(urls.ProtocolError, match="names the protocol 'sftp'"):
            call("sftp://127.0.0.1:9/a.txt")


def test_a_url_without_secrets_is_shown_as_it_is():
    for url in (
        "https://example.org/a.txt?design=3&page=2",
        "abfs://container@account.dfs.core.windows.net/a.txt",
        "s3://bucket/key=1/a.txt",
        "/home/ann/a@b?sig=x",
        "https://example.org/@ann/a.txt",
    ):
        assert urls.public(url) == url
        assert not urls.has_secret(url)
