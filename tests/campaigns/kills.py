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

import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
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


class Ran(NamedTuple):
    """How a command ended, after which time, what it printed, and the files that it gave their names, in order."""

    code: int | None
    seconds: float
    output: str
    named: list[str]


class Case(NamedTuple):
    """A folder before a command, the words of the command, and the digest of the workspace `w` when it has ended."""

    folder: Path
    words: tuple[str, ...]
    digest: str
    n_files: int
    seconds: float


class Kill(NamedTuple):
    """What a try kills: the case, the state, by what, at which file (0: at a moment), at which part of the time."""

    system: str
    state: str
    signals: str
    file: int
    share: float


def start(place: Path, words: Sequence[str], *, kill: str = "", being: str = "") -> Process:
    filled = [word.replace("{here}", str(place)) for word in words]
    return Process(str(place / "made"), kill, being, *filled, program="tests.faults.watched")


def ended(process: Process, place: Path, begun: float) -> Ran:
    try:
        output, _ = process.communicate(timeout=SECONDS)
    except subprocess.TimeoutExpired:
        kill_group(process)
        raise AssertionError(f"did not end within {SECONDS:.0f} s") from None
    log = place / "made"
    lines = log.read_text().splitlines() if log.exists() else []
    log.unlink(missing_ok=True)
    named = [line.removeprefix(f"named {place}/") for line in lines if line.startswith(f"named {place}/")]
    return Ran(process.returncode, time.perf_counter() - begun, output, named)


def ran(place: Path, words: Sequence[str], *, being: str = "") -> Ran:
    begun = time.perf_counter()
    return ended(start(place, words, being=being), place, begun)


# --- what is there before a command ----------------------------------------------------------------------------


def job_words(system: str) -> tuple[str, ...]:
    settings = SYSTEMS[system].settings if system == "psdvec" else ()  # its views and subwords
    words = [word for setting in settings for word in ("--set", setting)]
    return ("run", "{here}/job.toml", "--workspace", "{here}/w", "--replace", *words)


def write_corpus(change: str, folder: Path) -> tuple[str, ...]:
    """Count what there is before a corpus changes; return the words of the command that changes it."""
    write_job(folder, {"a.jsonl": texts(1), "c.jsonl": texts(2)})
    count(folder, until=None)
    if change == "remove":
        (folder / "text" / "a.jsonl").unlink()
    else:
        write_file(folder, "b.jsonl", texts(3))
    return ("run", "{here}/job.toml", "--workspace", "{here}/w", "--replace")


def case_of(room: Path, system: str) -> Case:
    """Run a job, or change a corpus, undisturbed; the folder of a job holds the finished workspace, `w`."""
    folder, whole = room / system, room / f"{system}-whole"
    folder.mkdir()
    if system in CORPUS:
        words = write_corpus(system, folder)
        shutil.copytree(folder, whole)
    else:
        SYSTEMS[system].write(folder)
        words, whole = job_words(system), folder
    done = ran(whole, words)
    assert done.code == 0, done.output
    return Case(folder, words, digest(whole / "w"), len(done.named), done.seconds)


def digest(workspace: Path) -> str:
    found = de.Workspace.open(workspace)
    assert not (problems := found.verify()), problems
    return found.digest()


def put(case: Case, kill: Kill, drawn: random.Random, place: Path) -> int:
    """Copy a case into `place` in the state that a kill finds; return how many files are there to be made, or more."""
    shutil.copytree(case.folder, place)
    if kill.state == "new":
        shutil.rmtree(place / "w")
    if kill.state == "stage":
        forget_stage(place / "w", drawn.choice(sorted(de.Workspace.open(place / "w").stages())))
    if kill.state in ("repair", "versions"):
        files = sorted(name for name in recorded(place / "w") if (place / "w" / name).exists())
        for name in drawn.sample(files, min(drawn.randint(1, 4), len(files))):
            spoil(place / "w" / name, drawn.randrange(3))
    return case.n_files if kill.state in ("new", *CORPUS) else case.n_files // 6


# --- a try -----------------------------------------------------------------------------------------------------


def drawn_kill(drawn: random.Random, systems: Sequence[str], number: int) -> Kill:
    system = systems[number % len(systems)]
    state = system if system in CORPUS else drawn.choices([*STATES], [*STATES.values()])[0]
    signals = drawn.choices([*SIGNALS], [*SIGNALS.values()])[0]
    at_file = signals == "SIGKILL" and drawn.random() < 0.6
    return Kill(system, state, signals, int(at_file), drawn.random())


def disturbed(place: Path, case: Case, kill: Kill, n_files: int, seconds: float) -> tuple[Ran, bool]:
    """Run the command and disturb it; return how it ended, and whether it was disturbed before its end."""
    being = "another version" if kill.state == "versions" else ""
    point = f":{1 + int(kill.share * n_files)}" if kill.file else ""
    begun = time.perf_counter()
    process = start(place, case.words, kill=point, being=being)
    if point:
        done = ended(process, place, begun)
        return done, done.code == -signal.SIGKILL
    while process.poll() is None and time.perf_counter() - begun < kill.share * seconds:
        time.sleep(0.005)
    if process.poll() is not None:
        return ended(process, place, begun), False
    first, _, second = kill.signals.partition(", ")
    process.send_signal(getattr(signal, first))
    if second:
        other = ran(place, case.words, being="another machine")
        assert other.code == 0, f"exit code {other.code}\n{other.output}"
        process.send_signal(getattr(signal, second))
    return ended(process, place, begun), True


def again(place: Path, case: Case, kill: Kill) -> Ran:
    """Repeat the command, and compare what there is with the undisturbed run."""
    done = ran(place, case.words, being="another version" if kill.state == "versions" else "")
    assert done.code == 0, f"exit code {done.code}\n{done.output}"
    assert digest(place / "w") == case.digest, f"another digest\n{done.output}"
    left = [path for path in (place / "w").rglob("*") if path.name.endswith((".partial", ".beat"))]
    assert not left, left
    return done


def tries(
    room: Path, systems: Sequence[str], *, seed: int, first: int, times: int
) -> Iterator[tuple[int, Kill, str, str]]:
    """Yield the number and the kill of each try that was disturbed before its end, the last file made, and a fault."""
    cases: dict[str, Case] = {}
    spans: dict[tuple[str, str], float] = {}
    number, n_kills = first, 0
    while n_kills < times:
        drawn = random.Random(f"{seed} {number}")
        kill = drawn_kill(drawn, systems, number)
        if kill.system not in cases:
            cases[kill.system] = case_of(room, kill.system)
        case, place, key = cases[kill.system], room / f"try-{number}", (kill.system, kill.state)
        n_files = put(case, kill, drawn, place)
        last, fault, was_killed = "nothing", "", True
        try:
            before, was_killed = disturbed(place, case, kill, n_files, spans.get(key, case.seconds))
            last = (before.named or [last])[-1]
            spans[key] = max(again(place, case, kill).seconds, 0.5 * spans.get(key, 0))
        except (AssertionError, OSError, ValueError) as error:
            fault = str(error)
        if was_killed or fault:
            n_kills += 1
            yield number, kill, last, fault
        if not fault:
            shutil.rmtree(place)
        number += 1


def main(
    *,
    seed: int = 0,
    times: int = 500,
    first: int = 0,
    systems: tuple[str, ...] = (*SYSTEMS, *CORPUS),
    room: str = "",
) -> None:
    n_faults, place = 0, Path(tempfile.mkdtemp(prefix="kills-", dir=room or None))
    forkserver.set_forkserver_preload(["tests.processes"])
    for number, kill, last, fault in tries(place, systems, seed=seed, first=first, times=times):
        how = "at a file" if kill.file else f"at {kill.share:.2f} of its time"
        end, n_faults = f"FAULT {fault}" if fault else "equal", n_faults + bool(fault)
        tell(f"{seed}:{number} {kill.system} {kill.state} {kill.signals} {how}, after {last}: {end}")
    tell(f"{times} kills, {n_faults} without the digest of the undisturbed run")
    if n_faults:
        sys.exit(f"the workspaces of the faults are in {place}")
    shutil.rmtree(place)
