"""Correspondences between the rows of two sets: given pairs as a matrix, and further pairs found from them.

A *correspondence* states that a row of the first set and a row of the second describe the same thing. It may
be certain (confidence 1) or probable.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import dask.array as da
import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from distembed.execution import compute, one_blas_thread, tell
from distembed.linalg.blocks import directions
from distembed.linalg.chunks import BLOCK_MEMORY
from distembed.manifold import alignment_blocks as blocks
from distembed.neighbors import blocks as neighbor_blocks
from distembed.neighbors.distances import Metric, domain_rows
from distembed.neighbors.graphs import row_is_used
from distembed.neighbors.search import search_lists

Float64s = NDArray[np.float64]

CANDIDATES = 10
"""Neighbors in the other set that CSLS averages and chooses among (Conneau et al. 2018, section 2.3)."""


def correspondence_matrix(correspondences: Any, n_first: int, n_second: int) -> sp.csr_array:
    """Return correspondences as a sparse matrix of confidences, (n_first × n_second), 0 < c_ij <= 1.

    Parameters
    ----------
    correspondences : integer pairs (first row, second row), (c × 2); the same with a confidence, (c × 3);
        or a sparse matrix. A row may occur in several pairs. A pair given twice alike counts once.
    n_first : int
        The number of rows of the first set.
    n_second : int
        The number of rows of the second set.

    Raises
    ------
    ValueError
        If the shape is another, a row number is not whole or out of range, a confidence is not in (0, 1], or
        a pair has two different confidences.
    """
    if sp.issparse(correspondences):
        given = correspondences.tocoo()
        if given.shape != (n_first, n_second):
            raise ValueError(
                f"correspondences have shape {given.shape}, the sets {n_first} and {n_second} rows"
            )
        table = np.column_stack([given.row, given.col, given.data]).astype(np.float64)
    else:
        table = _pair_table(correspondences)
    _check_pairs(table, n_first, n_second)
    pairs, first = np.unique(table[:, :2], axis=0, return_index=True)
    rows, columns = pairs.astype(np.int64).T
    links = sp.csr_array((table[first, 2], (rows, columns)), shape=(n_first, n_second))
    _check_one_confidence(table, links)
    return links


def _pair_table(correspondences: Any) -> Float64s:
    pairs = np.asarray(correspondences, np.float64)
    pairs = pairs.reshape(0, 2) if pairs.size == 0 else pairs
    if pairs.ndim != 2 or pairs.shape[1] not in {2, 3}:
        raise ValueError(f"correspondences have shape {pairs.shape}: give rows (first, second[, confidence])")
    return pairs if pairs.shape[1] == 3 else np.column_stack([pairs, np.ones(len(pairs))])


def _check_pairs(table: Float64s, n_first: int, n_second: int) -> None:
    for column, size in ((0, n_first), (1, n_second)):
        numbers = table[:, column]
        bad = np.flatnonzero(~((numbers >= 0) & (numbers < size) & (numbers == np.floor(numbers))))
        if bad.size:
            raise ValueError(
                f"correspondence {bad[0]} names row {numbers[bad[0]]:g} of set {column + 1}, "
                f"which has the rows 0 to {size - 1}"
            )
    bad = np.flatnonzero(~((table[:, 2] > 0) & (table[:, 2] <= 1)))
    if bad.size:
        raise ValueError(f"correspondence {bad[0]} has the confidence {table[bad[0], 2]:g}: give 0 < c <= 1")


def _check_one_confidence(table: Float64s, links: sp.csr_array) -> None:
    rows, columns = table[:, 0].astype(np.int64), table[:, 1].astype(np.int64)
    bad = np.flatnonzero(np.asarray(links[rows, columns]).ravel() != table[:, 2]) if len(table) else rows
    if bad.size:
        i, j = rows[bad[0]], columns[bad[0]]
        raise ValueError(
            f"the pair ({i}, {j}) has the confidences {links[i, j]:g} and {table[bad[0], 2]:g}: keep one"
        )


class Propagation(NamedTuple):
    """Correspondences found from a few known ones.

    Attributes
    ----------
    links : CSR array (n × m)
        The known confidences, and probabilities for the rows of the second set without a known one.
    spaces : tuple of arrays (n × r), (m × r)
        Unit rows of both sets in the space in which they were last compared.
    n_found : int array
        The number of found pairs to which the maps of each round were fitted in addition to the known ones.
    temperature, lost_share : float
        The parameters of the probabilities, estimated from known pairs that were left out.
    """

    links: sp.csr_array
    spaces: tuple[Float64s, Float64s]
    n_found: list[int]
    temperature: float
    lost_share: float


def propagate_correspondences(
    X1: Any,
    X2: Any,
    links: sp.csr_array,
    *,
    n_rounds: int = 8,
    first_share: float = 0.3,
    found_weight: float = 0.5,
    exponent: float = 0.5,
    metric: Metric = "cosine",
    random_state: int = 0,
    block_memory: int = BLOCK_MEMORY,
) -> Propagation:
    """Find probable correspondences by two linear maps fitted to the known pairs and to those they find.

    Each round decomposes Σ c_ij x2_j x1_iᵀ = U S Vᵀ over unit rows, takes the sets to one space by U S^p and
    V S^p, and pairs the rows that choose each other there by CSLS, s_ij = 2 cos_ij - r_i - r_j, where r is a
    row's mean cosine with its `CANDIDATES` nearest rows of the other set, which takes from hubs what they have
    too much. The best `first_share` of the pairs is kept in the first round, rising evenly to all in the last.
    Rows with a known correspondence are not paired again. In the end row j of the second set, if it has no known
    correspondence, belongs to candidate i with probability (1 - ε) exp(s_ij / T) / Σ_i' exp(s_i'j / T).

    With p = 0 and as many pairs as dimensions this is the best rotation. From c pairs only c directions are
    known; p > 0 leaves the others out, where a rotation would add chance, and trusts a direction by how much
    the pairs agree on it.

    T (by maximum likelihood) and ε, the share of counterparts that are not among the candidates, come from
    known pairs that were left out of everything before, a fold at a time: where the sets are translations T is
    small and ε near 0, where no map takes one to the other the probabilities are spread and small.

    It assumes vectors made alike (LSA of one rank). Its time is that of 4 to 22 times `n_rounds` neighbor
    searches, the most with few known pairs (`JUDGED_PAIRS`).

    Parameters
    ----------
    X1, X2 : dense, (n × d1) and (m × d2)
    links : known correspondences, (n × m)
    n_rounds : int
        The number of rounds.
    first_share : float
        The share of the found pairs that the first round keeps.
    found_weight : c_ij of a pair found, in the fit of the maps
    exponent : p
    metric : "cosine" compares unit rows, "euclidean" rows less their mean, in units of their root mean square
        (-½ d² stands for the cosine then); the second needs sets that cover the same ground
    random_state : of the folds
    block_memory : int
        The memory of one task in bytes.

    Raises
    ------
    ValueError
        If there is no known correspondence.

    References
    ----------
    Artetxe, Labaka & Agirre 2017 (self-learning) and 2018 (p, there "re-weighting"); Conneau et al. 2018,
    section 2.3 (CSLS).
    """
    if not links.nnz:
        raise ValueError("there is no correspondence to start from: give at least one pair")
    rows = _comparable(X1, metric), _comparable(X2, metric)
    search = _Search(*rows, n_rounds, first_share, found_weight, exponent, metric, block_memory)
    with one_blas_thread():
        spaces, n_found = search.spaces(links)
        temperature, lost = _calibrated(search, links, random_state)
        candidates = search.candidates(spaces)
    return Propagation(
        _with_probabilities(links, candidates, temperature, lost), spaces, n_found, temperature, lost
    )


Spaces = tuple[Float64s, Float64s]


class _Search(NamedTuple):
    """Two sets of unit rows, and the search for their pairs."""

    first: Float64s
    second: Float64s
    n_rounds: int
    first_share: float
    found_weight: float
    exponent: float
    metric: Metric
    block_memory: int

    def spaces(self, links: sp.csr_array) -> tuple[Spaces, list[int]]:
        """Return both sets in the space of the last round, and the pairs found in each round."""
        found, n_found = links, []
        for number in range(self.n_rounds):
            pairs, scores = blocks.mutual_choices(self.candidates(self.mapped(found), links))
            share = self.first_share + (1 - self.first_share) * number / max(1, self.n_rounds - 1)
            kept = pairs[np.argsort(-scores, kind="stable")[: int(np.ceil(share * len(scores)))]]
            n_found.append(len(kept))
            found = _with_pairs(links, kept, self.found_weight)
        return self.mapped(found), n_found

    def mapped(self, links: sp.csr_array) -> Spaces:
        """Return both sets in the space that the links fit best."""
        pairs = links.tocoo()
        there, here = blocks.reweighted_maps(
            self.second[pairs.col], self.first[pairs.row], pairs.data, exponent=self.exponent
        )
        first, second = self.first @ here, self.second @ there
        if self.metric == "cosine":
            return directions(first), directions(second)
        return first, second

    def candidates(self, spaces: Spaces, taken: sp.csr_array | None = None) -> blocks.CandidatePairs:
        """Return the candidate pairs of all rows, or of those without a link; rows without direction have none."""
        here, there = (row_is_used(rows, self.metric) for rows in spaces)
        if taken is not None:
            here &= np.asarray(taken.sum(axis=1)) == 0
            there &= np.asarray(taken.sum(axis=0)) == 0
        rows, columns = np.flatnonzero(here), np.flatnonzero(there)
        if not rows.size or not columns.size:
            return blocks.CandidatePairs(np.zeros((0, 2), np.int64), np.zeros(0))
        lists = _cross_lists(spaces[0][rows], spaces[1][columns], self.metric, self.block_memory)
        pairs, scores = blocks.candidate_pairs(*lists)
        return blocks.CandidatePairs(np.column_stack([rows[pairs[:, 0]], columns[pairs[:, 1]]]), scores)


JUDGED_PAIRS = 50
"""Known pairs left out, a fifth at a time, until so many are judged: a fraction is then known to 0.07. Of fewer
than these a tenth is left out at a time and all are judged: half of 25 pairs find far less than 25 do."""


def _calibrated(search: _Search, links: sp.csr_array, random_state: int) -> tuple[float, float]:
    """Return the temperature and the lost share, estimated from folds of known pairs left out in turn."""
    known = links.tocoo()
    if known.nnz < 2:
        return DEFAULT_TEMPERATURE, 0.5
    n_folds = min(known.nnz, 10 if known.nnz < JUDGED_PAIRS else 5)
    folds = np.random.default_rng(random_state).permutation(known.nnz) % n_folds
    n_judged, judged = 0, []
    for fold in range(n_folds):
        if n_judged >= JUDGED_PAIRS:
            break
        rows, columns, kept = known.row[folds == fold], known.col[folds == fold], folds != fold
        rest = sp.csr_array((known.data[kept], (known.row[kept], known.col[kept])), shape=links.shape)
        judged += blocks.true_margins(search.candidates(search.spaces(rest)[0]), rows, columns)
        n_judged += len(rows)
        tell("folds", fold + 1, n_folds)
    # Half a pair on each side (Krichevsky & Trofimov): no finite sample shows that none is ever lost.
    return blocks.likeliest_temperature(judged), (n_judged - len(judged) + 0.5) / (n_judged + 1)


DEFAULT_TEMPERATURE = 0.05
"""Where one known pair leaves nothing to estimate: between translations (0.01) and comparable texts (0.06)."""


def _with_probabilities(
    links: sp.csr_array, candidates: blocks.CandidatePairs, temperature: float, lost: float
) -> sp.csr_array:
    free = np.asarray(links.sum(axis=0))[candidates.pairs[:, 1]] == 0
    pairs, scores = candidates.pairs[free], candidates.scores[free]
    chances = (1 - lost) * blocks.softmax_of_each(pairs[:, 1], scores / temperature)
    added = sp.csr_array((chances, (pairs[:, 0], pairs[:, 1])), shape=links.shape)
    added.data[added.data < LEAST_PROBABILITY] = 0.0
    added.eliminate_zeros()
    return sp.csr_array(links + added)


LEAST_PROBABILITY = 1e-3
"""Probabilities below it are no edge."""


def _with_pairs(links: sp.csr_array, pairs: NDArray[np.int64], confidence: float) -> sp.csr_array:
    added = (np.full(len(pairs), confidence), (pairs[:, 0], pairs[:, 1]))
    return sp.csr_array(links + sp.csr_array(added, shape=links.shape))


def _comparable(X: Any, metric: Metric) -> Float64s:
    """Return unit rows, or rows less their mean in units of their root mean square."""
    rows = np.asarray(compute(X) if isinstance(X, da.Array) else X, np.float64)
    if metric == "cosine":
        return directions(rows)
    rows = rows - rows.mean(axis=0)
    size = float(np.sqrt((rows**2).sum(axis=1).mean()))
    return rows / size if size > 0 else rows


def _cross_lists(first: Float64s, second: Float64s, metric: Metric, block_memory: int) -> tuple[Any, Any]:
    """Return the neighbor lists (rows, 2, k) of each set in the other."""
    k = min(CANDIDATES, len(first), len(second))
    if max(len(first), len(second)) <= ROWS_AT_ONCE:
        return _whole_lists(first, second, k), _whole_lists(second, first, k)
    rows = [domain_rows(X, metric=metric, block_memory=block_memory) for X in (first, second)]
    marks = [np.zeros(len(first), np.int64), np.ones(len(second), np.int64)]
    forth, back = compute(
        (
            search_lists(rows[0], marks[0], rows[1], marks[1], k=k),
            search_lists(rows[1], marks[1], rows[0], marks[0], k=k),
        )
    )
    return forth, back


ROWS_AT_ONCE = 4096
"""Rows of a set up to which a search is one call: it takes less than half a second, and 16 to 176 are made."""


def _whole_lists(rows: Float64s, columns: Float64s, k: int) -> Float64s:
    marks, ids = np.zeros(len(rows), np.int64), np.arange(len(columns))
    return neighbor_blocks.nearest_in_tile(
        rows, marks, columns, ids, np.ones_like(ids), columns.mean(axis=0), k=k
    )


# -------------------------------------------------------------------------------------- what they tell


def shared_values(V1: Any, links: sp.csr_array) -> tuple[Float64s, Float64s]:
    """Return the values and confidences of both sets, those of the second from their correspondents.

    Row j of the second set has the value Σ_i c_ij v_i / Σ_i c_ij with the confidence Σ_i c_ij² / Σ_i c_ij,
    over the rows i with a known value.

    Parameters
    ----------
    V1 : (n × f), rows that are all NaN are unknown
    links : (n × m), c_ij

    Returns
    -------
    (n + m, f), unknown rows NaN, and (n + m,), 0 for unknown rows
    """
    values, known = known_values(V1, links.shape[0])
    usable = sp.csr_array(sp.diags_array(known) @ links)
    weight = np.asarray(usable.sum(axis=0)).ravel()
    squares = np.asarray(usable.power(2).sum(axis=0)).ravel()
    shared = usable.T @ values
    shared = np.divide(shared, weight[:, None], out=np.full_like(shared, np.nan), where=weight[:, None] > 0)
    first = np.where(known[:, None] > 0, values, np.nan)
    return np.concatenate([first, shared]), np.concatenate(
        [known, np.divide(squares, weight, out=np.zeros_like(weight), where=weight > 0)]
    )


def known_values(V: Any, n_rows: int) -> tuple[Float64s, Float64s]:
    """Return V with zeros for unknown rows, and 1 for known rows."""
    values: Float64s = np.array(compute(V) if isinstance(V, da.Array) else V, np.float64)
    if values.ndim != 2 or values.shape[0] != n_rows:
        raise ValueError(f"the feature values have shape {values.shape}, but there are {n_rows} rows")
    if np.isinf(values).any():
        raise ValueError(
            f"row {np.flatnonzero(np.isinf(values).any(axis=1))[0]} of the feature values is infinite"
        )
    missing = np.isnan(values)
    partly = np.flatnonzero(missing.any(axis=1) & ~missing.all(axis=1))
    if partly.size:
        raise ValueError(
            f"row {partly[0]} of the feature values is partly NaN: a row is either known or NaN throughout"
        )
    known: Float64s = np.where(missing.any(axis=1), 0.0, 1.0)
    values[missing] = 0.0
    return values, known
