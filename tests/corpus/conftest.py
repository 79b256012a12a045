"""Small corpora for the tests of this folder."""

from __future__ import annotations

from xml.sax.saxutils import escape

import pytest

REDIRECT = '    <redirect title="x" />'
HEAD = """<mediawiki xmlns="http://www.mediawiki.org/xml/export-0.10/" version="0.10" xml:lang="de">
  <siteinfo><namespaces>
    <namespace key="0" case="first-letter" />
    <namespace key="1" case="first-letter">Diskussion</namespace>
    <namespace key="6" case="first-letter">Datei</namespace>
    <namespace key="14" case="first-letter">Kategorie</namespace>
  </namespaces></siteinfo>
"""


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
        pages.append(
            page(
                number,
                text,
                title=f"A & B {number}",
                namespace=int(number % 10 == 3),
                redirect=number % 10 == 7,
            )
        )
    return HEAD + "".join(pages) + "</mediawiki>\n"


@pytest.fixture
def make_page():
    return page


@pytest.fixture
def head() -> str:
    return HEAD
