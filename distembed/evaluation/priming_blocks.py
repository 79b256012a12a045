"""Mathematics of the psycholinguistic evaluations: strengths of association, priming, separation.

Letters: W_ab is the share of people who answer word b to cue a; S1, S2, S3 are the strengths of association
of Jurgens and Stevens (2010), section 4.2, after Steyvers, Shiffrin and Nelson (2004).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import stats
from scipy.sparse import csr_array

Float64s = NDArray[np.float64]
Int64s = NDArray[np.int64]


class Strengths(NamedTuple):
    """Strength of association of each cue-target pair, float64 (n,) each."""

    S1: Float64s
    S2: Float64s
    S3: Float64s


def associative_strengths(cues: Int64s, targets: Int64s, shares: Float64s) -> Strengths:
    r"""Return the three strengths of each pair.

    .. math:: S1_{ab} = W_{ab}, \quad S2_{ab} = W_{ab} + W_{ba}, \quad
              S3_{ab} = S2_{ab} + \sum_c S2_{ac} S2_{cb}

    c runs over the cues. W is 0 where nobody answered and for words that were no cue. Only the listed pairs
    of S2² are computed.

    Parameters
    ----------
    cues, targets : int64 (n,)
        Words as numbers from 0; no pair twice.
    shares : float64 (n,)
        W of each pair.
    """
    n_words = int(max(cues.max(), targets.max())) + 1
    W = csr_array((shares, (cues, targets)), shape=(n_words, n_words))
    S2 = csr_array(W + W.T)
    through_cues = S2[:, np.unique(cues)]
    direct = np.asarray(S2[cues, targets]).ravel()
    indirect = np.asarray(through_cues[cues].multiply(through_cues[targets]).sum(axis=1)).ravel()
    return Strengths(shares, direct, direct + indirect)


def unrelated_cosines(cosines: Float64s, target_ids: Int64s) -> Float64s:
    """Return for each prime its mean cosine with the targets of all other pairs, NaN if there are none.

    A pair with the same target word does not count as another pair. Padó and Lapata (2007), section 4.1.

    Parameters
    ----------
    cosines : array (m, m)
        The cosine of prime i with the target of pair j.
    target_ids : int64 array (m,)
        Equal numbers for equal target words.
    """
    other = target_ids[:, None] != target_ids
    n_others = other.sum(axis=1)
    sums = np.where(other, cosines, 0).sum(axis=1)
    return np.divide(sums, n_others, out=np.full(len(sums), np.nan), where=n_others > 0)


def cosines_with_all_primes(cosines: Float64s, prime_ids: Int64s) -> Float64s:
    """Return for the target of each pair its mean cosine with all primes, each prime once and its own included.

    S-Space's `AbstractWordPrimingTest`.

    Parameters
    ----------
    cosines : array (m, m)
        The cosine of prime i with the target of pair j.
    prime_ids : int64 array (m,)
        Equal numbers for equal primes.
    """
    _, first = np.unique(prime_ids, return_index=True)
    return np.asarray(cosines[np.sort(first)].mean(axis=0)) if first.size else np.empty(0)


def chance_of_larger(values: Float64s, others: Float64s) -> float:
    """Return the share of pairs (value, other) in which the value is larger, a tie counting half.

    The area under the ROC curve; sklearn.metrics.roc_auc_score is the equivalent.
    """
    ranks = stats.rankdata(np.concatenate([values, others]))[: len(values)]
    below = ranks.sum() - len(values) * (len(values) + 1) / 2
    return float(below / (len(values) * len(others)))
