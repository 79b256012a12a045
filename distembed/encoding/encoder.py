"""Text vectors from word vectors, as a scikit-learn transformer over texts."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping
from copy import copy
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self, overload
from uuid import uuid4

import dask.array as da
import numpy as np
import pyarrow as pa
from numba import njit
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import Tags

from distembed.corpus import records
from distembed.corpus.partitions import read_batches
from distembed.corpus.records import HEADS, Batch, Partition
from distembed.corpus.scanners import Scanner
from distembed.corpus.texts import columns_of, text_array
from distembed.corpus.tokenizer import APOSTROPHES, Tokenizer, scanner
from distembed.display import plural
from distembed.dtypes import Float32s, Float64s, Int64s
from distembed.execution import compute, delayed, one_blas_thread, shared
from distembed.lift import lift
from distembed.linalg.csr import unit_rows
from distembed.options import PositiveFloat, check_options
from distembed.temporaries import block
from distembed.typing import VectorLike, refuse_collection
from distembed.vectors import WordVectors

Weighting = Literal["sif", "mean"]
UnknownWords = Literal["skip", "subwords"]
Whitening = Literal["none", "component", "half", "full"]

FULL_WORDS = 2
"""Words per component from which on full whitening is the default: with one, it makes every word orthogonal to all
others (the rows are then any basis), and similar words are no longer near.
"""

Counts = VectorLike | Mapping[str, float]

LEAST_EIGENVALUE = 1e-6
"""The share of the largest eigenvalue below which a direction counts as one without any words: far above the rounding
of unit rows, whose square is 4e-15 for float32, and 8e-8 for float16 or for a file with three decimals.
"""

BLOCK_ROWS = 1 << 13
"""Rows that are weighted at a time, in float64: 20 MB of 300 components."""

TASK_TEXTS = 1 << 12
"""Texts of a task of `transform`: a hundredth of a second of sentences."""

COMMON = 1e-3
"""The share of the words of a vocabulary that has to have digits, or apostrophes, before texts keep them."""

SNIPPET_CHARACTERS = 160
"""Characters of the beginning of a text that are kept beside its vector: two lines of a terminal."""

HELD_VALUES = 1 << 21
"""Numbers of the vectors that are made at a time, at most: 8 MiB of float32."""


class EncodedTexts(NamedTuple):
    """Some texts in their order: vectors float32 (n, d), tokens and known tokens of each, int64 (n,)."""

    vectors: Float32s
    n_tokens: Int64s
    n_known: Int64s


class TextEncoder(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    r"""Turn texts into vectors: the weighted mean of the vectors of their words.

    .. math:: x = \frac{1}{n} \sum_{i=1}^{n} \frac{a}{a + p(w_i)} \frac{v_{w_i}}{\lVert v_{w_i} \rVert}

    over the n known tokens of a text, p(w) the share of a word among all tokens: smooth inverse frequency (Arora,
    Liang and Ma 2017). Weights and whitening are learned from the vocabulary, never from the texts that are
    encoded, so that the vector of a text does not depend on other texts. They are linear, and are folded into
    one table of rows. A text without a known word has the zero vector. The defaults are what was best on the
    development part of STS-B: a = 0.001, full whitening, unknown words composed.

    The rows are made by `fit`, or at the first use. Parameters that are set later count from the next `fit` on.

    Parameters
    ----------
    vectors : WordVectors, str or Path
        A path is loaded as by `WordVectors.load`, at the fit.
    weighting : {"sif", "mean"}
        "mean" is the plain mean of the word vectors as they are, neither weighted nor of unit length.
    a : float
        The constant of smooth inverse frequency: a word of this share has half the weight of a rare one.
    counts : array (n_words,), mapping of str to number, or None
        The number of tokens of each word, for p(w). None takes the words to be in falling order of frequency and
        their counts to follow Zipf's law; `counts_source_` names what was taken.
    whitening : {"none", "component", "half", "full"}, optional
        The linear map of the weighted rows, learned from their second moments over the vocabulary, where each word
        counts as often as it occurs: "component" removes the first principal axis, "full" makes the spread
        along all axes equal, "half" takes its square root (the moments to the power -1/4). By default "full", "half"
        where there are fewer than two words per component, and "none" for the plain mean.
    tokenizer : Tokenizer, optional
        How texts become words. By default words are runs of letters, in lower case if no word of the vocabulary has a
        capital, with digits and apostrophes if its words have them.
    unknown : {"skip", "subwords"}, optional
        Whether words without a vector are left out, or composed from their n-grams by the table of the vectors. By
        default they are composed where the vectors have such a table.

    Attributes
    ----------
    rows_ : float32 array (n_words, d)
        The rows whose mean over the tokens of a text is its vector.
    counts_source_ : str
        Where the shares of the words are taken from.
    tokenizer_ : Tokenizer
    whitening_ : {"none", "component", "half", "full"}
    unknown_ : {"skip", "subwords"}
    n_without_words_ : int
        The texts of the last `transform` in memory that had no known word.
    n_features_out_ : int
        The number d of components.

    References
    ----------
    Arora, Liang & Ma, A simple but tough-to-beat baseline for sentence embeddings, ICLR 2017.

    Examples
    --------
    >>> import distembed as de
    >>> vectors = de.WordVectors(["the", "cat", "dog", "sat"], [[1, 1], [0, 2], [0, 3], [2, 0]])
    >>> encoder = de.TextEncoder(vectors, counts=[90, 3, 3, 4])
    >>> (100 * encoder.transform(["The cat sat.", "the dog sat"])).round().astype(int).tolist()
    [[169, 138], [169, 138]]
    """

    def __init__(
        self,
        vectors: WordVectors | str | Path,
        *,
        weighting: Weighting = "sif",
        a: PositiveFloat = 1e-3,
        counts: Counts | None = None,
        whitening: Whitening | None = None,
        tokenizer: Tokenizer | None = None,
        unknown: UnknownWords | None = None,
    ) -> None:
        self.vectors = vectors
        self.weighting = weighting
        self.a = a
        self.counts = counts
        self.whitening = whitening
        self.tokenizer = tokenizer
        self.unknown = unknown

    def fit(self, X: object = None, y: object = None) -> Self:  # noqa: ARG002 - scikit-learn's signature
        """Fold the weights and the whitening into the rows of the words; texts are neither needed nor read.

        Raises
        ------
        ValueError
            If an option is not one of its choices, the counts do not fit the words, or words are to be composed and
            the vectors have no table of n-grams.

        Examples
        --------
        >>> import distembed as de
        >>> vectors = de.WordVectors(["the", "cat", "sat"], [[1, 1], [0, 2], [2, 0]])
        >>> encoder = de.TextEncoder(vectors, weighting="mean").fit()
        >>> encoder.n_features_out_, encoder.rows_.tolist()
        (2, [[1.0, 1.0], [0.0, 2.0], [2.0, 0.0]])
        """
        check_options(self)
        given = self.vectors
        loaded = WordVectors.load(given) if isinstance(given, str | Path) else given
        if self.unknown == "subwords" and loaded.subwords is None:
            raise ValueError(
                'unknown is "subwords", but the vectors have no table of n-grams: give unknown="skip", or vectors of '
                "a job with [subwords] enabled = true"
            )
        vectors, words, map_ = loaded.vectors, loaded.words, None
        n_words, d = vectors.shape
        shares, self.counts_source_ = word_shares(loaded, self.counts)
        weights = self.a / (self.a + shares) if self.weighting == "sif" else None
        default: Whitening = "full" if n_words >= FULL_WORDS * d else "half"
        self.whitening_: Whitening = self.whitening or ("none" if weights is None else default)
        known: UnknownWords = "skip" if loaded.subwords is None else "subwords"
        self.unknown_: UnknownWords = self.unknown or known
        # By default the tokenizer that the vocabulary looks made by: its case, its digits and its apostrophes.
        least = max(COMMON * n_words, 1)
        n_apostrophes = sum(any(sign in word[1:-1] for sign in APOSTROPHES) for word in words)
        self.tokenizer_ = self.tokenizer or Tokenizer(
            lowercase=all(word == word.lower() for word in words),
            numbers=sum(any(map(str.isdigit, word)) for word in words) >= least,
            apostrophes=n_apostrophes >= least,
        )
        slices = [slice(first, first + BLOCK_ROWS) for first in range(0, n_words, BLOCK_ROWS)]
        parts = [(vectors[part], None if weights is None else weights[part]) for part in slices]
        with one_blas_thread():
            if self.whitening_ != "none":
                moments = np.zeros((d, d))
                for part, each in zip(slices, parts, strict=True):
                    rows = weigh_rows(*each)
                    moments += (rows * shares[part, None]).T @ rows
                map_ = whitening_map(moments, self.whitening_)
            folded = [weigh_rows(*each, map_).astype(np.float32) for each in parts]
        self.vectors_, self.rows_, self.n_features_out_ = loaded, np.concatenate(folded), d
        # Further words are as rare as the rarest of the vocabulary.
        self._rest = None if weights is None else weights.max(keepdims=True), map_
        self._token, self.n_without_words_ = uuid4().hex, 0
        return self

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "rows_")

    @property
    def _n_features_out(self) -> int:
        return self.n_features_out_

    @overload
    def transform(self, X: da.Array) -> da.Array: ...

    @overload
    def transform(self, X: Iterable[str]) -> Float32s: ...

    def transform(self, X: Iterable[str] | da.Array) -> Float32s | da.Array:
        """Return the vectors of texts, float32 (n, d).

        Parameters
        ----------
        X : iterable of str, or Dask array (n,) of str
            The texts, as a list or a column. A Dask array gives a Dask array, lazily.

        Returns
        -------
        float32 array (n, d)

        Warns
        -----
        UserWarning
            If a text has no known word: its vector is zero.

        Raises
        ------
        TypeError
            If X is a single text or a table, or an item is no text.

        Examples
        --------
        >>> import distembed as de
        >>> vectors = de.WordVectors(["the", "cat", "sat"], [[1, 1], [0, 2], [2, 0]])
        >>> encoder = de.TextEncoder(vectors, weighting="mean")
        >>> encoder.transform(["The cat sat.", "cat!"]).tolist()
        [[1.0, 1.0], [0.0, 2.0]]
        """
        if isinstance(X, (str, bytes)):
            raise TypeError("X is one text, and an iterable of texts is needed: give [text]")
        self._fit_once()
        refuse_collection(X, "X")
        if isinstance(X, da.Array):
            # A copy, because other parameters may be set before the array is computed.
            encoder = shared(copy(self))
            return lift(encode_block, "w->wc", X, sizes={"c": self.n_features_out_}, encoder=encoder)
        if columns_of(X) is not None:
            raise TypeError("X is a table, and a column of texts is needed: give one, such as X['text']")
        encoded = self.encode(X)
        self.n_without_words_ = int((encoded.n_known == 0).sum())
        if self.n_without_words_:
            warnings.warn(without_words(self.n_without_words_, len(encoded.n_known)), stacklevel=2)
        return encoded.vectors

    def encode(self, texts: Iterable[str]) -> EncodedTexts:
        """Return the vectors of texts with the number of tokens, and of known tokens, of each.

        Parameters
        ----------
        texts : iterable of str
            n texts.

        Returns
        -------
        EncodedTexts
            `vectors` float32 (n, d), `n_tokens` and `n_known` int64 (n,).

        Raises
        ------
        TypeError
            If an item is no text.

        Examples
        --------
        >>> import distembed as de
        >>> vectors = de.WordVectors(["the", "cat", "sat"], [[1, 1], [0, 2], [2, 0]])
        >>> found = de.TextEncoder(vectors, weighting="mean").encode(["The cat sat down.", "Tom"])
        >>> found.vectors.tolist()
        [[1.0, 1.0], [0.0, 0.0]]
        >>> found.n_tokens.tolist(), found.n_known.tolist()
        ([4, 1], [3, 0])
        """
        self._fit_once()
        nothing = np.zeros(0, np.int64)
        found = [EncodedTexts(np.zeros((0, self.n_features_out_), np.float32), nothing, nothing)]
        iterator, encoder, encode = iter(texts), shared(copy(self)), delayed(encode_batch, traverse=False)
        pieces = enumerate(iter(lambda: list(islice(iterator, TASK_TEXTS)), []))
        found += compute([encode(encoder, batch_of(piece, TASK_TEXTS * number)) for number, piece in pieces])
        return EncodedTexts(*map(np.concatenate, zip(*found, strict=True)))

    def __dask_tokenize__(self) -> tuple[str, str]:
        """Return a name of this fit: a hash of all vectors would take longer than a task."""
        return type(self).__name__, self._token

    def _fit_once(self) -> None:
        """Fit at the first use, because nothing is learned from texts."""
        if not hasattr(self, "rows_"):
            self.fit()

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.string, tags.input_tags.two_d_array = True, False
        tags.requires_fit = False
        return tags


@block(temporaries=4.5)
def encode_block(texts: NDArray[np.object_] | str, *, encoder: TextEncoder) -> Float32s:
    """Return the vectors of some texts, or of one that stands alone in its block."""
    return encode_batch(encoder, batch_of(np.atleast_1d(texts).tolist())).vectors


def batch_of(texts: Iterable[str], first: int = 0) -> Batch:
    """Return whole texts as one batch; `first` is the number of the first, for errors.

    Raises
    ------
    TypeError
        If one of them is no text.
    ValueError
        If one of them holds half a surrogate pair, which UTF-8 cannot represent.
    """
    return records.batch_of(text_array(texts, allow_missing=False, first=first))


def encode_batch(encoder: TextEncoder, batch: Batch, words: Scanner | None = None) -> EncodedTexts:
    """Return the texts of a batch, cut into words by a scanner, which is empty after; by default a new one."""
    words = word_scanner(encoder) if words is None else words
    vectors, (weight, map_) = encoder.vectors_, encoder._rest
    scanned, spelled = words.scan(batch), words.words()["word"].to_pylist()
    words.forget()
    rows = np.append(vectors.index(spelled), -1)  # the last is for the id -1
    extra, places = encoder.rows_[:0], np.flatnonzero(rows[:-1] < 0)
    if encoder.unknown_ == "subwords" and places.size:
        table: Any = vectors.subwords
        unknown = [spelled[place] for place in places.tolist()]
        # Those of which no n-gram is known are left out.
        rows[places] = np.where(table.n_known(unknown) == 0, -1, len(vectors) + np.arange(len(places)))
        with one_blas_thread():
            extra = weigh_rows(table.compose(unknown), weight, map_).astype(np.float32)
    means, n_known = mean_rows(encoder.rows_, extra, rows[scanned.ids], scanned.id_stops)
    return EncodedTexts(means, scanned.n_tokens, n_known)


def word_scanner(encoder: TextEncoder) -> Scanner:
    """Return a scanner of the words of an encoder: a short text counts, and no window has borders."""
    return scanner(replace(encoder.tokenizer_, border="document", min_border_tokens=1))


def encode_texts(encoder: TextEncoder, partition: Partition) -> Iterator[tuple[pa.RecordBatch, EncodedTexts]]:
    """Yield some texts of a partition at a time, in their order; a few MiB are in memory.

    They are a record batch of id, title, label and snippet, and their vectors.

    Parameters
    ----------
    encoder : TextEncoder
        A fitted one.
    partition : Partition
        Its texts, and itself, may be of any length.

    Raises
    ------
    CorpusError
        If the partition cannot be read.
    """
    words = word_scanner(encoder)
    most = max(1, HELD_VALUES // encoder.n_features_out_)
    for whole in read_batches(partition):
        for first in range(0, len(whole.starts), most):
            starts, stops = (bounds[first : first + most] for bounds in (whole.starts, whole.stops))
            batch = whole._replace(starts=starts, stops=stops, documents=whole.documents.slice(first, most))
            texts = batch._replace(stops=np.minimum(stops, starts + 4 * SNIPPET_CHARACTERS)).texts()
            snippets = [text.decode("utf-8", "ignore")[:SNIPPET_CHARACTERS] for text in texts]
            heads = batch.documents.select(HEADS).append_column("snippet", pa.array(snippets, pa.string()))
            yield heads.combine_chunks().to_batches()[0], encode_batch(encoder, batch, words)


# ---- the rows that texts are sums of ----------------------------------------------------------------------


@njit(cache=True, nogil=True)
def mean_rows(
    table: np.ndarray, extra: np.ndarray, rows: np.ndarray, stops: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the mean of the rows of the known tokens of each text.

    Parameters
    ----------
    table : float32 array (n_words, d)
        The rows of the vocabulary.
    extra : float32 array (k, d)
        Rows of further words, which follow those of the table.
    rows : int64 array (n_tokens,)
        The row of each token, -1 for an unknown word.
    stops : int64 array (n_texts,)
        The end of the tokens of each text.

    Returns
    -------
    means : float32 array (n_texts, d)
        Zero for a text without a known token.
    n_known : int64 array (n_texts,)
        The number of known tokens of each text.
    """
    d = table.shape[1]
    means, n_known = np.zeros((len(stops), d), np.float32), np.zeros(len(stops), np.int64)
    begin, total = 0, np.zeros(d)
    for text, stop in enumerate(stops):
        total[:] = 0.0
        for row in rows[begin:stop]:
            if row >= 0:
                source = table[row] if row < len(table) else extra[row - len(table)]
                for j in range(d):
                    total[j] += source[j]
                n_known[text] += 1
        for j in range(d):
            means[text, j] = total[j] / max(n_known[text], 1)
        begin = stop
    return means, n_known


def whitening_map(moments: Float64s, whitening: str) -> Float64s:
    r"""Return the symmetric map, float64 (d, d), that follows from the second moments of weighted rows.

    "component" removes the direction in which the rows spread most. "half" and "full" are :math:`E\,l^{p} E^\top` with
    p = -1/4 and -1/2, E the eigenvectors of the moments and l their eigenvalues, which makes all spreads equal;
    directions in which the rows do not spread are left out, so that noise is not amplified.
    """
    values, directions = np.linalg.eigh(moments)
    if whitening == "component":
        return np.asarray(np.eye(len(moments)) - np.outer(directions[:, -1], directions[:, -1]))
    spreads = values > LEAST_EIGENVALUE * max(values[-1], 0.0)
    scale = np.zeros_like(values)
    scale[spreads] = values[spreads] ** {"half": -0.25, "full": -0.5}[whitening]
    return np.asarray((directions * scale) @ directions.T)


def weigh_rows(vectors: Float32s, weights: Float64s | None, map_: Float64s | None = None) -> Float64s:
    """Return the unit vectors of words times their weights, or the vectors as they are, mapped where there is a map."""
    rows = vectors.astype(np.float64) if weights is None else unit_rows(vectors) * weights[:, None]
    return rows if map_ is None else np.asarray(rows @ map_)


def word_shares(vectors: WordVectors, counts: Counts | None) -> tuple[Float64s, str]:
    """Return the share of each word among all tokens, float64 (n_words,), and where it is taken from.

    Parameters
    ----------
    vectors : WordVectors
    counts : array (n_words,), mapping of str to number, or None
        A mapping may lack words, which then count as the rarest one that it has. None takes the words to be in
        falling order of frequency, and their counts to fall as Zipf's law has it, 1 / rank.

    Raises
    ------
    ValueError
        If there is not one count per word, a count is negative or not finite, or all of them are zero.
    """
    source = "the counts of the words"
    if counts is None:
        counts, source = 1.0 / np.arange(1, len(vectors) + 1), "Zipf's law, by the order of the words"
    elif isinstance(counts, Mapping):
        rarest = min(counts.values(), default=0)
        counts = np.array([counts.get(word, rarest) for word in vectors.words])
    found = np.asarray(counts, dtype=np.float64)
    if found.shape != (len(vectors),):
        raise ValueError(
            f"counts has shape {found.shape}, but there are {len(vectors)} words: give one count per word"
        )
    if not (np.isfinite(found).all() and (found >= 0).all() and found.any()):
        raise ValueError("counts are numbers of tokens: give finite ones of 0 or more, not all of them 0")
    return found / found.sum(), source


# ---- in words -----------------------------------------------------------------------------------------------


def without_words(n: int, total: int) -> str:
    """Return the sentence on texts that have no known word."""
    has = "has" if n == 1 else "have"
    return f"{n:,} of {plural(total, 'text')} {has} no known word: the vector is zero"


def rows_in_words(encoder: TextEncoder) -> str:
    """Return what the words of an encoder are weighted and whitened by, and why where neither is named."""
    if encoder.weighting == "mean" and encoder.whitening_ == "none":
        return "plain mean of the word vectors"
    weights = "" if encoder.weighting == "mean" else f"weights from {encoder.counts_source_}, "
    chosen = " (the default: best on the development part of STS-B)" if encoder.whitening_ == "full" else ""
    return f"{weights}whitening {encoder.whitening_}{'' if encoder.whitening else chosen}"
