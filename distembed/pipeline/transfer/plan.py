"""What a topic-transfer job will take, before anything runs.

Documents, words and non-zeros are estimated from the sizes of the files, unless finished stages have counted
them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from distembed.linalg.chunks import row_chunk
from distembed.manifold.alignment import SYSTEM_COPIES, SYSTEM_GROUPS
from distembed.neighbors.search import MERGED_AT_ONCE
from distembed.pipeline.inputs import file_sizes, recorded_bytes
from distembed.pipeline.plan import (
    BYTES_PER_TOKEN,
    EXPANSION,
    LOOKUP_BYTES,
    PART_DICTIONARY_BYTES,
    VOCABULARY_BYTES,
    Plan,
    StagePlan,
    merging_bytes,
)
from distembed.pipeline.transfer.collections import SIDES, splits_of
from distembed.pipeline.transfer.config import TransferJob
from distembed.storage.schema import StageManifest
from distembed.storage.workspace import Workspace

TOKENS_PER_DOCUMENT = 200
"""Between a help page (280) and an encyclopedia's lead paragraph (70): the files of data/parallel."""
WORDS_PER_DOCUMENT = 70
"""Different words of such a document."""
DISTINCT_WORDS = 12
"""Words of a vocabulary for the root of a token: Heaps' law, 10,500 words for 700,000 tokens."""

SEARCH_COPIES = 6
"""Copies of the rows of both collections that the search for pairs holds in memory."""
ROUNDS = 6
"""Rounds of the alternation that a fit takes, about."""
SEARCHES = 24
"""Neighbour searches of one search for pairs: 8 rounds, for all pairs and with each half left out."""


class Sizes(NamedTuple):
    """Documents of each collection, and of both: bytes of the files, non-zeros and words."""

    n_first: int
    n_second: int
    input_bytes: int
    n_nonzero: int
    n_words: int
    n_splits: int
    exact: bool  # documents and words are counted; non-zeros are estimated always

    @property
    def n_documents(self) -> int:
        """Documents of both collections."""
        return self.n_first + self.n_second


def transfer_plan(job: TransferJob, workspace: Workspace | None = None) -> Plan:
    """Return the plan of a job; what committed stages of `workspace` have counted is not estimated."""
    done = workspace.stages() if workspace is not None else {}
    sizes = _sizes(_collections_of(job, done))
    text = (
        f"about {sizes.n_first:,} and {sizes.n_second:,} documents, {sizes.n_words:,} words, "
        f"{sizes.n_nonzero:,} non-zeros"
    )
    return Plan(job, text, _stages(job, sizes))


class Collections(NamedTuple):
    """Bytes and splits of both collections together, and the documents, tokens and words of each."""

    n_bytes: int
    n_splits: int
    n_documents: list[int]
    n_tokens: list[int]
    n_words: list[int]
    exact: bool


def _collections_of(job: TransferJob, done: Mapping[str, StageManifest]) -> Collections:
    """Return how much there is to read; what committed tokens know needs no file."""
    if "tokens" in done:
        facts, outputs = done["tokens"].facts, done["tokens"].outputs
        n_splits = sum(len(outputs[f"{side}_tokens"].spec.row_blocks) for side in SIDES)
        documents = [int(facts[f"{side}_n_documents"]) for side in SIDES]
        tokens = [int(facts[f"{side}_n_tokens"]) for side in SIDES]
        words = [int(facts[f"{side}_n_words"]) for side in SIDES]
        return Collections(recorded_bytes(done["tokens"]), n_splits, documents, tokens, words, exact=True)
    splits = [splits_of(getattr(job, side)) for side in SIDES]
    sizes = [file_sizes(split.url for split in side) for side in splits]
    n_bytes = sum(size for side in sizes for size in side.values())
    # Two texts of one record share the bytes of its file.
    shared = 2 if sizes[0].keys() & sizes[1].keys() else 1
    tokens = [sum(_tokens(url, size) for url, size in side.items()) // shared for side in sizes]
    documents = [max(1, n // TOKENS_PER_DOCUMENT) for n in tokens]
    words = [int(DISTINCT_WORDS * n**0.5) for n in tokens]
    return Collections(n_bytes, sum(map(len, splits)), documents, tokens, words, exact=False)


def _sizes(read: Collections) -> Sizes:
    nonzero = min(sum(read.n_tokens), WORDS_PER_DOCUMENT * sum(read.n_documents))
    first, second = read.n_documents
    return Sizes(first, second, read.n_bytes, nonzero, sum(read.n_words), read.n_splits, read.exact)


def _tokens(url: str, n_bytes: int) -> int:
    expansion = next((factor for suffix, factor in EXPANSION.items() if url.endswith(suffix)), 1.0)
    return int(n_bytes * expansion / BYTES_PER_TOKEN["text"])


def _stages(job: TransferJob, sizes: Sizes) -> tuple[StagePlan, ...]:
    block, n, k = job.resources.block_memory, sizes.n_documents, job.alignment.n_components
    terms = 8 * sizes.n_nonzero
    rank = job.representation.n_components
    rows = terms if job.representation.kind == "tf_idf" else 4 * n * rank
    edges = 2 * 12 * n * job.alignment.n_neighbors
    topics = 4 * sizes.n_first * job.topics.n_topics
    grid = -(-n // row_chunk(n, 8 * rank, block))
    search = grid * grid + grid * -(-grid // MERGED_AT_ONCE)
    fit = edges + 8 * SYSTEM_COPIES * n * max(1, k // SYSTEM_GROUPS)
    matching = (SEARCH_COPIES * 8 * n * rank + block) if job.alignment.propagate else edges
    n_searches = SEARCHES if job.alignment.propagate else 0
    n_draws = len(job.evaluation.shares) * job.evaluation.n_seeds
    n_systems = min(k, SYSTEM_GROUPS) * ROUNDS
    text = min(job.first.split_bytes, sizes.input_bytes)
    chunks = max(2, terms // max(1, block // 4))
    choosing = merging_bytes(sizes.n_words, block) + (VOCABULARY_BYTES + LOOKUP_BYTES) * sizes.n_words
    # Beside the data of the stage, the wide temporaries of a block.
    table: list[tuple[str, Any, Any, Any, Any]] = [
        ("tokens", sizes.n_splits, 2 * sizes.input_bytes, 4 * terms, 2 * text + PART_DICTIONARY_BYTES),
        ("terms", chunks, 4 * terms, terms, block + choosing),
        ("vectors", 20 * chunks, 12 * terms, rows, block + 16 * sizes.n_words * rank),
        ("topics", 3 * job.topics.n_iter * chunks, job.topics.n_iter * terms, topics, block + 3 * topics),
        ("pairs", 1, 20 * n, 24 * n, 200 * n),
        ("graphs", search, 2 * grid * rows, edges, block + 3 * edges),
        ("links", n_searches * search, rows, edges, matching),
        ("embedding", n_systems, edges, 8 * n * k, fit),
        ("evaluation", n_draws * (n_systems + n_searches * search), rows + edges, 2**14, matching + fit),
    ]
    return tuple(StagePlan(*row, exact=sizes.exact or row[0] == "tokens") for row in table)
