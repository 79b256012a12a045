"""A valid file of every kind that the package reads, and the function that reads it whole."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import dask
import dask.array as da
import numpy as np
import openpyxl
import pyarrow as pa
import pyarrow.parquet as pq
import scipy.sparse as sp
import zstandard

import distembed as de
from benchmarks.measures import alone
from distembed.corpus.mediawiki import strip_wikitext
from distembed.corpus.partitions import read_metadata
from distembed.corpus.stop_words import stop_words_of
from distembed.evaluation.wordsets import find_sets, read_set
from distembed.job.load import load_job
from distembed.job.new import look_at_table, records_of, text_fields
from distembed.job.opening import open_job
from distembed.tables.rows import read_rows
from distembed.tables.sections import DomainSection
from tests.small_jobs import psdvec

PAGE = "<page><title>Sea</title><ns>0</ns><id>{}</id><revision><text>{}</text></revision></page>"
WIKITEXT = "'''Sea''' is [[water|salt]] &amp; {{c|a={{b}}}} <ref name=x>r</ref> [[File:a|x]] {| class='a'\n|-\n| b\n|}"
WORDS, ROWS = ["sea", "shore", "küste"], np.arange(12, dtype=np.float32).reshape(3, 4) + 0.5
COUNTS = sp.csr_array(np.array([[2, 1, 0], [1, 0, 3], [0, 3, 1]], np.float64))


class Sample(NamedTuple):
    """A valid file: what is in it, how it is read whole, and files that lie beside it."""

    data: bytes
    read: Callable[[str], Any]
    beside: tuple[tuple[str, bytes], ...] = ()


def _binary(write: Callable[[io.BytesIO], Any]) -> bytes:
    file = io.BytesIO()
    write(file)
    return file.getvalue()


def _saved(name: str, folder: Path, subwords: bool = False) -> bytes:
    table = de.SubwordTable(ROWS, ROWS[0] * 0, min_n=3, max_n=3) if subwords else None
    de.WordVectors(WORDS, ROWS, subwords=table).save(folder / name)
    return (folder / name).read_bytes()


def _fasttext_model(folder: Path) -> bytes:
    from gensim.models import fasttext

    model = fasttext.FastText([WORDS], vector_size=4, min_count=1, bucket=3, epochs=1, seed=1, workers=1)
    fasttext.save_facebook_model(model, str(folder / "grams.fasttext.bin"))
    return (folder / "grams.fasttext.bin").read_bytes()


# ---- how each kind is read ------------------------------------------------------------------------------------


def read_documents(path: str, **options: Any) -> None:
    """Read a corpus by each of its ways: `distembed new`, its documents one by one, and its tokens."""
    text_fields(records_of(path))
    corpus = de.read_corpus(path, **options)
    for _ in corpus.documents():
        pass
    with dask.config.set(scheduler="synchronous"):
        corpus.tokenize()


def read_records(path: str) -> None:
    read_documents(path, text_field="text", id_field="id", label_field="label")


def read_wikitext(path: str) -> None:
    strip_wikitext(Path(path).read_bytes().decode("utf-8", "replace"))


def read_any_table(path: str) -> None:
    read_rows(DomainSection(path=path, delimiter=";" if path.endswith(".csv") else None))
    look_at_table(path, {"name_column"})


def read_counts(path: str) -> None:
    de.read_counts(path, words=de.Vocabulary(WORDS, [4, 3, 2], [2, 1, 1]))


def read_document_table(path: str) -> None:
    read_metadata(path)


def read_phrases(path: str) -> None:
    de.Tokenizer(phrases_file=path)("A ship sails from New York to Rome.")


def read_sentences(path: str) -> None:
    find_sets(path, sentences=True)


def read_workspace(path: str) -> None:
    """Read all of the workspace that has a file at the path."""
    place = path[: path.index("/w/") + 2]
    if de.Workspace.exists(place):
        workspace = de.Workspace.open(place)
        workspace.verify()
        open_job(place)
        for stage in workspace.stages().values():
            for output in stage.outputs:
                workspace.array(output).compute(scheduler="synchronous")


# ---- the files -------------------------------------------------------------------------------------------------


def corpora() -> Iterable[tuple[str, Sample]]:
    """Yield texts of every format, plain and packed."""
    pages = "".join(PAGE.format(n, WIKITEXT.replace("<", "&lt;")) for n in range(3))
    site = '<mediawiki><siteinfo><namespaces><namespace key="6">Datei</namespace></namespaces></siteinfo>'
    dump = f"{site}{pages}</mediawiki>\n".encode()
    lines = b"".join(
        json.dumps({"id": n, "label": "a", "text": "sea and shore", "more": [{}]}).encode() + b"\n"
        for n in range(3)
    )
    table = b'id,label,text\n1,a,"sea, and ""shore"""\n2,b,tide\n'
    text = "The sea.\n\nThe küste, and 12 shores.\n".encode() * 3
    yield "dump.xml", Sample(dump, read_documents)
    yield "slow.xml", Sample(dump.replace(b"Sea</title>", b"<![CDATA[Sea]]></title>"), read_documents)
    yield "page.wiki", Sample(WIKITEXT.encode(), read_wikitext)
    yield "lines.jsonl", Sample(lines, read_records)
    yield "table.csv", Sample(table, read_records)
    yield "table.tsv", Sample(b"id\tlabel\ttext\n1\ta\tsea and shore\n2\tb\ttide\n", read_records)
    yield "text.txt", Sample(text, read_documents)
    yield "latin.txt", Sample(text.decode().encode("latin-1"), partial(read_documents, encoding="latin-1"))
    yield "wide.txt", Sample(text.decode().encode("utf-16"), read_documents)
    yield "text.txt.gz", Sample(gzip.compress(text) * 2, read_documents)
    yield "dump.xml.bz2", Sample(bz2.compress(dump) + bz2.compress(text), read_documents)
    yield "text.txt.xz", Sample(lzma.compress(text) * 2, read_documents)
    yield "lines.jsonl.zst", Sample(zstandard.compress(lines), read_records)
    rows = pa.table({"id": ["1", "2"], "label": ["a", None], "text": ["sea and shore", "tide"]})
    yield "texts.parquet", Sample(_binary(lambda file: pq.write_table(rows, file)), read_records)
    yield "documents.tsv", Sample(b"file\tyear\nsea.txt\t1850\n", read_document_table)
    yield "names.txt", Sample(b"New York\nLos Angeles\nRome\n", read_phrases)
    yield "stop.txt", Sample(b"# words\nthe\nand\n", lambda place: stop_words_of((), file=place))


def vector_files(folder: Path) -> Iterable[tuple[str, Sample]]:
    """Yield vectors in every format of the field."""
    for name in ("v.txt", "v.bin", "v.glove", "v.parquet", "v.safetensors", "v.txt.gz"):
        yield name, Sample(_saved(name, folder), de.WordVectors.load)
    yield "grams.safetensors", Sample(_saved("grams.safetensors", folder, subwords=True), de.WordVectors.load)
    yield "grams.fasttext.bin", Sample(_fasttext_model(folder), de.WordVectors.load)


def tables() -> Iterable[tuple[str, Sample]]:
    """Yield tables of numbers."""
    numbers = pa.table({"name": WORDS, "a": [1.0, 2.5, 3.0]})
    columns = numbers.append_column("b", pa.array(["x", None, "x"]).dictionary_encode())
    yield "t.parquet", Sample(_binary(lambda file: pq.write_table(columns, file)), read_any_table)
    yield "t.csv", Sample("name;a;b\nsea;1.5;2\nküste;-3;4\n".encode(), read_any_table)
    book = openpyxl.Workbook()
    for row in (["name", "a", "day"], ["sea", 1.5, "2020-01-02"], ["shore", None, "2020-01-03"]):
        book.active.append(row)
    yield "t.xlsx", Sample(_binary(book.save), read_any_table)


def word_files() -> Iterable[tuple[str, Sample]]:
    """Yield vocabularies, tables of counts and evaluation sets."""
    words = pa.table({"word": WORDS, "count": [4, 3, 2], "document_count": [2, 1, 1]})
    yield "words.parquet", Sample(_binary(lambda file: pq.write_table(words, file)), de.Vocabulary.load)
    triples = pa.table({"word": ["sea", "shore"], "context": ["shore", "sea"], "count": [2.0, 1.0]})
    yield "c.parquet", Sample(_binary(lambda file: pq.write_table(triples, file)), read_counts)
    yield "pairs.tsv", Sample(b"word1\tword2\tscore\nsea\tshore\t8.5\nsea\ttide\t3\n", read_set)
    capitals = b": capitals\nrome italy paris france\nbern swiss wien austria\n"
    yield "analogies.txt", Sample(capitals, read_set)
    yield "synonyms.txt", Sample(b"sea | ocean | tree | car\nshore | coast | moon | pen\n", read_set)
    yield "norms.tsv", Sample(b"CUE\tTARGET\tFSG\nsea\tshore\t0.5\nsea\ttide\t0.25\n", read_set)
    yield "sentences.tsv", Sample(b"a\t4.5\tthe sea\tan ocean\nb\t1\ta tree\tthe tide\n", read_sentences)
    labeled = (
        {"label": "a", "split": "train", "text": "sea"},
        {"label": "b", "split": "test", "text": "tide"},
    )
    yield "labeled.jsonl", Sample("\n".join(map(json.dumps, labeled)).encode(), read_sentences)
    yield "job.toml", Sample(psdvec.JOB.encode(), load_job)


def records(folder: Path) -> Iterable[tuple[str, Sample]]:
    """Yield every file of a small workspace."""
    alone(write_workspace, folder / "w")
    files = sorted(file for file in (folder / "w").rglob("*") if file.is_file())
    beside = tuple((str(file.relative_to(folder)), file.read_bytes()) for file in files)
    for name, data in beside:
        yield name, Sample(data, read_workspace, beside)


def write_workspace(place: Path) -> None:
    with de.Workspace.create(place, owner="a test") as workspace:
        workspace.write_file("job.toml", psdvec.JOB.encode())
        stage = workspace.stage("numbers", parameters={"n": 3}, inputs={})
        about = {"dims": ["word", "component"], "units": "1", "meaning": "Numbers."}
        stage.store("numbers", da.from_array(ROWS, chunks=(2, 4)), **about)
        stage.commit()


def all_samples(folder: Path) -> dict[str, Sample]:
    """Return every sample by the name of its file; the folder is for what is written to be read again."""
    texts = {**dict(corpora()), **dict(vector_files(folder)), **dict(tables()), **dict(word_files())}
    return texts | dict(records(folder))
