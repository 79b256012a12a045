"""The safetensors format: vectors, words as UTF-8 bytes with the offsets at which they begin, and n-grams.

=====================  ==========================================================================================
`vectors`              float32 (n, d)
`words`, `offsets`     uint8, the UTF-8 bytes of all words joined; int64 (n + 1,): word i is
                       `words[offsets[i]:offsets[i + 1]]`
`subword_options`      int64 (4,): min_n, max_n, number of buckets (0: rows are named), and 1 where composed
                       vectors are divided by their lengths; this and the rest only with a table of n-grams
`subword_mean`         float32 (d,)
`subword_vectors`      float32 (rows, d)
`ngrams`,              the n-gram of each row, as the words are
`ngram_offsets`
=====================  ==========================================================================================

Values of float16 are read, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import safetensors
import safetensors.numpy
from fsspec.implementations.local import LocalFileSystem
from numpy.typing import NDArray

from distembed.files import damage_told, replacing
from distembed.formats.streams import check_folder, local_copy
from distembed.urls import url_to_fs
from distembed.vectors.rows import Source, VectorFileError, WordRows, check_finite
from distembed.vectors.subwords import SubwordTable


def read_safetensors(source: Source, max_words: int | None) -> WordRows:
    """Read the first rows of a safetensors file, and the table of n-grams where it has one; others stay on disk."""
    name = source.path
    with (
        local_copy(name, VectorFileError) as path,
        damage_told(name, VectorFileError, "a safetensors file"),
        safetensors.safe_open(path, framework="np") as file,
    ):
        names = set(file.keys())
        if missing := {"vectors", "words", "offsets"} - names:
            raise VectorFileError(
                f"{name} holds the tensors {sorted(names)} and lacks {sorted(missing)}: it has no words; "
                "load it with safetensors and give the words yourself: WordVectors(words, vectors)"
            )
        vectors = file.get_slice("vectors")
        shape = vectors.get_shape()
        words = _strings(file, name, "words", "offsets", max_words)
        if len(shape) != 2 or len(file.get_tensor("offsets")) != shape[0] + 1:
            raise VectorFileError(f"{name}: words, offsets and vectors disagree; write it again")
        if not words:
            raise VectorFileError(
                f"{name} holds no words; give a file with a word and its values in each row"
            )
        rows = np.asarray(vectors[: len(words)]).astype(np.float32, copy=False)
        check_finite(words, rows, source, 0)
        return WordRows(words, rows, _table(file, name) if "subword_vectors" in names else None)


def _strings(file: Any, name: str, joined: str, offsets: str, n: int | None = None) -> list[str]:
    """Return the first strings of two tensors: their bytes, and where each begins."""
    bounds, blob = file.get_tensor(offsets), file.get_slice(joined)
    if (
        (blob.get_dtype(), bounds.dtype.str, bounds.ndim) != ("U8", "<i8", 1)
        or not bounds.size
        or np.any(np.diff(bounds) < 0)
        or [bounds[0], bounds[-1]] != [0, *blob.get_shape()]
    ):
        raise VectorFileError(f"{name}: words, offsets and vectors disagree; write it again")
    bounds = bounds[: None if n is None else n + 1].tolist()
    data, source = blob[: bounds[-1]].tobytes(), Source(name, "row", 0)
    spans = pairwise(bounds)
    return [source.decode(data[start:stop], row) for row, (start, stop) in enumerate(spans)]


def _table(file: Any, name: str) -> SubwordTable:
    """Return the table of n-grams of a file; a tensor that is missing or does not fit is an error."""
    try:
        min_n, max_n, n_buckets, normalized = file.get_tensor("subword_options").tolist()
        return SubwordTable(
            file.get_tensor("subword_vectors").astype(np.float32, copy=False),
            file.get_tensor("subword_mean").astype(np.float32, copy=False),
            min_n,
            max_n,
            ngrams=None if n_buckets else tuple(_strings(file, name, "ngrams", "ngram_offsets")),
            n_buckets=n_buckets or None,
            normalized=bool(normalized),
        )
    except (safetensors.SafetensorError, ValueError) as error:
        raise VectorFileError(
            f"{name}: its table of n-grams is not whole ({error}); write it again"
        ) from error


def write_safetensors(name: str, rows: WordRows) -> None:
    """Write the tensors `vectors`, `words` and `offsets`, and those of the table of n-grams."""
    joined, offsets = _join(rows.words)
    tensors: dict[str, NDArray[Any]] = {"vectors": rows.vectors, "words": joined, "offsets": offsets}
    if (table := rows.subwords) is not None:
        options = [table.min_n, table.max_n, table.n_buckets or 0, int(table.normalized)]
        tensors |= {
            "subword_options": np.array(options, np.int64),
            "subword_mean": table.mean,
            "subword_vectors": table.vectors,
        }
        if table.ngrams is not None:
            tensors["ngrams"], tensors["ngram_offsets"] = _join(table.ngrams)
    tensors = {key: np.ascontiguousarray(tensor) for key, tensor in tensors.items()}
    filesystem, target = url_to_fs(name)
    if not isinstance(filesystem, LocalFileSystem):
        filesystem.pipe_file(target, safetensors.numpy.save(tensors))
        return
    check_folder(name, target)
    with replacing(target) as partial:
        place = Path(partial)
        place.touch()
        mode = place.stat().st_mode  # what the umask says; the library gives its own file to the owner alone
        safetensors.numpy.save_file(tensors, partial)
        place.chmod(mode)


def _join(strings: Sequence[str]) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    encoded = [string.encode() for string in strings]
    offsets = np.cumsum([0, *map(len, encoded)], dtype=np.int64)
    return np.frombuffer(b"".join(encoded), dtype=np.uint8), offsets
