"""Word vectors from and to gensim's `KeyedVectors`, in memory and without a file between them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from distembed.typing import VectorLike


class Keyed(Protocol):
    """What is read of gensim's `KeyedVectors`."""

    index_to_key: Sequence[str]
    vectors: NDArray[np.float32]


class KeyedModel(Protocol):
    """A gensim model, whose `wv` are its word vectors."""

    wv: Keyed


class KeyedRows(NamedTuple):
    """The words of a `KeyedVectors`, and their vectors, float32 (n, d)."""

    words: list[str]
    vectors: NDArray[np.float32]


def read_keyed_vectors(keyed: Keyed | KeyedModel) -> KeyedRows:
    """Return the words and vectors of a gensim model, or of its `wv`.

    Raises
    ------
    TypeError
        If the object is no gensim `KeyedVectors`, or a key is no word.
    """
    keyed = getattr(keyed, "wv", keyed)
    words, vectors = getattr(keyed, "index_to_key", None), getattr(keyed, "vectors", None)
    if words is None or vectors is None:
        raise TypeError(
            f"{type(keyed).__name__} is no gensim KeyedVectors: give a KeyedVectors, or a model with one as its wv"
        )
    wrong = next((row for row, word in enumerate(words) if not isinstance(word, str)), None)
    if wrong is not None:
        raise TypeError(
            f"the key of row {wrong} is {words[wrong]!r}, of type {type(words[wrong]).__name__}: word vectors have "
            "words; give WordVectors(map(str, keyed.index_to_key), keyed.vectors)"
        )
    return KeyedRows(list(words), np.asarray(vectors, dtype=np.float32))


def make_keyed_vectors(words: list[str], vectors: NDArray[np.float32], counts: VectorLike | None) -> Any:
    """Return a gensim `KeyedVectors` of words and a copy of their vectors.

    Parameters
    ----------
    words : list of str
        n words.
    vectors : float32 array (n, d)
    counts : array (n,), optional
        Occurrences of each word; gensim keeps them as its attribute "count".

    Raises
    ------
    ImportError
        If gensim is not installed.
    ValueError
        If there is not one whole number per word.
    """
    try:
        from gensim.models import KeyedVectors  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise ImportError("KeyedVectors needs gensim: pip install 'distembed[demo]'") from error
    keyed = KeyedVectors(vectors.shape[1], dtype=np.float32)
    keyed.add_vectors(words, vectors)
    if counts is not None:
        numbers = np.asarray(counts)
        if numbers.shape != (len(words),) or not np.issubdtype(numbers.dtype, np.integer):
            raise ValueError(
                f"counts are {numbers.dtype} of shape {numbers.shape}; give one whole number for each of the "
                f"{len(words)} words"
            )
        keyed.expandos["count"] = numbers.astype(np.int64)
    return keyed
