"""The job file of topic transfer between parallel collections."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import Field, Tag, model_validator

from distembed.corpus.paths import Format
from distembed.corpus.stop_words import Language
from distembed.job.model import OPTION, InputPath, Job, MapSection, Section, chosen_by, section_of
from distembed.manifold.feature_preserving import FeaturePreservingEmbedding
from distembed.manifold.inference import AS_PRINTED
from distembed.stages.corpus_sections import ParallelSection
from distembed.tables.sections import ReadingSection

PRESETS: Mapping[str, Mapping[str, Mapping[str, Any]]] = {
    "best": {},
    "paper": {
        "topics": {"method": "lda", "n_topics": 20},
        "representation": {"kind": "tf_idf"},
        "pairs": {"share": 0.05},
        "alignment": {
            "n_components": 20, "n_neighbors": 10, "correspondence_weight": 1.0, "max_iter": 30, **AS_PRINTED,
        },
        "evaluation": {"shares": [0.05, 0.2, 0.5], "n_seeds": 3},
    },
}  # fmt: skip
"""The defaults, and the second experiment of the paper as printed (jobs/feature_preserving_paper.toml, for a topic)."""


class CollectionSection(ParallelSection):
    """`[collections.NAME]`: a collection; the first of them has topics or features, and the others get them.

    Known pairs join each of the others to the first; the curve of errors is that of the first two alone.
    """

    format: Format = "auto"
    """What the files are; "auto" goes by the extension."""
    stop_words: Language = "none"
    """The language whose function words are left out: "none", "english", or another of the package stop-words."""
    stop_words_file: InputPath | None = None
    """A text file with further words to leave out, one per line."""
    pairs: InputPath | None = None
    """A file of pairs of ids of the first collection and this one, with a column named as each and perhaps confidence;
    by default the known pairs are a share of the documents with equal ids, as `[pairs]` says.
    """
    features: InputPath | None = None
    """A table with a row per document, its id and numbers: CSV, TSV, Excel or Parquet, text also compressed. The
    values of the first collection's are carried in place of topics, those of another's are known too; documents without
    a row, or with an empty one, have no known values.
    """


class TransferTermsSection(Section):
    """`[terms]`: which words of a collection count, and how (tf-idf)."""

    min_documents: int = Field(default=2, ge=1)
    """Words in fewer documents are left out."""
    max_share: float = Field(default=0.5, gt=0, le=1)
    """Words in a larger share of the documents are left out."""
    max_size: int | None = Field(default=None, ge=1)
    """The most words of a collection; by default all."""
    sublinear: bool = True
    """Whether a count n is taken as 1 + log n."""


class RepresentationSection(Section):
    """`[representation]`: the rows that neighbors are sought among."""

    kind: Literal["lsa", "tf_idf"] = "lsa"
    """What the rows of documents are: LSA coordinates, or tf-idf."""


class LSARepresentation(RepresentationSection):
    """`[representation]` by LSA."""

    n_components: int = Field(default=150, ge=1)
    """The dimensions of the rows."""
    random_state: int = Field(default=0, ge=0)
    """The seed of the decomposition."""


Representation = Annotated[
    Annotated[LSARepresentation, Tag("lsa")] | Annotated[RepresentationSection, Tag("tf_idf")],
    chosen_by("kind", "lsa"),
]


class TransferTopicsSection(Section):
    """`[topics]`: the proportions learned on the first collection."""

    method: Literal["nmf", "lda"] = "nmf"
    """How the topics of the first collection are learned: "lda" is scikit-learn's online algorithm."""
    n_topics: int = Field(default=20, ge=2)
    """The number of topics."""
    n_iter: int = Field(default=200, ge=1)
    """The most rounds, or passes over the documents."""
    random_state: int = Field(default=0, ge=0)
    """The seed of the start."""


class FeaturesSection(ReadingSection):
    """`[features]`: how the tables of values are read, which a job carries in place of topics."""

    columns: tuple[str, ...] = ()
    """The columns that are taken; by default all of numbers."""
    standardize: bool = True
    """Whether the columns count alike, each in units of its standard deviation, as do the errors in the report; the
    results are in the units of the table.
    """


class PairsSection(Section):
    """`[pairs]`: the share of the documents with equal ids that are known to be the same."""

    share: float = Field(default=0.05, gt=0, le=1)
    """The share of the documents with equal ids that is taken as known."""
    random_state: int = Field(default=0, ge=0)
    """The seed of the draw."""


# By default the rows of a job are LSA coordinates of both collections, in which propagation gains
# (docs/results/transfer.md); the library cannot know that the two sets it is given have common axes.
@section_of(
    FeaturePreservingEmbedding,
    exclude={"metric": "the graphs of documents and the plan of their stage are by cosine"},
    defaults={"regularization": 0.1, "propagate": True},
)
class AlignmentSection(Section):
    """`[alignment]`: the estimator (`distembed.FeaturePreservingEmbedding`)."""

    n_components: int = OPTION
    n_neighbors: int = OPTION
    correspondence_weight: float = OPTION
    propagate: bool = OPTION
    tol: float = OPTION
    random_state: int = OPTION


class TransferEvaluationSection(Section):
    """`[evaluation]`: shares of the pairs of the first two collections that are taken as known, and draws of each."""

    shares: tuple[Annotated[float, Field(gt=0, lt=1)], ...] = (0.01, 0.05, 0.1, 0.2, 0.5)
    """The shares of pairs taken as known, one run per share."""
    n_seeds: int = Field(default=3, ge=1)
    """How many draws are made of each share."""
    printed_rounds: int = Field(default=0, ge=0)
    """The rounds of the algorithm as the paper prints it, which is judged too; 0 leaves it out."""
    topic: int | None = Field(default=None, ge=0)
    """Judge on the documents of which this topic is the largest part, and their counterparts, as the paper did; by
    default on all. Known pairs, graphs and means are then those of these documents alone.
    """
    topic_share: float = Field(default=0.5, gt=0, le=1)
    """The least share of that topic in such a document."""
    n_aligned: int = Field(default=50, ge=1)
    """How many of the nearest documents are looked through for the counterpart."""


class TransferJob(Job):
    """A job of `system = "transfer"`: collections and known pairs in, topics of all but the first out."""

    first_keys = ("representation.kind", "topics.n_topics", "pairs.share", "evaluation.shares")

    collections: dict[Annotated[str, Field(pattern=r"^[a-z0-9]+$")], CollectionSection] = Field(min_length=2)
    terms: TransferTermsSection = TransferTermsSection()
    representation: Representation = LSARepresentation()
    topics: TransferTopicsSection = TransferTopicsSection()
    features: FeaturesSection = FeaturesSection()
    pairs: PairsSection = PairsSection()
    alignment: AlignmentSection = AlignmentSection()
    evaluation: TransferEvaluationSection = TransferEvaluationSection()
    report: MapSection = MapSection()

    @property
    def first(self) -> str:
        """Return the name of the collection whose values are carried."""
        return next(iter(self.collections))

    @property
    def others(self) -> tuple[str, ...]:
        """Return the names of the collections that get them."""
        return tuple(self.collections)[1:]

    @property
    def judged(self) -> tuple[str, str]:
        """Return the names of the two collections on whose pairs the methods are judged."""
        return self.first, self.others[0]

    @property
    def has_topics(self) -> bool:
        """Return whether topics are carried, and not the values of a table."""
        return self.collections[self.first].features is None

    @model_validator(mode="after")
    def _sections_fit_together(self) -> Self:
        topic = self.evaluation.topic
        for name, section in self.collections.items():
            if section.features is not None and self.has_topics:
                raise ValueError(
                    f"collections.{name}.features needs collections.{self.first}.features: it names known values of "
                    "another collection"
                )
        if self.representation.kind == "tf_idf" and self.alignment.propagate:
            raise ValueError(
                "alignment.propagate = true rotates one collection onto the other, and words of two languages "
                "are no common axes; set alignment.propagate = false, or representation.kind = 'lsa'"
            )
        if topic is not None and not self.has_topics:
            raise ValueError(
                f"evaluation.topic chooses documents by topic, and collections.{self.first}.features takes the place "
                "of topics"
            )
        if topic is not None and topic >= self.topics.n_topics:
            raise ValueError(
                f"evaluation.topic is {topic}, but there are {self.topics.n_topics} topics: choose "
                f"0 to {self.topics.n_topics - 1}"
            )
        return self
