"""The job file of PSDVec."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, Self

from pydantic import Field, model_validator

from distembed.pipeline.sections import (
    CorpusSection,
    CountingSection,
    EvaluationSection,
    Job,
    Section,
    VocabularySection,
    locate,
)


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
    solver: Literal["krylov", "dense"] = "krylov"
    random_state: int = Field(default=0, ge=0)

    @model_validator(mode="after")
    def _core_spans_the_components(self) -> Self:
        if self.n_core is not None and self.n_components > self.n_core:
            raise ValueError(
                f"n_components = {self.n_components} is more than n_core = {self.n_core}; lower it, or raise n_core"
            )
        return self


class PSDVecJob(Job):
    """A job of `system = "psdvec"`: a corpus in, word vectors out."""

    corpus: CorpusSection
    vocabulary: VocabularySection = VocabularySection()
    counting: CountingSection = CountingSection()
    psdvec: PSDVecSection = PSDVecSection()
    evaluation: EvaluationSection = EvaluationSection()

    def located(self, folder: Path) -> Self:
        """Return the job with its inputs looked up from the folder of its file."""
        paths = tuple(locate(path, folder) for path in self.corpus.paths)
        sets = tuple(locate(path, folder) for path in self.evaluation.sets)
        return self.model_copy(
            update={
                "corpus": self.corpus.model_copy(update={"paths": paths}),
                "evaluation": self.evaluation.model_copy(update={"sets": sets}),
            }
        )
