"""How the object stores of a job are reached: options by protocol, for every reader and writer of a process.

They are fsspec's own configuration, which each file system that is opened from then on takes; local worker processes
inherit it, and the workers of a cluster are told it when they join. Secrets are no part of it: a job file is copied
into its workspace.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
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


def use_storage_options(options: StorageOptions, *, used: Iterable[str] = ()) -> None:
    """Reach the stores of this process, and of the processes it starts, by these options from now on.

    Options that an earlier job has given a protocol of these, or one that is `used`, hold no longer: they may name a
    host that this job would send its keys or its results to. What the user has set in fsspec stays.
    """
    for protocol in {*options, *(set(used) & _given.keys())}:
        now = conf.get(protocol, {})
        own, given = _given.get(protocol, (now, now))
        own = own if now == given else now  # the user has changed it since
        conf[protocol] = {**own, **options.get(protocol, {})}
        os.environ[f"FSSPEC_{protocol.upper()}"] = json.dumps(conf[protocol])
        _given[protocol] = (own, conf[protocol])


_given: dict[str, tuple[Mapping[str, Any], Mapping[str, Any]]] = {}
"""By protocol, the options that were set before a job gave any, and those with the job's."""
