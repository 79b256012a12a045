"""Which words a map shows: those that say what a text is about."""

from __future__ import annotations

from collections.abc import Sequence

from distembed.corpus.stop_words import stop_words_of
from distembed.storage.workspace import Workspace

COMMON_SHARE = 0.5
"""A word in a larger share of the documents is taken for a stop word, in any language."""
FEWEST_DOCUMENTS = 20
"""Of fewer documents such a share says nothing."""


def content_words(words: Sequence[str], common: frozenset[str] = frozenset()) -> list[str]:
    """Return the words that are neither English stop words, nor common ones, nor single letters, in their order."""
    left_out = stop_words_of("english") | common
    return [word for word in words if len(word) > 1 and word not in left_out and word.lower() not in left_out]


def common_words(workspace: Workspace) -> frozenset[str]:
    """Return the words that stand in most documents of a job, none where it does not know in how many."""
    done = workspace.stages()
    n_documents = done["tokens"].facts.get("n_documents", 0) if "tokens" in done else 0
    if n_documents < FEWEST_DOCUMENTS or "document_count" not in workspace.schema("vocabulary").names:
        return frozenset()
    table = workspace.table("vocabulary")
    is_common = table["document_count"].to_numpy() > COMMON_SHARE * n_documents
    return frozenset(table["word"].filter(is_common).to_pylist())
