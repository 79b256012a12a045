"""How the object stores of a job are reached: options by protocol, for every reader and writer of a process.

They are fsspec's own configuration, which each file system that is opened from then on takes; local worker processes
inherit it, and the workers of a cluster are told it when they join. Secrets are no part of it: a job file is copied
into its workspace.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

from fsspec.config import conf

from distembed.urls import check_options

StorageOptions = Mapping[str, Mapping[str, Any]]
"""Options of a file system by its protocol: `{"s3": {"endpoint_url": …, "profile": …}}`."""


def checked_options(options: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return the options that a job gives each protocol as they are.

    Raises
    ------
    ValueError
        As `distembed.urls.check_options`.
    """
    for protocol, values in options.items():
        check_options(protocol, values)
    return options


def use_storage_options(options: StorageOptions) -> None:
    """Reach the stores of this process, and of the processes it starts, by these options from now on."""
    for protocol, values in options.items():
        conf[protocol] = {**conf.get(protocol, {}), **values}
        os.environ[f"FSSPEC_{protocol.upper()}"] = json.dumps(conf[protocol])
