"""The dimensions of a psdvec job: its corpus, its pairs, its core, and the pairs of its sides."""

from __future__ import annotations

import numpy as np

from distembed.factorization.subwords import SubwordMap, expected_ngrams
from distembed.job.stage import Counted
from distembed.linalg.singular import check_rank
from distembed.plan import Dimension, Dimensions
from distembed.stages.core import blocks_of_rows, core_dimensions
from distembed.stages.corpus_sections import counting_options
from distembed.stages.dimensions import (
    BLOCK_PAIR_BYTES,
    CorpusSizes,
    corpus_dimensions,
    described,
    pair_dimension,
)
from distembed.systems.psdvec.job import PSDVecJob


def psdvec_dimensions(job: PSDVecJob, counted: Counted | None) -> Dimensions:
    """Return the dimensions of a job: of its corpus, its pairs, and those of its sides."""
    corpus, block_memory = corpus_dimensions(job, counted), job.resources.block_memory
    word, pair = corpus.dimensions["word"], pair_dimension(corpus, counting_options(job), counted)
    dimensions = corpus.dimensions | {"pair": pair} | core_dimensions(job.psdvec, word, pair, block_memory)
    dimensions |= _noncore_dimensions(job, corpus, dimensions)
    if job.sides is not None:
        if word.counted:
            check_rank(job.sides.n_components, word.size, 2 * word.size)
        found = pair_dimension(corpus, job.sides.counting_options(), counted, "sides_counts")
        rows = blocks_of_rows(word.size, found.size, block_memory // BLOCK_PAIR_BYTES, found.counted)
        dimensions |= {  # of the words on the left and on the right
            "side_pair": Dimension(2 * found.size, 2 * found.block, found.counted),
            "side_row": rows,
            "side_context": Dimension(2 * rows.size, 2 * rows.block, rows.counted),
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
