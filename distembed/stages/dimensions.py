"""The dimensions of jobs on a corpus: text, tokens, documents, words and pairs of words.

What a finished stage has counted is read from its manifest. Before that, sizes are bounds that grow in proportion to
the text from a sample of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from distembed.corpus.inspection import TextSample, sample_text
from distembed.corpus.partitions import DICTIONARY_WORDS
from distembed.corpus.readers import Corpus
from distembed.corpus.records import Partition
from distembed.corpus.tokenizer import Tokenizer
from distembed.counting.cooccurrence import CooccurrenceOptions
from distembed.counting.documents import BYTES_PER_TOKEN
from distembed.display import format_bytes, plural
from distembed.dtypes import Floats
from distembed.job.inputs import recorded_bytes
from distembed.job.stage import Counted
from distembed.plan import Dimension, Dimensions
from distembed.stages.corpus_sections import CorpusJob, PlanSection, corpus_of
from distembed.storage.records import StageManifest
from distembed.storage.workspace import Workspace

BLOCK_PAIR_BYTES = 48
"""Bytes of the memory of a task for each pair of a row block: an eighth at twelve bytes, and twice as many at most."""

PAIR_BYTES = 8
"""Bytes of a value of a sparse matrix in memory: four of the number, such as a count, and four of its column."""

SHOWN = {
    "document": ("documents", "about"),
    "token": ("tokens", "about"),
    "word": ("words", "at most"),
    "pair": ("pairs", "at most"),
}
"""The dimensions that the head of a plan names, each in the plural, and what a size is before it is counted."""


class Text(NamedTuple):
    """A corpus as far as it is known: its dimensions, and what each word of a sample, or of it all, was counted."""

    dimensions: dict[str, Dimension]
    counts: Floats
    document_counts: Floats
    """The bounds of the tokens of each word, and of the documents that hold it, in falling order; none if counted."""


def text_dimensions(
    corpus: Corpus | None,
    done: StageManifest | None,
    *,
    block_memory: int,
    output: str = "tokens",
    plan: PlanSection | None = None,
) -> Text:
    """Return the dimensions of a corpus that lies in files: from its committed tokens, else from a sample.

    Parameters
    ----------
    corpus : Corpus or None
        The corpus; not needed where its tokens are done.
    done : StageManifest or None
        The stage that made its tokens.
    block_memory : int
        The memory of a task, bytes.
    output : str
        The name of its tokens in that stage.
    plan : PlanSection, optional
        How large the corpus will be of which only a part is there.
    """
    none = np.zeros(0, np.int64)
    if done is not None:
        parts = [block.summary for block in done.outputs[output].blocks]
        n_bytes, sample, growth = recorded_bytes(done.parameters), TextSample(none, none, 0, 0), 1.0
        sizes = {name: int(done.facts[f"n_{name}s"]) for name in ("token", "document", "word")}
        largest = {name: max((int(one.get(f"n_{name}s", 0)) for one in parts), default=0) for name in sizes}
        n_partitions, partition = len(parts), -(-n_bytes // max(1, len(parts)))
    else:
        assert corpus is not None
        sample = _sample_of(corpus.bundles, corpus.tokenizer)
        here = sum(part.n_bytes for part in corpus.partitions)
        n_bytes, growth = here, max(1.0, here / max(1, sample.n_bytes))
        if plan is not None and plan.bytes:
            n_bytes, growth = plan.bytes, max(1.0, plan.bytes / max(1, sample.n_bytes))
        if plan is not None and plan.tokens:
            growth = max(1.0, plan.tokens / max(1, sample.n_tokens))
            n_bytes = plan.bytes or round(growth * sample.n_bytes)
        found = {"token": sample.n_tokens, "document": sample.n_documents, "word": len(sample.counts)}
        sizes = {name: round(n * growth) for name, n in found.items()}
        n_partitions, partition = len(corpus.bundles), min(n_bytes, corpus.partition_bytes)
        if n_bytes > here:
            n_partitions = max(n_partitions, -(-n_bytes // corpus.partition_bytes))
        # A file that cannot be cut is a partition of any size, which is read by the piece.
        most = max(sum(part.n_bytes for part in bundle) for bundle in corpus.bundles)
        share = min(1.0, max(partition, most) / max(1, n_bytes))
        largest = {name: round(n * share) for name, n in sizes.items()}
    counted = done is not None
    in_block = max(1, block_memory // BYTES_PER_TOKEN)
    n_blocks = max(n_partitions, -(-sizes["token"] // in_block))
    dimensions = {
        "memory": Dimension(block_memory, block_memory),
        "text": Dimension(n_bytes, partition),
        "partition": Dimension(n_partitions, 1, counted),
        "token": Dimension(sizes["token"], min(largest["token"], in_block), counted),
        "entry": Dimension(sizes["word"], min(largest["word"], DICTIONARY_WORDS), counted),
        "document": Dimension(sizes["document"], -(-sizes["document"] // n_blocks), counted),
        "documents_of_partition": Dimension(sizes["document"], largest["document"], counted),
        "entries_of_partition": Dimension(sizes["word"], largest["word"], counted),
    }
    order = np.argsort(-sample.counts, kind="stable")
    return Text(dimensions, growth * sample.counts[order], growth * sample.document_counts[order])


@lru_cache(maxsize=8)
def _sample_of(bundles: tuple[tuple[Partition, ...], ...], tokenizer: Tokenizer) -> TextSample:
    """Return a sample of a corpus; other settings of a job are planned with the same."""
    return sample_text(bundles, tokenizer)


class CorpusSizes(NamedTuple):
    """What is known of a corpus and its vocabulary."""

    dimensions: dict[str, Dimension]
    """Those of the text, and "word", "candidate" and "term"."""
    counts: Floats
    """Bounds of how often each word of the vocabulary occurs, or the counts themselves, in falling order."""
    is_counted: bool
    """Whether the vocabulary is."""


def corpus_dimensions(job: CorpusJob, counted: Counted | None) -> CorpusSizes:
    """Return the dimensions of the corpus of a job with its vocabulary; those that committed stages know are exact."""
    done: Mapping[str, StageManifest] = {} if counted is None else counted.stages
    tokens, words = done.get("tokens"), done.get("vocabulary")
    text = text_dimensions(
        None if tokens is not None else corpus_of(job.corpus),
        tokens,
        block_memory=job.resources.block_memory,
        plan=job.plan,
    )
    dimensions, vocabulary = dict(text.dimensions), job.vocabulary
    n_tokens = dimensions["token"].size
    if words is not None and counted is not None:
        n_words = int(words.facts["n_words"])
        n_candidates = n_words
        counts, of_documents = _counts_of_words(counted.workspace, words.digest)
    else:
        of_documents = text.document_counts
        n_candidates = min(dimensions["entry"].size, n_tokens // max(1, vocabulary.min_count))
        if (
            text.counts.size
        ):  # those of the sample that may be frequent enough, or as many as one in so many tokens
            frequent = int(np.count_nonzero(2 * text.counts >= vocabulary.min_count))
            n_candidates = min(n_candidates, max(frequent, dimensions["entry"].size // vocabulary.min_count))
        n_words = max(1, min(n_candidates, vocabulary.max_size or n_candidates))
        counts = text.counts[:n_words] if len(text.counts) else np.full(n_words, n_tokens / n_words)
    is_counted = words is not None
    most = float(np.sort(of_documents)[::-1][:n_words].sum()) or float(n_tokens)
    n_terms = min(round(most), n_tokens)
    dimensions |= {
        "candidate": Dimension(max(1, n_candidates), max(1, n_candidates), is_counted),
        "word": Dimension(n_words, n_words, is_counted),
        "term": Dimension(n_terms, min(n_terms, dimensions["token"].block), is_counted),
    }
    return CorpusSizes(dimensions, counts, is_counted)


@lru_cache(maxsize=4)
def _counts_of_words(workspace: Workspace, digest: str) -> tuple[Floats, Floats]:  # noqa: ARG001 - tells versions apart
    """Return how often each word occurs, and in how many documents; a run asks for each of its stages."""
    table = workspace.table("vocabulary")
    return table["count"].to_numpy().astype(float), table["document_count"].to_numpy().astype(float)


def pair_dimension(
    corpus: CorpusSizes, options: CooccurrenceOptions, counted: Counted | None, stage: str = "cooccurrence"
) -> Dimension:
    """Return the stored pairs of a table of counts; before its stage has counted them, the most that there can be.

    A word that occurs c times has at most c times as many different partners as the window has places, and at most all
    words.
    """
    block = corpus.dimensions["memory"].size // BLOCK_PAIR_BYTES
    done = {} if counted is None else counted.stages
    if stage in done:
        n_pairs = int(done[stage].facts["n_nonzero"])
        return Dimension(n_pairs, min(n_pairs, block))
    places = options.window * (2 if options.direction == "symmetric" else 1)
    n_words = corpus.dimensions["word"].size
    n_pairs = round(float(np.minimum(places * corpus.counts, n_words).sum()))
    n_pairs += max(0, n_words - len(corpus.counts)) * min(places, n_words)
    return Dimension(n_pairs, min(n_pairs, block), counted=False)


def described(dimensions: Mapping[str, Dimension]) -> Dimensions:
    """Return the dimensions of a job on a corpus with the sentence that the head of its plan says of them."""
    text, partition = dimensions["text"], dimensions["partition"]
    sizes = [
        f"{'' if dimensions[name].counted else bound + ' '}{_rounded(dimensions[name])} {several}"
        for name, (several, bound) in SHOWN.items()
        if name in dimensions
    ]
    source = "" if dimensions["token"].counted else ", by a sample of the text"
    head = f"{format_bytes(text.size)} of input in {plural(partition.size, 'partition')}"
    return Dimensions(dimensions, f"{head}; {', '.join(sizes)}{source}")


def _rounded(dimension: Dimension) -> str:
    """Return a size in words: to two digits where it is a bound."""
    return f"{dimension.size:,}" if dimension.counted else f"{float(f'{dimension.size:.1e}'):,.0f}"


def counting_dimensions(
    job: Any, options: CooccurrenceOptions, counted: Counted | None
) -> dict[str, Dimension]:
    """Return the dimensions of a job that counts the pairs of words of its corpus once."""
    corpus = corpus_dimensions(job, counted)
    return corpus.dimensions | {"pair": pair_dimension(corpus, options, counted)}
