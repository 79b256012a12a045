"""The stages of Latent Semantic Imputation: a table and known vectors to a graph, weights and all vectors."""

from __future__ import annotations

from distembed.pipeline.context import StageSpec, System
from distembed.pipeline.systems.imputation.config import ImputationJob
from distembed.pipeline.systems.imputation.hold_out import hold_out_parameters, plan_hold_out, run_hold_out
from distembed.pipeline.systems.imputation.join import (
    join_parameters,
    options_parameters,
    plan_join,
    run_join,
    table_sizes,
)
from distembed.pipeline.systems.imputation.labels import has_labels, label_parameters, plan_labels, run_labels
from distembed.pipeline.systems.imputation.solving import (
    WEIGHT_OPTIONS,
    graph_parameters,
    plan_graph,
    plan_vectors,
    plan_weights,
    run_graph,
    run_vectors,
    run_weights,
    vector_parameters,
)


def stages(job: ImputationJob) -> tuple[StageSpec, ...]:
    """Return the stages of a job; that of labels only where its tables name labels.

    The vectors wait for the hidden names where these choose the method.
    """
    chosen = job.imputation.is_chosen
    after = ("join", "weights", "hold_out") if chosen else ("join", "weights")
    vectors = StageSpec("vectors", after, vector_parameters, run_vectors, plan_vectors)
    hold_out = StageSpec("hold_out", ("join", "weights"), hold_out_parameters, run_hold_out, plan_hold_out)
    labels = StageSpec("neighbor_labels", ("join", "vectors"), label_parameters, run_labels, plan_labels)
    return (
        StageSpec("join", (), join_parameters, run_join, plan_join),
        StageSpec("graph", ("join",), graph_parameters, run_graph, plan_graph),
        StageSpec(
            "weights", ("join", "graph"), options_parameters(WEIGHT_OPTIONS), run_weights, plan_weights
        ),
        *((hold_out, vectors) if chosen else (vectors, hold_out)),
        *((labels,) if has_labels(job) else ()),
    )


SYSTEM = System(
    ImputationJob,
    stages,
    table_sizes,
    "distembed.pipeline.systems.imputation.report",
    "distembed.pipeline.systems.imputation.exports",
    inference="distembed.pipeline.systems.imputation.inference",
    explanation="distembed.pipeline.systems.imputation.explanation",
    explorer="distembed.pipeline.systems.imputation.explorer",
)
