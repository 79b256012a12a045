"""Pair counts equal the plain double loop, whatever the batches, partitions, blocks and schedulers."""

from __future__ import annotations

import gc
import itertools
import lzma
import pickle
import re
import subprocess
import sys
from pathlib import Path

import dask
import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

from distembed.corpus.partitions import Tokens
from distembed.corpus.readers import read_corpus
from distembed.corpus.vocabulary import build_vocabulary
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
from tests.commands import environment
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


def count(folder: Path, partitions, vocabulary=None, *, row_tokens=2**16, **options) -> csr_array:
    prefixes = [
        write_partition(f"{folder}/p{i}", partition, row_tokens=row_tokens)
        for i, partition in enumerate(partitions)
    ]
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
        assert found.dtype == (
            np.float32 if weighting in {"harmonic", "dynamic"} and window > 1 else np.int32
        )
        np.testing.assert_array_equal(found.toarray(), expected.astype(np.float32))


@settings(max_examples=30, deadline=None)
@given(
    documents=documents,
    row_tokens=st.integers(1, 40),
    cuts=st.sets(st.integers(1, 4)),
    n_places=st.integers(1, 15),
)
def test_cutting_leaves_no_trace(tmp_path_factory, documents, row_tokens, cuts, n_places):
    """Rows, batches, buffers, spilled runs and partitions may be cut anywhere."""
    folder = tmp_path_factory.mktemp("cut")
    partitions = [documents[a:b] for a, b in itertools.pairwise(sorted({0, len(documents), *cuts}))]
    whole = as_float(plain.cooccurrences(documents, WORDS, window=4, weighting="harmonic"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cooccurrence, "places_per_piece", lambda *_: n_places)
        patch.setattr(partition_rows, "rows_of_batch", lambda *_: 1)
        found = count(
            folder,
            [partition for partition in partitions if partition],
            window=4,
            weighting="harmonic",
            row_tokens=row_tokens,
        )
    np.testing.assert_array_equal(found.toarray(), whole.astype(np.float32))


def test_random_choices_do_not_depend_on_cutting(tmp_path):
    rng = np.random.default_rng(0)
    text = [list(rng.choice(WORDS, 300)) for _ in range(3)]
    vocabulary = vocabulary_of(WORDS, [60, 30, 10, 5, 1])
    options = {"window": 5, "weighting": "dynamic", "subsample": 0.05, "seed": 7}
    whole = count(tmp_path, [text], vocabulary, **options)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(partition_rows, "rows_of_batch", lambda *_: 1)
        cut = count(tmp_path, [text], vocabulary, row_tokens=7, **options)
    assert (whole != cut).nnz == 0
    assert (whole != count(tmp_path, [text], vocabulary, **{**options, "seed": 8})).nnz > 0


def test_each_part_draws_numbers_of_its_own(tmp_path):
    """Two partitions of one text are thinned out independently."""
    text = [list(np.random.default_rng(0).choice(WORDS, 300))]
    partition, vocabulary = write_partition(f"{tmp_path}/p", text), vocabulary_of(WORDS, [60, 30, 10, 5, 1])
    chosen = CooccurrenceOptions(weighting="dynamic", subsample=0.05)
    first, second, again = (
        merged_block(
            [count_partition(partition, vocabulary, chosen, (0, 5), f"{tmp_path}/c", key=number)],
            (0, 5),
            0,
        )
        for number in (0, 1, 0)
    )
    assert (first != second).nnz > 0
    assert (first != again).nnz == 0


def test_subsampling_keeps_the_share_word2vec_keeps(tmp_path):
    n = 50_000
    vocabulary = vocabulary_of(["the", "rare"], [n, 0])
    found = count(
        tmp_path, [[["the"] * n]], vocabulary, window=1, direction="left", subsample=0.01, oov="remove"
    )
    assert found[0, 0] == pytest.approx(n * (0.1 + 0.01), rel=0.03)
    kept = count(tmp_path, [[["the"] * n]], vocabulary, window=1, direction="left", subsample=0.01)
    assert kept[0, 0] == pytest.approx(n * 0.11**2, rel=0.08)  # dropped words keep their place


def test_wide_harmonic_windows_are_fixed_point(tmp_path):
    text = [list(np.random.default_rng(1).choice(WORDS, 200))]
    found = count(tmp_path, [text], window=40, weighting="harmonic")
    expected = as_float(plain.cooccurrences(text, WORDS, window=40, weighting="harmonic"))
    np.testing.assert_allclose(found.toarray(), expected, rtol=1e-6)


@pytest.mark.parametrize("row_blocks", [(0, 11), (0, 2, 4, 11), (0, 1, 11), tuple(range(12))])
@pytest.mark.parametrize("direction", ["left", "symmetric"])
def test_row_blocks_stack_to_the_whole(tmp_path, row_blocks, direction):
    """Also where there are more than eight, of which several are then written at a time."""
    vocabulary = vocabulary_of([*WORDS, "on", "odd", "x", "y", "z", "w"])
    whole = count(tmp_path, [DOCUMENTS[:3], DOCUMENTS[3:]], vocabulary, direction=direction)
    options = CooccurrenceOptions(direction=direction)
    partials = [
        count_partition(f"{tmp_path}/p{i}", vocabulary, options, row_blocks, f"{tmp_path}/{i}.counts", key=i)
        for i in (0, 1)
    ]
    blocks = [merged_block(partials, row_blocks, block) for block in range(len(row_blocks) - 1)]
    found = np.vstack([block.toarray() for block in blocks])
    np.testing.assert_array_equal(found, whole.toarray())
    expected = plain.cooccurrences(DOCUMENTS, vocabulary.words, direction=direction, window=options.window)
    np.testing.assert_array_equal(found, as_float(expected))


def test_same_bits_under_threads_and_processes(tmp_path, process_pool):
    """Of pairs, and of words in documents."""
    partitions = [[list(np.random.default_rng(5 + i).choice(WORDS, 500))] * 3 for i in range(3)]
    tokens = Tokens(tuple(write_partition(f"{tmp_path}/p{i}", one) for i, one in enumerate(partitions)))
    results, vocabulary = [], vocabulary_of(WORDS)
    for scheduler in ("sync", "threads", "processes"):
        pool = process_pool if scheduler == "processes" else None
        with dask.config.set(scheduler=scheduler, num_workers=2, pool=pool):
            pairs = count_cooccurrences(tokens, vocabulary, weighting="harmonic")
            results.append(dask.compute(pairs, count_document_terms(tokens, vocabulary)))
    for found, alone in itertools.product(results[1:], results[:1]):
        for one, other in zip(found, alone, strict=True):
            assert one.data.tobytes() == other.data.tobytes()
            np.testing.assert_array_equal(one.indices, other.indices)


def test_temporary_scratch_lives_as_long_as_the_array(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "scratch"))
    (tmp_path / "scratch").mkdir()
    prefixes = Tokens((write_partition(f"{tmp_path}/p", DOCUMENTS),))
    counts = count_cooccurrences(prefixes, vocabulary_of(WORDS))
    derived = counts.map_blocks(lambda block: block)
    del counts
    gc.collect()
    assert derived.compute(scheduler="sync").nnz
    del derived
    gc.collect()
    assert not list((tmp_path / "scratch").iterdir())


def test_given_scratch_may_be_a_url_and_is_kept(tmp_path):
    prefixes = Tokens((write_partition(f"{tmp_path}/p", DOCUMENTS),))
    found = count_cooccurrences(prefixes, vocabulary_of(WORDS), scratch=f"file://{tmp_path}/kept").compute(
        scheduler="sync"
    )
    assert found.nnz
    assert [file.name for file in (tmp_path / "kept").iterdir()] == ["part-00000.counts"]
    again = count_cooccurrences(prefixes, vocabulary_of(WORDS), scratch="memory://counts").compute(
        scheduler="sync"
    )
    assert (again != found).nnz == 0


def test_no_known_word_gives_an_empty_matrix(tmp_path):
    found = count(tmp_path, [[["a", "b"]]])
    assert found.shape == (5, 5)
    assert found.nnz == 0


def test_damaged_partial_counts_are_named(tmp_path):
    """One flipped bit anywhere, in the counts or in their index, or a file that was cut."""
    write_partition(f"{tmp_path}/p", DOCUMENTS)
    target, row_blocks = tmp_path / "0.counts", (0, 2, 5)
    partial = count_partition(
        f"{tmp_path}/p", vocabulary_of(WORDS), CooccurrenceOptions(), row_blocks, str(target)
    )
    whole = target.read_bytes()
    flipped = [whole[:at] + bytes([whole[at] ^ 4]) + whole[at + 1 :] for at in range(len(whole))]
    for spoiled in [*flipped, whole[:-1], whole[: len(whole) // 2], b""]:
        target.write_bytes(spoiled)
        with pytest.raises(DamagedRunsError, match=r"0\.counts.*run the counting of this partition again"):  # noqa: PT012
            for block in (0, 1):
                merged_block([partial], row_blocks, block)


def test_what_all_tasks_need_stands_once_in_the_graph(tmp_path):
    """With each task it would make a graph as large as the product of partitions and row blocks."""
    row_blocks = tuple(range(2_001))
    partials = [PartialCounts(f"{tmp_path}/{number}.counts", 1, 1) for number in range(500)]
    graph = cooccurrence.merge_partials(partials, row_blocks).__dask_graph__().to_dict()
    sizes = sorted(
        len(pickle.dumps(task)) for task in graph.values()
    )  # as a scheduler sends them, one by one
    assert sum(size > 2_000 for size in sizes) == 2


def test_a_failed_part_leaves_no_file(tmp_path, monkeypatch):
    write_partition(f"{tmp_path}/p", DOCUMENTS)

    def fail(*_: object, **__: object) -> None:
        raise MemoryError

    monkeypatch.setattr(blocks, "mirror_rows", fail)
    with pytest.raises(MemoryError):
        count_partition(
            f"{tmp_path}/p", vocabulary_of(WORDS), CooccurrenceOptions(), (0, 5), f"{tmp_path}/out/0.counts"
        )
    assert not list((tmp_path / "out").iterdir())


def test_two_attempts_at_one_part_do_not_touch_each_other(tmp_path):
    run = Run(np.array([0, 1], np.int64), np.array([2], np.int32), np.array([7], np.int32))
    target = str(tmp_path / "0.counts")
    with writing_runs(target) as append:
        append(0, run)
        with pytest.raises(MemoryError), writing_runs(target):
            raise MemoryError
    [found] = read_runs(target, 0)
    assert found.values.tolist() == [7]
    assert [path.name for path in tmp_path.iterdir()] == ["0.counts"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"window": 0}, "window is 0"),
        ({"direction": "both"}, "direction is 'both'.*\"left\""),
        ({"weighting": "linear"}, "weighting is 'linear'.*\"ramp\""),
        ({"oov": "drop"}, "oov is 'drop'"),
        ({"subsample": 0.0}, r"subsample is 0\.0"),
    ],
)
def test_bad_options_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        CooccurrenceOptions(**options)


def test_empty_vocabulary_and_empty_corpus_are_named():
    with pytest.raises(ValueError, match="vocabulary is empty"):
        count_cooccurrences(Tokens(("x",)), vocabulary_of([]))
    with pytest.raises(ValueError, match="no partitions"):
        count_cooccurrences(Tokens(()), vocabulary_of(WORDS))


def test_row_blocks_have_equal_shares():
    counts = (1e7 / np.arange(1, 20_001)).astype(np.int64)
    edges = cooccurrence_row_blocks(counts, window=5)
    assert edges[0] == 0
    assert edges[-1] == 20_000
    assert len(edges) > 10
    share = counts / counts.sum()
    expected = np.array([-np.expm1(-10.0 * counts.sum() * p * share).sum() for p in share])
    sizes = np.add.reduceat(expected, edges[:-1])
    assert sizes.max() < 1.2 * sizes.mean()
    assert sizes.max() * 12 < 1.2 * 2**26 / 8
    assert cooccurrence_row_blocks([5, 1], window=1) == (0, 2)
    assert cooccurrence_row_blocks([0, 0], window=1) == (0, 2)


def test_from_text_to_counts(tmp_path):
    """The real reader, tokenizer and vocabulary in front: a document a line, a border at each full stop."""
    text = ["The cat sat on the mat. The mat sat!", "of the cat: the cat; of", "", "a"] * 3
    (tmp_path / "text.txt").write_text("\n".join(text))
    docs = read_corpus(str(tmp_path / "text.txt"))
    vocabulary = build_vocabulary(docs, min_count=4)
    counts = count_cooccurrences(docs, vocabulary, window=2, weighting="harmonic").compute(scheduler="sync")
    documents = [re.findall("[a-z]+", line.lower()) for line in text]
    expected = as_float(plain.cooccurrences(documents, vocabulary.words, window=2, weighting="harmonic"))
    np.testing.assert_array_equal(counts.toarray(), expected.astype(np.float32))
    terms = count_document_terms(docs, vocabulary).compute(scheduler="sync")
    np.testing.assert_array_equal(terms.sum(axis=0), vocabulary.counts)


@pytest.mark.parametrize("direction", ["left", "symmetric"])
@pytest.mark.parametrize(("weighting", "weight"), [("flat", 5), ("ramp", 15)])
def test_a_part_knows_what_no_cell_can_exceed(tmp_path, direction, weighting, weight):
    """Also where that is above 32 bits; a word outside the vocabulary does not count."""
    options = CooccurrenceOptions(direction=direction, weighting=weighting)

    def partial(count):
        partition = {"documents": [0], "rows": [[0, 1]], "words": ["the", "x"], "lengths": [2]}
        write_tables(f"{tmp_path}/p", **partition, counts=[count, 2**62])
        return count_partition(f"{tmp_path}/p", vocabulary_of(WORDS), options, (0, 5), f"{tmp_path}/c")

    sides = 2 if direction == "symmetric" else 1
    assert partial(2**30).largest_cell == weight * sides * 2**30


@pytest.mark.parametrize("row_group_size", [1, 2])
def test_a_word_that_a_part_lists_twice_has_the_sum_of_its_counts(tmp_path, row_group_size):
    """As a part with very many words may, in another row group or, after a selection of documents, in the same."""
    partition = {"documents": [0], "rows": [[0, 1]], "words": ["the", "the"], "lengths": [2]}
    write_tables(f"{tmp_path}/p", **partition, counts=[3, 4])
    words = tmp_path / "p.words.parquet"
    pq.write_table(pq.read_table(words), words, row_group_size=row_group_size)
    rows, counts = partition_rows.partition_lookup(f"{tmp_path}/p", vocabulary_of(WORDS))
    assert rows.tolist() == [0, 0, blocks.BORDER]
    assert counts.tolist() == [7, 0, 0, 0, 0]


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
    sums = dict[tuple[int, int], int]()
    for (place, right), (before, weight) in itertools.product(enumerate(words), enumerate(units)):
        if place > before:
            left = words[place - 1 - before]
            pairs = {blocks.LEFT: (left, right), blocks.RIGHT: (right, left)}
            pair = pairs.get(cell, (min(left, right), max(left, right)))
            sums[pair] = sums.get(pair, 0) + int(weight)
    return sums


def cells_of(run):
    rows = np.repeat(np.arange(len(run.indptr) - 1), np.diff(run.indptr))
    return dict(zip(zip(rows.tolist(), run.indices.tolist(), strict=True), run.values.tolist(), strict=True))


def counted(words, units, cell, n_words):
    window, units = len(units), np.array(units, np.int64)
    stream = np.concatenate([np.full(window, blocks.BORDER), words]).astype(np.int32)
    keys = np.empty(len(words) * window, blocks.key_type(n_words, window))
    return blocks.count_pairs(stream, units, cell, keys, blocks.row_of_sums(n_words))


@pytest.mark.parametrize(
    ("units", "kind"),
    [([1], np.int32), ([2520, 1260, 840], np.int32), ([2**28, 2**27], np.int64), ([2**30, 1], np.int64)],
)
@pytest.mark.parametrize("cell", [blocks.LEFT, blocks.RIGHT, blocks.UPPER])
def test_pairs_are_summed_exactly_even_where_a_sum_outgrows_32_bits(cell, units, kind):
    words = np.random.default_rng(0).integers(0, 7, 400)
    run = counted(words, units, cell, 7)
    assert cells_of(run) == sums_of(words.tolist(), units, cell)
    assert run.values.dtype == kind
    none = counted(words[:0], units, cell, 7)
    assert len(none.indices) == 0
    assert none.indptr.tolist() == [0] * 8


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


@pytest.mark.parametrize("n_words", [63, 64, 65, 4095, 4096, 4097, 300_000])
def test_columns_at_the_borders_of_the_marks_are_read_in_order(n_words):
    """Marks are kept in groups of 64 and of 64 times 64 columns."""
    borders = np.array([0, 63, 64, 127, 4095, 4096, 4097, 262_143, 262_144, n_words - 1])
    words = np.random.default_rng(0).permutation(np.repeat(borders[borders < n_words], 3))
    run = counted(words, [1, 1], blocks.LEFT, n_words)
    assert cells_of(run) == sums_of(words.tolist(), [1, 1], blocks.LEFT)
    for first, last in itertools.pairwise(run.indptr):
        assert (np.diff(run.indices[first:last]) > 0).all()


@pytest.mark.parametrize(
    ("n_words", "window", "kind"),
    [(2**31, 2, np.uint32), (2**31 - 1, 3, np.uint64), (2**28, 16, np.uint32), (2**28, 17, np.uint64)],
)
def test_keys_take_32_bits_as_long_as_column_and_distance_fit(n_words, window, kind):
    assert blocks.key_type(n_words, window) == kind


def run_of(values, indices=None):
    indices = np.arange(len(values), dtype=np.int32) if indices is None else np.array(indices, np.int32)
    kind = np.int32 if max(values) < 2**31 else np.int64
    return blocks.Run(np.array([0, len(values)]), indices, np.array(values, kind))


@pytest.mark.parametrize("n_runs", [2, 9])
def test_merged_runs_outgrow_32_bits_where_only_their_sum_does(n_runs):
    merged = blocks.merge_runs([run_of([2**30, 1])] * n_runs, 2)
    assert merged.values.tolist() == [n_runs * 2**30, n_runs]
    [mirrored] = blocks.mirror_rows(run_of([2**30]), (0, 1))
    assert mirrored.values.tolist() == [2**31]


@pytest.mark.parametrize("largest", [2**16 - 1, 2**16, 2**31 - 1, 2**31, 2**40])
def test_runs_come_back_whatever_bytes_their_numbers_take(tmp_path, largest):
    written = run_of([1, largest], [0, min(largest, 2**31 - 1)])
    with writing_runs(f"{tmp_path}/r") as append:
        append(0, written)
    [read] = read_runs(f"{tmp_path}/r", 0)
    for expected, found in zip(written, read, strict=True):
        np.testing.assert_array_equal(found, expected)
    assert read.values.dtype == written.values.dtype


@pytest.mark.parametrize(
    ("rows", "columns", "what"),
    [
        ([0, 2, 2], [1, 7], "columns"),
        ([0, 2, 2], [-1, 2], "columns"),
        ([0, 2], [1, 2], "1 rows in place of 2"),
    ],
)
def test_a_forged_run_is_refused_before_a_kernel_writes_beside_its_sums(rows, columns, what):
    right = Run(np.array([0, 2, 2]), np.array([0, 1], np.int32), np.ones(2, np.int32))
    run = Run(np.array(rows), np.array(columns, np.int32), np.ones(2, np.int32))
    with pytest.raises(ValueError, match=f"a run has {what}"):
        blocks.merge_runs([right, run], 7)


def test_rows_that_do_not_add_up_to_the_entries_of_a_run_are_refused(tmp_path):
    forged = Run(np.array([0, 5]), np.arange(2, dtype=np.int32), np.ones(2, np.int32))
    with writing_runs(str(tmp_path / "r.counts")) as append:
        append(0, forged)
    with pytest.raises(DamagedRunsError, match="the counts of row block 0 at byte 0 are damaged"):
        list(read_runs(str(tmp_path / "r.counts"), 0))


def test_counts_of_the_same_files_have_the_same_name_in_another_process(tmp_path):
    """States that are made of them are found by it."""
    program = (
        "import distembed as de\n"
        "tokens = de.read_corpus('text.txt').tokenize('tokens')\n"
        "words = de.build_vocabulary(tokens)\n"
        "print(de.count_document_terms(tokens, words).name)\n"
        "print(de.ppmi(de.count_cooccurrences(tokens, words, scratch='runs')).name)\n"
    )
    (tmp_path / "text.txt").write_text("a b c a\nb c c\n")
    names = {
        subprocess.run(
            [sys.executable, "-c", program], cwd=tmp_path, env=environment(), capture_output=True, check=True
        ).stdout
        for _ in range(2)
    }
    assert len(names) == 1
