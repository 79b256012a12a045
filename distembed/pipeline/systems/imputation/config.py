"""The job file of Latent Semantic Imputation."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from distembed.pipeline.sections import Bytes, Job, ResourcesSection, Section
from distembed.pipeline.tables.config import DomainSection, KnownSection, MatchingSection


class ImputationSection(Section):
    """`[imputation]`: the estimator (`distembed.LatentSemanticImputation`)."""

    min_degree: int = Field(default=8, ge=1)
    solver: Literal["krylov", "power"] = "krylov"
    tol: float = Field(default=1e-6, gt=0)
    max_iter: int = Field(default=10_000, ge=1)
    weights: Literal["simplex", "normalise_after"] = "simplex"
    metric: Literal["euclidean", "cosine"] = "euclidean"
    neighbors: Literal["exact", "approximate"] = "exact"
    lazy: bool = False
    floor: float = Field(default=0.1, gt=0)


class HoldOutSection(Section):
    """`[evaluation]`: known names are hidden and imputed, to measure what the table says of the vectors."""

    n_folds: int = Field(default=5, ge=2)
    max_names: int = Field(default=2000, ge=2)
    random_state: int = Field(default=0, ge=0)


class ImputationResourcesSection(ResourcesSection):
    """`[resources]` of an imputation: also the disk that the distances between all names may take.

    Where 4 bytes a pair fit, the workspace keeps them as the array `distances` and the graph is built from it; else
    (the default) they are made again by the block. The graph is the same.
    """

    distance_disk: Bytes | None = None


class ImputationJob(Job):
    """A job of `system = "imputation"`: a domain table and known vectors in, the missing vectors out."""

    domain: DomainSection
    known: KnownSection
    matching: MatchingSection = MatchingSection()
    imputation: ImputationSection = ImputationSection()
    evaluation: HoldOutSection = HoldOutSection()
    resources: ImputationResourcesSection = ImputationResourcesSection()
