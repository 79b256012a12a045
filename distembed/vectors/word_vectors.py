"""Word vectors: words with the rows of a float32 matrix, look-up, neighbors and analogies, parts of them, and files.

Similarities are cosines, computed block by block from the rows as they are: no normalized copy of the
matrix is held. A zero vector is allowed; its cosine with anything is 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Literal, Self, overload

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from distembed.display import MAX_ROWS, first_repeat, first_words, html_view, plural
from distembed.execution import one_blas_thread
from distembed.linalg.blocks import centered_gram, row_cosines, without_directions
from distembed.options import PositiveInt, check_options
from distembed.typing import DenseInMemory, Frame, VectorLike, refuse_collection
from distembed.vectors.files import VectorFormat, read_vectors, write_vectors
from distembed.vectors.rows import (
    BLOCK_VALUES,
    Neighbor,
    UnknownWordError,
    WordRows,
    divisors,
    other_cases,
    row_norms,
    rows_by_lower_case,
    unknown_word,
)
from distembed.vectors.subwords import SubwordTable, add_spelling


class WordVectors:
    """Words and their vectors.

    Parameters
    ----------
    words : sequence of str
        n distinct words; row i belongs to word i.
    vectors : array (n, d)
        Finite values, kept as float32; a C-ordered float32 array is not copied.
    subwords : SubwordTable, optional
        The vectors of character n-grams, from which the vector of any other string is composed: then every string
        has a vector. The words above are still the only ones that `in`, `index`, neighbors and iteration know.

    Raises
    ------
    ValueError
        If the lengths differ, a word occurs twice, or a value is NaN or infinite.

    Examples
    --------
    >>> import distembed as de
    >>> vectors = de.WordVectors(["king", "queen", "pear"], [[1.0, 0.1], [0.9, 0.2], [-0.1, 1.0]])
    >>> vectors
    WordVectors(3 words, 2 components: 'king', 'queen', 'pear')
    >>> len(vectors), "queen" in vectors, "plum" in vectors
    (3, True, False)
    >>> print(vectors["pear"])
    [-0.1  1. ]
    """

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
        max_words: PositiveInt | None = None,
        encoding: str = "utf-8",
        errors: Literal["strict", "replace", "ignore"] = "strict",
        duplicates: Literal["error", "first"] = "error",
    ) -> Self:
        r"""Load word2vec text or binary, GloVe text, Parquet, safetensors or fastText; see `distembed.vectors`.

        Parameters
        ----------
        path : str or Path
            The file, or an fsspec URL; text and binary files may be compressed (.gz, .bz2, .xz, .zst).
        format : str
            One of `distembed.vectors`; "auto" goes by the extension and the first bytes of the file.
        max_words : int, optional
            The number of words to read, from the beginning of the file; by default all.
        encoding : str
            The encoding of the words in text and binary files.
        errors : {"strict", "replace", "ignore"}
            Whether words that are not valid in the encoding are an error, or their bytes are replaced or left out.
        duplicates : {"error", "first"}
            "first" keeps the first of several equal words instead of refusing the file.

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
        check_options(cls.load, locals())
        rows = read_vectors(str(path), format, max_words, encoding, errors, duplicates)
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
            What text and binary files have in place of the spaces of a word; by default such words are an error.

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
        rows = WordRows(list(self._words), self._vectors, self._subwords)
        write_vectors(str(path), rows, format, space)

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
            raise UnknownWordError(unknown_word(words[unknown[0]], self._words))
        found = self._vectors[rows]
        found[unknown] = self._subwords.compose([words[place] for place in unknown])
        return found

    def describe(self, word: str) -> str:
        """Return in words where the vector of a string comes from.

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
            return unknown_word(word, self._words)
        n_known, n_ngrams = int(self._subwords.n_known([word])[0]), int(self._subwords.n_ngrams([word])[0])
        if not n_known:
            return f"the mean vector: none of its {plural(n_ngrams, 'n-gram')} is known"
        case = [form for form in other_cases(word) if form in self][:1]
        known = f"; {case[0]!r} has a vector of its own" if case else ""
        return f"composed from {n_known} of {plural(n_ngrams, 'n-gram')}{known}"

    @overload
    def index(self, words: str, *, ignore_case: bool = False) -> int: ...  # type: ignore[overload-overlap]
    @overload
    def index(self, words: Iterable[str], *, ignore_case: bool = False) -> NDArray[np.int64]: ...
    def index(self, words: str | Iterable[str], *, ignore_case: bool = False) -> int | NDArray[np.int64]:
        """Return the row of a word, or of each of several words, int64; -1 for unknown words.

        With `ignore_case` a word that is not known as it is written is looked up without regard to case.

        Examples
        --------
        >>> import distembed as de
        >>> vectors = de.WordVectors(["king", "queen", "pear"], [[1.0, 0.1], [0.9, 0.2], [-0.1, 1.0]])
        >>> vectors.index(["pear", "plum", "King"]).tolist(), vectors.index("King", ignore_case=True)
        ([2, -1, -1], 0)
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

        Without a table of n-grams it is an `UnknownWordError`.

        Examples
        --------
        >>> import distembed as de
        >>> words, matrix = ["walk", "walks", "talk"], [[1.0, 0.0], [1.0, 0.5], [-1.0, 0.0]]
        >>> table = de.SubwordMap(min_words=1).fit(words, matrix).table_
        >>> vectors = de.WordVectors(words, matrix, subwords=table)
        >>> vectors.extended(["talks"]).words  # composed before, a row now
        ('walk', 'walks', 'talk', 'talks')
        """
        new = [word for word in dict.fromkeys(words) if word not in self._rows]
        if not new:
            return self
        return self._with([*self._words, *new], np.concatenate([self._vectors, self._answers(new)]))

    def similarity(self, first: str, second: str) -> float:
        """Return the cosine of two words, in float64; 0 if one of the vectors is zero.

        Examples
        --------
        >>> import distembed as de
        >>> vectors = de.WordVectors(["king", "queen", "pear"], [[1.0, 0.1], [0.9, 0.2], [-0.1, 1.0]])
        >>> round(vectors.similarity("king", "queen"), 2), round(vectors.similarity("king", "pear"), 2)
        (0.99, 0.0)
        """
        found = self._answers([first, second])
        return float(row_cosines(found[:1], found[1:])[0])

    def similarities(self, pairs: NDArray[np.int64] | Sequence[Sequence[int]]) -> NDArray[np.float64]:
        """Return the cosine of each pair of rows (n, 2), in float64.

        Examples
        --------
        >>> import distembed as de
        >>> vectors = de.WordVectors(["king", "queen", "pear"], [[1.0, 0.1], [0.9, 0.2], [-0.1, 1.0]])
        >>> vectors.similarities([[0, 1], [1, 2]]).round(2).tolist()
        [0.99, 0.12]
        """
        pairs = np.asarray(pairs)
        parts = np.array_split(pairs, max(1, pairs.size * self._vectors.shape[1] // BLOCK_VALUES))
        return np.concatenate(
            [row_cosines(self._vectors[part[:, 0]], self._vectors[part[:, 1]]) for part in parts]
        )

    def most_similar(
        self,
        query: str | VectorLike | Sequence[str] = (),
        n: int = 10,
        *,
        positive: Sequence[str] = (),
        negative: Sequence[str] = (),
        exclude: Iterable[str] = (),
    ) -> list[Neighbor]:
        """Return the n words with the largest cosine to a word, a vector (d,) or the center of several words.

        The center is the mean of the unit vectors, those of `negative` with the opposite sign. Words of the query and
        of `exclude` are left out; among equal cosines the word of the smaller row comes first.

        Parameters
        ----------
        query : str, array (d,), or sequence of str
            A word, a vector, or several words, of whose unit vectors the mean is taken.
        n : int
            The number of neighbors.
        positive, negative : sequence of str
            Words to be near to, in place of a query or in addition to it, and to be far from, as in gensim.
        exclude : iterable of str
            Words that are no neighbors.

        Examples
        --------
        >>> import distembed as de
        >>> words = ["king", "queen", "prince", "pear", "plum"]
        >>> vectors = de.WordVectors(words, [[1, 0.1], [0.9, 0.2], [0.8, 0], [-0.1, 1], [-0.2, 0.9]])
        >>> for word, similarity in vectors.most_similar("king", n=2):
        ...     print(f"{word} {similarity:.2f}")
        prince 1.00
        queen 0.99
        >>> [neighbor.word for neighbor in vectors.most_similar([0, 1], n=1, exclude=["pear"])]  # a vector
        ['plum']
        >>> vectors.most_similar(positive=["queen", "plum"], negative=["pear"], n=1)[0].word
        'king'
        """
        for name, words in (("positive", positive), ("negative", negative), ("exclude", exclude)):
            if isinstance(words, str):
                raise TypeError(f"{name} is {words!r}: give a list of words")
        if isinstance(query, str):
            query = [query]
        if isinstance(query, Sequence) and all(isinstance(word, str) for word in query):
            near = [*map(str, query), *positive]
            if not near:
                raise ValueError("no word is given: name one, or give positive words or a vector")
            signs = np.repeat(np.array([1, -1], np.float32), [len(near), len(negative)])
            vector = (self._units([*near, *negative]) * signs[:, None]).mean(axis=0)
        else:
            near, vector = [], np.asarray(query, dtype=np.float32)
            if vector.shape != (self._vectors.shape[1],) or not np.isfinite(vector).all():
                raise ValueError(
                    f"the query is an array of shape {vector.shape}; give a word, a list of words or "
                    f"{self._vectors.shape[1]} finite values"
                )
        return self._top(self._cosines(vector), n, [*near, *negative, *exclude])

    def to_pandas(self) -> Frame:
        """Return a data frame of the vectors, with the words as its index.

        Examples
        --------
        >>> import distembed as de
        >>> de.WordVectors(["king", "queen"], [[3.0, 4.0], [0.0, 0.5]]).to_pandas().loc["queen"].tolist()
        [0.0, 0.5]
        """
        names = [str(number) for number in range(self._vectors.shape[1])]
        return (
            pa.table(list(self._vectors.T), names=names)
            .to_pandas()
            .set_index(pa.array(self._words).to_pandas())
        )

    def normalized(self) -> WordVectors:
        """Return the vectors divided by their lengths, composed ones too; a zero vector stays zero.

        Examples
        --------
        >>> import distembed as de
        >>> print(de.WordVectors(["king", "queen"], [[3.0, 4.0], [0.0, 0.5]]).normalized().vectors)
        [[0.6 0.8]
         [0.  1. ]]
        """
        scaled = np.empty_like(self._vectors)
        for part in self._blocks():
            scaled[part] = self._vectors[part] / divisors(self._norms[part])
        return WordVectors(self._words, scaled, subwords=self._subwords and self._subwords.normalize())

    def postprocess(self, *, n_components_removed: int = 1) -> WordVectors:
        r"""Return the vectors without their mean and first principal components: "all but the top".

        .. math:: v' = (v - \mu) - \sum_{i \le D} \bigl(u_i^\top (v - \mu)\bigr) u_i

        Mu and Viswanath (2018), algorithm 1, who advise D about d / 100. Mean and second moments are summed in float64
        by blocks of rows. The same is done to vectors that are composed; a vector of zeros stays zero.

        Parameters
        ----------
        n_components_removed : int
            The number D of principal components that are removed.

        Examples
        --------
        >>> import distembed as de
        >>> vectors = de.WordVectors(["king", "queen", "pear"], [[9.0, 1.0], [8.0, 2.0], [7.0, 6.0]])
        >>> centered = vectors.postprocess(n_components_removed=0)
        >>> centered.vectors.tolist()
        [[1.0, -2.0], [0.0, -1.0], [-1.0, 3.0]]
        >>> round(vectors.similarity("king", "pear"), 2), round(centered.similarity("king", "pear"), 2)
        (0.83, -0.99)
        """
        n_components = self._vectors.shape[1]
        if not 0 <= n_components_removed < n_components:
            raise ValueError(f"n_components_removed is {n_components_removed}; give 0 to {n_components - 1}")
        blocks, cleaned = [self._vectors[part] for part in self._blocks()], np.empty_like(self._vectors)
        total = sum((block.sum(axis=0, dtype=np.float64) for block in blocks), np.zeros(n_components))
        mean = total / max(1, sum(np.count_nonzero(block.any(axis=1)) for block in blocks))
        with one_blas_thread():
            moments = sum((centered_gram(block, mean) for block in blocks), np.zeros((n_components,) * 2))
            axes = np.linalg.eigh(moments)[1][:, n_components - n_components_removed :]
            for part, block in zip(self._blocks(), blocks, strict=True):
                cleaned[part] = without_directions(block, mean, axes)
            table = self._subwords and self._subwords.projected(mean, axes)
        return WordVectors(self._words, cleaned, subwords=table)

    def with_spelling(self, weight: float = 1.0) -> WordVectors:
        r"""Return vectors to whose directions those of their spelling are added.

        .. math:: v'_w = \frac{v_w - m}{\|v_w - m\|} + \alpha \frac{s_w - m}{\|s_w - m\|}

        s is what the table of n-grams composes of a word and m its mean vector. Words that are spelled alike
        come nearer to each other: inflected forms most of all, and rare words, of which their contexts say little.
        A word that has no row is composed as ``s - m``.

        Raises
        ------
        ValueError
            If the vectors have no table of n-grams, or one whose vectors are divided by their lengths.

        Examples
        --------
        >>> import distembed as de
        >>> words = ["walk", "walks", "talk", "talks"]
        >>> matrix = [[1, 0, 0], [0, 1, 0], [-1, 0, 1], [0, -1, 1]]
        >>> table = de.SubwordMap(min_words=1).fit(words, matrix).table_
        >>> vectors = de.WordVectors(words, matrix, subwords=table)
        >>> vectors.similarity("walk", "walks") < vectors.with_spelling(1.0).similarity("walk", "walks")
        True
        """
        table = self._subwords
        if table is None or table.normalized or weight < 0:
            raise ValueError(
                f"the vectors have {table!r} for their spelling and weight is {weight}: give vectors with a table of "
                "n-grams that is not normalized, such as `SubwordMap.table_`, and a weight of 0 or more"
            )
        added = np.empty_like(self._vectors)
        for part in self._blocks():
            composed = table.compose(self._words[part])
            added[part] = add_spelling(self._vectors[part], composed, table.mean, weight=weight)
        return WordVectors(self._words, added, subwords=table.centered())

    def _blocks(self) -> Iterator[slice]:
        step = max(1, BLOCK_VALUES // self._vectors.shape[1])
        return (slice(start, start + step) for start in range(0, len(self), step))

    def _units(self, words: Sequence[str]) -> NDArray[np.float32]:
        found, rows = self._answers(words), self.index(words)
        norms = np.where(rows >= 0, self._norms[rows], row_norms(words, found))
        return found / divisors(norms)

    def _cosines(self, vector: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return the cosine of every word with a vector (d,), float32 (n,)."""
        length = np.linalg.norm(vector.astype(np.float64))
        unit = (vector / (length if length > 0 else 1.0)).astype(np.float32)
        cosines = np.empty(len(self), dtype=np.float32)
        with one_blas_thread():
            for part in self._blocks():
                cosines[part] = self._vectors[part] @ unit
        return cosines / divisors(self._norms)[:, 0]

    def _top(self, scores: NDArray[np.float32], n: int, exclude: Iterable[str]) -> list[Neighbor]:
        if n < 1:
            raise ValueError(f"n is {n}; give the number of words wanted, 1 or more")
        excluded = self.index(exclude)
        scores[excluded[excluded >= 0]] = -np.inf
        n_kept = min(n, len(scores))
        floor = np.partition(scores, len(scores) - n_kept)[len(scores) - n_kept]
        candidates = np.flatnonzero(scores >= floor)
        order = candidates[np.argsort(-scores[candidates], kind="stable")][:n_kept]
        return [Neighbor(self._words[row], float(scores[row])) for row in order if scores[row] > -np.inf]
