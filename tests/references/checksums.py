"""The checksum of Zarr's codec crc32c (Castagnoli's polynomial), bit by bit."""

from __future__ import annotations


def crc32c(data: bytes) -> int:
    value = 0xFFFFFFFF
    for byte in data:
        value ^= byte
        for _ in range(8):
            value = (value >> 1) ^ (0x82F63B78 if value & 1 else 0)
    return value ^ 0xFFFFFFFF
