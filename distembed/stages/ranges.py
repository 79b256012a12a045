"""The tasks that count ranges of tokens: a module of its own, so that a worker imports nothing of a job for them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from distembed.corpus.vocabulary import Vocabulary
from distembed.counting.partial_counts import count_partition
from distembed.counting.partition_rows import TokenRange
from distembed.storage.workspace import Workspace


def count_range(
    index: int,
    prefix: str,
    *,
    workspace: str,
    vocabulary: str,
    todo: Sequence[tuple[str, int, TokenRange]],
    **options: Any,
) -> dict[str, Any]:
    """Count the range of a number into a file of runs; return what `PartialCounts` says of it but the place.

    `vocabulary` is the digest of the stage that made it in the workspace; `todo` has the prefix of the partition, its
    number and the span of each range; the options are those of `count_partition`.
    """
    partition, number, span = todo[index]
    words = _vocabulary_in_memory(workspace, vocabulary)
    partials = count_partition(
        partition, words, target=f"{prefix}.counts", number=number, span=span, **options
    )
    return {**partials._asdict(), "url": ""}


@lru_cache(maxsize=1)
def _vocabulary_in_memory(workspace: str, digest: str) -> Vocabulary:  # noqa: ARG001 - tells versions apart
    """Return the vocabulary of a workspace, which the tasks of a process count by one after the other."""
    return Vocabulary.from_table(Workspace.open(workspace).table("vocabulary"))
