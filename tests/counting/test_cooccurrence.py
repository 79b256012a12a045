"""Pair counts equal the plain double loop, whatever the batches, partitions, blocks and schedulers."""

from __future__ import annotations

import gc
import itertools
import lzma
from collections import Counter
from pathlib import Path

import dask
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

from distembed.corpus.partitions import Tokens
from distembed.counting import blocks, cooccurrence, partition_rows
from distembed.counting.blocks import Run
from distembed.counting.cooccurrence import (
    CooccurrenceOptions,
    PartialCounts,
    cooccurrence_row_blocks,
    count_cooccurrences,
)
from distembed.counting.documents import count_document_terms
from distembed.counting.runs import DamagedRunsError, read_runs, writing_runs
from tests.counting.partitions import (
    count_partition,
    merged_block,
    vocabulary_of,
    write_partition,
    write_tables,
)
from tests.references import counting as plain

WORDS = ["the", "of", "cat", "mat", "sat"]
DOCUMENTS = [
    ["the", "cat", "sat", "on", "the", "mat"],
    ["of", None, "cat", "the", "the", None, None, "mat"],
    [],
    ["odd"],
    ["the", "the", "the", "the", "the", "the", "the"],
    ["mat", "x", "y", "of", "z", "the", "w", "w", "w", "w", "w", "cat", "sat", "of"],
]
words = st.sampled_from([*WORDS, "unknown", None])
documents = st.lists(st.lists(words, max_size=30), min_size=1, max_size=5)


def count(folder, partitions, vocabulary=None, *, row_tokens=2**16, **options):
    given = enumerate(partitions)
    prefixes = [write_partition(f"{folder}/p{i}", part, row_tokens=row_tokens) for i, part in given]
    counts = count_cooccurrences(Tokens(tuple(prefixes)), vocabulary or vocabulary_of(WORDS), **options)
    with dask.config.set(scheduler="sync"):
        return counts.compute()


def read(path: Path) -> str:
    return lzma.decompress(path.read_bytes()).decode()


def as_float(fractions: np.ndarray) -> np.ndarray:
    return np.array([[float(x) for x in row] for row in fractions])


@pytest.mark.parametrize("oov", ["keep_position", "remove"])
@pytest.mark.parametrize("weighting", ["flat", "harmonic", "ramp", "dynamic"])
@pytest.mark.parametrize("direction", ["left", "right", "symmetric"])
def test_equals_the_plain_loop(tmp_path, direction, weighting, oov):
    options = {"direction": direction, "weighting": weighting, "oov": oov}
    for window in (1, 3, 10):
        found = count(tmp_path, [DOCUMENTS], window=window, **options)
        expected = as_float(plain.cooccurrences(DOCUMENTS, WORDS, window=window, **options))
        assert found.has_canonical_format
        is_fraction = weighting in {"harmonic", "dynamic"} and window > 1
        assert found.dtype == (np.float32 if is_fraction else np.int32)
        np.testing.assert_array_equal(found.toarray(), expected.astype(np.float32))


def test_wide_harmonic_windows_are_fixed_point(tmp_path):
    text = [list(np.random.default_rng(1).choice(WORDS, 100))]
    found = count(tmp_path, [text], window=40, weighting="harmonic")
    expected = as_float(plain.cooccurrences(text, WORDS, window=40, weighting="harmonic"))
    np.testing.assert_allclose(found.toarray(), expected, rtol=1e-6)


@settings(max_examples=30, deadline=None)
@given(
    documents=documents,
    row_tokens=st.integers(1, 40),
    cuts=st.sets(st.integers(1, 4)),
    n_places=st.integers(1, 15),
    row_blocks=st.sampled_from([(0, 5), (0, 2, 3, 5), tuple(range(6))]),
    direction=st.sampled_from(["left", "symmetric"]),
)
def test_cutting_leaves_no_trace(
    tmp_path_factory, documents, row_tokens, cuts, n_places, row_blocks, direction
):
    """Rows, batches, buffers, spilled runs, row blocks and partitions may be cut anywhere."""
    options = CooccurrenceOptions(window=4, weighting="harmonic", direction=direction)
    folder, vocabulary, partials = tmp_path_factory.mktemp("cut"), vocabulary_of(WORDS), []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cooccurrence, "places_per_piece", lambda *_: n_places)
        patch.setattr(partition_rows, "rows_of_batch", lambda *_: 1)
        for a, b in itertools.pairwise(sorted({0, len(documents), *cuts})):
            if documents[a:b]:
                part = write_partition(f"{folder}/{a}", documents[a:b], row_tokens=row_tokens)
                partials.append(
                    count_partition(part, vocabulary, options, row_blocks, f"{part}.counts", key=a)
                )
    found = [merged_block(partials, row_blocks, block).toarray() for block in range(len(row_blocks) - 1)]
    whole = plain.cooccurrences(documents, WORDS, window=4, weighting="harmonic", direction=direction)
    np.testing.assert_array_equal(np.vstack(found), as_float(whole).astype(np.float32))


def test_random_choices_do_not_depend_on_cutting_and_differ_by_seed_and_part(tmp_path):
    rng = np.random.default_rng(0)
    text = [list(rng.choice(WORDS, 300)) for _ in range(3)]
    vocabulary = vocabulary_of(WORDS, [60, 30, 10, 5, 1])
    options = {"window": 5, "weighting": "dynamic", "subsample": 0.05}
    whole = count(tmp_path, [text], vocabulary, seed=7, **options)
    assert (whole != count(tmp_path, [text], vocabulary, seed=8, **options)).nnz > 0
    other = count(tmp_path, [[["odd"]], text], vocabulary, seed=7, **options)
    assert (whole != other).nnz > 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(partition_rows, "rows_of_batch", lambda *_: 1)
        cut = count(tmp_path, [text], vocabulary, row_tokens=7, seed=7, **options)
    assert (whole != cut).nnz == 0


@pytest.mark.parametrize(("oov", "share", "rtol"), [("remove", 0.11, 0.03), ("keep_position", 0.11**2, 0.08)])
def test_subsampling_keeps_the_share_word2vec_keeps(tmp_path, oov, share, rtol):
    """Words that are dropped keep their places, or do not."""
    n, options = 50_000, {"window": 1, "direction": "left", "subsample": 0.01, "oov": oov}
    found = count(tmp_path, [[["the"] * n]], vocabulary_of(["the", "rare"], [n, 0]), **options)
    assert found[0, 0] == pytest.approx(n * share, rel=rtol)


def test_damaged_partial_counts_are_named(tmp_path):
    """One flipped bit anywhere, in the counts or in their index, or a file that was cut."""
    write_partition(f"{tmp_path}/p", DOCUMENTS)
    target, row_blocks = tmp_path / "0.counts", (0, 2, 5)
    options = CooccurrenceOptions()
    partial = count_partition(f"{tmp_path}/p", vocabulary_of(WORDS), options, row_blocks, str(target))
    whole = target.read_bytes()
    flipped = [whole[:at] + bytes([whole[at] ^ 4]) + whole[at + 1 :] for at in range(len(whole))]
    for spoiled in [*flipped, whole[:-1], whole[: len(whole) // 2], b""]:
        target.write_bytes(spoiled)
        with pytest.raises(DamagedRunsError, match=r"0\.counts.*run the counting of this partition again"):  # noqa: PT012
            for block in (0, 1):
                merged_block([partial], row_blocks, block)


def test_row_blocks_have_equal_shares():
    counts = (1e6 / np.arange(1, 2_001)).astype(np.int64)
    with dask.config.set({"distembed.block_memory": 2**20}):
        edges = cooccurrence_row_blocks(counts, window=5)
    assert (edges[0], edges[-1], len(edges) > 10) == (0, 2_000, True)
    share = counts / counts.sum()
    expected = -np.expm1(-10.0 * counts.sum() * np.outer(share, share)).sum(axis=1)
    sizes = np.add.reduceat(expected, edges[:-1])
    assert sizes.max() < 1.2 * sizes.mean()
    assert sizes.max() * 12 < 1.2 * 2**20 / 8
    assert cooccurrence_row_blocks([5, 1], window=1) == cooccurrence_row_blocks([0, 0], window=1) == (0, 2)


@pytest.mark.parametrize(("direction", "sides"), [("left", 1), ("symmetric", 2)])
@pytest.mark.parametrize(("weighting", "weight"), [("flat", 1), ("ramp", 5)])
def test_a_part_knows_what_no_cell_can_exceed(tmp_path, direction, sides, weighting, weight):
    """A word outside the vocabulary does not count, and a pair of one word counts for both sides."""
    options = CooccurrenceOptions(direction=direction, weighting=weighting)
    write_tables(
        f"{tmp_path}/p", documents=[0], rows=[[0, 0, 1]], lengths=[3], words=["the", "x"], counts=[2, 1]
    )
    partial = count_partition(f"{tmp_path}/p", vocabulary_of(WORDS), options, (0, 5), f"{tmp_path}/c")
    assert partial.largest_cell == merged_block([partial], (0, 5), 0)[0, 0] == sides * weight


def test_counts_that_could_overflow_are_refused():
    partial = PartialCounts("a", 1, 2**62)
    assert cooccurrence.count_type([partial]) == np.int64
    assert cooccurrence.count_type([partial._replace(largest_cell=2**31 - 1)]) == np.int32
    assert cooccurrence.count_type([partial._replace(largest_cell=2**30)] * 2) == np.int64
    with pytest.raises(OverflowError, match="a count could reach"):
        cooccurrence.count_type([partial, partial])


def test_fractions_are_divided_in_float64_and_rounded_once(tmp_path):
    """Above 2**24 not every sum has a float32, so that a division in float32 would round twice."""
    sums, partial = np.arange(2**24 + 1, 2**24 + 500), PartialCounts(f"{tmp_path}/c", 7, 2**30)
    with writing_runs(partial.url) as append:
        first_row = np.append(0, np.full(len(sums), len(sums)))
        append(0, Run(first_row, np.arange(len(sums), dtype=np.int32), sums))
    found = merged_block([partial], (0, len(sums)), 0).data
    np.testing.assert_array_equal(found, (sums / 7).astype(np.float32))
    assert (found != sums.astype(np.float32) / np.float32(7)).any()


def test_counts_of_the_authors_program(shared, tmp_path):
    """160 Wikipedia articles, window 3: PSDVec's own counter, every cell of the three blocks it kept."""
    reference = shared / "reference"
    kept = np.load(reference / "psdvec_small.npz")
    text = [line.split() for line in read(reference / "psdvec_small_corpus.txt.xz").splitlines()]
    totals = [line.split(",") for line in read(reference / "psdvec_small_row_totals.csv.xz").split()]
    order = [word for word, _ in totals]
    vocabulary = vocabulary_of(order)
    documents = [line for line in text if len(line) >= 5]
    found = count(tmp_path, [documents[:70], documents[70:]], vocabulary, window=3, direction="left")
    core, noncore = vocabulary.index(kept["core_words"]), vocabulary.index(kept["noncore_words"])
    for name, rows, columns in (
        ("core_counts", core, core),
        ("core_noncore_counts", core, noncore),
        ("noncore_core_counts", noncore, core),
    ):
        arrays = (kept[f"{name}_data"], kept[f"{name}_indices"], kept[f"{name}_indptr"])
        expected = csr_array(arrays, shape=(len(rows), len(columns)))
        np.testing.assert_array_equal(found[rows][:, columns].toarray(), expected.toarray())
    np.testing.assert_array_equal(found.sum(axis=1), [int(total) for _, total in totals])


def sums_of(words, units, cell):
    sums = Counter()
    for (place, right), (before, weight) in itertools.product(enumerate(words), enumerate(units)):
        if place > before:
            left = words[place - 1 - before]
            pairs = {blocks.LEFT: (left, right), blocks.RIGHT: (right, left)}
            sums[pairs.get(cell, (min(left, right), max(left, right)))] += int(weight)
    return sums


@pytest.mark.parametrize("cell", [blocks.LEFT, blocks.RIGHT, blocks.UPPER])
@pytest.mark.parametrize(
    ("units", "n_words", "kind"),
    [
        ([1], 7, np.int32),
        ([2520, 1260, 840], 65, np.int32),
        ([2**28, 2**27], 7, np.int64),
        *(([2**30, 1], n_words, np.int64) for n_words in (63, 64, 4095, 4096, 4097, 300_000)),
    ],
)
def test_pairs_are_summed_exactly_even_where_a_sum_outgrows_32_bits(cell, units, n_words, kind):
    """Marks of columns are kept in groups of 64 and of 64 times 64 columns."""
    rng, window = np.random.default_rng(0), len(units)
    borders = np.array([0, 1, 63, 64, 127, 4095, 4096, 4097, 262_143, 262_144, n_words - 1])
    words = rng.permutation(np.repeat(borders[borders < n_words], 20))
    stream = np.concatenate([np.full(window, blocks.BORDER), words]).astype(np.int32)
    keys = np.empty(len(words) * window, blocks.key_type(n_words, window))
    run = blocks.count_pairs(stream, np.array(units, np.int64), cell, keys, blocks.row_of_sums(n_words))
    rows = np.repeat(np.arange(n_words), np.diff(run.indptr))
    places = zip(rows.tolist(), run.indices.tolist(), strict=True)
    assert dict(zip(places, run.values.tolist(), strict=True)) == sums_of(words.tolist(), units, cell)
    assert run.values.dtype == kind
    assert (np.diff(rows * n_words + run.indices) > 0).all()


def test_pairs_have_their_places_beyond_31_bits():
    """A piece of a block of 64 GiB holds 2**31 pairs; of this memory only the last page is ever touched."""
    begin, words = 2**31 + 5, np.array([blocks.BORDER, 1, 2, 1], np.int32)
    try:
        keys = np.empty(begin + 2, np.uint32)
    except MemoryError:
        pytest.skip("this system does not promise 8 GiB that are not used")
    stream = (words, 1, blocks.LEFT, 0)
    sizes = np.array([0, begin, begin])
    blocks._bucket_pairs(*stream, sizes, keys[:0])
    assert sizes.tolist() == [0, begin + 1, begin + 1]
    starts = np.array([begin, begin, begin + 1, begin + 2])
    blocks._bucket_pairs(*stream, starts[:-1].copy(), keys)
    assert keys[begin:].tolist() == [2, 1]
    indptr, indices, values = np.empty(4, np.int64), np.empty(2, np.int32), np.empty(2, np.int32)
    sums = blocks.row_of_sums(3)
    blocks._sum_buckets(starts, keys, 0, np.ones(1, np.int64), sums, indptr, indices, values)
    assert indptr.tolist() == [0, 0, 1, 2]
    assert indices.tolist() == [2, 1]
    assert values.tolist() == [1, 1]


@pytest.mark.parametrize("n_runs", [2, 9])
@pytest.mark.parametrize("largest", [2**16 - 1, 2**16, 2**30, 2**31 - 1, 2**31, 2**40])
def test_runs_come_back_and_are_merged_whatever_bytes_their_numbers_take(tmp_path, largest, n_runs):
    """Also where only their sum outgrows 32 bits."""
    kind = np.int32 if largest < 2**31 else np.int64
    columns = np.array([0, min(largest, 2**31 - 1)], np.int32)
    written = Run(np.array([0, 2]), columns, np.array([1, largest], kind))
    with writing_runs(f"{tmp_path}/r") as append:
        append(0, written)
    [read] = read_runs(f"{tmp_path}/r", 0)
    for expected, found in zip(written, read, strict=True):
        np.testing.assert_array_equal(found, expected)
    assert read.values.dtype == kind
    run = written._replace(indices=np.arange(2, dtype=np.int32))
    assert blocks.merge_runs([run] * n_runs, 2).values.tolist() == [n_runs, n_runs * largest]
    [mirrored] = blocks.mirror_rows(run._replace(indptr=np.array([0, 0, 2])), (0, 2))
    assert 2 * largest in mirrored.values


def tokens_at(folder: Path) -> Tokens:
    return Tokens((write_partition(f"{folder}/p", DOCUMENTS),))


RIGHT = Run(np.array([0, 2, 2]), np.array([0, 1], np.int32), np.ones(2, np.int32))


def merged(first_row, columns):
    forged = RIGHT._replace(indptr=np.array(first_row), indices=np.array(columns, np.int32))
    return blocks.merge_runs([RIGHT, forged], 7)


REFUSED = [
    (lambda _: CooccurrenceOptions(window=0), "window is 0"),
    (lambda _: CooccurrenceOptions(direction="both"), "direction is 'both'.*\"left\""),
    (lambda _: CooccurrenceOptions(weighting="linear"), "weighting is 'linear'.*\"ramp\""),
    (lambda _: CooccurrenceOptions(oov="drop"), "oov is 'drop'"),
    (lambda _: CooccurrenceOptions(subsample=0.0), r"subsample is 0\.0"),
    (lambda path: count_cooccurrences(tokens_at(path), vocabulary_of([])), "vocabulary is empty"),
    (lambda _: count_cooccurrences(Tokens(()), vocabulary_of(WORDS)), "no partitions"),
    (lambda path: count_document_terms(tokens_at(path), vocabulary_of([])), "vocabulary is empty"),
    (lambda path: count_document_terms(Tokens((write_partition(f"{path}/p", []),)), vocabulary_of(WORDS)),
     "no documents"),
    # before a kernel writes beside its sums
    (lambda _: merged([0, 2, 2], [1, 7]), "a run has columns"),
    (lambda _: merged([0, 2, 2], [-1, 2]), "a run has columns"),
    (lambda _: merged([0, 2], [1, 2]), "a run has 1 rows in place of 2"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "message"), REFUSED)
def test_what_cannot_be_counted_is_refused(tmp_path, call, message):
    with pytest.raises(ValueError, match=message):
        call(tmp_path)


def test_rows_that_do_not_add_up_to_the_entries_of_a_run_are_refused(tmp_path):
    with writing_runs(str(tmp_path / "r.counts")) as append:
        append(0, RIGHT._replace(indptr=np.array([0, 5])))
    with pytest.raises(DamagedRunsError, match="the counts of row block 0 at byte 0 are damaged"):
        list(read_runs(str(tmp_path / "r.counts"), 0))


def test_temporary_scratch_lives_as_long_as_the_array_and_a_given_one_is_kept(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "scratch"))
    (tmp_path / "scratch").mkdir()
    tokens = tokens_at(tmp_path)
    counts = count_cooccurrences(tokens, vocabulary_of(WORDS))
    derived = counts.map_blocks(lambda block: block)
    del counts
    gc.collect()
    found = derived.compute(scheduler="sync")
    del derived
    gc.collect()
    assert not list((tmp_path / "scratch").iterdir())
    for scratch in (f"file://{tmp_path}/kept", "memory://counts"):
        again = count_cooccurrences(tokens, vocabulary_of(WORDS), scratch=scratch).compute(scheduler="sync")
        assert (again != found).nnz == 0
    assert [file.name for file in (tmp_path / "kept").iterdir()] == ["part-00000.counts"]
