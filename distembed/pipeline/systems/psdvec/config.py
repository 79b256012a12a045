"""The job file of PSDVec."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from distembed.pipeline.corpus.config import CountingJob
from distembed.pipeline.sections import InputPath, Section

CutoffValue = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class PSDVecSection(Section):
    """`[psdvec]`: the factorization (`distembed.PSDVec`)."""

    n_components: int = Field(default=100, ge=1)
    n_core: int | None = Field(default=None, ge=1)
    smoothing: float = Field(default=0.02, gt=0, lt=1)
    n_iter: int = Field(default=4, ge=1)
    ridge: float | tuple[float, ...] = 2.0
    bands: tuple[int, ...] | None = None
    background_weight: float = Field(default=0.0, ge=0, le=1)
    uniform_weight: float = Field(default=0.1, ge=0)
    weight_cutoff: Literal["halving", "exact_quantile"] | CutoffValue = "halving"
    core_ridge: float = Field(default=0.0, ge=0)
    solver: Literal["krylov", "dense"] = "krylov"
    n_passes: int = Field(default=2, ge=1)
    first_passes: int = Field(default=16, ge=1)
    block_size: int | None = Field(default=None, ge=1)
    random_state: int = Field(default=0, ge=0)
    batch_words: int = Field(default=1000, ge=1)

    @model_validator(mode="after")
    def _core_spans_the_components(self) -> Self:
        if self.n_core is not None and self.n_components > self.n_core:
            raise ValueError(
                f"n_components = {self.n_components} is more than n_core = {self.n_core}; lower it, or raise n_core"
            )
        return self


class EvaluationSection(Section):
    """`[evaluation]`: the sets, how their words are looked up, and what is done to the vectors first."""

    sets: tuple[InputPath, ...] = ()
    case: Literal["auto", "lower", "keep", "ignore"] = "auto"
    remove_mean: bool = False
    n_components_removed: int = Field(default=0, ge=0)


class PSDVecJob(CountingJob):
    """A job of `system = "psdvec"`: a corpus in, word vectors out."""

    psdvec: PSDVecSection = PSDVecSection()
    evaluation: EvaluationSection = EvaluationSection()
