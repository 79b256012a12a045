"""Reads HTML pages as documents: their text without markup, scripts and styles, by Python's own parser."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html.parser import HTMLParser

from distembed.corpus.documents import Span, without_cut
from distembed.corpus.errors import CorpusError
from distembed.corpus.streams import Partition, Progress, pieces_of
from distembed.corpus.text import check_utf8
from distembed.files import damage_told

WITHOUT_TEXT = frozenset({"script", "style", "template", "noscript", "svg", "math", "object", "head"})
"""Elements whose content is not read, but for the title in the head."""

INLINE = frozenset(
    re.findall(
        r"\w+",
        "a abbr acronym b bdi bdo big cite code data del dfn em font i ins kbd label mark q rb rp rt ruby s samp small "
        "span strike strong sub sup time tt u var wbr",
    )
)
"""Elements that part no words: every other one begins a line."""


class PageParser(HTMLParser):
    """Collects the title and the text of a page, as far as it has been fed."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.title = ""
        self._texts: list[str] = []
        self._without: list[str] = []  # the open elements whose content is not read
        self._in_title = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:  # noqa: ARG002 - the parser's
        """Begin a line, or a part that is not read."""
        if tag == "body":
            self._without = []  # a head that is never closed ends here
        if tag in WITHOUT_TEXT:
            self._without.append(tag)
        elif tag == "title" and not self.title:
            self._in_title = True
        elif tag not in INLINE:
            self._texts.append("\n")

    def handle_endtag(self, tag: str) -> None:
        """End a line, or a part that is not read."""
        if tag == "title":
            self._in_title = False
        elif tag in self._without:
            del self._without[self._without.index(tag) :]
        elif tag not in INLINE:
            self._texts.append("\n")

    def handle_data(self, data: str) -> None:
        """Take text where it is read."""
        if self._in_title:
            self.title += data
        elif not self._without:
            self._texts.append(data)

    def close(self) -> None:
        """End the page; a tag or a comment that is open there is dropped, as by browsers."""
        if self.rawdata.startswith("<") and ">" not in self.rawdata and not self.cdata_elem:
            self.rawdata = ""  # older Pythons take it as text, and look for its end from every "<" again
        super().close()

    def taken(self) -> str:
        """Return the text since the last call, without empty lines."""
        first, *lines = "".join(self._texts).split("\n")
        self._texts = []
        if not lines:
            return first
        return "\n".join([first.rstrip(), *filter(None, map(str.strip, lines[:-1])), lines[-1].lstrip()])


def html_spans(partition: Partition, progress: Progress) -> Iterator[Span]:
    """Yield the text of a page as one document, a piece at a time; its title is the page's."""
    parser = PageParser()
    ident: str | None = partition.name
    offset, rest = 0, b""
    for piece in pieces_of(partition, progress):
        data = rest + piece.data
        keep = without_cut(data)
        check_utf8(partition, data[:keep], offset)
        _feed(parser, data[:keep], partition)
        offset, rest = offset + keep, data[keep:]
        if text := parser.taken().lstrip("\n" if ident else ""):
            yield Span(text.encode("utf-8", "replace"), False, ident, _title(parser) if ident else "")
            ident = None
    check_utf8(partition, rest, offset)
    _feed(parser, rest, partition)
    with damage_told(partition.url, CorpusError, "HTML"):
        parser.close()
    yield Span(parser.taken().encode("utf-8", "replace"), True, ident, _title(parser) if ident else "")


def _feed(parser: PageParser, data: bytes, partition: Partition) -> None:
    with damage_told(
        partition.url, CorpusError, "HTML"
    ):  # such as a character whose number has thousands of digits
        parser.feed(data.decode("utf-8", "replace"))


def _title(parser: PageParser) -> str:
    return " ".join(parser.title.split())
