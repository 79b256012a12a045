"""How every command fails: one sentence on standard error, and an exit code."""

from __future__ import annotations

import errno
import functools
import os
import re
import sys
import tempfile
from collections.abc import Callable
from typing import Any, NoReturn

import click

from distembed.files import NO_CREDENTIALS, PARTIAL_NAME, RefusedError
from distembed.formats.names import FormatError
from distembed.job.model import JobError, StoppedError, data_folder
from distembed.job.terminal import shown, write
from distembed.stopping import STOPPED, STOPPED_TEXT
from distembed.storage.records import LockedError

FAILED, USAGE, EMPTY_CODE = 1, 2, 4
"""The exit codes after what is no success: another try may help; no other try helps before something is changed or
typed otherwise; the same command goes on later; there is nothing yet (of `status` only)."""

WRONG_PLACES = (FileNotFoundError, FileExistsError, IsADirectoryError, NotADirectoryError)
UNCHANGED = (ValueError, LookupError, ImportError, RefusedError, MemoryError, *WRONG_PLACES)
"""The errors that another try of the same command meets again: of faulty input, of what is missing."""

DEBUG_VARIABLE = "DISTEMBED_DEBUG"

ADVICE = {
    FileNotFoundError: "there is no such file or folder; check its name",
    PermissionError: "this user may not read or write it; check its permissions, or name another place",
    IsADirectoryError: "it is a folder; name a file in it",
    NotADirectoryError: "a part of the path is a file and no folder; check the path",
    FileExistsError: "it is there already; name another place",
}
"""What to do about errors of the operating system that name a path."""
ADVICE_BY_NUMBER = {
    errno.EROFS: "its disk is mounted for reading only; mount it for writing, or name another place",
    errno.ENOSPC: "it has no room; make room there, or name another place",
    errno.EFBIG: "a file may not be as large; raise the limit (ulimit -f), or name another place",
    errno.EMFILE: "this process may open too few files; raise the limit (ulimit -n 1024)",
}
"""The same for errors that have no class of their own."""
ADVICE_BY_TEXT = {
    "can't start new thread": "no thread can be started: raise the limits (ulimit -v, ulimit -u)"
}
"""The same for errors that have no number either."""


def one_sentence(command: Callable[..., Any]) -> Callable[..., Any]:
    """Turn any failure into one sentence on standard error and an exit code."""

    @functools.wraps(command)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        try:
            return command(*args, **kwargs)
        except (click.ClickException, click.exceptions.Exit, click.Abort):
            raise
        except Exception as error:
            text, code = ending(error)
            if not isinstance(error, JobError | FormatError) and os.environ.get(DEBUG_VARIABLE):
                raise
            fail(text, code=code)

    return wrapped


def ending(error: BaseException) -> tuple[str, int]:
    """Return the sentence and the exit code with which an error, or an interrupt, ends a command."""
    if isinstance(error, KeyboardInterrupt | click.Abort):
        return STOPPED_TEXT, STOPPED
    text = _sentence(error)
    if isinstance(error, FileNotFoundError) and f"{data_folder()}{os.sep}" in text:
        text = f"{text.rstrip('.')}; jobs/fetch.py brings the data of jobs, and DISTEMBED_DATA names another folder"
    if isinstance(error, StoppedError | LockedError):
        return text, STOPPED
    if isinstance(error, JobError | FormatError):
        return str(error), USAGE
    expected = isinstance(error, EXPECTED) or type(error).__name__ == NO_CREDENTIALS
    name = "" if expected and text else f"{type(error).__name__}: "
    hint = "" if expected else f" (set {DEBUG_VARIABLE}=1 to see where)"
    return f"{name}{text}{hint}", USAGE if isinstance(error, UNCHANGED) else FAILED


EXPECTED = (OSError, ValueError, LookupError, ImportError, MemoryError)
"""The errors whose own words are enough; of others the name is given, too."""
CLOUD_PACKAGES = {"s3fs": "s3://", "gcsfs": "gs://", "aiohttp": "http(s)://"}
"""The packages by which stores are reached, and how their addresses begin."""


def _sentence(error: BaseException) -> str:
    """Return what an error says, without numbers of the operating system and with what to install."""
    text = str(error.args[0]) if isinstance(error, KeyError) and error.args else str(error)
    text = ADVICE_BY_TEXT.get(text, text)
    missing = next((name for name in CLOUD_PACKAGES if name in text), None)
    if isinstance(error, ImportError) and missing:
        return f"{CLOUD_PACKAGES[missing]} is reached by {missing}, which is missing: pip install 'distembed[cloud]'"
    if type(error).__name__ == NO_CREDENTIALS:
        return (
            "s3:// asks who you are, and no keys are found: log in with its own tools (~/.aws/credentials, or "
            "AWS_PROFILE), or set FSSPEC_S3='{\"anon\": true}' for a public bucket"
        )
    is_full = text in (f"[Errno {number}] {os.strerror(number)}" for number in (errno.ENOSPC, errno.EFBIG))
    if isinstance(error, OSError) and (is_full or (error.filename is not None and text.startswith("[Errno"))):
        place = error.filename or f"what is printed, or a temporary file in {tempfile.gettempdir()}"
        place = PARTIAL_NAME.sub("", str(place))
        advice = next((words for kind, words in ADVICE.items() if isinstance(error, kind)), None)
        advice = advice or ADVICE_BY_NUMBER.get(error.errno or 0)
        return f"{place}: {advice or error.strerror}"
    if isinstance(error, FileNotFoundError) and not re.search(r"\s", text):
        return f"{text}: there is no such file, or it cannot be reached; check its name"
    if isinstance(error, UnicodeEncodeError) and error.encoding == "ascii":
        return f"{error.object!r} has letters that this locale cannot write as a file name: set PYTHONUTF8=1"
    return str(error.strerror) if isinstance(error, OSError) and error.strerror else text


def fail(message: str, *, code: int) -> NoReturn:
    """Print a message as one line on standard error and end with an exit code."""
    sentence = " ".join(line.strip() for line in message.splitlines())
    write(f"distembed: {shown(sentence)}", err=True)
    sys.exit(code)
