"""The job file of word spaces: recipes for spaces, and how they are scored."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from distembed.counting.cooccurrence import count_cooccurrences
from distembed.evaluation.scoring import Case
from distembed.job.model import InputPath, ListsSection, Section, section_of
from distembed.spelling import did_you_mean
from distembed.stages.corpus_sections import NOT_COUNTED_BY, CorpusJob, CountingSection
from distembed.stages.kept_matrices import WordMatricesSection
from distembed.systems.wordspaces.recipes import (
    COUNTED,
    RECIPES,
    CountsRecipe,
    LPPRecipe,
    LSARecipe,
    Recipe,
    ReducedRecipe,
)


@section_of(count_cooccurrences, exclude=NOT_COUNTED_BY, defaults={"window": 10, "weighting": "ramp"})
class HalSection(CountingSection):
    """`[hal]`: what HAL counts after a word; what occurs before it is counted in the same way."""

    direction: Literal["left"] = "left"


LPP = {"method": "lpp", "unit_rows": True, "alpha": 1.0}
PRESETS: Mapping[str, Mapping[str, Mapping[str, Any]]] = {
    "best": {"wordspaces": {"vectors": "lsa"}},
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
            default, recipes = tree["wordspaces"]["n_components"], tree["recipes"]
            kinds = {name: RECIPES.get(recipe.get("method"), Section) for name, recipe in recipes.items()}
            reduced = (name for name, kind in kinds.items() if issubclass(kind, ReducedRecipe))
            own = {name: {"n_components": default, **recipes[name]} for name in reduced}
        except (KeyError, TypeError, AttributeError):  # nothing to give, or a fault that the fields will name
            return tree
        return {**tree, "recipes": {**recipes, **own}}

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

    def scored(self, name: str) -> dict[str, int]:
        """Return what the scores of a space are called, and their components: its first so many, rising, then all."""
        recipe = self.recipes[name]
        most = recipe.n_components if isinstance(recipe, ReducedRecipe) else 0
        return {**{f"{name}-{k}": k for k in sorted({*self.evaluation.dimensions}) if k < most}, name: most}

    def title_of(self, name: str) -> str:
        """Return what tables call a space, or "lsa-50", the first 50 components of the space of a recipe "lsa"."""
        recipe, _, k = name.partition("-")
        title = self.recipes[recipe].title or recipe
        return f"{title}, {k}" if k else title

    def needed(self, names: Iterable[str] | None = None, path: tuple[str, ...] = ()) -> tuple[str, ...]:
        """Return the recipes to make, by default for all spaces that are scored: those that others start from first."""
        order: list[str] = []
        for name in self.spaces if names is None else names:
            if name in path:
                raise ValueError(f"recipes.{name} starts from itself: {' <- '.join([*path, name])}")
            sources = [source for source in self.recipes[name].sources if source not in COUNTED]
            order += [*self.needed(sources, (*path, name)), name]
        return tuple(dict.fromkeys(order))


def _check_sources(name: str, recipe: Recipe, recipes: dict[str, Recipe]) -> None:
    if name in COUNTED:
        raise ValueError(f"recipes.{name} bears the name of a table of counts; choose another name")
    if recipe.of in COUNTED:
        allowed = COUNTED[recipe.of]
    else:
        counting = {method for methods in COUNTED.values() for method in methods}
        allowed = tuple(method for method in RECIPES if method not in counting)
    for known in recipe.sources:
        if known not in recipes and known not in COUNTED:
            raise ValueError(f"recipes.{name} starts from {known!r}, {_nearest(known, [*recipes, *COUNTED])}")
    if recipe.method not in allowed:
        raise ValueError(
            f"recipes.{name} makes {recipe.method!r} of {recipe.of!r}; of that there is {', '.join(allowed)}"
        )
    source = recipes.get(recipe.of)
    has_word_columns = (
        isinstance(source, CountsRecipe)
        and source.of == "contexts"
        and (source.n_columns, source.stop_words) == (None, "keep")
    )
    if isinstance(recipe, LSARecipe) and recipe.add_contexts and not has_word_columns:
        raise ValueError(
            f"recipes.{name}: add_contexts = true needs columns that are the words of the rows, which those of "
            f"{recipe.of!r} are not: start from a recipe of contexts with all its columns"
        )
    if isinstance(recipe, LPPRecipe) and recipe.graph_source in COUNTED:
        raise ValueError(
            f"recipes.{name}: graph_of = {recipe.graph_of!r} is a table of counts; name a recipe"
        )


def _nearest(name: str, known: Iterable[str]) -> str:
    """Return a sentence that there is no such recipe, and which is spelled most like it."""
    known = list(known)
    advice = did_you_mean(name, known, otherwise=f"there are {', '.join(known)}", alike=0.4)
    return f"which is not there; {advice}"
