"""The job file of Latent Semantic Imputation."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from distembed.job.model import (
    KEPT_BY_THE_JOB,
    OPTION,
    Bytes,
    Job,
    Only,
    ReportSection,
    ResourcesSection,
    Section,
    section_of,
)
from distembed.manifold.imputation import LatentSemanticImputation, Method, Solver
from distembed.manifold.imputation_choice import Kernel, candidates_of
from distembed.neighbors.distances import Metric
from distembed.stages.kept_matrices import MatricesSection
from distembed.tables.sections import DomainSection, KnownSection, MatchingSection

KEPT_BY_THE_EVALUATION = {"random_state": "the key evaluation.random_state draws the names that are hidden"}


@section_of(
    LatentSemanticImputation,
    exclude={**KEPT_BY_THE_JOB, **KEPT_BY_THE_EVALUATION},
)
class ImputationSection(Section):
    """`[imputation]`: the estimator (`distembed.LatentSemanticImputation`)."""

    effects = (
        Only(("ridge",), "method", ("linear_map", "combined", "auto")),
        Only(("lazy",), "solver", ("power",)),
    )

    min_degree: int = OPTION
    solver: Solver = OPTION
    tol: float = OPTION
    metric: Metric = OPTION
    method: Method = OPTION
    ridge: float | None = OPTION
    kernel: Kernel = OPTION

    @property
    def is_chosen(self) -> bool:
        """Return whether the method, or the ridge or kernel of its map, is chosen on known names that are hidden."""
        return len(candidates_of(self.method, self.kernel, self.ridge)) > 1


class HoldOutSection(Section):
    """`[evaluation]`: known names are hidden and imputed, to measure what the table says of the vectors.

    A method or a ridge that is not given is chosen by the same names.
    """

    n_folds: int = Field(default=5, ge=2)
    """The known names are hidden in so many turns."""
    max_names: int = Field(default=2000, ge=2)
    """The most known names that are hidden in all."""
    random_state: int = Field(default=0, ge=0)
    """The seed of the folds."""


class ImputationResourcesSection(ResourcesSection):
    """`[resources]` of an imputation."""

    distance_disk: Bytes | None = None
    """The distances between all names are kept, as `matrices.keep = ["distances"]` does, if 4 bytes per pair fit in so
    much disk; otherwise, and by default, blocks of them are made again. The graph is the same.
    """


class NameMatricesSection(MatricesSection):
    """`[matrices]` of names: the graph is built from their distances if they are kept."""

    keep: tuple[Literal["distances"], ...] = ()
    """The matrices that are kept: the distances between the names' rows of the table."""


class ImputationJob(Job):
    """A job of `system = "imputation"`: a domain table and known vectors in, the missing vectors out."""

    domain: DomainSection
    known: KnownSection
    matching: MatchingSection = MatchingSection()
    imputation: ImputationSection = ImputationSection()
    evaluation: HoldOutSection = HoldOutSection()
    matrices: NameMatricesSection = NameMatricesSection()
    report: ReportSection = ReportSection()
    resources: ImputationResourcesSection = ImputationResourcesSection()
