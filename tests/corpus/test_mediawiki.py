"""MediaWiki exports: pages whole and split anywhere, in any compression and encoding; wikitext against a
kept parser."""

from __future__ import annotations

import bz2
import collections
import gzip
import itertools
import re
from contextlib import suppress
from dataclasses import replace
from xml.etree import ElementTree as ET

import mwparserfromhell
import pytest

from distembed.corpus.mediawiki import strip_wikitext
from distembed.corpus.readers import Corpus, read_corpus
from distembed.corpus.records import CorpusError, Progress, pieces_of
from tests.corpus.conftest import HEAD, page, total, write


def texts(path, **options):
    return [(d.id, d.title, d.text) for d in read_corpus(path, **options).documents()]


def test_pages_redirects_and_namespaces(tmp_path, dump):
    path = write(tmp_path / "dewiki.xml", dump)
    found = texts(path)
    assert [int(page) for page, _, _ in found] == [k for k in range(30) if k % 10 not in {3, 7}]
    assert found[0][1] == "A & B 0"
    assert found[0][2].split() == ["Überschrift", "0", "Wort", "Text", "zahl", "ende."]
    assert len(texts(path, namespaces=None)) == 27
    assert [int(page) for page, _, _ in texts(path, namespaces=[1])] == [3, 13, 23]
    summary = total(read_corpus(path).tokenize().summaries)
    assert (summary.n_documents, summary.n_skipped_pages) == (24, 6)


def joined(dump: str) -> bytes:
    """Return two exports in one file: that of `dump`, and one with other titles and ids."""
    other = re.sub(r"<id>(\d+)</id>\n(\s+<r|\n)", r"<id>10\1</id>\n\2", dump).replace("A &amp; B", "C")
    return (dump + other).encode()


def multistream(data: bytes, n_pages: int) -> list[bytes]:
    """Return an export as Wikimedia compresses it: its head, some pages at a time, its end."""
    head, *pages = data.removesuffix(b"</mediawiki>\n").split(b"  <page>")
    pages = [b"  <page>" + page for page in pages]
    groups = [b"".join(pages[k : k + n_pages]) for k in range(0, len(pages), n_pages)]
    return [bz2.compress(part) for part in (head, *groups, b"</mediawiki>\n")]


JOINS = {
    "plain.xml": lambda a, b: a + b,
    "one.xml.bz2": lambda a, b: bz2.compress(a + b),
    "two.xml.bz2": lambda a, b: bz2.compress(a) + bz2.compress(b),
    "multi.xml.bz2": lambda a, b: b"".join(multistream(a, 4) + multistream(b, 4)),
    "inside.xml.bz2": lambda a, b: b"".join(
        bz2.compress((a + b)[k : k + 400]) for k in range(0, len(a + b), 400)
    ),
}


def test_malformed_pages_are_skipped_and_listed(tmp_path, dump):
    damaged = dump.replace("<comment>", "<comment", 1).replace("<ns>0</ns>", f"<ns>{'9' * 5000}</ns>", 3)
    damaged = "<b</text>".join(damaged.rsplit("</text>", 1))
    path = write(tmp_path / "x.xml", damaged)
    with pytest.raises(CorpusError, match=r"x\.xml, page 0, is malformed XML"):
        read_corpus(path).tokenize()
    tokens = read_corpus(path, bad_records="skip").tokenize()
    assert tokens.documents(tokens.partitions[0])["id"].to_pylist()[:2] == ["4", "5"]
    skipped = tokens.summaries[0].bad_records
    assert [record.place for record in skipped][1:] == ["page 1", "page 2", "page 29"]
    assert "malformed XML (not well-formed (invalid token), in line 10 of the page" in skipped[-1].reason
    assert "namespace '99999999999999999999', which is no number" in skipped[1].reason


@pytest.mark.parametrize("name", JOINS)
def test_joined_exports_lose_no_page(tmp_path, dump, name):
    data = joined(dump)
    middle = data.index(b"</mediawiki>") + len(b"</mediawiki>\n")
    path = write(tmp_path / name, JOINS[name](data[:middle], data[middle:]))
    numbers = [k for k in range(30) if k % 10 not in {3, 7}]
    whole = texts(path)
    assert [page for page, _, _ in whole] == [*map(str, numbers), *(f"10{k}" for k in numbers)]
    assert texts(path, partition_bytes=1000) == texts(path, partition_bytes=90) == whole


@pytest.mark.parametrize("shift", [-1, 0, 1])
def test_bz2_streams_belong_to_the_split_they_begin_in_and_the_search_for_one_is_not_counted(
    tmp_path, dump, shift
):
    streams = multistream(dump.encode(), 4)
    path = write(tmp_path / "x.xml.bz2", b"".join(streams))
    (partition,) = read_corpus(path).partitions
    bounds = [bound + shift for bound in itertools.accumulate(map(len, streams[:-1]))]
    ranges = zip([0, *bounds], [*bounds, None], strict=True)
    parts = [replace(partition, start=start, stop=stop) for start, stop in ranges]
    found = [[document.id for document in Corpus((part,)).documents()] for part in parts]
    assert [page for pages in found for page in pages] == [page for page, _, _ in texts(path)]
    # A stream that begins before the border, if only by a byte, is read by the partition before, and so is the first
    # page of the next stream.
    assert found[1] == [str(k) for k in (range(5, 9) if shift > 0 else range(1, 5)) if k % 10 not in {3, 7}]
    progress = Progress()
    none, rest = (
        replace(partition, start=1, stop=stop) for stop in (len(streams[0]), sum(map(len, streams)))
    )
    assert list(pieces_of(none, progress)) == []
    assert b"".join(data for data, _ in pieces_of(rest, progress)) == bz2.decompress(b"".join(streams[1:]))
    assert progress.n_bytes_read == sum(map(len, streams[1:]))


def test_utf_16_and_declared_encodings(tmp_path, dump):
    expected = texts(write(tmp_path / "plain.xml", dump))
    for name, data in {
        "utf16.xml": dump.encode("utf-16"),
        "utf16.xml.gz": gzip.compress(dump.encode("utf-16")),
        "utf8.xml.gz": gzip.compress(dump.encode()),
        "latin.xml": b'<?xml version="1.0" encoding="iso-8859-1"?>' + dump.encode("latin-1"),
        "doctype.xml": b"<!DOCTYPE mediawiki>" + dump.encode(),
    }.items():
        assert (
            texts(write(tmp_path / name, data), partition_bytes=300) == expected
        )  # none of them can be divided


@pytest.mark.parametrize("namespaces", [(0,), None])
def test_a_page_with_a_bad_head_is_left_out_of_a_file_in_another_encoding(tmp_path, dump, namespaces):
    damaged = write(tmp_path / "x.xml", dump.replace("<ns>0</ns>", "<ns>zero</ns>", 1).encode("utf-16"))
    plain = write(tmp_path / "plain.xml", dump)
    expected = [page for page in texts(plain, namespaces=namespaces) if page[0] != "0"]
    assert texts(damaged, namespaces=namespaces, bad_records="skip") == expected
    with pytest.raises(CorpusError, match="page 0, has the namespace 'zero', which is no number"):
        texts(damaged)


PAGE = "<page><title>{}</title>{}<id>1</id><revision>{}</revision></page>"
NAMED = "<ns>0</ns>"
PAGES = [
    ("T", NAMED, "<text><![CDATA[one <page> & two]]></text>", "one  & two"),
    ("T", NAMED, "<text>x<!-- <b> -->y</text>", "xy"),
    ("T", NAMED, "<text>&#228;&#xe4; &amp;lt;b&amp;gt; &amp;amp;</text>", "ää <b> &"),
    ("T", NAMED, "<text />", ""),
    ("Diskussion:X", "", "<text>an old dump does not name the namespace</text>", None),
    ("Y", "", "<text>#REDIRECT [[Z]]</text>", None),
    ("Z: z", "", "<text>b</text>", "b"),
]


@pytest.mark.parametrize(("title", "head", "body", "text"), PAGES)
def test_the_text_of_a_page_is_what_its_xml_means(tmp_path, title, head, body, text):
    path = write(tmp_path / "x.xml", HEAD + PAGE.format(title, head, body) + page(2, "last") + "</mediawiki>")
    assert [found for _, _, found in texts(path)] == [text, "last"][text is None :]


WRONG_TAG = r"byte \d+, is malformed XML \(mismatched tag, in line 4 of the page at column 12\)"
ENTITY = '<!DOCTYPE m [<!ENTITY a "b">]>'
MALFORMED = [
    (lambda dump: dump[:2000], "cut off"),
    (lambda dump: dump.replace("</mediawiki>", ""), "no </mediawiki>"),
    (lambda dump: dump.replace("<id>5</id>", "<id>5</idd>"), WRONG_TAG),
    (lambda dump: dump.replace("<id>5</id>", "<id>5</idd>").encode("utf-16"), WRONG_TAG),
    (lambda dump: ENTITY + dump.replace("zahl", "&a;zahl"), r"page 0, is malformed XML \(undefined entity"),
    (lambda dump: dump.encode().replace(b"zahlx ", b"zahlx \xff "), r"page 1, is not UTF-8 \(byte 0xff at offset \d+"),
    (lambda dump: dump.replace("[[Ziel|Text]]", "<![CDATA[</page> two]]>", 1),
     r"page 0, is malformed XML \(unclosed CDATA section"),
]  # fmt: skip


@pytest.mark.parametrize(("damage", "message"), MALFORMED)
def test_malformed_export(tmp_path, dump, damage, message):
    path = write(tmp_path / "x.xml", damage(dump))
    with pytest.raises(CorpusError, match=message):
        read_corpus(path).tokenize()


@pytest.mark.parametrize(
    ("wikitext", "text"),
    [
        ("a {{t|{{u}}|[[x]]}} b", "a  b"),
        ("a {{ b [[c|d]] e", "a  b d e"),
        ("a }} b ]] c", "a  b  c"),
        ("[[Datei:x.jpg|thumb|a [[b|c]] d]] e", " e"),
        ("[[Kategorie:X]][[category:Y]][[:Kategorie:X]]", "Kategorie:X"),
        ("A\n=[[= |\n]]b", "A\n\nb"),
        ("== a [[b|= =\nc]] ==\nd", " a\nc ==\nd"),
        ("[[fr:Paris]] [[fr:Paris|Stadt]]", " Stadt"),
        ("[http://x.y text here] [http://x.y] [not] [[open\nlink]]", " text here  [not] open\nlink"),
        ("{|\n| a\n{|\n| b\n|}\n|}\nc", "\nc"),
        ("{| a\n| b", " a\n| b"),
        ("a<ref name=x/>b<ref>c</ref>d<ref>e", "abde"),
        ("<math>x<y</math>1 <nowiki>[[a]]</nowiki> <b>c</b> 1 < 2", "1 [[a]] c 1 < 2"),
        ("a<!-- b -->c<!-- d", "ac d"),
        ("== H ==\n* item\n''i'' '''b''' l'''''x\n__NOTOC__", " H\n item\ni b lx\n"),
        ("<table><tr><td>a</td></table>b<br/>c", " b c"),
        ("&eacute;&nbsp;&#233;&unknown;", "é\u00a0é&unknown;"),
        ("[[Vorlage:A|kept]] [[D|kept]]", "kept kept"),
        # MediaWiki expands 40 templates in each other; what is open deeper than 64 is text
        ("[[a|b " * 40 + "{{t|[[c|d]]}}" + "]]" * 40, "b " * 40),
        ("[[a|" * 66 + "b" + "]]" * 66, "a|a|b"),
    ],
)
def test_wikitext(wikitext, text):
    names = ((0, ""), (6, "Datei"), (10, "Vorlage"), (14, "Kategorie"))
    assert strip_wikitext(wikitext, namespace_names=names).replace(" \n", "\n") == text


OPENERS = [
    "{{", "[[", "[[a|", "{|\n", "<ref>", "<!--", "<", "[http://", "''", "}}", "{{a|[[b|", "<table>", "</ref", "__A",
    "&a",
]  # fmt: skip


@pytest.mark.parametrize("unit", OPENERS)
def test_what_is_opened_and_never_closed_is_read_once(unit):
    """A quadratic machine would not end before the suite's limit of a test."""
    few, many = (strip_wikitext(unit * n) for n in (1000, 200_000))
    assert abs(len(many) - 200 * len(few)) <= 200 * len(unit) * 64  # of what is open at the end


def reference_tokens(wikitext: str, dropped: str) -> collections.Counter[str]:
    """Strip with mwparserfromhell, told to leave out what this project leaves out."""
    code = mwparserfromhell.parse(wikitext)
    tags = {"ref", "table", "math", "gallery", "timeline"}
    links = [
        link
        for link in code.filter_wikilinks()
        if re.match(rf"\s*({dropped}):", str(link.title), re.IGNORECASE)
        or (link.text is None and re.match(r"[a-z]{2,3}(-[a-z]+)*:", str(link.title)))
    ]
    for node in code.filter_tags(matches=lambda node: str(node.tag).lower() in tags) + links:
        with suppress(ValueError):
            code.remove(node)
    return collections.Counter(re.findall(r"[^\W\d_]+", code.strip_code().lower()))


@pytest.mark.parametrize(
    ("pattern", "names", "n_documents", "n_skipped", "n_compared"),
    [
        ("enwiki-table*", ((6, "File"),), 5, 0, 3),
        ("enwiki-latest*", ((6, "File"),), 106, 100, 2),
        ("bgwiki*", ((6, "Файл"), (14, "Категория")), 1, 2, 1),
    ],
)
def test_real_dumps_are_read_as_mwparserfromhell_reads_them(
    shared, pattern, names, n_documents, n_skipped, n_compared
):
    [path] = (shared / "data/dumps").glob(pattern)
    summary = total(read_corpus(path, format="mediawiki").tokenize().summaries)
    assert (summary.n_documents, summary.n_skipped_pages) == (n_documents, n_skipped)
    root = ET.fromstring(bz2.decompress(path.read_bytes()))
    space = root.tag.partition("}")[0] + "}"
    every = [page for page in root.iter(space + "page") if page.find(space + "redirect") is None]
    articles = [article for article in every if article.find(space + "ns").text == "0"]
    ours, theirs = collections.Counter(), collections.Counter()
    for article in articles[:n_compared]:
        wikitext = article.find(f".//{space}text").text
        stripped = strip_wikitext(wikitext, namespace_names=names)
        ours += collections.Counter(re.findall(r"[^\W\d_]+", stripped.lower()))
        theirs += reference_tokens(wikitext, "file|image|category|файл|категория")
    assert (ours & theirs).total() / (ours | theirs).total() > 0.99
