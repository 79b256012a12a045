"""Error bars of a psdvec job: scores and neighbors of its words in draws of documents, with replacement.

The documents lie in groups, by chance, whose pairs are counted apart. A draw takes as many groups with replacement, and
the words of the evaluation sets and of the report are solved from its counts against the core, which stays. Nothing is
counted or factorized again. The vectors are those of `[psdvec]`, before views and spelling are joined to them.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import dask.array as da
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from distembed.corpus.partitions import read_partition
from distembed.costs import Cost
from distembed.counting.costs import group_counts_cost, grouped_counts_cost, stored_pair_bytes
from distembed.counting.document_groups import (
    counts_of_groups,
    group_row_blocks,
    own_columns,
    words_of_groups,
)
from distembed.counting.partial_counts import Counted, DocumentGroups, ThreadMemory, count_partition
from distembed.evaluation.scoring import Policy
from distembed.evaluation.words import score_known
from distembed.evaluation.wordsets import AnalogySet, AntonymSet, find_word_sets, words_of
from distembed.execution import compute
from distembed.factorization.psdvec_core import core_weighting, slice_rows_and_columns
from distembed.factorization.replicate_blocks import Regression, Samples, Totals
from distembed.factorization.replicate_costs import SampleSizes, word_differences_cost
from distembed.factorization.replicates import Part, all_samples
from distembed.job.stage import Context, StageSpec
from distembed.linalg.csr import row_sums
from distembed.linalg.operators import of_each_row, transpose_row_blocks
from distembed.stages import outputs as corpus_outputs
from distembed.stages.corpus import counting_parameters, merged_runs, tokens_of, vocabulary_of
from distembed.stages.corpus_sections import counting_options
from distembed.stages.corpus_sizes import PairSizes
from distembed.stages.words import common_words, words_shown
from distembed.storage.workspace import Workspace
from distembed.systems.psdvec import outputs
from distembed.systems.psdvec.job import PSDVecJob
from distembed.systems.psdvec.sizes import PSDVecSizes
from distembed.vectors import WordVectors

N_GROUPS = 20
"""Groups of documents."""

CANDIDATES = 50
"""Nearest words of a word of the report, in all text, that may be among its nearest in a draw."""

INTERVAL = (0.025, 0.975)
"""The shares of the draws between which an interval lies."""


def plan_runs(job: PSDVecJob, sizes: PSDVecSizes) -> Cost:
    """Return the plan of counting the groups of documents apart."""
    corpus = sizes.corpus
    return grouped_counts_cost(corpus.text, corpus.n_words, N_GROUPS, sizes.runs, counting_options(job))


def run_runs(ctx: Context) -> dict[str, Any]:
    """Count each partition into sorted runs, cut by group of documents and row block."""
    row_blocks = group_row_blocks(ctx.workspace.stages()["partial_counts"].facts["row_blocks"], N_GROUPS)
    tokens = tokens_of(ctx.workspace)
    make = partial(
        _count_groups,
        workspace=ctx.workspace.url,
        partitions=tokens.partitions,
        options=counting_options(ctx.job),
        row_blocks=row_blocks,
        memory=ThreadMemory(),
    )
    ctx.store_files(outputs.BOOTSTRAP_RUNS, len(tokens.partitions), make)
    return {"row_blocks": list(row_blocks)}


def _count_groups(
    index: int,
    prefix: str,
    *,
    workspace: str,
    partitions: Sequence[str],
    options: Any,
    row_blocks: Sequence[int],
    memory: ThreadMemory,
) -> dict[str, Any]:
    partials = count_partition(
        partitions[index],
        vocabulary_of(Workspace.open(workspace)),
        options,
        row_blocks,
        f"{prefix}.counts",
        number=index,
        memory=memory,
        what=Counted(groups=DocumentGroups(groups_of(partitions[index]), N_GROUPS)),
    )
    return {**partials._asdict(), "url": ""}


def groups_of(partition: str) -> NDArray[np.int32]:
    """Return the group of each document of a partition, which depends on its id alone."""
    ids = read_partition(partition, "documents")["id"].to_pylist()
    return np.array([zlib.crc32((one or "").encode()) % N_GROUPS for one in ids], np.int32)


def plan_counts(job: PSDVecJob, sizes: PSDVecSizes) -> Cost:
    """Return the plan of adding up the runs of all partitions."""
    corpus, options = sizes.corpus, counting_options(job)
    n_pairs = group_pairs(sizes)
    return group_counts_cost(n_pairs, corpus.n_words, N_GROUPS, sizes.runs, options)


def group_pairs(sizes: PSDVecSizes) -> int:
    """Return about how many pairs all groups hold together."""
    assert isinstance(sizes.pairs, PairSizes)  # a job without a text draws no documents
    return N_GROUPS * sizes.pairs.model.n_pairs(1 / N_GROUPS)


def run_counts(ctx: Context) -> dict[str, Any]:
    """Add the runs of all partitions, group by group."""
    counts = own_columns(merged_runs(ctx, outputs.BOOTSTRAP_RUNS), N_GROUPS)
    ctx.store(outputs.BOOTSTRAP_COUNTS, counts)
    return {}


def parameters(job: PSDVecJob) -> dict[str, Any]:
    """Return the sets, the words of the report, and the draws."""
    options = job.evaluation.model_dump(mode="json", include={"sets", "case", "unknown", "bootstrap"})
    report = job.report.model_dump(mode="json", include={"words", "n_neighbors"})
    solving = job.psdvec.model_dump(mode="json", include={"ridge", "uniform_weight", "smoothing"})
    return {"evaluation": options, "report": report, "psdvec": solving}


def plan_bootstrap(job: PSDVecJob, sizes: PSDVecSizes) -> Cost:
    """Return the plan of solving the words in all draws."""
    n_words, n_blocks = sizes.corpus.n_words, max(1, sizes.runs.n_row_blocks)
    of_draws = SampleSizes(
        n_words, min(job.psdvec.n_core or n_words, n_words), 1, N_GROUPS, group_pairs(sizes), n_blocks
    )
    n_components, n_samples = job.psdvec.n_components, job.evaluation.bootstrap
    return word_differences_cost(
        of_draws,
        n_components,
        n_samples,
        n_components,
        batch_words=200,
        pair_bytes=stored_pair_bytes(counting_options(job)),
    )


class Solved(NamedTuple):
    """The words that are judged, and their vectors in all text and in each draw, (words, draws + 1, d)."""

    words: list[str]
    vectors: NDArray[np.float32]

    def draw(self, number: int) -> WordVectors:
        """Return the vectors of a draw; number 0 is all text."""
        return WordVectors(self.words, self.vectors[:, number])


def run_bootstrap(ctx: Context) -> dict[str, Any]:
    """Solve the words of the sets and of the report in each draw, and store intervals of scores and cosines."""
    job: PSDVecJob = ctx.job
    sets = find_word_sets(job.evaluation.sets) if job.evaluation.sets else []
    sets = [one for one in sets if not isinstance(one, AnalogySet | AntonymSet)]  # these need all words
    core = outputs.CORE_VECTORS.read(ctx.workspace)
    shown, candidates = _neighborhoods(ctx, core)
    tested = {word.lower() for one in sets for word in words_of(one)}
    words = vocabulary_of(ctx.workspace).words
    known = {*shown, *candidates}
    rows = [row for row, word in enumerate(words) if word.lower() in tested or word in known]
    solved = _solve(ctx, core, rows)
    scores = _score_rows(solved, sets, Policy(job.evaluation.case).for_words(words))
    ctx.stage.store_bytes(
        outputs.BOOTSTRAP.name, json.dumps(scores, indent=1, sort_keys=True).encode() + b"\n"
    )
    near = _neighbor_rows(solved, shown, job.report.n_neighbors)
    ctx.store_table(outputs.BOOTSTRAP_NEIGHBORS, pa.Table.from_pylist(near, _NEIGHBOR_COLUMNS))
    return {"n_words": len(rows), "n_draws": job.evaluation.bootstrap}


def _neighborhoods(ctx: Context, core: da.Array) -> tuple[list[str], set[str]]:
    """Return the core words that the report shows, and the nearest core words of each."""
    words = list(vocabulary_of(ctx.workspace).words)[: core.shape[0]]
    space = WordVectors(words, compute(core))
    shown = words_shown(ctx.job.report.words, words, common_words(ctx.workspace))
    n = min(CANDIDATES, len(words) - 1)
    return shown, {str(near.word) for word in shown for near in space.most_similar(word, n=n)} if n else set()


def _solve(ctx: Context, core: da.Array, rows: list[int]) -> Solved:
    """Return the vectors of some words in all text and in each draw.

    Raises
    ------
    ValueError
        If all documents are in one group.
    """
    job: PSDVecJob = ctx.job
    tokens, vocabulary = tokens_of(ctx.workspace), vocabulary_of(ctx.workspace)
    groups = np.concatenate([groups_of(partition) for partition in tokens.partitions])
    if len(set(groups.tolist())) < 2:
        raise ValueError(
            "evaluation.bootstrap draws documents, and the corpus has too few: divide it into more (corpus.layout), or "
            "leave evaluation.bootstrap out"
        )
    block = job.resources.block_memory
    counted = compute(words_of_groups(tokens, vocabulary, groups, N_GROUPS, block_memory=block))[0].T
    each = outputs.BOOTSTRAP_COUNTS.read(ctx.workspace)
    pairs = compute(of_each_row(row_sums, each)).reshape(N_GROUPS, -1).T
    n_core, n_words = core.shape[0], len(vocabulary)
    forward, backward = [], []
    for counts in counts_of_groups(each, N_GROUPS):
        forward.append(slice_rows_and_columns(counts, (0, n_words), (0, n_core))[rows])
        backward.append(transpose_row_blocks(slice_rows_and_columns(counts, (0, n_core), (0, n_words)))[rows])
    part = Part(
        forward,
        Totals(pairs[rows], counted[rows]),
        Samples((_draws(job.evaluation.bootstrap),), counted.sum(axis=0).astype(np.float64)),
        Totals(*(side[:n_core].sum(axis=1, keepdims=True) for side in (pairs, counted))),
        backward,
    )
    found = compute(all_samples(part, core, _rules(ctx, n_core)))
    words = np.array(vocabulary.words, object)[rows].tolist()
    return Solved(words, found.reshape(len(rows), -1, core.shape[1]))


def _draws(n: int) -> NDArray[np.float64]:
    """Return how often all text and each draw take each group, (groups, draws + 1)."""
    drawn = np.random.default_rng(0).multinomial(N_GROUPS, np.full(N_GROUPS, 1 / N_GROUPS), n).T
    return np.concatenate([np.ones((N_GROUPS, 1)), drawn], axis=1)


def _rules(ctx: Context, n_core: int) -> Regression:
    """Return what words are solved by: the weights of the core."""
    options = ctx.job.psdvec
    counts = slice_rows_and_columns(corpus_outputs.COOCCURRENCE.read(ctx.workspace), (0, n_core), (0, n_core))
    weighting = core_weighting(counts, options.smoothing, options.weight_cutoff)
    return Regression(weighting, float(np.ravel(options.ridge)[0]), options.uniform_weight)


def _score_rows(solved: Solved, sets: Sequence[Any], policy: Policy) -> list[dict[str, Any]]:
    """Return each score in all text, and its interval over the draws."""
    every = [score_known(solved.draw(number), sets, policy) for number in range(solved.vectors.shape[1])]
    rows = []
    for place, score in enumerate(every[0]):
        drawn = np.array([scores[place].value for scores in every[1:]], float)
        low, high = interval_of(score.value, drawn, -np.inf)
        numbers = {"value": score.value, "low": low, "high": high}
        known = {name: float(value) if np.isfinite(value) else None for name, value in numbers.items()}
        rows.append({"set": score.set, "metric": score.metric, **known})
    return rows


def interval_of(value: float, drawn: NDArray[np.floating], least: float = -1.0) -> tuple[float, float]:
    """Return the interval of a score or a cosine: draws deviate from their mean as it does from the true one.

    A draw lacks some documents and has others twice, so that its own scores and cosines are lower.

    Examples
    --------
    >>> import numpy as np
    >>> from distembed.systems.psdvec.bootstrap import interval_of
    >>> low, high = interval_of(0.7, np.linspace(0.4, 0.6, 1001))
    >>> round(low, 3), round(high, 3)
    (0.605, 0.795)
    """
    known = drawn[np.isfinite(drawn)]
    if not known.size:
        return np.nan, np.nan
    low, high = np.clip(value + np.quantile(known, INTERVAL) - known.mean(), least, 1)
    return float(low), float(high)


_NEIGHBOR_COLUMNS = pa.schema(
    [
        ("word", pa.string()),
        ("neighbor", pa.string()),
        ("cosine", pa.float64()),
        ("low", pa.float64()),
        ("high", pa.float64()),
        ("share_of_draws", pa.float64()),
    ]
)


def _neighbor_rows(solved: Solved, shown: Sequence[str], n: int) -> list[dict[str, Any]]:
    """Return the nearest of each word in all text, the interval of each cosine, and how often it is that near."""
    places = {word: place for place, word in enumerate(solved.words)}
    lengths = np.linalg.norm(solved.vectors, axis=2, keepdims=True)
    units = solved.vectors / np.where(lengths > 0, lengths, 1)
    rows = []
    for word in shown:
        cosines = np.einsum("wsd,sd->ws", units, units[places[word]])
        cosines[places[word]] = -np.inf
        nearest = np.argsort(-cosines, axis=0, kind="stable")[: min(n, len(solved.words) - 1)]
        for other in nearest[:, 0].tolist():
            low, high = interval_of(float(cosines[other, 0]), cosines[other, 1:])
            rows.append(
                {
                    "word": word,
                    "neighbor": solved.words[other],
                    "cosine": float(cosines[other, 0]),
                    "low": low,
                    "high": high,
                    "share_of_draws": float((nearest[:, 1:] == other).any(axis=0).mean()),
                }
            )
    return rows


def bootstrap_stages(job: PSDVecJob) -> tuple[StageSpec, ...]:
    """Return the stages of the error bars, none where the job asks for no draws."""
    if not job.evaluation.bootstrap:
        return ()
    return (
        StageSpec(
            "bootstrap_runs",
            ("tokens", "vocabulary", "partial_counts"),
            counting_parameters,
            run_runs,
            plan_runs,
        ),
        StageSpec("bootstrap_counts", ("bootstrap_runs",), counting_parameters, run_counts, plan_counts),
        StageSpec(
            "bootstrap",
            ("tokens", "vocabulary", "cooccurrence", "core", "bootstrap_counts"),
            parameters,
            run_bootstrap,
            plan_bootstrap,
        ),
    )
