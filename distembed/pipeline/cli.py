"""The command line: `distembed COMMAND`, the commands of `distembed.pipeline.commands` joined.

Every command takes a job file or a workspace; those that read vectors take a vector file as well.
Exit codes: 0 done, 1 failed (one sentence says why), 2 the command or the job file is wrong.
"""

from __future__ import annotations

import atexit
import gc
import signal
import sys

import click

from distembed.pipeline.commands import (
    drawings,
    explain,
    explorer,
    export,
    inference,
    jobs,
    start,
    texts,
    tuning,
    vectors,
)
from distembed.pipeline.commands.command_line import examples

STOP_SIGNALS = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]

MOMENT = 0.05
"""Seconds after which an interrupt that was lost is raised again."""


def main() -> None:
    """Run the command line."""
    end_on_signals()
    # Else Python looks for cycles among all that was imported, four times at its end: half a second.
    atexit.register(gc.freeze)
    cli(prog_name="distembed")


def end_on_signals() -> None:
    """Let SIGTERM and SIGHUP end a command as Ctrl-C does, so that it gives the lock back and stops its workers.

    Python drops an interrupt that is raised in a callback of C code, such as that of Dask's scheduler at each
    collection of garbage: it is raised again a moment later. Of 24 runs on worker processes that were sent Ctrl-C as
    they began, three went on to their end. An object that an interrupt leaves incomplete, such as a future of Dask
    without its attributes, raises an error when it is deleted: after an interrupt these errors are not reported.
    """
    told_otherwise = sys.unraisablehook
    stopped = False

    def stop(number: int, _frame: object) -> None:
        nonlocal stopped
        stopped = True
        if number in STOP_SIGNALS:
            # A second one must not interrupt what the first one lets end; Ctrl-C still does.
            for each in STOP_SIGNALS:
                signal.signal(each, signal.SIG_IGN)
        raise KeyboardInterrupt

    def hear(dropped: sys.UnraisableHookArgs) -> None:
        if issubclass(dropped.exc_type, KeyboardInterrupt):
            signal.setitimer(signal.ITIMER_REAL, MOMENT)
        elif not stopped:
            told_otherwise(dropped)

    for number in (signal.SIGINT, *STOP_SIGNALS):
        if signal.getsignal(number) is not signal.SIG_IGN:  # nohup means what it says
            signal.signal(number, stop)
    signal.signal(signal.SIGALRM, stop)
    sys.unraisablehook = hear


@click.group(
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=examples("distembed demo psdvec", "distembed new psdvec texts.txt", "distembed run psdvec.toml"),
)
@click.version_option(package_name="distembed")
def cli() -> None:
    """Word and document embeddings by matrix methods, out of core, on Dask and Zarr.

    A job is a TOML file, which new writes for your own files; its workspace holds everything it makes. Stop a run at
    any time and give the same command again: it goes on where it was.
    """


for subject in (start, jobs, vectors, export, explain, explorer, inference, texts, drawings, tuning):
    for command in subject.COMMANDS:
        cli.add_command(command)


if __name__ == "__main__":
    main()
