"""The sections of a job file that say which tables are read, and how their names match."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from distembed.formats.delimited import Decimal, Thousands
from distembed.job.model import InputPath, Section


class PlaceSection(Section):
    """Where a table lies."""

    path: InputPath
    """The table: CSV, TSV, Excel (.xlsx) or Parquet, text also compressed."""


class ReadingSection(Section):
    """How any table is read, and what becomes of faults in it."""

    name_column: str | None = None
    """The column of names, or of dates; by default the first."""
    drop: tuple[str, ...] = ()
    """Columns that are left out."""
    delimiter: str | None = None
    """What separates the columns of a text file; by default a tab where its name ends in .tsv, else a comma."""
    encoding: str = "utf-8"
    """The encoding of a text file without a byte-order mark."""
    skip_rows: int = Field(default=0, ge=0)
    """Rows above the header of a text file or a sheet that are passed over."""
    decimal: Decimal = "."
    """The decimal sign of numbers."""
    thousands: Thousands = ""
    """What separates groups of three digits of numbers; "" where nothing does."""
    missing: Literal["refuse", "median", "drop_row"] = "refuse"
    """What becomes of empty cells: the table is refused, they get the median of their column, or their row is left out.
    """
    duplicates: Literal["refuse", "first"] = "refuse"
    """What becomes of a name that comes twice: the table is refused, or the first row is taken."""

    @model_validator(mode="after")
    def _check_signs(self) -> Self:
        if self.decimal == self.thousands:
            other = "," if self.decimal == "." else "."
            raise ValueError(f'decimal and thousands are both "{self.decimal}": set decimal = "{other}"')
        return self


class TableSection(ReadingSection, PlaceSection):
    """What is said of any table: where it lies, how it is read, and what becomes of faults in it."""


class DomainSection(TableSection):
    """`[domain]`: the table of what is known of every name; see `distembed.tables.domain`."""

    format: Literal["auto", "vectors", "table"] = "auto"
    """What the file is; "auto" takes .bin, .vec, .safetensors and workspaces for vectors, text by its first line, and
    the others for tables.
    """
    max_words: int | None = Field(default=None, ge=1)
    """Read only the first so many vectors of a vector file."""
    columns: tuple[str, ...] = ()
    """The columns that are taken; by default all of numbers."""
    transform: Literal["none", "return_correlation"] = "none"
    """"none": a row is a name and its columns are features. "return_correlation": a column is a name, and its rows are
    the prices of a day, the date first; their returns are correlated.
    """
    standardize: bool | None = None
    """Whether columns are brought to mean 0 and variance 1; by default where they are features of a table."""
    names: InputPath | None = None
    """A table that gives each name of the domain table another name."""
    names_from: str = "from"
    """The column of it that holds the names of the domain table."""
    names_to: str = "to"
    """The column of it that holds the names of the known vectors."""
    names_label: str | None = None
    """The column of it that holds a class for the report."""
    label_column: str | None = None
    """The column of the domain table that holds a class for the report."""


class PricesSection(DomainSection):
    """`[domain]` of prices, whose returns are correlated."""

    first: str | None = None
    """The first row that is taken, by its name or date."""
    last: str | None = None
    """The last row that is taken, by its name or date."""
    max_missing: float = Field(default=0.0, ge=0, lt=1)
    """The share of its prices that a name may lack where prices are turned into returns: the gaps get the mean of the
    day, and names with more are left out.
    """


class KnownSection(TableSection):
    """`[known]`: the vectors there are, a vector file or a table with a column of names."""

    format: Literal["auto", "vectors", "table"] = "auto"
    """What the file is; "auto" goes by its name."""
    max_words: int | None = Field(default=None, ge=1)
    """Read only the first so many vectors of a file."""
    keep_others: bool = True
    """Whether vectors of names that the domain table lacks are written too."""


class MatchingSection(Section):
    """`[matching]`: which differences of spelling two names may have and still be one."""

    ignore_case: bool = False
    """Whether upper and lower case are taken as equal."""
    ignore_underscores: bool = True
    """Whether underscores and spaces are taken as equal."""
