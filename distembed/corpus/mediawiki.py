"""Reads MediaWiki XML exports as batches of plain text.

A dump is cut where its pages end, which are parsed one by one. Entities that a file declares are therefore unknown, and
nothing outside the file is ever opened. Exports that were concatenated into one file are read one after the other, with
the namespace names of the first.
"""

from __future__ import annotations

import codecs
import html
import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import pairwise
from xml.etree import ElementTree as ET
from xml.parsers import expat

import numpy as np

from distembed.corpus import markup
from distembed.corpus.records import (
    Batch,
    CorpusError,
    Partition,
    Progress,
    batch_of,
    document_table,
    encoding_advice,
    whole_records,
)
from distembed.formats.encodings import text_encoding

# A dump's siteinfo is some KiB.
MAX_HEAD_BYTES = 1 << 20
FILE_NAMESPACE, CATEGORY_NAMESPACE, MEDIA_NAMESPACE = 6, 14, -2
ENGLISH_NAMES = ("file", "image", "category", "media")

PAGE = b"<page>"
PAGE_END = b"</page>"
EXPORT_END = b"</mediawiki>"
PLAIN_PAGE = re.compile(
    rb"<page>\s*<title>([^<]*)</title>\s*<ns>(-?\d{1,9})</ns>\s*<id>(\d+)</id>"
    rb"((?:[^<]*<(?!text\b))*[^<]*)<text\b[^<>]*?(?:/>|>([^<]*)</text>)"
)
"""A page as MediaWiki writes it: its title, namespace and id, what is before its text, and its text."""
ENTITIES = ((b"&lt;", b"<"), (b"&gt;", b">"), (b"&quot;", b'"'), (b"&apos;", b"'"), (b"&amp;", b"&"))
NUMBER = re.compile(r"\s*-?\d{1,9}\s*")
PAGE_ID = re.compile(rb"<id>(\d+)</id>")
REDIRECT = re.compile(rb"\s*#redirect\b", re.IGNORECASE)
ENTITY = re.compile(rb"&(?:#[0-9]{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});")
NAMESPACE = re.compile(r'<namespace key="(-?\d{1,9})"[^<>]*?(?:/>|>([^<]*)</namespace>)')


class Stripper:
    """Strips wikitext, with the names that a dump's file and category namespaces have."""

    def __init__(self, namespace_names: tuple[tuple[int, str], ...] = ()):
        dropped = {FILE_NAMESPACE, CATEGORY_NAMESPACE, MEDIA_NAMESPACE}
        names = [*ENGLISH_NAMES, *(name for key, name in namespace_names if key in dropped and name)]
        # Only ASCII is folded by the machine, and the first letter of a name may be of either case.
        ordered = sorted({form.encode().lower() for name in names for form in (name, name.lower())})
        self.names = np.frombuffer(b"".join(ordered), np.uint8)
        self.name_stops = np.cumsum([len(name) for name in ordered])

    def __call__(self, wikitexts: Sequence[bytes]) -> list[bytes]:
        """Return the plain text of each wikitext."""
        source = np.frombuffer(b"".join(wikitexts), np.uint8)
        out = np.empty(len(source) + 1, np.uint8)
        stops = np.cumsum([len(text) for text in wikitexts])
        ends = markup.strip(source, stops, self.names, self.name_stops, out).tolist()
        plain = out[: ends[-1]].tobytes()
        texts = [plain[begin:end] for begin, end in pairwise([0, *ends])]
        return [with_characters(text) if b"&" in text else text for text in texts]


def with_characters(text: bytes) -> bytes:
    """Return text with the characters of its HTML entities."""
    return ENTITY.sub(lambda found: entity_text(found.group()), text.replace(b"&nbsp;", b"\xc2\xa0"))


@lru_cache(maxsize=4096)
def entity_text(entity: bytes) -> bytes:
    """Return the character of an HTML entity, as UTF-8."""
    return html.unescape(entity.decode()).encode("utf-8", "replace")


def strip_wikitext(text: str, *, namespace_names: tuple[tuple[int, str], ...] = ()) -> str:
    """Return the plain text of wikitext: without templates, tables, references, files and mathematics.

    Link text, headings and the contents of other HTML elements are kept. A construct that is never closed
    removes nothing. The time is linear in the length of the text.

    Examples
    --------
    >>> from distembed.corpus.mediawiki import strip_wikitext
    >>> strip_wikitext("'''Rome''' is in [[Italy|the country]].{{citation needed}}")
    'Rome is in the country.'
    """
    return Stripper(namespace_names)([text.encode()])[0].decode("utf-8", "replace")


def read_head(partition: Partition, data: bytes) -> tuple[str, tuple[tuple[int, str], ...]]:
    """Return the encoding that a byte-order mark or XML gives a dump, and its namespaces, from its first bytes.

    Raises
    ------
    CorpusError
        If the file is not a MediaWiki export.
    """
    declared = re.match(rb"(?:\xef\xbb\xbf)?\s*<\?xml[^>]*?encoding=[\"']([A-Za-z0-9._-]+)[\"']", data)
    encoding = declared[1].decode().lower() if declared else "utf-8"
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        encoding = "utf-16"
    elif not text_encoding(encoding):
        encoding = "utf-8"
    head = data.decode(encoding, "ignore")
    if "<mediawiki" not in head and "<page>" not in head:
        raise CorpusError(
            f'{partition.url} is not a MediaWiki export: no <mediawiki> in it; give format= ("text", "jsonl", ...).'
        )
    names = head.partition("</siteinfo>")[0]
    return encoding, tuple((int(key), html.unescape(name)) for key, name in NAMESPACE.findall(names))


def read_pages(partition: Partition, progress: Progress) -> Iterator[Batch]:
    """Yield the batches of the pages of an export; a page that cannot be read is a bad record.

    Raises
    ------
    CorpusError
        If the file does not end with the end of an export.
    """
    stripper = Stripper(partition.namespace_names)
    for block in whole_records(partition, progress, PAGE_END):
        pages, offset = [], block.offset
        for text in block.data.split(PAGE_END)[:-1]:
            before, tag, inside = text.partition(PAGE)
            page = tag + inside + PAGE_END
            if tag and (found := _parsed(partition, offset + len(before), page, progress)):
                pages.append(found)
            offset += len(text) + len(PAGE_END)
        if pages:
            ids, titles, wikitexts = zip(*pages, strict=True)
            yield batch_of(stripper(wikitexts), document_table(ids, titles))
        rest = block.data[block.data.rfind(PAGE_END) + 1 :]
        if block.is_last and EXPORT_END not in rest:
            what = "its last page has no end" if PAGE in rest else "it has no </mediawiki> at its end"
            raise CorpusError(f"{partition.url} is cut off: {what}; download it again.")


def _parsed(
    partition: Partition, offset: int, data: bytes, progress: Progress
) -> tuple[str, str, bytes] | None:
    """Return the id, the title and the wikitext of a page, which begins at a place of the text.

    None stands for a page of another namespace, for a redirect, which are counted, and for a bad record: one that is
    not UTF-8, malformed, or in a namespace that is no number.
    """
    try:
        title, number, page_id, is_redirect, wikitext = plain_fields(data) or fields(data)
    except UnicodeDecodeError as error:
        byte = f"byte 0x{data[error.start]:02x} at offset {offset + error.start} of the text"
        progress.pass_over(
            partition, place_of(data, offset), f"is not UTF-8 ({byte}); {encoding_advice(data)}"
        )
        return None
    except ET.ParseError as error:
        what, (line, column) = expat.ErrorString(error.code), error.position
        what = f"is malformed XML ({what}, in line {line} of the page at column {column + 1})"
        progress.pass_over(
            partition, place_of(data, offset), f"{what}; correct it or download the file again"
        )
        return None
    if number is None:  # the dump is too old to say it
        prefix, colon, _ = title.partition(":")
        names = partition.namespace_names
        number = str(next((key for key, name in names if colon and name == prefix), 0))
    elif not NUMBER.fullmatch(number):
        what = f"has the namespace {number[:20]!r}, which is no number; correct the page"
        progress.pass_over(partition, place_of(data, offset), what)
        return None
    is_other = partition.namespaces is not None and int(number) not in partition.namespaces
    if is_other or is_redirect or REDIRECT.match(wikitext):
        progress.n_skipped_pages += 1
        return None
    return page_id, title, wikitext


def place_of(page: bytes, offset: int) -> str:
    """Return what a page, which begins at a place of the text, is called in an error."""
    found = PAGE_ID.search(page, 0, max(page.find(b"<revision"), 0))
    return f"byte {offset}" if found is None else f"page {found[1].decode()}"


Fields = tuple[str, str | None, str, bool, bytes]
"""Of a page its title, its namespace, its id, whether it says that it redirects, and its wikitext."""


def fields(page: bytes) -> Fields:
    """Return the fields of a page, whatever XML it is."""
    tree = ET.fromstring(page.decode())  # noqa: S314 - expat opens nothing, and a page declares nothing
    text = next(tree.iter("text"), None)
    title, number, page_id = (tree.findtext(name) for name in ("title", "ns", "id"))
    wikitext = ((text is not None and text.text) or "").encode()
    return title or "", number, page_id or "", tree.find("redirect") is not None, wikitext


def plain_fields(page: bytes) -> Fields | None:
    """Return the same without a tree, which takes most of the time; None of a page that is malformed or unusual."""
    found = PLAIN_PAGE.match(page)
    if found is None or b"\r" in page or b"&#" in page:
        return None
    title, number, page_id, before, wikitext = found.groups(b"")
    if b"<!" in before or b"<redirect" in before:
        return None
    try:
        expat.ParserCreate("utf-8").Parse(page, True)
    except expat.ExpatError:
        return None
    return unescaped(title).decode(), number.decode(), page_id.decode(), False, unescaped(wikitext)


def unescaped(text: bytes) -> bytes:
    """Return text without the entities that XML itself has."""
    if b"&" in text:
        for entity, character in ENTITIES:
            text = text.replace(entity, character)
    return text
