"""The sections of a job file that say which tables are read, and how their names match."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from distembed.pipeline.sections import InputPath, Section


class DomainSection(Section):
    """`[domain]`: the table of what is known of every name; see `distembed.pipeline.systems.imputation.tables`.

    Attributes
    ----------
    path : str
        The table: CSV, Parquet or npz, also compressed.
    name_column : str, optional
        The column of names, or of dates; by default the first.
    columns : tuple of str
        The columns that are taken; by default all of numbers.
    drop : tuple of str
        Columns that are left out.
    transform : "none" or "return_correlation"
        "none": a row is a name and its columns are features. "return_correlation": a column is a name, and
        its rows are prices whose returns are correlated.
    first : str, optional
        The first row that is taken, by its name or date.
    last : str, optional
        The last row that is taken, by its name or date.
    standardize : bool, optional
        Whether columns are brought to mean 0 and variance 1; by default where columns are features.
    names : str, optional
        A table that gives each name of the domain table another name.
    names_from : str
        The column of it that holds the names of the domain table.
    names_to : str
        The column of it that holds the names of the known vectors.
    names_label : str, optional
        The column of it that holds a class for the report.
    label_column : str, optional
        The column of the domain table that holds a class for the report.
    """

    path: InputPath
    name_column: str | None = None
    columns: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()
    transform: Literal["none", "return_correlation"] = "none"
    first: str | None = None
    last: str | None = None
    standardize: bool | None = None
    names: InputPath | None = None
    names_from: str = "from"
    names_to: str = "to"
    names_label: str | None = None
    label_column: str | None = None

    @property
    def standardizes(self) -> bool:
        """Return whether columns are brought to mean 0 and variance 1, by default those that are features."""
        return self.transform == "none" if self.standardize is None else self.standardize


class KnownSection(Section):
    """`[known]`: the vectors there are, a vector file or a table with a column of names.

    Attributes
    ----------
    path : str
        A vector file, a workspace, or a table with a column of names.
    format : str
        What the file is; "auto" goes by its name.
    name_column : str, optional
        The column of names of a table; by default the first.
    drop : tuple of str
        Columns of a table that are left out.
    max_words : int, optional
        Read only the first so many vectors of a file.
    keep_others : bool
        Whether vectors of names that the domain table lacks are written too.
    """

    path: InputPath
    format: Literal["auto", "vectors", "table"] = "auto"
    name_column: str | None = None
    drop: tuple[str, ...] = ()
    max_words: int | None = Field(default=None, ge=1)
    keep_others: bool = True


class MatchingSection(Section):
    """`[matching]`: which differences of spelling two names may have and still be one.

    Attributes
    ----------
    ignore_case : bool
        Whether upper and lower case are taken as equal.
    ignore_underscores : bool
        Whether underscores and blanks are taken as equal.
    """

    ignore_case: bool = False
    ignore_underscores: bool = True
