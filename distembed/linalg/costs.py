"""How large the arrays of the eigensolvers are, from which they and the costs of their users are made."""

from __future__ import annotations

from typing import NamedTuple

DENSE_COPIES = 7
"""Matrices of n × n float64 that `dense_eigenpairs` holds at most: the identity with its product, or the product, its
symmetric part, LAPACK's copy and workspace of two, and the vectors. Measured 6.2 to 6.5 on 2,500 and 3,500 rows."""


class KrylovBasis(NamedTuple):
    """The basis of `largest_eigenpairs`: the columns of each pass, and how many passes are made at most.

    Attributes
    ----------
    n_rows : int
        The rows of the matrix.
    columns : int
        The columns of a block.
    n_passes : int
        The products that are asked for, and as many more as the eigenpairs need.
    """

    n_rows: int
    columns: int
    n_passes: int

    @property
    def is_whole(self) -> bool:
        """Whether all passes together have as many columns as there are rows."""
        return self.n_passes * self.columns >= self.n_rows

    @property
    def most_passes(self) -> int:
        """The passes after which the basis has a column for each row, or all that are asked for."""
        return min(self.n_passes, -(-self.n_rows // self.columns))

    def kept_bytes(self, itemsize: int = 4) -> int:
        """Return the bytes of the basis and the product of every pass."""
        return 2 * itemsize * self.n_rows * self.columns * self.most_passes


def krylov_basis(
    n_rows: int, k: int, *, block_size: int | None = None, n_start: int = 0, n_passes: int = 8
) -> KrylovBasis:
    """Return the basis in which k eigenpairs are looked for, from so many vectors to start with."""
    columns = min(n_rows, max(block_size or k, n_start))
    return KrylovBasis(n_rows, columns, max(n_passes, -(-k // columns)))
