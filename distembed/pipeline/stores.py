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

SECRETS = ("key", "secret", "token", "password", "sas_token", "account_key", "connection_string")
"""Options that hold a secret, of the file systems in use."""

StorageOptions = Mapping[str, Mapping[str, Any]]
"""Options of a file system by its protocol: `{"s3": {"endpoint_url": …, "profile": …}}`."""


def without_secrets(options: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return options as they are.

    Raises
    ------
    ValueError
        If one of them holds a secret.
    """
    for protocol, values in options.items():
        if found := [name for name in values if name in SECRETS]:
            raise ValueError(
                f"{protocol}.{found[0]} is a secret, and the workspace keeps a copy of the job: name a profile, and "
                "keep its keys where the store's own tools read them (~/.aws/credentials, or environment variables)"
            )
    return options


def use_storage_options(options: StorageOptions) -> None:
    """Reach the stores of this process, and of the processes it starts, by these options from now on."""
    for protocol, values in options.items():
        conf[protocol] = {**conf.get(protocol, {}), **values}
        os.environ[f"FSSPEC_{protocol.upper()}"] = json.dumps(conf[protocol])
