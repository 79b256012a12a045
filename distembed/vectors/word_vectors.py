"""Word vectors: words with the rows of a float32 matrix, and the comparison of these rows.

Similarities are cosines, computed block by block from the rows as they are: no normalized copy of the
matrix is held. A zero vector is allowed; its cosine with anything is 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from distembed.execution import one_blas_thread
from distembed.typing import VectorLike
from distembed.vectors.ngram_blocks import add_spelling
from distembed.vectors.rows import BLOCK_VALUES
from distembed.vectors.word_table import UnknownWordError, WordTable, norms_of, row_norms

__all__ = [
    "Neighbor",
    "UnknownWordError",  # pickled errors name this module
    "WordVectors",
]

COSMUL_EPSILON = 1e-3  # Levy & Goldberg 2014, equation 4


class Neighbor(NamedTuple):
    """A word and its similarity to the query."""

    word: str
    similarity: float


class WordVectors(WordTable):
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
    >>> [neighbor.word for neighbor in vectors.most_similar("king", n=2)]
    ['queen', 'pear']
    """

    def similarity(self, first: str, second: str) -> float:
        """Return the cosine of two words, in float64; 0 if one of the vectors is zero.

        Parameters
        ----------
        first, second : str

        Returns
        -------
        float

        Examples
        --------
        >>> import distembed as de
        >>> vectors = de.WordVectors(["king", "queen", "pear"], [[1.0, 0.1], [0.9, 0.2], [-0.1, 1.0]])
        >>> round(vectors.similarity("king", "queen"), 2), round(vectors.similarity("king", "pear"), 2)
        (0.99, 0.0)
        """
        found = self._answers([first, second])
        return float(_pair_cosines(found[:1], found[1:])[0])

    def similarities(self, pairs: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the cosine of each pair of rows, pairs int64 (n, 2), in float64.

        Parameters
        ----------
        pairs : int64 array (n, 2)
            The row numbers of the words of each pair.

        Returns
        -------
        float64 array (n,)

        Examples
        --------
        >>> import distembed as de
        >>> import numpy as np
        >>> vectors = de.WordVectors(["king", "queen", "pear"], [[1.0, 0.1], [0.9, 0.2], [-0.1, 1.0]])
        >>> vectors.similarities(np.array([[0, 1], [1, 2]])).round(2).tolist()
        [0.99, 0.12]
        """
        cosines = np.empty(len(pairs), dtype=np.float64)
        step = self._block_rows()
        for start in range(0, len(pairs), step):
            part = pairs[start : start + step]
            cosines[start : start + step] = _pair_cosines(
                self._vectors[part[:, 0]], self._vectors[part[:, 1]]
            )
        return cosines

    def composed_similarities(self, words: Sequence[str]) -> NDArray[np.float64]:
        """Return the cosine of the vector of each word with the one that is composed from its n-grams, (n,).

        Parameters
        ----------
        words : sequence of str
            n words.

        Returns
        -------
        float64 array (n,)

        Raises
        ------
        ValueError
            If there is no table of n-grams.

        Examples
        --------
        >>> import distembed as de
        >>> words, matrix = ["walk", "walks", "talk", "rose"], [[1, 0], [1, 0.5], [-1, 0], [0, 1]]
        >>> table = de.SubwordMap(min_words=2, validation_fraction=0).fit(words, matrix).table_
        >>> vectors = de.WordVectors(words, matrix, subwords=table)
        >>> vectors.composed_similarities(words).round(2).tolist()
        [0.93, 1.0, -0.37, 0.83]
        """
        if self._subwords is None:
            raise ValueError("there is no table of n-grams to compose words from: give vectors that have one")
        cosines = np.empty(len(words), np.float64)
        step = self._block_rows()
        for start in range(0, len(words), step):
            part = words[start : start + step]
            cosines[start : start + step] = _pair_cosines(self._answers(part), self._subwords.compose(part))
        return cosines

    def most_similar(
        self,
        query: str | VectorLike | Sequence[str],
        n: int = 10,
        *,
        exclude: Iterable[str] = (),
    ) -> list[Neighbor]:
        """Return the n words with the largest cosine to a word, a vector (d,) or the center of several words.

        The center is the mean of the unit vectors. Words of the query and of `exclude` are left out; among
        equal cosines the word of the smaller row comes first.

        Parameters
        ----------
        query : str, array (d,), or sequence of str
            A word, a vector, or several words, of whose unit vectors the mean is taken.
        n : int
            The number of neighbors.
        exclude : iterable of str
            Words that are no neighbors.

        Returns
        -------
        list of Neighbor
            Pairs (word, similarity), the largest cosine first.

        Examples
        --------
        >>> import distembed as de
        >>> words = ["king", "queen", "prince", "pear", "plum"]
        >>> vectors = de.WordVectors(words, [[1, 0.1], [0.9, 0.2], [0.8, 0], [-0.1, 1], [-0.2, 0.9]])
        >>> for word, similarity in vectors.most_similar("king", n=2):
        ...     print(f"{word} {similarity:.2f}")
        prince 1.00
        queen 0.99
        >>> [neighbor.word for neighbor in vectors.most_similar(["king", "queen"], n=1)]
        ['prince']
        >>> [neighbor.word for neighbor in vectors.most_similar([0, 1], n=1, exclude=["pear"])]  # a vector
        ['plum']
        """
        if isinstance(query, str):
            query = [query]
        asked: list[str] = []
        if isinstance(query, Sequence) and query and all(isinstance(word, str) for word in query):
            asked = [str(word) for word in query]
            vector = self._units(asked).mean(axis=0)
        else:
            vector = self._check_vector(query)
        return self._top(self._cosines(vector), n, [*asked, *exclude])

    def analogy(
        self, a: str, b: str, c: str, n: int = 10, *, method: Literal["add", "mul"] = "add"
    ) -> list[Neighbor]:
        r"""Return the n words that are to c as b is to a; a, b and c themselves are left out.

        .. math:: \cos(x, b) - \cos(x, a) + \cos(x, c) \qquad\text{or}\qquad
                  \frac{(\cos(x, b) + 1)(\cos(x, c) + 1)}{\cos(x, a) + 1 + 0.001}

        Levy and Goldberg (2014), 3CosAdd (equation 1) and 3CosMul (equation 4, cosines not halved). The
        order of "add" is that of gensim's ``most_similar(positive=[b, c], negative=[a])``.

        Parameters
        ----------
        a, b, c : str
            The words of the question "a is to b as c is to what?"
        n : int
            The number of answers.
        method : {"add", "mul"}
            The first or the second of the formulas.

        Returns
        -------
        list of Neighbor
            Pairs (word, similarity), the best first.

        Examples
        --------
        >>> import distembed as de
        >>> words = ["man", "woman", "king", "queen", "pear"]
        >>> vectors = de.WordVectors(words, [[1, 0, 1], [1, 0, -1], [1, 1, 1], [1, 1, -1], [-1, 0.5, 0]])
        >>> vectors.analogy("man", "king", "woman", n=1)[0].word
        'queen'
        >>> vectors.analogy("man", "king", "woman", n=1, method="mul")[0].word
        'queen'
        """
        to_a, to_b, to_c = (self._cosines(vector) for vector in self._units([a, b, c]))
        if method == "add":
            scores = to_b - to_a + to_c
        elif method == "mul":
            scores = (to_b + 1) * (to_c + 1) / (to_a + 1 + COSMUL_EPSILON)
        else:
            raise ValueError(f'method is {method!r}; give "add" or "mul"')
        return self._top(scores, n, [a, b, c])

    def normalized(self) -> WordVectors:
        """Return the vectors divided by their lengths, composed ones too; a zero vector stays zero.

        Returns
        -------
        WordVectors

        Examples
        --------
        >>> import distembed as de
        >>> print(de.WordVectors(["king", "queen"], [[3.0, 4.0], [0.0, 0.5]]).normalized().vectors)
        [[0.6 0.8]
         [0.  1. ]]
        """
        scaled = np.empty_like(self._vectors)
        for part in self._blocks():
            scaled[part] = self._vectors[part] / _divisors(self._norms[part])
        return WordVectors(self._words, scaled, subwords=self._subwords and self._subwords.normalize())

    def postprocess(self, *, remove_mean: bool = True, n_components_removed: int = 1) -> WordVectors:
        r"""Return the vectors without their mean and first principal components: "all but the top".

        .. math:: v' = (v - \mu) - \sum_{i \le D} \bigl(u_i^\top (v - \mu)\bigr) u_i

        Mu and Viswanath (2018), algorithm 1, who advise D about d / 100. Mean and second moments are summed
        in float64 by blocks of rows; without `remove_mean` the components are those of the raw second
        moments. The same is done to vectors that are composed.

        Parameters
        ----------
        remove_mean : bool
            Whether the mean mu is subtracted.
        n_components_removed : int
            The number D of principal components that are removed.

        Returns
        -------
        WordVectors

        Examples
        --------
        >>> import distembed as de
        >>> vectors = de.WordVectors(["king", "queen", "pear"], [[9.0, 1.0], [8.0, 2.0], [7.0, 6.0]])
        >>> round(vectors.similarity("king", "pear"), 2)  # what all words have in common
        0.83
        >>> centered = vectors.postprocess(n_components_removed=0)
        >>> centered.vectors.tolist()
        [[1.0, -2.0], [0.0, -1.0], [-1.0, 3.0]]
        >>> round(centered.similarity("king", "pear"), 2)
        -0.99
        """
        n_components = self._vectors.shape[1]
        if not 0 <= n_components_removed < n_components:
            raise ValueError(f"n_components_removed is {n_components_removed}; give 0 to {n_components - 1}")
        mean = self._mean() if remove_mean else np.zeros(n_components)
        top = self._principal_components(mean, n_components_removed)
        cleaned = np.empty_like(self._vectors)
        with one_blas_thread():
            for part in self._blocks():
                centered = self._vectors[part] - mean
                cleaned[part] = centered - (centered @ top) @ top.T
            table = self._subwords and self._subwords.projected(mean, top)
        return WordVectors(self._words, cleaned, subwords=table)

    def with_spelling(self, weight: float = 1.0) -> WordVectors:
        r"""Return vectors to whose directions those of their spelling are added.

        .. math:: v'_w = \frac{v_w - m}{\|v_w - m\|} + \alpha \frac{s_w - m}{\|s_w - m\|}

        s is what the table of n-grams composes of a word and m its mean vector. Words that are spelled alike
        come nearer to each other: inflected forms most of all, and rare words, of which their contexts say little.
        A word that has no row is composed as ``s - m``.

        Parameters
        ----------
        weight : float
            alpha, 0 or more.

        Returns
        -------
        WordVectors

        Raises
        ------
        ValueError
            If the vectors have no table of n-grams, or one whose vectors are divided by their lengths.

        Examples
        --------
        >>> import distembed as de
        >>> words = ["walk", "walks", "talk", "talks"]
        >>> matrix = [[1, 0, 0], [0, 1, 0], [-1, 0, 1], [0, -1, 1]]
        >>> table = de.SubwordMap(min_words=1, validation_fraction=0).fit(words, matrix).table_
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

    def _mean(self) -> NDArray[np.float64]:
        sums = (self._vectors[part].sum(axis=0, dtype=np.float64) for part in self._blocks())
        return sum(sums, start=np.zeros(self._vectors.shape[1])) / len(self)

    def _principal_components(self, mean: NDArray[np.float64], n: int) -> NDArray[np.float64]:
        """Return the eigenvectors (d, n) of the n largest eigenvalues of the second moments about `mean`."""
        n_components = self._vectors.shape[1]
        moments = np.zeros((n_components, n_components))
        with one_blas_thread():
            for part in self._blocks():
                moments += _second_moments(self._vectors[part] - mean)
            return np.linalg.eigh(moments)[1][:, n_components - n :]

    def _block_rows(self) -> int:
        return max(1, BLOCK_VALUES // self._vectors.shape[1])

    def _blocks(self) -> Iterator[slice]:
        step = self._block_rows()
        return (slice(start, start + step) for start in range(0, len(self), step))

    def _units(self, words: Sequence[str]) -> NDArray[np.float32]:
        found, rows = self._answers(words), self.index(words)
        norms = np.where(rows >= 0, self._norms[rows], row_norms(words, found))
        return found / _divisors(norms)

    def _check_vector(self, query: VectorLike | Sequence[str]) -> NDArray[np.float32]:
        vector = np.asarray(query, dtype=np.float32)
        if vector.shape != (self._vectors.shape[1],) or not np.isfinite(vector).all():
            raise ValueError(
                f"the query is an array of shape {vector.shape}; give a word, a list of words or "
                f"{self._vectors.shape[1]} finite values"
            )
        return vector

    def _cosines(self, vector: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return the cosine of every word with a vector (d,), float32 (n,)."""
        length = np.linalg.norm(vector.astype(np.float64))
        unit = (vector / (length if length > 0 else 1.0)).astype(np.float32)
        cosines = np.empty(len(self), dtype=np.float32)
        with one_blas_thread():
            for part in self._blocks():
                cosines[part] = self._vectors[part] @ unit
        return cosines / _divisors(self._norms)[:, 0]

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


def _divisors(norms: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return norms as a column, with 1 for 0 so that a zero vector stays zero."""
    return np.where(norms > 0, norms, np.float32(1))[:, None]


def _second_moments(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    return rows.T @ rows


def _pair_cosines(first: NDArray[np.float32], second: NDArray[np.float32]) -> NDArray[np.float64]:
    products = np.einsum("ij,ij->i", first, second, dtype=np.float64)
    lengths = norms_of(first) * norms_of(second)
    return np.divide(products, lengths, out=np.zeros_like(products), where=lengths > 0)
