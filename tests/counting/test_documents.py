"""Words in documents equal plain counting; bundles and groups of documents have the counts of the whole."""

from __future__ import annotations

import dask
import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import distembed as de
from distembed.corpus import partitions
from distembed.corpus.partitions import Tokens
from distembed.corpus.tokenizer import Tokenizer
from distembed.counting import partition_rows
from distembed.counting.cooccurrence import CooccurrenceOptions, merge_partials, merge_row_block
from distembed.counting.document_groups import (
    counts_of_groups,
    group_row_blocks,
    own_columns,
    sum_of_blocks,
    sum_of_groups,
    words_of_block,
    words_of_groups,
)
from distembed.counting.documents import count_document_block, count_document_terms, document_row_blocks
from distembed.execution import compute
from distembed.job.load import load_job
from distembed.job.run import run_stages
from distembed.stages import corpus
from distembed.storage.workspace import Workspace
from tests.counting.partitions import count_partition, vocabulary_of, write_partition
from tests.counting.test_cooccurrence import DOCUMENTS, WORDS, documents
from tests.references import counting as plain
from tests.temporaries import assert_declared, measured


@settings(max_examples=30, deadline=None)
@given(texts=documents, row_tokens=st.integers(1, 40), limit=st.sampled_from([1, 10, 10**6]))
def test_equals_plain_counting(tmp_path_factory, texts, row_tokens, limit):
    folder = tmp_path_factory.mktemp("documents")
    given = enumerate((texts, DOCUMENTS))
    partitions = [write_partition(f"{folder}/{i}", part, row_tokens=row_tokens) for i, part in given]
    with dask.config.set({"distembed.block_memory": 32 * limit}):
        counts = count_document_terms(Tokens(tuple(partitions)), vocabulary_of(WORDS))
    found = counts.compute(scheduler="sync")
    assert found.dtype == np.int32
    assert found.indices.dtype == found.indptr.dtype == np.int32, "places take four bytes where they fit"
    assert found.has_canonical_format
    np.testing.assert_array_equal(found.toarray(), plain.document_terms([*texts, *DOCUMENTS], WORDS))


def test_a_block_reads_the_row_groups_of_its_own_documents_and_dictionaries_once(tmp_path, monkeypatch):
    """Each block read the whole partition, so that a large compressed file took time quadratic in its size."""
    prefix = write_partition(f"{tmp_path}/p", [[f"w{i}"] * 3 for i in range(64)])
    for kind in ("tokens", "words"):
        path = tmp_path / f"p.{kind}.parquet"
        pq.write_table(pq.read_table(path), path, row_group_size=1)
    read = []

    class Counted(partitions.ParquetFile):
        def read_row_group(self, group, **options):
            read.append(group)
            return super().read_row_group(group, **options)

        def iter_batches(self, size, *, row_groups, **options):
            read.extend(row_groups)
            return super().iter_batches(size, row_groups=row_groups, **options)

    monkeypatch.setattr(partitions, "ParquetFile", Counted)
    vocabulary = vocabulary_of([f"w{i}" for i in range(64)])
    with dask.config.set({"distembed.block_memory": 32 * 6}):
        first, *_, last = document_row_blocks(Tokens((prefix,)))
    count_document_block(first, vocabulary, batch_bytes=2**20)
    read.clear()
    counts = count_document_block(last, vocabulary, batch_bytes=2**20)
    assert (last.first, last.last) == (62, 64)
    np.testing.assert_array_equal(counts.toarray(), 3 * np.eye(64, dtype=int)[62:])
    assert 2 <= len(read) < 20  # of 64 groups: two, and those that a search looks at


LETTERS = str.maketrans("0123456789ABCDEFGHIJKLMNOP", "abcdefghijklmnopqrstuvwxyz")


def test_the_block_functions_of_counting_declare_what_they_hold(tmp_path):
    """Of 400,000 words in documents of a hundred: in one partition, and in many, whose runs are added up."""
    ranks = np.random.default_rng(0).zipf(1.2, 600_000)
    names = np.array(["w" + np.base_repr(rank, 26).translate(LETTERS) for rank in range(3_000)])
    words, path = names[ranks[ranks < len(names)]][:400_000], tmp_path / "text.txt"
    path.write_text("\n".join(" ".join(words[at : at + 100]) for at in range(0, len(words), 100)))
    whole = de.read_corpus(path).tokenize()
    many = de.read_corpus(path, partition_bytes=path.stat().st_size // 12).tokenize()
    vocabulary = de.build_vocabulary(whole)
    groups = (np.arange(whole.n_documents) % 2).astype(np.int32)
    with dask.config.set({"distembed.block_memory": 2**22}), measured() as found:
        counts = de.count_cooccurrences(many, vocabulary, weighting="harmonic")
        compute([counts, sum_of_groups([counts] * 3), words_of_groups(whole, vocabulary, groups, 2)])
    assert_declared(found, count_document_block, merge_row_block, words_of_block, sum_of_blocks)


@pytest.mark.parametrize(
    "options",
    [
        {"subsample": 0.1},
        {"direction": "left", "weighting": "harmonic"},
        {"oov": "remove", "subsample": 0.05},
        {"weighting": "dynamic", "direction": "right"},
    ],
)
def test_a_corpus_is_counted_in_ranges(tmp_path, monkeypatch, options):
    path, rules = tmp_path / "text.txt", Tokenizer(numbers=True, border="line")
    rng = np.random.default_rng(2)
    lines = [" ".join(f"w{k}" for k in rng.integers(0, 13, n)) for n in (0, 30, 1, 0, 200, 3, 50, 9, 0, 7, 0)]
    path.write_text("\n".join(lines))
    tokens = de.read_corpus(path, layout="file", tokenizer=rules).tokenize()
    vocabulary = de.build_vocabulary(tokens, max_size=12)
    found = []
    for size, n_ranges in ((2**40, 1), (60, 5), (150, 2)):
        monkeypatch.setattr(partition_rows, "BUNDLE_TOKENS", size)
        scratch = tmp_path / str(size)
        found.append(de.count_cooccurrences(tokens, vocabulary, scratch=str(scratch), **options).compute())
        assert len(list(scratch.iterdir())) == n_ranges
    for one in found[1:]:
        assert one.data.tobytes() == found[0].data.tobytes()
        assert one.indices.tobytes() == found[0].indices.tobytes()


def test_a_job_counts_its_partitions_in_ranges(tiny, monkeypatch):
    """What is counted has the digest of partitions that are counted whole."""
    counted, count = [], corpus.count_bundle_of
    note = lambda index, *given, **more: counted.append(index) or count(index, *given, **more)  # noqa: E731
    monkeypatch.setattr(corpus, "count_bundle_of", note)
    monkeypatch.setattr(partition_rows, "BUNDLE_TOKENS", 500)
    run_stages(load_job(tiny / "job.toml", workspace=str(tiny / "ranges")), until="cooccurrence")
    digests = (Workspace.open(tiny / name).stages()["cooccurrence"].digest for name in ("w", "ranges"))
    assert len(set(digests)) == 1
    assert sorted(counted) == list(range(8))


N_DOCUMENTS, N_GROUPS = 80, 3


@pytest.fixture
def group_tokens(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    words = [f"w{'abcdefghijklmnopqrst'[int(20 * rng.random() ** 2)]}" for _ in range(30 * N_DOCUMENTS)]
    lines = [" ".join(words[first : first + 30]) for first in range(0, len(words), 30)]
    (tmp_path / "text.txt").write_text("\n".join(lines) + "\n")
    return de.read_corpus("text.txt", partition_bytes=3000).tokenize()


@pytest.mark.parametrize(
    "options",
    [
        {"window": 4, "direction": "symmetric"},
        {"window": 2, "direction": "left", "weighting": "dynamic", "subsample": 1e-2},
        {"window": 2, "direction": "left", "oov": "remove"},
    ],
)
def test_groups_add_up_to_the_text_and_each_is_its_documents(group_tokens, tmp_path, options):
    vocabulary = de.build_vocabulary(group_tokens, min_count=40)
    counting = CooccurrenceOptions(**options)
    own = (0, 5, len(vocabulary))
    groups = np.random.default_rng(1).integers(0, N_GROUPS, N_DOCUMENTS).astype(np.int32)
    apart, together, first = [], [], 0
    for number, partition in enumerate(group_tokens.partitions):
        of = groups[first : first + group_tokens.documents(partition).num_rows]
        first += len(of)
        blocks, given = group_row_blocks(own, N_GROUPS), (partition, vocabulary, counting)
        of_groups = {"key": number, "groups": {partition: of}}
        apart.append(count_partition(*given, blocks, f"apart-{number}", **of_groups))
        together.append(count_partition(*given, own, f"together-{number}", key=number))
    assert len(group_tokens.partitions) > 1
    blocks = group_row_blocks(own, N_GROUPS)
    found = counts_of_groups(own_columns(merge_partials(apart, blocks), N_GROUPS), N_GROUPS)
    total = sum_of_groups(found).compute().toarray()
    np.testing.assert_allclose(total, merge_partials(together, own).compute().toarray(), rtol=1e-6)
    assert [one.chunks for one in found] == [((5, len(vocabulary) - 5), (len(vocabulary),))] * N_GROUPS
    if "subsample" not in options and "oov" not in options:
        lines = np.array((tmp_path / "text.txt").read_text().splitlines())
        (tmp_path / "one.txt").write_text("\n".join(lines[groups == 1]) + "\n")
        alone = de.count_cooccurrences(de.read_corpus("one.txt"), vocabulary, **options)
        np.testing.assert_array_equal(found[1].compute().toarray(), alone.compute().toarray())


def test_words_are_counted_in_each_group(group_tokens):
    vocabulary = de.build_vocabulary(group_tokens, min_count=2)
    groups = np.random.default_rng(1).integers(0, N_GROUPS, N_DOCUMENTS).astype(np.int32)
    counts, documents = words_of_groups(group_tokens, vocabulary, groups, N_GROUPS).compute()
    terms = de.count_document_terms(group_tokens, vocabulary).compute()
    for group in range(N_GROUPS):
        np.testing.assert_array_equal(counts[group], terms[groups == group].sum(axis=0))
    np.testing.assert_array_equal(documents.sum(axis=0), vocabulary.document_counts)
