"""The files that identify a client to a cluster that speaks TLS."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class TLS:
    """Files that identify this client to a cluster that speaks TLS."""

    ca_file: str | None = None
    cert: str | None = None
    key: str | None = None
