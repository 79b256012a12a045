"""Compressed files are unpacked stream after stream, in pieces of bounded size."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma

import pytest

from distembed.formats.pieces import Packed, find_bz2_stream

PACK = {"bz2": bz2.compress, "gz": gzip.compress, "xz": lzma.compress}
TEXTS = [b"first " * 900, b"second " * 50, b"third " * 300]


def packed(data: bytes, compression: str) -> Packed:
    return Packed(io.BytesIO(data), "a", compression, piece_bytes=1000)


@pytest.mark.parametrize("compression", PACK)
@pytest.mark.parametrize("padding", [0, 4, 8])
def test_streams_begin_after_the_padding_of_those_before(compression: str, padding: int) -> None:
    if padding and compression == "bz2":
        pytest.skip("bz2 has no padding")
    streams = [PACK[compression](text) for text in TEXTS]
    file = packed(bytes(padding).join(streams), compression)
    unpacked: dict[int, bytes] = {}
    for piece, start in file.pieces():
        assert len(piece) <= 1000
        unpacked[start] = unpacked.get(start, b"") + piece
    starts = [sum(map(len, streams[:n])) + n * padding for n in range(3)]
    assert unpacked == dict(zip(starts, TEXTS, strict=True))
    assert file.n_read == starts[2] + len(streams[2])


@pytest.mark.parametrize("compression", PACK)
def test_a_file_that_ends_inside_a_stream_is_truncated(compression: str) -> None:
    for n_left, word in ((0, "is empty"), (20, "is truncated")):
        with pytest.raises(ValueError, match=word):
            list(packed(PACK[compression](TEXTS[0])[:n_left], compression).pieces())


def test_a_stream_of_bz2_is_found_from_a_byte_on_and_before_another() -> None:
    one, other = map(bz2.compress, TEXTS[:2])
    raw = io.BytesIO(one + other)
    assert find_bz2_stream(raw, 0, None) == 0
    assert find_bz2_stream(raw, 1, None) == len(one)
    assert find_bz2_stream(raw, 1, len(one) + 1) == len(one)
    assert find_bz2_stream(raw, 1, 2) is None
    assert find_bz2_stream(raw, 1, len(one)) is None
    assert find_bz2_stream(raw, len(one) + 1, None) is None
