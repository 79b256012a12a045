"""The types of what public functions are given: matrices and vectors in memory, and Dask arrays; others are refused.

NumPy and Dask arrays are named by their own classes. SciPy matrices and data frames are protocols here, so that a
program is checked in the same way whether or not the type stubs of SciPy and pandas are installed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import dask.array as da
import numpy as np
from dask.base import is_dask_collection
from numpy.typing import NDArray

Number = np.number | np.bool_
"""What the cells of a matrix are."""


class SparseMatrix(Protocol):
    """Any SciPy sparse array or sparse matrix."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The numbers of rows and columns."""
        ...

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        ...

    @property
    def nnz(self) -> int:
        """The number of stored values."""
        ...

    def tocsr(self) -> SparseMatrix:
        """Return the matrix in compressed rows."""
        ...


class Frame(Protocol):
    """A data frame or a column of one, as pandas and Polars have them."""

    def to_numpy(self) -> NDArray[Number]:
        """Return the values."""
        ...


DenseInMemory = NDArray[Number] | Frame | Sequence[Sequence[float] | NDArray[Number]]
"""A dense matrix in memory."""

InMemory = DenseInMemory | SparseMatrix
"""A matrix in memory, dense or sparse."""

DenseMatrix = DenseInMemory | da.Array
"""A dense matrix, in memory or not."""

Matrix = NDArray[Number] | SparseMatrix | da.Array
"""A matrix that has a shape."""

MatrixLike = InMemory | da.Array
"""A matrix of any kind: what an estimator is fitted to."""

VectorLike = NDArray[Number] | Frame | Sequence[float] | da.Array
"""One number for each row or column."""

FloatType = type[np.floating] | type[float] | np.dtype[np.floating] | str
"""The type of floating-point numbers, as NumPy is given it: `np.float32`, `"float32"`."""


def refuse_collection(X: Any, name: str) -> None:
    """Raise TypeError if X is another collection of Dask than an array: NumPy would gather it here.

    Its Dask array is left to the caller, as the lengths of a data frame's partitions take a pass over its data.
    """
    if not is_dask_collection(X) or isinstance(X, da.Array):
        return
    lines = {"to_dask_array": f"{name}.to_dask_array(lengths=True)", "data": f"{name}.data"}
    line = next((lines[attribute] for attribute in lines if hasattr(type(X), attribute)), "a Dask array")
    raise TypeError(
        f"{name} is a lazy {type(X).__name__}, which would be gathered in this process: give {line}"
    )
