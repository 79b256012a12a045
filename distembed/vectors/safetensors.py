"""The safetensors format: `vectors`, and the words as UTF-8 bytes with the offsets at which they begin."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import safetensors
import safetensors.numpy
from fsspec.implementations.local import LocalFileSystem
from numpy.typing import NDArray

from distembed.files import replacing
from distembed.vectors.rows import BLOCK_VALUES, Block, Source, VectorFileError, check_finite
from distembed.vectors.streams import check_folder


def read_safetensors(name: str) -> Iterator[Block]:
    """Yield the rows of a safetensors file in blocks."""
    try:
        tensors = _safetensors_arrays(name)
    except safetensors.SafetensorError as error:
        raise VectorFileError(
            f"{name} is not a whole safetensors file ({error}); write or download it again"
        ) from error
    missing = {"vectors", "words", "offsets"} - set(tensors)
    if missing:
        raise VectorFileError(
            f"{name} holds the tensors {sorted(tensors)} and lacks {sorted(missing)}: it has no words; "
            "load it with safetensors and give the words yourself: WordVectors(words, vectors)"
        )
    blob, offsets, vectors = tensors["words"].tobytes(), tensors["offsets"], tensors["vectors"]
    if (
        (vectors.ndim, tensors["words"].dtype.str, offsets.dtype.str) != (2, "|u1", "<i8")
        or offsets.shape != (len(vectors) + 1,)
        or np.any(np.diff(offsets) < 0)
        or (offsets[0], offsets[-1]) != (0, len(blob))
    ):
        raise VectorFileError(f"{name}: words, offsets and vectors disagree; write it again")
    source = Source(name, "row", 0)
    spans = zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True)
    words = [source.decode(blob[start:stop], row) for row, (start, stop) in enumerate(spans)]
    step = max(1, BLOCK_VALUES // max(vectors.shape[1], 1))
    for start in range(0, len(words), step):
        block = vectors[start : start + step].astype(np.float32, copy=False)
        check_finite(words[start : start + step], block, source, start)
        yield words[start : start + step], block


def _safetensors_arrays(name: str) -> dict[str, NDArray[Any]]:
    filesystem, local = fsspec.url_to_fs(name)
    if isinstance(filesystem, LocalFileSystem):
        return dict(safetensors.numpy.load_file(local))
    return dict(safetensors.numpy.load(filesystem.cat_file(local)))


def write_safetensors(name: str, words: list[str], vectors: NDArray[np.float32]) -> None:
    """Write the three tensors `vectors`, `words` and `offsets`."""
    encoded = [word.encode() for word in words]
    tensors = {
        "vectors": np.ascontiguousarray(vectors),
        "words": np.frombuffer(b"".join(encoded), dtype=np.uint8),
        "offsets": np.cumsum([0, *map(len, encoded)], dtype=np.int64),
    }
    filesystem, target = fsspec.url_to_fs(name)
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
