"""What a job will take, before anything runs: tasks, bytes and the memory of a task, stage by stage.

Sizes that a finished stage knows exactly (tokens, words, non-zeros) are read from its manifest; before that they
are estimated from the sizes of the input files and from Zipf's law.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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

PART_DICTIONARY_BYTES = 100 * 2**20
"""Bytes of the word tables of one part, and of one range of the merge of all."""

SCRATCH_FACTOR = 8.0
"""Peak bytes of a task over those of its block, measured: counts, their transpose, both merged, what is written."""


class Sizes(NamedTuple):
    """The sizes a plan is made from."""

    input_bytes: int
    n_splits: int
    n_tokens: int
    n_words: int
    n_nonzero: int
    exact: bool


class StagePlan(NamedTuple):
    """One line of a plan: bytes read and written in all, the peak bytes of one task, and those that all tasks share.

    `tasks` are those of all `graphs` that the stage computes one after the other.
    """

    stage: str
    tasks: int
    read_bytes: int
    written_bytes: int
    task_bytes: int
    shared_bytes: int = 0
    graphs: int = 1

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

    def check(self) -> None:
        """Refuse a plan that cannot fit.

        Raises
        ------
        MemoryError
            A task of some stage would need more than the memory limit.
        ValueError
            A graph of some stage would have more than `MAX_TASKS` tasks.
        """
        limit = self.job.resources.memory_limit
        for stage in self.stages:
            if stage.peak_bytes(1) + WORKER_BYTES > limit:
                raise MemoryError(
                    f"a task of stage {stage.stage} would need {format_bytes(stage.peak_bytes(1))} beside the "
                    f"{format_bytes(WORKER_BYTES)} of a worker, over the limit of {format_bytes(limit)}: "
                    "lower resources.block_memory or raise resources.memory_limit"
                )
            tasks = -(-stage.tasks // stage.graphs)
            if tasks > MAX_TASKS:
                raise ValueError(
                    f"stage {stage.stage} would be {tasks:,} tasks, over {MAX_TASKS:,}: "
                    "raise resources.block_memory (or corpus.split_bytes)"
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
    known = "counted" if sizes.exact else "estimated"
    return (
        f"{format_bytes(sizes.input_bytes)} of input in {sizes.n_splits} splits; {known}: "
        f"{sizes.n_tokens:,} tokens, {sizes.n_words:,} words, {sizes.n_nonzero:,} pairs"
    )


def corpus_sizes(job: PSDVecJob | TopicsJob, workspace: Workspace | None) -> Sizes:
    """Return the sizes of a corpus and of what is counted of it; what committed stages know is exact."""
    done = workspace.stages() if workspace is not None else {}
    n_bytes, n_splits, n_tokens = corpus_input(job, done)
    if "vocabulary" in done:
        counts = workspace.table("vocabulary")["count"].to_numpy().astype(float)  # type: ignore[union-attr]
    else:
        counts = zipf_counts(estimated_words(job, n_tokens), n_tokens)
    sides = 2 if job.counting.direction == "symmetric" else 1
    if "cooccurrence" in done:
        n_nonzero = int(done["cooccurrence"].facts["n_nonzero"])
    else:
        n_nonzero = int(REPETITION * expected_pairs(counts, job.counting.window * sides))
    return Sizes(n_bytes, n_splits, n_tokens, len(counts), n_nonzero, "cooccurrence" in done)


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


def estimated_tokens(url: str, n_bytes: int, format_: str) -> int:
    """Return about how many tokens a file holds, from its size and its compression."""
    kind = "mediawiki" if format_ == "mediawiki" else "text"
    expansion = next((factor for suffix, factor in EXPANSION.items() if url.endswith(suffix)), 1.0)
    return int(n_bytes * expansion / BYTES_PER_TOKEN[kind])


def estimated_words(job: Any, n_tokens: int) -> int:
    """Return how many words a Zipfian text of `n_tokens` holds at least `min_count` times."""
    # the word of rank r is seen about 0.1 n_tokens / r times in English
    frequent = max(1, int(0.1 * n_tokens / job.vocabulary.min_count))
    return min(frequent, job.vocabulary.max_size or frequent)
