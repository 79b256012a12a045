"""Validates the arguments of an estimator, once, where a public method begins.

A matrix in memory is validated by scikit-learn, so that its rules and its messages apply: two dimensions,
numbers, rows and columns, the features seen by the fit. The same rules apply to a Dask array. Its values are
checked by block, in the task that reads the block, so that no pass over the data is needed for the check
alone.
"""

from __future__ import annotations

from typing import Any

import dask.array as da
import numpy as np
from scipy.sparse import issparse
from sklearn.utils import validation as checks

from distembed.dtypes import Float64s
from distembed.execution import compute
from distembed.lift import first_rows, lift
from distembed.linalg.csr import check_block, to_single
from distembed.options import RandomState
from distembed.typing import VectorLike, refuse_collection


def seed_of(random_state: RandomState) -> int:
    """Return the seed of a fit: the keys of all its generators begin with it.

    Parameters
    ----------
    random_state : int, None, numpy Generator or RandomState
        An int is the seed itself. None draws one from the operating system, and a generator gives its next
        one, so that two fits with the same generator differ.

    Raises
    ------
    ValueError
        If it is none of these, or negative.
    """
    if isinstance(random_state, (int, np.integer)) and random_state >= 0:
        return int(random_state)
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**32, dtype=np.uint32))
    if random_state is None or isinstance(random_state, np.random.Generator):
        return int(np.random.default_rng(random_state).integers(2**32))
    raise ValueError(
        f"random_state is {random_state!r}: give an integer from 0 on, None, or a numpy Generator or RandomState"
    )


def training_matrix(estimator: Any, X: Any, **rules: Any) -> Any:
    """Return the matrix that an estimator is fitted to, checked; set `n_features_in_` and `feature_names_in_`.

    Parameters
    ----------
    estimator : scikit-learn estimator
    X : array-like, SciPy sparse matrix or Dask array (n, m)
    rules : see `check_matrix`
    """
    return check_matrix(X, estimator=estimator, reset=True, **rules)


def new_matrix(estimator: Any, X: Any, *, learned: str, **rules: Any) -> Any:
    """Return a matrix of new rows for a fitted estimator, checked.

    Parameters
    ----------
    estimator : scikit-learn estimator
    X : array-like, SciPy sparse matrix or Dask array (r, m)
    learned : str
        The attribute that a fit leaves.
    rules : see `check_matrix`

    Raises
    ------
    NotFittedError
        If the estimator has no such attribute.
    ValueError
        If X has other columns than the fit saw, by number or by name.
    """
    checks.check_is_fitted(estimator, learned)
    return check_matrix(X, estimator=estimator, reset=False, **rules)


def check_matrix(
    X: Any,
    *,
    name: str = "X",
    estimator: Any = None,
    reset: bool | None = None,
    sparse: bool = True,
    finite: bool = True,
    nonnegative: bool = False,
    directions: bool = False,
    min_rows: int = 1,
) -> Any:
    """Return a matrix as a NumPy array, CSR matrix or Dask array of numbers; float16 becomes float32.

    Parameters
    ----------
    X : array-like, SciPy sparse matrix or Dask array (n, m)
    name : str
        What messages call it.
    estimator : scikit-learn estimator, optional
        Named in messages.
    reset : bool, optional
        Whether the estimator takes its features from X (True) or X is compared with them (False).
    sparse : bool
        Whether a SciPy sparse matrix is taken.
    finite, nonnegative : bool
        Refuse NaN and infinity; refuse negative values as well. Both are False where the first pass of the
        caller over the values finds them.
    directions : bool
        Refuse rows of zeros, which have no cosine.
    min_rows : int

    Raises
    ------
    ValueError
        If X is not two-dimensional, not of numbers, or too small. If it holds NaN, infinity, a negative value or a row
        of zeros that is refused: at once where X is in memory, otherwise when the block that holds it is computed.
    TypeError
        If X is sparse and may not be, or another collection of Dask than an array.
    """
    matrix = _check_layout(X, name, estimator, sparse=sparse, min_rows=min_rows)
    has_sparse_blocks = issparse(getattr(matrix, "_meta", matrix))
    if matrix.dtype == np.float16:  # SciPy knows no sparse halves, whose sums overflow
        matrix = lift(to_single, "wc->wc", matrix, dtype=np.float32, sparse=has_sparse_blocks)
    if reset is not None:
        checks.validate_data(estimator, X, reset=reset, skip_check_array=True)
    if not (finite or nonnegative or directions):
        return matrix
    if directions and isinstance(matrix, da.Array):
        matrix = matrix.rechunk({1: -1})
    return lift(
        check_block,
        "wc,w->wc",
        matrix,
        first_rows(matrix),
        dtype=matrix.dtype,
        sparse=has_sparse_blocks,
        called=name,
        nonnegative=nonnegative,
        directions=directions,
    )


def _check_layout(X: Any, name: str, estimator: Any, *, sparse: bool, min_rows: int) -> Any:
    """Return a matrix of numbers with two dimensions and enough rows; its values are not checked."""
    if isinstance(X, da.Array):
        if issparse(X._meta) and not sparse:
            raise TypeError(
                f"Sparse data was passed for {name}, but dense data is required: densify its blocks"
            )
        if np.isnan(X.shape).any():
            raise ValueError(f"{name} has chunks of unknown size: call {name}.compute_chunk_sizes() first")
        if X.dtype.kind not in "fiubc":
            raise ValueError(f"{name} has dtype {X.dtype}: give numbers")
    else:
        refuse_collection(X, name)
    # A Dask array is checked by one zero of its type and shape, which takes no memory.
    checked = checks.check_array(
        np.broadcast_to(np.zeros((), X.dtype), X.shape) if isinstance(X, da.Array) else X,
        accept_sparse="csr" if sparse else False, ensure_all_finite=False, ensure_min_samples=min_rows,
        estimator=estimator, input_name=name,
    )  # fmt: skip
    return X if isinstance(X, da.Array) else checked


def check_length(values: VectorLike, n: int, name: str, *, of: str = "words") -> Float64s:
    """Return one finite number that is not negative for each of n words or other things, as floats.

    Raises
    ------
    ValueError
        If there are more or fewer numbers, or one is negative, NaN or infinite.
    """
    refuse_collection(values, name)
    array = checks.check_array(
        values, dtype=float, ensure_2d=False, ensure_non_negative=True, input_name=name
    )
    if array.shape != (n,):
        raise ValueError(f"{name} has shape {array.shape}; give one number for each of the {n} {of}")
    return np.asarray(array)


def array_of(X: Any, name: str) -> Any:
    """Return a Dask array as it is, anything else that may be read here as a NumPy array.

    Raises
    ------
    TypeError
        If X is another collection of Dask.
    """
    if isinstance(X, da.Array):
        return X
    refuse_collection(X, name)
    return np.asarray(X)


def like_input(result: Any, X: Any) -> Any:
    """Return a result as a Dask array if the input X was one, otherwise as a NumPy array."""
    return result if isinstance(X, da.Array) else compute(result)
