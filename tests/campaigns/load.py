"""Load distembed: with jobs for an hour, 100,000 tasks, fifty readers, and two users of one cluster.

    python -m tests.campaigns load [--parts loop tasks readers users] [--seed 0] [--seconds 3600] [--times 20]

loop      one process runs small jobs for so many seconds, in turn on threads, on processes and on a cluster: a new
          workspace, the same command again, and commands that read it. Nothing that the process keeps may grow.
tasks     the graph of so many names is made in blocks of 1 KiB, twice on one scheduler: it is the same as in a few
          blocks, and the scheduler forgets every task.
readers   fifty processes read a workspace while so many runs change a parameter or the text: each read is what one of
          these runs left when it was undisturbed, or ends with one sentence.
users     so many times two runs on one cluster: on workspaces of their own, on the same one, and one of them killed.
"""

from __future__ import annotations

import gc
import json
import os
import random
import re
import shutil
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from hashlib import blake2b
from itertools import count
from multiprocessing import forkserver
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import psutil
from distributed import Client, SchedulerPlugin

import distembed as de
from distembed.cli.failures import STOPPED
from tests.benchmarks.measures import alone, tell, tell_head, tell_row
from tests.campaigns.corruption import READERS, filled
from tests.campaigns.kills import SECONDS, SYSTEMS, digest, job_words
from tests.commands import dask_cluster, run
from tests.hosts.network import wait_until
from tests.processes import CONTEXT, Process, distembed, kill_group, start
from tests.small_jobs import imputation, psdvec

forkserver.set_forkserver_preload(["tests.processes"])


# --- an hour of jobs in one process ----------------------------------------------------------------------------


class Kept(NamedTuple):
    """What this process keeps between two jobs: MiB, descriptors, threads, children, and files in its folders."""

    memory: float
    descriptors: float
    threads: float
    processes: float
    temporary: float
    working: float


GROWTH = Kept(memory=16, descriptors=1, threads=1, processes=0, temporary=0, working=0)
"""By how much the median of the last tenth may exceed that of the second.

What every job leaves is found: of a hundred jobs a descriptor each is a hundred, and a matrix of 200 KiB 16 MiB. The
allocators move the memory of a process that leaves nothing by some MiB, and the threads of Dask's loop, which end when
they are idle, are one more or less.
"""


def kept(room: Path) -> Kept:
    gc.collect()
    own = psutil.Process()
    files = [sum(1 for _ in (room / name).rglob("*")) for name in ("temporary", "jobs")]
    return Kept(own.memory_info().rss / 2**20, own.num_fds(), own.num_threads(), len(own.children()), *files)


def done(*words: str) -> None:
    ended = run(*words)
    assert ended.exit_code == 0, f"{words}: exit code {ended.exit_code}\n{ended.output}"


def use(folder: Path, workspace: Path, system: str, scheduler: str) -> None:
    """Run a job into a new workspace, run it again, and read it in each way."""
    words = [*filled(job_words(system), folder, workspace), "--scheduler", scheduler]
    done(*words)
    done(*words)
    for reader in (("verify", "{w}"), *READERS.get(system, (("status", "{w}"),))):
        done(*filled(reader, folder, workspace))
    found = de.Workspace.open(workspace)
    for stage in found.stages().values():
        for name, output in stage.outputs.items():
            if output.spec.kind == "dense" and not output.spec.temporary:
                found.array(name).compute(scheduler="threads")


def loop(room: Path, *, seconds: float, systems: Sequence[str], **_: Any) -> None:
    """Run jobs until so many seconds have passed, and compare what the process keeps early and late."""
    for system in systems:
        folder = room / "jobs" / system
        folder.mkdir(parents=True)
        SYSTEMS[system].write(folder)
    (room / "temporary").mkdir()
    os.chdir(room / "jobs")
    found: list[Kept] = []
    tell_head("job", "system", "on", *Kept._fields)
    with dask_cluster(room) as address:
        tempfile.tempdir = os.environ["TMPDIR"] = str(room / "temporary")
        end = time.monotonic() + seconds
        for number in count():
            if time.monotonic() > end:
                break
            system, way = systems[number % len(systems)], number % 3
            folder = room / "jobs" / system
            use(folder, folder / f"w-{number}", system, ("threads", "processes", address)[way])
            for made in folder.glob(f"w-{number}*"):
                shutil.rmtree(made) if made.is_dir() else made.unlink()
            found.append(kept(room))
            place = ("threads", "processes", "cluster")[way]
            tell_row(number, system, place, *(f"{value:.0f}" for value in found[-1]))
    compare(found)


def compare(found: list[Kept]) -> None:
    """Fail if a figure has grown from its median in the second tenth to its median in the last."""
    tenth, grown = max(1, len(found) // 10), []
    tell_head("kept", "early", "late", "allowed growth")
    for place, name in enumerate(Kept._fields):
        values = [one[place] for one in found]
        early, late = statistics.median(values[tenth : 2 * tenth]), statistics.median(values[-tenth:])
        tell_row(name, f"{early:.1f}", f"{late:.1f}", GROWTH[place])
        if late - early > GROWTH[place]:
            grown.append(name)
    assert not grown, f"after {len(found)} jobs there is more of {', '.join(grown)}"


# --- so many tasks through one scheduler -----------------------------------------------------------------------


class Ended(SchedulerPlugin):
    """Counts the tasks that ended well."""

    name = "ended"

    def __init__(self) -> None:
        self.n_tasks = 0

    def transition(self, key: Any, start: str, finish: str, *_: Any, **__: Any) -> None:
        self.n_tasks += start == "processing" and finish == "memory"


def state_of(dask_scheduler: Any) -> tuple[int, int, int]:
    """Return how many tasks have ended, how many the scheduler knows, and its bytes."""
    n_ended = dask_scheduler.plugins[Ended.name].n_tasks
    return n_ended, len(dask_scheduler.tasks), psutil.Process().memory_info().rss


def peak_of(process: psutil.Process, stop: threading.Event) -> int:
    peak = 0
    while not stop.wait(0.1):
        peak = max(peak, process.memory_info().rss)
    return peak


def tasks(room: Path, *, rows: int, **_: Any) -> None:
    """Make the graph of an imputation in a few blocks, then twice in very many, on one scheduler."""
    imputation.write(room)
    numbers = np.random.default_rng(0).standard_normal((rows, 12)).astype(np.float32)
    lines = ["name,kind," + ",".join(f"c{column}" for column in range(12))]
    lines += [f"name {i},x," + ",".join(map(str, row)) for i, row in enumerate(numbers)]
    (room / "domain.csv").write_text("\n".join(lines) + "\n")
    tell_head("block_memory", "tasks that ended", "s", "tasks known after", "MiB at most", "MiB after")
    found, before = [], 0
    with dask_cluster(room) as address, Client(address) as client, ThreadPoolExecutor(1) as pool:
        client.register_plugin(Ended())
        scheduler = psutil.Process(client.run_on_scheduler(os.getpid))
        for number, memory in enumerate(("64KiB", "1KiB", "1KiB")):
            words = ["run", str(room / "job.toml"), "--workspace", str(room / f"w-{number}")]
            words += ["--until", "graph", "--set", f"resources.block_memory={memory}"]
            stop, begun = threading.Event(), time.monotonic()
            peak = pool.submit(peak_of, scheduler, stop)
            ended = distembed(*words, "--scheduler", address, timeout=6 * SECONDS)
            stop.set()
            assert ended.returncode == 0, ended.stderr
            n_ended, n_known, n_bytes = client.run_on_scheduler(state_of)
            sizes = peak.result() >> 20, n_bytes >> 20
            tell_row(memory, n_ended - before, f"{time.monotonic() - begun:.0f}", n_known, *sizes)
            assert not n_known, f"the scheduler still knows {n_known} tasks"
            before = n_ended
            found.append(de.Workspace.open(room / f"w-{number}").array("graph").compute().toarray())
    assert all(np.array_equal(one, found[0]) for one in found), "another graph in smaller blocks"


# --- many readers of a workspace that is written ---------------------------------------------------------------

CHANGES = (("n_iter=2", False), ("n_iter=3", False), ("n_iter=3", True), ("n_iter=2", True))
"""What a writer does in turn: a parameter, and whether a second text is there."""

READS = {words[0]: words for words in (("verify", "{w}"), *READERS["psdvec"])}
JUDGED = ("neighbors", "evaluate", "export", "array")
"""The reads of results alone: the others say how far a run is, or read the text, which was changed before it."""


def change(folder: Path, workspace: Path, number: int) -> list[str]:
    """Change the texts of a job; return the words of the run that follows."""
    parameter, is_longer = CHANGES[number % len(CHANGES)]
    text = (folder / "text" / "a.txt").read_text().splitlines(keepends=True)
    (folder / "text" / "c.txt").unlink(missing_ok=True)
    if is_longer:
        (folder / "text" / "c.txt").write_text("".join(text[:50]))
    return [*filled(job_words("psdvec"), folder, workspace), "--set", f"psdvec.{parameter}", *UNTIL]


def read(reader: str, folder: Path, workspace: Path) -> tuple[bool, str]:
    """Read a workspace; return whether that succeeded, and what was read or the sentence that says why not."""
    if reader == "array":
        try:
            vectors = de.Workspace.open(workspace).array("vectors").compute(scheduler="synchronous")
        except (OSError, ValueError, KeyError) as error:
            return False, f"distembed: {type(error).__name__}: {error}"
        return True, blake2b(vectors.tobytes()).hexdigest()
    target = folder / f"of-{os.getpid()}.txt"
    words = [word.replace("{w}.txt", str(target)) for word in READS[reader]]
    ended = run(*filled(words, folder, workspace))
    if ended.exit_code:
        return False, ended.output if isinstance(ended.exception, SystemExit) else repr(ended.exception)
    text = ended.output.replace(str(workspace), "w").replace(str(target), "file")
    return True, text + (target.read_text() if reader == "export" else "")


def read_on(folder: Path, workspace: Path, number: int, log: Path) -> None:
    """Read a workspace in one way after the other, until there is a file `stop`, and note what was read."""
    os.nice(9)  # the more readers there are, the less they keep the writer from its work
    ways = [*READS, "array"]
    with log.open("w") as notes:
        for turn in count(number):
            if (folder / "stop").exists():
                return
            reader = ways[turn % len(ways)]
            notes.write(json.dumps([reader, *read(reader, folder, workspace)]) + "\n")


def readers(room: Path, *, times: int, n_readers: int, **_: Any) -> None:
    """Let so many processes read a workspace that is written so many times."""
    psdvec.write(room)
    whole: dict[str, set[str]] = {}
    for number in range(len(CHANGES) + 1):
        done(*change(room, room / "whole", number))
        for reader in JUDGED:
            was_read, text = read(reader, room, room / "whole")
            assert was_read, text
            whole.setdefault(reader, set()).add(text)
    assert all(len(texts) == len(CHANGES) for texts in whole.values()), {k: len(v) for k, v in whole.items()}
    done(*change(room, room / "w", 0))
    logs = [room / f"{number}.log" for number in range(n_readers)]
    reading = [CONTEXT.Process(target=read_on, args=(room, room / "w", *one)) for one in enumerate(logs)]
    for process in reading:
        process.start()
    for number in range(1, times + 1):
        ended = distembed(*change(room, room / "w", number), timeout=6 * SECONDS)
        assert ended.returncode == 0, ended.stderr
    (room / "stop").touch()
    for process in reading:
        process.join(SECONDS)
        assert process.exitcode == 0, f"a reader ended with {process.exitcode}"
    judge([json.loads(line) for log in logs for line in log.read_text().splitlines()], whole)


def judge(reads: list[tuple[str, bool, str]], whole: dict[str, set[str]]) -> None:
    """Print how often each reader read a whole result, and how often a sentence; fail for anything else."""
    sentences: set[str] = set()
    wrong: set[str] = set()
    tell_head("reader", "whole", "a sentence", "wrong")
    for reader in (*READS, "array"):
        found = [(was_read, text) for name, was_read, text in reads if name == reader]
        bad = [text for was_read, text in found if not is_right(reader, was_read, text, whole)]
        tell_row(reader, sum(was for was, _ in found), sum(not was for was, _ in found), len(bad))
        told = [text.splitlines()[-1] for was_read, text in found if not was_read and text.strip()]
        sentences |= {re.sub(r"\S*[/\d]\S*", "…", line[:150]) for line in told if reader != "status"}
        wrong |= {f"{reader}: {text[-600:]}" for text in bad}
    tell("\n".join(sorted(sentences)))
    assert not wrong, "\n".join(sorted(wrong)[:5])


def is_right(reader: str, was_read: bool, text: str, whole: dict[str, set[str]]) -> bool:
    if was_read and reader in JUDGED:
        return text in whole[reader]
    return was_read or reader == "status" or is_sentence(text)


def is_sentence(text: str) -> bool:
    last = (text.splitlines() or [""])[-1]
    is_trace = "DISTEMBED_DEBUG" in text or "Traceback" in text
    return last.startswith("distembed: ") and len(last.split()) > 4 and not is_trace


# --- two users of a cluster ------------------------------------------------------------------------------------


def users(room: Path, *, seed: int, times: int, **_: Any) -> None:
    """Let two runs share a cluster so many times."""
    psdvec.write(room)
    words = {
        name: filled(job_words("psdvec"), room, room / name) for name in ("alone", "one", "two", "three")
    }
    begun = time.monotonic()
    done(*words["alone"])
    seconds = time.monotonic() - begun
    tell_head("try", "killed after s", "one", "two", "two beside a kill", "killed", "in a lock")
    with dask_cluster(room) as address:
        for number in range(times):
            wait = random.Random(f"{seed} {number}").uniform(0, seconds)
            ends = share({name: [*line, "--scheduler", address] for name, line in words.items()}, room, wait)
            tell_row(number, f"{wait:.1f}", *(end or "equal" for end in ends))
            right = [end == ("" if place < 4 else LOCKED) for place, end in enumerate(ends)]
            assert all(right), ends


LOCKED = "a sentence"
UNTIL = ("--until", "vectors")
"""The runs draw no report, which takes longer than all that is shared."""


def share(words: dict[str, list[str]], room: Path, wait: float) -> list[str]:
    """Run two jobs at once, then two with the same workspace and one beside them; return what is wrong with each."""

    def end(name: str, process: Process) -> str:
        output, _ = process.communicate(timeout=SECONDS)
        same = process.returncode == 0 and digest(room / name) == digest(room / "alone")
        shutil.rmtree(room / name)
        return "" if same else output

    both = {name: start(*words[name]) for name in ("one", "two")}
    ends = [end(name, process) for name, process in both.items()]
    first, beside = start(*words["three"]), start(*words["two"])
    wait_until((room / "three" / "lock.json").exists, "the lock of the first run", seconds=SECONDS)
    second = distembed(*words["three"], timeout=SECONDS)
    time.sleep(wait)
    kill_group(first)
    ends += [end("two", beside), end("three", start(*words["three"]))]
    is_told = second.returncode == STOPPED and is_sentence(second.stderr) and "being written" in second.stderr
    return [*ends, LOCKED if is_told else second.stderr]


PARTS: dict[str, Callable[..., None]] = {"loop": loop, "tasks": tasks, "readers": readers, "users": users}


def main(
    *,
    parts: tuple[str, ...] = (*PARTS,),
    seed: int = 0,
    times: int = 20,
    seconds: float = 3600,
    rows: int = 640,
    n_readers: int = 50,
    systems: tuple[str, ...] = ("psdvec", "imputation", "topics"),
) -> None:
    given = {"seed": seed, "times": times, "seconds": seconds, "rows": rows, "n_readers": n_readers}
    for part in parts:
        with tempfile.TemporaryDirectory(prefix="load-") as room:
            alone(partial(PARTS[part], **given, systems=systems), Path(room))
        tell(f"{part}: nothing failed")
