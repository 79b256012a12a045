"""The first stage of Latent Semantic Imputation: a table and known vectors, joined by name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import dask.array as da
import numpy as np
import pyarrow as pa

from distembed.costs import Cost
from distembed.formats.tables import is_text
from distembed.linalg.chunks import row_chunk
from distembed.neighbors.distances import Metric
from distembed.pipeline.context import Context, Counted, sections
from distembed.pipeline.inputs import file_sizes, recorded_bytes
from distembed.pipeline.systems.imputation.config import ImputationJob
from distembed.pipeline.tables.domain import Joined, join, read_domain
from distembed.pipeline.tables.known import known_bytes, known_width, read_known
from distembed.pipeline.tables.names import NearMiss, advice_on, near_misses
from distembed.pipeline.tables.rows import Domain, LeftOut
from distembed.pipeline.tables.scales import scales_table
from distembed.pipeline.tables.shares import warn_of_one_column
from distembed.pipeline.tables.vector_files import holds_vectors

SCALES = "domain_columns"
"""The table of the columns that were read and the scale they were brought to, by which later rows are read."""

TABLE_COPIES = 4
"""Copies of a table in memory while it is read: the file, its columns, the matrix, and one transformed."""

TEXT_COPIES = 4
"""Further copies where the table is text: the file, its cells, and cells made ready to become numbers."""


class TableSizes(NamedTuple):
    """Rows and columns of the domain, components of the vectors."""

    n_names: int
    n_features: int
    n_components: int
    input_bytes: int
    domain_bytes: int  # of the matrix in memory
    notes: tuple[str, ...] = ()  # what was done to the table
    known_bytes: int = 0  # of all known vectors in memory, those of words that are no names too

    @property
    def sentence(self) -> str:
        """The sizes in words."""
        sizes = (
            f"{self.n_names:,} names x {self.n_features:,} numbers, vectors of {self.n_components} components"
        )
        return "\n".join([sizes, *(f"  {note}" for note in self.notes)])


def table_sizes(job: ImputationJob, counted: Counted | None) -> TableSizes:
    """Return the sizes of a job; what a committed join has counted is not read again."""
    if counted is not None and "join" in counted.stages:
        workspace, n_bytes = counted.workspace, recorded_bytes(counted.stages["join"].parameters)
        spec = workspace.describe("domain").spec
        width = np.dtype(spec.dtype).itemsize
        n_components = workspace.describe("known_vectors").spec.shape[1]
        n, d = spec.shape
        return TableSizes(n, d, n_components, n_bytes, width * n * d)
    domain = read_domain(job.domain, job.matching)
    n, d = domain.matrix.shape
    read = [job.domain.path, *job.domain.also, job.known.path, *filter(None, [job.known.counts])]
    notes = (*domain.notes, *filter(None, [advice_on_metric(domain, job.imputation.metric)]))
    n_bytes = sum(file_sizes(read).values())
    width = known_width(job.known)
    held = known_bytes(job.known, width)
    return TableSizes(n, d, width, n_bytes, domain.matrix.nbytes, notes, held)


def joined(job: ImputationJob) -> Joined:
    """Read both tables of a job and join them by name."""
    known = read_known(job.known, job.matching)
    return join(read_domain(job.domain, job.matching), known, job.matching, min_count=job.known.min_count)


def advice_on_metric(domain: Domain, metric: Metric) -> str:
    """Return what to say of vectors of words that are compared by another distance than is usual, else ""."""
    if not domain.holds_vectors or metric == "cosine":
        return ""
    return (
        "the domain holds vectors of words, which are mostly compared by their directions: imputation.metric = "
        '"cosine" does that'
    )


def vector_bytes(sizes: TableSizes) -> int:
    """Return the bytes of the vectors of all names, float32."""
    return 4 * sizes.n_names * sizes.n_components


def join_parameters(job: ImputationJob) -> dict[str, Any]:
    """Return the sections of both tables and the memory of a block."""
    return {
        **sections("domain", "known", "matching")(job),
        **options_parameters({"metric"})(job),
        "block_memory": job.resources.block_memory,
    }


def options_parameters(names: set[str]) -> Any:
    """Return a function of a job to its options of these names, the parameters of a stage."""

    def parameters(job: ImputationJob) -> dict[str, Any]:
        return {"imputation": job.imputation.model_dump(mode="json", include=names)}

    return parameters


def plan_join(job: ImputationJob, sizes: TableSizes) -> Cost:
    """Return the plan of reading and joining both tables."""
    written = sizes.domain_bytes + vector_bytes(sizes)
    text = is_text(job.domain.path) and not holds_vectors(job.domain.path, job.domain.format)
    copies = TABLE_COPIES + (TEXT_COPIES if text else 0)
    # Of tables side by side, the names that are in one only are read too.
    beside = sizes.input_bytes if job.domain.also else 0
    others = sizes.known_bytes if job.known.keep_others else 0
    shared = copies * written + beside + sizes.known_bytes + others
    return Cost(1, sizes.input_bytes, written + others, 0, shared)


def run_join(ctx: Context) -> dict[str, Any]:
    """Match the names of the table with those of the vectors."""
    job: ImputationJob = ctx.job
    both = joined(job)
    warning = warn_of_one_column(both.domain, metric=job.imputation.metric)
    if warning:
        ctx.reporter.note(f"warning: {warning}")
    others = both.others if job.known.keep_others else both.others[:0]
    ctx.stage.store_table("vocabulary", both.vocabulary(with_others=job.known.keep_others))
    notes = [*both.domain.notes, *both.known.notes]
    notes += filter(None, [advice_on_metric(both.domain, job.imputation.metric)])
    for note in notes:
        ctx.reporter.note(f"  {note}")
    misses = near_misses(both.domain.names, both.words, both.matched, job.matching)
    left_out = both.domain.left_out
    ctx.stage.store_table("left_out", _table_of(LeftOut, left_out))
    ctx.stage.store_table("near_misses", _table_of(NearMiss, misses))
    ctx.stage.store_table("reading", pa.table({"note": pa.array(notes, pa.string())}))
    if job.known.min_count is not None:
        ctx.stage.store_table("replaced", both.replaced())
    if both.domain.scales is not None:
        ctx.stage.store_table(SCALES, scales_table(both.domain))
    block = job.resources.block_memory
    _store_rows(ctx, "domain", both.domain.matrix, block, meaning="What the table says of each name.")
    _store_rows(
        ctx, "known_vectors", both.targets, block, meaning="Vectors of the names; NaN: none is known."
    )
    if others.size:
        meaning = "Vectors of words that are no name of the table."
        _store_rows(ctx, "other_vectors", both.known.vectors.vectors[others], block, meaning=meaning)
    n_known = int((both.rows >= 0).sum())
    return {
        "n_names": len(both.domain.names),
        "n_known": n_known,
        "n_imputed": len(both.domain.names) - n_known,
        "n_left_out": len(left_out),
        "n_unmatched_words": len(both.others),
        "n_other": len(others),
        "one_column": warning,
        "decimal": both.domain.decimal,
        "advice": advice_on(misses),
        **({} if job.known.min_count is None else {"n_replaced": int((both.rare >= 0).sum())}),
    }


def _table_of(kind: type[LeftOut | NearMiss], rows: Sequence[LeftOut | NearMiss]) -> pa.Table:
    """Return records of texts as a table, which has its columns also without a row."""
    return pa.table(
        {name: pa.array([getattr(row, name) for row in rows], pa.string()) for name in kind._fields}
    )


def _store_rows(ctx: Context, name: str, matrix: Any, block_memory: int, *, meaning: str) -> None:
    chunk = row_chunk(len(matrix), matrix.shape[1] * matrix.itemsize, block_memory)
    rows = da.from_array(matrix, chunks=(chunk, -1))
    ctx.stage.store(
        name, rows, dims=("name", "component"), units="", meaning=meaning, progress=ctx.progress(name)
    )
