"""Reads MediaWiki XML exports as batches of plain text.

An ordinary dump (UTF-8, no DTD) is divided into pages by searching for their tags, which is several times as
fast as an XML parser. A page that holds CDATA or comments, an uncommonly large page, and files in other
encodings are parsed by expat, piece by piece. Entities declared in a file are refused, and nothing outside
the file is ever opened. Exports that were concatenated into one file are read one after the other, with the
namespace names of the first.
"""

from __future__ import annotations

import codecs
import html
import re
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from functools import lru_cache
from typing import Any, NamedTuple
from xml.parsers import expat
from xml.sax.saxutils import unescape

import numpy as np

from distembed.corpus import markup
from distembed.corpus.documents import Span, line_of, lines_within
from distembed.corpus.errors import BadRecord, CorpusError, RecordError
from distembed.corpus.streams import Partition, Progress, option_text, pieces_of
from distembed.formats.encodings import text_encoding

# A page beyond this size is parsed and stripped in pieces. (MediaWiki's own limit on a page is 2 MiB.)
MAX_PAGE_BYTES = 1 << 24
# A dump's siteinfo is some KiB.
MAX_HEAD_BYTES = 1 << 20
FILE_NAMESPACE, CATEGORY_NAMESPACE, MEDIA_NAMESPACE = 6, 14, -2
ENGLISH_NAMES = ("file", "image", "category", "media")

PAGE = b"<page>"
PAGE_END = b"</page>"
EXPORT_END = b"</mediawiki>"
PAGE_HEAD = re.compile(
    rb"\s*<title>([^<]*)</title>\s*(?:<ns>(-?\d{1,9})</ns>\s*)?<id>(\d+)</id>\s*(<redirect\b[^>]*>)?",
    re.DOTALL,
)
TEXT = re.compile(rb"<text\b[^<>]*?(?:/>|>([^<]*)</text>)")
REDIRECT = re.compile(rb"\s*#redirect\b", re.IGNORECASE)
CHARACTER = re.compile(rb"&#(?:x([0-9a-fA-F]{1,6})|([0-9]{1,7}));")
ENTITY = re.compile(rb"&(?:#[0-9]{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});")
NAMESPACE = re.compile(r'<namespace key="(-?\d{1,9})"[^<>]*?(?:/>|>([^<]*)</namespace>)')


class Page(NamedTuple):
    """The title, namespace, id and redirect flag of a page."""

    title: str
    namespace: int
    id: str
    redirect: bool


LEFT_OUT = Page("", 0, "", redirect=False)
"""What stands for a page that is a bad record."""


class Stripper:
    """Strips wikitext, with the names that a dump's file and category namespaces have."""

    def __init__(self, namespace_names: tuple[tuple[int, str], ...] = ()):
        dropped = {FILE_NAMESPACE, CATEGORY_NAMESPACE, MEDIA_NAMESPACE}
        names = {name for key, name in namespace_names if key in dropped and name}
        # Only ASCII is folded by the machine, and the first letter of a name may be of either case.
        variants = {ascii_lower(v) for name in names for v in (name, name.lower())} | {
            n.encode() for n in ENGLISH_NAMES
        }
        ordered = sorted(variants)
        self.names = np.frombuffer(b"".join(ordered), np.uint8)
        self.name_stops = np.cumsum([len(name) for name in ordered])
        self.stack = np.zeros((markup.MAX_DEPTH, 3), np.int64)

    def __call__(self, wikitext: bytes) -> bytes:
        """Return the plain text of wikitext."""
        source = np.frombuffer(wikitext, np.uint8)
        out = np.empty(len(source) + 1, np.uint8)
        fields = np.zeros(markup.N_FIELDS, np.int64)
        n = markup.strip(source, out, self.stack, fields, self.names, self.name_stops)
        text = out[:n].tobytes()
        if b"&" in text:
            text = ENTITY.sub(entity_text, text.replace(b"&nbsp;", b"\xc2\xa0"))
        return text


def ascii_lower(name: str) -> bytes:
    """Return UTF-8 with ASCII letters in lower case and the others as they are."""
    return name.encode().lower()


def entity_text(match: re.Match[bytes]) -> bytes:
    """Return the character of an HTML entity."""
    return entity_bytes(match.group())


@lru_cache(maxsize=4096)
def entity_bytes(entity: bytes) -> bytes:
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
    return Stripper(namespace_names)(text.encode()).decode("utf-8", "replace")


def read_head(url: str, data: bytes, section: str = "") -> tuple[str, tuple[tuple[int, str], ...]]:
    """Return the encoding and the namespaces of a dump, from its first bytes.

    Raises
    ------
    CorpusError
        If the file is not a MediaWiki export.
    """
    encoding = head_encoding(data)
    head = data.decode(encoding, "ignore")
    if "<mediawiki" not in head and "<page>" not in head:
        raise CorpusError(
            f"{url} is not a MediaWiki export: no <mediawiki> in it; give {option_text(section, 'format')} "
            '("text", "jsonl", ...).'
        )
    names = head.partition("</siteinfo>")[0]
    return encoding, tuple((int(key), html.unescape(name)) for key, name in NAMESPACE.findall(names))


def head_encoding(data: bytes) -> str:
    """Return the encoding that a byte-order mark or the XML declaration gives."""
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    declared = re.match(rb"(?:\xef\xbb\xbf)?\s*<\?xml[^>]*?encoding=[\"']([A-Za-z0-9._-]+)[\"']", data)
    name = declared[1].decode().lower() if declared else "utf-8"
    return name if text_encoding(name) else "utf-8"


def is_plain(data: bytes) -> bool:
    """Return whether a dump's beginning has nothing that needs an XML parser to find its pages."""
    return head_encoding(data) == "utf-8" and b"<!DOCTYPE" not in data


def is_inside_markup(data: bytes) -> bool:
    """Return whether XML ends inside CDATA or a comment."""
    return data.rfind(b"<![CDATA[") > data.rfind(b"]]>") or data.rfind(b"<!--") > data.rfind(b"-->")


def is_wanted(page: Page, partition: Partition, progress: Progress) -> bool:
    """Return whether a page is a document, and count it where it is not."""
    if page is LEFT_OUT:
        return False
    if partition.namespaces is not None and page.namespace not in partition.namespaces:
        progress.n_skipped_namespace += 1
        return False
    if page.redirect and not partition.redirects:
        progress.n_skipped_redirect += 1
        return False
    return True


def page_spans(partition: Partition, progress: Progress) -> Iterator[Span]:
    """Yield the plain text of the pages that begin in a partition."""
    stripper = Stripper(partition.namespace_names)
    wanted = True
    for piece in (
        page_pieces(partition, progress) if partition.layout == "pages" else expat_pieces(partition, progress)
    ):
        if piece.begins:
            wanted = is_wanted(piece.page, partition, progress)
        if wanted:
            page_id = piece.page.id if piece.begins else None
            yield Span(stripper(piece.text), piece.closes, page_id, piece.page.title)


class PageSource:
    """The bytes of a partition, read from page to page."""

    def __init__(self, partition: Partition, progress: Progress):
        self.partition = partition
        self.pieces = pieces_of(partition, progress)
        self.data = b""
        self.position = 0
        self.n_dropped = 0  # bytes of the partition before data[0]
        self.owned: float = 0  # bytes of the partition in which pages begin
        self.export_ended = False

    def close(self) -> None:
        """Close the file."""
        self.pieces.close()  # type: ignore[attr-defined]

    def more(self) -> bool:
        """Read the next piece; return False at the end of the file."""
        piece = next(self.pieces, None)
        if piece is None:
            return False
        if piece.owned:
            self.owned += len(piece.data)
        self.data = self.data[self.position :] + piece.data
        self.n_dropped += self.position
        self.position = 0
        return True

    def seek_page(self) -> bool:
        """Move past the next <page> tag that begins in the partition; return False if there is none."""
        while (found := self.data.find(PAGE, self.position)) < 0:
            self.export_ended = self.export_ended or self.data.find(EXPORT_END, self.position) >= 0
            # The last bytes may be the beginning of a tag.
            self.position = max(self.position, len(self.data) - len(EXPORT_END) + 1)
            if not self.more():
                self.check_end()
                return False
            if self.n_dropped + self.position >= self.owned:
                return False
        # Another export may follow the end of one: only the last of a file has to be closed.
        self.export_ended = False
        self.position = found + len(PAGE)
        return self.n_dropped + found < self.owned

    def check_end(self) -> None:
        """Check that the file ends with the end of an export.

        Raises
        ------
        CorpusError
            If the last export of the file is not closed.
        """
        # A partition may begin inside the last tag.
        is_tail = self.n_dropped == 0 and self.partition.start > 0 and EXPORT_END.endswith(self.data.strip())
        if self.owned and not self.export_ended and not is_tail:
            raise CorpusError(
                f"{self.partition.url} is cut off: it has no </mediawiki> at its end; download it again."
            )

    def whole_page(self) -> bytes | None:
        """Return the inside of the page, or None where it is too large to be held."""
        search = self.position
        while True:
            end = self.data.find(PAGE_END, search)
            if end >= 0:
                page = self.data[self.position : end]
                # An end tag inside CDATA or a comment is text.
                if b"<!" in page and is_inside_markup(page):
                    search = end + 1
                    continue
                self.position = end + len(PAGE_END)
                return page
            if len(self.data) - self.position > MAX_PAGE_BYTES:
                return None
            search = max(self.position, len(self.data) - len(PAGE_END)) - self.position
            if not self.more():
                raise CorpusError(
                    f"{self.partition.url} is cut off: its last page has no end; download it again."
                )

    def parse(self, data: bytes) -> tuple[Page, bytes]:
        """Return the head of a page and its wikitext."""
        head = PAGE_HEAD.match(data)
        text = None if b"<!" in data or head is None else TEXT.search(data, head.end())
        if head is None or text is None:
            return self.parse_slowly(data, head)
        title, namespace, page_id, redirect = head.groups()
        wikitext = text.group(1) or b""
        if b"&" in wikitext:
            wikitext = decode_entities(wikitext)
        name = unescape(title.decode("utf-8", "replace"), {"&quot;": '"', "&#039;": "'"})
        redirected = redirect is not None or REDIRECT.match(wikitext) is not None
        number = namespace_of(name, self.partition.namespace_names) if namespace is None else int(namespace)
        return Page(name, number, page_id.decode(), redirected), wikitext

    def parse_slowly(self, data: bytes, head: re.Match[bytes] | None) -> tuple[Page, bytes]:
        """Parse a page with expat, whose errors name what is malformed."""
        parser = PageParser(self.partition)
        try:
            pieces = list(parser.feed(PAGE + data + PAGE_END))
            parser.end()
        except expat.ExpatError as error:
            if self.partition.bad_records == "skip" and head is not None:
                raise xml_error(self.partition, error, f"page {head.group(3).decode()}") from error
            raise xml_error(self.partition, error, f"line {self.line_of(data) + error.lineno - 1}") from error
        return pieces[0].page, b"".join(piece.text for piece in pieces)

    def line_of(self, page: bytes) -> int:
        """Return the line of the file where a page begins, counted only when there is an error to report."""
        place = self.n_dropped + max(self.data.rfind(page, 0, self.position), 0)
        if self.partition.compression and self.partition.start:
            return 1 + lines_before(self.partition) + lines_within(self.partition, place)
        return line_of(self.partition, place + self.partition.start)


def lines_before(partition: Partition) -> int:
    """Return the number of line ends in the streams of a compressed file that begin before a partition does."""
    n_lines = 0
    for piece in pieces_of(replace(partition, start=0, stop=partition.start), Progress()):
        if not piece.owned:
            break
        n_lines += piece.data.count(b"\n")
    return n_lines


def decode_entities(text: bytes) -> bytes:
    """Return character data without XML's own entities."""
    if b"&#" in text:
        text = CHARACTER.sub(character_bytes, text)
    for entity, character in (
        (b"&lt;", b"<"),
        (b"&gt;", b">"),
        (b"&quot;", b'"'),
        (b"&apos;", b"'"),
        (b"&amp;", b"&"),
    ):
        text = text.replace(entity, character)
    return text


def character_bytes(match: re.Match[bytes]) -> bytes:
    """Return the character of a numeric reference as UTF-8; an ampersand stays escaped."""
    digits = match.group(1) or match.group(2)
    point = int(digits, 16 if match.group(1) else 10)
    if point == ord("&"):
        return b"&amp;"
    return chr(point).encode("utf-8", "replace") if point <= 0x10FFFF else b"?"


def namespace_of(title: str, names: tuple[tuple[int, str], ...]) -> int:
    """Return the namespace that a title's prefix names, for dumps too old to say it themselves."""
    prefix, colon, _ = title.partition(":")
    return next((key for key, name in names if colon and name == prefix), 0)


def xml_error(partition: Partition, error: expat.ExpatError, place: str) -> RecordError:
    """Return an error that names the place."""
    reason = f"is malformed XML ({expat.ErrorString(error.code)}); correct it or download the file again"
    return RecordError(BadRecord(partition.url, place, reason))


class PagePiece(NamedTuple):
    """The wikitext of a page, or the next piece of it."""

    page: Page
    text: bytes
    begins: bool
    closes: bool


class PageParser:
    """Finds pages in XML that is fed to it in pieces; at most two pieces of a page's text are held.

    With `progress`, which counts bad records, a page with a bad head becomes `LEFT_OUT`; otherwise it is an error.
    """

    def __init__(self, partition: Partition, progress: Progress | None = None):
        self.partition, self.progress = partition, progress
        self.parser = expat.ParserCreate("utf-8")
        self.parser.buffer_text = True
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = self._end
        self.parser.CharacterDataHandler = self._characters
        self.parser.EntityDeclHandler = self._refuse_entity
        self.found: list[PagePiece] = []
        self.field = ""
        self.head: dict[str, str] = {}
        self.page: Page | None = None
        self.text: list[str] = []
        self.size = 0
        self.in_revision = self.has_text = False

    def feed(self, data: bytes) -> Iterator[PagePiece]:
        """Yield the pieces of pages that are completed by the next bytes."""
        for first in range(0, len(data), self.partition.piece_bytes):
            self.parser.Parse(data[first : first + self.partition.piece_bytes], False)
            found, self.found = self.found, []
            yield from found

    def end(self) -> None:
        """Finish the parse; expat then reports what is missing."""
        self.parser.Parse(b"", True)

    def _start(self, name: str, _attributes: dict[str, str]) -> None:
        if name == "page":
            self.head, self.page, self.in_revision, self.has_text = {}, None, False, False
        elif name == "redirect":
            self.head["redirect"] = "1"
        elif name == "revision":
            self.in_revision = True
        elif (name in {"title", "ns", "id"} and not self.in_revision) or (
            name == "text" and not self.has_text
        ):
            self.field = name

    def _characters(self, data: str) -> None:
        if self.field == "text":
            self.text.append(data)
            self.size += len(data)
            if self.size > 2 * self.partition.piece_bytes:
                self._flush(closes=False)
        elif self.field:
            self.head[self.field] = self.head.get(self.field, "") + data

    def _end(self, name: str) -> None:
        if name == self.field:
            self.field = ""
        if (name == "text" and not self.has_text) or (name == "page" and not self.has_text):
            self._flush(closes=True)
            self.has_text = True

    def _flush(self, *, closes: bool) -> None:
        """Emit the buffered text, up to a blank line where the page continues."""
        text = "".join(self.text)
        cut = len(text) if closes else paragraph_cut(text)
        begins = self.page is None
        if self.page is None:
            self.page = self._page(text)
        self.found.append(PagePiece(self.page, text[:cut].encode("utf-8", "replace"), begins, closes))
        self.text, self.size = [text[cut:]], len(text) - cut

    def _page(self, text: str) -> Page:
        title = self.head.get("title", "")
        number = self.head.get("ns")
        if number is not None and not re.fullmatch(r"\s*-?\d{1,9}\s*", number):
            reason = f"has the namespace {number[:20]!r}, which is no number; correct the page"
            error = RecordError(BadRecord(self.partition.url, f"page {self.head.get('id', '')}", reason))
            if self.progress is None:
                raise error
            self.progress.pass_over(self.partition, error)
            return LEFT_OUT
        return Page(
            title,
            namespace_of(title, self.partition.namespace_names) if number is None else int(number),
            self.head.get("id", ""),
            "redirect" in self.head or REDIRECT.match(text[:100].encode("utf-8", "replace")) is not None,
        )

    def _refuse_entity(self, name: str, *_: Any) -> None:
        raise CorpusError(
            f'{self.partition.url}, line {self.parser.CurrentLineNumber}: declares the entity "{name}", which '
            f"no MediaWiki "
            f"export does; remove the declaration."
        )


def paragraph_cut(text: str) -> int:
    """Return where to cut a text that continues: after a blank line, else after a line, else after a word."""
    half = len(text) // 2
    for mark in ("\n\n", "\n", " "):
        place = text.rfind(mark, half)
        if place >= 0:
            return place + len(mark)
    return len(text)


def large_page(source: PageSource, progress: Progress) -> Iterator[PagePiece]:
    """Yield a page that is too large to be held, piece by piece.

    Where bad records are left out, a page that is malformed ends where the fault is: what was before is read already.
    """
    piece: PagePiece | None = None
    try:
        for piece in _pieces_of_page(source):
            yield piece
    except RecordError as error:
        progress.pass_over(source.partition, error)
        if piece is not None and not piece.closes:
            yield piece._replace(text=b"", begins=False, closes=True)


def _pieces_of_page(source: PageSource) -> Iterator[PagePiece]:
    parser = PageParser(source.partition)
    data = PAGE
    try:
        while True:
            end = source.data.find(PAGE_END, source.position)
            # An end tag cut in two is left for the next round.
            stop = end + len(PAGE_END) if end >= 0 else max(source.position, len(source.data) - len(PAGE_END))
            yield from parser.feed(data + source.data[source.position : stop])
            data, source.position = b"", stop
            if end >= 0:
                return
            if not source.more():
                raise CorpusError(
                    f"{source.partition.url} is cut off inside its last page; download it again."
                )
    except expat.ExpatError as error:
        begun = parser.head.get("id", "")
        place = f"page {begun}" if begun else f"line {error.lineno}"
        raise xml_error(source.partition, error, place) from error


def expat_pieces(partition: Partition, progress: Progress) -> Iterator[PagePiece]:
    """Yield the pages of a whole file in any encoding."""
    parser = PageParser(partition, progress)
    try:
        for piece in pieces_of(partition, progress):
            yield from parser.feed(piece.data)
        parser.end()
    except expat.ExpatError as error:
        raise xml_error(partition, error, f"line {error.lineno}") from error


def page_pieces(partition: Partition, progress: Progress) -> Iterator[PagePiece]:
    """Yield the pages that begin in a partition of a UTF-8 file."""
    with closing(PageSource(partition, progress)) as source:
        while source.seek_page():
            whole = source.whole_page()
            if whole is None:
                yield from large_page(source, progress)
            else:
                try:
                    page, text = source.parse(whole)
                except RecordError as error:
                    progress.pass_over(partition, error)
                else:
                    yield PagePiece(page, text, begins=True, closes=True)
