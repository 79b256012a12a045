"""The job file of topic transfer between parallel collections."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from distembed.corpus.stop_words import Language
from distembed.manifold.feature_preserving import FeaturePreservingEmbedding
from distembed.pipeline.corpus.collections import SIDES, sides_of
from distembed.pipeline.corpus.config import ParallelSection, TextsSection
from distembed.pipeline.effects import Only
from distembed.pipeline.sections import (
    KEPT_BY_THE_JOB,
    OPTION,
    InputPath,
    Job,
    MapSection,
    Section,
    section_of,
)
from distembed.pipeline.tables.config import ReadingSection


class SideSection(ParallelSection):
    """`[first]` or `[second]`: a collection, which words of it do not count, and where vectors of its words are.

    Attributes
    ----------
    stop_words : str
        The language whose function words are left out: "none", "english", or another with ``distembed[stopwords]``.
    stop_words_file : str, optional
        A text file with further words to leave out, one per line.
    vectors : str, optional
        The workspace or file of vectors of its words, for `representation.kind = "psdvec"`.
    format : str
        What the files are; "auto" goes by the extension.
    text_field : str
        The field of a record that holds the text of this collection.
    id_field : str, optional
        The field of a record that holds its id: texts of one id are a pair.
    """

    effects = (*TextsSection.effects, Only(("vectors",), "representation.kind", ("psdvec",)))

    stop_words: Language = "none"
    stop_words_file: InputPath | None = None
    vectors: InputPath | None = None


class TransferTermsSection(Section):
    """`[terms]`: which words of a collection count, and how (tf-idf).

    Attributes
    ----------
    min_documents : int
        Words in fewer documents are left out.
    max_share : float
        Words in a larger share of the documents are left out.
    max_size : int, optional
        The most words of a collection; by default all.
    sublinear : bool
        Whether a count n is taken as 1 + log n.
    """

    min_documents: int = Field(default=2, ge=1)
    max_share: float = Field(default=0.5, gt=0, le=1)
    max_size: int | None = Field(default=None, ge=1)
    sublinear: bool = True


class RepresentationSection(Section):
    """`[representation]`: the rows that neighbors are sought among.

    Attributes
    ----------
    kind : str
        What the rows of documents are: LSA coordinates, tf-idf, or sums of the vectors of their words.
    n_components : int
        The dimensions of the LSA coordinates.
    random_state : int
        The seed of the decomposition.
    """

    effects = (Only(("n_components",), "kind", ("lsa", "psdvec")), Only(("random_state",), "kind", ("lsa",)))

    kind: Literal["lsa", "tf_idf", "psdvec"] = "lsa"
    n_components: int = Field(default=150, ge=1)
    random_state: int = Field(default=0, ge=0)


class TransferTopicsSection(Section):
    """`[topics]`: the proportions learned on the first collection.

    Attributes
    ----------
    method : str
        How the topics of the first collection are learned: "lda" is gensim's online algorithm, which reads the
        documents in batches and needs ``distembed[lda]``.
    n_topics : int
        The number of topics.
    n_iter : int
        The most rounds, or passes over the documents.
    window : int
        The window of word pairs, for `method = "semantic_nmf"`.
    random_state : int
        The seed of the start.
    """

    effects = (Only(("window",), "method", ("semantic_nmf",)), Only((), "features.path", (None,)))

    method: Literal["nmf", "semantic_nmf", "lda"] = "nmf"
    n_topics: int = Field(default=20, ge=2)
    n_iter: int = Field(default=200, ge=1)
    window: int = Field(default=10, ge=1)
    random_state: int = Field(default=0, ge=0)


class FeaturesSection(ReadingSection):
    """`[features]`: values of some documents from a table, which are carried to the others in place of topics.

    Attributes
    ----------
    path : str, optional
        A table with a row per document of the first collection, its id and numbers: CSV, TSV, Parquet or npz, also
        compressed. With it there are no topics. Documents without a row, or with an empty one, have no known values.
    second : str, optional
        A table of the same columns for documents of the second collection whose values are known.
    name_column : str, optional
        The column of ids; by default the first.
    columns : tuple of str
        The columns that are taken; by default all of numbers.
    missing : str
        What becomes of rows with some empty cells: the table is refused, they get the median of their column, or the
        row, or the column, is left out.
    standardize : bool
        Whether the columns count alike, each in units of its standard deviation, as do the errors in the report; the
        results are in the units of the table.
    """

    effects = (Only((), "path"),)

    path: InputPath | None = None
    second: InputPath | None = None
    columns: tuple[str, ...] = ()
    standardize: bool = True

    def tables(self) -> dict[str, str]:
        """Return the path of the table of each collection that has one."""
        given = zip(SIDES, (self.path, self.second), strict=True)
        return {side: path for side, path in given if path is not None}


class PairsSection(Section):
    """`[pairs]`: documents known to be the same: a share of those with equal ids, or a file of pairs of ids.

    Attributes
    ----------
    share : float
        The share of the documents with equal ids that is taken as known.
    path : str, optional
        A file of pairs of ids, one pair per line, in place of a share.
    random_state : int
        The seed of the draw.
    """

    effects = (Only(("share", "random_state"), "path", (None,)),)

    share: float = Field(default=0.05, gt=0, le=1)
    path: InputPath | None = None
    random_state: int = Field(default=0, ge=0)


# By default the rows of a job are LSA coordinates of both collections, in which propagation gains
# (tests/benchmarks/TRANSFER.md); the library cannot know that the two sets it is given have common axes.
@section_of(
    FeaturePreservingEmbedding,
    exclude=KEPT_BY_THE_JOB | {"metric": "the graphs of documents and the plan of their stage are by cosine"},
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
    """`[evaluation]`: shares of the documents with a counterpart that are taken as known, and draws of each.

    Attributes
    ----------
    shares : tuple of float
        The shares of pairs taken as known, one run per share.
    n_seeds : int
        How many draws are made of each share.
    printed_rounds : int
        The rounds of the algorithm as the paper prints it, which is judged too; 0 leaves it out.
    topic : int, optional
        Judge on the documents of which this topic is the largest part, and their counterparts, as the paper did; by
        default on all. Known pairs, graphs and means are then those of these documents alone.
    topic_share : float
        The least share of that topic in such a document.
    n_aligned : int
        How many of the nearest documents are looked through for the counterpart.
    """

    effects = (Only(("topic_share",), "topic"),)

    shares: tuple[Annotated[float, Field(gt=0, lt=1)], ...] = (0.01, 0.05, 0.1, 0.2, 0.5)
    n_seeds: int = Field(default=3, ge=1)
    printed_rounds: int = Field(default=0, ge=0)
    topic: int | None = Field(default=None, ge=0)
    topic_share: float = Field(default=0.5, gt=0, le=1)
    n_aligned: int = Field(default=50, ge=1)


class TransferJob(Job):
    """A job of `system = "transfer"`: two collections and known pairs in, topics of the second one out.

    Without a second collection, the features of some documents of the first are carried to its others.
    """

    first: SideSection
    second: SideSection | None = None
    terms: TransferTermsSection = TransferTermsSection()
    representation: RepresentationSection = RepresentationSection()
    topics: TransferTopicsSection = TransferTopicsSection()
    features: FeaturesSection = FeaturesSection()
    pairs: PairsSection = PairsSection()
    alignment: AlignmentSection = AlignmentSection()
    evaluation: TransferEvaluationSection = TransferEvaluationSection()
    report: MapSection = MapSection()

    @model_validator(mode="after")
    def _collections_have_features(self) -> Self:
        if self.second is None and self.features.path is None:
            raise ValueError(
                "there is no second collection, and nothing to carry within the first: give second.paths, or "
                "features.path, a table with the values of some documents"
            )
        if self.features.second is not None and (self.features.path is None or self.second is None):
            missing = "second.paths" if self.second is None else "features.path"
            raise ValueError(f"features.second needs {missing}: it is a table for the second collection")
        return self

    @model_validator(mode="after")
    def _representation_fits(self) -> Self:
        missing = [name for name in sides_of(self) if getattr(self, name).vectors is None]
        if self.representation.kind == "psdvec" and missing:
            raise ValueError(
                f"representation.kind = 'psdvec' needs the vectors of a PSDVec job for each collection; give "
                f"{missing[0]}.vectors, a workspace or a vector file"
            )
        if self.representation.kind == "tf_idf" and self.alignment.propagate and self.second is not None:
            raise ValueError(
                "alignment.propagate = true rotates one collection onto the other, and words of two languages "
                "are no common axes; set alignment.propagate = false, or representation.kind = 'lsa'"
            )
        return self

    @model_validator(mode="after")
    def _topic_is_there(self) -> Self:
        topic = self.evaluation.topic
        if topic is not None and self.features.path is not None:
            raise ValueError(
                "evaluation.topic chooses documents by topic, and features.path takes the place of topics"
            )
        if topic is not None and topic >= self.topics.n_topics:
            raise ValueError(
                f"evaluation.topic is {topic}, but there are {self.topics.n_topics} topics: choose "
                f"0 to {self.topics.n_topics - 1}"
            )
        return self
