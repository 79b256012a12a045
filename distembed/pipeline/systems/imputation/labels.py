"""The stage that asks whether the names near a name have its label, before and after the imputation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from distembed.costs import Cost
from distembed.evaluation.imputation import QUERIES_AT_ONCE, LabelAccuracy, label_accuracies
from distembed.execution import compute
from distembed.pipeline.context import Context, sections
from distembed.pipeline.systems.imputation.config import HoldOutSection, ImputationJob
from distembed.pipeline.systems.imputation.join import TableSizes, vector_bytes

KNOWN, ALL, TABLE, SHUFFLED_LABELS = (
    "known vectors only",
    "known and imputed vectors",
    "the table itself",
    "known and imputed vectors, labels shuffled",
)
"""The rows whose neighbors are asked: before and after the imputation, what it is made from, and a control."""

LABEL_COPIES = 6
"""Copies of the table and the vectors in memory: as read, in float64, and those of the names that are known."""


def has_labels(job: ImputationJob) -> bool:
    """Return whether the tables of a job name labels."""
    return bool(job.domain.label_column or job.domain.names_label)


def label_parameters(job: ImputationJob) -> dict[str, Any]:
    """Return the options of the evaluation that the labels use."""
    return sections("evaluation")(job)


def plan_labels(job: ImputationJob, sizes: TableSizes) -> Cost:  # noqa: ARG001 - as all stages
    """Return the plan of searching the neighbors of at most `max_names` names, a few at a time."""
    read = sizes.domain_bytes + vector_bytes(sizes)
    task = 3 * 8 * QUERIES_AT_ONCE * sizes.n_names
    return Cost(1, read, 0, task, LABEL_COPIES * read)


def run_labels(ctx: Context) -> dict[str, Any]:
    """Classify names by their neighbors, by both kinds of votes, before and after the imputation."""
    options: HoldOutSection = ctx.job.evaluation
    domain = ctx.workspace.array("domain")
    table = ctx.workspace.table("vocabulary").slice(0, domain.shape[0])
    labels = np.array([label or "" for label in table["label"].to_pylist()], object)
    known = np.array(table["origin"].to_pylist(), object) == "known"
    vectors = ctx.workspace.array("vectors")[: domain.shape[0]]
    of_known, labeled = known & (labels != ""), labels != ""
    shuffled = np.random.default_rng(options.random_state).permutation(labels[labeled])
    spaces = {
        KNOWN: (vectors[of_known], labels[of_known]),
        ALL: (vectors[labeled], labels[labeled]),
        TABLE: (domain[labeled], labels[labeled]),
        SHUFFLED_LABELS: (vectors[labeled], shuffled),
    }
    found = [
        row
        for name, (rows, of_rows) in spaces.items()
        for row in label_accuracies(
            {name: (compute(rows), of_rows.tolist())},
            max_names=options.max_names,
            seed=options.random_state,
        )
    ]
    columns = {name: [getattr(row, name) for row in found] for name in LabelAccuracy._fields}
    ctx.stage.store_table("neighbor_labels", pa.table(columns))
    return {"n_labels": len(set(labels[labeled].tolist())), "n_names": int(labeled.sum())}
