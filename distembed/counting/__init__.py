"""Token ids to counts: word by word (`cooccurrence`) and document by word (`documents`)."""

from typing import TYPE_CHECKING

from distembed.libraries import names_of

if TYPE_CHECKING:
    from distembed.counting.cooccurrence import (
        PartialCounts,
        cooccurrence_row_blocks,
        count_cooccurrences,
        count_partition,
        merge_partials,
        merge_row_block,
    )
    from distembed.counting.documents import count_document_block, count_document_terms, document_row_blocks
    from distembed.counting.options import CooccurrenceOptions
    from distembed.counting.runs import DamagedRunsError

__all__ = [
    "CooccurrenceOptions",
    "DamagedRunsError",
    "PartialCounts",
    "cooccurrence_row_blocks",
    "count_cooccurrences",
    "count_document_block",
    "count_document_terms",
    "count_partition",
    "document_row_blocks",
    "merge_partials",
    "merge_row_block",
]

__getattr__ = names_of(
    __name__,
    {
        "CooccurrenceOptions": "options",
        "DamagedRunsError": "runs",
        "PartialCounts": "cooccurrence",
        "cooccurrence_row_blocks": "cooccurrence",
        "count_cooccurrences": "cooccurrence",
        "count_document_block": "documents",
        "count_document_terms": "documents",
        "count_partition": "cooccurrence",
        "document_row_blocks": "documents",
        "merge_partials": "cooccurrence",
        "merge_row_block": "cooccurrence",
    },
)
