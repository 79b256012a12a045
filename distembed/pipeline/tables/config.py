"""The sections of a job file that say which tables are read, and how their names match."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from distembed.pipeline.sections import InputPath, Section


class TableSection(Section):
    """What is said of any table: where it lies, how it is read, and what becomes of faults in it."""

    path: InputPath
    name_column: str | None = None
    drop: tuple[str, ...] = ()
    delimiter: str = "auto"
    encoding: str = "auto"
    decimal: Literal["auto", ".", ","] = "auto"
    missing: Literal["refuse", "median", "drop_row", "drop_column"] = "refuse"
    duplicates: Literal["refuse", "first", "mean"] = "refuse"


class DomainSection(TableSection):
    """`[domain]`: the table of what is known of every name; see `distembed.pipeline.tables.domain`."""

    columns: tuple[str, ...] = ()
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


class KnownSection(TableSection):
    """`[known]`: the vectors there are, a vector file or a table with a column of names."""

    format: Literal["auto", "vectors", "table"] = "auto"
    max_words: int | None = Field(default=None, ge=1)
    keep_others: bool = True


class MatchingSection(Section):
    """`[matching]`: which differences of spelling two names may have and still be one."""

    ignore_case: bool = False
    ignore_underscores: bool = True
