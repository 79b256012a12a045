"""The job file of a neighbor graph."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from distembed.job.model import Job, ListsSection, Only, Section
from distembed.neighbors.search import Measure, Search
from distembed.stages.kept_matrices import MatricesSection
from distembed.stages.matrices import MatrixSection


class NeighborsSection(Section):
    """`[neighbors]`: which neighbors are searched, and how (`distembed.neighbors.search`)."""

    effects = (Only(("n_sampled", "random_state"), "search", ("approximate",)),)

    n_neighbors: int = Field(default=15, ge=1)
    """How many neighbors of each row are found."""
    metric: Measure = "euclidean"
    """What makes rows near: a small angle, a small distance, or a large inner product."""
    search: Search = "exact"
    """"approximate" is nearest-neighbor descent by pynndescent (the extra `neighbors`), whose recall is measured."""
    n_sampled: int = Field(default=1000, ge=1)
    """The rows whose true neighbors measure the recall of an approximate search."""
    random_state: int = Field(default=0, ge=0)
    """The seed of an approximate search."""
    spanning_tree: bool = False
    """Whether the minimum spanning tree of all rows is found too."""

    @model_validator(mode="after")
    def _check_metric(self) -> NeighborsSection:
        """Refuse what an inner product, which is no distance, cannot give."""
        if self.metric == "inner_product" and self.spanning_tree:
            raise ValueError('a spanning tree needs a distance: set metric = "cosine" or "euclidean"')
        if self.metric == "inner_product" and self.search == "approximate":
            raise ValueError(
                'inner products are searched exactly only: set search = "exact", or metric = "cosine"'
            )
        return self

    @property
    def value(self) -> str:
        """Return what the number at an edge is called."""
        return "similarity" if self.metric == "inner_product" else "distance"


class RowMatricesSection(MatricesSection):
    """`[matrices]` of rows."""

    keep: tuple[Literal["distances"], ...] = ()
    """The matrices that are kept: the distances between all rows, by `neighbors.metric`."""


class NeighborsJob(Job):
    """A job of `system = "neighbors"`: a matrix in, the nearest neighbors of its rows out."""

    input: MatrixSection
    neighbors: NeighborsSection = NeighborsSection()
    matrices: RowMatricesSection = RowMatricesSection()
    report: ListsSection = ListsSection()

    @model_validator(mode="after")
    def _kept_distances_are_distances(self) -> Self:
        if self.matrices.keep and self.neighbors.metric == "inner_product":
            raise ValueError(
                'matrices.keep = ["distances"] needs a distance: set neighbors.metric = "cosine" or "euclidean"'
            )
        return self
