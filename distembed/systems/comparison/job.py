"""The job file of a comparison of parts of a corpus."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from distembed.counting.cooccurrence import CooccurrenceOptions, count_cooccurrences
from distembed.factorization.psdvec import PSDVec
from distembed.factorization.replicates import FEWEST_GROUPS
from distembed.job.model import OPTION, ListsSection, Section, section_of
from distembed.stages.corpus_sections import COUNTING_OPTIONS, NOT_COUNTED_BY, CorpusJob

Edge = Annotated[str, BeforeValidator(lambda value: str(value) if isinstance(value, int) else value)]
"""A year, as a number or a text, or a date."""


OF_FILES = "file"
"""The value of `parts.column` with which each file is a part."""


class PartsSection(Section):
    """`[parts]`: what is compared. By default each label is a part (`corpus.label_field` names the field)."""

    column: str = "label"
    """The column of the documents whose values are the parts: "label", "title", one of `corpus.carry_fields`,
    `corpus.path_fields` or `corpus.metadata`, or "file", with which each file is a part.
    """
    bins: tuple[Edge, ...] = ()
    """Dates between which the parts lie, where the values are dates: `[1800, 1850, 1900]` makes two parts. A bin takes
    its first day and not its last. One date makes two parts as well, before it and from it on.
    """
    every: int | None = Field(default=None, ge=1)
    """Years of each part, in place of `bins`; 10 makes decades."""
    names: tuple[str, ...] = ()
    """The parts that are compared, by default all; the text of the others still counts for the core."""
    unit: Literal["auto", "document", "file"] = "auto"
    """What is drawn at random as one: a document, or a file with all its documents ("auto" with a column of
    `corpus.path_fields`).
    """

    @model_validator(mode="after")
    def _one_way_to_divide(self) -> Self:
        if self.bins and self.every is not None:
            raise ValueError("bins and every both divide the dates: give one of them")
        return self


@section_of(
    count_cooccurrences,
    exclude=NOT_COUNTED_BY
    | dict.fromkeys(("subsample", "seed"), "sums of groups of documents are exact, and a draw is not")
    | {"direction": "each part has few counts, which both orders share"},
    defaults={"weighting": "flat"},
)
class PartCountingSection(Section):
    """`[counting]`: which pairs of words are counted, in both orders."""

    window: int = OPTION

    def counting_options(self) -> CooccurrenceOptions:
        """Return what counts as a co-occurrence."""
        options = self.model_dump(include=set(COUNTING_OPTIONS))
        return CooccurrenceOptions(**options, direction="symmetric")


@section_of(
    PSDVec,
    exclude={"bands": "the words of all parts are solved in the same way"},
    defaults={"smoothing": 0.1},
)
class CoreSection(Section):
    """`[psdvec]`: the core, learned from all text, and the regression of each part's words against it."""

    n_components: int = OPTION
    n_core: int | None = OPTION
    ridge: float = Field(default=2.0, gt=0)
    """Strength mu of the ridge that pulls the vectors of rare words towards zero."""
    smoothing: float = OPTION
    uniform_weight: float = OPTION

    @model_validator(mode="after")
    def _core_spans_the_components(self) -> Self:
        if self.n_core is not None and self.n_components > self.n_core:
            raise ValueError(
                f"n_components = {self.n_components} is more than n_core = {self.n_core}; lower it, or raise n_core"
            )
        return self


class ComparisonSection(Section):
    """`[comparison]`: what tells a difference from noise."""

    min_count: int = Field(default=50, ge=1)
    """The fewest occurrences in each of two parts with which a word can be judged."""
    min_documents: int = Field(default=5, ge=2)
    """The fewest documents of each of two parts that must have the word. It must also be in four groups of each."""
    groups: int = Field(default=20, ge=FEWEST_GROUPS)
    """Groups into which the documents of a part are divided at random. Halves and draws are made of them."""
    halves: int = Field(default=10, ge=1)
    """How often a part is divided into two random halves, whose distance is the noise."""
    bootstrap: int = Field(default=50, ge=2)
    """How often the groups of each part are drawn again, with replacement, for the intervals."""
    confidence: float = Field(default=0.95, gt=0, lt=1)
    """The share of draws that an interval holds."""
    false_alarms: float = Field(default=0.01, gt=0, lt=1)
    """The share of the words of one text that may seem to differ between random halves of it: how high the floor is."""
    random_state: int = Field(default=0, ge=0)
    """The seed of the groups, halves and draws."""


class ComparisonReportSection(ListsSection):
    """`[report]`: what the report shows in addition to the figures of every run."""

    n_changed: int = Field(default=20, ge=1)
    """How many of the words that differ most are shown, in addition to `words`."""
    n_passages: int = Field(default=2, ge=0)
    """Passages of each side of a word."""


class ComparisonJob(CorpusJob):
    """A job of `system = "comparison"`: a corpus with parts in, words that differ between them out."""

    first_keys = (
        "parts.column",
        "psdvec.n_components",
        "comparison.min_count",
        "comparison.min_documents",
        "report.words",
    )

    parts: PartsSection = PartsSection()
    counting: PartCountingSection = PartCountingSection()
    psdvec: CoreSection = CoreSection()
    comparison: ComparisonSection = ComparisonSection()
    report: ComparisonReportSection = ComparisonReportSection()

    @property
    def drawn(self) -> str:
        """What is drawn at random as one."""
        if self.parts.unit != "auto":
            return self.parts.unit
        return "file" if self.parts.column in self.corpus.path_fields else "document"
