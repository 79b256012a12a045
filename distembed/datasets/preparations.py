"""What makes a file of a data set of its sources: functions from the bytes of the sources to those of the file."""

from __future__ import annotations

import csv
import html
import io
import json
import re
import tarfile
from collections.abc import Callable, Iterable, Iterator
from typing import Any

FEWEST_TOKENS = 20
"""Shorter pages are left out."""

Sources = list[bytes]


def copy(sources: Sources) -> bytes:
    """Return the one source."""
    return sources[0]


def crlf(sources: Sources) -> bytes:
    """Return the one source with the line ends of Windows."""
    return sources[0].replace(b"\r\n", b"\n").replace(b"\n", b"\r\n")


def pages(sources: Sources, first: str = "", end: str = "") -> bytes:
    """Return pages that WikiExtractor wrote as blocks of lines, from the one titled `first` to the one before `end`.

    Pages with fewer than 20 tokens, and those whose id or text was there before, are left out.
    """
    blocks: dict[str, str] = {}
    ids: set[str] = set()
    titles: list[str] = []
    for ident, title, text in _extracted(sources):
        lines = [
            re.sub(r"[ \t]+", " ", line).strip() for line in re.sub("<[^<>]{1,80}>", " ", text).split("\n")
        ]
        body = "\n".join(filter(None, lines))
        if ident not in ids and body not in blocks and len(body.split()) >= FEWEST_TOKENS:
            ids.add(ident)
            titles.append(title)
            blocks[body] = f"{title}\n{body}\n"
    begin, stop = (titles.index(first) if first else 0), (titles.index(end) if end else None)
    return "\n".join(list(blocks.values())[begin:stop]).encode()


def _extracted(sources: Sources) -> Iterator[tuple[str, str, str]]:
    """Yield id, title and text of each page, of JSON lines or of `<doc>` elements whose first line is the title."""
    for source in sources:
        text = source.decode()
        if text.startswith("{"):
            for page in map(json.loads, text.splitlines()):
                yield page["id"], page["title"], html.unescape(page["text"])
        for ident, page in re.findall(r'<doc id="(\d+)" [^\n]*>\n(.*?)\n?</doc>', text, re.DOTALL):
            title, _, body = html.unescape(page).partition("\n")
            yield ident, title.strip(), body


def newsgroups(sources: Sources) -> bytes:
    """Return the messages of 20 Newsgroups in an archive, without their headers."""
    return _json_lines(
        {
            "id": number,
            "split": split,
            "label": label,
            "subject": subject[1] if subject else "",
            "text": text.strip(),
        }
        for (split, label, number), message in _members(
            sources[0], r"20news-bydate-(test|train)/([^/]+)/(\d+)$"
        )
        for head, _, text in [message.decode("latin-1").partition("\n\n")]
        for subject in [re.search("^Subject: (.*)$", head, re.MULTILINE)]
    )


def _members(archive: bytes, pattern: str) -> Iterator[tuple[tuple[str, ...], bytes]]:
    """Yield the groups of a pattern and the content of each file of an archive whose name ends so, in their order."""
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        for member in sorted(tar.getmembers(), key=lambda one: one.name):
            found, file = (
                re.search(pattern, member.name),
                tar.extractfile(member) if member.isfile() else None,
            )
            if found and file:
                yield found.groups(), file.read()


def reuters(sources: Sources) -> bytes:
    """Return the stories of the SGML files of Reuters-21578."""
    stories = (
        re.findall("<REUTERS ([^>]*)>(.*?)</REUTERS>", text.decode("latin-1"), re.DOTALL) for text in sources
    )
    return _json_lines(_story(attributes, body) for found in stories for attributes, body in found)


def _story(attributes: str, body: str) -> dict[str, Any]:
    of = dict(re.findall(r'(\w+)="([^"]*)"', attributes))
    topics, places = (re.findall("<D>(.*?)</D>", _element(body, tag)) for tag in ("TOPICS", "PLACES"))
    text = _element(body, "BODY") or re.sub(
        r"<(TITLE|DATELINE|AUTHOR)[^>]*>.*?</\1>", "", _element(body, "TEXT"), flags=re.DOTALL
    )
    return {
        "id": int(of["NEWID"]), "lewissplit": of["LEWISSPLIT"], "cgisplit": of["CGISPLIT"], "has_topics": of["TOPICS"],
        "topics": topics, "places": places, "date": _element(body, "DATE").strip(),
        "title": _plain(_element(body, "TITLE")), "text": _plain(text),
        "label": topics[0] if len(topics) == 1 else None,
    }  # fmt: skip


def _element(text: str, tag: str) -> str:
    found = re.search(f"<{tag}[^>]*>(.*?)</{tag}>", text, re.DOTALL)
    return found[1] if found else ""


def _plain(text: str) -> str:
    return " ".join(html.unescape(re.sub(r"&#\d+;", "", text)).split())


def smart(sources: Sources, labels: str, fields: str) -> bytes:
    """Return the documents of collections in the format of SMART, each with the label and the fields of its source."""
    return _json_lines(
        {"id": f"{label}.{number}", "label": label, "text": text}
        for source, label, kept in zip(sources, labels.split(), fields.split(), strict=True)
        for number, body in re.findall(
            r"^\.I +(\d+)[^\n]*\n(.*?)(?=^\.I |\Z)",
            source.decode("latin-1").replace("\r\n", "\n"),
            re.DOTALL | re.MULTILINE,
        )
        for parts in [re.findall(r"^\.([A-Z]) *\n(.*?)(?=^\.[A-Z] *\n|\Z)", body, re.DOTALL | re.MULTILINE)]
        if (text := " ".join(" ".join(part for field, part in parts if field in kept).split()))
    )


def associations(sources: Sources) -> bytes:
    """Return the tables of free association norms as one with tabs; a cell without letter or digit is empty."""
    rows = [
        line.split(",") for source in sources for line in source.decode("latin-1").splitlines() if "," in line
    ]
    cells = ([cell.strip() if re.search("[0-9A-Za-z]", cell) else "" for cell in row] for row in rows[1:])
    lines = ["\t".join(row) for row in cells if row[0] != "CUE"]
    return "\n".join(["\t".join(cell.strip() for cell in rows[0]), *lines, ""]).encode()


def prices(sources: Sources, first: str, last: str, without: str = "") -> bytes:
    """Return the closing prices of the companies of a list, the first source, of files by symbol in two archives.

    Of two files of one symbol the one that begins in an earlier year is taken, else the first.
    """
    symbols = {row["Symbol"] for row in _table(sources[0])} - {*without.split()}
    files: dict[str, bytes] = {}
    for archive, pattern in zip(
        sources[1:], (r"stock_dfs/([^/]+)\.csv$", r"/([^/]+)_data\.csv$"), strict=True
    ):
        for (name,), text in _members(archive, pattern):
            symbol = name.replace("-", "/")
            files[symbol] = min(files.get(symbol, text), text, key=_first_year)
    found = {
        symbol: {
            row.get("Date", row.get("date", "")): row.get("Close", row.get("close", ""))
            for row in _table(files[symbol])
        }
        for symbol in sorted(symbols & files.keys())
    }
    dates = sorted({date for closes in found.values() for date in closes if first <= date <= last})
    table = [
        ["date", *found],
        *([date, *(_price(each.get(date)) for each in found.values())] for date in dates),
    ]
    return "".join(",".join(row) + "\r\n" for row in table).encode()


def _first_year(table: bytes) -> bytes:
    return table.split(b"\n", 2)[1][:4]


def _table(text: bytes) -> Iterator[dict[str, str]]:
    return csv.DictReader(io.StringIO(text.decode("utf-8-sig")))


def _price(text: str | None) -> str:
    return f"{float(text):.4f}" if text else ""


def _json_lines(rows: Iterable[dict[str, Any]]) -> bytes:
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode()


PREPARATIONS: dict[str, Callable[..., bytes]] = {
    each.__name__: each for each in (copy, crlf, pages, newsgroups, reuters, smart, associations, prices)
}
