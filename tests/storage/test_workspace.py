"""Workspaces and stages: outputs, resume, repair, digests, names and refusals."""

import errno
import os
import socket
import threading
import time
import uuid
from collections.abc import Callable
from functools import partial
from pathlib import Path

import dask
import dask.array as da
import numpy as np
import pyarrow as pa
import pytest
from distributed import Client
from distributed.comm import CommClosedError
from scipy import sparse

from distembed.execution import heard_by
from distembed.storage import blocks, tasks
from distembed.storage.folder import Folder
from distembed.storage.records import FORMAT, VERSION, Header, LockedError, ManifestError, dumped
from distembed.storage.stage import Stage
from distembed.storage.workspace import Workspace
from tests.storage import examples
from tests.storage.examples import META, Calls, dense_array, flip, store_all, write_item, writing


@pytest.fixture(params=["path", "file", "memory"])
def url(request, tmp_path):
    return {
        "path": str(tmp_path / "ws"),
        "file": (tmp_path / "ws").as_uri(),
        "memory": f"memory://{uuid.uuid4().hex}",
    }[request.param]


def test_every_kind_of_output_on_every_kind_of_url(url):
    with Workspace.create(url, owner="test") as workspace:
        stage = store_all(workspace)
        stage.commit({"seconds": 3.0})
        assert workspace.verify() == []
    again = Workspace.open(url)
    np.testing.assert_array_equal(again.array("dense").compute(), dense_array().compute())
    assert again.table("words").equals(pa.table({"word": ["a", "b"]}))
    assert again.read_bytes("report/index.html") == b"<p>"
    items = again.files("tokens")
    assert [item.summary for item in items] == [{"n": 0}, {"n": 1}, {"n": 2}]
    assert [len(item.paths) for item in items] == [2, 2, 2]
    for read, name, own in (
        (again.array, "words", "table"),
        (again.table, "dense", "array"),
        (again.schema, "tokens", "files"),
        (again.read_bytes, "sparse", "array"),
        (lambda name: next(again.batches(name)), "report/index.html", "read_bytes"),
    ):
        with pytest.raises(ValueError, match=rf"'{name}' in .* is not read by \w+: call {own}\('{name}'\)"):
            read(name)
    record = again.describe("dense").spec
    assert (record.dims, record.units, record.meaning) == (("word", "component"), "1", "a test")
    assert again.stages()["a"].facts == {"seconds": 3.0}


@pytest.mark.parametrize(
    ("commits", "spoil", "versions", "expected"),
    [
        (True, None, "1", []),
        (False, None, "1", []),
        (False, "c/1/0", "1", [1]),
        (False, None, "2", [0, 1, 2]),
    ],
)
def test_what_is_computed_of_a_stage_that_was_stored_before(tmp_path, commits, spoil, versions, expected):
    """A committed one, an interrupted one, a block of that is damaged, and one that other versions began."""
    for made_with, computed in (("1", [0, 1, 2]), (versions, expected)):
        calls = Calls()
        with Workspace.create(tmp_path / "ws", owner="test") as workspace:
            made_from = {"parameters": {"p": 1}, "inputs": {"b": "f"}, "made_with": {"numpy": made_with}}
            stage = workspace.stage("a", **made_from)
            assert stage.is_committed == (commits and computed == expected)
            stored = stage.store("x", calls.count(dense_array()), **META)
            np.testing.assert_array_equal(stored.compute(), dense_array().compute())
            if commits:
                assert stage.commit().made_with == {"numpy": made_with}
        assert sorted(calls.blocks) == computed
        if spoil and computed != expected:
            flip(tmp_path / "ws/arrays.zarr/x" / spoil)


def test_interrupted_store_computes_only_what_is_missing_also_on_another_processor(tmp_path, monkeypatch):
    """It was thrown away whole where the workers of a cluster were others than before."""
    calls = Calls(fail_at=0)
    monkeypatch.setattr(blocks, "kernel", lambda: "Haswell")
    with writing(tmp_path / "ws") as (_, stage), dask.config.set(scheduler="sync"):
        with pytest.raises(RuntimeError, match="planned"):
            stage.store("x", calls.count(dense_array()), **META)
        with pytest.raises(ValueError, match=r"'x' of stage 'a' has \d of 3 blocks: store it"):
            stage.array("x")
    first = set(calls.blocks) - {0}
    calls = Calls()
    monkeypatch.setattr(blocks, "kernel", lambda: "SkylakeX")
    seen: list[tuple[str, int, int | None]] = []
    with writing(tmp_path / "ws") as (workspace, stage):
        assert not stage.is_stored("x")
        with heard_by(lambda *told: seen.append(told)):
            stored = stage.store("x", calls.count(dense_array()), **META)
        np.testing.assert_array_equal(stored.compute(), dense_array().compute())
        assert stage.is_stored("x")
        stage.commit()
        assert workspace.verify() == []
    assert first
    assert set(calls.blocks) == {0, 1, 2} - first
    assert workspace.stages()["a"].kernels() == {"Haswell": len(first), "SkylakeX": 3 - len(first)}
    assert seen[-1] == ("blocks of x", 3, 3)


def test_no_block_is_being_computed_when_a_stopped_store_returns(tmp_path):
    begun, ended = [], []
    both = threading.Barrier(2)

    def slow(block, block_id):
        begun.append(block_id[0])
        both.wait()
        time.sleep(0.3 * block_id[0])
        ended.append(block_id[0])
        return block

    def stop(what, done, total):
        if done:
            raise KeyboardInterrupt

    lazy = da.zeros((4, 3), chunks=(2, 3)).map_blocks(slow, dtype=float)
    with (
        Workspace.create(tmp_path / "ws", owner="test") as workspace,
        dask.config.set(scheduler="threads", num_workers=2),
    ):
        stage = workspace.stage("a", parameters={}, inputs={})
        with pytest.raises(KeyboardInterrupt), heard_by(stop):
            stage.store("x", lazy, **META)
        assert sorted(ended) == sorted(begun) == [0, 1]


def test_changed_parameters_discard_the_stage_and_what_depends_on_it(tmp_path):
    with Workspace.create(tmp_path / "ws", owner="test") as workspace:
        up = workspace.stage("up", parameters={"k": 1}, inputs={})
        up.store("x", dense_array(), **META)
        up.store("gone", dense_array(), **META)
        up.commit()
        down = workspace.stage("down", parameters={}, inputs={"up": up.fingerprint})
        down.store("y", workspace.array("x") + 1, **META)
        down.commit()
        other = workspace.stage("other", parameters={}, inputs={})
        other.store_bytes("z", b"z")
        other.commit()

        up = workspace.stage("up", parameters={"k": 2}, inputs={})
        assert not up.is_committed
        assert sorted(workspace.stages()) == ["down", "other", "up"]
        up.store("x", dense_array() * 2, **META)
        # nothing of a later stage goes before the earlier one is replaced
        assert sorted(workspace.stages()) == ["down", "other"]
        np.testing.assert_array_equal(workspace.array("y").compute(), dense_array().compute() + 1)
        up.commit()
        assert sorted(workspace.stages()) == ["other", "up"]
        assert not workspace.stage("down", parameters={}, inputs={"up": up.fingerprint}).is_committed
        assert workspace.verify() == []
    assert sorted(p.name for p in (tmp_path / "ws/arrays.zarr").iterdir()) == ["x", "zarr.json"]


@pytest.mark.parametrize("keys", [(), ("aaaaaa", "bbbbbb", "cccccc")])
def test_store_files_resumes_by_item(tmp_path, keys):
    made = []

    def make(index, prefix, *, fails):
        made.append(index)
        if fails and index == 1:
            Path(prefix + ".left-over").write_text("half")
            raise RuntimeError("planned")
        return write_item(index, prefix)

    stopped = pytest.raises(RuntimeError, match="planned")
    with writing(tmp_path / "ws") as (_, stage), dask.config.set(scheduler="sync"), stopped:
        stage.store_files("t", 3, partial(make, fails=True), keys=keys)
    assert made == [2, 1]  # Dask's synchronous scheduler begins with the last item
    with writing(tmp_path / "ws") as (workspace, stage):
        items = stage.store_files("t", 3, partial(make, fails=False), keys=keys)
        stage.commit()
        assert workspace.verify() == []
    assert sorted(made) == [0, 1, 1, 2]
    assert [item.summary["n"] for item in items] == [0, 1, 2]
    places = [{Path(path).parent.name for path in item.paths} for item in items]
    assert places == [{keys[i] if keys else f"{i:06d}"} for i in range(3)]
    assert not list(tmp_path.rglob("*left-over"))


@pytest.mark.parametrize("order", [list, reversed])
def test_the_order_in_which_a_store_lists_the_files_of_an_item_changes_no_digest(
    tmp_path, monkeypatch, order
):
    find = Folder.find

    def listed(folder, name=""):
        return dict(order(sorted(find(folder, name).items())))

    monkeypatch.setattr(Folder, "find", listed)
    with writing(tmp_path / "ws") as (workspace, stage):
        assert len(stage.store_files("t", 2, write_item)[0].paths) == 2
        stage.commit()
        assert workspace.digest()[:8] == "fba4deea"


def test_a_reader_reads_the_manifests_that_have_changed(tmp_path, monkeypatch):
    """One of 10,000 blocks takes seconds to parse."""
    read, whole = list[str](), Folder.read
    monkeypatch.setattr(
        Folder, "read", lambda self, name, **most: (read.append(name), whole(self, name, **most))[1]
    )
    root = tmp_path / "ws"
    for name in "abc":
        with writing(root, name) as (_, stage):
            stage.store_bytes(f"of_{name}", b"x")
            stage.commit()
    reader = Workspace.open(root)
    for expected in (["manifest/a.json", "manifest/b.json", "manifest/c.json"], [], ["manifest/b.json"]):
        if len(expected) == 1:
            with Workspace.create(root, owner="test") as workspace:
                stage = workspace.stage("b", parameters={"again": True}, inputs={})
                stage.store_bytes("of_b", b"y")
                stage.commit()
        read.clear()
        assert reader.read_bytes("of_b") == (b"y" if len(expected) == 1 else b"x")
        assert sorted(name for name in read if name.startswith("manifest/")) == expected


# --- refusals ----------------------------------------------------------------------------------------------------

DENSE, NO_META = dense_array(), {"units": "", "meaning": ""}
OF_SPARSE = DENSE.map_blocks(sparse.csr_array, meta=np.empty((0, 0)), dtype=float)
SHORTER = DENSE.map_blocks(lambda block: block[:1], dtype=float, meta=np.empty((0, 0)))
OWN = r"'manifest/a.json' would lie among the workspace's own files"
SHARED, PARTS, SLASH = "share its place", "must be made of", "must not contain '/'"

REFUSED: list[tuple[Callable[[Workspace, Stage], object], type[Exception], str]] = [
    (lambda w, s: s.store("x", DENSE.sum(), dims=(), **NO_META), ValueError, "axes"),
    (lambda w, s: s.store("x", DENSE, dims=("i",), **NO_META), ValueError, "axes"),
    (lambda w, s: s.store("x", DENSE[DENSE[:, 0] > 3], **META), ValueError, "compute_chunk_sizes"),
    (lambda w, s: s.store("x", DENSE.astype("U4"), **META), ValueError, "dtype"),
    (lambda w, s: s.store("x", OF_SPARSE, **META), TypeError, "meta says dense"),
    (lambda w, s: s.store("x", SHORTER, **META), ValueError, "has shape"),
    (lambda w, s: s.array("y"), ValueError, "no output"),
    (lambda w, s: s.store_files("none", 1, lambda index, prefix: {}), ValueError, "wrote no file"),
    (lambda w, s: s.store("done", DENSE, **META), ValueError, SHARED),
    (lambda w, s: s.store("done/inner", DENSE, **META), ValueError, SHARED),
    *((partial(lambda name, w, s: s.store_bytes(name, b""), name), ValueError, PARTS)
      for name in ("../x", "/x", "", "a//b", ".hidden")),
    (lambda w, s: s.store_bytes("manifest/a.json", b""), ValueError, OWN),
    (lambda w, s: w.write_file("manifest/a.json", b""), ValueError, OWN),
    (lambda w, s: w.stage("a/b", parameters={}, inputs={}), ValueError, SLASH),
    (lambda w, s: w.stage("a", parameters={}, inputs={"texts/a.txt": "f"}), ValueError, SLASH),
    (lambda w, s: w.stage("b", parameters={"p": {1, 2}}, inputs={}), TypeError, "parameters"),
    (lambda w, s: w.copy_to(w.url), FileExistsError, "is there already: choose a new folder"),
    (lambda w, s: Workspace.open(f"{w.url}/nowhere"), FileNotFoundError, "no distembed workspace"),
    (lambda w, s: Workspace.open(w.url).array("x"), KeyError, "no committed output"),
    (lambda w, s: Workspace.open(w.url).stages()["x"], KeyError,
     r"/ws has no committed stage 'x', only done; if its job is not finished"),
]  # fmt: skip


def test_names_arrays_and_readers_are_refused_in_a_sentence(tmp_path):
    with Workspace.create(tmp_path / "ws", owner="test") as workspace:
        done = workspace.stage("done", parameters={}, inputs={})
        done.store("done", DENSE, **META)
        done.commit()
        stage = workspace.stage("a", parameters={}, inputs={})
        for call, kind, sentence in REFUSED:
            with pytest.raises(kind, match=sentence):
                call(workspace, stage)
    begun = workspace.stage("b", parameters={}, inputs={})
    for write in (
        lambda: begun.store_bytes("x", b""),
        lambda: done.store("done", DENSE, **META),
        begun.commit,
        done.reopen,
        lambda: workspace.write_file("notes.txt", b""),
    ):
        with pytest.raises(PermissionError, match="reading only"):
            write()


def test_places_that_cannot_be_a_workspace(tmp_path):
    (tmp_path / "file").write_text("x")
    for place in (tmp_path / "file", "/dev/null"):
        with pytest.raises(NotADirectoryError, match="is a file"):
            Workspace.create(place, owner="test")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "job.toml").write_text("")
    for place, named in ((tmp_path / "mine", "job.toml"), (tmp_path, "file")):  # `workspace = "."`
        with pytest.raises(FileExistsError, match=rf"other things \({named}\)"):
            Workspace.create(place, owner="test")
    first = tmp_path / "other" / "workspace.json"
    first.parent.mkdir()
    for header, sentence in (
        (dumped(Header(format="mine", version=1)), r"other/workspace\.json is that of another program, or"),
        (dumped(Header(format=FORMAT, version=VERSION + 1)), "or of another version of distembed"),
        (b'{"folders": []}', "damaged"),
    ):
        first.write_bytes(header)
        for opened in (Workspace.open, partial(Workspace.create, owner="test")):
            with pytest.raises(ManifestError, match=sentence):
                opened(first.parent)
        assert first.read_bytes() == header
    first.write_bytes(b"\0\0")  # as a power cut leaves it: no workspace, which can become one
    with pytest.raises(FileNotFoundError, match="no distembed workspace"):
        Workspace.open(first.parent)
    Workspace.create(first.parent, owner="test").close()
    assert Workspace.open(first.parent).verify() == []
    if os.geteuid() != 0:
        (tmp_path / "sealed").mkdir(mode=0o500)
        with pytest.raises(PermissionError, match="cannot be written"):
            Workspace.create(tmp_path / "sealed", owner="test")


def test_lock_refuses_names_and_returns(url):
    with Workspace.create(url, owner="the job"):
        with pytest.raises(LockedError, match=rf"process {os.getpid()} .* on {socket.gethostname()}, since"):
            Workspace.create(url, owner="second")
        Workspace.open(url)
    with pytest.raises(RuntimeError), Workspace.create(url, owner="third"):
        raise RuntimeError
    Workspace.create(url, owner="fourth").close()


def test_full_disk_is_one_sentence_naming_the_block(tmp_path, monkeypatch):
    real = Folder.write

    def full(self, name, *pieces, **options):
        if "/c/1/" in name:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(self, name, *pieces, **options)

    calls = Calls()
    with writing(tmp_path / "ws") as (_, stage), dask.config.set(scheduler="sync"):
        with monkeypatch.context() as patch:
            patch.setattr(Folder, "write", full)
            with pytest.raises(OSError, match=r"block 1 of 'x' .*: No space left") as raised:
                stage.store("x", dense_array(), **META)
        assert raised.value.errno == errno.ENOSPC
        stage.store("x", calls.count(dense_array()), **META)
        assert 2 not in calls.blocks


@pytest.mark.timeout(60)
def test_a_connection_that_is_lost_while_results_are_under_way_is_an_error(monkeypatch):
    """Dask's `as_completed` never tells of a future whose result it could not get, and the run waited for ever."""

    async def lost(*_):
        raise CommClosedError("in: <TLS>: TimeoutError: [Errno 110] Connection timed out")

    with Client(processes=False, n_workers=1, threads_per_worker=1, dashboard_address=":0"):
        monkeypatch.setattr(Client, "_gather_remote", lost)
        with pytest.raises(CommClosedError):
            tasks.run_each(str, range(3), [].append)


@pytest.mark.cluster
def test_the_digest_is_of_content_only_whichever_workers_and_versions_write_it(
    tmp_path, monkeypatch, cluster
):
    digests = []
    for number, scheduler in enumerate(["sync", "threads"]):
        monkeypatch.setattr(examples, "made_with", lambda _, by=scheduler: {"numpy": by})
        monkeypatch.setattr(blocks, "kernel", lambda by=scheduler: by)
        with (
            Workspace.create(tmp_path / scheduler, owner=scheduler) as workspace,
            dask.config.set(scheduler=scheduler),
        ):
            store_all(workspace).commit({"seconds": number})
            digests.append(workspace.digest())
    with Client(cluster), Workspace.create(tmp_path / "cluster", owner="test") as workspace:
        store_all(workspace).commit()
        digests.append(workspace.digest())
        assert workspace.verify() == []
        np.testing.assert_array_equal(workspace.array("dense").compute(), dense_array().compute())
    assert len(set(digests)) == 1
    with Workspace.create(tmp_path / "other", owner="x") as workspace:
        store_all(workspace, scale=2).commit()
        assert workspace.digest() not in digests


def test_a_copy_that_was_stopped_is_a_workspace_that_a_run_finishes(tmp_path, monkeypatch):
    def fill(root):
        with Workspace.create(root, owner="test") as workspace:
            workspace.stage("a", parameters={"scale": 1}, inputs={}).reopen()
            stage = store_all(workspace)
            stage.store_bytes("core.json", b"{}")  # whose name comes before those of records
            stage.commit()
            assert workspace.verify() == []
            return workspace

    whole, real = fill(tmp_path / "w"), Folder.writing
    n_files = sum(path.is_file() for path in (tmp_path / "w").rglob("*"))
    for n_copied in range(1, n_files, 8):
        left = iter(range(n_copied))

        def stopped(self, name, left=left):
            if next(left, None) is None:
                raise KeyboardInterrupt
            return real(self, name)

        with monkeypatch.context() as patch:
            patch.setattr(Folder, "writing", stopped)
            with pytest.raises(KeyboardInterrupt):
                whole.copy_to(tmp_path / f"{n_copied}")
        assert fill(tmp_path / f"{n_copied}").digest() == whole.digest()
