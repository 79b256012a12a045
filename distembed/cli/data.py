"""The commands of the data sets: `distembed data list|fetch|prepare`."""

from __future__ import annotations

import json

import click

from distembed.cli.command_line import command, examples
from distembed.datasets.catalog import DataSet, data_folder, data_sets
from distembed.datasets.fetching import absent, changed, fetch, prepare
from distembed.job.terminal import write
from distembed.spelling import did_you_mean


def _chosen(_ctx: click.Context, _param: click.Parameter, names: tuple[str, ...]) -> list[DataSet]:
    """Return the data sets of names."""
    for name in names:
        if name not in data_sets():
            advice = did_you_mean(name, data_sets(), otherwise="distembed data list has their names")
            raise click.UsageError(f"there is no data set {name!r}; {advice}")
    return [data_sets()[name] for name in names]


NAMES = click.argument("chosen", nargs=-1, required=True, metavar="NAME...", callback=_chosen)


@click.group(
    epilog=examples(
        "distembed data list", "distembed data fetch similarity analogies", "distembed data prepare reuters"
    )
)
def data() -> None:
    """List, download and prepare the data sets of the jobs.

    A job names their files as {data}/PATH. The folder is $DISTEMBED_DATA, else ../shared/data beside a checkout, else
    distembed/data in the user's cache.
    """


@command(
    "distembed data list",
    "distembed data list --check",
    "distembed data list --json",
    group=data,
    name="list",
)
@click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="Print one JSON object: also each file, its addresses and its SHA-256.",
)
@click.option("--check", is_flag=True, help="Read every file, and name those whose SHA-256 is another.")
def list_data(*, as_json: bool, check: bool) -> None:
    """Print the data sets, and which of their files are in the folder."""
    if as_json:
        sets = {
            name: {**each._asdict(), "files": [file._asdict() for file in each.files]}
            for name, each in data_sets().items()
        }
        write(json.dumps({"format": 1, "folder": str(data_folder()), "data_sets": sets}, indent=1))
        return
    write(f"the folder is {data_folder()}")
    for each in data_sets().values():
        write(f"{each.name:<15} {_state(each):<10} {each.what} ({each.licence})\n{'':<26} {_origin(each)}")
        for file in changed(each) if check else ():
            write(f"{'':<26} {file.path} holds something else than the jobs were measured on")


def _state(data_set: DataSet) -> str:
    n_files, n_absent = len(data_set.files), len(absent(data_set))
    return {0: "here", n_files: "missing"}.get(n_absent, f"{n_files - n_absent} of {n_files}")


def _origin(data_set: DataSet) -> str:
    if data_set.by_hand:
        return f"by hand: {data_set.by_hand.rstrip(',')}"
    addresses = list(dict.fromkeys(address for file in data_set.files for address in file.addresses))
    return addresses[0] + (f" and {len(addresses) - 1} more" if len(addresses) > 1 else "")


@command("distembed data fetch similarity analogies", group=data, name="fetch")
@NAMES
def fetch_data(chosen: list[DataSet]) -> None:
    """Download the sources of data sets, and make their files.

    Files and sources that are in the folder are kept. Without a network the command says what to put where.
    """
    for data_set in chosen:
        for address in fetch(data_set):
            write(f"downloading {address}")
        _prepare(data_set)


@command("distembed data prepare reuters", group=data, name="prepare")
@NAMES
def prepare_data(chosen: list[DataSet]) -> None:
    """Make the files of data sets of sources that are in the folder, and check their SHA-256."""
    for data_set in chosen:
        _prepare(data_set)


def _prepare(data_set: DataSet) -> None:
    for path in prepare(data_set):
        write(f"wrote {path}")
    write(f"{data_set.name} is in {data_folder()}")
