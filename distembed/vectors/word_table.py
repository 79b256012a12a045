"""A table of words and their vectors: look-up, the composition of other strings, parts of the table, and files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from difflib import get_close_matches
from functools import cached_property
from pathlib import Path
from typing import Literal, Self, overload

import numpy as np
from numpy.typing import NDArray

from distembed.display import MAX_ROWS, first_repeat, first_words, html_view, plural
from distembed.formats.names import VectorFormat
from distembed.typing import DenseInMemory, refuse_collection
from distembed.vectors.files import read_vectors, write_vectors
from distembed.vectors.rows import BLOCK_VALUES
from distembed.vectors.subwords import SubwordTable

MAX_SPELLINGS = 20_000  # words compared by spelling when one is not found: a tenth of a second


class UnknownWordError(KeyError):
    """An error for a word that has no vector; the message names it and words of similar spelling."""

    def __str__(self) -> str:
        return str(self.args[0])


class WordTable:
    """Words and the rows of a matrix that belong to them: what `WordVectors` is before vectors are compared."""

    def __init__(
        self, words: Iterable[str], vectors: DenseInMemory, *, subwords: SubwordTable | None = None
    ) -> None:
        self._words = tuple(words)
        refuse_collection(vectors, "vectors")
        self._vectors = np.ascontiguousarray(vectors, dtype=np.float32)
        if self._vectors.ndim != 2 or len(self._vectors) != len(self._words) or not self._words:
            raise ValueError(
                f"{len(self._words)} words with an array of shape {self._vectors.shape}; give one row per word"
            )
        self._rows = {word: row for row, word in enumerate(self._words)}
        if len(self._rows) < len(self._words) and (found := first_repeat(self._words)):
            word, first, row = found
            raise ValueError(f"the word {word!r} stands in rows {first} and {row}; give each word once")
        self._norms = row_norms(self._words, self._vectors)
        if subwords is not None and len(subwords.mean) != self._vectors.shape[1]:
            raise ValueError(
                f"the n-grams have vectors of {len(subwords.mean)} components and the words of "
                f"{self._vectors.shape[1]}; give a table that was fitted to these vectors"
            )
        self._subwords = subwords

    @classmethod
    def load(
        cls,
        path: str | Path,
        *,
        format: VectorFormat = "auto",  # noqa: A002
        max_words: int | None = None,
        encoding: str = "utf-8",
        errors: Literal["strict", "replace", "ignore"] = "strict",
        duplicates: Literal["error", "first"] = "error",
    ) -> Self:
        r"""Load word2vec text or binary, GloVe text, Parquet, safetensors or fastText; see `distembed.vectors`.

        Parameters
        ----------
        path : str or Path
            The file, or an fsspec URL; text and binary files may be compressed (.gz, .bz2, .xz, .zst).
        format : {"auto", "word2vec", "word2vec-binary", "glove", "parquet", "safetensors", "fasttext"}
            "auto" goes by the extension and the first bytes of the file.
        max_words : int, optional
            The number of words to read, from the beginning of the file; by default all.
        encoding : str
            The encoding of the words in text and binary files.
        errors : {"strict", "replace", "ignore"}
            Whether words that are not valid in the encoding are an error, or their bytes are replaced or left out.
        duplicates : {"error", "first"}
            "first" keeps the first of several equal words instead of refusing the file.

        Returns
        -------
        WordVectors
            Their rows are those of the file; the table of n-grams of safetensors and fastText files is kept.

        Examples
        --------
        >>> import distembed as de
        >>> from pathlib import Path
        >>> _ = Path("small.txt").write_text("king 1.0 0.1\nqueen 0.9 0.2\n")  # as GloVe has it
        >>> de.WordVectors.load("small.txt")
        WordVectors(2 words, 2 components: 'king', 'queen')
        >>> de.WordVectors.load("small.txt", max_words=1).words
        ('king',)
        """
        rows = read_vectors(
            path, format=format, max_words=max_words, encoding=encoding, errors=errors, duplicates=duplicates
        )
        return cls(rows.words, rows.vectors, subwords=rows.subwords)

    def save(
        self,
        path: str | Path,
        *,
        format: VectorFormat | None = None,  # noqa: A002
        space: str | None = None,
    ) -> None:
        """Save in the format that the extension determines; see `distembed.vectors`.

        The table of n-grams is kept by .safetensors, and left out of the other formats.

        Parameters
        ----------
        path : str or Path
            The file, or an fsspec URL; text and binary files are compressed by their extension.
        format : str, optional
            One of the formats of `load` but for "fasttext"; by default that of the extension.
        space : str, optional
            What stands in text and binary files in place of the spaces of a word; by default such words are refused.

        Examples
        --------
        >>> import distembed as de
        >>> from pathlib import Path
        >>> vectors = de.WordVectors(["king", "New York"], [[1.0, 0.25], [0.5, 0.0]])
        >>> vectors.save("small.txt", space="_")
        >>> print(Path("small.txt").read_text(), end="")
        2 2
        king 1 0.25
        New_York 0.5 0
        >>> vectors.save("small.parquet")
        >>> de.WordVectors.load("small.parquet").words
        ('king', 'New York')
        """
        write_vectors(
            path,
            list(self._words),
            self._vectors,
            subwords=self._subwords,
            format=format,
            space=space,
        )

    @property
    def words(self) -> tuple[str, ...]:
        """The words in the order of the rows."""
        return self._words

    @property
    def vectors(self) -> NDArray[np.float32]:
        """The matrix, float32 (n_words, n_components)."""
        return self._vectors

    @property
    def norms(self) -> NDArray[np.float32]:
        """The length of each row, float32 (n_words,)."""
        return self._norms

    @property
    def subwords(self) -> SubwordTable | None:
        """The table of character n-grams that other strings are composed from, None where there is none."""
        return self._subwords

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._size()}: {first_words(self._words)})"

    def _repr_html_(self) -> str:
        rows = zip(self._words[:MAX_ROWS], self._norms[:MAX_ROWS].tolist(), strict=True)
        shown = [(word, f"{norm:.4g}") for word, norm in rows]
        return html_view(
            f"{type(self).__name__}: {self._size()}", ("word", "length"), shown, n_more=len(self) - len(shown)
        )

    def _size(self) -> str:
        composed = "" if self._subwords is None else f", {self._subwords.contents} for other strings"
        return f"{plural(len(self), 'word')}, {plural(self._vectors.shape[1], 'component')}{composed}"

    def __sklearn_clone__(self) -> Self:
        """Return the vectors themselves where an estimator that holds them is cloned: they are not changed by it."""
        return self

    def __len__(self) -> int:
        return len(self._words)

    def __contains__(self, word: object) -> bool:
        return word in self._rows

    def __iter__(self) -> Iterator[str]:
        return iter(self._words)

    def __getitem__(self, word: str | Sequence[str]) -> NDArray[np.float32]:
        """Return the vector (d,) of a word or the vectors (k, d) of a list.

        A string that is none of the words is composed from its n-grams where there is a table of them; otherwise
        UnknownWordError is raised.
        """
        if isinstance(word, str):
            return self._vectors[self._rows[word]] if word in self._rows else self._answers([word])[0]
        return self._answers(word)

    def _answers(self, words: Sequence[str]) -> NDArray[np.float32]:
        """Return the vectors (k, d) of words, composed where they have none of their own."""
        rows = self.index(words)
        unknown = np.flatnonzero(rows < 0).tolist()
        if not unknown:
            return self._vectors[rows]
        if self._subwords is None:
            raise UnknownWordError(self._unknown(words[unknown[0]]))
        found = self._vectors[rows]
        found[unknown] = self._subwords.compose([words[place] for place in unknown])
        return found

    def describe(self, word: str) -> str:
        """Return in words where the vector of a string comes from.

        Parameters
        ----------
        word : str

        Returns
        -------
        str

        Examples
        --------
        >>> import distembed as de
        >>> vectors = de.WordVectors(["king", "queen"], [[1.0, 0.1], [0.9, 0.2]])
        >>> vectors.describe("queen")
        'row 1 of 2 words'
        >>> vectors.describe("plum")
        "the word 'plum' has no vector among 2 words; no known word is spelled like it"
        """
        if word in self._rows:
            return f"row {self._rows[word]} of {plural(len(self), 'word')}"
        if self._subwords is None:
            return self._unknown(word)
        n_known, n_ngrams = int(self._subwords.n_known([word])[0]), int(self._subwords.n_ngrams([word])[0])
        if not n_known:
            return f"the mean vector: none of its {plural(n_ngrams, 'n-gram')} is known"
        case = self._other_case(word)[:1]
        known = f"; {case[0]!r} has a vector of its own" if case else ""
        return f"composed from {n_known} of {plural(n_ngrams, 'n-gram')}{known}"

    @overload
    def index(self, words: str, *, ignore_case: bool = False) -> int: ...  # type: ignore[overload-overlap]
    @overload
    def index(self, words: Iterable[str], *, ignore_case: bool = False) -> NDArray[np.int64]: ...
    def index(self, words: str | Iterable[str], *, ignore_case: bool = False) -> int | NDArray[np.int64]:
        """Return the row of a word, or of each of several words, int64; -1 for unknown words.

        Parameters
        ----------
        words : str or iterable of str
        ignore_case : bool
            Whether a word that is not known as it is written is looked up without regard to case.

        Returns
        -------
        int, or int64 array (n,)
            A number for one word, an array for several.

        Examples
        --------
        >>> import distembed as de
        >>> vectors = de.WordVectors(["king", "queen", "pear"], [[1.0, 0.1], [0.9, 0.2], [-0.1, 1.0]])
        >>> vectors.index("pear")
        2
        >>> vectors.index(["pear", "plum", "King"]).tolist()
        [2, -1, -1]
        >>> vectors.index("King", ignore_case=True)
        0
        """
        if isinstance(words, str):
            return int(self.index([words], ignore_case=ignore_case)[0])
        if ignore_case:
            found = (self._rows.get(word, self._lowered.get(word.lower(), -1)) for word in words)
            return np.fromiter(found, np.int64)
        return np.array([self._rows.get(word, -1) for word in words], dtype=np.int64)

    @cached_property
    def _lowered(self) -> dict[str, int]:
        return rows_by_lower_case(self._words)

    def head(self, n_words: int) -> Self:
        """Return the first words, which are the most frequent ones in most files.

        Parameters
        ----------
        n_words : int

        Returns
        -------
        WordVectors

        Examples
        --------
        >>> import distembed as de
        >>> vectors = de.WordVectors(["king", "queen", "pear"], [[1.0, 0.1], [0.9, 0.2], [-0.1, 1.0]])
        >>> vectors.head(2)
        WordVectors(2 words, 2 components: 'king', 'queen')
        """
        return self if n_words >= len(self) else self._with(self._words[:n_words], self._vectors[:n_words])

    def _with(self, words: Iterable[str], vectors: NDArray[np.float32]) -> Self:
        return type(self)(words, vectors, subwords=self._subwords)

    def restricted(self, words: Iterable[str]) -> Self:
        """Return the vectors of the words that are known, in the order of the rows.

        With a table of n-grams the other words are composed from then on.

        Parameters
        ----------
        words : iterable of str

        Returns
        -------
        WordVectors

        Examples
        --------
        >>> import distembed as de
        >>> vectors = de.WordVectors(["king", "queen", "pear"], [[1.0, 0.1], [0.9, 0.2], [-0.1, 1.0]])
        >>> vectors.restricted(["pear", "plum", "king"]).words
        ('king', 'pear')
        """
        rows = np.sort(self.index(dict.fromkeys(words)))
        rows = rows[rows >= 0]
        if not rows.size:
            raise ValueError(f"none of the words given is known among {len(self)} words; give some that are")
        if rows.size == len(self):
            return self
        return self._with([self._words[row] for row in rows], self._vectors[rows])

    def extended(self, words: Iterable[str]) -> Self:
        """Return the vectors with further rows, those of words that are composed.

        Parameters
        ----------
        words : iterable of str
            Words without a row; a word that has one keeps it.

        Returns
        -------
        WordVectors

        Raises
        ------
        UnknownWordError
            If there is no table of n-grams to compose a word from.

        Examples
        --------
        >>> import distembed as de
        >>> words, matrix = ["walk", "walks", "talk"], [[1.0, 0.0], [1.0, 0.5], [-1.0, 0.0]]
        >>> table = de.SubwordMap(min_words=1, validation_fraction=0).fit(words, matrix).table_
        >>> vectors = de.WordVectors(words, matrix, subwords=table)
        >>> longer = vectors.extended(["talks"])
        >>> longer.words
        ('walk', 'walks', 'talk', 'talks')
        >>> bool((longer["talks"] == vectors["talks"]).all())  # composed before, a row now
        True
        """
        new = [word for word in dict.fromkeys(words) if word not in self._rows]
        if not new:
            return self
        return self._with([*self._words, *new], np.concatenate([self._vectors, self._answers(new)]))

    def _unknown(self, word: str) -> str:
        close = self._nearest(word)
        advice = (
            f"did you mean {' or '.join(map(repr, close))}?" if close else "no known word is spelled like it"
        )
        return f"the word {word!r} has no vector among {len(self)} words; {advice}"

    def _other_case(self, word: str) -> list[str]:
        """Return the forms of a word in another case that are known."""
        return [form for form in (word.lower(), word.capitalize(), word.upper()) if form in self]

    def _nearest(self, word: str) -> list[str]:
        """Return up to three words of similar spelling: first in another case, then with the same beginning."""
        cases = self._other_case(word)
        similar = [
            known
            for known in self._words
            if known[:1].lower() == word[:1].lower() and abs(len(known) - len(word)) <= 2
        ]
        return list(dict.fromkeys([*cases, *get_close_matches(word, similar[:MAX_SPELLINGS])]))[:3]


def rows_by_lower_case(words: Sequence[str]) -> dict[str, int]:
    """Return the row of the first word for each lower-case form."""
    return {words[row].lower(): row for row in reversed(range(len(words)))}


def row_norms(words: Sequence[str], vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the length of each row, summed in float64; refuse NaN and infinity, naming the word."""
    norms = np.empty(len(vectors), dtype=np.float64)
    step = max(1, BLOCK_VALUES // max(vectors.shape[1], 1))
    for start in range(0, len(vectors), step):
        norms[start : start + step] = norms_of(vectors[start : start + step])
    bad = np.flatnonzero(~np.isfinite(norms))
    if bad.size:
        raise ValueError(
            f"row {bad[0]}, the vector of {words[bad[0]]!r}, holds NaN or infinity; remove or impute it first"
        )
    with np.errstate(over="ignore"):  # a length past float32 is inf, and the cosines of such a vector are 0
        return norms.astype(np.float32)


def norms_of(block: NDArray[np.float32]) -> NDArray[np.float64]:
    """Return the length of each row, float64 (n,)."""
    return np.sqrt(np.einsum("ij,ij->i", block, block, dtype=np.float64))
