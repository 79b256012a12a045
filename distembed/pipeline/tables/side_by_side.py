"""Several tables of the same names, side by side: of prices and of word vectors, or of two sets of word vectors."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from distembed.display import plural
from distembed.formats.tables import Floats, TableError, some
from distembed.pipeline.tables.config import MatchingSection
from distembed.pipeline.tables.names import match_names
from distembed.pipeline.tables.rows import Domain, LeftOut


def side_by_side(
    first: Domain, further: Sequence[Domain], *, paths: Sequence[str], matching: MatchingSection
) -> Domain:
    """Return the names that stand in every table, with the columns of all.

    Each table is divided by the root of its total variance over these names, so that the tables have equal shares in
    the squared distances between names, however many columns they have and whatever their units are.

    Parameters
    ----------
    first : Domain
        It gives the order of the names, their spelling and their labels.
    further : sequence of Domain
    paths : sequence of str
        Where the further tables lie.
    matching : MatchingSection

    Raises
    ------
    TableError
        If a table has no name of the first, or fewer than two names stand in all.
    """
    rows = [_rows_of(first, domain, path, matching) for domain, path in zip(further, paths, strict=True)]
    found = np.stack(rows)
    kept = np.flatnonzero((found >= 0).all(axis=0))
    if kept.size < 2:
        raise TableError(
            f"{plural(kept.size, 'name')} of {len(first.names):,} in domain.path is also in all of domain.also: "
            "name tables of the same names, or see [matching]"
        )
    parts = [
        first.matrix[kept],
        *(domain.matrix[row[kept]] for domain, row in zip(further, rows, strict=True)),
    ]
    columns = [
        name if number == 0 else f"{name} (of {path})"
        for number, (path, domain) in enumerate(zip(("", *paths), (first, *further), strict=True))
        for name in domain.columns
    ]
    return first._replace(
        names=[first.names[row] for row in kept.tolist()],
        labels=[first.labels[row] for row in kept.tolist()],
        matrix=np.hstack([of_equal_variance(part) for part in parts]),
        columns=columns,
        left_out=[*first.left_out, *_left_out(first, rows, paths)],
        notes=_notes(first, further, rows, paths),
        holds_vectors=first.holds_vectors and all(domain.holds_vectors for domain in further),
        scales=None,
    )


def _rows_of(
    first: Domain, domain: Domain, path: str, matching: MatchingSection
) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    try:
        return match_names(
            first.names,
            domain.names,
            ignore_case=matching.ignore_case,
            ignore_underscores=matching.ignore_underscores,
        )
    except TableError as error:
        raise TableError(f"{path} in domain.also: {error}") from None


def of_equal_variance(matrix: Floats) -> Floats:
    """Return a matrix divided by the root of the sum of its columns' variances; one of equal rows as it is."""
    total = float(matrix.var(axis=0, dtype=np.float64).sum())
    return (matrix / np.sqrt(total)).astype(matrix.dtype) if total > 0 else matrix


def _left_out(first: Domain, rows: Sequence[np.ndarray], paths: Sequence[str]) -> list[LeftOut]:
    """Return the names of the first table that another lacks, each once."""
    lacking = {
        name: path
        for path, row in reversed([*zip(paths, rows, strict=True)])
        for name, at in zip(first.names, row.tolist(), strict=True)
        if at < 0
    }
    return [
        LeftOut(name, f"it is not in {lacking[name]}", "add it there, or leave that table out of domain.also")
        for name in first.names
        if name in lacking
    ]


def _notes(
    first: Domain, further: Sequence[Domain], rows: Sequence[np.ndarray], paths: Sequence[str]
) -> list[str]:
    """Return the notes of all tables, and how many names each lacks or has beside."""
    notes = list(first.notes)
    for domain, row, path in zip(further, rows, paths, strict=True):
        lacking = [name for name, at in zip(first.names, row.tolist(), strict=True) if at < 0]
        more = len(domain.names) - int((row >= 0).sum())
        lost = f"lacks {plural(len(lacking), 'name')} of domain.path, left out ({some(lacking)})"
        unused = f"; of its own, {plural(more, 'name')} more are not used" if more else ""
        notes += domain.notes
        notes.append(f"{path} {lost if lacking else 'has all names of domain.path'}{unused}")
    return notes
