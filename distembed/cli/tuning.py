"""The command that chooses the keys of a job: `distembed tune`."""

from __future__ import annotations

import shlex
from typing import Any

from distembed.cli.command_line import (
    answer_target,
    argument,
    command,
    flag,
    number,
    option,
    save_answer,
)
from distembed.cli.jobs import terminal_reporter
from distembed.job.model import Job
from distembed.job.opening import open_job
from distembed.job.terminal import write
from distembed.views import tuning
from distembed.views.answers import Answer, as_text
from distembed.views.report.page import ShownTable
from distembed.views.tuning import Tuned, as_settings, in_words, parse_grids


@command(
    "distembed tune job.toml --grid psdvec.smoothing=0.02,0.1 --on MEN.txt",
    "distembed tune job.toml --grid counting.window=2,5 --grid psdvec.n_components=100,300 --on MEN.txt",
    "distembed tune imputation.toml --grid imputation.min_degree=5,10",
)
@argument("job_file", metavar="JOB")
@option(
    "--grid grids",
    "Values of one key of the job; may be repeated for other keys.",
    multiple=True,
    required=True,
    metavar="SECTION.KEY=VALUE,VALUE",
)
@option(
    "--on",
    "The evaluation set, one file; an imputation needs none: its hidden names judge it.",
    metavar="FILE",
)
@option("--set settings", "Override one key of all candidates.", multiple=True, metavar="SECTION.KEY=VALUE")
@option(
    "--workspace place",
    "The folder of the candidates (default: the workspace of the job with .tune after its name).",
    metavar="DIR",
)
@answer_target()
@option("--scheduler", "As for run: tcp://… or tls://…, threads or processes.", metavar="ADDRESS")
@number("--workers n_workers", "Local workers (default: the job's).")
@flag("--allow-code", "Let the job call the Python functions that it names.")
def tune(
    job_file: str,
    grids: tuple[str, ...],
    on: str | None,
    settings: tuple[str, ...],
    target: str | None,
    **how: Any,
) -> None:
    """Compare every combination of some keys of a job.

    The command runs JOB with each combination (a candidate), and prints which one is best on an evaluation set. Half
    of the items of the set choose the best; the other half shows what the choice has gained. Candidates with equal
    counts share them. You can stop the command at any time: the same command continues it.
    """

    def job_of(keys: tuple[str, ...]) -> Job:
        return open_job(job_file, settings=(*settings, *keys))

    with terminal_reporter() as reporter:
        tuned = tuning.tune(job_of, parse_grids(grids), on, reporter=reporter, **how)
    answer = answer_of(tuned)
    write(as_text(answer))
    given = [option for setting in settings for option in ("--set", setting)]
    again = shlex.join(["distembed", "run", job_file, *given])
    write(f"\n{again} {in_words(tuned.candidates[0].keys)}".rstrip())
    save_answer(answer, target)


def answer_of(tuned: Tuned) -> Answer:
    """Return the candidates, the best first, by the half that chooses, and what the best gains in the other half."""
    best, base, sentences = tuned.candidates[0], tuned.as_it_is, list[str]()
    gain = best.held_out["value"] - base.held_out["value"]
    if gain <= 0:
        sentences.append(
            "Where it was not chosen, the best candidate is not better than the job as it is: keep the job."
        )
    elif best.held_out["low"] <= base.held_out["value"]:
        sentences.append("The difference where it was not chosen is within the interval of chance.")
    if best.chosen["known"] != base.chosen["known"]:
        sentences.append("The candidates know different items: their scores compare only on the same ones.")
    chosen = [{**dict(as_settings(one.keys)), **one.chosen} for one in tuned.candidates]
    rest = [
        {"candidate": "the best one", **best.held_out},
        {"candidate": "the job as it is", **base.held_out},
    ]
    decimals = dict.fromkeys(("value", "low", "high"), 3)
    tables = [
        ShownTable("the half that chooses", chosen, decimals),
        ShownTable("the half that is held out", rest, decimals),
    ]
    return Answer(tuned.measure, sentences, tables=tables)
