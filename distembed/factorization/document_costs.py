"""What the factorizations of documents take: non-negative matrices, spherical k-means, the consensus of starts, LDA.

All of them read documents × words (n × d) in row blocks, whole in one task where they are one block.
"""

from __future__ import annotations

from distembed.costs import PAIR_BYTES, Cost
from distembed.factorization.clustering import SphericalKMeans
from distembed.factorization.consensus import POOLED_BYTES, SUM_FAN_IN
from distembed.factorization.document_factors import DocumentFactorization
from distembed.factorization.nmf import NMF, SemanticNMF
from distembed.factorization.nmf_blocks import REGISTER_RANK
from distembed.factorization.nmf_rounds import KMEANS_ROUNDS, SEEDING_SAMPLE

Shape = tuple[int, int]

BLOCK_COPIES = 6
"""Bytes of a task over those of its block of X: as it is read and as it is held, its values in float64 squared or
tested, which are two and a half, and a block scaled to rows of unit length."""
GRAPH_PASSES = 2
"""Products of the graph of the documents with their factors in a round: for the update and for the objective."""
WORD_COPIES = SUM_FAN_IN + 5
"""Arrays of words × topics in a task: partial sums and their total, or those of an update of the word factors."""
SAMPLE_COPIES = 3
"""Copies of the documents that seeds are drawn from: by block, joined, and without those that hold no word."""
POOLED_COPIES = 5
"""Matrices of the size of the cosines of the topics of all starts."""

LDA_COPIES = 12
"""Copies of the weights of words in topics, four bytes each, that a step of online LDA holds."""


def nmf_cost(
    model: DocumentFactorization,
    shape: Shape,
    nnz: int,
    *,
    n_associated: int = 0,
    n_edges: int = 0,
    n_blocks: int = 1,
    n_word_blocks: int = 1,
    is_stored: bool = False,
    block_memory: int,
) -> Cost:
    """Return what a fit takes, with the factors as they are stored, and the labels and words of each start.

    Parameters
    ----------
    model : NMF or SemanticNMF
    shape, nnz : (int, int), int
        The documents and the words of X, and its stored values.
    n_associated : int
        The stored values of M.
    n_edges : int
        The stored values of the graph of the documents, which is in the row blocks of X.
    n_blocks, n_word_blocks : int
        The row blocks of X and of M.
    is_stored : bool
        Whether states lie on disk.
    block_memory : int
        Bytes of a task, of which a block takes a quarter where there are several.
    """
    (n, d), k, itemsize = shape, model.n_components, PAIR_BYTES - 4
    documents, words = itemsize * n * k, 8 * d * k
    state = documents + 2 * words + 8 * k**2
    from_kmeans = model.init == "spherical_kmeans"
    rounds = model.n_init * (model.n_iter + (KMEANS_ROUNDS if from_kmeans else 1))
    in_round = (7 if n_edges else 4) * n_blocks + 2 * n_word_blocks + 6
    matrices = PAIR_BYTES * (nnz + n_associated + GRAPH_PASSES * n_edges)
    has_consensus = model.n_init > 1 and model.choose == "consensus"
    n_pooled = model.n_init * k if has_consensus else 0
    pooled = consensus_cost(d, n_pooled, block_memory=block_memory)
    of_block = max(
        _block_bytes(PAIR_BYTES * nnz, n_blocks, block_memory),
        _block_bytes(PAIR_BYTES * n_associated, n_word_blocks, block_memory) * _shifted_copies(model),
    )
    of_graph = 2 * PAIR_BYTES * n_edges // n_blocks  # and the columns of one block of factors
    dense = (1 + bool(n_edges)) * _document_copies(model) * documents + itemsize * n * (
        REGISTER_RANK if k <= REGISTER_RANK else 0
    )
    in_start = 2 * state + 8 * (1 + model.n_iter)
    kept = model.n_init * in_start + (documents if has_consensus else 0) if is_stored else 0
    result = (itemsize * n + 4 * d) * k + (8 * k**2 if isinstance(model, SemanticNMF) else 0)
    starting = _seeding_bytes(shape, nnz, k, SEEDING_SAMPLE) if from_kmeans else 0
    return Cost(
        1 if n_blocks == n_word_blocks == 1 else in_round * rounds,
        rounds * matrices,
        kept + result + model.n_init * 8 * n + pooled.written_bytes,
        int(BLOCK_COPIES * of_block)
        + of_graph
        + -(-dense // n_blocks)
        + WORD_COPIES * words
        + pooled.task_bytes,
        _held_states(model, is_stored=is_stored) * state + starting + pooled.shared_bytes,
        rounds,
        together=max(n_blocks, n_word_blocks),
    )


def _block_bytes(matrix_bytes: int, n_blocks: int, block_memory: int) -> int:
    return matrix_bytes if n_blocks == 1 else min(block_memory // 4, matrix_bytes)


def _shifted_copies(model: DocumentFactorization) -> float:
    """Return how much more than a block a task holds: of a shifted one its values, and the block that they make."""
    return 1 + 2 / BLOCK_COPIES if isinstance(model, SemanticNMF) and model.shift != 1 else 1


def _document_copies(model: DocumentFactorization) -> int:
    """Return the arrays of documents × topics of an update: as they were, X W, as they are, and a denominator."""
    return 3 if isinstance(model, NMF) and model.solver == "hals" else 4


def _held_states(model: DocumentFactorization, *, is_stored: bool) -> int:
    """Return how many states are in memory: before and after a round, and those of starts to choose among."""
    if model.n_init == 1 or is_stored:
        return 2
    return 2 + (1 if model.choose == "objective" else model.n_init)


def kmeans_cost(
    model: SphericalKMeans,
    shape: Shape,
    nnz: int,
    *,
    n_blocks: int = 1,
    block_memory: int,
) -> Cost:
    """Return what a fit takes, with the centroids and the cosines as they are stored, and the labels of each start.

    Parameters
    ----------
    model : SphericalKMeans
    shape, nnz : (int, int), int
        The documents and the words of X, and its stored values.
    n_blocks : int
        The row blocks of X.
    block_memory : int
        Bytes of a task, of which a block takes a quarter where there are several.
    """
    (n, d), k, itemsize = shape, model.n_clusters, PAIR_BYTES - 4
    rounds, words = model.n_init * model.n_iter, 8 * d * k
    of_block = _block_bytes(PAIR_BYTES * nnz, n_blocks, block_memory)
    cosines = 3 * itemsize * -(-n // n_blocks) * max(k, REGISTER_RANK)
    return Cost(
        1 if n_blocks == 1 else 3 * n_blocks * rounds,
        rounds * PAIR_BYTES * nnz,
        4 * (n + d) * k + model.n_init * 8 * n,
        BLOCK_COPIES * of_block + cosines + WORD_COPIES * words,
        _seeding_bytes(shape, nnz, k, model.seeding_sample),
        rounds,
        together=n_blocks,
    )


def _seeding_bytes(shape: Shape, nnz: int, k: int, sample: int) -> int:
    """Return the bytes of the documents that seeds are drawn from, and of the centroids while they move."""
    drawn = PAIR_BYTES * nnz * min(sample, shape[0]) // max(1, shape[0])
    return SAMPLE_COPIES * drawn + 4 * 8 * shape[1] * k


def consensus_cost(n_words: int, n_pooled: int, *, block_memory: int) -> Cost:
    """Return what `consensus_words` and `topic_stability` take, and what keeps the word factors of all starts.

    Parameters
    ----------
    n_words : int
    n_pooled : int
        The topics of all starts together.
    block_memory : int
        Bytes of a block of words.
    """
    pooled = POOLED_BYTES * n_words * n_pooled
    n_blocks = max(1, -(-pooled // block_memory))
    kept, squares = 4 * n_words * n_pooled, 8 * n_pooled**2
    return Cost(
        3 * n_blocks,
        2 * kept,
        kept,
        min(block_memory, pooled),
        POOLED_COPIES * squares,
        2,
        together=n_blocks,
    )


def lda_cost(
    shape: Shape, nnz: int, n_topics: int, n_passes: int, *, n_blocks: int = 1, block_memory: int
) -> Cost:
    """Return what `online_lda` takes where its checkpoint stores each pass, with the shares of the documents.

    Parameters
    ----------
    shape, nnz : (int, int), int
        The documents and the words, and the stored counts.
    n_topics, n_passes : int
        The options of these names.
    n_blocks : int
        The row blocks of the counts.
    block_memory : int
        Bytes of a task, of which a block takes a quarter where there are several.
    """
    n, d = shape
    topics, counts = 4 * n_topics * d, PAIR_BYTES * nnz
    of_block = _block_bytes(counts, n_blocks, block_memory)
    shares = 4 * n * n_topics
    return Cost(
        (n_passes + 1) * n_blocks,
        (n_passes + 1) * counts,
        n_passes * topics + shares + topics,
        BLOCK_COPIES * of_block + 6 * -(-shares // n_blocks),
        LDA_COPIES * topics,
        n_passes + 1,
        together=n_blocks,
    )
