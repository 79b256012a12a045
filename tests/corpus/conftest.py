"""Small corpora for the tests of this folder."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
from collections.abc import Sequence
from pathlib import Path
from xml.sax.saxutils import escape

import pyarrow as pa
import pytest

import distembed as de
from distembed.corpus import records
from distembed.corpus.records import NAMED_RECORDS, Batch, Progress

COMPRESS = {
    "": bytes,
    ".bz2": bz2.compress,
    ".gz": gzip.compress,
    ".xz": lzma.compress,
    ".zst": lambda data: pa.compress(data, "zstd", asbytes=True),
}
REDIRECT = '    <redirect title="x" />'
HEAD = """<mediawiki xmlns="http://www.mediawiki.org/xml/export-0.10/" version="0.10" xml:lang="de">
  <siteinfo><namespaces>
    <namespace key="0" case="first-letter" />
    <namespace key="1" case="first-letter">Diskussion</namespace>
    <namespace key="6" case="first-letter">Datei</namespace>
    <namespace key="14" case="first-letter">Kategorie</namespace>
  </namespaces></siteinfo>
"""


def write(path: Path, data: str | bytes) -> str:
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return str(path)


def batch_of(*texts: bytes) -> Batch:
    """Return a batch of documents without names."""
    return records.batch_of(texts)


def total(summaries: Sequence[Progress]) -> Progress:
    """Return the sums over all partitions, and the first of their bad records."""
    *numbers, records_of, _ = zip(*(vars(one).values() for one in summaries), strict=True)
    bad = [record for some in records_of for record in some]
    return Progress(*map(sum, numbers), bad[:NAMED_RECORDS])


def counted_tokens(folder: Path, *files: list[dict[str, str | None]], **options: object) -> de.corpus.Tokens:
    """Return the tokens of records that are written as JSON lines, a partition for each file."""
    for number, rows in enumerate(files):
        write(folder / f"{number}.jsonl", "".join(json.dumps(record) + "\n" for record in rows))
    return de.read_corpus(str(folder / "*.jsonl"), **options).tokenize(folder / "parts")


def page(
    number: int, text: str, *, title: str | None = None, namespace: int = 0, redirect: bool = False
) -> str:
    return (
        f"  <page>\n    <title>{escape(title or f'Seite {number}')}</title>\n    <ns>{namespace}</ns>\n"
        f"    <id>{number}</id>\n{REDIRECT if redirect else ''}\n"
        f"    <revision>\n      <id>9</id>\n      <comment>a &lt;page&gt;</comment>\n"
        f'      <text xml:space="preserve">{escape(text)}</text>\n    </revision>\n  </page>\n'
    )


@pytest.fixture
def dump() -> str:
    """Return a small German export: 30 pages, 24 of them articles."""
    pages = []
    for number in range(30):
        text = f"== Überschrift {number} ==\n'''Wort''' {{{{Vorlage|a}}}} [[Ziel|Text]] "
        text += f"zahl{'x' * number} &nbsp; <ref>weg</ref>ende."
        kind = {"namespace": int(number % 10 == 3), "redirect": number % 10 == 7}
        pages.append(page(number, text, title=f"A & B {number}", **kind))
    return HEAD + "".join(pages) + "</mediawiki>\n"
