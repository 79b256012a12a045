"""Texts at the command line: their vectors, a static model that makes them, and what a job says of new files.

The vectors of a partition are written by one task into a temporary folder beside the target. When all are there they
are joined into the target in their order. A call that was stopped starts again.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import dask
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from dask.system import CPU_COUNT
from fsspec.implementations.local import LocalFileSystem

import distembed
from distembed.corpus.readers import Corpus
from distembed.corpus.records import Partition
from distembed.corpus.tokenizer import Tokenizer
from distembed.display import first_words, plural
from distembed.dtypes import Int64s
from distembed.encoding.encoder import TextEncoder, encode_texts, rows_in_words, without_words
from distembed.encoding.static import model_card, unreadable_words, write_static_model
from distembed.execution import compute, delayed, shared
from distembed.files import naming_a_full_disk
from distembed.formats.names import unknown_format
from distembed.formats.parquet import ParquetFile
from distembed.formats.streams import check_folder
from distembed.job.model import Job
from distembed.job.opening import Source, check_code, job_of, load_vectors, refuse_recorded
from distembed.job.progress import Reporter
from distembed.job.stage import system_of
from distembed.job.tables import Table
from distembed.scratch import Scratch
from distembed.stages.corpus_sections import TOKENIZER_OPTIONS, CorpusSection
from distembed.storage.workspace import Workspace
from distembed.urls import opened, url_to_fs
from distembed.vectors import WordVectors
from distembed.views.export import TABLE_FORMATS, refuse_compression, table_format, write_table

TASKS_TOGETHER = 4 * CPU_COUNT
"""Partitions between two signs of progress."""


# --- the encoder ---------------------------------------------------------------------------------------------


def open_encoder(
    source: Source, *, vectors: WordVectors | None = None, allow_code: bool = False, **options: Any
) -> TextEncoder:
    """Return the encoder of a vector file, a workspace or a job file.

    A workspace gives the counts of its words and the tokenizer of its job; a vector file has neither.

    Parameters
    ----------
    source : Job, Workspace or path of a vector file
    vectors : WordVectors, optional
        The vectors of the source, or its first ones, or others of its words, where they have been read.
    allow_code : bool
        Let a job's tokenizer be a Python function.
    **options
        Those of `TextEncoder`; None stands for its default.

    Raises
    ------
    JobError
        If the job names a Python function as its tokenizer and `allow_code` is False.
    FileNotFoundError, ValueError, KeyError
        If there are no vectors at `source`, or not yet.
    """
    vectors = load_vectors(source) if vectors is None else vectors
    chosen: dict[str, Any] = {}
    if not isinstance(source, str):
        job = job_of(source)
        check_code(job, allow_code=allow_code)
        refuse_recorded(job)
        table = Workspace.open(job.job.workspace).table("vocabulary")
        if "count" in table.column_names:
            chosen["counts"] = table["count"].to_numpy()[: len(vectors)]
        if hasattr(job, "corpus"):
            chosen["tokenizer"] = Tokenizer(**job.corpus.model_dump(include=set(TOKENIZER_OPTIONS)))
    chosen |= {name: value for name, value in options.items() if value is not None}
    return TextEncoder(vectors, **chosen).fit()


# --- texts to vectors ----------------------------------------------------------------------------------------


def encode_files(encoder: TextEncoder, corpus: Corpus, target: str, reporter: Reporter) -> str:
    """Write the vectors of texts to a file, and return in words what was written.

    Parameters
    ----------
    encoder : TextEncoder
        A fitted one.
    corpus : Corpus
        The texts.
    target : str
        A file that ends in .parquet, .csv, .tsv or .npy.
    reporter : Reporter

    Raises
    ------
    ValueError
        If the end of the target's name is none of these, or compresses a .parquet or .npy, or there is no text.
    OSError
        If it cannot be written.
    """
    if (ending := table_format(target)) is None:
        raise unknown_format(target, [f".{name}" for name in TABLE_FORMATS])
    refuse_compression(target, ending)
    filesystem, place = url_to_fs(target)
    own = Path(place).absolute()
    check_folder(target, str(own))
    beside = own.parent if isinstance(filesystem, LocalFileSystem) else None
    n_parts, known = len(corpus.partitions), shared(encoder)
    with naming_a_full_disk(target), Scratch(f".{own.name}.", beside) as folder:
        parts = [f"{folder}/{number:06}.parquet" for number in range(n_parts)]
        encode_one = delayed(_encode_partition, traverse=False)
        tasks = [encode_one(known, *each) for each in zip(corpus.partitions, parts, strict=True)]
        sums = np.zeros(4, np.int64)
        for first in range(0, n_parts, TASKS_TOGETHER):
            sums += np.sum(compute(tasks[first : first + TASKS_TOGETHER]), axis=0)
            reporter.advance("encode", min(first + TASKS_TOGETHER, n_parts), n_parts, unit="partitions")
        reporter.close()
        n_texts, n_tokens, n_known, n_without = sums.tolist()
        if not n_texts:
            raise ValueError(
                f"there is no text in {', '.join(sorted({p.url for p in corpus.partitions})[:3])}"
            )
        batches = (batch for path in parts for batch in _pieces(path, _schema(encoder)))
        contents = f"{plural(n_texts, 'text')} x {plural(encoder.n_features_out_, 'component')}"
        table = Table(pa.RecordBatchReader.from_batches(_schema(encoder), batches), n_texts, contents)
        # A call that is killed leaves nothing but the folder, which the next one removes.
        write_table(target if beside is None else f"{folder}/{own.name}", table, format=ending)
        if beside is not None:
            Path(folder, own.name).replace(own)
    lost = f"; {without_words(n_without, n_texts)}" if n_without else ""
    composed, share = " or composed" if encoder.unknown_ == "subwords" else "", n_known / max(n_tokens, 1)
    said = f"{share:.1%} of {plural(n_tokens, 'token')} known{composed}; {rows_in_words(encoder)}{lost}"
    return f"{said}\n{table.contents} in {target}"


def _encode_partition(encoder: TextEncoder, partition: Partition, path: str) -> Int64s:
    """Write the texts of a partition with their vectors as one Parquet file, and return how many they are.

    The numbers are those of texts, tokens, known tokens, and texts without a known word.
    """
    schema = _schema(encoder)
    totals = np.zeros(4, np.int64)
    with (
        opened(path, "wb") as file,
        pq.ParquetWriter(
            file, schema, compression="none", use_dictionary=False, write_page_checksum=True
        ) as out,
    ):
        for heads, (vectors, n_tokens, n_known) in encode_texts(encoder, partition):
            lists = pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), vectors.shape[1])
            columns = [*heads.columns, pa.array(n_tokens), pa.array(n_known), lists]
            out.write_batch(pa.record_batch(columns, schema=schema))
            totals += [len(n_known), n_tokens.sum(), n_known.sum(), (n_known == 0).sum()]
    return totals


def _schema(encoder: TextEncoder) -> pa.Schema:
    texts = [(name, pa.string()) for name in ("id", "title", "label", "snippet")]
    counts = [(name, pa.int64()) for name in ("n_tokens", "n_known")]
    return pa.schema([*texts, *counts, ("vector", pa.list_(pa.float32(), encoder.n_features_out_))])


def _pieces(path: str, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a Parquet file of text vectors, a row group at a time."""
    with opened(path, "rb") as file:
        parquet = ParquetFile(file)
        for group in range(parquet.num_row_groups):
            yield from parquet.read_row_group(group, use_threads=False).cast(schema).to_batches()


# --- a static model ------------------------------------------------------------------------------------------------


def export_static(source: Source, target: str, **options: Any) -> str:
    """Write vectors as a folder for sentence-transformers and model2vec, and return in words what was written.

    Parameters
    ----------
    source : Job, Workspace or path of a vector file
        A workspace gives the counts of the words and the tokenizer.
    target : str
        "static:" and the folder.
    **options
        Those of `TextEncoder`; None stands for the default.

    Raises
    ------
    ValueError, FileExistsError, FileNotFoundError
        As `write_static_model`, and where there are no vectors at `source`.
    """
    folder, about = Path(target.removeprefix("static:")), list[str]()
    job = None if isinstance(source, str) else job_of(source)
    encoder = open_encoder(job or source, unknown="skip", **options)
    left_out = _left_out(encoder)
    if job is not None:
        workspace, section = Workspace.open(job.job.workspace), getattr(job, "corpus", None)
        if section is not None and (tokens := workspace.stages().get("tokens")):
            files = ", ".join(f"`{str(path).rsplit('/', 1)[-1]}`" for path in section.paths)
            n_documents, n_tokens = (tokens.facts[f"n_{name}s"] for name in ("document", "token"))
            size = f"{plural(n_documents, 'document')}, {plural(n_tokens, 'token')}"
            about.append(f"## Corpus\n\n{job.job.title or 'A corpus'}: {size}, from {files}.\n")
        digest = workspace.digest(spec.name for spec in system_of(job).stages(job))
        about.append(f"Made with distembed {distembed.__version__}; digest of the job: `{digest}`.\n")
    about += [f"## Left out\n\n{'; '.join(left_out)}.\n"] if left_out else []
    card = model_card(folder.absolute().name, encoder, about="\n".join(about))
    write_static_model(target.removeprefix("static:"), encoder, card=card)
    n_words, d = encoder.rows_.shape
    notes = [
        f"{plural(n_words, 'word')} x {plural(d, 'dimension')} in {folder}, {rows_in_words(encoder)}",
        "load it with SentenceTransformer(DIR) or StaticModel.from_pretrained(DIR), compare by cosine",
        *left_out,
    ]
    return "; ".join(notes)


def _left_out(encoder: TextEncoder) -> list[str]:
    """Return what the folder does not hold of the vectors, in sentences."""
    notes = []
    if getattr(encoder.vectors_, "subwords", None) is not None:
        notes.append("the n-grams are left out: these libraries compose no words")
    if lost := unreadable_words(encoder):
        notes.append(
            f"{len(lost):,} of {plural(len(encoder.vectors_), 'word')} never come out of a text as the tokenizer cuts "
            f"it ({first_words(lost)})"
        )
    return notes


# --- new texts and rows ----------------------------------------------------------------------------------------


class NewFiles(NamedTuple):
    """Files that a job has not seen, and what is wanted of them.

    Attributes
    ----------
    paths : tuple of str
        Files, globs, folders or URLs, relative to the current folder; of an imputation job one table.
    target : str
        The file that is written, whole or not at all.
    words : str, optional
        A file of the words that get a vector, one per line; for jobs of word vectors.
    min_count : int, optional
        The fewest occurrences of such a word; by default the job's own, and 1 for the words of a file.
    space : str, optional
        Written in place of spaces inside words, in the formats that end a word at a space.
    """

    paths: tuple[str, ...]
    target: str
    words: str | None = None
    min_count: int | None = None
    space: str | None = None

    def section_of(self, corpus: CorpusSection) -> CorpusSection:
        """Return a section that reads these files as one of a job reads its own, and none that the job names."""
        return corpus.model_copy(update={"paths": self.paths, "metadata": None, "path_fields": ()})


def infer_job(job: Job, new: NewFiles, *, allow_code: bool = False) -> str:
    """Write what a finished job infers of new files to a file or URL, and return in words what was written.

    A topics job infers the topics of documents, a psdvec job the vectors of words, and an imputation job those of the
    names of a table. `allow_code` lets the tokenizer of the job be a Python function.

    Raises
    ------
    JobError
        If the job names a Python function and `allow_code` is False, or was found in a workspace and names a file that
        has to be read.
    ValueError
        If the system infers nothing, the format of the file cannot be detected, or there is nothing to infer.
    CorpusError, FileNotFoundError
        If a file cannot be read as the job says.
    """
    check_code(job, allow_code=allow_code)
    refuse_recorded(job)
    module = system_of(job).inference
    if module is None:
        raise ValueError(
            f"a job of the method {job.job.system} infers nothing of new files; topics, psdvec and imputation jobs do"
        )
    with dask.config.set({"distembed.block_memory": job.resources.block_memory}):
        written: str = import_module(module).infer(job, Workspace.open(job.job.workspace), new)
    return written
