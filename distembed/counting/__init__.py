"""Token ids to counts: word by word (`cooccurrence`) and document by word (`documents`)."""

from distembed.counting.cooccurrence import count_cooccurrences, merge_partials, merge_row_block
from distembed.counting.cooccurrence_options import CooccurrenceOptions, cooccurrence_row_blocks
from distembed.counting.documents import count_document_block, count_document_terms, document_row_blocks
from distembed.counting.partial_counts import PartialCounts, count_partition
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
