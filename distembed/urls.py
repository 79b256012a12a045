"""The one place where paths and URLs are opened: which protocols are allowed, and which options a job may give each.

fsspec knows some fifty protocols. Some run what the other side sends (``dask://`` unpickles), some write where their
options say (``filecache``), and ``::`` chains any of them. A URL may come from a stranger's job, workspace or table, so
only protocols that do nothing but carry bytes are opened, each by itself and never in a chain. A name without ``://``
is a local path, whatever it holds.
"""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from threading import Lock
from typing import IO, Any
from urllib.parse import unquote
from urllib.request import urlopen

import fsspec
from fsspec.config import conf
from fsspec.core import OpenFile
from fsspec.implementations.local import LocalFileSystem

PROTOCOLS_VARIABLE = "DISTEMBED_PROTOCOLS"
"""The environment variable in which a user allows further protocols, by name; ``*`` allows each."""

ENDPOINTS_VARIABLE = "DISTEMBED_ENDPOINTS"
"""The environment variable in which a user names the endpoints that may get their keys."""

ENDPOINTS_VARIABLES = (
    ENDPOINTS_VARIABLE, "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "FSSPEC_S3_ENDPOINT_URL", "FSSPEC_GS_ENDPOINT_URL",
)  # fmt: skip
"""All variables in which a user names endpoints of their own."""

ANY = "*"

ANSWER_SECONDS = 60
"""How long a server may take before a download is given up."""

LOCAL = ("", "file", "local")
"""The protocols of files on this machine, whose names may hold ``::``."""

_S3 = {
    "anon", "client_kwargs", "config_kwargs", "default_block_size", "default_cache_type", "default_fill_cache",
    "endpoint_url", "max_concurrency", "profile", "requester_pays", "version_aware",
    "client_kwargs.endpoint_url", "client_kwargs.region_name",
    "config_kwargs.connect_timeout", "config_kwargs.max_pool_connections", "config_kwargs.read_timeout",
    "config_kwargs.region_name", "config_kwargs.retries", "config_kwargs.retries.max_attempts",
    "config_kwargs.retries.mode", "config_kwargs.retries.total_max_attempts", "config_kwargs.s3",
    "config_kwargs.s3.addressing_style",
}  # fmt: skip
_GS = {"default_location", "endpoint_url", "project", "requester_pays", "timeout", "token", "version_aware"}
_AZ = {"account_host", "account_name", "anon", "location_mode", "version_aware"}
_HTTP = {"block_size", "encoded"}

OPTIONS: Mapping[str, frozenset[str]] = {
    "file": frozenset(),
    "local": frozenset(),
    "memory": frozenset(),
    **dict.fromkeys(("s3", "s3a"), frozenset(_S3)),
    **dict.fromkeys(("gs", "gcs"), frozenset(_GS)),
    **dict.fromkeys(("az", "abfs"), frozenset(_AZ)),
    **dict.fromkeys(("http", "https"), frozenset(_HTTP)),
}
"""The protocols that are allowed, and the options that a job may give each: none names code, a file or a key."""

ANONYMOUS = {
    **dict.fromkeys(("s3", "s3a"), ("anon", True)),
    **dict.fromkeys(("gs", "gcs"), ("token", "anon")),
}
"""The option, and its value, with which a protocol sends no keys."""

ENDPOINTS = ("account_host", "endpoint", "endpoint_url")
"""Options that say which host is asked, and so who is shown the caller's keys."""

SECRET = re.compile(
    r"(?i)(secret|password|passwd|passphrase|credentials?|signature|token|(api|access|account|private|sas)[-_]?key)$"
    r"|^(key|pwd|pass|sig|auth|authorization|jwt|cookies?|connection_string|googleaccessid|(aws|oss)accesskeyid)$"
    r"|^x-(amz|goog|oss|cos)-|^key-pair-id$"
)
"""Names of options and of a URL's parameters that hold a secret."""

_USER = re.compile(r"(\w+)://([^\s/?#'\"]+)@")
_PARAMETER = re.compile(r"(?<=[?&;#])([^\s=&;?#'\"]+)=([^\s&;#'\"]+)")
HIDDEN = "…"


class ProtocolError(ValueError):
    """A URL whose protocol is not allowed; the message says how its reader allows it."""


def protocol_of(url: str) -> str:
    """Return what stands before ``://``, "" for a local path.

    Examples
    --------
    >>> from distembed.urls import protocol_of
    >>> protocol_of("s3://bucket/a.txt"), protocol_of("dask:/a.txt")
    ('s3', '')
    """
    protocol, separator, _ = url.partition("://")
    return protocol if separator else ""


def check_url(url: str) -> None:
    """Check that a URL may be opened; a local path always may.

    Raises
    ------
    ProtocolError
        If its protocol is not one of `OPTIONS`, and the user has not allowed it, or it chains protocols.

    Examples
    --------
    >>> from distembed.urls import check_url
    >>> check_url("s3://bucket/a.txt")
    >>> check_url("zip://a.txt::s3://bucket/a.zip")
    Traceback (most recent call last):
    distembed.urls.ProtocolError: zip://a.txt::s3://bucket/a.zip chains protocols by "::", and none is opened through...
    """
    protocol = protocol_of(url)
    if protocol in LOCAL and not url.startswith("://"):
        return
    if "::" in url:
        raise ProtocolError(
            f'{public(url)} chains protocols by "::", and none is opened through another: unpack or copy the file, and '
            "name the copy"
        )
    check_protocol(protocol, public(url))


def check_protocol(protocol: str, where: str) -> None:
    """Check that a protocol is one of `OPTIONS`, or that the user has allowed it; `where` begins the message.

    Raises
    ------
    ProtocolError
        If it is neither.
    """
    if protocol not in OPTIONS and not is_allowed(protocol):
        raise ProtocolError(
            f"{where} names the protocol {protocol!r}, which is not opened, for some protocols run code or write files "
            f"({', '.join(OPTIONS)} do not): copy the file to where one of these reaches it; if you trust its author, "
            f"give run or plan --allow-code, or set {PROTOCOLS_VARIABLE}={protocol}"
        )


def is_allowed(protocol: str) -> bool:
    """Return whether the user has allowed a protocol that is not one of `OPTIONS`."""
    named = _named_in(PROTOCOLS_VARIABLE)
    return protocol in named or ANY in named


def _named_in(*variables: str) -> list[str]:
    """Return the words of environment variables, between spaces or commas."""
    return [word for name in variables for word in re.split(r"[\s,]+", os.environ.get(name, "")) if word]


class NoFileError(OSError):
    """An error because a path leads to a device, a socket or a pipe in place of a file."""


def check_regular(path: str | os.PathLike[str]) -> None:
    """Refuse a local path at which there is neither a file nor a folder: a pipe waits, and a device never ends.

    Raises
    ------
    NoFileError
        If it is a device, a socket or a pipe.
    """
    plain = str(path).removeprefix("file://")
    if "://" in plain:
        return
    try:
        mode = os.stat(plain).st_mode  # noqa: PTH116 (fsspec hands out plain strings)
    except (OSError, ValueError):
        return  # opening it says what is wrong
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        raise NoFileError(
            f"{path} is a pipe, a socket or a device, and no file: give a file, or copy it into one"
        )


@contextmanager
def any_protocol(*, allowed: bool) -> Iterator[None]:
    """Open any protocol within the block, also in the processes that it starts, if that is allowed.

    Blocks of several threads may overlap: what the user has set is set again when the last of them ends.
    """
    if not allowed:
        yield
        return
    with _allowing:
        _blocks.append(os.environ.get(PROTOCOLS_VARIABLE))
        os.environ[PROTOCOLS_VARIABLE] = ANY
    try:
        yield
    finally:
        with _allowing:
            if len(_blocks) > 1:
                _blocks.pop()
            elif (before := _blocks.pop()) is not None:
                os.environ[PROTOCOLS_VARIABLE] = before
            else:
                os.environ.pop(PROTOCOLS_VARIABLE, None)


_allowing = Lock()
_blocks: list[str | None] = []
"""What the variable held where each block began; the first is what the user has set."""

_LOCAL = LocalFileSystem()


def url_to_fs(url: str | os.PathLike[str], **options: Any) -> tuple[Any, str]:
    """Return the file system of a path or URL, and the path as that file system writes it.

    Raises
    ------
    ProtocolError
        As `check_url`.

    Examples
    --------
    >>> from distembed.urls import url_to_fs
    >>> filesystem, path = url_to_fs("memory://corpus/a.txt")
    >>> path
    '/corpus/a.txt'
    """
    name = os.fspath(url)
    check_url(name)
    protocol = protocol_of(name)
    if not protocol:
        # fsspec makes a digest of the options to find the file system of another call, ten times the time of this
        filesystem = LocalFileSystem(**options) if options else _LOCAL
        return filesystem, LocalFileSystem._strip_protocol(name)
    kind = fsspec.get_filesystem_class(protocol)
    of_url = kind._get_kwargs_from_urls(name)
    return fsspec.filesystem(protocol, **{**of_url, **options}), kind._strip_protocol(name)


def opened(
    url: str | os.PathLike[str],
    mode: str = "rb",
    *,
    compression: str | None = None,
    encoding: str = "utf-8",
) -> OpenFile:
    """Return a file to open in a `with` statement, by its compression or by that of its name ("infer").

    Raises
    ------
    ProtocolError
        As `check_url`.
    NoFileError
        As `check_regular`, if it is opened for reading.

    Examples
    --------
    >>> from distembed.urls import opened
    >>> with opened("memory://notes/a.txt.gz", "wt", compression="infer") as file:
    ...     _ = file.write("one two")
    >>> with opened("memory://notes/a.txt.gz", "rt", compression="infer") as file:
    ...     file.read()
    'one two'
    """
    filesystem, path = url_to_fs(url)
    if "r" in mode:
        check_regular(url)
    else:
        filesystem.makedirs(filesystem._parent(path), exist_ok=True)
    return OpenFile(filesystem, path, mode, compression=compression, encoding=encoding)


def downloading(address: str) -> IO[bytes]:
    """Return the answer of a server to read in a `with` statement, without a library of stores.

    Raises
    ------
    ProtocolError
        If the address is not one of `https` or `http`.
    OSError
        If the server does not answer, or has no such file.
    """
    if protocol_of(address) not in ("http", "https"):
        raise ProtocolError(f"{public(address)} is no address of http or https: give one that begins so")
    answer: IO[bytes] = urlopen(address, timeout=ANSWER_SECONDS)  # noqa: S310 - checked in the line above
    return answer


# --- what a job says of stores --------------------------------------------------------------------------------


def settings_of(options: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield each option and each value within one, at any depth, with its dotted name."""
    for name, value in options.items():
        yield f"{prefix}{name}", value
        if isinstance(value, Mapping):
            yield from settings_of(value, f"{prefix}{name}.")
        for inner in value if isinstance(value, list | tuple) else ():
            yield from settings_of({name: inner}, prefix)


def check_options(protocol: str, options: Mapping[str, Any]) -> None:
    """Check the options that a job gives a protocol.

    Raises
    ------
    ValueError
        If the protocol is not allowed, or an option holds a secret or is not one that a job may give.
    """
    check_protocol(protocol, f"storage_options.{protocol}")
    for name, value in settings_of(options):
        last = name.rpartition(".")[2]
        if ANONYMOUS.get(protocol) == (name, value):
            continue
        if SECRET.search(last) or (isinstance(value, str) and has_secret(value)):
            raise ValueError(
                f"{protocol}.{name} is a secret, and the workspace keeps a copy of the job: name a profile, and "
                "keep its keys where the store's own tools read them (~/.aws/credentials, or environment variables)"
            )
        if protocol in OPTIONS and name not in OPTIONS[protocol]:
            known = ", ".join(sorted(OPTIONS[protocol])) or "none"
            raise ValueError(
                f"{protocol}.{name} is no option that a job gives a store (it gives {known}): set it as a variable of "
                f"fsspec, such as FSSPEC_{protocol.upper()}_{last.upper()}"
            )
        if last == "account_name" and not re.fullmatch(r"[a-z0-9]{3,24}", str(value)):
            raise ValueError(f"{protocol}.{name} = {value!r} is no name of an account of Azure")


def use_storage_options(options: Mapping[str, Mapping[str, Any]], *, used: Iterable[str] = ()) -> None:
    """Reach the stores of this process, and of the processes it starts, by these options from now on.

    They become fsspec's own configuration, which each file system that is opened from then on takes; local worker
    processes inherit it, and the workers of a cluster are told it when they join. Secrets are no part of it: a job
    file is copied into its workspace.

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


def unconfirmed_endpoints(protocol: str, options: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield each option of a protocol that names a host which the user has not confirmed, with the host.

    A host is confirmed by `ENDPOINTS_VARIABLES`; one that is asked without keys needs no confirmation.
    """
    name, without_keys = ANONYMOUS.get(protocol, ("", None))
    if name and options.get(name) == without_keys:
        return
    for name, value in settings_of(options):
        is_host = name.rpartition(".")[2] in ENDPOINTS or "://" in str(value)
        if is_host and isinstance(value, str) and not is_confirmed(value):
            yield f"{protocol}.{name}", value


def is_confirmed(endpoint: str) -> bool:
    """Return whether the user has named an endpoint, with its port or for all of them."""
    place = re.fullmatch(r"((?:\w+://)?[^/?#\s]+)(?:[/?#]\S*)?", endpoint)
    if place is None:
        return False
    named = {one.rstrip("/") for one in _named_in(*ENDPOINTS_VARIABLES)}
    return not named.isdisjoint((place[1], re.sub(r":\d+$", "", place[1])))


# --- secrets in URLs ------------------------------------------------------------------------------------------


def has_secret(url: str) -> bool:
    """Return whether a URL holds a password, a signature or a token.

    Examples
    --------
    >>> from distembed.urls import has_secret
    >>> has_secret("https://example.org/a?X-Amz-Signature=12"), has_secret("https://example.org/a?design=3")
    (True, False)
    """
    return "://" in url and public(url) != url


def public(text: str, url: str = "") -> str:
    """Return a text in which the passwords, signatures and tokens of URLs are not shown, nor those of one `url`.

    Examples
    --------
    >>> from distembed.urls import public
    >>> public("https://ann:pw@example.org/a.txt?sig=12&page=3")
    'https://…@example.org/a.txt?sig=…&page=3'
    >>> public("no bucket ann:pw@b", "s3://ann:pw@b/a.txt")
    'no bucket …@b'
    """
    for secret in _secrets_of(url):
        text = text.replace(secret, HIDDEN)
    return _PARAMETER.sub(_without_value, _USER.sub(_without_user, text)) if "://" in text else text


def _secrets_of(url: str) -> list[str]:
    users = [found[2] for found in _USER.finditer(url) if _without_user(found) != found[0]]
    return [*users, *(found[2] for found in _PARAMETER.finditer(url) if _without_value(found) != found[0])]


def _without_user(found: re.Match[str]) -> str:
    """Hide who asks where it holds a password, or is the token of a web server; containers of Azure are names."""
    is_secret = ":" in found[2] or found[1] in ("http", "https")
    return f"{found[1]}://{HIDDEN}@" if is_secret else found[0]


def _without_value(found: re.Match[str]) -> str:
    return f"{found[1]}={HIDDEN}" if SECRET.search(unquote(found[1])) else found[0]
