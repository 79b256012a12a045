"""Text vectors from word vectors, as a scikit-learn transformer over texts."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self, cast, overload
from uuid import uuid4

import dask.array as da
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import Tags

from distembed.corpus import records
from distembed.corpus.partitions import read_batches
from distembed.corpus.records import HEADS, Batch, document_table
from distembed.corpus.scanners import Scanned, Scanner
from distembed.corpus.streams import Partition
from distembed.corpus.texts import column_names, columns_of, text_array, to_list
from distembed.corpus.tokenizer import APOSTROPHES, Tokenizer, scanner
from distembed.display import plural
from distembed.dtypes import Float32s, Float64s, Int64s
from distembed.encoding import blocks
from distembed.execution import compute, delayed, one_blas_thread, shared
from distembed.lift import lift
from distembed.linalg.csr import unit_rows
from distembed.options import PositiveFloat, check_options
from distembed.temporaries import block
from distembed.typing import Frame, VectorLike, refuse_collection
from distembed.vectors import WordVectors

Weighting = Literal["sif", "mean"]
UnknownWords = Literal["skip", "subwords"]
Whitening = Literal["none", "component", "half", "full"]

FULL_WORDS = 2
"""Words per component from which on full whitening is the default: with one, it makes every word orthogonal to all
others (the rows are then any basis), and similar words are no longer near (docs/results/sentences.md).
"""

Counts = VectorLike | Mapping[str, float]

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
    encoded, so that the vector of a text does not depend on the texts beside it. They are linear, and are folded into
    one table of rows. A text without a known word has the zero vector. The defaults are what was best on the
    development part of STS-B: a = 0.001, full whitening, unknown words composed.

    The rows are made by `fit`, or at the first use. Parameters that are set later count from the next `fit` on.

    Parameters
    ----------
    vectors : WordVectors, str or Path
        A path is loaded as by `WordVectors.load`.
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
        self.vectors = WordVectors.load(vectors) if isinstance(vectors, str | Path) else vectors
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
        if self.unknown == "subwords" and self.vectors.subwords is None:
            raise ValueError(
                'unknown is "subwords", but the vectors have no table of n-grams: give unknown="skip", or vectors of '
                "a job with [subwords] enabled = true"
            )
        vectors, weights, map_ = self.vectors.vectors, None, None
        n_words, n_components = vectors.shape
        shares, self.counts_source_ = word_shares(self.vectors, self.counts)
        default: Whitening = "none"
        if self.weighting == "sif":
            weights = self.a / (self.a + shares)
            default = "full" if n_words >= FULL_WORDS * n_components else "half"
        self.whitening_: Whitening = self.whitening or default
        self.tokenizer_ = self.tokenizer or tokenizer_of(self.vectors.words)
        known: UnknownWords = "skip" if self.vectors.subwords is None else "subwords"
        self.unknown_: UnknownWords = self.unknown or known
        slices = [slice(first, first + BLOCK_ROWS) for first in range(0, n_words, BLOCK_ROWS)]
        parts = [(vectors[part], weights if weights is None else weights[part]) for part in slices]
        with one_blas_thread():
            if self.whitening_ != "none":
                moments = np.zeros((n_components, n_components))
                for part, (own, own_weights) in zip(slices, parts, strict=True):
                    rows = weigh_rows(own, own_weights)
                    moments += (rows * shares[part, None]).T @ rows
                map_ = blocks.whitening_map(moments, self.whitening_)
            folded = [fold_rows(*part, map_) for part in parts]
        self.rows_, self.n_features_out_ = np.concatenate(folded), n_components
        # Further words are as rare as the rarest of the vocabulary.
        self._rest = self.vectors, weights if weights is None else weights.max(keepdims=True), map_
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
    def transform(self, X: Iterable[str] | Frame) -> Float32s: ...

    def transform(self, X: Iterable[str] | Frame | da.Array) -> Float32s | da.Array:
        """Return the vectors of texts, float32 (n, d).

        Parameters
        ----------
        X : iterable of str, data frame, or Dask array (n,) of str
            The texts. A frame or a table of pyarrow has one column of them. A Dask array gives a Dask array, lazily.

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
            If X is a single text, an item is no text, or a frame has not one column of texts.

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
            return lift(
                encode_block, "w->wc", X, sizes={"c": self.n_features_out_}, encoder=shared(copy(self))
            )
        encoded = self.encode(texts_in(X))
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
        encoder = shared(copy(self))
        iterator, encode = iter(texts), delayed(encode_batch, traverse=False)
        pieces = enumerate(iter(lambda: list(islice(iterator, TASK_TEXTS)), []))
        found += compute(
            [encode(encoder, batch_of(piece, first=TASK_TEXTS * number)) for number, piece in pieces]
        )
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


def texts_in(X: Any) -> Iterable[str]:
    """Return the one column of texts of a data frame or a table; other texts as they are.

    Raises
    ------
    TypeError
        If a frame has no column of texts, or several.
    """
    if column_names(X) is None:
        return cast("Iterable[str]", X)
    columns = {name: to_list(column) for name, column in columns_of(X).items()}
    texts = [name for name, values in columns.items() if any(isinstance(value, str) for value in values)]
    if len(texts) != 1:
        raise TypeError(
            f"X is a table with {plural(len(texts), 'column')} of text among {', '.join(map(repr, columns))}: give one "
            "column, such as X['text']"
        )
    return columns[texts[0]]


@block(temporaries=4.5)
def encode_block(texts: NDArray[np.object_] | str, *, encoder: TextEncoder) -> Float32s:
    """Return the vectors of some texts, or of one that stands alone in its block."""
    return encode_batch(encoder, batch_of(np.atleast_1d(texts).tolist())).vectors


def encode_batch(encoder: TextEncoder, batch: Batch) -> EncodedTexts:
    """Return the texts of a batch."""
    return TextStream(encoder).add(batch)


class TextStream:
    """Encodes the batches of one file in their order with a fitted encoder; a text may go on over several batches."""

    def __init__(self, encoder: TextEncoder) -> None:
        self.rows = encoder.rows_
        self.vectors, self.weight, self.map_ = encoder._rest
        self.composes = encoder.unknown_ == "subwords"
        self.scanner = text_scanner(encoder.tokenizer_)
        self.total = np.zeros(self.rows.shape[1])
        self.n_open = 0

    def add(self, batch: Batch) -> EncodedTexts:
        """Return the texts that end in a batch."""
        scanned, rows, distinct = known_tokens(batch, self.scanner, self.vectors)
        extra, places = self.rows[:0], np.flatnonzero(rows[:-1] < 0)
        if self.composes and places.size:  # those of which no n-gram is known are left out
            table: Any = self.vectors.subwords
            unknown = [distinct[place] for place in places.tolist()]
            own = len(self.vectors) + np.arange(len(places))
            rows[places] = np.where(table.n_known(unknown) == 0, -1, own)
            with one_blas_thread():
                extra = fold_rows(table.compose(unknown), self.weight, self.map_)
        means, n_known, self.n_open = blocks.mean_rows(
            self.rows, extra, rows[scanned.ids], scanned.id_stops, self.total, self.n_open
        )
        return EncodedTexts(means, scanned.n_tokens, n_known)


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
    stream, most = TextStream(encoder), max(1, HELD_VALUES // encoder.n_features_out_)
    for whole in read_batches(partition):
        for first in range(0, len(whole.starts), most):  # each piece of a longer text, too
            part = slice(first, first + most)
            starts, stops = whole.starts[part], whole.stops[part]
            batch = whole._replace(starts=starts, stops=stops, documents=whole.documents.slice(first, most))
            if not batch.continues:
                spans = zip(
                    starts.tolist(), np.minimum(stops, starts + 4 * SNIPPET_CHARACTERS).tolist(), strict=True
                )
                texts = [batch.data[start:stop].tobytes().decode("utf-8", "ignore") for start, stop in spans]
                snippets = pa.array([text[:SNIPPET_CHARACTERS] for text in texts], pa.string())
                heads = batch.documents.select(HEADS).append_column("snippet", snippets)
            encoded = stream.add(batch)
            if not batch.is_open:
                yield heads.combine_chunks().to_batches()[0], encoded


def fold_rows(vectors: Float32s, weights: Float64s | None, map_: Float64s | None) -> Float32s:
    """Return the weighted and whitened rows whose mean over the words of a text is its vector."""
    rows = weigh_rows(vectors, weights)
    return np.asarray(rows if map_ is None else rows @ map_, dtype=np.float32)


def weigh_rows(vectors: Float32s, weights: Float64s | None) -> Float64s:
    """Return the unit vectors of words times their weights; the vectors as they are where these are None."""
    return vectors.astype(np.float64) if weights is None else unit_rows(vectors) * weights[:, None]


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


# ---- the tokens of texts --------------------------------------------------------------------------------


def tokenizer_of(words: Sequence[str]) -> Tokenizer:
    """Return the tokenizer that a vocabulary looks made by: its case, its digits and its apostrophes."""
    least = max(COMMON * len(words), 1)
    n_digits = sum(any(map(str.isdigit, word)) for word in words)
    n_apostrophes = sum(any(sign in word[1:-1] for sign in APOSTROPHES) for word in words)
    return Tokenizer(
        lowercase=all(word == word.lower() for word in words),
        numbers=n_digits >= least,
        apostrophes=n_apostrophes >= least,
    )


def text_scanner(tokenizer: Tokenizer) -> Scanner:
    """Return a scanner of texts, in which a short text counts and no window has borders."""
    return scanner(replace(tokenizer, border="document", min_border_tokens=1))


def batch_of(texts: Iterable[str], *, first: int = 0) -> Batch:
    """Return whole texts as one batch; `first` is the number of the first, for errors.

    Raises
    ------
    TypeError
        If one of them is no text.
    ValueError
        If one of them holds half a surrogate pair, which UTF-8 cannot represent.
    """
    array = text_array(texts, allow_missing=False, first=first)
    nothing = pa.nulls(len(array), pa.string())
    return records.batch_of(array, document_table(nothing, nothing))


def known_tokens(batch: Batch, words: Scanner, vectors: WordVectors) -> tuple[Scanned, Int64s, list[str]]:
    """Return the tokens of a batch, the row of each distinct word in the vocabulary or -1, and these words.

    Parameters
    ----------
    batch : Batch
    words : Scanner
        It has read the batches before; its dictionary is emptied, so that it holds the words of one batch only.
    vectors : WordVectors
    """
    scanned = words.scan(batch)
    distinct = [word for part in words.words() for word in part.words.to_pylist()]
    words.forget()
    return scanned, np.append(vectors.index(distinct), -1), distinct  # the last row is for the id -1


# ---- the rows that texts are sums of ----------------------------------------------------------------------


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
    if counts is None:
        found, source = 1.0 / np.arange(1, len(vectors) + 1), "Zipf's law, by the order of the words"
    elif isinstance(counts, Mapping):
        rarest = min(counts.values(), default=0)
        found = np.array([counts.get(word, rarest) for word in vectors.words], dtype=np.float64)
        source = "the counts of the words"
    else:
        found, source = np.asarray(counts, dtype=np.float64), "the counts of the words"
    if found.shape != (len(vectors),):
        raise ValueError(
            f"counts has shape {found.shape}, but there are {len(vectors)} words: give one count per word"
        )
    if not (np.isfinite(found).all() and (found >= 0).all() and found.any()):
        raise ValueError("counts are numbers of tokens: give finite ones of 0 or more, not all of them 0")
    return found / found.sum(), source
