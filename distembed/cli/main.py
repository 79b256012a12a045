"""The command line: `distembed COMMAND`, the commands of `distembed.cli` joined.

Every command takes a job file or a workspace; those that read vectors take a vector file as well.
Exit codes: 0 done, 1 failed (one sentence says why), 2 failed, and so would every other try of the same command, 3
stopped, and the same command goes on.
"""

from __future__ import annotations

import atexit
import gc
import os
import signal
import sys
import threading
import time
from contextlib import suppress
from importlib import import_module
from typing import Any

import click
from click.shell_completion import CompletionItem

from distembed.spelling import did_you_mean
from distembed.stopping import STOPPED, end_stopped

STOP_SIGNALS = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]

MOMENT = 0.05
"""Seconds after which an interrupt that was lost is raised again."""


STOPPING = threading.Event()
"""Is set by the first signal that ends a command."""

STOP_SECONDS = 8.0
"""Seconds that a command has to end by itself after SIGTERM or SIGHUP: who sends them, as Kubernetes, soon kills."""


def main() -> None:
    """Run the command line."""
    end_on_signals()
    # Else Python looks for cycles among all that was imported, four times at its end: half a second.
    atexit.register(gc.freeze)
    try:
        cli(prog_name="distembed")
    except BaseException as end:
        code = end.code if isinstance(end, SystemExit) else None
        is_done = isinstance(end, SystemExit) and code in (0, None)
        if code == STOPPED:
            # Python would wait without end for a thread that the interrupt left half started.
            with suppress(OSError):
                sys.stdout.flush()
            os._exit(STOPPED)
        if isinstance(end, KeyboardInterrupt | click.Abort) or (STOPPING.is_set() and not is_done):
            end_stopped()  # of a command that an interrupt broke anywhere
        if isinstance(end, OSError | ImportError | MemoryError) and "DISTEMBED_DEBUG" not in os.environ:
            # of an import: commands say themselves how they fail
            sys.exit(
                f"distembed: a library cannot be loaded ({end}): raise the memory limit, or install it again"
            )
        raise


def end_on_signals() -> None:
    """Let SIGTERM and SIGHUP end a command as Ctrl-C does, so that it gives the lock back and stops its workers.

    Python drops an interrupt that is raised in a callback of C code, such as that of Dask's scheduler at each
    collection of garbage: it is raised again a moment later. Of 24 runs on worker processes that were sent Ctrl-C as
    they began, three went on to their end. An object that an interrupt leaves incomplete, such as a future of Dask
    without its attributes, raises an error when it is deleted: after an interrupt these errors are not reported.
    """
    told_otherwise = sys.unraisablehook
    STOPPING.clear()

    def stop(number: int, _frame: object) -> None:
        STOPPING.set()
        if number in STOP_SIGNALS:
            # A second one must not interrupt what the first one lets end; Ctrl-C still does.
            for each in STOP_SIGNALS:
                signal.signal(each, signal.SIG_IGN)
            threading.Thread(target=end_in_time, daemon=True).start()
        raise KeyboardInterrupt

    def hear(dropped: sys.UnraisableHookArgs) -> None:
        if issubclass(dropped.exc_type, KeyboardInterrupt):
            signal.setitimer(signal.ITIMER_REAL, MOMENT)
        elif not STOPPING.is_set():
            told_otherwise(dropped)

    for number in (signal.SIGINT, *STOP_SIGNALS):
        if signal.getsignal(number) is not signal.SIG_IGN:  # nohup means what it says
            signal.signal(number, stop)
    signal.signal(signal.SIGALRM, stop)
    sys.unraisablehook = hear


def end_in_time() -> None:
    """End this process after `STOP_SECONDS`, whatever block it computes; a run on this machine takes its lock over."""
    time.sleep(STOP_SECONDS)
    end_stopped()


COMMANDS = {
    "Start": {
        "new": ("start", "Write a job file for METHOD and your files."),
        "demo": ("start", "Run the small real example of METHOD."),
        "keys": ("start", "Print every section and key of the job files of METHOD."),
        "doctor": ("doctor", "Check this installation."),
    },
    "Run a job": {
        "plan": ("jobs", "Print the bytes and peak memory of each stage."),
        "run": ("jobs", "Run a job, or finish one that was stopped."),
        "status": ("jobs", "Print which stages of a job are done, and how far others are."),
        "tune": ("tuning", "Compare every combination of some keys of a job."),
    },
    "Use its results": {
        "report": ("pages", "Write the HTML report of a finished job."),
        "neighbors": ("results", "Print the nearest words by cosine."),
        "explore": ("pages", "Write a page with a map, a search and exact neighbors."),
        "explain": ("pages", "Print why a result is so, with passages of the corpus."),
        "export": ("results", "Write a table of a finished job to a file for other tools."),
        "infer": ("results", "Compute topics or vectors of new documents, words or names."),
        "encode": ("results", "Write a vector for every text."),
    },
    "Check them": {
        "verify": ("jobs", "Check that every block of a job has its digest."),
        "evaluate": ("results", "Score word vectors on evaluation sets, in one table."),
    },
}
"""The commands by what they are for, as the help lists them: each with its module in `distembed.cli` and the first
sentence of its help, which fits a line of 80 characters."""

MODULES = {name: module for group in COMMANDS.values() for name, (module, _) in group.items()}


class Commands(click.Group):
    """A group that imports the module of a command when that command is asked for; the list of all needs none."""

    def main(self, *args: Any, **options: Any) -> Any:
        """Run a line of the command line; one that is typed wrongly ends with a sentence, as every failure does."""
        try:
            return super().main(*args, **{**options, "standalone_mode": False})
        except click.exceptions.NoArgsIsHelpError as error:
            error.show()
            sys.exit(error.exit_code)
        except click.UsageError as error:
            command = error.ctx.command_path if error.ctx else "distembed"
            text = error.format_message()
            sentence = f"{text[:1].lower()}{text[1:].rstrip('.')} ({command} --help shows what it takes)"
            return import_module("distembed.cli.failures").fail(sentence, code=error.exit_code)

    def list_commands(self, _ctx: click.Context) -> list[str]:
        """Return the names of the commands."""
        return sorted(MODULES)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        """Return the command of a name; if there is none, refuse the line, but complete nothing while it is typed."""
        if name not in MODULES:
            if ctx.resilient_parsing:
                return None
            advice = did_you_mean(name, MODULES, otherwise="choose one of the list")
            raise click.UsageError(f"there is no command {name!r}; {advice}", ctx)
        found = vars(import_module(f"distembed.cli.{MODULES[name]}")).values()
        return next(each for each in found if isinstance(each, click.Command) and each.name == name)

    def format_commands(self, _ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write each group of commands, a command on a line."""
        width = max(map(len, MODULES))
        for group, commands in COMMANDS.items():
            with formatter.section(group):
                formatter.write_dl([(f"{name:<{width}}", text) for name, (_, text) in commands.items()])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Return the commands whose names begin with what is typed, and the options of the group."""
        commands = [
            CompletionItem(name, help=sentence)
            for group in COMMANDS.values()
            for name, (_, sentence) in group.items()
            if name.startswith(incomplete)
        ]
        return [*commands, *click.Command.shell_complete(self, ctx, incomplete)]


@click.group(
    name="distembed",
    cls=Commands,
    context_settings={"help_option_names": ["-h", "--help"], "show_default": True, "max_content_width": 100},
    epilog="\b\nExamples:\n  distembed demo psdvec\n  distembed new psdvec texts.txt\n  distembed run psdvec.toml",
)
@click.version_option(package_name="distembed")
def cli() -> None:
    """Word and document embeddings by matrix methods, on Dask and Zarr.

    A job is a TOML file; its workspace has its results. Stop a run at any time: the same command continues it.
    """


if __name__ == "__main__":
    main()
