"""What is done stays; what changed, inside or outside of a workspace, is said before it is computed again."""

from __future__ import annotations

import os
import shutil
import sys
import time
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import fsspec
import pytest

import distembed as de
from distembed.job import inputs, provenance, state
from distembed.job.inputs import code_file, stamps_at
from distembed.job.opening import open_job
from distembed.job.stage import REPORT
from distembed.job.state import ReplaceError
from distembed.job.status import verify_job
from distembed.stages import corpus
from distembed.storage import stage as stage_module
from distembed.storage.stage import Stage
from tests.commands import forget_stage, reopen_stage, run, succeed
from tests.tiny_job import STAGES, again, computed, files_of, write_set


def killed_at(owner: object, name: str, folder: Path) -> None:
    """Run the job of a folder until it calls a function, and end it there, as Ctrl-C does."""
    with mock.patch.object(owner, name, side_effect=KeyboardInterrupt), pytest.raises(KeyboardInterrupt):
        computed(folder)


def stages_of(folder: Path) -> dict:
    return de.Workspace.open(folder / "w").stages()


def verified(folder: Path) -> tuple[list[str], str]:
    """Return what `verify` finds in the workspace of a job, and its digest."""
    return verify_job(open_job(str(folder / "job.toml")))


@pytest.fixture
def other_versions(tiny, monkeypatch) -> dict[str, str]:
    """Let this process have another NumPy and another distembed; return the versions that made the workspace."""
    made = stages_of(tiny)["core"].made_with
    monkeypatch.setattr(provenance, "made_with", lambda: {**made, "numpy": "9.9", "distembed": "another"})
    return made


# --- what is not whole -----------------------------------------------------------------------------------------------


def test_a_missing_manifest_is_no_success(tiny):
    whole = verified(tiny)
    for removed, source in ((("core",), "job.toml"), (STAGES, "w")):
        for stage in removed:
            reopen_stage(tiny / "w", stage, *(["core_vectors"] if stage == "core" else []))
        done = run("verify", tiny / source)
        assert done.exit_code == 1
        assert "digest" not in done.output
        assert all(f"stage {stage} is not committed" in done.output for stage in removed)
        assert "core_vectors 0 of 1 blocks" in run("status", tiny / "w").output
        assert set(computed(tiny).ran) == set(removed)
        assert verified(tiny) == whole


def test_verify_says_who_was_writing_when_it_began(tiny, monkeypatch):
    """A run that ends while its workspace is checked has changed what was judged."""
    with de.Workspace.create(tiny / "w", owner="a rerun") as workspace:
        monkeypatch.setattr("distembed.job.status.verify_job", lambda _: (workspace.close(), ([], "0"))[1])
        assert run("verify", tiny / "job.toml").output.startswith("being written by a rerun (process")


def test_a_job_stopped_on_purpose_is_not_whole(tiny):
    succeed("run", tiny / "job.toml", "--workspace", tiny / "v", "--until", "vocabulary")
    done = run("verify", tiny / "job.toml", "--workspace", tiny / "v")
    assert done.exit_code == 1
    assert "stage core is not committed" in done.output
    assert "core            not finished: not begun" in run("status", tiny / "v").output
    words = ("status", tiny / "job.toml", "--set", "counting.window=2", "--workspace", tiny / "a place")
    told = f"type: distembed run {tiny}/job.toml --set counting.window=2 --workspace '{tiny}/a place'"
    assert told in run(*words).output


def test_a_stage_that_rests_on_a_replaced_one_is_no_success(tiny):
    assert computed(tiny, "counting.window=2").ran
    shutil.copytree(tiny / "w", tiny / "v")
    assert computed(tiny, "vocabulary.min_count=2").ran
    for manifest in ("manifest/core.json", "manifest/copies/core.json"):
        shutil.copy(tiny / "v" / manifest, tiny / "w" / manifest)
    said = "manifest/core.json: computed from another cooccurrence than there is now"
    assert said in run("verify", tiny / "w").output
    said = "core            outdated: will be computed again because it rests on"
    assert said in run("status", tiny / "w").output


def test_a_run_says_what_it_mends_and_verify_is_silent_then(tiny):
    _, whole = verified(tiny)
    (tiny / "w/manifest/core.json").unlink()
    (tiny / "w/manifest/copies/vectors.json").write_bytes(b"{}")
    (tiny / "w/arrays.zarr/zarr.json").write_bytes(b"")
    (tiny / "w/arrays.zarr/stray").write_bytes(b"x")
    (tiny / "w/workspace.json").write_bytes(b"")
    (tiny / "w/job.toml").unlink()
    sentences = verified(tiny)[0]
    assert {"workspace.json: truncated", "manifest/core.json: missing (stage core)"} <= set(sentences)
    named = {sentence.partition(":")[0] for sentence in sentences}
    assert len(named) == 5
    done = run("run", tiny / "job.toml")
    assert "repaired 5 files: all " in done.output
    assert all(f"{name} (" in done.output for name in named)
    assert verify_job(open_job(str(tiny / "w"))) == ([], whole)


@pytest.mark.parametrize("way", ["delete", "write over"])
def test_what_a_plan_would_read_is_repaired_in_a_job_that_is_to_go_on(tiny, way):
    """A plan is made before anything is repaired, and counts by what earlier stages have kept."""
    whole = verified(tiny)
    forget_stage(tiny / "w", "core")
    for path in [tiny / "w/vocabulary.parquet", *(tiny / "w").glob("tokens/*/part*")]:
        path.unlink() if way == "delete" else path.write_bytes(b"x")
    succeed("plan", tiny / "job.toml")
    assert computed(tiny).ran
    assert verified(tiny) == whole


# --- what a run replaces ---------------------------------------------------------------------------------------------


def test_finished_work_is_replaced_only_when_asked_for(tiny, monkeypatch):
    monkeypatch.setattr(state, "ASKED_SECONDS", 0.0)
    changed = (tiny / "job.toml", "--set", "counting.window=2")
    before = files_of(tiny / "w")
    refused = run("run", *changed)
    assert refused.exit_code == 2
    assert "vectors will be computed again because it rests on core; it took" in refused.output
    assert "--replace" in refused.output
    assert files_of(tiny / "w").items() >= before.items()
    told = [refused, *(run(command, *changed) for command in ("plan", "status", "verify"))]
    assert ["counting.window was 3, is 2" in one.output for one in told] == [True] * 4
    assert told[-1].exit_code == 0
    succeed("run", *changed, "--replace")
    assert again(tiny, "counting.window=2").ran == ()


def test_an_interrupted_stage_is_work_too(tiny, monkeypatch):
    monkeypatch.setattr(state, "ASKED_SECONDS", 1000.0)
    for stage in ("core", "vectors", "evaluation"):
        forget_stage(tiny / "w", stage)
    with monkeypatch.context() as patch:
        patch.setattr("distembed.storage.journal.time", SimpleNamespace(monotonic=count(0, 2000).__next__))
        killed_at(Stage, "commit", tiny)
    with pytest.raises(ReplaceError, match="core"):
        again(tiny, "psdvec.n_components=3")


def test_other_versions_keep_what_is_done_and_repair_it_as_a_whole(tiny, other_versions):
    job_file = (tiny / "w" / "job.toml").read_bytes()
    done = run("run", tiny / "job.toml", "--until", STAGES[-1])
    assert "kept, though made with other versions" in done.output
    assert "nothing to do" in done.output
    assert (tiny / "w" / "job.toml").read_bytes() == job_file
    (tiny / "w" / "arrays.zarr" / "core_vectors" / "c" / "0" / "0").write_bytes(b"")
    done = run("run", tiny / "job.toml", "--until", STAGES[-1])
    assert "core will be computed again because it is damaged and was made with " in done.output
    assert stages_of(tiny)["core"].made_with["numpy"] == "9.9"
    assert stages_of(tiny)["vectors"].made_with == other_versions


@pytest.mark.usefixtures("other_versions")
@pytest.mark.filterwarnings("ignore:Stage 'cooccurrence' was repaired")
def test_a_repair_by_other_versions_that_is_killed_ends_as_one_that_is_not(tiny, tmp_path, monkeypatch):
    counted = corpus.added_runs
    # as other versions might
    monkeypatch.setattr(corpus, "added_runs", lambda *given, **more: counted(*given, **more) * 2)
    next((tiny / "w/arrays.zarr/cooccurrence/000000").rglob("c/0")).unlink()
    shutil.copytree(tiny, tmp_path / "whole")
    ran = ("cooccurrence", "core", "vectors", "evaluation")
    assert computed(tmp_path / "whole").ran == ran
    for owner, name in ((Stage, "commit"), (stage_module, "remove_stage")):
        killed_at(owner, name, tiny)
        assert "core" in stages_of(tiny)
    assert "rests on cooccurrence, whose content is another now" in run("status", tiny / "job.toml").output
    assert computed(tiny).ran == ran[1:]
    assert verified(tiny) == verified(tmp_path / "whole")


def test_temporary_outputs_go_though_the_run_was_killed_before_they_went(tiny):
    forget_stage(tiny / "w", "cooccurrence")
    killed_at(stage_module, "remove_journal", tiny)
    assert "cooccurrence" in stages_of(tiny)
    assert list((tiny / "w/cooccurrence_runs").iterdir())
    assert computed(tiny).ran == ()
    assert not (tiny / "w/cooccurrence_runs").exists()
    assert not (tiny / "w/journal/cooccurrence").exists()


# --- the report and the copy of the job ------------------------------------------------------------------------------


def test_the_report_of_another_version_is_drawn_again_when_it_is_asked_for(tiny, request):
    before = (tiny / "w" / REPORT.name).stat().st_mtime_ns
    succeed("report", tiny / "job.toml")
    assert (tiny / "w" / REPORT.name).stat().st_mtime_ns == before
    request.getfixturevalue("other_versions")
    succeed("report", tiny / "job.toml")
    assert stages_of(tiny)["report"].made_with["distembed"] == "another"


def test_a_report_is_of_this_job_and_of_the_data_that_is_there(tiny):
    report = tiny / "w" / REPORT.name
    assert again(tiny, "report.words=['word7']").ran == ("report",)
    assert "word7" in report.read_text()
    done = run("run", tiny / "job.toml", "--set", "counting.window=2", "--until", "cooccurrence")
    assert "stopped after cooccurrence; the same command without --until goes on" in done.output
    assert not report.exists()
    refused = run("report", tiny / "job.toml")
    assert refused.exit_code == 2
    assert "stage cooccurrence is outdated, because counting.window was 2, is 3" in refused.output


def test_nothing_is_written_into_a_workspace_from_outside(tiny):
    (tiny / "out").symlink_to(tiny / "w" / "report")
    inside = (f"{tiny}/w/vectors.txt", f"file://{tiny}/w/vectors.txt", f"{tiny}/out/vectors.txt")
    for place in (*inside, f"static:{tiny}/w/report/model"):
        refused = run("export", tiny / "w", "--to", place)
        assert refused.exit_code == 2
        said = f"lies in the workspace {tiny}/w, which holds only what its job makes"
        assert said in " ".join(refused.output.split())
    with pytest.raises(ValueError, match="lies in the workspace"):
        de.run_job(str(tiny / "job.toml")).export(tiny / "w" / "vectors.txt")


def test_the_copy_of_the_job_is_the_job_as_it_was_run(tiny):
    before = files_of(tiny / "w")
    assert again(tiny, "resources.memory_limit='3GiB'").ran == ()
    assert files_of(tiny / "w") == before
    assert computed(tiny, "resources.memory_limit='3GiB'", "evaluation.unknown='zero'").ran == ("evaluation",)
    recorded = open_job(str(tiny / "w"))
    assert recorded.resources.memory_limit == 3 * 2**30
    assert recorded.job.workspace == str(tiny / "w")
    assert recorded.corpus.paths == (str(tiny / "text" / "*.txt"),)


# --- how a job is read -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("block_memory", "stage"), [("2GiB", "cooccurrence"), ("1MiB", "evaluation")])
def test_a_later_stage_is_refused_as_soon_as_its_sizes_are_counted(tiny, block_memory, stage):
    """The run computed its core for minutes before it refused the stage after it."""
    settings = ("resources.memory_limit='540MiB'", f"resources.block_memory='{block_memory}'")
    with pytest.raises(MemoryError, match=f"a task of stage {stage}"):
        again(tiny, *settings, "job.workspace='new'")
    assert set(de.Workspace.open(tiny / "new").stages()) == {"tokens", "vocabulary"}


def test_a_folder_that_holds_the_workspace_is_not_read(tiny):
    whole = ("--set", "corpus.paths=['text']", "--workspace")
    for command in ("plan", "run"):
        done = run(command, tiny / "job.toml", *whole, tiny / "text/w")
        assert done.exit_code != 0
        assert f"reads all of {tiny}/text, and its workspace {tiny}/text/w lies inside" in done.output
    assert not (tiny / "text/w").exists()
    for place in ("text/.hidden/w", "text and more"):
        succeed("plan", tiny / "job.toml", *whole, tiny / place)


def test_a_touch_changes_nothing_and_other_evaluation_sets_are_scored(tiny):
    sets, scored = tiny / "sets", ("evaluation",)
    for change, ran in (
        (lambda: os.utime(tiny / "text" / "a.txt", (1, 1)), ()),
        (lambda: write_set(sets, "second", 5), scored),
        (lambda: None, ()),
        (lambda: write_set(sets, "second", 4), scored),  # of the same size
        ((sets / "second.tsv").unlink, scored),
    ):
        change()
        assert computed(tiny).ran == ran


def test_a_corpus_moved_away_blocks_no_later_stage(tiny):
    shutil.move(tiny / "text", tiny / "elsewhere")
    assert computed(tiny, "psdvec.n_components=3").ran == ("core", "vectors", "evaluation")
    job = open_job(str(tiny / "job.toml"), settings=("psdvec.n_components=3",))
    assert verify_job(job)[0] == ["stage report is not committed: it has no manifest"]
    before = files_of(tiny / "w")
    with pytest.raises(FileNotFoundError, match=r"\*.txt"):
        again(tiny, "corpus.lowercase=false")
    assert files_of(tiny / "w") == before


HIDDEN = (".DS_Store", ".git/index", "~$a.txt", "Thumbs.db", "desktop.ini", ".notes.tsv", ".old/first.tsv")


def test_hidden_files_change_nothing(tiny):
    """What the readers of a folder leave out is no input: of a glob of texts, and of a folder of sets."""
    jobs = [
        ("corpus.paths=['text']", "job.workspace='v'"),
        ("corpus.paths=['text/*']", "job.workspace='glob'"),
    ]
    for job in jobs:
        assert computed(tiny, *job).ran == STAGES
    for folder, name in ((folder, name) for folder in (tiny / "text", tiny / "sets") for name in HIDDEN):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text("word1\tword2\t5\n")
    for job in (*jobs, ()):
        assert computed(tiny, *job).ran == ()
    assert len({de.Workspace.open(tiny / name).digest() for name in ("v", "w", "glob")}) == 1


def test_the_files_of_a_zarr_array_are_not_hidden(tmp_path):
    for name in (".zarray", "0.0", ".DS_Store"):
        (tmp_path / name).write_text("{}")
    assert list(stamps_at(str(tmp_path))) == [".zarray", "0.0"]


def test_files_are_known_by_content_where_their_store_tells_no_versions(monkeypatch):
    monkeypatch.setattr("distembed.job.inputs.DIGESTED_BYTES", 0)
    stamps = []
    for data in (b"one", b"two"):
        fsspec.filesystem("memory").pipe_file("/stamped/a.txt", data)
        stamps.append(stamps_at("memory://stamped/a.txt"))
    assert stamps[0] != stamps[1]
    assert stamps_at("memory://stamped/*.txt") == stamps_at("memory://stamped") == stamps[1]


# --- hints, which save reading ---------------------------------------------------------------------------------------


@pytest.fixture
def file(tmp_path, monkeypatch) -> Path:
    """Return a file that counts as large."""
    monkeypatch.setattr(inputs, "DIGESTED_BYTES", 2)
    (tmp_path / "large").write_bytes(b"one")
    return tmp_path / "large"


@pytest.fixture
def reads(monkeypatch) -> list[str]:
    """Return the files that are read to know them by their content."""
    found, read = [], inputs._content
    monkeypatch.setattr(inputs, "_content", lambda *args: found.append(args[1]) or read(*args))
    return found


def replace_keeping_time(path: Path, data: bytes) -> None:
    """Replace the content of a file as `cp -p` and `rsync -t` do, by other content of the same size and time."""
    before = path.stat()
    time.sleep(0.02)  # some steps of the clock
    path.write_bytes(data)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def test_hints_save_reading_and_are_no_evidence(file, reads, monkeypatch):
    monkeypatch.setattr(inputs, "SETTLED_NS", -1)
    hints = file.parent / "w" / inputs.HINTS

    def look() -> inputs.Stamps:
        """Look at the file as another process does."""
        inputs._hints.clear()
        return inputs.look_for(workspace)(str(file))

    with de.Workspace.create(file.parent / "w", owner="test") as workspace:
        with monkeypatch.context() as patch:
            patch.setattr(inputs, "SETTLED_NS", 10**18)  # as within a step of the clock
            stamps = {"large": look()}
            assert (stamps_at(str(file)), len(reads)) == (stamps["large"], 2)
        assert [stamps_at(str(file)) for _ in range(2)] == 2 * [stamps["large"]]
        assert len(reads) == 3
        reads.clear()
        look()
        inputs.keep_hints(workspace, [{inputs.FILES: stamps}])
        written = hints.stat().st_mtime_ns
        inputs.keep_hints(workspace, [{inputs.FILES: stamps}])
        assert hints.stat().st_mtime_ns == written
        assert (look(), len(reads)) == (stamps["large"], 1)
        replace_keeping_time(file, b"two")
        assert look() != stamps["large"]
        assert len(reads) == 2
        workspace.write_file(inputs.HINTS, b"damaged")
        look()
        assert len(reads) == 3
        monkeypatch.setattr(inputs.records, "RECORD_BYTES", 3)  # a file longer than any record is not read
        assert inputs._recorded_hints(workspace) == b""
    assert inputs.look_for(None)(str(file)) == {"large": [3, ""]}  # nothing to compare with
    assert len(reads) == 3


def test_a_run_keeps_the_hints_of_its_large_inputs(tiny, monkeypatch):
    for name, value in {"DIGESTED_BYTES": 1000, "NOTED_BYTES": 1000, "SETTLED_NS": -1}.items():
        monkeypatch.setattr(inputs, name, value)
    os.utime(tiny / "text" / "a.txt", (1, 1))
    for is_read in (True, False):
        inputs._hints.clear()
        done = run("run", tiny / "job.toml")
        assert ("to know it by its content" in done.output) == is_read
        assert "nothing to do" in done.output
        assert (tiny / "w" / inputs.HINTS).exists()


def test_a_tokenizer_is_known_by_its_source_and_not_imported(tmp_path, monkeypatch):
    (tmp_path / "of_mine").mkdir()
    for name, text in {"__init__.py": "raise SystemExit\n", "words.py": ""}.items():
        (tmp_path / "of_mine" / name).write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    assert code_file("of_mine.words:split") == (str(tmp_path / "of_mine" / "words.py"),)
    assert code_file("of_mine:split") == (str(tmp_path / "of_mine" / "__init__.py"),)
    (tmp_path / "folder").mkdir()  # without __init__.py
    (tmp_path / "folder" / "words.py").touch()
    assert code_file("folder.words:split") == (str(tmp_path / "folder" / "words.py"),)
    assert "of_mine" not in sys.modules
    assert code_file("unicode") == code_file("sys:intern") == code_file("no_such_module:f") == ()
