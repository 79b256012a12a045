"""The command for documents that a job has not seen: `distembed infer`."""

from __future__ import annotations

import click

from distembed.pipeline.commands.failures import one_sentence
from distembed.pipeline.terminal import shown, write


@click.command()
@click.argument("workspace")
@click.argument("files", nargs=-1, required=True)
@click.option(
    "--to",
    "target",
    required=True,
    metavar="FILE",
    help="The end of its name says the format: .parquet .csv .tsv .npy (text also .gz .bz2 .xz).",
)
@click.option(
    "--set", "settings", multiple=True, metavar="CORPUS.KEY=VALUE", help="Read FILES otherwise than the job."
)
@one_sentence
def infer(workspace: str, files: tuple[str, ...], target: str, settings: tuple[str, ...]) -> None:
    """Write the topics of new documents: one row per document of FILES, as `export` writes those of the job.

    WORKSPACE is that of a finished topics job, or its job file. FILES are files, globs or folders of any kind that a
    job reads; they are read with the options of the job's [corpus], which --set corpus.text_field=body changes.
    """
    from distembed.pipeline.export.job import infer_topics
    from distembed.pipeline.runner import open_job

    write(shown(infer_topics(open_job(workspace, settings=settings), files, target)))


COMMANDS: tuple[click.Command, ...] = (infer,)
