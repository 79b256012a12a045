"""The job file of word spaces: recipes for spaces, and how they are scored."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import Field, Tag, model_validator

from distembed.corpus.stop_words import Language
from distembed.counting.cooccurrence import count_cooccurrences
from distembed.evaluation.scoring import Case
from distembed.factorization.lsa import LSA
from distembed.job.model import (
    OPTION,
    InputPath,
    ListsSection,
    Section,
    chosen_by,
    section_of,
    tagged,
)
from distembed.manifold.projection import Affinity, Solver
from distembed.neighbors.graphs import Symmetry
from distembed.spelling import did_you_mean
from distembed.stages.corpus_sections import NOT_COUNTED_BY, CorpusJob, CountingSection, LeftCountingSection
from distembed.stages.kept_matrices import WordMatricesSection


@section_of(count_cooccurrences, exclude=NOT_COUNTED_BY, defaults={"window": 10, "weighting": "ramp"})
class HalSection(CountingSection):
    """`[hal]`: what HAL counts after a word; what stands before it is counted likewise."""

    direction: Literal["left"] = "left"


LPP = {"method": "lpp", "unit_rows": True, "alpha": 1.0}
PRESETS: Mapping[str, Mapping[str, Mapping[str, Any]]] = {
    "best": {},
    "paper": {
        "corpus": {"pattern": "ascii", "min_border_tokens": 1000},
        "vocabulary": {"max_size": 100_000, "min_count": 1},
        "contexts": {"window": 5, "direction": "symmetric"},
        "hal": {"window": 10, "weighting": "ramp"},
        "wordspaces": {
            "spaces": [
                "vsm_lpp_log_entropy", "vsm_lpp_tf_idf", "vsm_lpp", "wc_lpp", "hal_space", "lsa", "vsm",
            ],
            "n_components": 300,
            "vectors": "lsa",
        },
        "recipes": {
            "vsm": {"title": "VSM", "of": "documents", "method": "counts"},
            "vsm_tf_idf": {"title": "VSM tf-idf", "of": "documents", "method": "tf_idf"},
            "vsm_log_entropy": {"title": "VSM log-entropy", "of": "documents", "method": "log_entropy"},
            "wc_no_stop": {
                "title": "WC without stop words", "of": "contexts", "method": "counts", "stop_words": "drop",
            },
            "hal_space": {"title": "HAL", "of": "hal", "method": "counts"},
            "lsa": {"title": "LSA", "of": "vsm_log_entropy", "method": "lsa"},
            "vsm_lpp": {"title": "VSM+LPP", "of": "vsm", **LPP},
            "vsm_lpp_tf_idf": {"title": "VSM+LPP+TF-IDF", "of": "vsm_tf_idf", **LPP},
            "vsm_lpp_log_entropy": {"title": "VSM+LPP+LE", "of": "vsm_log_entropy", **LPP},
            "wc_lpp": {"title": "WC+LPP", "of": "wc_no_stop", **LPP},
        },
        "evaluation": {"keep_words": True},
    },
}  # fmt: skip
"""The demo's spaces, and those of the paper with the settings of its Wikipedia (jobs/wordspaces_paper.toml)."""

ACCURACY = "it is how exactly the space is computed, and the library's default is exact enough for scores"


COUNTED: dict[str, tuple[str, ...]] = {
    "documents": ("counts", "tf_idf", "log_entropy"),
    "contexts": ("counts", "ppmi"),
    "bigrams": ("counts", "ppmi"),
    "hal": ("counts", "ppmi"),
}
"""The tables of counts, and the methods that make a space of each; the other methods reduce a space."""


WORD_COLUMNS = ("contexts", "bigrams")
"""The tables of counts whose columns are the words of the rows."""


class RecipeSection(Section):
    """`[recipes.NAME]`: a space, made of counts or of another recipe's space by one method."""

    of: str
    """What the space is made of: documents, contexts, bigrams, hal, or the name of another recipe."""
    method: str
    """How it is made."""
    title: str = ""
    """What tables call it; by default its name."""

    @property
    def sources(self) -> tuple[str, ...]:
        """Return the tables of counts and the recipes that it starts from."""
        return (self.of,)

    def options(self) -> dict[str, Any]:
        """Return the options of the method, and the sources it reads."""
        return self.model_dump(mode="json", exclude={"title"})


class ColumnsRecipe(RecipeSection):
    """A space of which some columns may be kept."""

    n_columns: int | None = Field(default=None, ge=1)
    """Keep so many columns, those of the highest entropy; by default all."""
    stop_words: Literal["keep", "drop"] | Language = "keep"
    """Whether to "keep" or "drop" the columns of English function words; or the language of those that are dropped."""


class CountsRecipe(ColumnsRecipe):
    """`[recipes.NAME]`: counts as they are."""


class PPMIRecipe(ColumnsRecipe):
    """`[recipes.NAME]`: positive pointwise mutual information."""

    context_smoothing: float = Field(default=1.0, gt=0)
    """The power of the context counts in positive PMI; 0.75 is common."""
    negative_samples: float = Field(default=1.0, gt=0)
    """N, by whose logarithm positive PMI is lowered before it is cut off at zero; 1 lowers nothing, 5 is common."""


class TfIdfRecipe(RecipeSection):
    """`[recipes.NAME]`: term frequency by inverse document frequency."""


class LogEntropyRecipe(RecipeSection):
    """`[recipes.NAME]`: logarithms of counts, weighted by the entropy of the word."""


class ReducedRecipe(RecipeSection):
    """A dense space."""

    n_components: int = Field(default=300, ge=1)
    """The dimensions of the space."""


@section_of(
    LSA,
    exclude=dict.fromkeys(("n_passes", "oversampling", "tol"), ACCURACY)
    | {"dtype": "spaces are stored as float32"},
)
class LSARecipe(ReducedRecipe):
    """`[recipes.NAME]`: latent semantic analysis."""

    n_components: int = OPTION
    """The dimensions of the space."""
    exponent: float = OPTION
    """The power of the singular values: 1 is LSA, 0 the singular vectors alone, 0.5 is common for positive PMI."""
    n_dropped: int = Field(default=0, ge=0)
    """How many of the first dimensions are dropped."""
    add_contexts: bool = False
    """Whether the vector of a word as a context is added to its own, where columns are words."""
    random_state: int = OPTION
    """The seed of the decomposition."""


class GraphRecipe(ReducedRecipe):
    """A dense space that starts from a graph of neighbors."""

    n_neighbors: int = Field(default=20, ge=1)
    """The neighbors that each word is joined to in the graph."""
    threshold: float | None = Field(default=None, ge=0, lt=1)
    """Join words with a larger cosine than this instead of the nearest ones."""
    affinity: Affinity = "cosine"
    """The weight of an edge between neighbors."""
    symmetry: Symmetry = "union"
    """Which edges stay: those that either word lists, or those that both list."""
    random_state: int = Field(default=0, ge=0)
    """The seed of the decomposition."""

    @model_validator(mode="after")
    def _graph_options_fit_together(self) -> Self:
        if self.threshold is not None and self.affinity == "local":
            raise ValueError(
                'threshold joins words by their cosine, affinity = "local" needs nearest ones: leave one out'
            )
        return self

    @property
    def uses_eigenmaps(self) -> bool:
        """Return whether the space is made from the eigenvectors of its graph."""
        return True

    @property
    def graph_source(self) -> str:
        """Return the space whose neighbors the graph joins."""
        return self.of

    @property
    def neighbors_name(self) -> str:
        """Return the name of the neighbors that the graph joins."""
        return f"neighbors_{self.graph_source}_{self._limit}"

    @property
    def _limit(self) -> str:
        return str(self.n_neighbors) if self.threshold is None else f"above_{self.threshold}"

    @property
    def eigenmaps_name(self) -> str:
        """Return the name of the eigenvectors of the graph."""
        parts = (self.graph_source, self._limit, self.affinity, self.symmetry, self.n_components)
        return "eigenmaps_" + "_".join(map(str, (*parts, self.random_state)))


class LPPRecipe(GraphRecipe):
    """`[recipes.NAME]`: locality preserving projection."""

    graph_of: str | None = None
    """The recipe whose space the neighbors are sought in; by default the one that `of` names."""
    solver: Solver = "spectral_regression"
    """How LPP is solved: by regression on the graph's eigenvectors, or as an eigenproblem after PCA."""
    svd_components: int | None = Field(default=None, ge=1)
    """The singular vectors of the PCA before the eigenproblem, as many as n_components at least."""
    alpha: float = Field(default=0.01, gt=0)
    """The ridge of the regression of LPP."""
    constant_column: bool = False
    """Whether the regression has a column of ones, as the program of its authors has."""
    unit_rows: bool = False
    """Whether rows are brought to unit length before the regression."""

    @model_validator(mode="after")
    def _solver_has_the_options(self) -> Self:
        if self.uses_eigenmaps:
            if self.svd_components is not None:
                raise ValueError('svd_components belongs to solver = "eigen"; leave it out')
            return self
        if self.constant_column:
            raise ValueError('constant_column belongs to the regression: leave it out with solver = "eigen"')
        if self.svd_components is None or self.svd_components < self.n_components:
            raise ValueError(
                f'solver = "eigen" needs svd_components, {self.n_components} (n_components) or more; it is '
                f"{self.svd_components}"
            )
        return self

    @property
    def uses_eigenmaps(self) -> bool:
        """Return whether the space is made from the eigenvectors of its graph."""
        return self.solver == "spectral_regression"

    @property
    def graph_source(self) -> str:
        """Return the space whose neighbors the graph joins."""
        return self.graph_of or self.of

    @property
    def sources(self) -> tuple[str, ...]:
        """Return the tables of counts and the recipes that it starts from."""
        return (self.of, self.graph_source)


class EigenmapsRecipe(GraphRecipe):
    """`[recipes.NAME]`: eigenvectors of the graph of neighbors."""


Recipe = Annotated[
    Annotated[CountsRecipe, Tag("counts")]
    | Annotated[PPMIRecipe, Tag("ppmi")]
    | Annotated[TfIdfRecipe, Tag("tf_idf")]
    | Annotated[LogEntropyRecipe, Tag("log_entropy")]
    | Annotated[LSARecipe, Tag("lsa")]
    | Annotated[LPPRecipe, Tag("lpp")]
    | Annotated[EigenmapsRecipe, Tag("eigenmaps")],
    chosen_by("method"),
]
"""A recipe: its method says which options it has."""

RECIPES: dict[str, type[RecipeSection]] = tagged(Recipe)
"""The section of each method."""

R = TypeVar("R", bound=RecipeSection)


class WordSpacesSection(Section):
    """`[wordspaces]`: which recipes are made and scored, in the order of the tables; by default all.

    The space named by `vectors`, a dense one, is what `distembed neighbors` and `distembed export` read.
    `n_components` is that of recipes that do not say.
    """

    spaces: tuple[str, ...] = ()
    """The recipes that are made and scored, in the order of the tables; by default all."""
    n_components: int = Field(default=300, ge=1)
    """The dimensions of recipes that do not say."""
    vectors: str | None = None
    """The recipe that `distembed neighbors` and `distembed export` read."""


class ScoringSection(Section):
    """`[evaluation]` of word spaces: the sets, and whether their words are in the vocabulary however rare."""

    sets: tuple[InputPath, ...] = ()
    """Files or folders of evaluation sets."""
    case: Case = "auto"
    """How the words of the sets are looked up: "auto" as they are written and then in lower case."""
    keep_words: bool = True
    """Whether the words of the sets are in the vocabulary however rare they are."""
    dimensions: tuple[Annotated[int, Field(ge=1)], ...] = ()
    """Numbers of dimensions: of each dense space that has more, the first so many are scored as well."""


class SpaceMatricesSection(WordMatricesSection):
    """`[matrices]` of word spaces."""

    keep: tuple[Literal["distances"], ...] = ()
    """The matrices that are kept: the distances between all words in the space that `wordspaces.vectors` names."""


class WordSpacesJob(CorpusJob):
    """A job of `system = "wordspaces"`: a corpus in, many word spaces and their scores out."""

    first_keys = ("vocabulary.min_count", "wordspaces.n_components", "evaluation.sets", "report.words")

    contexts: CountingSection = CountingSection()
    bigrams: LeftCountingSection = LeftCountingSection()
    hal: HalSection = HalSection()
    recipes: dict[Annotated[str, Field(pattern=r"^[a-z0-9_]+$")], Recipe] = Field(min_length=1)
    wordspaces: WordSpacesSection = WordSpacesSection()
    matrices: SpaceMatricesSection = SpaceMatricesSection()
    evaluation: ScoringSection = ScoringSection()
    report: ListsSection = ListsSection()

    @model_validator(mode="before")
    @classmethod
    def _components_of_all(cls, tree: Any) -> Any:
        """Give recipes without a number of components that of `[wordspaces]`."""
        try:
            default = tree.get("wordspaces", {}).get("n_components")
            return {
                **tree,
                "recipes": {
                    name: _with_components(recipe, default) for name, recipe in tree["recipes"].items()
                },
            }
        except (KeyError, TypeError, AttributeError):  # nothing to give, or a fault that the fields will name
            return tree

    @model_validator(mode="after")
    def _recipes_fit_together(self) -> Self:
        for name in self.wordspaces.spaces:
            if name not in self.recipes:
                raise ValueError(f"wordspaces.spaces names {name!r}, {_nearest(name, self.recipes)}")
        for name, recipe in self.recipes.items():
            _check_sources(name, recipe, self.recipes)
        vectors, needed = self.wordspaces.vectors, self.needed()
        if self.matrices.keep and vectors is None:
            raise ValueError(
                'matrices.keep = ["distances"] needs wordspaces.vectors, the space whose words are compared: give it'
            )
        if vectors is not None and (
            vectors not in needed or not isinstance(self.recipes[vectors], ReducedRecipe)
        ):
            dense = [name for name in needed if isinstance(self.recipes[name], ReducedRecipe)]
            raise ValueError(
                f"wordspaces.vectors is {vectors!r}; name a dense space of the job: {', '.join(dense)}"
            )
        return self

    @property
    def spaces(self) -> tuple[str, ...]:
        """Return the recipes whose spaces are scored."""
        return tuple(dict.fromkeys(self.wordspaces.spaces or self.recipes))

    def recipe(self, name: str, kind: type[R]) -> R:
        """Return a recipe that is known to be of a kind."""
        found = self.recipes[name]
        assert isinstance(found, kind)
        return found

    @property
    def tables(self) -> tuple[str, ...]:
        """Return the tables of counts that recipes are made of."""
        return tuple({self.recipes[name].of for name in self.needed()} & COUNTED.keys())

    def dimensions_of(self, name: str) -> list[int]:
        """Return how many components of a space are scored, rising: each number asked for that is less than all."""
        recipe = self.recipes[name]
        most = recipe.n_components if isinstance(recipe, ReducedRecipe) else 0
        return [k for k in sorted({*self.evaluation.dimensions}) if k < most]

    def scored(self, name: str) -> list[str]:
        """Return what the scores of a space are called: those of its first components, then those of all."""
        return [*(f"{name}-{k}" for k in self.dimensions_of(name)), name]

    def title_of(self, name: str) -> str:
        """Return what tables call a space, or "lsa-50", the first 50 components of the space of a recipe "lsa"."""
        recipe, _, k = name.partition("-")
        title = self.recipes[recipe].title or recipe
        return f"{title}, {k}" if k else title

    def needed(self) -> tuple[str, ...]:
        """Return the recipes to make, those that others start from first."""
        order: dict[str, None] = {}
        for name in self.spaces:
            self._add_needed(name, order, ())
        return tuple(order)

    def _add_needed(self, name: str, order: dict[str, None], path: tuple[str, ...]) -> None:
        if name in path:
            raise ValueError(f"recipes.{name} starts from itself: {' <- '.join([*path, name])}")
        for source in self.recipes[name].sources:
            if source not in COUNTED:
                self._add_needed(source, order, (*path, name))
        order[name] = None


def _with_components(recipe: dict[str, Any], default: int | None) -> dict[str, Any]:
    reduces = issubclass(RECIPES.get(recipe.get("method", ""), RecipeSection), ReducedRecipe)
    return {"n_components": default, **recipe} if reduces and default is not None else recipe


def _check_sources(name: str, recipe: Recipe, recipes: dict[str, Recipe]) -> None:
    if name in COUNTED:
        raise ValueError(f"recipes.{name} bears the name of a table of counts; choose another name")
    if recipe.of in COUNTED:
        allowed = COUNTED[recipe.of]
    else:
        counting = {method for methods in COUNTED.values() for method in methods}
        allowed = tuple(method for method in RECIPES if method not in counting)
    for source in recipe.sources:
        if source not in recipes and source not in COUNTED:
            raise ValueError(
                f"recipes.{name} starts from {source!r}, {_nearest(source, [*recipes, *COUNTED])}"
            )
    if recipe.method not in allowed:
        raise ValueError(
            f"recipes.{name} makes {recipe.method!r} of {recipe.of!r}; of that there is {', '.join(allowed)}"
        )
    if (
        isinstance(recipe, LSARecipe)
        and recipe.add_contexts
        and not _has_word_columns(recipes.get(recipe.of))
    ):
        raise ValueError(
            f"recipes.{name}: add_contexts = true needs columns that are the words of the rows, which those of "
            f"{recipe.of!r} are not: start from a recipe of {' or '.join(WORD_COLUMNS)} with all its columns"
        )
    if isinstance(recipe, LPPRecipe) and recipe.graph_source in COUNTED:
        raise ValueError(
            f"recipes.{name}: graph_of = {recipe.graph_of!r} is a table of counts; name a recipe"
        )


def _has_word_columns(recipe: Recipe | None) -> bool:
    """Return whether the columns of the space of a recipe are the words of its rows."""
    return (
        isinstance(recipe, ColumnsRecipe)
        and recipe.of in WORD_COLUMNS
        and (recipe.n_columns, recipe.stop_words) == (None, "keep")
    )


def _nearest(name: str, known: Iterable[str]) -> str:
    """Return a sentence that there is no such recipe, and which is spelled most like it."""
    known = list(known)
    advice = did_you_mean(name, known, otherwise=f"there are {', '.join(known)}", alike=0.4)
    return f"which is not there; {advice}"
