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
from distembed.corpus.partitions import read_partition, tokenize_partition
from distembed.corpus.records import CorpusError
from distembed.job.load import load_job
from distembed.job.plan import plan_job

N_FILES = 320


@pytest.fixture
def folder(tmp_path):
    """320 files of four formats, of a document or two each."""
    rng = np.random.default_rng(0)
    words = np.array([f"w{'abcdefgh'[n % 8]}{'xyz'[n % 3]}{'klmno'[n % 5]}" for n in range(120)])
    for number in range(N_FILES):
        texts = [" ".join(words[rng.integers(0, len(words), 20)]) for _ in range(1 + number % 2)]
        place = tmp_path / "files" / f"{number:04d}"
        place.parent.mkdir(exist_ok=True)
        if number % 4 == 0:
            place.with_suffix(".txt").write_text("\n".join(texts) + "\n")
        elif number % 4 == 1:
            place.with_suffix(".txt.gz").write_bytes(gzip.compress("\n".join(texts).encode()))
        elif number % 4 == 2:
            place.with_suffix(".jsonl").write_text("".join(json.dumps({"text": t}) + "\n" for t in texts))
        else:
            pq.write_table(pa.table({"text": texts}), place.with_suffix(".parquet"))
    return tmp_path / "files"


def test_a_task_reads_several_small_files(folder):
    docs = de.read_corpus(folder)
    assert len(docs.partitions) == N_FILES
    assert readers.FEWEST_BUNDLES / 2 <= len(docs.bundles) < N_FILES
    assert tuple(one for bundle in docs.bundles for one in bundle) == docs.partitions
    room = 2 * sum(one.n_bytes for one in docs.partitions) // readers.FEWEST_BUNDLES
    assert all(len(bundle) == 1 or sum(one.n_bytes for one in bundle) <= room for bundle in docs.bundles)


def test_files_that_are_added_leave_nearly_all_bundles_as_they_are(folder):
    files = sorted(folder.iterdir())
    before = {
        tuple(one.url for one in bundle) for bundle in de.read_corpus(files[:300] + files[320:]).bundles
    }
    now = {tuple(one.url for one in bundle) for bundle in de.read_corpus(files).bundles}
    others = {url for bundle in now - before for url in bundle}
    assert others >= {str(file) for file in files[300:320]}
    assert len(others) < 40


def test_a_corpus_of_few_files_keeps_a_task_for_each(folder):
    files = sorted(folder.iterdir())[:200]
    assert all(len(bundle) == 1 for bundle in de.read_corpus(files).bundles)


def test_bundles_hold_no_more_than_partition_bytes(folder):
    docs = de.read_corpus(folder, partition_bytes=200)
    assert all(len(bundle) == 1 or sum(one.n_bytes for one in bundle) <= 200 for bundle in docs.bundles)


def test_the_documents_and_counts_are_those_of_a_task_for_each_file(folder, monkeypatch):
    bundled = de.read_corpus(folder).tokenize()
    monkeypatch.setattr(readers, "FEWEST_BUNDLES", 10**9)
    single = de.read_corpus(folder).tokenize()
    assert len(bundled.partitions) < len(single.partitions) == N_FILES
    found, wanted = (
        [row for part in tokens.partitions for row in tokens.documents(part).to_pylist()]
        for tokens in (bundled, single)
    )
    assert found == wanted
    vocabulary = de.build_vocabulary(single)
    again = de.build_vocabulary(bundled)
    assert (again.words, again.counts.tolist()) == (vocabulary.words, vocabulary.counts.tolist())
    for count in (de.count_document_terms, de.count_cooccurrences):
        one, other = (count(tokens, vocabulary).compute() for tokens in (bundled, single))
        assert (one != other).nnz == 0
    totals = [
        {
            name: sum(getattr(summary, name) for summary in tokens.summaries)
            for name in ("n_documents", "n_tokens", "n_bytes_read", "n_bytes_text")
        }
        for tokens in (bundled, single)
    ]
    assert totals[0] == totals[1]


@pytest.mark.parametrize("pattern", ["unicode", "shlex:split"])
def test_an_error_names_the_file_in_its_bundle(folder, tmp_path, pattern):
    (folder / "0004.txt").write_bytes(b"good words\n" * 30_000 + b"bad \xff byte\n")
    docs = de.read_corpus(folder, encoding="utf-8", tokenizer=de.Tokenizer(pattern=pattern))
    broken = next(one for one in docs.partitions if one.name == "0004.txt")
    bundle = [docs.partitions[0], broken, docs.partitions[8]]
    with pytest.raises(CorpusError, match=r"0004\.txt"):
        tokenize_partition(bundle, docs.tokenizer, str(tmp_path / "part"))
    assert not list(tmp_path.glob("part*"))
    tokenize_partition(
        [replace(broken, stop=1000), docs.partitions[8]], docs.tokenizer, str(tmp_path / "part")
    )


def test_names_of_several_words_end_with_their_file(tmp_path):
    (tmp_path / "names.txt").write_text("new york\n")
    (tmp_path / "a.txt").write_text("all of new")
    (tmp_path / "b.txt").write_text("york is new york")
    docs = de.read_corpus(
        [tmp_path / "a.txt", tmp_path / "b.txt"],
        tokenizer=de.Tokenizer(phrases_file=str(tmp_path / "names.txt")),
    )
    tokenize_partition(docs.partitions, docs.tokenizer, str(tmp_path / "part"))
    words = read_partition(str(tmp_path / "part"), "words").to_pylist()
    counts = {row["word"]: row["count"] for row in words if row["count"]}
    assert counts == {"all": 1, "of": 1, "new": 1, "york": 1, "is": 1, "new_york": 1}


def test_a_plan_looks_at_each_file_once(folder, tmp_path, monkeypatch):
    looked, look = [], planning._plan_file
    monkeypatch.setattr(
        planning, "_plan_file", lambda file, *a, **k: looked.append(file.url) or look(file, *a, **k)
    )
    job = tmp_path / "job.toml"
    job.write_text(
        '[job]\nworkspace = "w"\n[corpus]\npaths = ["files"]\n[vocabulary]\nmin_count = 1\n'
        "[psdvec]\nn_components = 4\n"
    )
    plan = plan_job(load_job(job))
    assert len(looked) == N_FILES
    assert plan.stages["tokens"].tasks < N_FILES
