"""The job file of PSDVec."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Self

from pydantic import Field, model_validator

from distembed.counting.cooccurrence import CooccurrenceOptions, count_cooccurrences
from distembed.evaluation.scoring import Case, Unknown
from distembed.factorization.lsa import LSA
from distembed.factorization.psdvec import PSDVec
from distembed.factorization.psdvec_core import check_core_size
from distembed.factorization.psdvec_words import ridge_of_words
from distembed.factorization.subwords import SubwordMap
from distembed.job.model import OPTION, InputPath, ReportSection, Section, section_of
from distembed.stages.corpus_sections import (
    COUNTING_OPTIONS,
    NOT_COUNTED_BY,
    CountingJob,
    LeftCountingSection,
)
from distembed.stages.kept_matrices import WordMatricesSection
from distembed.vectors.subwords import check_lengths

METHOD = "PSDVec"
"""What the report calls the row of the job beside those of a paper."""

WIDE = {"window": 5, "weighting": "dynamic", "subsample": 1e-4, "oov": "remove"}
"""Counts that say what a word is about: a wide window that weighs near words more, and fewer function words."""

# chosen on one half of each evaluation set and reported on the other (docs/results/words.md)
PRESETS: Mapping[str, Mapping[str, Mapping[str, Any]]] = {
    "best": {
        "counting": WIDE,
        "psdvec": {"n_components": 400, "smoothing": 0.1, "components_removed": 1},
        "sides": {"n_components": 200, "weight": 0.9},
        "subwords": {"enabled": True, "weight": 1.0, "regularization": 0.025},
    },
    "fast": {"counting": WIDE, "psdvec": {"n_components": 100, "smoothing": 0.1}},
    "paper": {
        "corpus": {"pattern": "ascii", "min_border_tokens": 5},
        "vocabulary": {"min_count": 100, "max_size": 180_000},
        "counting": {"window": 3, "direction": "left", "weighting": "flat"},
        "psdvec": {
            "n_components": 500,
            "n_core": 25_000,
            "smoothing": 0.02,
            "n_iter": 4,
            "ridge": [2.0, 4.0, 8.0],
            "bands": [55_000, 50_000, 50_000],
            "uniform_weight": 0.0,
            "weight_cutoff": "halving",
        },
    },
}
"""The best vectors, at about the time of a tuned skip-gram; those of one count matrix alone; and the settings
of the paper, for a whole Wikipedia (jobs/psdvec_paper.toml has the section of each)."""


@section_of(PSDVec, exclude={})
class PSDVecSection(Section):
    """`[psdvec]`: the factorization (`distembed.PSDVec`)."""

    n_components: int = OPTION
    n_core: int | None = OPTION
    n_iter: int = OPTION
    smoothing: float = OPTION
    n_passes: int = OPTION
    first_passes: int = OPTION
    ridge: float | tuple[float, ...] = OPTION
    bands: tuple[int, ...] | None = OPTION
    core_vectors: InputPath | None = None
    """Finished vectors of core words: a file in any format, or a workspace. They stay as they are, and all other words
    are solved against them.
    """

    components_removed: int = Field(default=0, ge=0)
    """How many principal components are removed from the finished vectors, after their mean, as the last step. The
    first is mostly the frequency of words: without it similar and rare words score better (docs/results/words.md). 0
    leaves the mean, too.
    """

    @property
    def options(self) -> dict[str, Any]:
        """Return the options of the estimator, as they are written in JSON."""
        return self.model_dump(mode="json", exclude={"core_vectors", "components_removed"})

    @property
    def has_noncore(self) -> bool:
        """Whether words beyond the core are solved in a stage of their own; those beside a given core are not."""
        return self.n_core is not None and self.core_vectors is None

    @model_validator(mode="after")
    def _options_fit_together(self) -> Self:
        ridge_of_words(self, 0)
        if self.n_core is not None:
            check_core_size(self.n_core, self.n_components, self.n_core)
        return self


@section_of(SubwordMap, exclude={})
class SubwordsSection(Section):
    """`[subwords]`: vectors of character n-grams (`distembed.SubwordMap`)."""

    enabled: bool = False
    """Whether they are learned. Words outside the vocabulary are then answered by their n-grams."""
    weight: float = Field(default=0.6, ge=0)
    """The weight, against a word's own direction, of the direction of its n-grams, which is added to it: see
    `distembed.WordVectors.with_spelling`. 0 leaves the vectors as they are; the more, the better analogies of inflected
    forms, and similarity from 1 on the worse.
    """
    min_n: int = OPTION
    max_n: int = OPTION
    regularization: float = OPTION
    """Regularization strength lambda; larger values pull the vectors of n-grams that few words hold towards zero. The
    components of `[sides]` have one of their own.
    """

    @model_validator(mode="after")
    def _lengths_rise(self) -> Self:
        check_lengths(self.min_n, self.max_n)
        return self


@section_of(
    count_cooccurrences,
    LSA,
    exclude=NOT_COUNTED_BY
    | {"direction": "the words on the left and on the right are contexts of their own"}
    | dict.fromkeys(("oversampling", "tol"), "it is how exactly the vectors are computed")
    | {"dtype": "vectors are stored as float32"},
    defaults={"window": 2, "n_components": 200, "n_passes": 4, "exponent": 0.0},
)
class SidesSection(Section):
    """`[sides]`: singular vectors of the positive PMI of words with those on their left and on their right.

    They are joined to the vectors of `[psdvec]`.
    """

    subsample: float | None = OPTION
    n_components: int = OPTION
    """The dimensions of these vectors."""
    n_passes: int = OPTION
    """The products with the matrix that the decomposition makes."""
    exponent: float = OPTION
    """The power of the singular values: 0 is best for similarity, 0.5 for analogies."""
    random_state: int = OPTION
    """The seed of the decomposition."""
    context_smoothing: float = Field(default=0.75, gt=0)
    """The power of the counts of the contexts in positive PMI."""
    negative_samples: float = Field(default=1.0, gt=0)
    """N, by whose logarithm positive PMI is lowered before it is cut off at zero; 1 lowers nothing."""
    weight: float = Field(default=0.9, gt=0)
    """The weight of the directions of these vectors in the joined ones; those of `[psdvec]` have weight 1."""
    regularization: float = Field(default=0.1, gt=0)
    """`subwords.regularization` for these components."""

    def counting_options(self) -> CooccurrenceOptions:
        """Return what counts as a co-occurrence."""
        own = self.model_dump(include=set(COUNTING_OPTIONS))
        return CooccurrenceOptions(**own, direction="left")

    @property
    def pmi_options(self) -> dict[str, Any]:
        """How `ppmi` weighs the counts."""
        return {"context_smoothing": self.context_smoothing, "negative_samples": self.negative_samples}

    @model_validator(mode="after")
    def _options_fit_together(self) -> Self:
        self.counting_options()
        return self


class EvaluationSection(Section):
    """`[evaluation]`: the sets, how their words are looked up, and what is done to the vectors first."""

    sets: tuple[InputPath, ...] = ()
    """Files or folders of evaluation sets: similarity, analogies, synonyms, categories, priming."""
    case: Case = "auto"
    """How the words of the sets are looked up: "auto" as they are written and then in lower case."""
    unknown: Unknown = "skip"
    """How items with a word outside the vocabulary count: left out, as wrong, or answered with a vector composed from
    the word's n-grams, which `subwords.enabled` learns.
    """


class PSDVecMatricesSection(WordMatricesSection):
    """`[matrices]` of PSDVec."""

    keep: tuple[Literal["pmi", "distances"], ...] = ()
    """The matrices that are kept: the smoothed PMI of all pairs of words, sparse beside a constant, five to six bytes
    for each pair that was counted (`distembed.read_pmi` opens it), and the distances between all words.
    """


class PSDVecJob(CountingJob):
    """A job of `system = "psdvec"`: a corpus in, word vectors out."""

    first_keys = (
        "vocabulary.min_count",
        "counting.window",
        "psdvec.n_components",
        "psdvec.smoothing",
        "evaluation.sets",
        "report.words",
    )

    counting: LeftCountingSection = LeftCountingSection()
    psdvec: PSDVecSection = PSDVecSection()
    sides: SidesSection | None = None
    subwords: SubwordsSection = SubwordsSection()
    matrices: PSDVecMatricesSection = PSDVecMatricesSection()
    evaluation: EvaluationSection = EvaluationSection()
    report: ReportSection = ReportSection()

    @property
    def n_dimensions(self) -> int:
        """The dimensions of the vectors, those of the sides included."""
        return self.psdvec.n_components + (self.sides.n_components if self.sides else 0)

    @model_validator(mode="after")
    def _sections_fit_together(self) -> Self:
        if (n_removed := self.psdvec.components_removed) >= (width := self.n_dimensions):
            raise ValueError(
                f"psdvec.components_removed = {n_removed} leaves none of the {width} components of the vectors; give "
                f"at most {width - 1}"
            )
        if self.evaluation.unknown == "subwords" and not self.subwords.enabled:
            raise ValueError(
                'evaluation.unknown = "subwords" needs vectors of n-grams: give subwords.enabled = true, or '
                'evaluation.unknown = "skip"'
            )
        return self
