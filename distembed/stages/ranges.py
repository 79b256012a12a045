"""The tasks that count bundles of documents: apart, so that a worker imports nothing of a job for them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from distembed.corpus.vocabulary import Vocabulary
from distembed.counting.cooccurrence import count_bundle
from distembed.counting.partition_rows import TokenSpan
from distembed.storage.workspace import Workspace


def count_bundle_of(
    index: int,
    prefix: str,
    *,
    workspace: str,
    vocabulary: str,
    bundles: Sequence[Sequence[TokenSpan]],
    **options: Any,
) -> dict[str, Any]:
    """Count the bundle of a number into a file of runs; return what `PartialCounts` says of it but the place.

    `vocabulary` is the digest of the stage that made it in the workspace; the options are those of `count_bundle`.
    """
    words = _vocabulary_in_memory(workspace, vocabulary)
    partials = count_bundle(bundles[index], words, target=f"{prefix}.counts", **options)
    return {**partials._asdict(), "url": ""}


@lru_cache(maxsize=1)
def _vocabulary_in_memory(workspace: str, digest: str) -> Vocabulary:  # noqa: ARG001 - tells versions apart
    """Return the vocabulary of a workspace, which the tasks of a process count by one after the other."""
    return Vocabulary.from_table(Workspace.open(workspace).table("vocabulary"))
