"""The topics of a finished workspace, as reports, tables and answers read them: what each is, and how stable."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import dask.array as da
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from distembed.corpus.concordance import beginnings
from distembed.dtypes import Float64s, Int64s
from distembed.evaluation.topics import MeanShares, found_again, largest_parts, mean_shares, telling_words
from distembed.execution import compute, one_blas_thread
from distembed.factorization.document_factors import topic_shares
from distembed.factorization.document_rows import take_rows
from distembed.factorization.nmf_rounds import column_norms
from distembed.job.outputs import ArrayOutput
from distembed.job.tables import rows_of_blocks
from distembed.stages.corpus import tokens_of
from distembed.storage.workspace import Workspace
from distembed.systems.topics import outputs
from distembed.systems.topics.job import Method, TopicsJob

MUCH = 0.25
"""A value of a column is named where so large a share of a topic's documents have it."""

MORE_THAN_ELSEWHERE = 1.5
"""It is named only where its share in the topic is so many times its share in all documents."""

PARTS_NAMED = 3
"""So many columns are named of a topic: those whose value is most above its share in all documents."""

NAME_WORDS = 2
"""The words of each kind that a topic is called by."""

MOST_VALUES = 30
"""Columns of more values are not compared: an id, a date to the day."""

QUOTED_WORDS, HEAVY_WORDS = 10, 3
"""First words of a document that stand for one without a title, and heaviest ones for one whose text is gone."""


class Topics:
    """What the workspace of a job holds of a method, by default of the job's own; each part is read once.

    Attributes
    ----------
    places : dict of int to dict
        What is known of the starts and of their consensus, by their rows in the array of labels.
    starts : list of dict
        What is known of the starts alone.
    kept : dict
        What is known of what is kept: one of the starts, or their consensus, whose start is None.
    """

    def __init__(self, job: TopicsJob, workspace: Workspace, method: Method | None = None) -> None:
        self.job, self.workspace, self.method = job, workspace, method or job.topics.method
        every = enumerate(outputs.STARTS.read(workspace).to_pylist())
        self.places = {place: row for place, row in every if row["method"] == self.method}
        self.starts = [row for row in self.places.values() if row["start"] is not None]
        self._place, self.kept = next((place, row) for place, row in self.places.items() if row["kept"])

    def labels_of(self, places: list[int]) -> Int64s:
        """Return the topics of the documents by some rows of the array of labels, (rows, documents)."""
        return np.asarray(compute(outputs.LABELS.read(self.workspace)[places]))

    def read(self, output: ArrayOutput) -> da.Array:
        """Return an output of the method, lazily."""
        return output.read(self.workspace, of=outputs.prefix_of(self.job, self.method))

    @cached_property
    def labels(self) -> Int64s:
        """The topic of each document by what is kept, -1 for none, (documents,)."""
        return np.asarray(self.labels_of([self._place])[0])

    @cached_property
    def words(self) -> NDArray[np.float32]:
        """The word factors, (words, topics)."""
        return np.asarray(compute(self.read(outputs.WORD_FACTORS)))

    @property
    def documents(self) -> da.Array:
        """The document factors, of which a block is in memory at a time."""
        return self.read(outputs.DOCUMENT_FACTORS)

    @cached_property
    def norms(self) -> Float64s:
        """The lengths that the factors of a document are divided by before they are compared, (topics,)."""
        if self.method in ("consensus", "spherical_kmeans"):  # their topics have unit length
            return np.ones(self.documents.shape[1])
        with one_blas_thread():
            return column_norms(self.documents)

    @cached_property
    def losses(self) -> list[float]:
        """The losses by round of the start that is kept; of a consensus, of its start of the smallest loss.

        Of the consensus of two methods it is one of Semantic-NMF.
        """
        number = self.kept["start"]
        if number is None:
            number = min(self.starts[: self.job.topics.n_starts], key=lambda row: row["loss"])["start"]
        rows = outputs.LOSSES.read(self.workspace).to_pylist()
        return [row["loss"] for row in rows if (row["method"], row["start"]) == (self.method, number)]

    @cached_property
    def rows(self) -> list[dict[str, Any]]:
        """What is stored of each topic."""
        return [
            row for row in outputs.TOPICS.read(self.workspace).to_pylist() if row["method"] == self.method
        ]

    @cached_property
    def described(self) -> list[dict[str, Any]]:
        """What is known of each topic, computed from its documents.

        Beside the keys of the stored rows these are `telling`, the words that set its documents apart, as many as are
        listed; `parts`, what many of its documents have in common, in words, that which is most above its share in all
        documents first; `found_again`, how well the other starts find it, NaN where there is one start; and `name`, its
        number with its heaviest and its telling words.
        """
        labels, n_topics = self.labels, len(self.rows)
        n_words = max((len(row["words"]) for row in self.rows), default=0)
        words = self.workspace.table("vocabulary")["word"].to_pylist()
        telling = telling_words(outputs.DOCUMENT_TERMS.read(self.workspace), labels, n_topics, n_words)
        parts = [largest_parts(name, values, labels, n_topics) for name, values in self.columns.items()]
        others = self.labels_of([place for place, row in self.places.items() if not row["kept"]])
        again, described = found_again(labels, others, n_topics), []
        for topic, (row, of_topic) in enumerate(zip(self.rows, zip(*parts, strict=True), strict=True)):
            found = [
                part
                for part in of_topic
                if part and part.share >= MUCH and part.share >= MORE_THAN_ELSEWHERE * part.share_of_all
            ]
            found = sorted(found, key=lambda part: part.share_of_all / part.share)[:PARTS_NAMED]
            said = [f"{p.share:.0%} have {p.column} {p.value} (of all {p.share_of_all:.0%})" for p in found]
            tell = [words[place] for place in telling[topic]]
            first = row["words"][:NAME_WORDS]
            kinds = (first, [word for word in tell if word not in first][:NAME_WORDS])
            name = f"{row['topic']}: {' | '.join(' '.join(kind) for kind in kinds if kind)}"
            more = {"telling": tell, "parts": said, "found_again": float(again[topic]), "name": name}
            described.append(row | more)
        return described

    @property
    def columns(self) -> dict[str, pa.ChunkedArray]:
        """The columns of documents that topics are compared with, by the names that their source gives them.

        The first is the title.
        """
        documents, corpus = self.workspace.table("documents"), self.job.corpus
        named = {"title": corpus.title_field or "title", "label": corpus.label_field or "label"}
        columns = [name for name in documents.column_names if name not in ("id", "n_tokens")]
        return {named.get(name, name): documents[name] for name in columns}

    def shares_by_column(self) -> dict[str, MeanShares]:
        """Return the mean shares by each column of 2 to 30 values; documents of one title are one source."""
        titles = next(iter(self.columns.values())).fill_null("").to_pylist()
        sources = [title or str(row) for row, title in enumerate(titles)]
        found = {}
        for name, column in self.columns.items():
            values = column.cast(pa.string()).fill_null("")
            n_values = pc.count_distinct(values.filter(pc.not_equal(values, ""))).as_py()
            if 2 <= n_values <= MOST_VALUES:
                shares = (topic_shares(block, self.norms) for block in rows_of_blocks(self.documents))
                found[name] = mean_shares(values.to_pylist(), sources, shares, len(self.norms))
        return found

    def names_of(self, rows: Int64s) -> dict[int, str]:
        """Return titles of documents, or how those begin that have none; their heaviest words where text is gone."""
        titles = self.workspace.table("documents").take(rows)["title"].to_pylist()
        if all(titles):
            return dict(zip(rows.tolist(), titles, strict=True))
        try:
            quoted = beginnings(
                tokens_of(self.workspace, outputs.tokens_output(self.job)), rows, QUOTED_WORDS
            )
        except (KeyError, FileNotFoundError):
            quoted = dict(zip(rows.tolist(), heaviest_words(self.workspace, rows, HEAVY_WORDS), strict=True))
        return {row: title or quoted.get(row, "") for row, title in zip(rows.tolist(), titles, strict=True)}


def classes_of(workspace: Workspace) -> NDArray[np.object_] | None:
    """Return the label each document came with, or None where there are not two different ones."""
    labels = np.array(workspace.table("documents")["label"].to_pylist(), dtype=object)
    return labels if len({label for label in labels if label is not None}) > 1 else None


def heaviest_words(workspace: Workspace, rows: Int64s, n: int) -> list[str]:
    """Return the words of the most weight in some documents, the heaviest first."""
    words = workspace.table("vocabulary")["word"].to_pylist()
    weights = take_rows(outputs.TF_IDF.read(workspace), rows)
    return [
        " ".join(words[word] for word in row.indices[np.argsort(-row.data, kind="stable")[:n]])
        for row in (weights[[place]] for place in range(len(rows)))
    ]
