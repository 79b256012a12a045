"""Jobs that start from a table of counts in place of a text: its section, its sizes, and the stages that read it.

The stages have the names of those that count a text, so that all that follow read their outputs. The vocabulary is made
of the list of words of the table; each piece of the table becomes a file of sorted runs, cut by row block, whatever the
order of its cells; the runs of a row block become a part of the matrix.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import accumulate
from typing import Any, NamedTuple, Self

import dask.array as da
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pydantic import Field, field_validator, model_validator
from pydantic_core.core_schema import ValidationInfo
from scipy.sparse import csr_array

from distembed.corpus import Vocabulary
from distembed.corpus.sample import CorpusSample
from distembed.corpus.stop_words import stop_words_of
from distembed.costs import Cost
from distembed.counting.costs import RunSizes
from distembed.counting.count_files import words_beside
from distembed.counting.count_readers import (
    CountTable,
    CountTableError,
    kind_of,
    open_table,
    parquet_sums,
    read_cells,
    table_words,
)
from distembed.counting.given_blocks import PairTwiceError, joined_runs, renumbered, sorted_runs
from distembed.counting.given_costs import (
    block_cells,
    given_counts_cost,
    given_parts_cost,
    given_runs,
    given_words_cost,
    piece_cells,
)
from distembed.counting.runs import RunWriter, read_runs
from distembed.display import format_bytes, plural
from distembed.execution import compute, map_blocks, summed
from distembed.job.model import InputPath, Section
from distembed.job.stage import Context, Counted, StageSpec, sections
from distembed.linalg.chunks import balanced_chunks
from distembed.linalg.operators import empty_csr
from distembed.stages import outputs
from distembed.stages.corpus import vocabulary_of
from distembed.stages.corpus_sections import CorpusJob, CorpusSection, VocabularySection
from distembed.stages.corpus_sizes import CorpusSizes, Sampled
from distembed.storage.workspace import Workspace


class CountsSection(Section):
    """`[counts]`: a table of counts, in place of a text."""

    path: InputPath
    """A table that `distembed export --what counts` wrote, or another program: .parquet with the columns word, context
    and count, .npz of SciPy, GloVe's cooccurrence.bin, or a bigram file of PSDVec's authors (.txt). The word stands on
    the left, if the table tells sides apart.
    """
    words: InputPath | None = Field(default=None, validate_default=True)
    """Its words with their counts: Parquet, or lines of "word count". By default what lies beside the table: vocab.txt
    for GloVe, NAME.words.txt for npz; a Parquet file that an export wrote knows its own. Without any, the words of a
    Parquet file are counted by their cells.
    """

    @field_validator("path", mode="after")
    @classmethod
    def _is_a_table(cls, path: str) -> str:
        kind_of(path)
        return path

    @field_validator("words", mode="after")
    @classmethod
    def _beside_the_table(cls, words: str | None, info: ValidationInfo) -> str | None:
        path = info.data.get("path")
        if words is not None or path is None or kind_of(path) in ("parquet", "bigrams"):
            return words
        return words_beside(path)


NO_TEXT = CorpusSection.model_construct(paths=())
"""The corpus of a job that starts from counts."""


class CountsJob(CorpusJob):
    """What a job has that starts from a text, or from a table of counts."""

    corpus: CorpusSection = Field(default=NO_TEXT, exclude_if=lambda corpus: not corpus.paths)
    counts: CountsSection | None = None

    @model_validator(mode="after")
    def _text_or_counts(self) -> Self:
        if self.counts is None and not self.corpus.paths:
            raise ValueError(
                "corpus.paths is required and not there; add it, or counts.path, a table of counts"
            )
        if self.counts is not None and self.corpus.paths:
            raise ValueError(
                "the job has both corpus.paths and counts.path: leave one out, the text or its counts"
            )
        return self


# --- how large a table is -----------------------------------------------------------------------------------------

NO_SAMPLE = CorpusSample(
    pa.array([], pa.string()),
    counts=np.empty(0, np.int64),
    document_counts=np.empty(0, np.int64),
    ids=np.empty(0, np.int32),
    n_documents=0,
    n_tokens=0,
    n_bytes=0,
    is_whole=True,
)


class GivenPairs(NamedTuple):
    """The sizes of a table of counts; see `distembed.stages.corpus_sizes.PairSizes`."""

    corpus: CorpusSizes
    n_nonzero: int
    runs: RunSizes
    n_bytes: int
    exact: bool

    def n_among(self, n_words: int) -> int:
        """Return the most pairs of the most frequent words that there can be."""
        return min(self.n_nonzero, n_words**2)

    def n_in_either_order(self, n_words: int) -> int:
        """Return the most pairs of the most frequent words, in one order or the other, that there can be."""
        return min(2 * self.n_nonzero, n_words**2)

    @property
    def sentence(self) -> str:
        """The sizes in words."""
        words = plural(self.corpus.n_words, "word")
        if "vocabulary" not in self.corpus.counted:
            words = f"up to {words}"
        return f"{format_bytes(self.n_bytes)} of counts: {words}, {plural(self.n_nonzero, 'pair')}"


def given_pairs(job: Any, counted: Counted | None, *, stage: str = "cooccurrence") -> GivenPairs:
    """Return the sizes of the table of counts that a job starts from; what committed stages know is exact.

    `stage` stores the table.
    """
    done = {} if counted is None else counted.stages
    table = _table(job)
    n_words, n_nonzero = 0, table.n_cells
    if "vocabulary" in done:
        n_words = int(done["vocabulary"].facts["n_words"])
    else:
        words = table_words(table, job.counts.words)
        n_words = 2 * table.n_cells if words is None else len(words)
    if stage in done:
        n_nonzero = int(done[stage].facts["n_nonzero"])
    corpus = CorpusSizes(
        table.n_bytes,
        len(table.pieces),
        0,
        0,
        0,
        n_words,
        n_words,
        0,
        frozenset(done),
        Sampled(NO_SAMPLE, 1.0),
    )
    runs = given_runs(n_nonzero, job.resources.block_memory)
    return GivenPairs(corpus, n_nonzero, runs, table.n_bytes, stage in done)


def _table(job: Any) -> CountTable:
    return open_table(job.counts.path, block_memory=job.resources.block_memory)


# --- the stages ---------------------------------------------------------------------------------------------------


def given_parameters(job: Any) -> dict[str, Any]:
    """Return the section of the table and the memory of a block, which lays the grid."""
    return {**sections("counts")(job), "block_memory": job.resources.block_memory}


def vocabulary_parameters(job: Any) -> dict[str, Any]:
    """Return the table, and which of its words are taken."""
    found = sections("counts", "vocabulary")(job)
    if job.vocabulary.stop_words == "none":
        del found["vocabulary"]["stop_words"]  # workspaces older than the key stay finished
    return found


def check_given(job: Any) -> list[str]:
    """Open the table and the list of its words, and return how large they are."""
    table = _table(job)
    words = table_words(table, job.counts.words)
    listed = "" if words is None else f", {plural(len(words), 'word')} listed"
    return [f"counts: {table.kind} table, {format_bytes(table.n_bytes)}{listed}"]


def plan_given_vocabulary(job: Any, sizes: Any) -> Cost:  # noqa: ARG001 - as all plans
    """Return the plan of reading the words of a table, from its cells if there is no list of them."""
    return given_words_cost(sizes.pairs.n_bytes, sizes.corpus.n_words)


def run_given_vocabulary(ctx: Context) -> dict[str, Any]:
    """Choose from the words of the table those that are frequent enough, in falling order.

    Raises
    ------
    CountTableError
        If none is.
    """
    section, options = ctx.job.counts, ctx.job.vocabulary
    table = _table(ctx.job)
    words = table_words(table, section.words)
    if words is None:
        array, sums = parquet_sums(table, piece_cells(ctx.job.resources.block_memory))
        words = Vocabulary(array, np.ceil(sums).astype(np.int64), np.full(len(array), -1, np.int64))
    rows = _chosen(words, options)
    if not len(rows):
        raise CountTableError(
            f"no word of {section.path} was counted vocabulary.min_count = {options.min_count} times: lower it"
        )
    chosen = words.take(rows)
    columns = {"word": chosen.array, "count": chosen.counts, "document_count": chosen.document_counts}
    ctx.store_table(outputs.VOCABULARY, pa.table(columns))
    return {"n_words": len(chosen), "n_words_before": len(words)}


def _chosen(words: Vocabulary, options: VocabularySection) -> NDArray[np.int64]:
    """Return the rows of the words that are taken, by falling count and then by word."""
    table = pa.table({"word": words.array, "count": words.counts})
    order = table.sort_by([("count", "descending"), ("word", "ascending")])["word"]
    rows = words.index(order).astype(np.int64)
    is_kept = np.isin(rows, words.index(list(options.keep)))
    is_wanted = ~np.isin(rows, words.index(sorted(stop_words_of(options.stop_words))))
    is_frequent = is_wanted & (words.counts[rows] >= options.min_count)
    return rows[is_kept | (is_frequent & (np.cumsum(is_frequent) <= (options.max_size or len(rows))))]


class GivenTable(NamedTuple):
    """What a task needs to read a piece of a table."""

    table: CountTable
    words: str | None
    workspace: str
    n_cells: int

    def cells(self, piece: int) -> Any:
        """Yield the cells of a piece with the numbers of the job's words, each after the sum of all that were read."""
        vocabulary = vocabulary_of(Workspace.open(self.workspace))
        listed = table_words(self.table, self.words)
        known = vocabulary if listed is None else listed
        numbers = vocabulary.index(known.array)
        for cells in read_cells(self.table, piece, known, self.n_cells, closed=listed is not None):
            numbered = numbers if listed is not None else np.append(numbers, np.int32(-1))
            yield renumbered(cells, numbered, numbered), float(cells.values.sum())

    def name(self, error: PairTwiceError, first_row: int = 0) -> CountTableError:
        """Return the error of a pair that is there twice, with its words."""
        words = vocabulary_of(Workspace.open(self.workspace)).words
        pair = f"{words[first_row + error.row]!r} with {words[error.column]!r}"
        return CountTableError(
            f"{self.table.path} holds the count of {pair} twice: add the two, or remove one"
        )


def _given_table(ctx: Context) -> GivenTable:
    section = ctx.job.counts
    return GivenTable(
        _table(ctx.job), section.words, ctx.workspace.url, piece_cells(ctx.job.resources.block_memory)
    )


def plan_given_parts(job: Any, sizes: Any) -> Cost:
    """Return the plan of sorting the pieces of a table."""
    pairs, corpus = sizes.pairs, sizes.corpus
    return given_parts_cost(
        pairs.n_bytes, corpus.n_partitions, corpus.n_words, pairs.runs, job.resources.block_memory
    )


def run_given_parts(ctx: Context) -> dict[str, Any]:
    """Write each piece of the table as sorted runs, cut by row blocks of about equally many cells.

    Raises
    ------
    CountTableError
        If the table is damaged, or has a pair twice.
    """
    given = _given_table(ctx)
    n_pieces, n_words = len(given.table.pieces), outputs.VOCABULARY.read(ctx.workspace).num_rows
    rows = map_blocks(
        _row_nonzeros,
        chunks=((1,) * n_pieces, (n_words,)),
        dtype=np.int64,
        meta=np.empty((0, 0), np.int64),
        given=given,
        n_words=n_words,
    )
    chunks = balanced_chunks(np.asarray(compute(summed(rows))), block_cells(ctx.job.resources.block_memory))
    bounds = [0, *accumulate(chunks)]
    make = partial(_write_piece, given=given, bounds=bounds)
    summaries = [item.summary for item in ctx.store_files(outputs.PARTIAL_COUNTS, n_pieces, make)]
    total, expected = sum(one["total"] for one in summaries), given.table.manifest.get("total")
    if expected is not None and not np.isclose(total, expected, rtol=1e-9):
        raise CountTableError(
            f"{given.table.path} is damaged: its counts add up to {total:.17g}, and its manifest says {expected:.17g}; "
            "copy it again"
        )
    return {"n_row_blocks": len(chunks), "row_blocks": bounds}


def _row_nonzeros(*, given: GivenTable, n_words: int, block_id: tuple[int, int]) -> NDArray[np.int64]:
    found = np.zeros((1, n_words), np.int64)
    for cells, _ in given.cells(block_id[0]):
        found += np.bincount(cells.rows, minlength=n_words)
    return found


def _write_piece(index: int, prefix: str, *, given: GivenTable, bounds: list[int]) -> dict[str, Any]:
    total, largest, is_whole = 0.0, 0.0, True
    with RunWriter(f"{prefix}.counts", len(bounds) - 1) as writer:
        for cells, read in given.cells(index):
            try:
                runs = sorted_runs(cells, bounds)
            except PairTwiceError as error:
                raise given.name(error) from None
            for block, run in enumerate(runs):
                if len(run.indices):
                    writer.append(block, run)
            total, largest = total + read, max(largest, float(cells.values.max(initial=0)))
            is_whole = is_whole and bool((cells.values == np.floor(cells.values)).all())
    return {"total": total, "largest": largest, "is_whole": is_whole}


def plan_given_counts(job: Any, sizes: Any) -> Cost:
    """Return the plan of joining the runs of each row block."""
    pairs = sizes.pairs
    return given_counts_cost(pairs.n_nonzero, pairs.runs, job.resources.block_memory)._replace(
        exact=pairs.exact
    )


def run_given_counts(ctx: Context) -> dict[str, Any]:
    """Join the runs of all pieces, row block by row block."""
    output = replace(outputs.COOCCURRENCE, meaning=GIVEN_MEANING)
    stored = ctx.store(output, given_array(ctx))
    row_nonzeros = compute(ctx.stage.row_nonzeros(output.name))
    ctx.store_table(outputs.ROW_NONZEROS, pa.table({"n_nonzero": row_nonzeros}))
    return {"n_nonzero": int(row_nonzeros.sum()), "n_row_blocks": stored.numblocks[0]}


def given_array(ctx: Context) -> da.Array:
    """Return the table that a job starts from, lazily, in row blocks: whole numbers as such, others as float32."""
    bounds = ctx.workspace.stages()[outputs.PARTIAL_COUNTS.name].facts["row_blocks"]
    items = outputs.PARTIAL_COUNTS.read(ctx.workspace)
    whole = all(item.summary["is_whole"] for item in items)
    largest = max(item.summary["largest"] for item in items)
    kind = np.dtype((np.int32 if largest < 2**31 else np.int64) if whole else np.float32)
    return map_blocks(
        _join_block,
        chunks=(tuple(int(n) for n in np.diff(bounds)), (bounds[-1],)),
        dtype=kind,
        meta=empty_csr(kind),
        given=_given_table(ctx),
        urls=[item.paths[0] for item in items],
        bounds=bounds,
        kind=kind,
    )


GIVEN_MEANING = "How often two words stand near each other, as the table that the job starts from says."


def _join_block(
    *,
    given: GivenTable,
    urls: list[str],
    bounds: list[int],
    kind: np.dtype[Any],
    block_id: tuple[int, int],
) -> csr_array:
    block = block_id[0]
    first, last = bounds[block : block + 2]
    runs = [run for url in urls for run in read_runs(url, block)]
    try:
        return joined_runs(runs, last - first, bounds[-1], kind)
    except PairTwiceError as error:
        raise given.name(error, first) from None


GIVEN_VOCABULARY = StageSpec(
    "vocabulary", (), vocabulary_parameters, run_given_vocabulary, plan_given_vocabulary, check_given
)
GIVEN_PARTS = StageSpec(
    "partial_counts", ("vocabulary",), given_parameters, run_given_parts, plan_given_parts
)
GIVEN_COUNTS = StageSpec(
    "cooccurrence", ("partial_counts",), given_parameters, run_given_counts, plan_given_counts
)
