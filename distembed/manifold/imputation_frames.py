"""Data frames in and out of imputation: rows are matched by their index, and vectors come back as a frame."""

from __future__ import annotations

from collections import Counter
from typing import Any

from dask.base import is_dask_collection

from distembed.display import first_words, plural


def is_frame(X: Any) -> bool:
    """Return whether X is a data frame in memory whose rows have names, as pandas has them."""
    return all(hasattr(X, name) for name in ("index", "columns", "reindex")) and not is_dask_collection(X)


def aligned(X: Any, Y: Any) -> Any:
    """Return the rows of Y in the order of those of X, by their index; rows that Y lacks are NaN.

    Where not both are data frames, Y stays as it is: its rows are those of X.

    Raises
    ------
    ValueError
        If a name stands twice in an index, or no name stands in both.
    """
    if not (is_frame(X) and is_frame(Y)):
        return Y
    for frame, called in ((X, "X"), (Y, "Y")):
        _refuse_duplicates(frame, called)
    if not any(name in X.index for name in Y.index):
        raise ValueError(
            f"no row of Y is one of X: the index of X begins with {_first(X)}, and that of Y with {_first(Y)}; set the "
            "names as the index of both frames"
        )
    return Y.reindex(X.index)


def _refuse_duplicates(frame: Any, called: str) -> None:
    twice = [str(name) for name, count in Counter(frame.index).items() if count > 1]
    if twice:
        raise ValueError(
            f"the index of {called} has {plural(len(twice), 'name')} more than once ({first_words(twice)}): keep one "
            "row of each"
        )


def _first(frame: Any) -> str:
    return first_words([str(name) for name in frame.index[:3]])


def in_frame(vectors: Any, X: Any, Y: Any) -> Any:
    """Return vectors as a frame with the index of X and the columns of Y, where both are frames."""
    if not (is_frame(X) and is_frame(Y)):
        return vectors
    return type(Y)(vectors, index=X.index, columns=Y.columns)


def same_columns(X_new: Any, X: Any) -> Any:
    """Return new rows with their columns in the order of those of X, where both are frames.

    Raises
    ------
    ValueError
        If X_new lacks columns of X.
    """
    if not (is_frame(X_new) and is_frame(X)):
        return X_new
    absent = [str(name) for name in X.columns if name not in X_new.columns]
    if absent:
        raise ValueError(f"X_new lacks {plural(len(absent), 'column')} of X: {first_words(absent)}")
    return X_new[X.columns]
