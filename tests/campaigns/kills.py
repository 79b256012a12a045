"""Kill a run at a random moment, or before a random file gets its name, and give the same command again.

    python -m tests.campaigns kills --seed 0 --times 500 [--first 17] [--systems psdvec topics]

Each try begins with a finished small job (`tests/small_jobs`) in one of these states, of which the seed chooses one:

new        nothing is there
stage      the commit and the records of one stage are gone
repair     some blocks are flipped, cut off or gone
versions   the same, and the command is run by another version
add        a file was added to a corpus that is counted
remove     a file was removed from one

Then the process that runs the command gets SIGKILL or SIGTERM, or SIGSTOP for longer than its heartbeat: another
machine takes over and finishes, and the first process goes on or is killed. The same command, given again, has to end
with the digest of the undisturbed run, and `verify` has to find nothing. Each try draws from its own number, so that
`--first N --times 1` repeats the try N.
"""

from __future__ import annotations

import itertools
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from multiprocessing import forkserver
from pathlib import Path
from typing import NamedTuple

import distembed as de
from benchmarks.measures import tell
from tests.commands import forget_stage
from tests.growing_corpus import count, texts, write_file, write_job
from tests.processes import Process, kill_group
from tests.test_promises import SYSTEMS, recorded, spoil

SECONDS = 600.0
"""Seconds after which a run is considered to hang."""
SIGNALS = {"SIGKILL": 6, "SIGTERM": 2, "SIGSTOP, SIGKILL": 1, "SIGSTOP, SIGCONT": 1}
STATES = {"new": 1, "stage": 6, "repair": 5, "versions": 3}
CORPUS = ("add", "remove")


class Case(NamedTuple):
    """A folder before a command, its words, and of the undisturbed command the digest, the files and the seconds."""

    folder: Path
    words: tuple[str, ...]
    digest: str
    n_files: int
    seconds: float


def start(place: Path, words: Sequence[str], *, kill: str = "", being: str = "") -> Process:
    filled = [word.replace("{here}", str(place)) for word in words]
    return Process(str(place / "made"), kill, being, *filled, program="tests.faults.watched")


def ended(process: Process, place: Path) -> list[str]:
    """Wait for the end of a command; return the files that it gave their names, in order."""
    try:
        process.communicate(timeout=SECONDS)
    except subprocess.TimeoutExpired:
        kill_group(process)
        raise AssertionError(f"did not end within {SECONDS:.0f} s") from None
    log = place / "made"
    lines = log.read_text().splitlines() if log.exists() else []
    log.unlink(missing_ok=True)
    return [line.removeprefix(f"named {place}/") for line in lines if line.startswith(f"named {place}/")]


def finished(place: Path, words: Sequence[str], *, being: str = "") -> list[str]:
    """Run a command to a good end; return the files that it gave their names."""
    process = start(place, words, being=being)
    named = ended(process, place)
    assert process.returncode == 0, f"exit code {process.returncode}\n{process.communicate()[0]}"
    return named


# --- what is there before a command ----------------------------------------------------------------------------


def job_words(system: str) -> tuple[str, ...]:
    """Return the words of the run of a small job, or of a growing corpus, in a folder `{here}`."""
    settings = SYSTEMS[system].settings if system == "psdvec" else ()  # its views and subwords
    words = [word for setting in settings for word in ("--set", setting)]
    return ("run", "{here}/job.toml", "--workspace", "{here}/w", "--replace", *words)


def case_of(room: Path, system: str) -> Case:
    """Run a job, or change a corpus that is counted, undisturbed; the folder of a job holds the finished workspace."""
    folder = whole = room / system
    folder.mkdir()
    words = job_words(system)
    if system in CORPUS:
        write_job(folder, {"a.jsonl": texts(1), "c.jsonl": texts(2)})
        count(folder, until=None)
        if system == "remove":
            (folder / "text" / "a.jsonl").unlink()
        else:
            write_file(folder, "b.jsonl", texts(3))
        whole = Path(shutil.copytree(folder, room / f"{system}-whole"))
    else:
        SYSTEMS[system].write(folder)
    begun = time.perf_counter()
    n_files = len(finished(whole, words))
    return Case(folder, words, digest(whole / "w"), n_files, time.perf_counter() - begun)


def digest(workspace: Path) -> str:
    found = de.Workspace.open(workspace)
    assert not (problems := found.verify()), problems
    return found.digest()


def put(case: Case, state: str, drawn: random.Random, place: Path) -> float:
    """Copy a case into `place` in the state that a kill finds; return the share of its files that are to be made."""
    shutil.copytree(case.folder, place)
    if state == "new":
        shutil.rmtree(place / "w")
    if state == "stage":
        forget_stage(place / "w", drawn.choice(sorted(de.Workspace.open(place / "w").stages())))
    if state in ("repair", "versions"):
        files = sorted(name for name in recorded(place / "w") if (place / "w" / name).exists())
        for name in drawn.sample(files, min(drawn.randint(1, 4), len(files))):
            spoil(place / "w" / name, drawn.randrange(3))
    return 1 if state in ("new", *CORPUS) else 1 / 6


# --- a try -----------------------------------------------------------------------------------------------------


class Try:
    """A number that says what is killed: the system, its state, by what, at a file or at a moment, at which share."""

    def __init__(self, seed: int, number: int, systems: Sequence[str]) -> None:
        self.name, self.drawn = f"{seed}:{number}", random.Random(f"{seed} {number}")
        self.system = systems[number % len(systems)]
        chosen = self.drawn.choices([*STATES], [*STATES.values()])[0]
        self.state = self.system if self.system in CORPUS else chosen
        self.signals = self.drawn.choices([*SIGNALS], [*SIGNALS.values()])[0]
        self.at_file = self.signals == "SIGKILL" and self.drawn.random() < 0.6
        self.share = self.drawn.random()

    def __str__(self) -> str:
        how = "at a file" if self.at_file else f"at {self.share:.2f} of its time"
        return f"{self.name} {self.system} {self.state} {self.signals} {how}"

    def disturbed(self, place: Path, case: Case) -> str:
        """Run the command, disturb it and run it again; return the last file made before, "" if it was too late."""
        share = self.share * put(case, self.state, self.drawn, place)
        being = "another version" if self.state == "versions" else ""
        point = f":{1 + int(share * case.n_files)}" if self.at_file else ""
        process = start(place, case.words, kill=point, being=being)
        end = time.perf_counter() + share * case.seconds
        while process.poll() is None and not point and time.perf_counter() < end:
            time.sleep(0.005)
        is_late = process.poll() is not None
        if not point and not is_late:
            first, _, second = self.signals.partition(", ")
            process.send_signal(getattr(signal, first))
            if second:
                finished(place, case.words, being="another machine")
                process.send_signal(getattr(signal, second))
        last = (ended(process, place) or ["nothing"])[-1]
        is_late = process.returncode != -signal.SIGKILL if point else is_late
        finished(place, case.words, being=being)
        assert digest(place / "w") == case.digest, "another digest"
        left = [path for path in (place / "w").rglob("*") if path.name.endswith((".partial", ".beat"))]
        assert not left, left
        return "" if is_late else last


def main(
    *,
    seed: int = 0,
    times: int = 500,
    first: int = 0,
    systems: tuple[str, ...] = (*SYSTEMS, *CORPUS),
    room: str = "",
) -> None:
    forkserver.set_forkserver_preload(["tests.processes"])
    place, cases = Path(tempfile.mkdtemp(prefix="kills-", dir=room or None)), dict[str, Case]()
    n_kills = n_faults = 0
    for number in itertools.count(first):
        if n_kills == times:
            break
        one, folder = Try(seed, number, systems), place / f"try-{number}"
        if one.system not in cases:
            cases[one.system] = case_of(place, one.system)
        try:
            last, fault = one.disturbed(folder, cases[one.system]), ""
        except (AssertionError, OSError, ValueError) as error:
            last, fault, n_faults = "a fault", f"FAULT {error}", n_faults + 1
        if last:
            n_kills += 1
            tell(f"{one}, after {last}: {fault or 'equal'}")
        if not fault:
            shutil.rmtree(folder)
    tell(f"{times} kills, {n_faults} without the digest of the undisturbed run")
    if n_faults:
        sys.exit(f"the workspaces of the faults are in {place}")
    shutil.rmtree(place)
