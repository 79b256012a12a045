"""Documents and files that are withdrawn: the bits of a run that never saw them, and not a byte of them left."""

from __future__ import annotations

import json
import lzma
import shutil
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import zarr

from distembed.job.model import JobError
from distembed.stages.withdrawing import withdraw
from distembed.storage import Workspace, versions
from tests.commands import run
from tests.growing_corpus import count, digests, from_scratch, texts, write_file, write_job
from tests.storage.test_repair import stop

PLANTED = "Zaphodbeeblebrox"
SECRET = [f"{PLANTED} w1 {PLANTED} w2 w3 {PLANTED} " + text for text in texts(9, 3)]
FILES = {"a.jsonl": texts(1), "b.jsonl": texts(2)}


def everything(root: Path) -> bytes:
    """Return every byte below a folder, and the names of its files, also unpacked where a format packs them."""
    found = []
    for path in sorted(root.rglob("*")):
        found.append(str(path.relative_to(root)).encode())
        if not path.is_file():
            continue
        data = path.read_bytes()
        found.append(data)
        if path.suffix == ".parquet":
            table = pq.read_table(path)
            found.append(
                "\n".join(str(value) for column in table.columns for value in column.to_pylist()).encode()
            )
        elif path.suffix == ".xz":
            found.append(lzma.decompress(data))
    groups = sorted(root.rglob("zarr.json"))
    arrays = [path.parent for path in groups if json.loads(path.read_text())["node_type"] == "array"]
    found += [np.asarray(zarr.open_array(path, mode="r")[...]).tobytes() for path in arrays]
    return b"\n".join(found)


def assert_nothing_left(root: Path, *words: str) -> None:
    data = everything(root).lower()
    for word in words:
        assert word.lower().encode() not in data, word
        assert word.lower().encode("utf-16-le") not in data, word


def test_a_withdrawn_document_leaves_the_bits_of_a_run_that_never_saw_it(tmp_path):
    write_job(tmp_path, FILES | {"c.jsonl": [*texts(3), *SECRET]})
    count(tmp_path)
    ids = [f"c-{number}" for number in range(12, 15)]
    assert PLANTED.lower().encode() in everything(tmp_path / "w").lower()
    assert b"c-13" in everything(tmp_path / "w")
    withdraw(str(tmp_path / "w"), documents=ids)
    assert_nothing_left(tmp_path / "w", PLANTED, *ids, "Title of c 13")
    assert count(tmp_path).ran == ()
    write_file(tmp_path, "c.jsonl", texts(3))
    assert digests(tmp_path / "w") == from_scratch(tmp_path)
    assert Workspace.open(tmp_path / "w").verify() == []


def test_a_withdrawn_file_is_not_read_again_under_another_name_nor_changed(tmp_path):
    write_job(tmp_path, FILES | {"secret.jsonl": SECRET})
    count(tmp_path)
    withdraw(str(tmp_path / "w"), files=["secret.jsonl"])
    assert_nothing_left(tmp_path / "w", PLANTED, "secret")
    before = digests(tmp_path / "w")
    assert count(tmp_path).ran == ()
    write_file(tmp_path, "secret.jsonl", [*SECRET, "w1 w2"])
    (tmp_path / "text" / "z.jsonl").write_bytes((tmp_path / "text" / "secret.jsonl").read_bytes())
    write_file(tmp_path, "secret.jsonl", SECRET)
    shutil.copy(tmp_path / "text" / "secret.jsonl", tmp_path / "text" / "z.jsonl")
    assert count(tmp_path).ran == ()
    for name in ("secret.jsonl", "z.jsonl"):
        (tmp_path / "text" / name).unlink()
    assert before == from_scratch(tmp_path)


def test_what_was_withdrawn_stays_out_when_files_are_added(tmp_path):
    write_job(tmp_path, FILES | {"c.jsonl": [*texts(3), *SECRET]})
    count(tmp_path)
    withdraw(str(tmp_path / "w"), documents=["c-12", "c-13", "c-14"])
    write_file(tmp_path, "d.jsonl", texts(4))
    write_file(tmp_path, "c.jsonl", [*texts(3), *SECRET, "w1 w2 w3 w1"])
    count(tmp_path)
    assert_nothing_left(tmp_path / "w", PLANTED)
    write_file(tmp_path, "c.jsonl", [*texts(3), "", "", "", "w1 w2 w3 w1"])
    assert digests(tmp_path / "w") == from_scratch(tmp_path)


def test_lines_without_ids_are_known_by_their_text(tmp_path):
    write_job(tmp_path, {})
    (tmp_path / "text").mkdir()
    lines = [*texts(1), SECRET[0], *texts(2)]
    (tmp_path / "text" / "a.txt").write_text("\n".join(lines) + "\n")
    job = (tmp_path / "job.toml").read_text().replace('id_field = "id"\ntitle_field = "title"\n', "")
    (tmp_path / "job.toml").write_text(job)
    count(tmp_path)
    [ident] = [row["id"] for row in Workspace.open(tmp_path / "w").table("documents").to_pylist()[12:13]]
    (tmp_path / "text" / "a.txt").write_text(texts(1)[0])
    with pytest.raises(
        JobError, match=r"the text of .*a\.txt:.* is not where it was read: bring its file back, or"
    ):
        withdraw(str(tmp_path / "w"), documents=[ident])
    (tmp_path / "text" / "a.txt").write_text("\n".join(lines) + "\n")
    withdraw(str(tmp_path / "w"), documents=[ident])
    assert_nothing_left(tmp_path / "w", PLANTED)
    (tmp_path / "text" / "a.txt").write_text("\n".join(["w1 w2 w3", *lines]) + "\n")
    count(tmp_path)
    assert_nothing_left(tmp_path / "w", PLANTED)
    assert Workspace.open(tmp_path / "w").table("documents").num_rows == 25


def test_files_that_are_documents_keep_their_folders(tmp_path):
    write_job(tmp_path, {})
    for number, name in enumerate(("x/a.txt", "x/b.txt", "y/a.txt", "y/d.txt")):
        (tmp_path / "text" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "text" / name).write_text("\n".join(texts(number)))
    (tmp_path / "text" / "y" / "secret.txt").write_text(PLANTED * 3)
    job = (
        (tmp_path / "job.toml")
        .read_text()
        .replace('id_field = "id"\ntitle_field = "title"', 'layout = "file"')
    )
    (tmp_path / "job.toml").write_text(job)
    count(tmp_path)
    with pytest.raises(JobError, match=r"'x/b.txt' is a whole file: withdraw it by --files x/b.txt"):
        withdraw(str(tmp_path / "w"), documents=["x/b.txt"])
    with pytest.raises(
        JobError, match=r"2 files of the corpus are named a\.txt: withdraw their documents by ids, or"
    ):
        withdraw(str(tmp_path / "w"), files=["x/a.txt"])
    withdraw(str(tmp_path / "w"), files=["x/b.txt", "y/secret.txt"])
    assert_nothing_left(tmp_path / "w", PLANTED, "b.txt", "secret")
    for name in ("x/b.txt", "y/secret.txt"):
        (tmp_path / "text" / name).unlink()
    assert digests(tmp_path / "w") == from_scratch(tmp_path)


def test_pages_exports_and_explicit_paths_go_too(tmp_path):
    write_job(tmp_path, FILES | {"anna-secret.jsonl": SECRET})
    job = (tmp_path / "job.toml").read_text()
    names = json.dumps([f"text/{name}" for name in (*FILES, "anna-secret.jsonl")])
    (tmp_path / "job.toml").write_text(job.replace('paths = ["text"]', f"paths = {names}"))
    count(tmp_path, until=None)
    w = tmp_path / "w"
    (w / "exports" / PLANTED).mkdir(parents=True)
    (w / "exports" / "vectors.txt").write_text(f"{PLANTED} 1 2 3\n")
    (w / "notes.txt.xz").write_bytes(lzma.compress(PLANTED.encode()))
    (w / "report" / "explore.html").write_text(PLANTED)
    withdraw(str(w), files=["anna-secret.jsonl"])
    assert_nothing_left(w, PLANTED, "anna-secret")
    assert (w / "report" / "index.html").exists()
    assert count(tmp_path, until=None).ran == ()
    assert Workspace.open(w).verify() == []


def test_the_same_command_finishes_a_withdrawal_that_was_killed_as_it_took_its_place(tmp_path, monkeypatch):
    """The first file says already that the next content is the valid one."""
    write_job(tmp_path, FILES | {"c.jsonl": SECRET})
    count(tmp_path)
    w = str(tmp_path / "w")
    with monkeypatch.context() as patch:
        patch.setattr(versions, "_remove_others", stop)
        with pytest.raises(KeyboardInterrupt):
            withdraw(w, files=["c.jsonl"])
    assert Workspace.open(w).url == w
    assert PLANTED.lower().encode() in everything(tmp_path / "w").lower()
    with pytest.raises(JobError, match=r"file 'c.jsonl' was withdrawn from .* already"):
        withdraw(w, files=["c.jsonl"])
    assert_nothing_left(tmp_path / "w", PLANTED)
    assert Workspace.open(w).verify() == []


def test_what_cannot_be_withdrawn_is_told_in_a_sentence(tmp_path):
    write_job(tmp_path, FILES)
    with pytest.raises(FileNotFoundError):
        withdraw(str(tmp_path / "w"), documents=["a-1"])
    count(tmp_path)
    w = str(tmp_path / "w")
    before = digests(tmp_path / "w")
    with pytest.raises(JobError, match="has no document 'x'"):
        withdraw(w, documents=["a-1", "x"])
    with pytest.raises(JobError, match=r"has no file 'x\.jsonl'"):
        withdraw(w, files=["x.jsonl"])
    with pytest.raises(JobError, match="nothing was named"):
        withdraw(w)
    ids = tmp_path / "ids.txt"
    for data, sentence in (
        ("\ufeffa-1\n\nx\n".encode(), "has no document 'x'"),
        (b"\xff", "ids.txt is not UTF-8: save it as UTF-8, with an id on each line"),
    ):
        ids.write_bytes(data)
        assert sentence in run("withdraw", tmp_path / "job.toml", "--documents", f"@{ids}").output
    assert "there is no such file" in run("withdraw", w, "--documents", f"@{tmp_path}/none.txt").output
    assert digests(tmp_path / "w") == before
    copy = tmp_path / "copy"
    shutil.copytree(w, copy)
    (copy / "manifest" / "vocabulary.json").unlink()
    with pytest.raises(JobError, match="copy has read no corpus yet: there is nothing to withdraw from it"):
        withdraw(str(copy), documents=["a-1"])
    (copy / "job.toml").write_text(
        '[job]\nsystem = "imputation"\nworkspace = "w"\n[domain]\npath = "d.csv"\n[known]\npath = "k.txt"\n'
    )
    with pytest.raises(JobError, match="copy is of a job that reads no corpus: there is nothing to withdraw"):
        withdraw(str(copy), documents=["a-1"])
    withdraw(w, documents=["a-1"], files=["b.jsonl"])
    with pytest.raises(JobError, match=r"document 'a-1' was withdrawn from .* already"):
        withdraw(w, documents=["a-1"])
    with pytest.raises(JobError, match=r"file 'b.jsonl' was withdrawn from .* already"):
        withdraw(w, files=["b.jsonl"])
    with pytest.raises(JobError, match=r"every file of corpus\.paths was withdrawn"):
        withdraw(w, files=["a.jsonl"])
    (tmp_path / "w" / "withdrawn.json").write_text("{}")
    with pytest.raises(ValueError, match=r"withdrawn.json, which says .*, is damaged"):
        count(tmp_path)
