"""What an explanation is made of: sentences, tables whose column adds up, passages of the corpus."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from distembed.corpus.concordance import Passage


class TermTable(NamedTuple):
    """A table of an explanation.

    Attributes
    ----------
    title : str
    rows : sequence of mappings
        Column to value; None where there is no value.
    decimals : mapping of column to int
        The decimals that a column of fractions is written with; other numbers are written as they are.
    caption : str
        What the columns are.
    """

    title: str
    rows: Sequence[Mapping[str, Any]]
    decimals: Mapping[str, int]
    caption: str = ""


class Passages(NamedTuple):
    """Passages of the corpus under a heading."""

    title: str
    lines: Sequence[Passage]


class Explanation(NamedTuple):
    """Why a result is what it is.

    Attributes
    ----------
    title : str
    sentences : sequence of str
    facts : mapping
        The numbers of the sentences, for programs.
    tables : sequence of TermTable
    passages : sequence of Passages
    """

    title: str
    sentences: Sequence[str]
    facts: Mapping[str, Any]
    tables: Sequence[TermTable] = ()
    passages: Sequence[Passages] = ()


class Asked(NamedTuple):
    """What `distembed explain` was asked: the names, and how many terms and passages are shown."""

    names: tuple[str, ...]
    n: int
    n_passages: int
