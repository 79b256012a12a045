"""The recipes of word spaces: a class for each method, with its options, how it makes the space, and what that takes.

A recipe makes a space of counts, or of another recipe's space, lazily. The graphs of neighbors are those that stages of
their own have stored.
"""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Callable
from typing import Annotated, Any, Literal, Self

import dask.array as da
import numpy as np
import scipy.sparse as sp
from pydantic import Field, Tag, model_validator

from distembed.corpus.stop_words import Language, stop_words_of
from distembed.factorization.lsa import LSA, with_contexts
from distembed.job.model import OPTION, Section, chosen_by, section_of, tagged
from distembed.job.stage import Context
from distembed.lift import lift
from distembed.linalg.blocks import split_columns, stack_columns
from distembed.linalg.chunks import STORED_BYTES, cut_rows
from distembed.linalg.csr import unit_rows
from distembed.linalg.operators import transpose_row_blocks, whole_csr
from distembed.manifold import projection
from distembed.manifold.eigenmaps import laplacian_eigenmaps
from distembed.neighbors.graphs import Symmetry
from distembed.plan import Dimensions, StagePlan, in_turn, stage_plan, task
from distembed.stages import outputs as corpus_outputs
from distembed.stages.corpus import vocabulary_of
from distembed.stages.dimensions import PAIR_BYTES
from distembed.stages.graphs import plan_of_eigenmaps, plan_of_ridge
from distembed.stages.singular import plan_of_triplets
from distembed.systems.wordspaces import outputs
from distembed.weighting import blocks as weighting_blocks
from distembed.weighting.documents import log_entropy, tf_idf
from distembed.weighting.pmi import chosen_columns, directional_contexts, ppmi

COUNTED: dict[str, tuple[str, ...]] = {
    "documents": ("counts", "tf_idf", "log_entropy"),
    "contexts": ("counts", "ppmi"),
    "hal": ("counts", "ppmi"),
}
"""The kinds of counts, and the methods that make a space of each; the other methods reduce a space."""

TABLES = {"documents": "document_terms", "contexts": "contexts", "hal": "hal"}
"""The stored table of each kind of counts, and its stage; HAL has its transpose beside it."""

WEIGHTS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "tf_idf": (tf_idf, weighting_blocks.weigh_tf_idf),
    "log_entropy": (log_entropy, weighting_blocks.weigh_log_entropy),
    "ppmi": (ppmi, weighting_blocks.pmi),
}
"""What weighs counts, and its function of a block. Documents of tf-idf have unit length: idf alone scales whole rows
here, which no cosine of words can see."""

DOCUMENT_BLOCKS, COUNT_BLOCKS = 4, 8
"""Shares of the memory of a task that a row block of a space has: of words by documents, and of words by words."""


class RecipeSection(Section):
    """`[recipes.NAME]`: a space, made of counts or of another recipe's space by one method."""

    of: str
    """What the space is made of: documents, contexts, hal, or the name of another recipe."""
    method: str
    """How it is made."""
    title: str = ""
    """What tables call it; by default its name."""

    @property
    def sources(self) -> tuple[str, ...]:
        """Return the kinds of counts and the recipes that it starts from."""
        return (self.of,)

    def root(self, job: Any) -> str:
        """Return the kind of counts that the space comes from."""
        return self.of if self.of in COUNTED else str(job.recipes[self.of].root(job))

    def source(self, ctx: Context) -> da.Array:
        """Return the counts or the space that it starts from."""
        if self.of == "documents":
            return corpus_outputs.DOCUMENT_TERMS.read(ctx.workspace)
        if self.of not in COUNTED:
            return outputs.SPACE.read(ctx.workspace, recipe=self.of)
        counts = outputs.TABLE.read(ctx.workspace, table=TABLES[self.of])
        return directional_contexts(counts) if self.of == "hal" else counts

    @abstractmethod
    def make(self, ctx: Context) -> da.Array:
        """Return the space, lazily."""

    @abstractmethod
    def plan(self, job: Any, dims: Dimensions) -> StagePlan:
        """Return the plan of making the space."""

    def columns(self, job: Any, dims: Dimensions) -> tuple[int, str]:
        """Return the number of columns of the space, and the dimension of its stored values, "" where it is dense."""
        return dims.size(f"{self.root(job)}_column"), self.root(job)

    def n_bytes(self, job: Any, dims: Dimensions) -> int:
        """Return the bytes of the space: a sparse one has at most as many values as its counts."""
        width, values = self.columns(job, dims)
        return dims.whole(values, itemsize=PAIR_BYTES) if values else dims.whole("word", width)


class CountedRecipe(RecipeSection):
    """`[recipes.NAME]`: counts of words in documents, weighted by tf-idf, or by logarithms and the words' entropy."""

    def weighed(self, ctx: Context, **options: float) -> da.Array:
        """Return the counts, weighted by the method if it weighs them."""
        counts = self.source(ctx)
        return WEIGHTS[self.method][0](counts, **options) if self.method in WEIGHTS else counts

    def make(self, ctx: Context) -> da.Array:
        """Return the weighted counts of documents, turned to a row for each word, in blocks of about equal bytes."""
        # a task holds the pieces of its block, and the block they make
        values = ctx.job.resources.block_memory // (2 * STORED_BYTES * DOCUMENT_BLOCKS)
        chunks = cut_rows(vocabulary_of(ctx.workspace).document_counts, values)
        return transpose_row_blocks(self.weighed(ctx), row_chunks=chunks)

    def plan(self, job: Any, dims: Dimensions) -> StagePlan:
        """Return the plan of functions of a block of counts, which need to know the sums of all words.

        All documents, and all counts of HAL, are in memory in pieces while they are turned.
        """
        kind, is_turned = self.root(job), self.of in {"documents", "hal"}
        block, sums = dims.block(kind, itemsize=PAIR_BYTES), dims.whole(f"{kind}_column", 2, itemsize=8)
        functions = [WEIGHTS[self.method][1]] if self.method in WEIGHTS else []
        functions += [split_columns, stack_columns] if is_turned else []
        functions += [weighting_blocks.chosen_columns] if self.of != "documents" else []
        return stage_plan(
            *(task(function, block, sums, output=block) for function in functions),
            whole=[dims.whole(2, kind, itemsize=PAIR_BYTES)] if is_turned else [],
            stored=dims.whole(kind, itemsize=PAIR_BYTES),
            n_tasks=dims.n_blocks(kind),
        )


class CountsRecipe(CountedRecipe):
    """`[recipes.NAME]`: counts as they are."""

    n_columns: int | None = Field(default=None, ge=1)
    """Keep so many columns, those of the highest entropy; by default all."""
    stop_words: Literal["keep", "drop"] | Language = "keep"
    """Whether to "keep" or "drop" the columns of English function words; or the language of those that are dropped."""

    def make(self, ctx: Context) -> da.Array:
        """Return the weighted counts: of words near each other the columns that are kept."""
        if self.of == "documents":
            return super().make(ctx)
        language = {"keep": "none", "drop": "english"}.get(self.stop_words, self.stop_words)
        made, words = self.weighed(ctx), vocabulary_of(ctx.workspace).words
        return chosen_columns(made, words, n_columns=self.n_columns, without=stop_words_of(language))


class PPMIRecipe(CountsRecipe):
    """`[recipes.NAME]`: positive pointwise mutual information."""

    context_smoothing: float = Field(default=1.0, gt=0)
    """The power of the context counts in positive PMI; 0.75 is common."""
    negative_samples: float = Field(default=1.0, gt=0)
    """N, by whose logarithm positive PMI is lowered before it is cut off at zero; 1 lowers nothing, 5 is common."""

    def weighed(self, ctx: Context, **_options: float) -> da.Array:
        """Return positive PMI."""
        return super().weighed(ctx, **self.model_dump(include={"context_smoothing", "negative_samples"}))


class ReducedRecipe(RecipeSection):
    """A dense space."""

    n_components: int = Field(default=300, ge=1)
    """The dimensions of the space."""

    def columns(self, job: Any, dims: Dimensions) -> tuple[int, str]:  # noqa: ARG002
        """Return the number of columns of the space, which is dense."""
        return self.n_components, ""

    def plan_triplets(self, job: Any, dims: Dimensions, k: int, **of_search: Any) -> StagePlan:
        """Return the plan of k singular triplets of what the space starts from."""
        kind = self.root(job)
        rows, columns = f"{kind}_row", f"{kind}_column"
        return plan_of_triplets(dims, k, rows=rows, columns=columns, values=kind, **of_search)


@section_of(
    LSA,
    exclude=dict.fromkeys(
        ("n_passes", "oversampling", "tol"),
        "it is how exactly the space is computed, and the library's default is exact enough for scores",
    )
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

    def make(self, ctx: Context) -> da.Array:
        """Return the scores of the words, without the first dimensions."""
        k = self.n_components + self.n_dropped
        model = LSA(k, exponent=self.exponent, random_state=self.random_state)
        made: da.Array = model.fit_transform(self.source(ctx))
        return (with_contexts(model, made) if self.add_contexts else made)[:, self.n_dropped :]

    def plan(self, job: Any, dims: Dimensions) -> StagePlan:
        """Return the plan of the decomposition."""
        k, model = self.n_components + self.n_dropped, LSA()
        search = {"n_passes": model.n_passes, "oversampling": model.oversampling}
        name = "n_components + n_dropped" if self.n_dropped else "n_components"
        return self.plan_triplets(job, dims, k, **search, name=name)


class GraphRecipe(ReducedRecipe):
    """A dense space that starts from a graph of neighbors."""

    n_neighbors: int = Field(default=20, ge=1)
    """The neighbors that each word is joined to in the graph."""
    threshold: float | None = Field(default=None, ge=0, lt=1)
    """Join words with a larger cosine than this instead of the nearest ones."""
    affinity: projection.Affinity = "cosine"
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
    def graph_source(self) -> str:
        """Return the space whose neighbors the graph joins."""
        return self.of

    @property
    def graph_name(self) -> str:
        """Return the name of the graph, and of its stage."""
        limit = self.n_neighbors if self.threshold is None else f"above_{self.threshold}"
        return f"graph_{self.graph_source}_{limit}_{self.affinity}_{self.symmetry}"

    def plan_eigenmaps(self, dims: Dimensions) -> StagePlan:
        """Return the plan of the eigenvectors of the graph."""
        return plan_of_eigenmaps(dims, "word", f"{self.graph_name}_edge", self.n_components)

    def graph(self, ctx: Context) -> sp.csr_array:
        """Return the graph that is stored."""
        return whole_csr(outputs.GRAPH.read(ctx.workspace, graph=self.graph_name))


class LPPRecipe(GraphRecipe):
    """`[recipes.NAME]`: locality preserving projection."""

    graph_of: str | None = None
    """The recipe whose space the neighbors are sought in; by default the one that `of` names."""
    solver: projection.Solver = "spectral_regression"
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
        if self.solver == "spectral_regression":
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
    def graph_source(self) -> str:
        """Return the space whose neighbors the graph joins."""
        return self.graph_of or self.of

    @property
    def sources(self) -> tuple[str, ...]:
        """Return the kinds of counts and the recipes that it starts from."""
        return (self.of, self.graph_source)

    def make(self, ctx: Context) -> da.Array:
        """Return the projected rows."""
        rows = self.source(ctx)
        if self.unit_rows:
            rows = lift(unit_rows, "wc->wc", rows, dtype=np.float64, sparse=sp.issparse(rows._meta))
        options = {"n_components", "solver", "svd_components", "alpha", "constant_column", "random_state"}
        model = projection.LocalityPreservingProjection(**self.model_dump(include=options))
        with warnings.catch_warnings():
            # facts name them
            warnings.filterwarnings("ignore", message=".*rows of X are zero", category=UserWarning)
            made: da.Array = model.fit(rows, graph=self.graph(ctx)).transform(rows)
        return made

    def plan(self, job: Any, dims: Dimensions) -> StagePlan:
        """Return the plan of the graph and the projection."""
        if self.svd_components is not None:
            search = {
                "n_passes": projection.SVD_PASSES,
                "oversampling": projection.SVD_OVERSAMPLING,
                "itemsize": 8,
                "name": "svd_components",
            }
            solved = self.plan_triplets(job, dims, self.svd_components, **search)
        else:
            width, values = job.recipes[self.of].columns(job, dims)
            regression = plan_of_ridge(dims, "word", self.n_components, width=width, values=values)
            solved = in_turn(self.plan_eigenmaps(dims), regression)
        graph = dims.whole(3, f"{self.graph_name}_edge", itemsize=PAIR_BYTES)
        return in_turn(stage_plan(whole=[graph]), solved)._replace(stored_bytes=self.n_bytes(job, dims))


class EigenmapsRecipe(GraphRecipe):
    """`[recipes.NAME]`: eigenvectors of the graph of neighbors."""

    def make(self, ctx: Context) -> da.Array:
        """Return the eigenvectors in row blocks."""
        found = laplacian_eigenmaps(self.graph(ctx), self.n_components, random_state=self.random_state)
        return da.from_array(found.vectors, chunks=(self.source(ctx).chunks[0], -1))

    def plan(self, job: Any, dims: Dimensions) -> StagePlan:
        """Return the plan of the eigenvectors."""
        return self.plan_eigenmaps(dims)._replace(stored_bytes=self.n_bytes(job, dims))


Recipe = Annotated[
    Annotated[CountsRecipe, Tag("counts")]
    | Annotated[PPMIRecipe, Tag("ppmi")]
    | Annotated[CountedRecipe, Tag("tf_idf")]
    | Annotated[CountedRecipe, Tag("log_entropy")]
    | Annotated[LSARecipe, Tag("lsa")]
    | Annotated[LPPRecipe, Tag("lpp")]
    | Annotated[EigenmapsRecipe, Tag("eigenmaps")],
    chosen_by("method"),
]
"""A recipe: its method says which options it has."""

RECIPES: dict[str, type[RecipeSection]] = tagged(Recipe)
"""The section of each method."""
