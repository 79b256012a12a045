"""The small real data of the demos and of the examples in docstrings, as files of the installed package.

`titles.txt` holds the titles of nine technical memoranda, one per line, which Deerwester, Dumais, Furnas, Landauer
and Harshman (1990, table 2) take as the example of Latent Semantic Analysis: the first five are about the
interaction of people with computers, the last four about graphs.
"""

from __future__ import annotations

from pathlib import Path


def titles() -> str:
    """Return the path of the text file with the nine titles, one document per line.

    Examples
    --------
    >>> import distembed as de
    >>> from distembed.demos import titles
    >>> for document in list(de.read_corpus(titles()).documents())[-2:]:
    ...     print(document.text)
    Graph minors IV: Widths of trees and well-quasi-ordering
    Graph minors: A survey
    """
    return str(Path(__file__).with_name("titles.txt"))
