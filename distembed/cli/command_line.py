"""What the commands share on the command line: how they fail, examples in their help, places, and common options."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, get_args

import click

from distembed.cli.failures import one_sentence
from distembed.formats.names import suffix_of, unknown_format
from distembed.job.model import Job
from distembed.job.opening import Source, check_outside, parse_source
from distembed.job.status import age_note
from distembed.job.terminal import shown, write
from distembed.spelling import did_you_mean
from distembed.views.answers import ENDS, Answer, save

PLACE = click.Path(readable=False)
"""A file, a folder or a URL: a shell completes it, and the command itself says what is wrong with it."""

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


def read_source(place: str, door: Callable[[str], Source] = parse_source) -> Source:
    """Return what a reading command is given, after a warning where a workspace is older than its job's files."""
    source = door(place)
    with suppress(ConnectionError, PermissionError):  # an input that cannot be reached: the result is there
        if isinstance(source, Job) and (note := age_note(source)):
            write(shown(note), err=True)
    return source


class Outside(click.Path):
    """A file or a folder that a command writes, outside every workspace, whose name ends in one of `ends`, if any."""

    def __init__(self, ends: Sequence[str] = ()) -> None:
        super().__init__(readable=False)
        self.ends = ends

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the place as it is given."""
        try:
            check_outside(str(value).removeprefix("static:"))
            if self.ends and suffix_of(str(value)) not in self.ends:
                raise unknown_format(str(value), self.ends)
        except ValueError as error:
            self.fail(str(error), param, ctx)
        return super().convert(value, param, ctx)


def command(*lines: str) -> Callable[[Callable[..., Any]], click.Command]:
    """Return what makes a function a command: it fails in one sentence, and its help ends with lines to type."""
    examples = "\n".join(["\b", "Examples:", *(f"  {line}" for line in lines)])  # \b: kept as they are
    return lambda function: click.command(epilog=examples)(one_sentence(function))


class Choice(click.Choice[str]):
    """One of some values; the error for another one names the value that is spelled like it."""

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the value."""
        if value in self.choices:
            return value
        name = param.opts[0].lstrip("-").replace("-", " ") if param else "value"
        advice = did_you_mean(value.lower(), self.choices, otherwise=f"choose {', '.join(self.choices)}")
        raise click.UsageError(f"there is no {name} {value!r}; {advice}", ctx)


def argument(name: str, **how: Any) -> Decorator:
    """Return an argument that is a file, a folder or a URL."""
    return click.argument(name, type=PLACE, **how)


def option(names: str, text: str, *, choices: Any = None, **how: Any) -> Decorator:
    """Return an option by its names, as "--bytes n_bytes"; `text` is its help, `choices` a `Literal` of its values."""
    if choices is not None:
        how["type"] = Choice(get_args(choices))
    elif how.get("metavar") in ("FILE", "DIR"):
        how.setdefault("type", PLACE)
    return click.option(*names.split(), help=text, **how)


def flag(names: str, text: str) -> Decorator:
    """Return an option that is given or not."""
    return option(names, text, is_flag=True)


def target(
    text: str, *, names: str = "--to target", required: bool = True, ends: Sequence[str] = ()
) -> Decorator:
    """Return the option of a file or a folder that a command writes; `text` is its help."""
    return option(names, text, type=Outside(ends), required=required, metavar="FILE")


def answer_target() -> Decorator:
    """Return the option of the file to which a command writes what it prints."""
    ends = "Also write the answer to a file: .json or .html, or its table to .csv, .tsv or .parquet."
    return target(ends, required=False, ends=ENDS)


def save_answer(answer: Answer, target: str | None) -> None:
    """Write an answer where the user wants it, if anywhere."""
    if target is not None:
        save(answer, target)
        write(f"written to {shown(target)}", err=True)


JOB = ("text", "settings", "workspace")
"""The parameters of `job_options`, which are those of `open_job`."""


def job_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command its job file, or the workspace that records one, and the options that change it."""
    job = argument("text", metavar="JOB")
    place = option("--workspace", "Override the job's workspace: a folder or an fsspec URL.", metavar="DIR")
    settings = option(
        "--set settings", "Override one key of the job.", multiple=True, metavar="SECTION.KEY=VALUE"
    )
    return job(place(settings(command)))


def number(names: str, text: str, *, default: int | None = None) -> Decorator:
    """Return an option that is a number of 1 or more."""
    return option(names, text, type=click.IntRange(min=1), default=default)
