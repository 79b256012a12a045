"""How far the starts of each method agree, as a report shows it."""

from __future__ import annotations

from typing import Any

import numpy as np

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
