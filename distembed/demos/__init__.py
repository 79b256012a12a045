"""The small real data of the demos and of the examples in docstrings, as files of the installed package.

`titles.txt` holds the titles of nine technical memoranda, one per line, which Deerwester, Dumais, Furnas, Landauer
and Harshman (1990, table 2) take as the example of Latent Semantic Analysis: the first five are about the
interaction of people with computers, the last four about graphs.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import dask.array as da

from distembed.corpus.readers import read_corpus
from distembed.corpus.vocabulary import Vocabulary, build_vocabulary
from distembed.counting.cooccurrence import count_cooccurrences


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


class TitleCounts(NamedTuple):
    """The words that stand twice or more in the nine titles, and how often one stands before another."""

    vocabulary: Vocabulary
    counts: da.Array


def title_counts() -> TitleCounts:
    """Count which words of the nine titles stand up to three places before which others.

    Returns
    -------
    TitleCounts
        The 11 words, and the counts as a Dask array (11, 11) of csr_array row blocks: the input of `distembed.PSDVec`
        and of whatever else reads a matrix of words by words.

    Examples
    --------
    >>> from distembed.demos import title_counts
    >>> vocabulary, counts = title_counts()
    >>> vocabulary.words[:3], counts.shape
    (['graph', 'trees', 'user'], (11, 11))
    """
    docs = read_corpus(titles())
    vocabulary = build_vocabulary(docs, min_count=2, stop_words="english")
    return TitleCounts(vocabulary, count_cooccurrences(docs, vocabulary, window=3, direction="left"))
