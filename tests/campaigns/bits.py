"""Run small jobs by other workers, other engines, shuffled tasks and other BLAS kernels: the bits are equal.

    python -m tests.campaigns bits --seed 0 --times 60 [--systems psdvec topics]

Each try runs a job to its end with 1, 2 or 4 workers, as threads, processes or on a Dask cluster over TCP. With
threads, Dask takes the tasks that are ready in a random order. A kernel of OpenBLAS is chosen by its environment
variable, and the digest has to be that of a run by one thread with the same kernel (a cluster has the machine's own).
Try N of a seed is always the same.
"""

from __future__ import annotations

import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from multiprocessing import forkserver
from pathlib import Path
from typing import NamedTuple

import distembed as de
from benchmarks.measures import tell, tell_head, tell_row
from tests.campaigns.corruption import filled
from tests.campaigns.kills import SYSTEMS, job_words
from tests.commands import dask_cluster, environment

ENGINES = ("threads", "shuffled", "processes", "cluster")
KERNELS = ("", "Haswell", "SkylakeX", "Prescott")
SHUFFLED = (
    "import random; from dask import local; from distembed.cli.main import main\n"
    "real = local.order\n"
    "def order(graph, *given, **options):\n"
    "    numbers = real(graph, *given, **options); keys = list(numbers); random.shuffle(keys)\n"
    "    return dict(zip(keys, range(len(keys))))\n"
    "local.order = order; main()"
)
PLAIN = "from distembed.cli.main import main; main()"


class Way(NamedTuple):
    """How a job is run."""

    system: str
    engine: str
    workers: int
    kernel: str


def digest_of(room: Path, way: Way, cluster: str) -> str:
    """Run a job in a new workspace, by a new interpreter, which reads what kernel it shall take; return its digest."""
    folder, place = room / way.system, Path(tempfile.mkdtemp(dir=room)) / "w"
    words = filled(job_words(way.system), folder, place)
    scheduler = {"processes": "processes", "cluster": cluster}.get(way.engine)
    words += ["--scheduler", scheduler] if scheduler else []
    words += [] if way.engine == "cluster" else ["--workers", str(way.workers)]
    chosen = {**environment(), **({"OPENBLAS_CORETYPE": way.kernel} if way.kernel else {})}
    program = SHUFFLED if way.engine == "shuffled" else PLAIN
    done = subprocess.run(
        [sys.executable, "-c", program, *words], env=chosen, capture_output=True, text=True, check=False
    )
    try:
        return de.Workspace.open(place).digest() if done.returncode == 0 else done.stdout + done.stderr
    finally:
        shutil.rmtree(place.parent)


def way_of(drawn: random.Random, systems: Sequence[str]) -> Way:
    engine = drawn.choice(ENGINES)
    kernel = "" if engine == "cluster" else drawn.choice(KERNELS)  # its processes are forks that have chosen
    return Way(drawn.choice(systems), engine, drawn.choice((1, 2, 4)), kernel)


def main(*, seed: int = 0, times: int = 60, systems: tuple[str, ...] = (*SYSTEMS,)) -> None:
    forkserver.set_forkserver_preload(["tests.processes"])
    ways = [way_of(random.Random(f"{seed} {number}"), systems) for number in range(times)]
    expected: dict[Way, str] = {}
    same: dict[str, list[bool]] = {engine: [] for engine in ENGINES}
    with tempfile.TemporaryDirectory(prefix="bits-") as place, ExitStack() as stack:
        room = Path(place)
        some = any(way.engine == "cluster" for way in ways)
        cluster = stack.enter_context(dask_cluster(room)) if some else ""
        for system in {way.system for way in ways}:
            (room / system).mkdir()
            SYSTEMS[system].write(room / system)
        for number, way in enumerate(ways):
            alone = way._replace(engine="threads", workers=1)
            if alone not in expected:
                expected[alone] = digest_of(room, alone, cluster)
            found = digest_of(room, way, cluster)
            same[way.engine].append(found == expected[alone])
            tell(f"{seed}:{number} {way}: {'equal' if same[way.engine][-1] else f'NOT EQUAL {found}'}")
    tell_head("engine", "runs", "not equal")
    for engine, results in same.items():
        tell_row(engine, len(results), results.count(False))
    sys.exit(not all(one for results in same.values() for one in results))
