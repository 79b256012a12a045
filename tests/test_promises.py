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
from distembed.job.outputs import ArrayOutput, FileOutput, FilesOutput, TableOutput
from distembed.job.run import run_stages
from distembed.job.stage import REPORT, SUMMARY, system_named
from tests.commands import digest_here, run, run_once, succeed, watched, written_once
from tests.small_jobs import comparison, imputation, psdvec, topics, transfer, wordspaces


class System(NamedTuple):
    """How the small job of a system is written, what is set in it, and its sizes as its plan says them.

    Of changed settings it says which stages run again, and of wrong ones, those that the job refuses and those that a
    stage finds, part of the sentence.
    """

    write: Callable[[Path], None]
    settings: tuple[str, ...]
    sizes: str
    redone: dict[str, str]
    wrong: dict[str, str]
    found_wrong: dict[str, str]


ANALOGIES = "evaluation.sets=['{gensim}/test/test_data/questions-words.txt']"
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
            "subwords.weight=0.3": "vectors distances evaluation report",
            "sides.weight=0.3": "joined subwords vectors distances evaluation report",
        },
        {
            "corpus.paths=['nothing-*.bz2']": "nothing-",
            "matrices.keep=['tf_idf']": "matrices.keep.0 = 'tf_idf' is not allowed",
            "psdvec.components_removed=8": "leaves none of the 8 components of the vectors; give at most 7",
            "psdvec.n_components=61": "n_components",
            "psdvec.n_componets=5": "did you mean n_components",
            "sides.direction=symmetric": "sides.direction",
            "sides.method=svd": "sides.method",
            "sides.n_component=4": "did you mean n_components",
            "sides.regularization=0.0": "sides.regularization",
            "sides.weight=0": "sides.weight",
            "sides.weight=nan": "sides.weight",
            "subwords.min_n=7": "min_n is 7 and max_n is 6",
        },
        {
            "psdvec.n_core=1000000": "n_core",
            "sides.n_components=1": "one component",
            "sides.subsample=1e-12": "[sides] counts no pair of words: raise sides.window",
            "vocabulary.min_count=10000000": "min_count",
        },
    ),
    "imputation": System(
        imputation.write,
        ("resources.block_memory=2KiB", "matrices.keep=['distances']"),
        "60 names x 3 numbers, vectors of 5 components",
        {"imputation.tol=1e-3": "vectors hold_out neighbor_labels report"},
        {
            "corpus.paths=['a']": "unknown key corpus",
            "domain.path=none.csv": "none.csv",
            "imputation.min_degre=5": "did you mean min_degree?",
            "job.system=imputations": "job.system = 'imputations' is not allowed",
        },
        {
            "domain.drop=['zzz']": "no column 'zzz'",
            "imputation.min_degree=60": "min_degree = 60 needs more rows than the 60",
            "matching.ignore_underscores=false": "no name of the table",
        },
    ),
    "wordspaces": System(
        wordspaces.write,
        ("wordspaces.spaces=['lpp', 'lsa', 'maps', 'both_sides']", "matrices.keep=['distances']"),
        "160 documents, 6,401 tokens, 57 words",
        {"recipes.lpp.alpha=1.0": "space_lpp scores_lpp report"},
        {
            "evaluation.dimensions=[0]": "evaluation.dimensions.0 = 0",
            "evaluation.sets=['none.txt']": "none.txt",
            "hal.direction=symmetric": "hal.direction = 'symmetric' is not allowed",
            "recipes.contexts={of='documents', method='counts'}": "bears the name of a table of counts",
            "recipes.lpp.graph_of=contexts": "graph_of = 'contexts' is a table of counts",
            "recipes.lpp.n_component=5": "recipes.lpp.n_component; did you mean n_components?",
            "recipes.lpp.svd_components=9": 'svd_components belongs to solver = "eigen"',
            "recipes.lpp_eigen.affinity=local": "threshold joins words by their cosine",
            "recipes.lpp_eigen.constant_column=true": "constant_column belongs to the regression",
            "recipes.lpp_eigen.svd_components=3": "svd_components, 4 (n_components) or more; it is 3",
            "recipes.lsa.add_contexts=true": "add_contexts = true needs columns that are the words of",
            "recipes.lsa.alpha=0.5": "'lsa' has no such key: methods with it are lpp",
            "recipes.lsa.of=documents": "recipes.lsa makes 'lsa' of 'documents'; of that there is counts",
            "recipes.lsa.of=log_entrop": "'log_entrop', which is not there; did you mean log_entropy?",
            "recipes.lsa.of=lsa": "recipes.lsa starts from itself",
            "recipes.maps.affinity=binry": "recipes.maps.affinity = 'binry' is not allowed",
            "recipes.vsm.of=lsa": "recipes.vsm makes 'counts' of 'lsa'",
            "recipes.wc.solver=eigen": "unknown key recipes.wc.solver",
            "wordspaces.spaces=['lsb']": "wordspaces.spaces names 'lsb'",
            "wordspaces.vectors=vsm": "name a dense space of the job",
        },
        {
            "evaluation.sets=['corpus.txt']": "corpus.txt",
            ANALOGIES: "questions-words asks for analogies, which the sparse space both_sides",
            "recipes.both_sides.n_columns=100000": "n_columns is 100000",
            "recipes.lpp.n_neighbors=500": "500 neighbors of each row are asked for, but each of",
            "recipes.lsa.n_dropped=5000": "n_components + n_dropped is",
            "recipes.maps.n_components=300": "300 eigenvectors are wanted",
        },
    ),
    "topics": System(
        topics.write_long,
        (),
        "60 words, 1,800 pairs",
        {"report.score_labels=true": "report", "topics.shift=1.0": "topics evaluation report"},
        {
            "corpus.paths=['none.jsonl']": "none.jsonl",
            "semantic.workspace=nowhere": "no distembed workspace",
            "topics.method=lda": "topics.method = 'lda' is not allowed",
            "topics.methods=['nmf']": "did you mean",
        },
        {
            "corpus.text_field=body": 'has no field "body"',
            "documents.labels=['fish']": "the labels of the collection are x, y",
            "topics.n_topics=7000": "7000 components or clusters were asked for",
            "vocabulary.min_documents=1000": "lower min_documents or raise max_share",
        },
    ),
    "transfer": System(
        transfer.write,
        ("evaluation.n_seeds=1", "topics.n_iter=11"),
        "240 documents, ",
        {"alignment.regularization=1.0": "embedding evaluation report"},
        {
            "collections.first.paths=['none.jsonl']": "none.jsonl",
            "evaluation.topic=4": "there are 4 topics: choose 0 to 3",
            "pairs.share=0.0": "pairs.share",
            "pairs.shares=0.1": "did you mean share?",
            "representation.kind=tf_idf": "'tf_idf' has no such key: methods with it are lsa",
        },
        {
            "alignment.n_neighbors=120": "120 neighbors of each row are asked for",
            "collections.first.id_field=label": "occurs twice in the first collection",
            "collections.second.text_field=three": 'no field "three"',
            "topics.n_topics=500": "500 components",
        },
    ),
    "comparison": System(
        comparison.write,
        (),
        "8,003 tokens, 54 words",
        {"comparison.bootstrap=9": "differences report"},
        {"comparison.min_counts=3": "did you mean min_count", "counting.direction=left": "direction"},
        {
            "comparison.min_count=100000": "no word can be judged",
            "corpus.label_field=era": "the corpus has no parts by the column 'label', and a comparison needs two",
            "corpus.label_field=id": "has one document or file alone",
            "parts.bins=[1800, 1900]": "has 'new', which is no date",
            "parts.column=era": "parts.column is 'era', and the documents have 'label', 'title', 'id', 'file'",
            "parts.names=['old', 'old']": "parts.names has 'old' twice",
            "parts.names=['old', 'older']": "'older'; the parts of the corpus are new, old",
            "parts.names=['old']": "the corpus has the part 'old' alone",
            "psdvec.n_components=1000": "n_components",
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

    @property
    def settings(self) -> tuple[str, ...]:
        return SYSTEMS[self.system].settings

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
def finished(request, tmp_path_factory):
    """Return a small job of a system, run once for all of pytest-xdist's workers and for the tests of the system."""
    system = SYSTEMS[request.param]
    words = tuple(word for setting in system.settings for word in ("--set", setting))
    job = written_once(tmp_path_factory, request.param, system.write)
    workspace, _ = run_once(tmp_path_factory, job, *words)
    made = workspace.with_suffix(".made").read_text().splitlines()
    return Finished(request.param, (str(job), *words), workspace, made)


@pytest.fixture
def copy(finished, tmp_path):
    return Path(shutil.copytree(finished.workspace, tmp_path / "copy"))


def digest(finished: Finished, workspace: Path) -> str:
    """Return the digest of a workspace of the job, in which `verify` finds no fault."""
    return digest_here(Path(finished.job[0]), workspace, *finished.job[1:])


@pytest.fixture(scope="module")
def whole(finished):
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
    ("finished", "stages"), cells({("psdvec", "two")}, [("two",), ("each",)]), indirect=["finished"]
)
def test_a_run_killed_in_its_stages_ends_with_the_same_bytes_by_one_thread(finished, whole, tmp_path, stages):
    """Each run dies half way through a stage, or through the report; no later one writes a finished block again.

    By default they die in the two stages that make the most files. One thread ends what two have begun.
    """
    workspace, kept, halves = tmp_path / "w", dict[str, int](), finished.halves()
    largest = sorted(halves, key=lambda first: halves[first])[-2:]
    for first in halves if stages == "each" else [first for first in halves if first in largest]:
        kill = f"{workspace}/{first}:{halves[first]}"
        code, output = watched(tmp_path / "log", *finished.job, "--workspace", workspace, kill=kill)
        assert code == -signal.SIGKILL, (first, output)
        kept |= recorded(workspace)
    succeed("run", *finished.job, "--workspace", workspace, "--workers", "1")
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
    cells({("imputation", part) for part in PARTS}, [(part,) for part in PARTS]),
    indirect=["finished"],
)
def test_damage_is_named_and_only_it_is_repaired(finished, whole, copy, part):
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


@pytest.mark.cluster
@pytest.mark.parametrize(
    ("finished", "workers"),
    cells({("imputation", "cluster")}, [("cluster",), ("processes",), ("threads",)]),
    indirect=["finished"],
)
def test_workers_of_any_kind_do_not_change_a_bit(request, finished, whole, tmp_path, workers):
    scheduler = request.getfixturevalue("cluster") if workers == "cluster" else workers
    alone = ("--workers", "1") if workers == "threads" else ()
    succeed("run", *finished.job, "--workspace", tmp_path / "w", "--scheduler", scheduler, *alone)
    assert digest(finished, tmp_path / "w") == whole


def test_a_second_run_does_nothing_and_a_change_only_what_depends_on_it(finished, whole, copy):
    before = times(copy)
    done = succeed("run", *finished.job, "--workspace", copy)
    assert "nothing to do" in done.output
    assert times(copy) == before
    for setting, stages in SYSTEMS[finished.system].redone.items():
        changed = load_job(finished.job[0], workspace=str(copy), settings=(*finished.settings, setting))
        assert " ".join(run_stages(changed, replace=True).ran) == stages, setting
        is_same = f"digest {de.Workspace.open(copy).digest()}" == whole
        assert is_same == (stages == "report"), setting


CACHES = ("/__pycache__", "/numba", "/matplotlib")
"""Parts of the paths where Python, numba and matplotlib keep what they compile and find, on their first run."""


def test_nothing_is_written_outside_the_workspace_and_plan_knows_every_stage(finished):
    places = {line.split(" ", 1)[1] for line in finished.made if not any(part in line for part in CACHES)}
    assert places
    assert {place for place in places if not f"{place}/".startswith(f"{finished.workspace}/")} == set()
    folder = finished.workspace.parent
    before = times(finished.workspace)  # other runs may begin beside it
    for workspace in (finished.workspace, folder / "absent"):
        done = succeed("plan", *finished.job, "--workspace", workspace)
        for stage in de.Workspace.open(finished.workspace).stages():
            assert re.search(rf"^{stage} +\d", done.output, re.MULTILINE), stage
        if workspace.exists():
            assert SYSTEMS[finished.system].sizes in done.output
    assert times(finished.workspace) == before
    assert not (folder / "absent").exists()


def pattern_of(text: str) -> str:
    """Return a regular expression for a name or a meaning, of which a job fills in the parts in braces."""
    return re.sub(r"\\\{\w+\\\}", ".*", re.escape(text))


DECLARED = {"table": TableOutput, "files": FilesOutput, "bytes": FileOutput, "page": FileOutput}


def test_a_finished_job_holds_what_its_system_declares(finished):
    declared = (*system_named(finished.system).outputs, REPORT, SUMMARY)
    workspace = de.Workspace.open(finished.workspace)
    specs = [record.spec for done in workspace.stages().values() for record in done.outputs.values()]
    for spec in (spec for spec in specs if not spec.name.startswith("checkpoints/")):
        kind = DECLARED.get(spec.kind, ArrayOutput)
        named = [output for output in declared if re.fullmatch(pattern_of(output.name), spec.name)]
        outputs = [output for output in named if isinstance(output, kind)]
        if spec.is_array:
            outputs = [output for output in outputs if re.fullmatch(pattern_of(output.meaning), spec.meaning)]
            assert spec.dims in {*(output.dims for output in outputs), ("left_word", "right_word")}, spec
            types = {name for output in outputs for name in output.dtype.split(" or ")}
            assert str(workspace.array(spec.name).dtype) in types, spec
            assert spec.units in {output.units for output in outputs}, spec
        if spec.kind == "table":
            columns = set(workspace.table(spec.name).column_names)
            assert any(columns >= {*output.columns} for output in outputs), spec
        assert spec.temporary in {output.temporary for output in outputs}, spec


@pytest.mark.parametrize(
    ("finished", "then"),
    cells({(name, "no more") for name in SYSTEMS} | {("imputation", "run")}, [("no more",), ("run",)]),
    indirect=["finished"],
)
def test_a_fault_is_one_sentence_and_loses_nothing(finished, whole, copy, then):
    system = SYSTEMS[finished.system]
    for setting, sentence in (system.wrong | system.found_wrong).items():
        before = times(copy)
        done = run("run", *finished.job, "--workspace", copy, "--replace", "--set", setting)
        assert done.exit_code == 2, (setting, done.output)
        if setting in system.wrong:
            assert times(copy) == before, setting
        assert sentence in done.stderr, setting
        assert len(done.stderr.strip().splitlines()) == 1, done.stderr
    if then == "run":
        succeed("run", *finished.job, "--workspace", copy)
        assert digest(finished, copy) == whole
