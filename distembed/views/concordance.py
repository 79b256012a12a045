"""The concordance of a word: every place where it stands in the files of a job, as it is written there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice

import pyarrow as pa

from distembed.corpus.occurrences import Occurrence, occurrences, place_of
from distembed.display import plural
from distembed.job.model import Job, JobError
from distembed.job.tables import Piece, Table
from distembed.stages.corpus_sections import CorpusJob, corpus_of
from distembed.views.explain import Explanation
from distembed.views.export import table_format, write_table

COLUMNS = pa.schema([(name, pa.string()) for name in Occurrence._fields])
BATCH_ROWS = 1 << 14
SIDE = 38
"""Characters on either side of a word on a terminal."""


def _lines(job: Job, word: str) -> Iterator[Occurrence]:
    """Return the places of a word in the files of a job, which its own file must name."""
    if not isinstance(job, CorpusJob):
        raise JobError(f"a job of the method {job.job.system} reads no running text: name a job that does")
    if job.is_recorded:
        raise JobError(
            f"the files of the corpus have to be read, and {job.job.workspace} may be a stranger's: name the job's own "
            "file in place of the workspace"
        )
    return occurrences(corpus_of(job.corpus), word)


def write_concordance(job: Job, word: str, target: str, *, n: int | None = None) -> str:
    """Write every place of a word as a table, and return what was written in words.

    Raises
    ------
    ValueError
        If the format of the target cannot be detected, or the word stands nowhere.
    """
    chosen = table_format(target)
    if chosen is None:
        raise ValueError(
            f"the format of {target} cannot be detected from its name: end it in .csv, .tsv or .parquet"
        )
    batches = list(_batches(islice(_lines(job, word), n)))
    if not batches:
        raise ValueError(f"{word!r} stands nowhere in the files of the job")
    table = pa.Table.from_batches(batches)
    n_documents = len(table["document"].unique())
    contents = f"{plural(table.num_rows, 'line')} of {plural(n_documents, 'document')}"
    pieces = (Piece(batch, None) for batch in batches)
    write_table(target, Table(COLUMNS, None, table.num_rows, pieces, contents), format=chosen)
    return f"{contents} in {target}"


def _batches(lines: Iterable[Occurrence]) -> Iterator[pa.RecordBatch]:
    left = iter(lines)
    while held := list(islice(left, BATCH_ROWS)):
        columns = (pa.array(column, pa.string()) for column in zip(*held, strict=True))
        yield pa.record_batch(list(columns), schema=COLUMNS)


def show_concordance(job: Job, word: str, *, n: int) -> str:
    """Return the first places of a word as lines of text, the word in the middle, its document and its line behind.

    Raises
    ------
    ValueError
        If the word stands nowhere.
    """
    found = list(islice(_lines(job, word), n))
    if not found:
        raise ValueError(f"{word!r} stands nowhere in the files of the job")
    width = max(len(line.word) for line in found)
    return "\n".join(
        f"{line.left[-SIDE:]:>{SIDE}}{line.word:^{width}}{line.right[:SIDE]:<{SIDE}}  "
        f"{line.document}{f', {line.place}' if line.place else ''}"
        for line in found
    )


def with_places(job: Job, explanation: Explanation) -> Explanation:
    """Return an explanation with file and line of each document that it shows, where the job's own file is known."""
    documents = dict.fromkeys(line.document for group in explanation.passages for line in group.lines)
    if job.is_recorded or not isinstance(job, CorpusJob) or not documents:
        return explanation
    try:
        corpus = corpus_of(job.corpus)
    except FileNotFoundError:
        return explanation  # the files have gone since
    places = {document: place for document in documents if (place := place_of(corpus, document))}
    return explanation._replace(facts={**explanation.facts, "places": places}, places=places)
