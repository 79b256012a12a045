"""What a job will take, before anything runs: tasks, bytes and the memory of a task, stage by stage.

Sizes that a finished stage knows exactly (tokens, words, non-zeros) are read from its manifest; before that they
are estimated from the sizes of the input files and from Zipf's law.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from dask.utils import format_bytes

from distembed.pipeline import corpus_stages
from distembed.pipeline.inputs import file_sizes, recorded_bytes
from distembed.pipeline.psdvec.config import PSDVecJob
from distembed.pipeline.sections import Job
from distembed.pipeline.terminal import shown
from distembed.pipeline.topics.config import TopicsJob
from distembed.storage.schema import StageManifest
from distembed.storage.workspace import Workspace

MAX_TASKS = 100_000
"""More tasks than this in one graph keep the scheduler busier than the workers (1.4 ms a task)."""

EXPANSION = {".bz2": 3.6, ".xz": 3.85, ".zst": 3.8, ".gz": 3.0, ".parquet": 2.0}
"""Bytes of text a byte of a compressed file holds, measured on English Wikipedia text."""

BYTES_PER_TOKEN = {"mediawiki": 13.5, "text": 6.2}
"""Bytes of raw input a token takes: wikitext holds markup, plain text little more than its words."""

ZIPF_SHIFT = 2.7
"""Mandelbrot's shift of the rank: the share of the word of rank r falls as 1 / (r + 2.7)."""

WORKER_BYTES = 500 * 2**20
"""Resident bytes of a process that has loaded the package and run a stage: the libraries and what malloc keeps."""

REPETITION = 0.5
"""Distinct pairs of English text over those of independent words (10.3 M of 20.7 M: 20 M tokens, window 3)."""

PART_DICTIONARY_BYTES = 200 * 2**20
"""Bytes of a part's largest dictionary (`corpus.parts.DICTIONARY_WORDS`): its table, growing, and what is written."""

SLICE_ENTRIES, SLICE_ENTRY_BYTES = 2**20, 100
"""Words of a slice on its way from the dictionaries of parts to the vocabulary, and the bytes of each."""

VOCABULARY_BYTES = 240
"""Bytes a word of the vocabulary takes in the stage that makes it, measured on words of six letters and more."""

LOOKUP_BYTES = 400
"""Bytes a word of the vocabulary takes in a task that reads token ids: the words, their hashes, and row ends of runs.

Measured 310 to 370; the hash table doubles.
"""

DICTIONARY_SHARE = 60
"""Bytes of a dictionary a byte of a split may need: texts of nothing but new words, compressed four times."""

HEAPS_FACTOR, HEAPS_EXPONENT = 20.0, 0.6
"""Distinct words of a text of n tokens: 20 n^0.6, above those of English Wikipedia and below those of word lists."""

DOCUMENT_BYTES = 200
"""Bytes a document takes in the stage of the vocabulary, which joins the tables of documents of all parts."""

TOKENS_PER_DOCUMENT = 100
"""Few, because an estimate of documents is for the memory they take: an abstract, or a message."""

SCRATCH_FACTOR = 8.0
"""Peak bytes of a task over those of its block, measured: counts, their transpose, both merged, what is written."""


class CorpusSizes(NamedTuple):
    """What is known of a corpus; `counted` names the stages whose facts stand for estimates.

    `n_entries` are the words of the dictionaries of all parts together.
    """

    input_bytes: int
    n_splits: int
    n_tokens: int
    n_entries: int
    n_documents: int
    n_words: int
    counted: frozenset[str]


class Sizes(NamedTuple):
    """The sizes a plan is made from."""

    corpus: CorpusSizes
    n_nonzero: int

    @property
    def exact(self) -> bool:
        """Whether all of them are counted."""
        return "cooccurrence" in self.corpus.counted


class StagePlan(NamedTuple):
    """One line of a plan: bytes read and written in all, the peak bytes of one task, and those that all tasks share.

    `tasks` are those of all `graphs` that the stage computes one after the other. The memory of a stage that is not
    `exact` was made from estimated sizes: too much of it is a warning, and no reason to refuse the job.
    """

    stage: str
    tasks: int
    read_bytes: int
    written_bytes: int
    task_bytes: int
    shared_bytes: int = 0
    graphs: int = 1
    exact: bool = True

    def peak_bytes(self, n_threads: int) -> int:
        """Return the peak bytes of so many threads, or of as many as have a task."""
        return self.shared_bytes + min(n_threads, self.tasks) * self.task_bytes


class Plan(NamedTuple):
    """A whole plan: what is known of the input in a sentence, and the limit the stages are held against."""

    job: Job
    sizes: str
    stages: tuple[StagePlan, ...]

    def table(self) -> str:
        """Return the plan as lines of text."""
        head, n_threads = f"{shown(self.job.job.title)}\n{self.sizes}\n", self.job.resources.n_workers
        width = max(14, *(len(s.stage) + 1 for s in self.stages))
        rows = [f"{'stage':<{width}}{'tasks':>8}{'reads':>13}{'writes':>13}{'peak a task':>14}"]
        rows += [
            f"{s.stage:<{width}}{s.tasks:>8,}{format_bytes(s.read_bytes):>13}{format_bytes(s.written_bytes):>13}"
            f"{format_bytes(s.peak_bytes(1)):>14}"
            for s in self.stages
        ]
        return (
            head
            + "\n".join(rows)
            + (
                f"\neach worker process: {format_bytes(self.process_bytes(1))} of at most "
                f"{format_bytes(self.job.resources.memory_limit)}; "
                f"{n_threads} threads of one process: {format_bytes(self.process_bytes(n_threads))}"
            )
        )

    def process_bytes(self, n_threads: int) -> int:
        """Return the peak bytes of a process that runs so many tasks at once."""
        return WORKER_BYTES + max(stage.peak_bytes(n_threads) for stage in self.stages)

    def check(self, stages: Collection[str] | None = None) -> None:
        """Refuse a plan of which one of these stages (all by default) cannot fit.

        Raises
        ------
        MemoryError
            A task of some stage needs more than the memory limit, and the sizes it is planned from are counted.
        ValueError
            A graph of some stage would have more than `MAX_TASKS` tasks.
        """
        for stage in self._chosen(stages):
            if stage.exact and self._outgrows(stage):
                raise MemoryError(self._too_large(stage))
            tasks = -(-stage.tasks // stage.graphs)
            if tasks > MAX_TASKS:
                raise ValueError(
                    f"stage {stage.stage} would be {tasks:,} tasks, over {MAX_TASKS:,}: "
                    "raise resources.block_memory (or corpus.split_bytes)"
                )

    def warnings(self, stages: Collection[str] | None = None) -> tuple[str, ...]:
        """Return a sentence for each of these stages (all by default) that may not fit, by estimate."""
        return tuple(
            f"{self._too_large(stage)} (an estimate; the stage is refused only if counted sizes say the same)"
            for stage in self._chosen(stages)
            if not stage.exact and self._outgrows(stage)
        )

    def _chosen(self, stages: Collection[str] | None) -> list[StagePlan]:
        return [stage for stage in self.stages if stages is None or stage.stage in stages]

    def _outgrows(self, stage: StagePlan) -> bool:
        return stage.peak_bytes(1) + WORKER_BYTES > self.job.resources.memory_limit

    def _too_large(self, stage: StagePlan) -> str:
        return (
            f"a task of stage {stage.stage} would need {format_bytes(stage.peak_bytes(1))} beside the "
            f"{format_bytes(WORKER_BYTES)} of a worker, over the limit of "
            f"{format_bytes(self.job.resources.memory_limit)}: "
            "lower resources.block_memory or raise resources.memory_limit"
        )


def zipf_counts(n_words: int, n_tokens: int) -> np.ndarray:
    """Return the expected counts of the `n_words` most frequent words of a text of `n_tokens`, float64."""
    share = 1.0 / (np.arange(n_words) + ZIPF_SHIFT)
    # the words kept cover nearly all tokens whatever their number; what is cut off is the far tail
    return share / share.sum() * n_tokens


def expected_pairs(counts: Sequence[float] | np.ndarray, window: int, *, n_bins: int = 400) -> int:
    """Estimate the distinct ordered pairs within `window` places, as if words were drawn independently.

    P(pair i, j is seen) = 1 - exp(-window c_i c_j / N). Real text repeats itself: see `REPETITION`.
    """
    counts = np.sort(np.asarray(counts, dtype=float))[::-1]
    total = counts.sum()
    if total <= 0:
        return 0
    edges = np.unique(np.geomspace(1, len(counts) + 1, n_bins + 1).astype(int)) - 1
    widths = np.diff(edges)
    means = np.add.reduceat(counts, edges[:-1]) / widths
    seen = -np.expm1(-window / total * means[:, None] * means[None, :])
    return int(widths @ seen @ widths)


def sizes_in_words(sizes: Sizes) -> str:
    """Say what is known of the sizes of a corpus."""
    known, corpus = "counted" if sizes.exact else "estimated", sizes.corpus
    return (
        f"{format_bytes(corpus.input_bytes)} of input in {corpus.n_splits} splits; {known}: "
        f"{corpus.n_tokens:,} tokens, {corpus.n_words:,} words, {sizes.n_nonzero:,} pairs"
    )


def corpus_sizes(job: Any, workspace: Workspace | None) -> CorpusSizes:
    """Return the sizes of a corpus; what the committed stages know is exact."""
    done = workspace.stages() if workspace is not None else {}
    n_bytes, n_splits, n_tokens = corpus_input(job, done)
    facts = done["tokens"].facts if "tokens" in done else {}
    n_entries = int(facts.get("n_words", n_splits * estimated_types(n_tokens // n_splits)))
    n_documents = int(facts.get("n_documents", n_tokens // TOKENS_PER_DOCUMENT + 1))
    n_words = estimated_words(job, n_tokens, n_entries)
    if "vocabulary" in done:
        n_words = int(done["vocabulary"].facts["n_words"])
    return CorpusSizes(n_bytes, n_splits, n_tokens, n_entries, n_documents, n_words, frozenset(done))


def pair_sizes(job: PSDVecJob | TopicsJob, workspace: Workspace | None) -> Sizes:
    """Return the sizes of a corpus and of the pairs counted of it; what the committed stages know is exact."""
    corpus = corpus_sizes(job, workspace)
    if workspace is not None and "cooccurrence" in corpus.counted:
        return Sizes(corpus, int(workspace.stages()["cooccurrence"].facts["n_nonzero"]))
    sides = 2 if job.counting.direction == "symmetric" else 1
    pairs = expected_pairs(word_counts(corpus, workspace), job.counting.window * sides)
    return Sizes(corpus, int(REPETITION * pairs))


class CorpusInput(NamedTuple):
    """Bytes of the files of a corpus, the splits they are read in, and their tokens."""

    n_bytes: int
    n_splits: int
    n_tokens: int


def corpus_input(job: PSDVecJob | TopicsJob, done: Mapping[str, StageManifest]) -> CorpusInput:
    """Return how much there is to read; what committed tokens know needs no file of the corpus."""
    if "tokens" in done:
        manifest = done["tokens"]
        n_splits = len(manifest.outputs["tokens"].spec.row_blocks)
        return CorpusInput(recorded_bytes(manifest), n_splits, int(manifest.facts["n_tokens"]))
    splits = corpus_stages.corpus_of(job).splits
    sizes = file_sizes(split.url for split in splits)
    n_tokens = sum(estimated_tokens(url, n_bytes, splits[0].format) for url, n_bytes in sizes.items())
    return CorpusInput(sum(sizes.values()), len(splits), n_tokens)


def word_counts(corpus: CorpusSizes, workspace: Workspace | None) -> np.ndarray:
    """Return the counts of the vocabulary's words, or those of a Zipfian text where it is not made yet."""
    if workspace is not None and "vocabulary" in corpus.counted:
        return workspace.table("vocabulary")["count"].to_numpy().astype(float)
    return zipf_counts(corpus.n_words, corpus.n_tokens)


def corpus_plans(job: Any, sizes: CorpusSizes) -> dict[str, StagePlan]:
    """Return the plans of the stages of a corpus that every system shares: tokens and vocabulary."""
    token_bytes = int(2.2 * sizes.n_tokens)
    split = min(job.corpus.split_bytes, sizes.input_bytes)
    merging = merging_bytes(sizes.n_entries, job.resources.block_memory)
    held = VOCABULARY_BYTES * sizes.n_words + DOCUMENT_BYTES * sizes.n_documents
    dictionary = min(PART_DICTIONARY_BYTES, DICTIONARY_SHARE * split)
    return {
        "tokens": StagePlan("tokens", sizes.n_splits, sizes.input_bytes, token_bytes, 2 * split + dictionary),
        "vocabulary": StagePlan(
            "vocabulary",
            1,
            token_bytes // 8,
            40 * sizes.n_words,
            merging + held,
            exact="vocabulary" in sizes.counted,
        ),
    }


def merging_bytes(n_entries: int, block_memory: int) -> int:
    """Return the bytes that merging the dictionaries of all parts takes: a slice, and what is added up at a time."""
    added = min(n_entries, corpus_stages.words_in_memory(block_memory))
    return SLICE_ENTRY_BYTES * min(n_entries, SLICE_ENTRIES) + corpus_stages.ENTRY_BYTES * added


def counting_plan(
    name: str, sizes: CorpusSizes, n_tasks: int, *, written_bytes: int, block_memory: int
) -> StagePlan:
    """Return the plan of a stage whose tasks read token ids and look each up in the vocabulary."""
    task = block_memory + LOOKUP_BYTES * sizes.n_words
    counted = "vocabulary" in sizes.counted
    return StagePlan(name, n_tasks, int(2.2 * sizes.n_tokens), written_bytes, task, exact=counted)


def estimated_tokens(url: str, n_bytes: int, format_: str) -> int:
    """Return about how many tokens a file holds, from its size and its compression."""
    kind = "mediawiki" if format_ == "mediawiki" else "text"
    expansion = next((factor for suffix, factor in EXPANSION.items() if url.endswith(suffix)), 1.0)
    return int(n_bytes * expansion / BYTES_PER_TOKEN[kind])


def estimated_types(n_tokens: int) -> int:
    """Return how many distinct words a text of `n_tokens` holds at most, by Heaps' law."""
    return int(min(n_tokens, HEAPS_FACTOR * n_tokens**HEAPS_EXPONENT))


def estimated_words(job: Any, n_tokens: int, n_entries: int) -> int:
    """Return how many words a text of `n_tokens` holds at least `min_count` times.

    By Zipf's law the words of that count are 1 / min_count of all words, of which the dictionaries of the parts
    together have `n_entries` at most.
    """
    # the word of rank r is seen about 0.1 n_tokens / r times in English
    least = job.vocabulary.min_count
    frequent = max(1, int(0.1 * n_tokens / least), n_entries // least)
    return min(frequent, job.vocabulary.max_size or frequent)
