"""The one place where paths and URLs are opened, and which protocols are allowed.

fsspec knows some fifty protocols. Some run what the other side sends (``dask://`` unpickles), some write where their
options say (``filecache``), and ``::`` chains any of them. A URL may come from a stranger's job, workspace or table, so
only protocols that do nothing but carry bytes are opened, each by itself and never in a chain. A name without ``://``
is a local path, whatever it holds. How a store is reached is fsspec's own configuration (its files and ``FSSPEC_*``):
a job names paths and nothing else.
"""

from __future__ import annotations

import os
import re
import stat
from typing import Any
from urllib.parse import unquote

import fsspec
from fsspec.core import OpenFile
from fsspec.implementations.local import LocalFileSystem

PROTOCOLS_VARIABLE = "DISTEMBED_PROTOCOLS"
"""The environment variable in which a user allows further protocols, by name."""

LOCAL = ("", "file", "local")
"""The protocols of files on this machine, whose names may hold ``::``."""

OBJECT_STORES = ("s3", "s3a", "gs", "gcs", "az", "abfs")
"""The protocols of stores that have no folders, and list what begins with a prefix."""

PROTOCOLS = ("file", "local", "memory", *OBJECT_STORES, "http", "https")
"""The protocols that are allowed: they carry bytes, and do nothing else."""

SECRET = re.compile(
    r"(?i)(secret|password|passwd|passphrase|credentials?|signature|token|(api|access|account|private|sas)[-_]?key)$"
    r"|^(key|pwd|pass|sig|auth|authorization|jwt|cookies?|connection_string|googleaccessid|(aws|oss)accesskeyid)$"
    r"|^x-(amz|goog|oss|cos)-|^key-pair-id$"
)
"""Names of options and of a URL's parameters that hold a secret."""

_USER = re.compile(r"(\w+):/{1,2}([^\s/?#'\"]+)@")
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
        If its protocol is not one of `PROTOCOLS`, and the user has not allowed it, or it chains protocols.

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
    if protocol not in (*PROTOCOLS, *re.findall(r"[^\s,]+", os.environ.get(PROTOCOLS_VARIABLE, ""))):
        raise ProtocolError(
            f"{public(url)} names the protocol {protocol!r}, which is not opened, for some protocols run code or write "
            f"files ({', '.join(PROTOCOLS)} do not): copy the file to where one of these reaches it; if you trust its "
            f"author, set {PROTOCOLS_VARIABLE}={protocol}"
        )


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


_LOCAL = LocalFileSystem()


def url_to_fs(url: str | os.PathLike[str]) -> tuple[Any, str]:
    """Return the file system of a path or URL, and the path as it writes it.

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
        return _LOCAL, LocalFileSystem._strip_protocol(name)
    kind = fsspec.get_filesystem_class(protocol)
    return fsspec.filesystem(protocol, **kind._get_kwargs_from_urls(name)), kind._strip_protocol(name)


def opened(
    url: str | os.PathLike[str],
    mode: str = "rb",
    *,
    compression: str | None = None,
    encoding: str = "utf-8",
) -> OpenFile:
    """Return a file to open in a `with` statement; `distembed.files.unpacked` unpacks one that is read.

    What is written is compressed as is said, or by the end of the name ("infer").

    Raises
    ------
    ProtocolError
        As `check_url`.
    NoFileError
        As `check_regular`, if it is opened for reading.

    Examples
    --------
    >>> from distembed.urls import opened
    >>> with opened("memory://notes/a.txt", "wt") as file:
    ...     _ = file.write("one two")
    >>> with opened("memory://notes/a.txt") as file:
    ...     file.read()
    b'one two'
    """
    filesystem, path = url_to_fs(url)
    if "r" in mode:
        check_regular(path if isinstance(filesystem, LocalFileSystem) else url)
    else:
        filesystem.makedirs(filesystem._parent(path), exist_ok=True)
    return OpenFile(filesystem, path, mode, compression=compression, encoding=encoding)


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

    A URL that was taken for a path has one slash after its protocol.

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
    return _PARAMETER.sub(_without_value, _USER.sub(_without_user, text)) if ":/" in text else text


def _secrets_of(url: str) -> list[str]:
    users = [found[2] for found in _USER.finditer(url) if _without_user(found) != found[0]]
    return [*users, *(found[2] for found in _PARAMETER.finditer(url) if _without_value(found) != found[0])]


def _without_user(found: re.Match[str]) -> str:
    """Hide who asks where it holds a password, or is the token of a web server; containers of Azure are names."""
    is_secret = ":" in found[2] or found[1] in ("http", "https")
    return f"{found[1]}://{HIDDEN}@" if is_secret else found[0]


def _without_value(found: re.Match[str]) -> str:
    return f"{found[1]}={HIDDEN}" if SECRET.search(unquote(found[1])) else found[0]
