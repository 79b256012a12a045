"""What the subword map takes in memory and on disk, by estimates of how many n-grams words have."""

from __future__ import annotations

from distembed.costs import Cost, add_costs
from distembed.factorization.subword_blocks import COLUMNS_TOGETHER
from distembed.factorization.subwords import SubwordMap

LENGTHS = 4
"""The lengths of n-grams from 3 to 6, for which the numbers below were measured."""
NGRAMS_PER_WORD, DISTINCT_PER_WORD = 40, 8
"""N-grams of a word, and distinct n-grams per word: 22 and 4.7 for the 80,000 most frequent words of the English
Wikipedia. Of these 1.9 per word stand in two words or more, 1.2 in three, 0.3 in ten: less than 8 over their number."""
NGRAM_BYTES = 24 + 16
"""Of an n-gram of a word while they are found, and in the matrix with its transpose."""
NAME_BYTES = 100
"""Of an n-gram as a string, with its place in the table."""


def ngram_rows(model: SubwordMap, n_words: int) -> int:
    """Return how many n-grams will have a vector."""
    rows = DISTINCT_PER_WORD * n_words * max(1, (model.max_n - model.min_n + 1) / LENGTHS) / model.min_words
    return int(rows)


def table_bytes(model: SubwordMap, n_words: int, n_components: int) -> int:
    """Return the bytes of the vectors of n-grams in memory, with their names."""
    return ngram_rows(model, n_words) * (4 * n_components + NAME_BYTES)


def subword_cost(model: SubwordMap, n_words: int, n_components: int) -> Cost:
    """Return what a fit takes: a task solves a few columns, and all tasks share the n-grams of the words.

    Parameters
    ----------
    model : SubwordMap
    n_words, n_components : int
        The rows and the columns of the vectors of the words.
    """
    rows, n_blocks = ngram_rows(model, n_words), -(-n_components // COLUMNS_TOGETHER)
    lengths = (model.max_n - model.min_n + 1) / LENGTHS
    found = int(NGRAMS_PER_WORD * lengths * n_words * NGRAM_BYTES) + rows * NAME_BYTES
    vectors, columns = 4 * n_words * n_components, min(COLUMNS_TOGETHER, n_components)
    graphs = 4 if model.validation_fraction else 3
    return Cost(
        graphs * n_blocks,
        graphs * vectors,
        4 * rows * n_components,
        columns * (6 * 4 * rows + 20 * n_words),
        found + 2 * vectors,
        graphs,
        exact=False,
    )


def joined_cost(model: SubwordMap | None, n_words: int, n_components: int, n_blocks: int) -> Cost:
    """Return what storing the vectors of all words takes, with the directions of their spelling where a map has them.

    The parts that are solved are on disk; with a map its table is held, and the directions of all words, which are
    stored before tasks read them.
    """
    vectors = 4 * n_words * n_components
    task = 2 * -(-vectors // n_blocks)
    cost = Cost(n_blocks, vectors, vectors, task)
    if model is None:
        return cost
    table = table_bytes(model, n_words, n_components)
    spelling = cost._replace(read_bytes=vectors + table, shared_bytes=table + vectors)
    return add_costs([cost, spelling])
