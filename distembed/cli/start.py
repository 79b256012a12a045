"""The commands to start with: `distembed keys|new|demo`."""

from __future__ import annotations

import shutil
from pathlib import Path

import click

from distembed.cli.command_line import PLACE, command
from distembed.cli.jobs import run
from distembed.job.demos import lay_out
from distembed.job.keys import as_json, as_markdown, as_text, keys_of
from distembed.job.new import write_new_job
from distembed.job.registry import SYSTEMS
from distembed.job.terminal import shown, write
from distembed.spelling import did_you_mean, spelled_like

OFTEN_ASKED = {
    **dict.fromkeys(
        ("word2vec", "fasttext", "glove", "doc2vec", "embeddings", "skipgram", "vectors"), "psdvec"
    ),
    **dict.fromkeys(("lda", "nmf", "senmf", "bertopic", "topic"), "topics"),
    **dict.fromkeys(("lsa", "svd", "hal", "lpp", "ppmi"), "wordspaces"),
    **dict.fromkeys(("knn", "graph", "umap", "annoy", "faiss"), "neighbors"),
    **dict.fromkeys(("lsi", "retrofitting", "impute"), "imputation"),
}
"""The system that does what another name stands for elsewhere."""


class SystemChoice(click.Choice[str]):
    """The name of a system; the error for another name says which system does the same, or is spelled like it."""

    def convert(self, value: str, _param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the name of a system."""
        if value in SYSTEMS:
            return value
        meant = OFTEN_ASKED.get(value.lower())
        found = [meant] if meant else spelled_like(value.lower(), SYSTEMS)
        advice = did_you_mean(found, otherwise=f"choose {', '.join(SYSTEMS)}")
        raise click.UsageError(f"there is no method {value!r}; {advice}", ctx)


SYSTEM = SystemChoice(list(SYSTEMS))

SHOWN_ITEMS = 5
"""Items of a long list that are printed."""


@command(
    "distembed keys topics",
    "distembed keys psdvec --json",
)
@click.argument("system", type=SYSTEM)
@click.option("--json", "form", flag_value="json", help="Print a JSON list of objects.")
@click.option("--markdown", "form", flag_value="markdown", help="Print a Markdown table per section.")
def keys(system: str, form: str | None) -> None:
    """Print every section and key of the job files of METHOD.

    Each key has its type, its range, its default and its meaning.
    """
    found = keys_of(system)
    if form == "json":
        write(as_json(found))
    elif form == "markdown":
        write(as_markdown(system, found))
    else:
        write(as_text(found, width=min(100, shutil.get_terminal_size().columns)))


@command(
    "distembed new psdvec texts.txt",
    "distembed new psdvec texts.txt --preset fast",
    "distembed new topics news.csv --to news.toml",
    "distembed new imputation companies.csv vectors.txt",
)
@click.argument("system", type=SYSTEM)
@click.argument("files", type=PLACE, nargs=-1, metavar="[FILE]...")
@click.option(
    "--to", "target", type=PLACE, metavar="JOB.toml", help="The job file to write; by default METHOD.toml."
)
@click.option(
    "--preset",
    metavar="NAME",
    help="Settings that belong together: psdvec has best (the default), fast and paper; imputation best and paper.",
)
def new(system: str, files: tuple[str, ...], target: str | None, preset: str | None) -> None:
    """Write a commented job file for METHOD and your files.

    It has every key with its default and its range.

    FILE is your own input, of which the first lines are read: texts for psdvec, wordspaces and topics; a table and
    the known vectors for imputation; two collections, or one file with both, for transfer; a matrix for neighbors.
    Without it the job reads the input of the demo. A job file that is there is not written over.
    """
    job = target or f"{system}.toml"
    settings = write_new_job(system, files, job, preset=preset)
    for place, value in settings.items():
        write(shown(f"  {place} = {_in_short(value)}"))
    write(shown(f"wrote {Path(job).resolve()}; next: distembed plan {job}"))


def _in_short(value: object) -> str:
    """Return a value for the terminal, of a long list the first items and how many more there are."""
    if isinstance(value, list) and len(value) > SHOWN_ITEMS:
        return f"{value[:SHOWN_ITEMS]} and {len(value) - SHOWN_ITEMS} more"
    return str(value)


@command(
    "distembed demo psdvec",
    "distembed demo topics --folder try",
)
@click.argument("system", type=SYSTEM)
@click.option(
    "--folder",
    type=PLACE,
    metavar="DIR",
    help="Where the job, its inputs and its workspace go; default distembed-demo/METHOD.",
)
@click.pass_context
def demo(context: click.Context, system: str, folder: str | None) -> None:
    """Run the small real example of METHOD.

    It reads files that installed packages carry. The job file is written into a folder, where it can be read and
    changed; the same command goes on with it.
    """
    job = lay_out(system, folder or Path("distembed-demo") / system)
    write(shown(f"distembed run {job}"))
    context.invoke(
        run, job_file=str(job), settings=(), workspace=None, scheduler=None, n_workers=None, until=None,
        allow_code=False, replace=False, tls_ca_file=None, tls_cert=None, tls_key=None,
    )  # fmt: skip
