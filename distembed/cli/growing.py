"""The commands on corpora that change or were counted apart: `distembed withdraw|merge`."""

from __future__ import annotations

from pathlib import Path

import click

from distembed.cli.command_line import PLACE, command
from distembed.cli.jobs import terminal_reporter
from distembed.job.model import JobError
from distembed.job.terminal import write
from distembed.job.workers import Workers
from distembed.stages.merging import merge as merge_workspaces
from distembed.stages.withdrawing import withdraw as withdraw_from


@command(
    "distembed withdraw runs/interviews --documents anna-07",
    "distembed withdraw runs/interviews --documents anna-07 --documents anna-08",
    "distembed withdraw runs/interviews --documents @ids.txt",
    "distembed withdraw runs/novels --files 1851-moby-dick.txt",
)
@click.argument("workspace", type=PLACE)
@click.option(
    "--documents",
    multiple=True,
    metavar="ID",
    help="The id of a document, or @FILE for a file with an id on each line. May be given again.",
)
@click.option(
    "--files", multiple=True, metavar="NAME", help="The name of a file of the corpus. May be given again."
)
@click.option(
    "--workers", "n_workers", type=click.IntRange(min=1), help="Local workers (default: one per core)."
)
@click.option("--allow-code", is_flag=True, help="Let the job call the Python functions that it names.")
def withdraw(
    workspace: str,
    documents: tuple[str, ...],
    files: tuple[str, ...],
    n_workers: int | None,
    *,
    allow_code: bool,
) -> None:
    """Make WORKSPACE again without some documents or files.

    All else that it holds of them is removed. Tokens and counts of the other texts are kept, and the result has the
    bits of a run that never read them. Whatever else lies in WORKSPACE is removed, also files that were put there by
    hand. The workspace records when this was done, and digests by which later runs leave out what was withdrawn. Files
    outside of WORKSPACE are yours to remove.
    """
    with terminal_reporter(allow_code=allow_code) as reporter:
        outcome = withdraw_from(
            workspace,
            documents=[ident for given in documents for ident in _ids(given)],
            files=files,
            workers=Workers(n_workers=n_workers),
            reporter=reporter,
            allow_code=allow_code,
        )
    write(outcome.text)


@command(
    "distembed merge runs/bonn runs/lyon --to runs/both",
    "distembed merge runs/1900 runs/1910 runs/1920 --to runs/all --until cooccurrence",
)
@click.argument("workspaces", type=PLACE, nargs=-1, required=True)
@click.option("--to", "target", type=PLACE, required=True, metavar="DIR", help="The workspace to make.")
@click.option("--until", metavar="STAGE", help="Stop when this stage is done.")
@click.option(
    "--workers", "n_workers", type=click.IntRange(min=1), help="Local workers (default: one per core)."
)
def merge(workspaces: tuple[str, ...], target: str, until: str | None, n_workers: int | None) -> None:
    """Merge WORKSPACES that were counted apart into one.

    It has the bits of counting their corpora together. Each keeps all its words, so that min_count applies to the sums.
    The texts need not be here. The sections corpus, vocabulary and counting of the jobs must say the same; later stages
    are computed as the first of WORKSPACES says. Stop it at any time and give the same command again: it goes on where
    it was.
    """
    with terminal_reporter() as reporter:
        outcome = merge_workspaces(
            workspaces, to=target, workers=Workers(n_workers=n_workers), reporter=reporter, until=until
        )
    write(outcome.text)


def _ids(given: str) -> list[str]:
    """Return an id, or those in the lines of a file."""
    if not given.startswith("@"):
        return [given]
    try:
        return [line for line in Path(given[1:]).read_text(encoding="utf-8-sig").splitlines() if line]
    except UnicodeDecodeError:
        raise JobError(f"{given[1:]} is not UTF-8: save it as UTF-8, with an id on each line") from None
