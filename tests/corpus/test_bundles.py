"""Many small files are read several to a task, with the result that one task for each would have."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import distembed as de
from distembed.corpus import planning, readers
from distembed.corpus.partitions import tokenize_partition
from distembed.corpus.records import CorpusError
from distembed.job.load import load_job
from distembed.job.plan import plan_job

N_FILES = 320


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """320 files of four formats, of a document or two each."""
    rng, folder = np.random.default_rng(0), tmp_path_factory.mktemp("bundles") / "files"
    words = np.array([f"w{'abcdefgh'[n % 8]}{'xyz'[n % 3]}{'klmno'[n % 5]}" for n in range(120)])
    folder.mkdir()
    for number in range(N_FILES):
        texts = [" ".join(words[rng.integers(0, len(words), 20)]) for _ in range(1 + number % 2)]
        place = folder / f"{number:04d}"
        if number % 4 == 0:
            place.with_suffix(".txt").write_text("\n".join(texts) + "\n")
        elif number % 4 == 1:
            place.with_suffix(".txt.gz").write_bytes(gzip.compress("\n".join(texts).encode()))
        elif number % 4 == 2:
            place.with_suffix(".jsonl").write_text("".join(json.dumps({"text": t}) + "\n" for t in texts))
        else:
            pq.write_table(pa.table({"text": texts}), place.with_suffix(".parquet"))
    return folder


def test_a_task_reads_several_small_files(folder):
    docs = de.read_corpus(folder)
    assert readers.FEWEST_BUNDLES / 2 <= len(docs.bundles) < len(docs.partitions) == N_FILES
    assert tuple(one for bundle in docs.bundles for one in bundle) == docs.partitions
    room = 2 * sum(one.n_bytes for one in docs.partitions) // readers.FEWEST_BUNDLES
    for most, bundles in (room, docs.bundles), (200, de.read_corpus(folder, partition_bytes=200).bundles):
        assert all(len(bundle) == 1 or sum(one.n_bytes for one in bundle) <= most for bundle in bundles)
    few = de.read_corpus(sorted(folder.iterdir())[:200])
    assert all(len(bundle) == 1 for bundle in few.bundles)


def test_files_that_are_added_leave_nearly_all_bundles_as_they_are(folder):
    files = sorted(folder.iterdir())
    before, now = (
        {tuple(one.url for one in bundle) for bundle in de.read_corpus(some).bundles}
        for some in (files[:280] + files[300:], files)
    )
    others = {url for bundle in now - before for url in bundle}
    assert others >= {str(file) for file in files[280:300]}
    assert len(others) < 40


def test_the_documents_and_counts_are_those_of_a_task_for_each_file(folder, monkeypatch):
    bundled = de.read_corpus(folder).tokenize()
    monkeypatch.setattr(readers, "FEWEST_BUNDLES", 10**9)
    single = de.read_corpus(folder).tokenize()
    assert len(bundled.partitions) < len(single.partitions) == N_FILES
    vocabulary = de.build_vocabulary(single)
    assert de.build_vocabulary(bundled).to_pandas().equals(vocabulary.to_pandas())
    for count in (de.count_document_terms, de.count_cooccurrences):
        one, other = (count(tokens, vocabulary).compute() for tokens in (bundled, single))
        assert (one != other).nnz == 0
    names = ("n_documents", "n_tokens", "n_bytes_read", "n_bytes_text")
    found, wanted = (
        (
            [row for part in tokens.partitions for row in tokens.documents(part).to_pylist()],
            [sum(getattr(summary, name) for summary in tokens.summaries) for name in names],
        )
        for tokens in (bundled, single)
    )
    assert found == wanted


@pytest.mark.parametrize("pattern", ["unicode", "shlex:split"])
def test_an_error_names_the_file_in_its_bundle(folder, tmp_path, pattern):
    (tmp_path / "bad.txt").write_bytes(b"good words\n" * 30_000 + b"bad \xff byte\n")
    paths = [folder / "0000.txt", tmp_path / "bad.txt", folder / "0008.txt"]
    docs = de.read_corpus(paths, encoding="utf-8", tokenizer=de.Tokenizer(pattern=pattern))
    first, broken, last = docs.partitions
    with pytest.raises(CorpusError, match=r"bad\.txt"):
        tokenize_partition([first, broken, last], docs.tokenizer, str(tmp_path / "part"))
    assert not list(tmp_path.glob("part*"))
    tokenize_partition([replace(broken, stop=1000), last], docs.tokenizer, str(tmp_path / "part"))


def test_a_plan_looks_at_each_file_once(folder, monkeypatch):
    looked, look = [], planning._plan_file
    planning.plan_files.cache_clear()
    monkeypatch.setattr(
        planning, "_plan_file", lambda file, *a, **k: looked.append(file.url) or look(file, *a, **k)
    )
    planning_options = "[vocabulary]\nmin_count = 1\n[psdvec]\nn_components = 4\n"
    job = folder.parent / "job.toml"
    job.write_text(f'[job]\nworkspace = "w"\n[corpus]\npaths = ["files"]\n{planning_options}')
    plan = plan_job(load_job(job))
    assert len(looked) == N_FILES
    assert plan.stages["tokens"].tasks < N_FILES
