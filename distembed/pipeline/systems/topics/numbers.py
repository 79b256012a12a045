"""The stage that chooses a number of topics: the largest whose topics every start finds again.

Alexandrov & Vesselinov's NMFk: for each number the topics of all starts are grouped, and a number is stable where each
group is far from the others. Where none is, the number is taken whose starts agree most, and it is said to be unstable.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from distembed.costs import Cost
from distembed.factorization.consensus import topic_stability
from distembed.factorization.consensus_blocks import label_agreement, largest_stable, mean_agreement
from distembed.pipeline.context import Context
from distembed.pipeline.systems.topics.config import TopicsJob
from distembed.pipeline.systems.topics.sizes import TopicSizes
from distembed.pipeline.systems.topics.starts import Work, matrices, plan_starts, start_of


def number_parameters(job: TopicsJob) -> dict[str, Any]:
    """Return the keys of topics that the number depends on, and the memory of a block, which tells what is whole."""
    other = {"compare_with", "choose"}
    return {
        "topics": job.topics.model_dump(mode="json", exclude=other),
        "block_memory": job.resources.block_memory,
    }


def plan_number(job: TopicsJob, sizes: TopicSizes) -> Cost:
    """Return the plan of the starts of every number of topics that is tried."""
    tried = job.topics.n_topics_range
    n_starts = job.topics.n_starts
    plan = plan_starts(job, sizes, len(tried) * n_starts, n_pooled=max(tried) * n_starts)
    words = 4 * sizes.corpus.n_words * sum(tried) * n_starts
    return plan._replace(written_bytes=words + 8 * sizes.corpus.n_documents * len(tried) * n_starts)


def run_number(ctx: Context) -> dict[str, Any]:
    """Try every number of topics from several starts, and keep the largest that is stable."""
    job: TopicsJob = ctx.job
    X, M = matrices(ctx, (job.topics.method,))
    rows = [
        _stability(Work(ctx, X, M, n_topics, keeps_words=True, prefix=f"{n_topics:05d}-"))
        for n_topics in sorted(set(job.topics.n_topics_range))
    ]
    numbers, least = [row["n_topics"] for row in rows], [row["least_silhouette"] for row in rows]
    stable = largest_stable(numbers, least)
    chosen = numbers[int(np.argmax([row["ari"] for row in rows]))] if stable is None else stable
    table = [row | {"chosen": row["n_topics"] == chosen} for row in rows]
    ctx.stage.store_table("n_topics", pa.Table.from_pylist(table))
    return {"n_topics": chosen, "is_stable": stable is not None}


def _stability(work: Work) -> dict[str, Any]:
    """Return how stable the topics of one number are, and how well they fit."""
    options = work.ctx.job.topics
    starts = [start_of(work, options.method, number) for number in range(options.n_starts)]
    groups = topic_stability([start.words for start in starts])
    agreement = label_agreement(np.stack([start.labels for start in starts]))
    return {
        "n_topics": work.n_topics,
        "least_silhouette": groups.least,
        "mean_silhouette": groups.mean,
        "nmi": float(mean_agreement(agreement.nmi).mean()),
        "ari": float(mean_agreement(agreement.ari).mean()),
        "loss": float(np.mean([start.loss[-1] for start in starts])),
    }
