"""The share of each topic by what is known of the documents: a decade, an author, a source."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from distembed.display import plural
from distembed.evaluation.topics import MeanShares, mean_shares
from distembed.factorization.nmf_blocks import topic_shares
from distembed.job.tables import Table, rows_of_blocks, table_of
from distembed.storage.workspace import Workspace
from distembed.systems.topics import outputs
from distembed.systems.topics.descriptions import document_norms, known_columns
from distembed.systems.topics.job import TopicsJob
from distembed.views import report

MOST_VALUES = 30
"""Columns of more values are not compared: an id, a date to the day."""

COLUMNS = pa.schema(
    [
        ("column", pa.string()),
        ("value", pa.string()),
        ("n_documents", pa.int64()),
        ("n_sources", pa.int64()),
        ("topic", pa.int64()),
        ("share", pa.float64()),
        ("low", pa.float64()),
        ("high", pa.float64()),
    ]
)
"""The columns of the table of shares."""

HOW_COUNTED = (
    "Mean share of the topic in the documents of a value, with 95 % intervals. Documents of one title count as one "
    "source, since they are alike; a value of one source has no interval."
)


def shares_by_column(job: TopicsJob, workspace: Workspace) -> dict[str, MeanShares]:
    """Return the mean shares of the topics by each column of 2 to 30 values, its documents of one title one source."""
    columns = known_columns(job, workspace)
    titles = next(iter(columns.values())).fill_null("").to_pylist()
    named = zip(titles, range(len(titles)), strict=True)
    sources = [title or str(row) for title, row in named]
    factors = outputs.DOCUMENT_FACTORS.read(workspace, of="")
    norms = document_norms(job, workspace)
    found = {}
    for name, column in columns.items():
        values = column.cast(pa.string()).fill_null("")
        n_values = pc.count_distinct(values.filter(pc.not_equal(values, ""))).as_py()
        if 2 <= n_values <= MOST_VALUES:
            shares = (topic_shares(block, norms) for block in rows_of_blocks(factors))
            found[name] = mean_shares(values.to_pylist(), sources, shares, factors.shape[1])
    return found


def shares_table(job: TopicsJob, workspace: Workspace) -> Table:
    """Return the mean share of every topic by every value of a column, with its interval."""
    found = shares_by_column(job, workspace)
    if not found:
        raise ValueError(
            f"the documents of {workspace.url} have no column of 2 to {MOST_VALUES} values: give corpus.label_field, "
            "corpus.carry_fields, corpus.path_fields or corpus.metadata"
        )
    rows = [
        {
            "column": name,
            "value": value,
            "n_documents": int(shares.n_documents[place]),
            "n_sources": int(shares.n_sources[place]),
            "topic": topic,
            "share": float(shares.means[place, topic]),
            "low": low,
            "high": high,
        }
        for name, shares in found.items()
        for place, value in enumerate(shares.values)
        for topic, (low, high) in enumerate(ends_of(shares, place))
    ]
    return table_of(pa.Table.from_pylist(rows, COLUMNS), f"{plural(len(rows), 'share')} of topics")


def ends_of(shares: MeanShares, place: int) -> list[tuple[float | None, float | None]]:
    """Return the ends of the interval of each topic for a value; None where it has one source."""
    ends = zip(shares.means[place], shares.errors[place], strict=True)
    return [
        (None, None) if np.isnan(error) else (float(max(mean - error, 0)), float(min(mean + error, 1)))
        for mean, error in ends
    ]


def share_sections(job: TopicsJob, workspace: Workspace, names: list[str]) -> list[report.Section]:
    """Return a figure and a table of the shares of topics, which have names, for each column of the documents."""
    return [_share_section(name, shares, names) for name, shares in shares_by_column(job, workspace).items()]


def _share_section(name: str, shares: MeanShares, names: list[str]) -> report.Section:
    title = f"Topics by {name}"
    picture = report.panel_chart(_panels(shares, names), title, xlabel="mean share", caption=HOW_COUNTED)
    rows = [
        {
            name: value,
            "documents": int(shares.n_documents[place]),
            "sources": int(shares.n_sources[place]),
            **dict(zip(map(str, range(len(names))), _cells(shares, place), strict=True)),
        }
        for place, value in enumerate(shares.values)
    ]
    return report.group(
        title, [picture, report.table(title, rows, caption="Percent; a column for each topic.")]
    )


def _panels(shares: MeanShares, names: list[str]) -> dict[str, list[report.Interval]]:
    """Return the intervals of each topic, a panel."""
    panels: dict[str, list[report.Interval]] = {name: [] for name in names}
    for place, value in enumerate(shares.values):
        for name, mean, (low, high) in zip(names, shares.means[place], ends_of(shares, place), strict=True):
            ends = None if low is None or high is None else (low, high)
            panels[name].append(report.Interval(value, float(mean), ends))
    return panels


def _cells(shares: MeanShares, place: int) -> list[str]:
    pairs = zip((100 * shares.means[place]).tolist(), (100 * shares.errors[place]).tolist(), strict=True)
    return [f"{mean:.0f}" if np.isnan(error) else f"{mean:.0f} ± {error:.0f}" for mean, error in pairs]
