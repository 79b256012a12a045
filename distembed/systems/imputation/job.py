"""The job file of Latent Semantic Imputation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field, Tag

from distembed.job.model import (
    OPTION,
    Job,
    ReportSection,
    Section,
    chosen_by,
    section_of,
)
from distembed.manifold.imputation import LatentSemanticImputation, Solver
from distembed.neighbors.distances import Metric
from distembed.stages.kept_matrices import MatricesSection
from distembed.tables.sections import DomainSection, KnownSection, MatchingSection, PricesSection

Method = Literal["graph", "ridge", "kernel_ridge", "residuals", "auto"]

PRESETS: Mapping[str, Mapping[str, Mapping[str, Any]]] = {
    "best": {"imputation": {"method": "auto"}},
    "paper": {
        "domain": {"transform": "return_correlation"},
        "imputation": {
            "method": "graph",
            "min_degree": 8,
            "weights": "simplex",
            "solver": "power",
            "tol": 1e-2,
        },
    },
}
"""What is best on hidden names, and the settings of the paper's table 1 (jobs/imputation_paper.toml)."""


@section_of(
    LatentSemanticImputation,
    exclude={"regressor": "the key imputation.method says which regression is taken"},
)
class ImputationSection(Section):
    """`[imputation]`: the estimator (`distembed.LatentSemanticImputation`), and what it is compared with."""

    min_degree: int = OPTION
    solver: Solver = OPTION
    tol: float = OPTION
    metric: Metric = OPTION
    method: Method = "graph"
    """"graph" is Latent Semantic Imputation; "ridge" and "kernel_ridge" are regressions of the known vectors on their
    rows of the table, linear or with a Gaussian kernel; "residuals" is the linear one with its residuals imputed by the
    graph. "auto" takes the one of these that finds hidden names best (`[evaluation]`).
    """


class HoldOutSection(Section):
    """`[evaluation]`: known names are hidden and imputed, to measure what the table says of the vectors.

    `imputation.method = "auto"` chooses by the same names.
    """

    n_folds: int = Field(default=5, ge=2)
    """The known names are hidden in so many turns."""
    max_names: int = Field(default=2000, ge=2)
    """The most known names that are hidden in all."""
    random_state: int = Field(default=0, ge=0)
    """The seed of the folds."""


class NameMatricesSection(MatricesSection):
    """`[matrices]` of names."""

    keep: tuple[Literal["distances"], ...] = ()
    """The matrices that are kept: the distances between the names' rows of the table."""


class ImputationJob(Job):
    """A job of `system = "imputation"`: a domain table and known vectors in, the missing vectors out."""

    first_keys = (
        "domain.missing",
        "domain.duplicates",
        "domain.transform",
        "matching.ignore_case",
        "imputation.method",
        "imputation.min_degree",
        "report.words",
    )

    domain: Annotated[
        Annotated[DomainSection, Tag("none")] | Annotated[PricesSection, Tag("return_correlation")],
        chosen_by("transform", "none"),
    ]
    known: KnownSection
    matching: MatchingSection = MatchingSection()
    imputation: ImputationSection = ImputationSection()
    evaluation: HoldOutSection = HoldOutSection()
    matrices: NameMatricesSection = NameMatricesSection()
    report: ReportSection = ReportSection()
