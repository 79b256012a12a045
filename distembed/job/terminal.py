"""Output to the terminal: the only module that prints.

Words, titles and file names come from anybody's data and must not steer a terminal: control characters clear
it, rename its window or split a row, and bidirectional ones reorder what stands beside them.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable
from typing import Any

import click

from distembed.urls import public

UNSAFE = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]"
)
"""Control characters, line separators, Unicode's Bidi_Control characters, lone surrogates and what XML refuses."""


def shown(text: object) -> str:
    r"""Return a text as one line for a terminal, what is unsafe in it written as ``\x1b`` or ``\u202e``.

    The passwords, signatures and tokens of URLs are hidden.
    """
    return UNSAFE.sub(lambda found: found[0].encode("unicode_escape").decode(), public(str(text)))


def write(text: str, *, file: Any = None, err: bool = False) -> None:
    """Print lines of text, each as `shown` returns it.

    Characters that the stream's encoding lacks are escaped too. When nobody reads the stream any more
    (``| head``), what follows is dropped and the command goes on: its results are in files.
    """
    stream = file or (sys.stderr if err else sys.stdout)
    encoding = getattr(stream, "encoding", None) or "utf-8"
    safe = "\n".join(map(shown, text.split("\n"))).encode(encoding, "backslashreplace").decode(encoding)
    try:
        click.echo(safe, file=stream)
    except BrokenPipeError:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, stream.fileno())
        os.close(null)


def confirmed(question: str) -> bool:
    """Ask a question on standard error; the answer is no where nobody can give one."""
    return sys.stdin.isatty() and click.confirm(shown(question), default=False, err=True)


def neighbor_line(word: str, found: Iterable[tuple[str, float]], *, origin: str = "") -> str:
    """Return a word, where its vector comes from, and its neighbors with their similarities as one line."""
    neighbors = ", ".join(f"{shown(other)} {cosine:.3f}" for other, cosine in found)
    return f"{shown(word)}{f' ({shown(origin)})' if origin else ''}: {neighbors}"
