"""Bundles of partitions: of a corpus of many small files a task reads several that follow each other."""

from __future__ import annotations

from collections.abc import Sequence
from zlib import crc32

from distembed.corpus.streams import Partition

FEWEST_BUNDLES = 256
"""Small files are read together only so far that there are about so many tasks, for many workers."""


def bundles_of(partitions: Sequence[Partition], partition_bytes: int) -> tuple[tuple[Partition, ...], ...]:
    """Return the partitions that each task reads; see `Corpus.bundles`."""
    n_bytes = sum(partition.n_bytes for partition in partitions)
    is_small = len(partitions) <= FEWEST_BUNDLES
    room = 0 if is_small else min(partition_bytes, _power_of_two(n_bytes // FEWEST_BUNDLES))
    bundles: list[list[Partition]] = []
    held = room
    for partition in partitions:
        if not bundles or held + partition.n_bytes > room or _begins_bundle(partition, room):
            bundles.append([])
            held = 0
        bundles[-1].append(partition)
        held += partition.n_bytes
    return tuple(map(tuple, bundles))


def _power_of_two(n: int) -> int:
    """Return the smallest power of two above n."""
    return 1 << n.bit_length()


def _begins_bundle(partition: Partition, room: int) -> bool:
    """Return whether a bundle begins with a partition by its name: on average once in as many bytes as it has room."""
    return crc32(f"{partition.name} {partition.start}".encode(errors="surrogateescape")) * room < (
        partition.n_bytes << 32
    )
