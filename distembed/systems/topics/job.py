"""The job file of topics: Semantic-NMF and its rivals on a collection of documents."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag

from distembed.corpus.stop_words import Language
from distembed.counting.cooccurrence import count_cooccurrences
from distembed.factorization.consensus import Choose
from distembed.factorization.document_factors import FREQUENCY_WEIGHT
from distembed.factorization.nmf import SemanticNMF
from distembed.factorization.nmf_rounds import Init
from distembed.job.model import OPTION, InputPath, Section, ShownSection, section_of
from distembed.options import options_of
from distembed.stages.corpus_sections import NOT_COUNTED_BY, CountingJob, CountingSection, VocabularySection


class DocumentsSection(Section):
    """`[documents]`: which documents of the collection stay."""

    labels: tuple[str, ...] = ()
    """The classes whose documents stay; by default all."""
    drop_duplicates: bool = False
    """Whether documents of equal text are kept once."""


class TermsSection(VocabularySection):
    """`[vocabulary]` of a collection: words that tell documents apart."""

    min_count: int = Field(default=1, ge=1)
    min_documents: int = Field(default=2, ge=1)
    """Words in fewer documents are left out."""
    max_share: float = Field(default=0.5, gt=0, le=1)
    """Words in a larger share of the documents are left out."""
    stop_words: Language = "english"
    """The language whose function words are left out: "english", "none", or another of the package stop-words."""
    stop_words_file: InputPath | None = None
    """A text file with further words to leave out, one per line."""


@section_of(count_cooccurrences, exclude=NOT_COUNTED_BY, defaults={"window": 10})
class ContextSection(CountingSection):
    """`[counting]` of a collection: the word pairs that positive PMI is computed from."""

    direction: Literal["symmetric"] = "symmetric"


class WeightingSection(Section):
    """`[weighting]`: tf-idf of the documents (`distembed.weighting.documents.tf_idf`)."""

    sublinear: bool = False
    """Whether a count n is taken as 1 + log n."""
    smooth: bool = True
    """Whether one document is added to all document counts, so that no weight is infinite."""


Method = Literal["consensus", "semantic_nmf", "nmf", "orthogonal_nmf", "spherical_kmeans"]
"""How documents are factorized."""

NAMES: dict[Method, str] = {
    "consensus": "consensus",
    "semantic_nmf": "Semantic-NMF",
    "nmf": "NMF",
    "orthogonal_nmf": "orthogonal NMF",
    "spherical_kmeans": "spherical k-means",
}
"""What the methods are called."""

MEASURES = {"nmi": "NMI", "ari": "ARI", "accuracy": "accuracy", "purity": "purity"}
"""What the agreement of topics with labels is called."""
OF_KEPT = "{} of what is kept"
"""What it is called for the topics that a method keeps of its starts; without it, it is the mean of the starts."""
IN_PAPER = {"rows": NAMES.values(), "columns": [*MEASURES.values(), *map(OF_KEPT.format, MEASURES.values())]}
"""The names that figures of a paper may have."""

OF_GRAPH: tuple[Method, ...] = ("semantic_nmf", "nmf")
"""The methods that take a graph of the documents."""

POOLED: tuple[Method, ...] = ("semantic_nmf", "spherical_kmeans")
"""The methods whose starts the consensus is of."""

PRESETS: Mapping[str, Mapping[str, Mapping[str, Any]]] = {
    "best": {},
    "paper": {
        "corpus": {"pattern": "gensim.parsing.preprocessing:preprocess_string"},
        "vocabulary": {"min_documents": 3, "max_share": 1.0, "stop_words": "none"},
        "counting": {"window": 10},
        "topics": {
            "method": "semantic_nmf",
            "compare_with": ["nmf", "orthogonal_nmf", "spherical_kmeans"],
            "n_topics": 4,
            "shift": 2.0,
            "max_iter": 100,
            "init": "spherical_kmeans",
            "n_starts": 50,
            "choose": "objective",
        },
        "coherence": {"n_words": 30, "frequency_weight": 0.0},
        "report": {"score_labels": True},
    },
}
"""The defaults, and the settings of the paper's table 2 for its first collection, of four classes
(jobs/topics_paper.toml)."""


def all_but(*names: str) -> dict[str, str]:
    """Return why a section has no other options of Semantic-NMF: n_topics is n_components, and n_starts is n_init."""
    return dict.fromkeys(
        {*options_of(SemanticNMF)} - {*names}, "the section of another method has it, if any"
    )


@section_of(SemanticNMF, exclude=all_but("choose", "max_iter", "random_state"))
class TopicsSection(Section):
    """`[topics]`: the factorization (`distembed.SemanticNMF` and its rivals)."""

    method: Method = "consensus"
    """How documents are factorized; "consensus": by the clusters that the starts of Semantic-NMF and of spherical
    k-means have in common.
    """
    compare_with: tuple[Method, ...] = ()
    """Other methods, whose topics and scores the report shows too. The section also has their keys."""
    n_topics: int = Field(default=10, ge=1)
    """The number of topics."""
    n_starts: int = Field(default=5, ge=1)
    """How many starts each method makes; what is kept of them says `choose`."""
    choose: Choose = OPTION
    max_iter: int = OPTION
    random_state: int = OPTION
    """The seed of all starts."""

    @property
    def methods(self) -> tuple[Method, ...]:
        """Every method once, the job's own first."""
        return tuple(dict.fromkeys((self.method, *self.compare_with)))

    @property
    def fitted(self) -> tuple[Method, ...]:
        """Every method whose starts are made: the consensus is of those of two others."""
        own = [one for method in self.methods for one in (POOLED if method == "consensus" else (method,))]
        return tuple(dict.fromkeys(own))

    @property
    def has_graph(self) -> bool:
        """Whether a method pulls neighbors among the documents together."""
        return isinstance(self, NMFTopics) and self.graph_weight > 0

    def keeps_consensus(self, method: Method) -> bool:
        """Return whether what is kept of a method is no start of its own."""
        return method == "consensus" or (self.choose == "consensus" and self.n_starts > 1)


@section_of(SemanticNMF, exclude=all_but("init", "tol"))
class OrthogonalTopics(TopicsSection):
    """`[topics]` with a method of NMF."""

    init: Init = OPTION
    tol: float = OPTION


class NMFTopics(OrthogonalTopics):
    """`[topics]` with NMF, whose updates here are those of Semantic-NMF; in the library it has the faster ones."""

    solver: Literal["hals", "multiplicative"] = "multiplicative"
    """The updates of `nmf`."""
    graph_weight: float = Field(default=0.0, ge=0)
    """The weight of a graph of the documents, which pulls neighbors together in `semantic_nmf` and `nmf`; 0 makes none.
    """
    n_neighbors: int = Field(default=5, ge=1)
    """Two documents are neighbors if one is among so many nearest of the other, by the cosine of tf-idf."""


@section_of(SemanticNMF, exclude=all_but("shift", "semantic_weight"))
class SemanticTopics(NMFTopics):
    """`[topics]` with Semantic-NMF, alone or in the consensus."""

    shift: float = OPTION
    """Positive PMI less the logarithm of this is factorized with the documents (the N of the paper)."""
    semantic_weight: float = OPTION


def method(section: Any) -> Any:
    """Return the method of a section, or one that it is compared with and that has more keys."""
    chosen = section if isinstance(section, Mapping) else vars(section)
    own, others = chosen.get("method", "consensus"), chosen.get("compare_with", ())
    several = [own, *others] if isinstance(others, list | tuple) and own in [*NAMES] else [own]
    return next((name for name in NAMES if name in several), own)


Topics = Annotated[
    Annotated[SemanticTopics, Tag("consensus")]
    | Annotated[SemanticTopics, Tag("semantic_nmf")]
    | Annotated[NMFTopics, Tag("nmf")]
    | Annotated[OrthogonalTopics, Tag("orthogonal_nmf")]
    | Annotated[TopicsSection, Tag("spherical_kmeans")],
    Discriminator(method),
]
"""The keys of a method and of those that it is compared with: each method here has the keys of those after it."""


class ReferenceSection(Section):
    """`[semantic]`: a workspace with counts of other text."""

    workspace: InputPath | None = None
    """The workspace of a job that counted word pairs; by default those of the collection itself."""


class CoherenceSection(ReferenceSection):
    """`[coherence]`: the text that top words are judged by; without a workspace the collection itself."""

    n_words: int = Field(default=30, ge=2)
    """How many of the first words of a topic are listed and judged."""
    frequency_weight: float = Field(default=FREQUENCY_WEIGHT, ge=0, le=1)
    """The words of a topic of `semantic_nmf` are listed by their weight times this power of the share of documents that
    hold them, as `SemanticNMF.top_words` does. 0 lists them by weight alone, as the paper does, which puts rare words
    first.
    """


class TopicsReportSection(ShownSection):
    """`[report]` of topics: how much of each topic is shown."""

    n_top_words: int = Field(default=12, ge=1)
    """How many words of each topic are shown."""
    n_top_documents: int = Field(default=5, ge=1)
    """How many documents of each topic are shown."""
    n_map_documents: int = Field(default=1000, ge=1)
    """How many documents the map shows."""
    score_labels: bool = False
    """Whether the labels that the documents came with are the topics looked for. The report and the last lines then
    score the topics against them; by default a label is one more column, such as a decade or a source.
    """


class TopicsJob(CountingJob):
    """A job of `system = "topics"`: a collection of documents in, topics and clusters out."""

    first_keys = (
        "vocabulary.min_documents",
        "vocabulary.max_share",
        "topics.method",
        "topics.compare_with",
        "topics.n_topics",
        "topics.n_starts",
        "report.score_labels",
    )

    documents: DocumentsSection = DocumentsSection()
    vocabulary: TermsSection = TermsSection()
    counting: ContextSection = ContextSection()
    weighting: WeightingSection = WeightingSection()
    semantic: ReferenceSection = ReferenceSection()
    topics: Topics = SemanticTopics()
    coherence: CoherenceSection = CoherenceSection()
    report: TopicsReportSection = TopicsReportSection()
