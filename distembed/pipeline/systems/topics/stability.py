"""How far the starts of each method agree, and how stable each number of topics is, as a report shows it."""

from __future__ import annotations

from typing import Any

import numpy as np

from distembed.factorization.consensus_blocks import STABLE
from distembed.factorization.nmf_stored import StartRow
from distembed.pipeline import report
from distembed.pipeline.systems.topics.config import Method, TopicsJob
from distembed.pipeline.systems.topics.results import kept_row, starts_of
from distembed.storage.workspace import Workspace

NAMES: dict[Method, str] = {
    "semantic_nmf": "Semantic-NMF",
    "nmf": "NMF",
    "orthogonal_nmf": "orthogonal NMF",
    "spherical_kmeans": "spherical k-means",
}
"""What the methods are called."""

CLEARLY_MORE = 0.1
"""A method is called clearly more stable if the mean NMI between its starts is larger by this."""


def kept_name(job: TopicsJob, row: StartRow) -> str:
    """Return in words what is kept of the starts of a method."""
    if row.start is None:
        return f"consensus of {job.topics.n_starts}, kept"
    if job.topics.n_starts == 1:
        return "the only one"
    reason = "most like the others" if job.topics.choose == "central" else "of the smallest loss"
    return f"{reason}, kept"


def stability_of(job: TopicsJob, workspace: Workspace) -> dict[Method, tuple[float, float]]:
    """Return the mean NMI and ARI between the starts of each method; nothing where there is one start."""
    if job.topics.n_starts == 1:
        return {}
    starts = {method: starts_of(workspace, method) for method in job.topics.methods}
    means = {
        method: (float(np.mean([row.nmi for row in rows])), float(np.mean([row.ari for row in rows])))
        for method, rows in starts.items()
    }
    return {} if np.isnan([*means.values()]).any() else means


def stability_sentence(job: TopicsJob, workspace: Workspace) -> str:
    """Return a warning where the starts of another method agree clearly more than those of the job's own."""
    found = stability_of(job, workspace)
    own = job.topics.method
    if not found or len(found) == 1:
        return ""
    other = max(found, key=lambda method: found[method][0])
    if found[other][0] < found[own][0] + CLEARLY_MORE:
        return ""
    return (
        f"The starts of {NAMES[other]} agree more (mean NMI {found[other][0]:.2f}) than those of {NAMES[own]} "
        f"({found[own][0]:.2f}): its topics hang less on where it starts; look at both, or raise n_starts."
    )


def stability_table(job: TopicsJob, workspace: Workspace) -> report.Section | None:
    """Return the table of how far the starts of each method agree, and of what is kept with them."""
    rows: list[dict[str, Any]] = []
    for method, (nmi, ari) in stability_of(job, workspace).items():
        kept = kept_row(workspace, method)
        rows.append(
            {
                "method": NAMES[method],
                "NMI between starts": f"{nmi:.3f}",
                "ARI between starts": f"{ari:.3f}",
                "NMI of what is kept": f"{kept.nmi:.3f}",
                "what is kept": kept_name(job, kept),
            }
        )
    caption = "Mean agreement of the documents' topics between two starts, without labels; 1 is equal."
    said = stability_sentence(job, workspace)
    return report.table("Stability", rows, caption=f"{caption} {said}".strip()) if rows else None


def number_sentence(job: TopicsJob, workspace: Workspace) -> str:
    """Return what number of topics was chosen, and a warning where none is stable."""
    if job.topics.n_topics != "auto":
        return ""
    facts = workspace.stages()["n_topics"].facts
    if facts["is_stable"]:
        return (
            f"{facts['n_topics']} topics: the largest number tried whose topics are found again by every start "
            f"(least silhouette of a group of {STABLE} or more)."
        )
    return (
        f"No number of topics is stable: for each one tried, a group of topics has a silhouette below {STABLE}. "
        f"The starts of {facts['n_topics']} agree most, and it was taken; topics may be an accident of the start. Give "
        "other numbers in topics.n_topics_range, or more text."
    )


def number_sections(job: TopicsJob, workspace: Workspace) -> list[report.Section]:
    """Return the picture and the table of how stable each number of topics is, where it was chosen by that."""
    if job.topics.n_topics != "auto":
        return []
    rows = workspace.table("n_topics").to_pylist()
    numbers = [row["n_topics"] for row in rows]
    curves = {
        name: (numbers, [row[key] for row in rows])
        for name, key in (
            ("least silhouette", "least_silhouette"),
            ("mean silhouette", "mean_silhouette"),
            ("NMI between starts", "nmi"),
        )
    }
    title = "Number of topics"
    said = number_sentence(job, workspace)
    picture = report.line_chart(curves, title, xlabel="topics", ylabel="stability", caption=said)
    shown = [
        {
            "topics": row["n_topics"],
            "least silhouette": f"{row['least_silhouette']:.2f}",
            "mean silhouette": f"{row['mean_silhouette']:.2f}",
            "NMI between starts": f"{row['nmi']:.2f}",
            "ARI between starts": f"{row['ari']:.2f}",
            "loss": f"{row['loss']:,.1f}",
            "chosen": "yes" if row["chosen"] else "",
        }
        for row in rows
    ]
    caption = (
        f"Means over {job.topics.n_starts} starts; silhouettes of the groups that their topics fall into."
    )
    return [report.group(title, [picture, report.table(title, shown, caption=caption)])]
