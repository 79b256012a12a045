"""What reading and joining the tables of a job takes in memory and on disk."""

from __future__ import annotations

from distembed.costs import Cost
from distembed.formats.tables import is_text
from distembed.tables.known import holds_vectors
from distembed.tables.sections import DomainSection, KnownSection

TABLE_COPIES = 4
"""Copies of a table in memory while it is read: the file, its columns, the matrix, and one transformed."""

TEXT_COPIES = 4
"""Further copies where the table is text: the file, its cells, and cells made ready to become numbers."""


def join_cost(
    domain: DomainSection, known: KnownSection, *, input_bytes: int, stored_bytes: int, known_bytes: int
) -> Cost:
    """Return what reading both tables takes, and storing their names' rows.

    Parameters
    ----------
    domain, known : the sections of both tables
    input_bytes : of their files
    stored_bytes : of the rows and the vectors of all names
    known_bytes : of all known vectors in memory, those of words that are no names too
    """
    text = is_text(domain.path) and not holds_vectors(domain.path, domain.format)
    copies = TABLE_COPIES + (TEXT_COPIES if text else 0)
    others = others_cost(known, known_bytes).written_bytes
    shared = copies * stored_bytes + known_bytes + others
    return Cost(1, input_bytes, stored_bytes + others, 0, shared)


def others_cost(known: KnownSection, known_bytes: int) -> Cost:
    """Return what storing the vectors of words that are no names takes, at most all of so many bytes."""
    others = known_bytes if known.keep_others else 0
    return Cost(0, others, others, 0, graphs=0)
