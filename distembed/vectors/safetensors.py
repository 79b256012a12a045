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

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.numpy
from fsspec.implementations.local import LocalFileSystem
from numpy.typing import NDArray

from distembed.files import damage_told, replacing
from distembed.formats.streams import check_folder
from distembed.urls import check_regular, url_to_fs
from distembed.vectors.rows import (
    BLOCK_VALUES,
    Block,
    Source,
    VectorFileError,
    WordRows,
    check_finite,
    gather,
)
from distembed.vectors.subwords import SubwordTable


def read_safetensors(name: str, max_words: int | None) -> WordRows:
    """Read the rows of a safetensors file, and the table of n-grams where it has one."""
    with damage_told(name, VectorFileError, "a safetensors file"):
        tensors = _safetensors_arrays(name)
    rows = gather(_row_blocks(name, tensors), name, None, max_words)
    return rows._replace(subwords=_table(name, tensors)) if "subword_vectors" in tensors else rows


def _row_blocks(name: str, tensors: dict[str, NDArray[Any]]) -> Iterator[Block]:
    missing = {"vectors", "words", "offsets"} - set(tensors)
    if missing:
        raise VectorFileError(
            f"{name} holds the tensors {sorted(tensors)} and lacks {sorted(missing)}: it has no words; "
            "load it with safetensors and give the words yourself: WordVectors(words, vectors)"
        )
    vectors = tensors["vectors"]
    words = _strings(name, tensors["words"], tensors["offsets"])
    if vectors.ndim != 2 or len(words) != len(vectors):
        raise VectorFileError(f"{name}: words, offsets and vectors disagree; write it again")
    source, step = Source(name, "row", 0), max(1, BLOCK_VALUES // max(vectors.shape[1], 1))
    for start in range(0, len(words), step):
        block = vectors[start : start + step].astype(np.float32, copy=False)
        check_finite(words[start : start + step], block, source, start)
        yield words[start : start + step], block


def _strings(name: str, joined: NDArray[Any], offsets: NDArray[Any]) -> list[str]:
    blob = joined.tobytes()
    if (
        (joined.dtype.str, offsets.dtype.str, offsets.ndim) != ("|u1", "<i8", 1)
        or not offsets.size
        or np.any(np.diff(offsets) < 0)
        or (offsets[0], offsets[-1]) != (0, len(blob))
    ):
        raise VectorFileError(f"{name}: words, offsets and vectors disagree; write it again")
    source = Source(name, "row", 0)
    spans = zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True)
    return [source.decode(blob[start:stop], row) for row, (start, stop) in enumerate(spans)]


def _table(name: str, tensors: dict[str, NDArray[Any]]) -> SubwordTable:
    """Return the table of n-grams of a file; a tensor that is missing or does not fit is an error."""
    try:
        min_n, max_n, n_buckets, normalized = tensors["subword_options"].tolist()
        ngrams = None if n_buckets else tuple(_strings(name, tensors["ngrams"], tensors["ngram_offsets"]))
        return SubwordTable(
            tensors["subword_vectors"].astype(np.float32, copy=False),
            tensors["subword_mean"].astype(np.float32, copy=False),
            min_n,
            max_n,
            ngrams=ngrams,
            n_buckets=n_buckets or None,
            normalized=bool(normalized),
        )
    except (KeyError, ValueError) as error:
        raise VectorFileError(
            f"{name}: its table of n-grams is not whole ({error}); write it again"
        ) from error


def _safetensors_arrays(name: str) -> dict[str, NDArray[Any]]:
    check_regular(name)
    filesystem, local = url_to_fs(name)
    if isinstance(filesystem, LocalFileSystem):
        return dict(safetensors.numpy.load_file(local))
    return dict(safetensors.numpy.load(filesystem.cat_file(local)))


def write_safetensors(
    name: str,
    words: list[str],
    vectors: NDArray[np.float32],
    subwords: SubwordTable | None,
) -> None:
    """Write the tensors `vectors`, `words` and `offsets`, and those of the table of n-grams."""
    joined, offsets = _join(words)
    tensors: dict[str, NDArray[Any]] = {"vectors": vectors, "words": joined, "offsets": offsets}
    if subwords is not None:
        tensors |= _table_tensors(subwords)
    _save(name, {key: np.ascontiguousarray(tensor) for key, tensor in tensors.items()})


def _join(strings: Sequence[str]) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    encoded = [string.encode() for string in strings]
    return np.frombuffer(b"".join(encoded), dtype=np.uint8), np.cumsum(
        [0, *map(len, encoded)], dtype=np.int64
    )


def _table_tensors(table: SubwordTable) -> dict[str, NDArray[Any]]:
    options = [table.min_n, table.max_n, table.n_buckets or 0, int(table.normalized)]
    tensors: dict[str, NDArray[Any]] = {
        "subword_options": np.array(options, np.int64),
        "subword_mean": table.mean,
        "subword_vectors": table.vectors,
    }
    if table.ngrams is not None:
        tensors["ngrams"], tensors["ngram_offsets"] = _join(table.ngrams)
    return tensors


def _save(name: str, tensors: dict[str, NDArray[Any]]) -> None:
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
