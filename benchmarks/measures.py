"""What the benchmarks measure with: clocks, processes of their own, command lines, and tables of figures."""

from __future__ import annotations

import argparse
import importlib
import inspect
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args, get_origin

DISTEMBED = (sys.executable, "-m", "distembed.cli.main")

tell = partial(print, flush=True)


def tell_row(*cells: object) -> None:
    tell(f"| {' | '.join(map(str, cells))} |")


def tell_head(*cells: object) -> None:
    """Print the head of a table in Markdown, whose first column is text and whose others are numbers."""
    tell_row(*cells)
    tell("|---" + "|--:" * (len(cells) - 1) + "|")


class Spent(NamedTuple):
    """What a piece of work took, and what it returned."""

    wall: float
    cpu: float
    result: Any = None

    def __str__(self) -> str:
        return f"{self.wall:.2f} s wall, {self.cpu:.2f} s CPU"


def spent(work: Callable[..., Any], *arguments: Any, **options: Any) -> Spent:
    wall, cpu = time.perf_counter(), time.process_time()
    result = work(*arguments, **options)
    return Spent(time.perf_counter() - wall, time.process_time() - cpu, result)


def clock(name: str, work: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """Run a piece of work, print what it took, and return its result."""
    found = spent(work, *arguments, **options)
    tell(f"{name}: {found}, peak of the process so far {peak_bytes() / 2**20:,.0f} MiB")
    return found.result


def peak_bytes() -> int:
    status = Path("/proc/self/status")
    if not status.exists():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    # Not getrusage: on Linux it counts what the process was before it became this program.
    return 1024 * int(re.findall(r"VmHWM:\s+(\d+) kB", status.read_text())[0])


def alone(function: Callable[..., Any], *arguments: Any) -> Any:
    """Return what a function returns in a process that does nothing else, so that its peak memory is its own."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(function, *arguments).result()


class Ran(NamedTuple):
    """What a command took, and how it ended."""

    wall: float
    cpu: float
    peak_bytes: int
    code: int
    output: str

    def __str__(self) -> str:
        return f"{self.wall:.1f} s wall, {self.cpu:.1f} s CPU, {self.peak_bytes / 2**20:.0f} MiB"


def ran(*words: object, **pipes: Any) -> Ran:
    """Run a command to its end."""
    with tempfile.TemporaryFile() as output:
        start = time.perf_counter()
        process = subprocess.Popen([*map(str, words)], **{"stdout": output, **pipes})
        _, status, usage = os.wait4(process.pid, 0)
        wall = time.perf_counter() - start
        process.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        cpu, peak = usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024
        return Ran(wall, cpu, peak, process.returncode, output.read().decode())


def needed(module: str) -> Any:
    """Import a module that distembed does not need, or end with a sentence."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        sys.exit(f"This benchmark needs {error.name}, which is not installed here.")


def run_main(main: Callable[..., Any]) -> None:
    """Call a function with the words of the command line, which its signature names and its module's text describes.

    Keyword-only parameters are options: flags where they are `bool`. A parameter `*options` takes all unknown words.
    """
    signature = inspect.signature(main, eval_str=True)
    parser = argparse.ArgumentParser(
        description=main.__globals__["__doc__"],
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    for parameter in signature.parameters.values():
        if parameter.name != "options":
            _add_argument(parser, parameter)
    given, unknown = parser.parse_known_args()
    if unknown and "options" not in signature.parameters:
        parser.error(f"unknown words: {' '.join(unknown)}")
    words, named = [], {}
    for name, parameter in signature.parameters.items():
        if parameter.kind is parameter.VAR_POSITIONAL:
            words += unknown if name == "options" else getattr(given, name)
        elif parameter.kind is parameter.KEYWORD_ONLY:
            named[name] = getattr(given, name)
        else:
            words.append(getattr(given, name))
    try:
        main(*words, **named)
    except (FileNotFoundError, ModuleNotFoundError) as error:
        sys.exit(f"This benchmark cannot run here: {error}")


def _add_argument(parser: argparse.ArgumentParser, parameter: inspect.Parameter) -> None:
    name, kind, more = parameter.name, parameter.annotation, {}
    if parameter.kind is parameter.KEYWORD_ONLY:
        name = f"--{name.replace('_', '-')}"
    elif parameter.default is not parameter.empty:
        more["nargs"] = "?"
    if parameter.kind is parameter.VAR_POSITIONAL:
        more["nargs"] = "+"
    else:
        more["default"] = parameter.default
    if type(None) in get_args(kind):
        kind, _ = get_args(kind)
    if get_origin(kind) is tuple:
        (kind, _), more["nargs"] = get_args(kind), "*"
    if kind is bool:
        more["action"] = "store_true"
    elif get_origin(kind) is Literal:
        more["choices"] = get_args(kind)
    else:
        more["type"] = kind
    parser.add_argument(name, **more)
