"""How every command fails: one sentence on standard error, and an exit code."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable
from typing import Any, NoReturn

import click

from distembed.pipeline.sections import JobError
from distembed.pipeline.terminal import shown, write

DEBUG_VARIABLE = "DISTEMBED_DEBUG"


def one_sentence(command: Callable[..., Any]) -> Callable[..., Any]:
    """Turn any failure into one sentence on standard error and an exit code."""

    @functools.wraps(command)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        try:
            return command(*args, **kwargs)
        except (click.ClickException, click.exceptions.Exit, click.Abort):
            raise
        except KeyboardInterrupt:
            fail("stopped; nothing finished is lost, run the same command again to go on", code=1)
        except JobError as error:
            fail(str(error), code=2)
        except Exception as error:
            if os.environ.get(DEBUG_VARIABLE):
                raise
            text = str(error.args[0]) if isinstance(error, KeyError) and error.args else str(error)
            expected = isinstance(error, OSError | ValueError | LookupError | ImportError | MemoryError)
            name = "" if expected and text else f"{type(error).__name__}: "
            hint = "" if expected else f" (set {DEBUG_VARIABLE}=1 to see where)"
            fail(f"{name}{text}{hint}", code=1)

    return wrapped


def fail(message: str, *, code: int) -> NoReturn:
    """Print a message as one line on standard error and end with an exit code."""
    sentence = " ".join(line.strip() for line in message.splitlines())
    write(f"distembed: {shown(sentence)}", err=True)
    sys.exit(code)
