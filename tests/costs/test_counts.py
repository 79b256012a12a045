"""What the costs of counting, weighting and searching say, against the arrays that runs make."""

from __future__ import annotations

import inspect
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import Any

import dask
import dask.array as da
import numpy as np
import pyarrow as pa
import pytest
import scipy.sparse as sp

import distembed as de
from distembed.corpus import blocks as corpus_blocks
from distembed.corpus import partitions, vocabulary
from distembed.corpus.costs import TextSizes, tokens_cost, vocabulary_cost, words_in_memory
from distembed.corpus.partitions import Tokens
from distembed.corpus.readers import Corpus
from distembed.corpus.sample import CorpusSample, sample_parts
from distembed.costs import PAIR_BYTES, Cost
from distembed.counting import blocks, partial_counts
from distembed.counting.cooccurrence_options import CooccurrenceOptions
from distembed.counting.costs import (
    RunSizes,
    document_terms_cost,
    merged_counts_cost,
    pair_model,
    partial_counts_cost,
    run_sizes,
)
from distembed.evaluation.documents import (
    coherence_cost,
    topic_coherence,
)
from distembed.linalg.operators import empty_csr, row_blocks
from distembed.weighting import documents, pmi, spaces
from distembed.weighting.costs import columns_cost, document_weights_cost, pmi_cost
from tests.costs.test_costs import Recorder, Sizes, bytes_of, counts_of

Options = dict[str, Any]


def check(
    sizes: Callable[[Options], Sizes], costs: Callable[[Options], Any], base: Options, new: Options
) -> None:
    """Refuse options that change the arrays of a run, and not the cost."""
    before, after = sizes(base), sizes(base | new)
    assert before
    if before != after:
        assert costs(base) != costs(base | new), {
            name: (before.get(name), after.get(name))
            for name in before | after
            if before.get(name) != after.get(name)
        }


@contextmanager
def watched(*functions: tuple[Any, str]) -> Iterator[Sizes]:
    """Record the most bytes of arrays that pass through any of some functions, and through lifted tasks."""
    with pytest.MonkeyPatch.context() as patch:
        recorder = Recorder(patch)
        for owner, name in functions:
            patch.setattr(owner, name, _watched(getattr(owner, name), name, recorder.sizes))
        yield recorder.sizes


def _watched(function: Any, name: str, sizes: Sizes) -> Any:
    def call(*arguments: Any, **options: Any) -> Any:
        made = function(*arguments, **options)
        taken = sum(map(all_bytes, (*arguments, *options.values(), made)))
        sizes[name] = max(taken, sizes.get(name, 0))
        return made

    return call


def all_bytes(value: Any) -> int:
    """Return the bytes of the arrays of a value, of Arrow or NumPy, and of those that an object holds."""
    if isinstance(value, pa.Array | pa.Table):
        return int(value.nbytes)
    if isinstance(value, list | tuple):
        return sum(map(all_bytes, value))
    return bytes_of(value) + (sum(map(all_bytes, vars(value).values())) if hasattr(value, "__dict__") else 0)


# --- text -> token ids -> vocabulary ----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a text of 400 documents whose words follow Zipf's law, with some names, digits, capitals"""
    folder = tmp_path_factory.mktemp("costs")
    ranks = np.random.default_rng(0).zipf(1.4, 8_000) % 900
    words = np.array(["".join(chr(97 + int(digit)) for digit in str(rank)) for rank in ranks], object)
    words[::7] += "'s"
    words[::11] = "12"
    words[::13] = "Łódź"
    words[5] = "alone"
    lines = (" ".join(words[i : i + 20]) for i in range(0, len(words), 20))
    (folder / "names.txt").write_text("b c\nŁódź b\n")
    (folder / "text.txt").write_text("\n".join(lines))
    return folder


CORPUS: Options = {"partition_bytes": 10_000}

CORPUS_OPTIONS: Options = {
    "partition_bytes": 5_000,
    "pattern": "ascii",
    "lowercase": False,
    "numbers": True,
    "apostrophes": True,
    "border": "line",
    "min_border_tokens": 50,
    "normalization": "none",
    "phrases_file": "names.txt",
}


def corpus_of(text: Path, options: Options) -> Corpus:
    given = {**CORPUS, **options}
    size = given.pop("partition_bytes")
    if "phrases_file" in given:
        given["phrases_file"] = str(text / given["phrases_file"])
    return de.read_corpus(text / "text.txt", tokenizer=de.Tokenizer(**given), partition_bytes=size)


def text_sizes(corpus: Corpus, tokens: Tokens) -> TextSizes:
    read = partitions.total(tokens.summaries)
    n_bytes = read.n_bytes_read
    return TextSizes(n_bytes, len(corpus.partitions), read.n_tokens, read.n_words, read.n_documents)


def test_no_option_of_the_tokenizer_is_left_out() -> None:
    assert {*CORPUS_OPTIONS} == {"partition_bytes", *inspect.signature(de.Tokenizer).parameters}


@pytest.mark.parametrize("option", CORPUS_OPTIONS)
def test_an_option_of_the_corpus_that_changes_the_arrays_changes_the_cost(text: Path, option: str) -> None:
    def sizes(options: Options) -> Sizes:
        with watched((partitions.PartitionFiles, "write"), (corpus_blocks, "scan")) as found:
            corpus_of(text, options).tokenize()
        return found

    def costs(options: Options) -> Cost:
        corpus = corpus_of(text, options)
        names = (text / "names.txt").stat().st_size if "phrases_file" in options else 0
        return tokens_cost(
            text_sizes(corpus, corpus.tokenize()),
            partition_bytes=options["partition_bytes"],
            min_border_tokens=options.get("min_border_tokens", 1),
            phrases_bytes=names,
        )

    check(sizes, costs, CORPUS, {option: CORPUS_OPTIONS[option]})


def test_segments_that_wait_for_their_smallest_length_are_counted() -> None:
    """A minimum of a billion tokens takes 8 GB, which no plan had a term for."""
    sizes = TextSizes(10**6, 1, 10**5, 10**4, 100)
    costs = [
        tokens_cost(sizes, partition_bytes=2**20, min_border_tokens=n).task_bytes for n in (1, 1_000_001)
    ]
    assert costs[1] - costs[0] == 8_000_000


VOCABULARY: Options = {"min_count": 2, "block_memory": 1}

VOCABULARY_OPTIONS: Options = {
    "min_count": 5,
    "max_size": 20,
    "keep": ["alone"],
    "min_documents": 10,
    "max_share": 0.1,
    "stop_words": ["b"],
    "block_memory": 2**27,
}


@pytest.mark.parametrize("option", VOCABULARY_OPTIONS)
def test_an_option_of_the_vocabulary_that_changes_the_arrays_changes_the_cost(
    text: Path, option: str
) -> None:
    corpus = corpus_of(text, {})
    tokens = corpus.tokenize()

    def built(options: Options) -> de.Vocabulary:
        given = dict(options)
        limit = words_in_memory(given.pop("block_memory"))
        return de.build_vocabulary(tokens, words_in_memory=limit, **given)

    def sizes(options: Options) -> Sizes:
        with watched((vocabulary, "added"), (vocabulary, "vocabulary_of")) as found:
            found["vocabulary"] = built(options).nbytes
        return found

    def costs(options: Options) -> Cost:
        n_candidates = len(
            de.build_vocabulary(tokens, min_count=options["min_count"], keep=options.get("keep", ()))
        )
        n_words = len(built(options))
        return vocabulary_cost(
            text_sizes(corpus, tokens), n_candidates, n_words, block_memory=options["block_memory"]
        )

    check(sizes, costs, VOCABULARY, {option: VOCABULARY_OPTIONS[option]})


def test_no_option_of_the_vocabulary_is_left_out() -> None:
    given = {*inspect.signature(de.build_vocabulary).parameters} - {"docs", "scratch", "words_in_memory"}
    assert {*VOCABULARY_OPTIONS} == {*given, "block_memory"}


# --- token ids -> counts ----------------------------------------------------------------------------------------

COUNTING: Options = {"window": 5, "weighting": "dynamic", "block_memory": 2**18}

COUNTING_OPTIONS: Options = {
    "window": 3,
    "direction": "left",
    "weighting": "harmonic",
    "subsample": 1e-3,
    "seed": 1,
    "oov": "remove",
    "block_memory": 2**17,
}


def test_no_option_of_counting_is_left_out() -> None:
    assert {*COUNTING_OPTIONS} == {field.name for field in fields(CooccurrenceOptions)}


class Counted:
    """A text with its vocabulary, and what costs are made from."""

    def __init__(self, text: Path) -> None:
        self.corpus = corpus_of(text, {})
        self.tokens = self.corpus.tokenize()
        self.vocabulary = de.build_vocabulary(self.tokens, min_count=2)
        self.sizes = text_sizes(self.corpus, self.tokens)
        self.sample: CorpusSample = sample_parts(self.tokens)

    def count_sizes(self, given: Options) -> Sizes:
        with watched(
            (partial_counts, "_stream_rules"),
            (blocks, "translate_rows"),
            (blocks.PairCounter, "count"),
            (partial_counts, "_write_run"),
        ) as found:
            de.execution.compute(de.count_cooccurrences(self.tokens, self.vocabulary, **given))
        return found

    def count_costs(self, given: Options) -> list[Cost]:
        """Return the costs of counting partitions, and of adding them up."""
        options = CooccurrenceOptions(**given)
        counts, n_words = self.vocabulary.counts, len(self.vocabulary)
        model = pair_model(options, counts, self.sizes.n_tokens, self.sample, self.sample.counts >= 2)
        n_tokens = [summary.n_tokens for summary in self.tokens.summaries]
        runs = run_sizes(model, counts, n_tokens, options)
        return [
            partial_counts_cost(self.sizes, n_words, runs, options),
            merged_counts_cost(model.n_pairs(), runs, options),
        ]

    def term_sizes(self, given: Options) -> Sizes:
        with watched() as found:
            de.execution.compute(de.count_document_terms(self.tokens, self.vocabulary, **given))
        return found

    def term_costs(self, given: Options) -> Cost:
        return document_terms_cost(self.sizes, len(self.vocabulary), 5_000, **given)


@pytest.fixture(scope="module")
def counted(text: Path) -> Counted:
    return Counted(text)


def counting_with(option: str) -> tuple[Options, Options]:
    return COUNTING, {option: COUNTING_OPTIONS[option]}


@pytest.mark.parametrize("option", COUNTING_OPTIONS)
def test_an_option_of_counting_that_changes_arrays_changes_the_cost(counted: Counted, option: str) -> None:
    check(counted.count_sizes, counted.count_costs, *counting_with(option))


def test_the_options_of_counting_that_change_the_arrays_are_seen(counted: Counted) -> None:
    """Else the test above would pass whatever the costs are."""
    sizes, changes = counted.count_sizes, {name: counting_with(name) for name in COUNTING_OPTIONS}
    unseen = [name for name, (base, new) in changes.items() if sizes(base | new) == sizes(base)]
    assert unseen == ["weighting", "seed"]  # fractions are float32, whatever they are


def test_the_memory_of_document_terms_changes_their_cost(counted: Counted) -> None:
    check(counted.term_sizes, counted.term_costs, {"block_memory": 2**20}, {"block_memory": 2**17})


def task_bytes(**options: Any) -> int:
    """Return the memory of counting a partition of a text of 50,000 words."""
    sizes, given = TextSizes(10**9, 10, 10**8, 10**6, 10), CooccurrenceOptions(block_memory=2**26, **options)
    return partial_counts_cost(sizes, 50_000, RunSizes(10**8, 1), given).task_bytes


def test_a_window_that_no_block_has_room_for_is_counted() -> None:
    """64 tokens of a window of a million places have 64 million pairs, whatever the memory of a task is."""
    assert task_bytes(window=5) == task_bytes(window=10_000) < task_bytes(window=1_000_000) - 64_000_000 * 8


def test_the_shares_of_words_that_are_kept_are_counted() -> None:
    assert task_bytes(subsample=1e-3) == task_bytes() + 8 * 50_000


# --- counts -> association --------------------------------------------------------------------------------------

N_WORDS, N_PAIRS, N_BLOCKS = 60, 900, 3


def counts_in_blocks() -> da.Array:
    return da.from_array(counts_of(N_WORDS, N_PAIRS).toarray(), chunks=(N_WORDS // N_BLOCKS, -1))


PMI_OPTIONS: Options = {
    "row_totals": np.full(N_WORDS, 1000.0),
    "column_totals": np.full(N_WORDS, 1000.0),
    "context_smoothing": 0.75,
    "negative_samples": 5.0,
    "positive": True,
}


def pmi_sizes(given: Options) -> Sizes:
    with watched() as found:
        made = de.execution.compute(pmi.pmi(counts_in_blocks(), **given))
    return found | {"pmi": bytes_of(made)}


def pmi_costs(given: Options) -> Cost:
    n_stored = counts_of(N_WORDS, N_PAIRS).nnz
    n_kept = pmi.pmi(counts_of(N_WORDS, N_PAIRS), **given).nnz
    named = {name: name in given for name in ("row_totals", "column_totals")}
    shape = (N_WORDS, N_WORDS)
    return pmi_cost(shape, n_stored, N_BLOCKS, n_kept=n_kept, **named, block_memory=2**20)


def test_no_option_of_pmi_is_left_out() -> None:
    assert {*PMI_OPTIONS} == {*inspect.signature(pmi.pmi).parameters} - {"counts"}


@pytest.mark.parametrize("option", PMI_OPTIONS)
@pytest.mark.parametrize("base", [{}, {"positive": True}], ids=["signed", "positive"])
def test_an_option_of_pmi_that_changes_the_arrays_changes_the_cost(base: Options, option: str) -> None:
    check(pmi_sizes, pmi_costs, base, {option: PMI_OPTIONS[option]})


class Read:
    """Counts by row block, which remember how often they are read, and how many blocks are held at a time."""

    def __init__(self) -> None:
        self.n_reads, self.most_held = 0, 0
        self.held = weakref.WeakValueDictionary[int, Any]()
        rows = da.from_array(np.arange(N_WORDS)[:, None], chunks=(N_WORDS // N_BLOCKS, -1))
        self.counts = rows.map_blocks(self.read, chunks=(rows.chunks[0], (N_WORDS,)), meta=empty_csr())

    def read(self, rows: Any) -> Any:
        block = counts_of(N_WORDS, N_PAIRS)[rows[:, 0]]
        self.n_reads += 1
        self.held[self.n_reads] = block
        self.most_held = max(self.most_held, len(self.held))
        return block


@pytest.mark.parametrize("given", [(), ("row_totals",), ("column_totals",), ("row_totals", "column_totals")])
def test_counts_are_read_as_often_as_the_cost_of_pmi_says_and_not_held(given: tuple[str, ...]) -> None:
    """With the sums of columns in its graph Dask held every block of counts until the last was read."""
    source = Read()
    with dask.config.set(scheduler="synchronous"):  # the sums are computed at once
        made = pmi.pmi(source.counts, **{name: PMI_OPTIONS[name] for name in given})
    check_reads(source, made, dict.fromkeys(given, True))


def test_counts_are_read_once_for_smoothed_pmi() -> None:
    source = Read()
    check_reads(source, pmi.smoothed_pmi(source.counts, np.ones(N_WORDS)).excess, {"column_totals": True})


def check_reads(source: Read, made: da.Array, known: dict[str, bool]) -> None:
    values = de.execution.map_blocks(
        lambda block: np.array([[block.nnz]]), made, chunks=((1,) * N_BLOCKS, (1,)), dtype=np.int64
    )
    with dask.config.set(scheduler="synchronous"):
        n_stored = int(de.execution.compute(values).sum())
    cost = pmi_cost((N_WORDS, N_WORDS), n_stored, N_BLOCKS, **known, block_memory=2**20)
    assert cost.read_bytes * N_BLOCKS == source.n_reads * PAIR_BYTES * n_stored
    assert cost.tasks == source.n_reads
    assert source.most_held == 1


TF_IDF_OPTIONS: Options = {
    "frequencies": np.full(N_WORDS, 5),
    "n_documents": N_WORDS,
    "smooth": False,
    "sublinear": True,
    "normalize": False,
    "dtype": np.float64,
}

ENTROPY_OPTIONS: Options = {"weights": np.ones(N_WORDS), "dtype": np.float64}


def weight_sizes(given: Options, weigh: Any) -> Sizes:
    with watched() as found:
        made = de.execution.compute(weigh(counts_in_blocks(), **given))
    return found | {"weights": bytes_of(made)}


def weight_costs(given: Options, weigh: Any) -> Cost:
    return document_weights_cost(
        (N_WORDS, N_WORDS),
        counts_of(N_WORDS, N_PAIRS).nnz,
        N_BLOCKS,
        height=1 if weigh is documents.tf_idf else 2,
        weights_given="frequencies" in given or "weights" in given,
        itemsize=np.dtype(given.get("dtype", np.float32)).itemsize,
        block_memory=2**20,
    )


@pytest.mark.parametrize(
    ("weigh", "option"),
    [
        *((documents.tf_idf, option) for option in TF_IDF_OPTIONS),
        *((documents.log_entropy, option) for option in ENTROPY_OPTIONS),
    ],
)
def test_an_option_of_weights_that_changes_the_arrays_changes_the_cost(weigh: Any, option: str) -> None:
    known = TF_IDF_OPTIONS if weigh is documents.tf_idf else ENTROPY_OPTIONS
    assert {*known} == {*inspect.signature(weigh).parameters} - {"counts"}
    new = {option: known[option]}
    if option in ("frequencies", "n_documents"):
        new = {name: known[name] for name in ("frequencies", "n_documents")}
    check(lambda o: weight_sizes(o, weigh), lambda o: weight_costs(o, weigh), {}, new)


def test_a_choice_of_columns_changes_the_cost() -> None:
    def sizes(given: Options) -> Sizes:
        with watched() as found:
            words = [str(word) for word in range(N_WORDS)]
            made = de.execution.compute(spaces.chosen_columns(counts_in_blocks(), words, **given))
        return found | {"columns": bytes_of(made)}

    def costs(given: Options) -> Cost:
        n_stored, shape = counts_of(N_WORDS, N_PAIRS).nnz, (N_WORDS, N_WORDS)
        return columns_cost(shape, n_stored, N_BLOCKS, is_chosen="n_columns" in given, block_memory=2**20)

    check(sizes, costs, {}, {"n_columns": 20})
    given: Options = {"n_columns": 20}
    assert max(sizes(given).values()) <= costs(given).peak_bytes(1)


def test_the_scores_of_topics_hold_the_counts_of_their_words_with_one_another() -> None:
    counts = sp.random_array((400, 400), density=0.3, format="csr", rng=np.random.default_rng(0))
    topics = np.arange(400).reshape(20, 20).tolist()
    with watched() as found:
        topic_coherence(topics, row_blocks(counts, values_per_block=2**13))
    costs = [coherence_cost(counts.nnz, 6, n, block_memory=2**20) for n in (200, 400)]
    assert 0 < max(found.values()) <= costs[1].peak_bytes(1)
    assert 4 * costs[0].shared_bytes == costs[1].shared_bytes
