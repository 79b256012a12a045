"""What is done stays, what changed is said before it is computed again, and nothing stale is trusted."""

from __future__ import annotations

import os
import random
import shutil
import sys
import time
from pathlib import Path

import fsspec
import pyarrow.parquet as pq
import pytest

import distembed as de
from distembed.pipeline import derived, inputs, provenance, runner, standing
from distembed.pipeline.corpus import stages
from distembed.pipeline.corpus.stages import COUNTED_FIRST_BYTES
from distembed.pipeline.inputs import code_file, stamp_inputs, stamps_at
from distembed.pipeline.opening import open_job
from distembed.pipeline.runner import Outcome, run_job
from distembed.pipeline.standing import ReplaceError
from distembed.pipeline.status import job_status, verify_job
from distembed.storage import Stage
from distembed.storage.ledger import Ledger

from .conftest import forget_stage, run

STAGES = ("tokens", "vocabulary", "partial_counts", "cooccurrence", "core", "vectors", "evaluation")
TINY_JOB = """
[job]
title = "a tiny job"
workspace = "w"
[corpus]
paths = ["text/*.txt"]
numbers = true
[vocabulary]
min_count = 1
[psdvec]
n_components = 4
n_iter = 1
solver = "dense"
[evaluation]
sets = ["sets"]
[report]
words = ["word1"]
n_map_words = 10
[resources]
workers = 1
"""


def write_set(folder: Path, name: str, score: int) -> None:
    lines = [f"word{i}\tword{i + 1}\t{(i * score) % 7}" for i in range(20)]
    (folder / f"{name}.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a tiny job, its inputs and its finished workspace."""
    folder = tmp_path_factory.mktemp("tiny")
    (folder / "text").mkdir()
    (folder / "sets").mkdir()
    words = random.Random(0).choices([f"word{i}" for i in range(40)], k=4000)
    text = "\n".join(" ".join(words[i : i + 20]) for i in range(0, len(words), 20))
    (folder / "text" / "a.txt").write_text(text + "\n", encoding="utf-8")
    write_set(folder / "sets", "first", 3)
    (folder / "job.toml").write_text(TINY_JOB, encoding="utf-8")
    run_job(open_job(str(folder / "job.toml")))
    return folder


@pytest.fixture
def tiny(made: Path, tmp_path: Path) -> Path:
    """Return a copy of the finished job with its inputs in another folder, which makes no difference."""
    return Path(shutil.copytree(made, tmp_path / "tiny"))


def again(folder: Path, *settings: str, **options: bool) -> Outcome:
    """Run the job of a folder again."""
    return run_job(open_job(str(folder / "job.toml"), settings=settings), **options)  # type: ignore[arg-type]


def computed(folder: Path, *settings: str) -> Outcome:
    """Run the stages of the job of a folder again, and draw no report."""
    return run_job(open_job(str(folder / "job.toml"), settings=settings), until=STAGES[-1])


def files_of(workspace: Path) -> dict[str, int]:
    """Return the time of every file below a workspace, which a write changes."""
    return {str(p): p.stat().st_mtime_ns for p in workspace.rglob("*") if p.is_file()}


# --- verify asks for every stage -----------------------------------------------------------------------------


@pytest.mark.parametrize(("removed", "source"), [(("core",), "job.toml"), (STAGES, "w")], ids=["one", "all"])
def test_a_missing_manifest_is_no_success(tiny: Path, removed: tuple[str, ...], source: str) -> None:
    _, whole = verify_job(open_job(str(tiny / source)))
    for stage in removed:
        (tiny / "w" / "manifest" / f"{stage}.json").unlink()
    done = run("verify", tiny / source)
    assert done.exit_code == 1
    assert "digest" not in done.output
    for stage in removed:
        assert f"stage {stage} is not committed" in done.output
    assert set(computed(tiny).ran) == set(removed)
    assert verify_job(open_job(str(tiny / source))) == ([], whole)


def test_verify_says_who_was_writing_when_it_began(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that ends while its workspace is checked has changed what was judged."""
    with de.Workspace.create(tiny / "w", owner="a rerun") as workspace:
        monkeypatch.setattr(
            "distembed.pipeline.status.verify_job", lambda _: (workspace.close(), ([], "0"))[1]
        )
        assert run("verify", tiny / "job.toml").output.startswith("being written by a rerun (process")


def test_a_job_stopped_on_purpose_is_not_whole(tiny: Path) -> None:
    assert run("run", tiny / "job.toml", "--workspace", tiny / "v", "--until", "vocabulary").exit_code == 0
    done = run("verify", tiny / "job.toml", "--workspace", tiny / "v")
    assert done.exit_code == 1
    assert "stage core is not committed" in done.output
    absent = run(
        "status", tiny / "job.toml", "--set", "counting.window=2", "--workspace", tiny / "a place"
    ).output
    assert (
        f"type: distembed run {tiny}/job.toml --set counting.window=2 --workspace '{tiny}/a place'" in absent
    )
    assert "core            not finished: not begun" in run("status", tiny / "v").output


def test_verify_tells_where_the_job_asks_for_other_settings(tiny: Path) -> None:
    done = run("verify", tiny / "job.toml", "--set", "psdvec.n_components=3")
    assert done.exit_code == 0
    assert "core will be computed again because psdvec.n_components was 4, is 3" in done.output


def test_a_stage_that_rests_on_a_replaced_one_is_no_success(tiny: Path) -> None:
    assert computed(tiny, "counting.window=2").ran
    shutil.copytree(tiny / "w", tiny / "v")
    assert computed(tiny, "vocabulary.min_count=2").ran
    manifest = Path("manifest", "core.json")
    shutil.copy(tiny / "v" / manifest, tiny / "w" / manifest)
    said = "manifest/core.json: computed from another cooccurrence than there is now"
    assert said in run("verify", tiny / "w").output
    assert (
        "core            outdated: will be computed again because it rests on"
        in run("status", tiny / "w").output
    )


# --- what is read from outside --------------------------------------------------------------------------------


def test_a_folder_that_holds_the_workspace_is_not_read(tiny: Path) -> None:
    whole = ("--set", "corpus.paths=['text']", "--workspace")
    for command in ("plan", "run"):
        done = run(command, tiny / "job.toml", *whole, tiny / "text/w")
        assert done.exit_code != 0
        assert f"reads all of {tiny}/text, and its workspace {tiny}/text/w lies inside" in done.output
    assert not (tiny / "text/w").exists()
    assert run("plan", tiny / "job.toml", *whole, tiny / "text/.hidden/w").exit_code == 0
    assert run("plan", tiny / "job.toml", *whole, tiny / "text and more").exit_code == 0


def test_a_touch_and_a_move_change_nothing(tiny: Path) -> None:
    before = files_of(tiny / "w")
    os.utime(tiny / "text" / "a.txt", (1, 1))
    assert again(tiny).text.startswith("nothing to do")
    assert files_of(tiny / "w") == before


@pytest.mark.parametrize("change", ["added", "changed", "removed"])
def test_other_evaluation_sets_are_scored(tiny: Path, change: str) -> None:
    sets = tiny / "sets"
    write_set(sets, "second", 5)
    assert computed(tiny).ran == ("evaluation",)
    if change == "changed":
        write_set(sets, "second", 4)  # of the same size
    elif change == "removed":
        (sets / "second.tsv").unlink()
    assert computed(tiny).ran == (() if change == "added" else ("evaluation",))


def test_a_corpus_moved_away_blocks_no_later_stage(tiny: Path) -> None:
    shutil.move(tiny / "text", tiny / "elsewhere")
    assert computed(tiny, "psdvec.n_components=3").ran == ("core", "vectors", "evaluation")
    assert verify_job(open_job(str(tiny / "job.toml"), settings=("psdvec.n_components=3",)))[0] == []
    before = files_of(tiny / "w")
    with pytest.raises(FileNotFoundError, match=r"\*.txt"):
        again(tiny, "corpus.lowercase=false")
    assert files_of(tiny / "w") == before


def test_files_are_known_by_content_where_their_store_tells_no_versions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("distembed.pipeline.inputs.DIGESTED_BYTES", 0)
    store = fsspec.filesystem("memory")
    stamps = []
    for data in (b"one", b"two"):
        store.pipe_file("/stamped/a.txt", data)
        stamps.append(stamps_at("memory://stamped/a.txt"))
    assert stamps[0] != stamps[1]
    assert stamps_at("memory://stamped/*.txt") == stamps_at("memory://stamped") == stamps[1]


HIDDEN = (".DS_Store", ".git/index", "~$a.txt", "Thumbs.db", "desktop.ini", ".notes.tsv", ".old/first.tsv")


def test_hidden_files_change_nothing(tiny: Path) -> None:
    """What the readers of a folder leave out is no input: of a glob of texts, and of a folder of sets."""
    job = ("corpus.paths=['text']", "job.workspace='v'")
    assert computed(tiny, *job).ran == STAGES
    for folder in (tiny / "text", tiny / "sets"):
        (folder / ".git").mkdir()
        (folder / ".old").mkdir()
        for name in HIDDEN:
            (folder / name).write_text("word1\tword2\t5\n")
    assert computed(tiny, *job).ran == ()
    assert computed(tiny).ran == ()
    assert computed(tiny, "corpus.paths=['text/*']", "job.workspace='glob'").ran == STAGES
    digests = {de.Workspace.open(tiny / name).digest() for name in ("v", "w", "glob")}
    assert len(digests) == 1


def test_a_workspace_that_recorded_hidden_files_is_kept(tiny: Path) -> None:
    found = stamps_at(str(tiny / "text"))
    recorded = {**found, ".DS_Store": [3, "content 0"]}
    assert stamp_inputs([str(tiny / "text")], {"text": recorded}, stamps_at).stamps == {"text": recorded}
    (tiny / "text" / "a.txt").write_text("changed")
    assert stamp_inputs([str(tiny / "text")], {"text": recorded}, stamps_at).stamps["text"] != recorded


def test_the_files_of_a_zarr_array_are_not_hidden(tmp_path: Path) -> None:
    for name in (".zarray", "0.0", ".DS_Store"):
        (tmp_path / name).write_text("{}")
    assert list(stamps_at(str(tmp_path))) == [".zarray", "0.0"]


@pytest.fixture
def large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a file that counts as large, written long ago by the clock of this process."""
    monkeypatch.setattr(inputs, "DIGESTED_BYTES", 2)
    monkeypatch.setattr(inputs, "SETTLED_NS", -1)
    (tmp_path / "large").write_bytes(b"one")
    return tmp_path / "large"


def replace_keeping_time(path: Path, data: bytes) -> None:
    """Replace the content of a file as `cp -p` and `rsync -t` do, by other content of the same size and time."""
    before = path.stat()
    time.sleep(0.02)  # some steps of the clock
    path.write_bytes(data)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def test_large_files_are_known_by_their_content(large: Path) -> None:
    one = stamps_at(str(large))
    os.utime(large, (1, 1))
    assert stamps_at(str(large)) == one
    replace_keeping_time(large, b"two")
    two = stamps_at(str(large))
    assert two != one
    large.unlink()
    large.write_bytes(b"one")
    assert stamps_at(str(large)) == one


def test_hints_save_reading_and_are_no_evidence(large: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reads, read = [], inputs._content
    monkeypatch.setattr(inputs, "_content", lambda *args: reads.append(args[1]) or read(*args))
    with de.Workspace.create(large.parent / "w", owner="test") as workspace:
        stamps = {"large": inputs.look_for(workspace)(str(large))}
        inputs.keep_hints(workspace, [{inputs.FILES: stamps}])
        written = (large.parent / "w" / inputs.HINTS).stat().st_mtime_ns
        inputs.keep_hints(workspace, [{inputs.FILES: stamps}])
        assert (large.parent / "w" / inputs.HINTS).stat().st_mtime_ns == written
        inputs._hints.clear()  # another process
        assert inputs.look_for(workspace)(str(large)) == stamps["large"]
        assert len(reads) == 1
        inputs._hints.clear()
        replace_keeping_time(large, b"two")
        assert inputs.look_for(workspace)(str(large)) != stamps["large"]
        assert len(reads) == 2
        inputs._hints.clear()
        workspace.write_file(inputs.HINTS, b"damaged")
        inputs.look_for(workspace)(str(large))
        assert len(reads) == 3
    assert inputs.look_for(None)(str(large)) == {"large": [3, ""]}  # nothing to compare with
    assert len(reads) == 3


def test_a_run_keeps_the_hints_of_its_large_inputs(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inputs, "DIGESTED_BYTES", 1000)
    monkeypatch.setattr(inputs, "NOTED_BYTES", 1000)
    os.utime(tiny / "text" / "a.txt", (1, 1))
    monkeypatch.setattr(inputs, "SETTLED_NS", -1)
    inputs._hints.clear()
    done = run("run", tiny / "job.toml")
    assert "to know it by its content" in done.output
    assert "nothing to do" in done.output
    assert (tiny / "w" / inputs.HINTS).exists()
    inputs._hints.clear()
    assert "to know it by its content" not in run("run", tiny / "job.toml").output


def test_an_early_workspace_keeps_its_large_inputs_by_their_time(large: Path) -> None:
    recorded = {"large": {"large": [3, f"mtime {large.stat().st_mtime_ns} ns"], ".git": [1, "mtime 1 ns"]}}
    assert stamp_inputs([str(large)], recorded, no_plan).stamps == recorded
    os.utime(large, (1, 1))
    assert stamp_inputs([str(large)], recorded, stamps_at).stamps == {"large": stamps_at(str(large))}


def test_paths_of_one_name_are_told_apart_and_recorded_stamps_stand_in(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "x.txt").write_text(folder)
    paths = [str(tmp_path / folder / "x.txt") for folder in ("a", "b")]
    found = stamp_inputs(paths, {}, stamps_at)
    assert list(found.stamps) == ["x.txt", "x.txt (2)"]
    (tmp_path / "a" / "x.txt").unlink()
    later = stamp_inputs(paths, found.stamps, stamps_at)
    assert later.stamps == found.stamps
    assert later.absent == (paths[0],)


def test_a_tokenizer_is_known_by_its_source_and_not_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "of_mine").mkdir()
    (tmp_path / "of_mine" / "__init__.py").write_text("raise SystemExit\n")
    (tmp_path / "of_mine" / "words.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    assert code_file("of_mine.words:split") == (str(tmp_path / "of_mine" / "words.py"),)
    assert code_file("of_mine:split") == (str(tmp_path / "of_mine" / "__init__.py"),)
    assert "of_mine" not in sys.modules
    assert code_file("unicode") == code_file("sys:intern") == code_file("no_such_module:f") == ()


# --- what a run replaces --------------------------------------------------------------------------------------


def test_finished_work_is_replaced_only_when_asked_for(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(standing, "ASKED_SECONDS", 0.0)
    changed = ("run", tiny / "job.toml", "--set", "counting.window=2")
    before = files_of(tiny / "w")
    refused = run(*changed)
    assert refused.exit_code == 1
    assert "counting.window was 3, is 2" in refused.output
    assert "vectors will be computed again because it rests on core; it took" in refused.output
    assert "--replace" in refused.output
    assert files_of(tiny / "w").items() >= before.items()
    assert "counting.window was 3, is 2" in run("plan", *changed[1:]).output
    assert "counting.window was 3, is 2" in run("status", *changed[1:]).output
    assert run(*changed, "--replace").exit_code == 0
    assert again(tiny, "counting.window=2").ran == ()


def test_an_interrupted_stage_is_work_too(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(standing, "ASKED_SECONDS", 1000.0)
    for stage in ("core", "vectors", "evaluation"):
        (tiny / "w" / "manifest" / f"{stage}.json").unlink()
    os.utime(tiny / "w" / "manifest" / "core" / "stage.json", (1, 1))
    with pytest.raises(ReplaceError, match="core"):
        again(tiny, "psdvec.n_components=3")


def test_other_versions_keep_what_is_done_and_repair_it_as_a_whole(
    tiny: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job_file = (tiny / "w" / "job.toml").read_bytes()
    made = de.Workspace.open(tiny / "w").stages()["core"].made_with
    assert made["numpy"]
    assert made["blas"]
    monkeypatch.setattr(provenance, "of_this_process", lambda: {**made, "numpy": "9.9"})
    done = run("run", tiny / "job.toml")
    assert "kept, though made with other versions" in done.output
    assert "nothing to do" in done.output
    assert (tiny / "w" / "job.toml").read_bytes() == job_file
    files = (tiny / "w" / "arrays.zarr" / "core_vectors" / "000000").rglob("*")
    next(file for file in files if file.is_file() and file.name != "zarr.json").write_bytes(b"")
    done = run("run", tiny / "job.toml")
    assert "core will be computed again because it is damaged and was made with numpy" in done.output
    found = de.Workspace.open(tiny / "w").stages()
    assert found["core"].made_with["numpy"] == "9.9"
    assert found["vectors"].made_with == made


@pytest.mark.filterwarnings("ignore:Stage 'cooccurrence' was repaired")
def test_a_repair_by_other_versions_that_is_killed_ends_as_one_that_is_not(
    tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = de.Workspace.open(tiny / "w").stages()["core"].made_with
    monkeypatch.setattr(provenance, "of_this_process", lambda: {**made, "numpy": "9.9"})
    merged = stages.merged_runs
    monkeypatch.setattr(stages, "merged_runs", lambda *given: merged(*given) * 2)  # as other versions might
    next((tiny / "w/arrays.zarr/cooccurrence/000000").rglob("c/0")).unlink()
    shutil.copytree(tiny, tmp_path / "whole")
    ran = ("partial_counts", "cooccurrence", "core", "vectors", "evaluation")
    assert computed(tmp_path / "whole").ran == ran[1:]
    with monkeypatch.context() as patch:
        patch.setattr(Stage, "commit", interrupt)
        with pytest.raises(KeyboardInterrupt):
            computed(tiny)
    assert "core" in de.Workspace.open(tiny / "w").stages()
    with monkeypatch.context() as patch:
        remove = Ledger._remove_outdated
        patch.setattr(
            Ledger, "_remove_outdated", lambda known: interrupt() if known.name == ran[1] else remove(known)
        )
        with pytest.raises(KeyboardInterrupt):
            computed(tiny)
    assert "rests on cooccurrence, whose content is another now" in job_status(
        open_job(str(tiny / "job.toml"))
    )
    assert computed(tiny).ran == ran[2:]
    assert verify_job(open_job(str(tiny / "job.toml"))) == verify_job(
        open_job(str(tmp_path / "whole/job.toml"))
    )


def test_temporary_outputs_go_though_the_run_was_killed_before_they_went(
    tiny: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    forget_stage(tiny / "w", "cooccurrence")
    with monkeypatch.context() as patch:
        drop = de.Workspace.drop_temporary
        patch.setattr(
            de.Workspace,
            "drop_temporary",
            lambda w, name: interrupt() if name == "partial_counts" else drop(w, name),
        )
        with pytest.raises(KeyboardInterrupt):
            again(tiny)
    counts = tiny / "w/partial_counts"
    assert list(counts.iterdir())
    computed(tiny)
    assert not counts.exists()
    read = de.Workspace.open(tiny / "w").stages()
    kept = [
        r for name, m in read.items() if name != STAGES[-1] for r in m.outputs.values() if r.spec.temporary
    ]
    assert all(record.dropped for record in kept)


def test_a_run_says_what_it_mends_and_verify_is_silent_then(tiny: Path) -> None:
    _, whole = verify_job(open_job(str(tiny / "job.toml")))
    (tiny / "w/manifest/core/core_vectors/blocks/000000.json").unlink()
    (tiny / "w/manifest/core/stage.json").write_bytes(b"{}")
    (tiny / "w/arrays.zarr/zarr.json").write_bytes(b"")
    (tiny / "w/arrays.zarr/stray").write_bytes(b"x")
    (tiny / "w/workspace.json").write_bytes(b"")
    (tiny / "w/job.toml").unlink()
    named = {sentence.partition(":")[0] for sentence in verify_job(open_job(str(tiny / "job.toml")))[0]}
    assert len(named) == 5
    done = run("run", tiny / "job.toml")
    assert "nothing to do" in done.output
    assert all(f"mended {name}: " in done.output for name in named - {"workspace.json"})
    assert verify_job(open_job(str(tiny / "w"))) == ([], whole)


def interrupt(*_: object, **__: object) -> None:
    """End a run here, as Ctrl-C does."""
    raise KeyboardInterrupt


# --- the report and the copy of the job -----------------------------------------------------------------------


def test_a_report_that_is_not_whole_is_written_again(tiny: Path) -> None:
    report, seal = tiny / "w" / "report" / "index.html", tiny / "w" / "report" / "index.json"
    report.unlink()
    assert again(tiny).ran == ()
    page = report.read_bytes()
    for damage in (seal.unlink, lambda: report.write_bytes(page[:100])):
        damage()
        assert again(tiny).ran == ()
        assert report.read_bytes() == page
        assert seal.exists()


def holders(folder: Path, word: str) -> list[str]:
    """Return the files below a folder that hold a word: in their bytes, or in a column of a table."""

    def holds(file: Path) -> bool:
        table = pq.read_table(file) if file.suffix == ".parquet" else None
        return word.encode() in file.read_bytes() or (table is not None and word in str(table.to_pylist()))

    return [
        file.relative_to(folder).as_posix() for file in folder.rglob("*") if file.is_file() and holds(file)
    ]


def test_what_left_the_corpus_is_nowhere_in_the_workspace(tiny: Path) -> None:
    (tiny / "text" / "b.txt").write_text("zyzzyva word1 word2 word3\n" * 4)
    assert "tokens" in again(tiny, "report.words=['zyzzyva']").ran
    page = b"<p>zyzzyva</p>"
    with de.Workspace.create(tiny / "w", owner="test") as workspace:
        derived.keep(workspace, derived.EXPLORER, page)
        workspace.write_file("report/drawn tomorrow.svg", page)
    assert {derived.REPORT, derived.EXPLORER, "vocabulary.parquet"} < set(holders(tiny / "w", "zyzzyva"))
    (tiny / "text" / "b.txt").unlink()
    done = run("run", tiny / "job.toml", "--until", "tokens")
    assert "report/explore.html is removed" in done.output
    assert not (tiny / "w" / "report").exists() or not list((tiny / "w" / "report").iterdir())
    again(tiny)
    assert holders(tiny / "w", "zyzzyva") == []
    assert derived.is_kept(de.Workspace.open(tiny / "w"), derived.REPORT)


def test_verify_names_a_stale_page_and_a_run_removes_it(tiny: Path) -> None:
    """As after a kill between a commit and the removal of what was drawn from the content before it."""
    (tiny / "w" / derived.EXPLORER).write_text("of other content")
    done = run("verify", tiny / "w")
    assert done.exit_code == 1
    assert f"{derived.EXPLORER}: not made from what the workspace holds; a run removes it" in done.output
    assert again(tiny).ran == ()
    assert not (tiny / "w" / derived.EXPLORER).exists()
    assert run("verify", tiny / "w").exit_code == 0


def test_nothing_is_written_into_a_workspace_from_outside(tiny: Path) -> None:
    for place in ("w/vectors.txt", "static:w/report/model"):
        refused = run("export", tiny / "w", "--to", place.replace("w/", f"{tiny}/w/"))
        assert refused.exit_code == 2
        assert f"lies in the workspace {tiny}/w, which holds only what its job makes" in " ".join(
            refused.output.split()
        )
    with pytest.raises(ValueError, match="lies in the workspace"):
        de.run_job(str(tiny / "job.toml")).export(tiny / "w" / "vectors.txt")


def test_only_pages_hints_and_the_job_are_written_beside_the_stages() -> None:
    """A page that is written otherwise would outlive what it was made from: see `distembed.pipeline.derived`."""
    source = Path(de.__file__).parent / "pipeline"
    writers = {
        file.name for file in source.rglob("*.py") if ".write_file(" in file.read_text(encoding="utf-8")
    }
    assert writers == {"derived.py", "inputs.py", "runner.py"}


def test_a_run_until_the_last_stage_writes_no_report(tiny: Path) -> None:
    shutil.rmtree(tiny / "w" / "report")
    done = computed(tiny)
    assert "stopped after evaluation; the same command without --until goes on" in done.text
    assert not (tiny / "w" / "report").exists()


def test_a_report_is_of_this_job_and_of_the_data_that_is_there(tiny: Path) -> None:
    report = tiny / "w" / "report" / "index.html"
    assert again(tiny, "report.words=['word7']").ran == ()
    assert "word7" in report.read_text()
    run("run", tiny / "job.toml", "--set", "counting.window=2", "--until", "cooccurrence")
    assert not report.exists()
    done = run("report", tiny / "job.toml")
    assert done.exit_code == 1
    assert "stage partial_counts is outdated: will be computed again because counting.window" in done.output


def test_the_copy_of_the_job_is_the_job_as_it_was_run(tiny: Path) -> None:
    before = files_of(tiny / "w")
    assert again(tiny, "resources.memory_limit='3GiB'").ran == ()
    assert files_of(tiny / "w") == before
    assert computed(tiny, "resources.memory_limit='3GiB'", "evaluation.remove_mean=true").ran == (
        "evaluation",
    )
    recorded = open_job(str(tiny / "w"))
    assert recorded.resources.memory_limit == 3 * 2**30
    assert recorded.job.workspace == str(tiny / "w")
    assert recorded.corpus.paths == (str(tiny / "text" / "*.txt"),)


# --- a job or its workspace ------------------------------------------------------------------------------------


@pytest.mark.parametrize("source", ["job.toml", "w"])
def test_every_command_takes_a_job_or_its_workspace(tiny: Path, tmp_path: Path, source: str) -> None:
    place = tiny / source
    for command in (
        ("plan", place), ("run", place), ("status", place), ("verify", place), ("report", place),
        ("neighbors", place, "word1"), ("export", place, "--to", tmp_path / "v.txt"),
        ("evaluate", place, "--sets", tiny / "sets"),
    ):  # fmt: skip
        done = run(*command)
        assert done.exit_code == 0, done.output
    assert str(tiny / "w") in run("run", place).output


def test_status_tells_how_far_a_stage_is(tiny: Path) -> None:
    (tiny / "w" / "manifest" / "core.json").unlink()
    blocks = tiny / "w" / "manifest" / "core" / "core_vectors" / "blocks"
    next(blocks.iterdir()).unlink()
    assert "core_vectors 0 of 1 blocks" in job_status(open_job(str(tiny / "w")))


def no_plan(*_: object) -> None:
    raise AssertionError("planned")


def test_a_small_text_is_counted_before_it_is_planned(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A plan would read the whole text for its estimates; a longer text is planned before anything is made."""
    with pytest.raises(ValueError, match="min_count is 5000 and the largest count of a word is 120"):
        again(tiny, "vocabulary.min_count=5000", "job.workspace='new'")
    assert list(de.Workspace.open(tiny / "new").stages()) == ["tokens"]
    monkeypatch.setattr(runner, "plan_job", no_plan)
    assert computed(tiny, "job.workspace='other'").ran == STAGES
    monkeypatch.setattr(runner, "recorded_bytes", lambda _: COUNTED_FIRST_BYTES + 1)
    with pytest.raises(AssertionError, match="planned"):
        again(tiny, "job.workspace='newer'")
    assert not (tiny / "newer").exists()


def test_the_plan_after_the_first_stage_is_of_all_later_ones(tiny: Path) -> None:
    settings = ("resources.memory_limit='540MiB'", "job.workspace='new'")
    with pytest.raises(MemoryError, match="a task of stage"):
        again(tiny, "resources.block_memory='2GiB'", *settings)
    assert list(de.Workspace.open(tiny / "new").stages()) == ["tokens"]


def test_where_all_is_done_nothing_is_planned(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "plan_job", no_plan)
    monkeypatch.setattr(runner, "_plan_of_run", no_plan)
    monkeypatch.setattr(runner, "recorded_bytes", lambda _: COUNTED_FIRST_BYTES + 1)
    assert again(tiny).ran == ()


def test_a_file_known_by_its_content_is_read_once_until_it_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, reads, read = tmp_path / "words.txt", [], inputs._content
    monkeypatch.setattr(inputs, "_content", lambda *args: reads.append(args[1]) or read(*args))

    def stamps_of(data: bytes) -> list[object]:
        path.write_bytes(data)
        os.utime(path, ns=(10**18, 10**18))  # as a copy that keeps the time of what it copies
        time.sleep(0.05)  # some steps of the clock
        return [inputs.stamps_at(str(path)) for _ in range(2)]

    one, two = stamps_of(b"one"), stamps_of(b"two")
    assert one[0] == one[1] != two[0] == two[1]
    assert len(reads) == 4  # within one step of the clock a file may change and keep its time
    monkeypatch.setattr(inputs, "SETTLED_NS", 0)
    assert [stamps_of(b"one"), stamps_of(b"two")] == [one, two]
    assert len(reads) == 6
