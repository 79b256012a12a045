"""The views of a psdvec job: further ways of counting its text, or finished vectors.

A view that counts the text has two stages: its pairs are counted, and vectors are made of them. Finished vectors take
one. The stage `joined` of `distembed.systems.psdvec.stages` puts them together.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from typing import Any

import dask.array as da
import numpy as np
import pyarrow as pa

from distembed.counting.cooccurrence_options import CooccurrenceOptions
from distembed.factorization.context_vectors import OVERSAMPLING, PMIWeights, context_vectors
from distembed.factorization.psdvec import PSDVec
from distembed.factorization.subwords import SubwordMap, expected_ngrams
from distembed.job.inputs import sizes_at
from distembed.job.stage import Context, Counted, StageSpec, vectors_at
from distembed.linalg.operators import count_values
from distembed.plan import Dimension, Dimensions, StagePlan, stage_plan
from distembed.stages.core import blocks_of_rows, core_dimensions, plan_of_core
from distembed.stages.corpus import count_pairs, plan_counts, vocabulary_of
from distembed.stages.corpus_sections import COUNTING_OPTIONS, counting_options
from distembed.stages.dimensions import (
    BLOCK_PAIR_BYTES,
    CorpusSizes,
    corpus_dimensions,
    described,
    pair_dimension,
)
from distembed.stages.singular import plan_of_triplets
from distembed.systems.psdvec import outputs
from distembed.systems.psdvec.job import CountedView, FileView, PPMIView, PSDVecJob, PSDVecView
from distembed.weighting.spaces import directional_contexts

OF_THE_JOIN = {"weight", "regularization"}
"""The keys of a view that its own vectors do not depend on."""

# --- tokens -> counts ------------------------------------------------------------------------------------------


def counting_of(job: PSDVecJob, name: str) -> CooccurrenceOptions:
    """Return what counts as a co-occurrence in a view."""
    view = job.views[name]
    assert isinstance(view, CountedView)
    return view.counting_options()


def counting_parameters(job: PSDVecJob, *, name: str) -> dict[str, Any]:
    """Return how a view is counted, and the memory of a block, which lays the grid."""
    return {"counting": asdict(counting_of(job, name))}


def run_counts(ctx: Context, *, name: str) -> dict[str, Any]:
    """Count the pairs of words of a view, row block by row block.

    Raises
    ------
    ValueError
        If no pair was counted.
    """
    output = outputs.VIEW_COUNTS.of(view=name)
    n_nonzero = count_values(ctx.store(output, count_pairs(ctx, output.name, counting_of(ctx.job, name))))
    if not n_nonzero:
        raise ValueError(
            f"views.{name} counts no pair of words: raise views.{name}.window or views.{name}.subsample, or leave the "
            "view out"
        )
    return {"n_nonzero": n_nonzero}


# --- counts -> vectors -----------------------------------------------------------------------------------------


def vectors_parameters(job: PSDVecJob, *, name: str) -> dict[str, Any]:
    """Return the options of a view that its vectors depend on beside its counts."""
    return {"view": job.views[name].model_dump(mode="json", exclude=OF_THE_JOIN | COUNTING_OPTIONS)}


def contexts_of(counts: da.Array, view: PPMIView) -> da.Array:
    """Return the counts of words with their contexts: those of either side apart, if the view tells sides apart."""
    return counts if view.direction == "symmetric" else directional_contexts(counts)


def plan_ppmi(job: PSDVecJob, dims: Dimensions, *, name: str) -> StagePlan:
    """Return the plan of weighing the contexts of a view, and of their singular vectors."""
    view, stage = job.views[name], counts_stage(name)
    assert isinstance(view, PPMIView)
    return plan_of_triplets(
        dims,
        view.n_components,
        rows=f"{stage}_row",
        columns=f"{stage}_context",
        values=stage,
        n_passes=view.n_passes,
        oversampling=OVERSAMPLING,
    )


def run_ppmi(ctx: Context, *, name: str) -> dict[str, Any]:
    """Store the left singular vectors of the positive PMI of words with their contexts, and what later words need."""
    view: PPMIView = ctx.job.views[name]
    found = context_vectors(
        contexts_of(outputs.VIEW_COUNTS.read(ctx.workspace, view=name), view),
        view.n_components,
        weights=weights_of_pmi(view),
        exponent=view.exponent,
        n_passes=view.n_passes,
        random_state=view.random_state,
    )
    ctx.store(outputs.VIEW_VECTORS.of(view=name), found.vectors)
    ctx.store(outputs.VIEW_AXES.of(view=name), da.from_array(found.axes, chunks=("auto", -1)))
    ctx.store_table(outputs.VIEW_TOTALS.of(view=name), pa.table({"n_pairs": found.totals}))
    return {"residual": found.residual}


def weights_of_pmi(view: PPMIView) -> PMIWeights:
    """Return how a view weighs its counts."""
    return PMIWeights(view.context_smoothing, view.negative_samples)


def psdvec_of_view(view: PSDVecView) -> PSDVec:
    """Return the estimator of a view."""
    return PSDVec(**view.model_dump(exclude={"method"} | OF_THE_JOIN | COUNTING_OPTIONS))


def plan_psdvec(job: PSDVecJob, dims: Dimensions, *, name: str) -> StagePlan:
    """Return the plan of PSDVec with all words in its core."""
    view, stage = job.views[name], counts_stage(name)
    assert isinstance(view, PSDVecView)
    return plan_of_core(psdvec_of_view(view), dims, core=f"{stage}_row", pair=stage)


def run_psdvec(ctx: Context, *, name: str) -> dict[str, Any]:
    """Store the vectors of PSDVec of the counts of a view, with all words in its core."""
    model = psdvec_of_view(ctx.job.views[name])
    counts = outputs.VIEW_COUNTS.read(ctx.workspace, view=name)
    model.fit(counts, vocabulary_of(ctx.workspace).counts)
    ctx.store(outputs.VIEW_VECTORS.of(view=name), da.asarray(model.vectors_))
    return {}


# --- finished vectors ------------------------------------------------------------------------------------------


def file_parameters(job: PSDVecJob, *, name: str) -> dict[str, Any]:
    """Return the place of the finished vectors, which the run stamps."""
    return {"view": job.views[name].model_dump(mode="json", exclude=OF_THE_JOIN)}


def plan_file(job: PSDVecJob, dims: Dimensions, *, name: str) -> StagePlan:
    """Return the plan of reading finished vectors and storing those of the vocabulary."""
    view = job.views[name]
    assert isinstance(view, FileView)
    n_bytes, kept = (
        sum(int(stamp[0]) for stamp in sizes_at(view.path).values()),
        dims.whole("word", width_of(view)),
    )
    return stage_plan(whole=[n_bytes, kept], stored=kept)


def check_file(job: PSDVecJob, *, name: str) -> list[str]:
    """Open the finished vectors of a view, and return how long they are."""
    return [f"views.{name}: vectors of {width_of(job.views[name])} dimensions"]


def run_file(ctx: Context, *, name: str) -> dict[str, Any]:
    """Store the finished vectors of the words of the vocabulary; words that the file lacks have zeros.

    Raises
    ------
    ValueError
        If it has none of them.
    """
    path, words = ctx.job.views[name].path, vocabulary_of(ctx.workspace).words
    found = vectors_at(path)
    rows = found.index(words)
    is_known = rows >= 0
    if not is_known.any():
        raise ValueError(
            f"views.{name}: {path} has none of the {len(words):,} words of the vocabulary: are they of one language, "
            "and written in one case?"
        )
    vectors = np.zeros((len(words), found.vectors.shape[1]), np.float32)
    vectors[is_known] = found.vectors[rows[is_known]]
    ctx.store(outputs.VIEW_VECTORS.of(view=name), da.from_array(vectors, chunks=("auto", -1)))
    return {"n_known": int(is_known.sum())}


def width_of(view: Any) -> int:
    """Return the dimensions of the vectors of a view."""
    if isinstance(view, FileView):
        return int(vectors_at(view.path, max_words=1).vectors.shape[1])
    return int(view.n_components)


# --- which stages ----------------------------------------------------------------------------------------------

MADE: dict[type, tuple[Callable[..., Any], Callable[..., StagePlan]]] = {
    PPMIView: (run_ppmi, plan_ppmi),
    PSDVecView: (run_psdvec, plan_psdvec),
}
"""What makes the vectors of each kind of view that counts the text, and their plan."""


def view_stages(job: PSDVecJob) -> list[StageSpec]:
    """Return the stages of all views, each after those it reads."""
    return [spec for name, view in job.views.items() for spec in _stages_of(name, view)]


def _stages_of(name: str, view: Any) -> list[StageSpec]:
    """Return the stages of a view; each of their functions takes its name."""
    of = partial(partial, name=name)
    made, vectors_inputs = vectors_stage(name), (counts_stage(name), "vocabulary")
    if isinstance(view, FileView):
        check = of(check_file)
        return [StageSpec(made, ("vocabulary",), of(file_parameters), of(run_file), of(plan_file), check)]
    run, plan = MADE[type(view)]
    counts, plan_pairs = counts_stage(name), partial(plan_counts, pair=counts_stage(name))
    return [
        StageSpec(counts, ("tokens", "vocabulary"), of(counting_parameters), of(run_counts), plan_pairs),
        StageSpec(made, vectors_inputs, of(vectors_parameters), of(run), of(plan)),
    ]


def psdvec_dimensions(job: PSDVecJob, counted: Counted | None) -> Dimensions:
    """Return the dimensions of a job: of its corpus, its pairs, and those of each view that counts the text."""
    corpus, block_memory = corpus_dimensions(job, counted), job.resources.block_memory
    word, pair = corpus.dimensions["word"], pair_dimension(corpus, counting_options(job), counted)
    dimensions = corpus.dimensions | {"pair": pair} | core_dimensions(job.psdvec, word, pair, block_memory)
    dimensions |= _noncore_dimensions(job, corpus, dimensions)
    values = block_memory // BLOCK_PAIR_BYTES
    for name, view in job.views.items():
        if isinstance(view, CountedView):
            stage = counts_stage(name)
            found = pair_dimension(corpus, counting_of(job, name), counted, stage)
            n_sides = 2 if isinstance(view, PPMIView) and view.direction != "symmetric" else 1
            rows = blocks_of_rows(word.size, found.size, values, found.counted)
            dimensions |= {
                stage: Dimension(n_sides * found.size, n_sides * found.block, found.counted),
                f"{stage}_row": rows,
                f"{stage}_context": Dimension(n_sides * rows.size, n_sides * rows.block, rows.counted),
            }
    most_rows = max(dimensions["core"].block, dimensions["noncore"].block)
    options = job.subwords.model_dump(include={"min_n", "max_n"})
    ngrams = {
        name: round(n) for name, n in expected_ngrams(SubwordMap(**options), word.size)._asdict().items()
    }
    return described(
        dimensions
        | {
            "row": Dimension(word.size, most_rows, word.counted),
            "ngram": Dimension(ngrams["kept"], ngrams["kept"], counted=False),
            "ngram_of_word": Dimension(ngrams["found"], 1, counted=False),
        }
    )


def _noncore_dimensions(
    job: PSDVecJob, corpus: CorpusSizes, dimensions: dict[str, Dimension]
) -> dict[str, Dimension]:
    """Return the noncore words and their pairs with core words in either order.

    A word that occurs c times has at most 2 c times as many of them as the window has places, or two with each word of
    the core. The first batch has the most frequent words.
    """
    n_core, pair, options = dimensions["core"].size, dimensions["pair"], counting_options(job)
    places = 2 * options.window * (2 if options.direction == "symmetric" else 1)
    most = np.minimum(places * corpus.counts[n_core:], 2 * n_core)
    n_words, batch = dimensions["word"].size - n_core, job.psdvec.batch_words
    n_pairs = min(pair.size, round(float(most.sum())))
    of_batch = min(n_pairs, round(float(most[:batch].sum())))
    return {
        "noncore": Dimension(n_words, min(n_words, batch), dimensions["word"].counted),
        "noncore_pair": Dimension(n_pairs, of_batch, pair.counted),
    }


def counts_stage(view: str) -> str:
    """Return the name of the stage that adds up the counts of a view."""
    return f"view_{view}_counts"


def vectors_stage(view: str) -> str:
    """Return the name of the stage that makes the vectors of a view."""
    return f"view_{view}"
