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

from distembed.corpus import records
from distembed.corpus.mediawiki import strip_wikitext
from distembed.corpus.partitions import read_partition, tokenize_partition
from distembed.corpus.readers import Corpus, read_corpus
from distembed.corpus.records import CorpusError, Progress, pieces_of
from distembed.corpus.tokenizer import Tokenizer
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
    head, *pages = data.replace(b"</mediawiki>", b"  <page></mediawiki>").split(b"  <page>")
    pages = [b"  <page>" + page for page in pages]
    pages[-1] = pages[-1].removeprefix(b"  <page>")
    groups = [pages[k : k + n_pages] for k in range(0, len(pages) - 1, n_pages)]
    groups[-1] = [page for page in groups[-1] if page is not pages[-1]]
    return [bz2.compress(partition) for partition in (head, *map(b"".join, groups), pages[-1])]


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


def pages_between(path, bounds):
    """Return the ids of the pages of each partition of a file that is cut at `bounds`."""
    (partition,) = read_corpus(path, partition_bytes=1 << 30).partitions
    ranges = zip([0, *bounds], [*bounds, None], strict=True)
    return [[d.id for d in Corpus((replace(partition, start=a, stop=b),)).documents()] for a, b in ranges]


@pytest.mark.parametrize("shift", [-1, 0, 1])
def test_bz2_streams_belong_to_the_split_they_begin_in(tmp_path, dump, shift):
    streams = multistream(dump.encode(), 4)
    path = write(tmp_path / "x.xml.bz2", b"".join(streams))
    bounds = list(itertools.accumulate(len(stream) for stream in streams[:-1]))
    found = pages_between(path, [bound + shift for bound in bounds])
    whole = pages_between(path, [])[0]
    assert [page for pages in found for page in pages] == whole
    # A stream that begins before the border, if only by a byte, is read by the partition before, and so is the first
    # page of the next stream.
    assert found[1] == [str(k) for k in (range(5, 9) if shift > 0 else range(1, 5)) if k % 10 not in {3, 7}]


def test_the_search_for_the_first_stream_does_not_count_as_read(tmp_path, dump):
    streams = multistream(dump.encode(), 4)
    path = write(tmp_path / "x.xml.bz2", b"".join(streams))
    partition = replace(read_corpus(path).partitions[0], start=1, stop=sum(map(len, streams)))
    progress = Progress()
    found = b"".join(data for data, _ in pieces_of(partition, progress))
    assert found == bz2.decompress(b"".join(streams[1:]))
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


def test_cdata_comments_and_character_references(tmp_path):
    page = "<page><title>T</title><ns>0</ns><id>1</id><revision><text>{}</text></revision></page>"
    bodies = [
        "<![CDATA[one <page> & two]]>",
        "x<!-- <b> -->y",
        "&#228;&#xe4; &amp;lt;b&amp;gt; &amp;amp;",
    ]
    empty = "<page><title>E</title><ns>0</ns><id>4</id><revision><text /></revision></page></mediawiki>"
    path = write(tmp_path / "x.xml", HEAD + "".join(map(page.format, bodies)) + empty)
    assert [text for _, _, text in texts(path)] == ["one  & two", "xy", "ää <b> &", ""]
    damaged = write(tmp_path / "y.xml", HEAD + page.format("<![CDATA[one </page> two]]>") + empty)
    with pytest.raises(CorpusError, match=r"page 1, is malformed XML \(unclosed CDATA section"):
        texts(damaged)


def test_old_dump_without_namespaces_and_redirect_marks(tmp_path):
    page = "<page><title>{}</title><id>1</id><revision><text>{}</text></revision></page>"
    pages = [page.format(*each) for each in (("Diskussion:X", "a"), ("Y", "#REDIRECT [[Z]]"), ("Z: z", "b"))]
    path = write(tmp_path / "x.xml", HEAD + "".join(pages) + "</mediawiki>")
    assert [(title, text) for _, title, text in texts(path)] == [("Z: z", "b")]


def test_a_page_that_is_too_long_is_a_bad_record(tmp_path, monkeypatch):
    monkeypatch.setattr(records.blocks_of, "__kwdefaults__", {"limit": 2000})
    pages = page(1, "one"), page(2, "words " * 1000), page(3, "three")
    path = write(tmp_path / "x.xml", HEAD + "".join(pages) + "</mediawiki>")
    partition = replace(read_corpus(path, bad_records="skip").partitions[0], piece_bytes=500)
    summary = tokenize_partition(partition, Tokenizer(), str(tmp_path / "part"))
    assert read_partition(str(tmp_path / "part"), "documents")["id"].to_pylist() == ["1", "3"]
    assert summary.n_bad_records == 1
    with pytest.raises(CorpusError, match=r"x\.xml, line 18, has over .* bytes"):
        tokenize_partition(replace(partition, bad_records="error"), Tokenizer(), str(tmp_path / "other"))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda dump: dump[:2000], "cut off"),
        (lambda dump: dump.replace("</mediawiki>", ""), "no </mediawiki>"),
        (
            lambda dump: dump.replace("<id>5</id>", "<id>5</idd>"),
            r"byte \d+, is malformed XML \(mismatched tag, in line 4 of the page at column 12\)",
        ),
        (
            lambda dump: dump.replace("<id>5</id>", "<id>5</idd>").encode("utf-16"),
            r"byte \d+, is malformed XML \(mismatched tag, in line 4 of the page at column 12\)",
        ),
        (
            lambda dump: '<!DOCTYPE m [<!ENTITY a "b">]>' + dump.replace("zahl", "&a;zahl"),
            r"page 0, is malformed XML \(undefined entity",
        ),
        (
            lambda dump: dump.replace("zahlx ", "zahlx \udcff "),
            r"page 1, is not UTF-8 \(byte 0xff at offset \d+",
        ),
    ],
)
def test_malformed_export(tmp_path, dump, damage, message):
    data = damage(dump)
    path = write(
        tmp_path / "x.xml", data if isinstance(data, bytes) else data.encode("utf-8", "surrogateescape")
    )
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
    ("name", "names", "n_pages"),
    [
        ("enwiki-table-markup.xml.bz2", ((6, "File"),), 3),
        ("enwiki-latest-pages-articles1.xml-p000000010p000030302-shortened.bz2", ((6, "File"),), 6),
        ("bgwiki-latest-pages-articles-shortened.xml.bz2", ((6, "Файл"), (14, "Категория")), 3),
    ],
)
def test_agreement_with_mwparserfromhell_on_real_pages(shared, name, names, n_pages):
    root = ET.fromstring(bz2.decompress((shared / "data/dumps" / name).read_bytes()))
    space = root.tag.partition("}")[0] + "}"
    every = [page for page in root.iter(space + "page") if page.find(space + "redirect") is None]
    articles = [article for article in every if article.find(space + "ns").text == "0"]
    ours, theirs = collections.Counter(), collections.Counter()
    for article in articles[:n_pages]:
        wikitext = article.find(f".//{space}text").text
        stripped = strip_wikitext(wikitext, namespace_names=names)
        ours += collections.Counter(re.findall(r"[^\W\d_]+", stripped.lower()))
        theirs += reference_tokens(wikitext, "file|image|category|файл|категория")
    assert (ours & theirs).total() / (ours | theirs).total() > 0.99


def test_real_dumps(shared):
    folder = shared / "data/dumps"
    expected = {"enwiki-latest*": (106, 100), "bgwiki*": (1, 2), "enwiki-table*": (5, 0)}
    for pattern, (n_documents, n_skipped) in expected.items():
        summary = total(read_corpus(folder / pattern, format="mediawiki").tokenize().summaries)
        assert (summary.n_documents, summary.n_skipped_pages) == (n_documents, n_skipped)
