"""The job file of Latent Semantic Imputation."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from distembed.manifold.imputation import LatentSemanticImputation
from distembed.neighbors.distances import Metric
from distembed.pipeline.sections import (
    KEPT_BY_THE_JOB,
    OPTION,
    Bytes,
    InputPath,
    Job,
    ResourcesSection,
    Section,
    section_of,
)


class DomainSection(Section):
    """`[domain]`: the table of what is known of every name; see `distembed.pipeline.systems.imputation.tables`."""

    path: InputPath
    name_column: str | None = None
    columns: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()
    transform: Literal["none", "return_correlation"] = "none"
    first: str | None = None
    last: str | None = None
    standardize: bool = False
    names: InputPath | None = None
    names_from: str = "from"
    names_to: str = "to"
    names_label: str | None = None
    label_column: str | None = None


class KnownSection(Section):
    """`[known]`: the vectors there are, a vector file or a table with a column of names."""

    path: InputPath
    format: Literal["auto", "vectors", "table"] = "auto"
    name_column: str | None = None
    drop: tuple[str, ...] = ()
    max_words: int | None = Field(default=None, ge=1)
    keep_others: bool = True


class MatchingSection(Section):
    """`[matching]`: which differences of spelling two names may have and still be one."""

    ignore_case: bool = False
    ignore_underscores: bool = True


@section_of(LatentSemanticImputation, exclude=KEPT_BY_THE_JOB)
class ImputationSection(Section):
    """`[imputation]`: the estimator (`distembed.LatentSemanticImputation`)."""

    min_degree: int = OPTION
    solver: Literal["krylov", "power"] = OPTION
    tol: float = OPTION
    metric: Metric = OPTION
    neighbors: Literal["exact", "approximate"] = OPTION


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
    resources: ImputationResourcesSection = ImputationResourcesSection()
