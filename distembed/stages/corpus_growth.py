"""What a run takes over of a corpus that another workspace has read and counted, in place of doing it again.

Token partitions are known by what they were made from: how a file is read, and its content. Where they lie and which
number they have changes nothing. The counts of a corpus are a sum over its partitions: a run that finds most of them in
earlier counts adds what is new and subtracts what is gone (`distembed.counting.renumbered`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_array

from distembed.corpus import Corpus, Tokenizer, Vocabulary
from distembed.corpus.partitions import TOKENS_VERSION, read_partition
from distembed.corpus.withdrawn import Withdrawal
from distembed.counting.cooccurrence_options import CooccurrenceOptions
from distembed.counting.partition_rows import WHOLE, TokenRange, token_ranges
from distembed.counting.renumbered import ALL, Part, RenumberedCounts, renumbered
from distembed.display import plural
from distembed.job.growth import changes_corpus
from distembed.job.inputs import code_file, versions_at
from distembed.job.model import Job
from distembed.job.stage import Context
from distembed.job.state import Standing
from distembed.options import options_of
from distembed.stages import outputs
from distembed.stages.corpus_sections import (
    CorpusJob,
    CorpusSection,
    CountingJob,
    corpus_of,
    counting_options,
)
from distembed.storage.files import file_record, link_or_copy
from distembed.storage.schema import BlockRecord, FileRecord, digest_of_json
from distembed.storage.workspace import Workspace

KEYS = "keys"
"""The fact of the tokens stage that says what each partition was made from."""

COUNTING = ("window", "direction", "positions", "weighting", "draw", "subsample", "seed", "oov")
"""Options of counting that must be the same in counts that are added up."""

KEYED_BY = "content"
"""By what the random numbers of a partition are drawn; once it was its number in the corpus."""


# --- tokens ----------------------------------------------------------------------------------------------------


class KeptItem(NamedTuple):
    """An item that another workspace has made: the record of each of its files by the end of its name, its summary."""

    prefix: str
    files: Mapping[str, FileRecord]
    summary: Mapping[str, Any]
    linked: bool

    def take(self, prefix: str) -> bool:
        """Give the files names that begin so, and return whether they are what was written."""
        for end in self.files:
            link_or_copy(self.prefix + end, prefix + end, linked=self.linked)
        return all(file_record(prefix + end) == record for end, record in self.files.items())

    def holds_any(self, withdrawals: Sequence[Withdrawal]) -> bool:
        """Return whether it has a document that was withdrawn, or one in its place."""
        ids = read_partition(self.prefix, "documents")["id"].to_pylist()
        return any(one.holds_id(ident) for ident in ids for one in withdrawals)


def partition_keys(section: CorpusSection, corpus: Corpus) -> list[str]:
    """Return, for each bundle of partitions, the digest of all that its tokens are made from."""
    versions = {url: version for path in section.paths for url, version in versions_at(path).items()}
    options = section.model_dump(mode="json", include={*options_of(Tokenizer)} - {"phrases_file"})
    files = [*code_file(section.pattern), *([section.phrases_file] if section.phrases_file else [])]
    tokenizer = [TOKENS_VERSION, options, [list(versions_at(file).values()) for file in files]]
    return [
        digest_of_json([tokenizer, [[part.reading, versions[part.url]] for part in bundle]])
        for bundle in corpus.bundles
    ]


def kept_items(ctx: Context, keys: Sequence[str]) -> dict[int, KeptItem]:
    """Return the partitions that earlier workspaces have read, by their numbers in this one.

    One that holds a document that was withdrawn is none of them.
    """
    known = {key: item for workspace in ctx.earlier for key, item in items_of(workspace, ctx.workspace)}
    found = {number: known[key] for number, key in enumerate(keys) if key in known}
    withdrawals = [one for one in ctx.job.corpus.withdrawals if one.documents]
    return {
        number: item for number, item in found.items() if not (withdrawals and item.holds_any(withdrawals))
    }


def items_of(workspace: Workspace, target: Workspace) -> Iterator[tuple[str, KeptItem]]:
    """Yield the partitions of a workspace, each after the digest of what it was made from."""
    manifest = workspace.stages()["tokens"]
    blocks = manifest.outputs[outputs.TOKENS.name].blocks
    linked = target.url.startswith(f"{workspace.url}/")
    for key, block in zip(manifest.facts.get(KEYS, ()), blocks, strict=False):
        yield key, _kept(workspace, block, linked=linked)


def _kept(workspace: Workspace, block: BlockRecord, *, linked: bool) -> KeptItem:
    start = next(name for name in block.files if name.endswith(".documents.parquet"))
    start = start.removesuffix(".documents.parquet")
    files = {name.removeprefix(start): record for name, record in block.files.items()}
    return KeptItem(workspace.path(start), files, block.summary, linked)


# --- counts ----------------------------------------------------------------------------------------------------


class ToCount(NamedTuple):
    """A partition to be counted, the number with which its random numbers are drawn, and what of it is counted."""

    prefix: str
    number: int
    n_tokens: int
    part: Part = ALL
    span: TokenRange = WHOLE


def to_count(workspace: Workspace, blocks: Iterable[BlockRecord], part: Part = ALL) -> list[ToCount]:
    """Return the partitions of a workspace as they are to be counted."""
    return [
        ToCount(
            _kept(workspace, block, linked=False).prefix,
            random_key(block),
            block.summary.get("n_tokens", 0),
            part,
        )
        for block in blocks
    ]


class Made(NamedTuple):
    """The names of what is counted: tokens, their sorted runs, which a stage of the same name makes, and the counts."""

    tokens: str
    runs: str
    counts: str


class Growth(NamedTuple):
    """What is counted where earlier counts are kept: how each partition is, those that are gone, and the counts."""

    parts: Sequence[Part]
    gone: Sequence[ToCount]
    earlier: Sequence[RenumberedCounts]


def growth_of(
    ctx: Context,
    options: CooccurrenceOptions,
    vocabulary: Vocabulary,
    made: Made,
    *,
    is_checked: bool = False,
) -> Growth | None:
    """Return how the tokens of a workspace are counted where earlier workspaces have counted most of them.

    Their files are compared with their digests, unless they are already `is_checked`.
    """
    blocks = ctx.workspace.describe(made.tokens).blocks
    parts, gone, earlier = [ALL] * len(blocks), list[ToCount](), list[RenumberedCounts]()
    free = _by_digest(blocks)
    for workspace in ctx.earlier:
        if not _is_counted(workspace, ctx, made):
            continue
        old = workspace.describe(made.tokens).blocks
        counts = _renumbered(workspace, made.counts, options, vocabulary)
        numbers = {block.index: free[block.digest].pop() for block in old if free.get(block.digest)}
        left = [block for block in old if block.index not in numbers]
        is_most = _n_tokens(left) < _n_tokens(blocks[number] for number in numbers.values())
        if not is_most:
            continue
        read = [outputs.VOCABULARY.name, made.counts, *([made.tokens] if left else [])]
        if not (is_checked or workspace.is_whole(read)) or not counts.is_exact(options):
            continue
        facts = [block.summary for block in workspace.describe(made.runs).blocks]
        is_known = counts.has_same_words and options.subsample is None
        kept = _kept_parts(old, Part("changed", len(earlier)), facts if is_known else [])
        for before, part in kept.items():
            if before in numbers:
                parts[numbers[before]] = part
        gone += to_count(workspace, left, Part("had", len(earlier), -1))
        earlier.append(counts)
    return Growth(parts, gone, earlier) if earlier else None


def _kept_parts(
    partitions: Sequence[BlockRecord], part: Part, facts: Sequence[Mapping[str, Any]]
) -> dict[int, Part]:
    """Return how each partition is counted where it is kept; nothing of it is read where the facts of runs say all."""
    if not facts:
        return {one.index: part for one in partitions}
    ranges = token_ranges([one.summary.get("n_tokens", 0) for one in partitions])
    # The first range of a partition has what is known of all.
    known = {number: one for (number, span), one in zip(ranges, facts, strict=False) if span.place == 0}
    return {
        partitions[number].index: part._replace(largest_cell=one["largest_cell"], n_tokens=one["n_tokens"])
        for number, one in known.items()
    }


def why_not_kept(workspace: Workspace, options: CooccurrenceOptions) -> str:
    """Return why the counts of a workspace cannot be kept when its corpus changes; "" if they can."""
    done = workspace.stages()
    if not {outputs.PARTIAL_COUNTS.name, outputs.COOCCURRENCE.name} <= done.keys():
        return ""
    if done[outputs.PARTIAL_COUNTS.name].facts.get("keyed_by") != KEYED_BY:
        return "an earlier version counted them"
    if not _renumbered(workspace, outputs.COOCCURRENCE.name, options).is_exact(options):
        return f'counting.weighting = "{options.weighting}" stores fractions, of which some are rounded'
    return ""


def planned_growth(job: Job, found: Sequence[Standing], workspace: Workspace | None) -> list[str]:
    """Return in sentences what a run on a corpus that has changed reads, and why it counts all again if it does."""
    if workspace is None or not isinstance(job, CorpusJob) or not changes_corpus(found):
        return []
    done = workspace.stages()
    known = set(done["tokens"].facts.get(KEYS, ()))
    keys = partition_keys(job.corpus, corpus_of(job.corpus))
    n_new = sum(key not in known for key in keys)
    lines = [
        f"the corpus has changed: {n_new:,} of {plural(len(keys), 'partition')} are new and read; what the workspace "
        "holds stays readable until the next results are complete"
    ]
    if isinstance(job, CountingJob):
        why = why_not_kept(workspace, counting_options(job))
        lines += [f"all partitions are counted again: {why}"] if why else []
    return lines


def _by_digest(blocks: Iterable[BlockRecord]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for block in blocks:
        found.setdefault(block.digest, []).append(block.index)
    return found


def _n_tokens(blocks: Iterable[BlockRecord]) -> int:
    return sum(int(block.summary.get("n_tokens", 0)) for block in blocks)


def _is_counted(workspace: Workspace, ctx: Context, made: Made) -> bool:
    """Return whether a workspace has counted its tokens as this one does."""
    done = workspace.stages()
    stored = {name for manifest in done.values() for name in manifest.outputs}
    if not {outputs.VOCABULARY.name, *made} <= stored:
        return False
    before, now = (stage.parameters["counting"] for stage in (done[made.runs], ctx.stage))
    is_same = all(before.get(name) == now.get(name) for name in COUNTING)
    return is_same and done[made.runs].facts.get("keyed_by") == KEYED_BY


def _renumbered(
    workspace: Workspace, counts: str, options: CooccurrenceOptions, vocabulary: Vocabulary | None = None
) -> RenumberedCounts:
    """Return the counts of a workspace as those of another vocabulary, or of its own."""
    old = Vocabulary.from_table(outputs.VOCABULARY.read(workspace))
    rows, read = workspace.describe(counts).spec.row_blocks, partial(_read, url=workspace.url, counts=counts)
    return renumbered(read, rows, old, vocabulary or old, options.units.denominator)


def _read(block: int, *, url: str, counts: str) -> csr_array:
    found: csr_array = Workspace.open(url).block(counts, block)
    return found


def random_key(block: BlockRecord) -> int:
    """Return a number for a partition that follows from its content, and with which its random numbers are drawn."""
    return int(block.digest[:12], 16)


def growth_line(growth: Growth, vocabulary: Vocabulary) -> str:
    """Return in words what is counted and what is kept."""
    n_new = sum(part.source < 0 for part in growth.parts)
    gained = np.any([counts.gained for counts in growth.earlier], axis=0)
    n_lost = sum(counts.n_lost for counts in growth.earlier)
    return (
        f"{plural(n_new, 'new partition')} of {len(growth.parts):,} counted, {len(growth.gone):,} subtracted; of the "
        f"others only what changed with {plural(int(gained.sum()), 'new word')} of {len(vocabulary):,}; "
        f"{plural(n_lost, 'word')} lost"
    )


def earlier_of(growth: Growth | None, part: Part) -> RenumberedCounts | None:
    """Return the counts that hold the other pairs of a partition, if any do."""
    return growth.earlier[part.source] if growth is not None and part.source >= 0 else None
