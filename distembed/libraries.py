"""Libraries, and names of packages, that are imported when they are first used.

Importing Dask's arrays, pyarrow, SciPy's sparse arrays and zarr takes most of a second of processor time, which
`distembed status` and `distembed keys` would spend and not use; so the modules that every command imports take
them from here. Type checkers see the modules themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

__all__ = ["da", "pa", "pacsv", "pc", "pq", "sp", "stats"]


class Deferred:
    """A module that is imported when one of its attributes is first read.

    Parameters
    ----------
    name : str
        The name of the module.

    Examples
    --------
    >>> from distembed.libraries import Deferred
    >>> Deferred("math").sqrt(4.0)
    2.0
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        """Import the module, and return an attribute of it, which is then found without this function."""
        value = getattr(import_module(self._name), attribute)
        setattr(self, attribute, value)
        return value

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        """Pickle the module by its name: another process has it, too."""
        return Deferred, (self._name,)


def names_of(package: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """Return the `__getattr__` of a package whose names are imported from its modules when they are first used.

    Parameters
    ----------
    package : str
        The name of the package.
    homes : mapping of str to str
        The module of the package that each name is defined in.

    Examples
    --------
    >>> from distembed.libraries import names_of
    >>> names_of("distembed.corpus", {"Tokenizer": "tokenizer"})("Tokenizer").__name__
    'Tokenizer'
    """

    def find(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(f"{package}.{homes[name]}"), name)

    return find


if TYPE_CHECKING:
    import dask.array as da
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.csv as pacsv
    import pyarrow.parquet as pq
    import scipy.sparse as sp
    from scipy import stats
else:
    da = Deferred("dask.array")
    pa = Deferred("pyarrow")
    pacsv = Deferred("pyarrow.csv")
    pc = Deferred("pyarrow.compute")
    pq = Deferred("pyarrow.parquet")
    sp = Deferred("scipy.sparse")
    stats = Deferred("scipy.stats")
