"""One result of a finished job, explained: sentences, tables whose column adds up, passages of the corpus."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any, NamedTuple, NoReturn

from distembed.corpus.concordance import Passage
from distembed.pipeline.context import system_of
from distembed.pipeline.sections import Job
from distembed.spelling import did_you_mean, spelled_like
from distembed.storage.workspace import Workspace


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


def explain_job(job: Job, asked: Asked) -> Explanation:
    """Return why a result of a finished job is what it is.

    Raises
    ------
    ValueError
        If the system explains nothing, or the names that were asked for cannot be explained.
    KeyError, FileNotFoundError
        If the job has not come so far, or does not know a name.
    """
    module = system_of(job).explanation
    if module is None:
        raise ValueError(
            f"results of the system {job.job.system} are not explained: "
            "explain takes psdvec, topics and imputation jobs"
        )
    explained: Explanation = import_module(module).explain(job, Workspace.open(job.job.workspace), asked)
    return explained


COMPARED = 20_000
"""Names, at most, that an unknown one is compared with: a tenth of a second."""


def refuse_unknown(what: str, name: str, names: Sequence[str]) -> NoReturn:
    """Raise KeyError for a name that is not there, with up to three that are spelt like it, or the first ones."""
    close = spelled_like(name, names[:COMPARED], n=3)
    advice = did_you_mean([*map(repr, close)], otherwise=f"the first are {', '.join(names[:3])}")
    raise KeyError(f"there is no {what} {name!r} among {len(names):,}; {advice}")
