"""How the object stores of a job are reached: options by protocol, for every reader and writer of a process.

They are fsspec's own configuration, which each file system that is opened from then on takes; local worker processes
inherit it, and the workers of a cluster are told it when they join. Secrets are no part of it: a job file is copied
into its workspace.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from fsspec.config import conf

SECRETS = ("key", "secret", "token", "password", "sas_token", "account_key", "connection_string")
"""Options that hold a secret, of the file systems in use."""

STORE_LIBRARIES = ("aiobotocore", "aiohttp", "botocore", "gcsfs", "google")
"""The libraries by which stores are reached, whose errors may have any class."""

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


@contextmanager
def failures_told(url: str) -> Iterator[None]:
    """Turn a failure of the object store at `url`, which its library no longer retries, into one sentence.

    Raises
    ------
    ConnectionError
        If the store failed; the message names the URL.
    """
    try:
        yield
    except Exception as error:
        if "://" not in url or not _is_of_store(error):
            raise
        reason = (
            (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__
        )
        raise ConnectionError(
            f"the object store of {url} failed, also when it was asked again ({reason.rstrip('.')}): give the same "
            "command again once it answers; what is finished is kept"
        ) from error


def _is_of_store(error: Exception) -> bool:
    """Return whether a library of a store raised an error, or made it from an answer: a number, a text and no file."""
    if type(error).__module__.partition(".")[0] in STORE_LIBRARIES or isinstance(error, TimeoutError):
        return True
    return isinstance(error, OSError) and error.errno is not None and error.filename is None
