"""The command that chooses the keys of a job: `distembed tune`."""

from __future__ import annotations

import math
from typing import Any

from distembed.cli.command_line import argument, command, flag, number, option, target
from distembed.cli.jobs import terminal_reporter
from distembed.cli.results import format_of
from distembed.job.model import Job, JobError
from distembed.job.opening import open_job
from distembed.job.terminal import shown, write
from distembed.job.workers import Workers
from distembed.views import tuning
from distembed.views.export import write_table
from distembed.views.tuning import Candidate, Tuned, candidates_table, in_words, parse_grids


@command(
    "distembed tune job.toml --grid psdvec.smoothing=0.02,0.1 --on MEN.txt",
    "distembed tune job.toml --grid counting.window=2,5 --grid psdvec.n_components=100,300 --on MEN.txt",
    "distembed tune imputation.toml --grid imputation.min_degree=5,10",
    "distembed tune imputation.toml --grid known.path=news.txt,web.txt --collect neighbor_labels --to spaces.csv",
)
@argument("job_file", metavar="JOB")
@option(
    "--grid grids",
    "Values of one key of the job; grids of several keys are combined, those of one key joined.",
    multiple=True,
    required=True,
    metavar="SECTION.KEY=VALUE,VALUE",
)
@option(
    "--on",
    "The evaluation set that chooses, one file. An imputation is judged by its hidden names, or by those of them "
    "that stand in FILE, one on each line.",
    metavar="FILE",
)
@option("--set settings", "Override one key of all candidates.", multiple=True, metavar="SECTION.KEY=VALUE")
@option(
    "--workspace place",
    "Where the candidates are made (default: beside the job's own workspace, its name with .tune).",
    metavar="DIR",
)
@target("Write the table there as well: .csv, .tsv or .parquet.", required=False)
@option(
    "--collect",
    "Write this table of every candidate in place of the scores, after the values of its keys.",
    metavar="TABLE",
)
@option("--scheduler", "As for run: tcp://… or tls://…, threads or processes.", metavar="ADDRESS")
@number("--workers n_workers", "Local workers (default: the job's).")
@flag("--allow-code", "Let the job call the Python functions that it names.")
def tune(
    job_file: str,
    grids: tuple[str, ...],
    on: str | None,
    settings: tuple[str, ...],
    target: str | None,
    scheduler: str | None,
    n_workers: int | None,
    **how: Any,
) -> None:
    """Compare every combination of some keys of a job.

    JOB is run with each, and the one that does best on an evaluation set is printed. Half of the items of the set,
    taken by a hash of their words, choose; the other half tells what the choice has gained. Counts are made once for
    all candidates that share them. Stop it at any time: the same command goes on where it was, and finished candidates
    are not made again.
    """
    chosen = format_of(target) if target else None
    if how["collect"] and not target:
        raise JobError("--collect writes a table: name its file with --to")

    def job_of(keys: tuple[str, ...]) -> Job:
        return open_job(job_file, settings=(*settings, *keys))

    def workers(job: Job) -> Workers:
        n = n_workers or job.resources.workers
        return Workers(scheduler=scheduler, n_workers=n, memory_limit=job.resources.memory_limit)

    with terminal_reporter(allow_code=how["allow_code"]) as reporter:
        tuned = tuning.tune(job_of, parse_grids(grids), on, workers=workers, reporter=reporter, **how)
    write(_table(tuned))
    best, base = tuned.candidates[0], tuned.as_it_is
    given = "".join(f"--set {setting} " for setting in settings)
    lines = [
        "the half that is held out:",
        f"  the best candidate  {_score(best.held_out)}",
        f"  the job as it is    {_score(base.held_out)}",
        *_doubts(best, base),
        f"distembed run {job_file} {given}{in_words(best.keys)}",
    ]
    write("\n".join(line.rstrip() for line in lines))
    if target and chosen:
        table = candidates_table(tuned, collected=how["collect"] is not None)
        write_table(target, table, format=chosen)
        write(f"{table.contents} in {target}")


def _table(tuned: Tuned) -> str:
    """Return the candidates, the best first, as lines of text."""
    rows = [(in_words(one.keys).replace("--set ", ""), one) for one in tuned.candidates]
    width = max(9, *(len(words) for words, _ in rows))
    lines = [
        f"{tuned.measure}: the half that chooses",
        f"{'candidate':<{width}}  x 100  95 %          known/total",
    ]
    lines += [f"{shown(words):<{width}}  {_score(one.chosen)}" for words, one in rows]
    return "\n".join(lines)


def _score(measures: dict[str, float]) -> str:
    low, high = (100 * measures[name] for name in ("low", "high"))
    interval = "" if math.isnan(low) else f"{low:.1f}..{high:.1f}"
    return f"{100 * measures['value']:5.1f}  {interval:<12}  {measures['known']:.0f}/{measures['total']:.0f}"


def _doubts(best: Candidate, base: Candidate) -> list[str]:
    """Return why the best candidate may be no better than the job as it is."""
    gain, doubts = best.held_out["value"] - base.held_out["value"], []
    if gain <= 0:
        doubts.append("the best candidate is not better there than the job as it is: keep the job")
    elif not best.held_out["low"] > base.held_out["value"]:
        doubts.append("the difference there is within the interval of chance")
    if {one["known"] for one in (best.chosen, base.chosen)} != {best.chosen["known"]}:
        doubts.append("the candidates know different items: their scores compare only on the same ones")
    return doubts
