"""The command line: `distembed COMMAND`, the commands of `distembed.cli` joined.

Every command takes a job file or a workspace; those that read vectors take a vector file as well.
Exit codes: 0 done, 1 failed (one sentence says why), 2 the command or the job file is wrong, 3 stopped, and the same
command goes on.
"""

from __future__ import annotations

import atexit
import gc
import signal
import sys
from importlib import import_module

import click
from click.shell_completion import CompletionItem

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


COMMANDS = {
    "completion": ("start", "Print the lines by which SHELL completes commands, options, systems and files."),
    "concordance": (
        "explain",
        "Print every place of WORD in the files of a job, as it is written there, with the text around it.",
    ),
    "demo": ("start", "Run the small real example of SYSTEM, on files that installed packages carry."),
    "doctor": (
        "start",
        "Print what this installation and this machine have, and check that a small job works here.",
    ),
    "encode": ("texts", "Write a vector for every text: the weighted mean of the vectors of its words."),
    "evaluate": (
        "vectors",
        "Score word vectors on similarity, analogy, synonym, categorization, sentence and tagging sets; "
        "print one table.",
    ),
    "explain": (
        "explain",
        "Print why a result is so: terms that add up to it, and passages of the corpus.",
    ),
    "explore": (
        "explorer",
        "Write a page to explore words, names or documents: a map with zoom, search, colors and exact neighbors.",
    ),
    "export": ("export", "Write a table of a finished job to one file that other tools read."),
    "infer": (
        "inference",
        "Write what a finished job says of new files: the topics of documents, or vectors for words or names.",
    ),
    "join": (
        "joining",
        "Join the word vectors of several files or jobs, word by word, and write them to one.",
    ),
    "keys": (
        "start",
        "Print every section and key of the job files of SYSTEM, with type, range, default and meaning.",
    ),
    "neighbors": ("vectors", "Print the nearest words by cosine."),
    "new": ("start", "Write a commented job file for SYSTEM with every key, its default and its range."),
    "plan": ("jobs", "Print what a job would do: tasks, bytes and peak memory of each stage."),
    "plot": (
        "drawings",
        "Draw a figure of chosen words, documents or topics into a PDF, SVG or PNG file.",
    ),
    "report": ("jobs", "Write the HTML report of a finished job and print where it is."),
    "run": ("jobs", "Run a job, or finish one that was stopped."),
    "search": ("texts", "Print the texts that are nearest to QUERY by the cosine of their vectors."),
    "similarity": (
        "pairs",
        "Write a list of word pairs with the cosine, the counts and the unknown words of each.",
    ),
    "status": ("jobs", "Print which stages of a job are done, how far the others are, and who is writing."),
    "tune": (
        "tuning",
        "Run JOB with every combination of some keys, and print which does best on an evaluation set.",
    ),
    "verify": ("jobs", "Check that every stage of a job is committed and every block holds its digest."),
    "weat": (
        "vectors",
        "Print how far names and other words are associated with good and bad, career and family, and so on.",
    ),
}
"""The module of each command in `distembed.cli`, and the first sentence of its help."""


class Commands(click.Group):
    """A group that imports the module of a command when that command is asked for; the list of all needs none."""

    def invoke(self, ctx: click.Context) -> object:
        """Run a command; an interrupt ends it with a sentence, also while the command is still being imported."""
        try:
            return super().invoke(ctx)
        except (KeyboardInterrupt, click.Abort):
            return import_module("distembed.cli.failures").stop()

    def list_commands(self, _ctx: click.Context) -> list[str]:
        """Return the names of the commands."""
        return sorted(COMMANDS)

    def get_command(self, _ctx: click.Context, name: str) -> click.Command | None:
        """Return the command of a name, None if there is none."""
        if name not in COMMANDS:
            return None
        command: click.Command = vars(import_module(f"distembed.cli.{COMMANDS[name][0]}"))[name]
        return command

    def format_commands(self, _ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write each command with its sentence, shortened to a line."""
        room = formatter.width - 6 - max(map(len, COMMANDS))
        with formatter.section("Commands"):
            formatter.write_dl(
                [
                    (name, click.Command(name, help=sentence).get_short_help_str(room))
                    for name, (_, sentence) in sorted(COMMANDS.items())
                ]
            )

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Return the commands whose names begin with what is typed, and the options of the group."""
        commands = [
            CompletionItem(name, help=COMMANDS[name][1])
            for name in self.list_commands(ctx)
            if name.startswith(incomplete)
        ]
        return [*commands, *click.Command.shell_complete(self, ctx, incomplete)]


@click.group(
    cls=Commands,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="\b\nExamples:\n  distembed demo psdvec\n  distembed new psdvec texts.txt\n  distembed run psdvec.toml",
)
@click.version_option(package_name="distembed")
def cli() -> None:
    """Word and document embeddings by matrix methods, out of core, on Dask and Zarr.

    A job is a TOML file, which new writes for your own files; its workspace holds everything it makes. Stop a run at
    any time and give the same command again: it goes on where it was.
    """


if __name__ == "__main__":
    main()
