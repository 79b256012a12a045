"""What every system promises, as one table: a row a system, a test a promise.

A new system gets a module in `tests/small_jobs` and a row here. By default some cells are tried of each promise; all
of them with `-m "slow or not slow"`.
"""

from __future__ import annotations

import json
import re
import shutil
import signal
from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from typing import NamedTuple

import pytest
from _pytest.mark.structures import ParameterSet

import distembed as de
from distembed.job.load import load_job
from distembed.job.plan import plan_job
from tests.commands import digest_here, run, run_once, succeed, watched, written_once
from tests.small_jobs import comparison, imputation, psdvec, topics, transfer, wordspaces

ITSELF, FOUND = True, False


class System(NamedTuple):
    """How the small job of a system is written, what is set in it, and its sizes as its plan says them.

    Of wrong settings it says whether the job itself is wrong or a stage finds it, and has part of the sentence.
    """

    write: Callable[[Path], None]
    settings: tuple[str, ...]
    sizes: str
    wrong: dict[str, tuple[bool, str]]


SYSTEMS = {
    "psdvec": System(
        psdvec.write,
        (
            "subwords.enabled=true",
            "sides.n_components=4",
            "sides.n_passes=2",
            "matrices.keep=['pmi', 'distances']",
        ),
        "8,000 tokens, 200 words, 13,381 pairs",
        {
            "psdvec.n_componets=5": (ITSELF, "did you mean n_components"),
            "psdvec.n_components=61": (ITSELF, "n_components"),
            "psdvec.n_core=1000000": (FOUND, "n_core"),
            "sides.weight=0": (ITSELF, "sides.weight"),
            "sides.n_component=4": (ITSELF, "did you mean n_components"),
            "vocabulary.min_count=10000000": (FOUND, "min_count"),
            "matrices.keep=['tf_idf']": (ITSELF, "matrices.keep.0 = 'tf_idf' is not allowed"),
            "corpus.paths=['nothing-*.bz2']": (ITSELF, "nothing-"),
        },
    ),
    "imputation": System(
        imputation.write,
        ("resources.block_memory=2KiB", "matrices.keep=['distances']"),
        "60 names x 3 numbers, vectors of 5 components",
        {
            "domain.path=none.csv": (ITSELF, "none.csv"),
            "domain.drop=['zzz']": (FOUND, "no column 'zzz'"),
            "imputation.min_degree=60": (FOUND, "min_degree = 60 needs more rows than the 60"),
            "imputation.min_degre=5": (ITSELF, "did you mean min_degree?"),
            "matching.ignore_underscores=false": (FOUND, "no name of the table"),
            "corpus.paths=['a']": (ITSELF, "unknown key corpus"),
            "job.system=imputations": (ITSELF, "job.system = 'imputations' is not allowed"),
        },
    ),
    "wordspaces": System(
        wordspaces.write,
        ("wordspaces.spaces=['lpp', 'lsa', 'maps']", "matrices.keep=['distances']"),
        "160 documents, 6,401 tokens, 57 words",
        {
            "evaluation.sets=['none.txt']": (ITSELF, "none.txt"),
            "recipes.lpp.n_neighbors=500": (FOUND, "500 neighbors of each row are asked for, but each of"),
            "recipes.lpp.n_component=5": (ITSELF, "recipes.lpp.n_component; did you mean n_components?"),
            "recipes.lsa.of=log_entrop": (
                ITSELF,
                "'log_entrop', which is not there; did you mean log_entropy?",
            ),
            "recipes.lsa.n_components=5000": (FOUND, "n_components is 5000 but the matrix is"),
            "recipes.lsa.alpha=0.5": (ITSELF, "'lsa' has no such key: methods with it are lpp"),
            "recipes.lsa.of=lsa": (ITSELF, "recipes.lsa starts from itself"),
            "recipes.lsa.of=documents": (
                ITSELF,
                "recipes.lsa makes 'lsa' of 'documents'; of that there is counts",
            ),
            "recipes.lsa.add_contexts=true": (
                ITSELF,
                "add_contexts = true needs columns that are the words of",
            ),
            "recipes.vsm.of=lsa": (ITSELF, "recipes.vsm makes 'counts' of 'lsa'"),
            "recipes.lpp.graph_of=contexts": (ITSELF, "graph_of = 'contexts' is a table of counts"),
            "recipes.contexts={of='documents', method='counts'}": (
                ITSELF,
                "bears the name of a table of counts",
            ),
            "wordspaces.spaces=['lsb']": (ITSELF, "wordspaces.spaces names 'lsb'"),
            "wordspaces.vectors=vsm": (ITSELF, "name a dense space of the job"),
            "evaluation.sets=['corpus.txt']": (FOUND, "corpus.txt"),
            "hal.direction=symmetric": (ITSELF, "hal.direction = 'symmetric' is not allowed"),
        },
    ),
    "topics": System(
        topics.write_long,
        (),
        "60 words, 1,800 pairs",
        {
            "corpus.paths=['none.jsonl']": (ITSELF, "none.jsonl"),
            "corpus.text_field=body": (FOUND, 'has no field "body"'),
            "documents.labels=['fish']": (FOUND, "the labels of the collection are x, y"),
            "topics.method=lda": (ITSELF, "topics.method = 'lda' is not allowed"),
            "semantic.workspace=nowhere": (ITSELF, "no distembed workspace"),
            "topics.n_topics=7000": (FOUND, "7000 components or clusters were asked for"),
            "topics.methods=['nmf']": (ITSELF, "did you mean"),
            "vocabulary.min_documents=1000": (FOUND, "lower min_documents or raise max_share"),
        },
    ),
    "transfer": System(
        transfer.write,
        ("evaluation.n_seeds=1", "topics.n_iter=11"),
        "240 documents, ",
        {
            "collections.first.paths=['none.jsonl']": (ITSELF, "none.jsonl"),
            "collections.first.id_field=label": (FOUND, "occurs twice in the first collection"),
            "collections.second.text_field=three": (FOUND, 'no field "three"'),
            "topics.n_topics=500": (FOUND, "500 components"),
            "alignment.n_neighbors=120": (FOUND, "120 neighbors of each row are asked for"),
            "pairs.shares=0.1": (ITSELF, "did you mean share?"),
            "pairs.share=0.0": (ITSELF, "pairs.share"),
            "representation.kind=tf_idf": (
                ITSELF,
                "'tf_idf' has no such key: methods with it are lsa",
            ),
            "evaluation.topic=4": (ITSELF, "there are 4 topics: choose 0 to 3"),
        },
    ),
    "comparison": System(
        comparison.write,
        (),
        "8,003 tokens, 54 words",
        {
            "corpus.label_field=era": (
                FOUND,
                "the corpus has no parts by the column 'label', and a comparison needs two",
            ),
            "corpus.label_field=id": (FOUND, "has one document or file alone"),
            "parts.names=['old', 'old']": (FOUND, "parts.names has 'old' twice"),
            "parts.names=['old']": (FOUND, "the corpus has the part 'old' alone"),
            "parts.names=['old', 'older']": (FOUND, "'older'; the parts of the corpus are new, old"),
            "parts.bins=[1800, 1900]": (FOUND, "has 'new', which is no date"),
            "parts.column=era": (
                FOUND,
                "parts.column is 'era', and the documents have 'label', 'title', 'id', 'file'",
            ),
            "comparison.min_count=100000": (FOUND, "no word can be judged"),
            "comparison.min_counts=3": (ITSELF, "did you mean min_count"),
            "psdvec.n_components=1000": (FOUND, "n_components"),
            "counting.direction=left": (ITSELF, "direction"),
        },
    ),
}


def cells(
    default: Collection[tuple[str, ...]], columns: Iterable[tuple[str, ...]] = ((),)
) -> list[ParameterSet]:
    """Return each system with each column; those that are not tried by default are slow."""
    every = [(name, *column) for name in SYSTEMS for column in columns]
    return [pytest.param(*cell, marks=[] if cell in default else [pytest.mark.slow]) for cell in every]


class Finished(NamedTuple):
    """A job that was run once: its file and settings as words of a command, its workspace, and what the run made."""

    system: str
    job: tuple[str, ...]
    workspace: Path
    made: list[str]
    """Lines, in order: "named" or "made", and the path."""

    def named(self) -> list[str]:
        """Return the files that got their names in the workspace, by their paths there, in order."""
        start = f"named {self.workspace}/"
        return [line.removeprefix(start) for line in self.made if line.startswith(start)]

    def halves(self) -> dict[str, int]:
        """Return the first file of each stage, and of the report, with half the number of files from there on."""
        named = self.named()
        starts = [place for place, path in enumerate(named) if path.endswith("/stage.json")]
        starts.append(max(place for place, path in enumerate(named) if path.startswith("manifest/")))
        ends = [*starts[1:], len(named)]
        return {named[start]: 1 + (end - start) // 2 for start, end in zip(starts, ends, strict=True)}


@pytest.fixture(scope="module", params=SYSTEMS)
def finished(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Finished:
    """Return a small job of a system, run once for all of pytest-xdist's workers and for the tests of the system."""
    system = SYSTEMS[request.param]
    words = tuple(word for setting in system.settings for word in ("--set", setting))
    job = written_once(tmp_path_factory, request.param, system.write)
    workspace, _ = run_once(tmp_path_factory, job, *words)
    made = workspace.with_suffix(".made").read_text().splitlines()
    return Finished(request.param, (str(job), *words), workspace, made)


@pytest.fixture
def copy(finished: Finished, tmp_path: Path) -> Path:
    return Path(shutil.copytree(finished.workspace, tmp_path / "copy"))


def digest(finished: Finished, workspace: Path) -> str:
    """Return the digest of a workspace of the job, in which `verify` finds no fault."""
    return digest_here(Path(finished.job[0]), workspace, *finished.job[1:])


@pytest.fixture(scope="module")
def whole(finished: Finished) -> str:
    """Return the digest of the finished workspace."""
    return digest(finished, finished.workspace)


def times(folder: Path) -> dict[str, int]:
    """Return the time of every file below a folder, which a write changes."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.stat().st_mtime_ns for path in files}


def recorded(workspace: Path) -> dict[str, int]:
    """Return the time of every file whose block a journal or a manifest says to be done."""
    records = [json.loads(path.read_text()) for path in workspace.glob("journal/*/**/[0-9]*.json")]
    for path in workspace.glob("manifest/*.json"):
        for output in json.loads(path.read_text())["outputs"].values():
            records += output.get("blocks", ())
    found = times(workspace)
    return {name: found[name] for record in records for name in record["files"] if name in found}


@pytest.mark.parametrize(
    ("finished", "stages"),
    cells({("psdvec", "two"), ("comparison", "two")}, [("two",), ("each",)]),
    indirect=["finished"],
)
def test_a_run_killed_in_its_stages_ends_with_the_same_bytes(
    finished: Finished, whole: str, tmp_path: Path, stages: str
) -> None:
    """Each run dies half way through a stage, or through the report; no later one writes a finished block again.

    By default they die in the two stages that make the most files.
    """
    workspace, kept, halves = tmp_path / "w", dict[str, int](), finished.halves()
    largest = sorted(halves, key=lambda first: halves[first])[-2:]
    for first in halves if stages == "each" else [first for first in halves if first in largest]:
        kill = f"{workspace}/{first}:{halves[first]}"
        code, output = watched(tmp_path / "log", *finished.job, "--workspace", workspace, kill=kill)
        assert code == -signal.SIGKILL, (first, output)
        kept |= recorded(workspace)
    code, output = watched(tmp_path / "log", *finished.job, "--workspace", workspace)
    assert code == 0, output
    assert digest(finished, workspace) == whole
    after = times(workspace)
    assert kept
    assert {name: after[name] for name in kept if name in after}.items() <= kept.items()
    assert not list(workspace.glob("**/*.partial"))


def kinds(files: list[str]) -> list[str]:
    """Return a file of each kind, the middle one: names of one kind differ in numbers and keys alone."""
    groups: dict[str, list[str]] = {}
    for name in sorted(files):
        groups.setdefault(re.sub(r"\b[0-9a-f]{6,}\b|\d+", "0", name), []).append(name)
    return [group[len(group) // 2] for group in groups.values()]


def spoil(file: Path, way: int) -> None:
    """Flip a bit, cut off the end, or remove a file."""
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    (lambda: file.write_bytes(data), lambda: file.write_bytes(data[:-3]), file.unlink)[way % 3]()


PARTS = {
    "arrays": r"arrays\.zarr/",
    "tables": r"(?!arrays|manifest|report|lock|job\.toml|workspace)",
    "manifests": r"manifest/\w+\.json",
    "copies of manifests": r"manifest/copies/",
    "report": r"report/index\.html",
    "head": r"workspace\.json",
}
"""What a workspace is made of: each part is damaged alone, since what a damaged record names is made again."""


@pytest.mark.parametrize(
    ("finished", "part"),
    cells({("psdvec", "arrays"), *(("imputation", part) for part in PARTS)}, [(part,) for part in PARTS]),
    indirect=["finished"],
)
def test_damage_is_named_and_only_it_is_repaired(
    finished: Finished, whole: str, copy: Path, part: str
) -> None:
    names = times(copy)
    damaged = kinds([name for name in names if re.match(PARTS[part], name)])
    assert damaged
    for way, name in enumerate(damaged):
        spoil(copy / name, way)
    found = run("verify", finished.job[0], "--workspace", copy, *finished.job[1:])
    named = {line.split(": ")[0] for line in found.output.splitlines()}
    for name in damaged:
        assert {name, f"stage {Path(name).stem} is not committed"} & named, name
    assert found.exit_code == 1
    before = times(copy)
    succeed("run", *finished.job, "--workspace", copy)
    assert digest(finished, copy) == whole
    if part == "arrays":
        after, spoilt = times(copy), tuple(block_of(name) for name in damaged)
        kept = {name for name in before if name.startswith("arrays.zarr/") and not name.startswith(spoilt)}
        assert {name for name in kept if after.get(name) != before[name]} == set()


def block_of(name: str) -> str:
    """Return the start of the names of all files of the block that a file is of."""
    found = re.match(r"arrays\.zarr/.*/\d{6}/", name)
    return found[0] if found else name


@pytest.fixture(scope="module")
def alone(finished: Finished, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the workspace of the job run by one thread, in a process that finds the kernels compiled."""
    return run_once(tmp_path_factory, Path(finished.job[0]), *finished.job[1:], "--workers", "1")[0]


@pytest.mark.parametrize("finished", cells({("psdvec",)}), indirect=True)
def test_one_thread_does_not_change_a_bit(finished: Finished, whole: str, alone: Path) -> None:
    assert digest(finished, alone) == whole


@pytest.mark.parametrize("finished", cells({("psdvec",)}), indirect=True)
def test_memory_stays_below_the_plan(finished: Finished, alone: Path) -> None:
    settings = tuple(word for word in finished.job[1:] if word != "--set")
    plan = plan_job(load_job(finished.job[0], workspace=str(alone), settings=settings))
    stages = de.Workspace.open(alone).stages().values()
    assert all(stage.facts["peak_process_bytes"] <= plan.planned_bytes(stage.stage) for stage in stages)


@pytest.mark.cluster
@pytest.mark.parametrize(
    ("finished", "workers"),
    cells({("imputation", "cluster")}, [("cluster",), ("processes",)]),
    indirect=["finished"],
)
def test_worker_processes_do_not_change_a_bit(
    request: pytest.FixtureRequest, finished: Finished, whole: str, tmp_path: Path, workers: str
) -> None:
    scheduler = request.getfixturevalue("cluster") if workers == "cluster" else workers
    succeed("run", *finished.job, "--workspace", tmp_path / "w", "--scheduler", scheduler)
    assert digest(finished, tmp_path / "w") == whole


def test_a_second_run_does_nothing(finished: Finished, copy: Path) -> None:
    before = times(copy)
    done = succeed("run", *finished.job, "--workspace", copy)
    assert "nothing to do" in done.output
    assert times(copy) == before


CACHES = ("/__pycache__", "/numba", "/matplotlib")
"""Parts of the paths where Python, numba and matplotlib keep what they compile and find, on their first run."""


def test_nothing_is_written_outside_the_workspace(finished: Finished) -> None:
    """What Python opens for writing, makes or renames."""
    places = {line.split(" ", 1)[1] for line in finished.made if not any(part in line for part in CACHES)}
    assert places
    assert {place for place in places if not f"{place}/".startswith(f"{finished.workspace}/")} == set()


def test_plan_knows_every_stage_and_writes_nothing(finished: Finished) -> None:
    folder = finished.workspace.parent
    before = times(folder)
    for workspace in (finished.workspace, folder / "absent"):
        done = succeed("plan", *finished.job, "--workspace", workspace)
        for stage in de.Workspace.open(finished.workspace).stages():
            assert re.search(rf"^{stage} +\d", done.output, re.MULTILINE), stage
        if workspace.exists():
            assert SYSTEMS[finished.system].sizes in done.output
    assert times(folder) == before
    assert not (folder / "absent").exists()


def test_a_fault_is_one_sentence_and_loses_nothing(finished: Finished, whole: str, copy: Path) -> None:
    for setting, (is_of_the_job, sentence) in SYSTEMS[finished.system].wrong.items():
        before = times(copy)
        done = run("run", *finished.job, "--workspace", copy, "--replace", "--set", setting)
        assert done.exit_code == 2, (setting, done.output)
        if is_of_the_job:
            assert times(copy) == before, setting
        assert sentence in done.stderr, setting
        assert len(done.stderr.strip().splitlines()) == 1, done.stderr
    succeed("run", *finished.job, "--workspace", copy)
    assert digest(finished, copy) == whole
