"""What is done stays, what changed is said before it is computed again, and nothing stale is trusted."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path
from types import SimpleNamespace

import pyarrow.parquet as pq
import pytest

import distembed as de
from distembed.job import inputs, load, provenance, state
from distembed.job.opening import open_job
from distembed.job.stage import EXPLORER, REPORT
from distembed.job.state import ReplaceError
from distembed.job.status import verify_job
from distembed.stages import corpus
from distembed.storage import stage as stage_module
from distembed.storage.stage import Stage
from tests.commands import forget_stage, reopen_stage, run, succeed
from tests.tiny_job import STAGES, again, computed, files_of

# --- verify asks for every stage -----------------------------------------------------------------------------


@pytest.mark.parametrize(("removed", "source"), [(("core",), "job.toml"), (STAGES, "w")], ids=["one", "all"])
def test_a_missing_manifest_is_no_success(tiny: Path, removed: tuple[str, ...], source: str) -> None:
    _, whole = verify_job(open_job(str(tiny / source)))
    for stage in removed:
        reopen_stage(tiny / "w", stage)
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
        monkeypatch.setattr("distembed.job.status.verify_job", lambda _: (workspace.close(), ([], "0"))[1])
        assert run("verify", tiny / "job.toml").output.startswith("being written by a rerun (process")


def test_a_job_stopped_on_purpose_is_not_whole(tiny: Path) -> None:
    succeed("run", tiny / "job.toml", "--workspace", tiny / "v", "--until", "vocabulary")
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
    for manifest in ("manifest/core.json", "manifest/copies/core.json"):
        shutil.copy(tiny / "v" / manifest, tiny / "w" / manifest)
    said = "manifest/core.json: computed from another cooccurrence than there is now"
    assert said in run("verify", tiny / "w").output
    assert (
        "core            outdated: will be computed again because it rests on"
        in run("status", tiny / "w").output
    )


# --- what a run replaces --------------------------------------------------------------------------------------


def test_finished_work_is_replaced_only_when_asked_for(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state, "ASKED_SECONDS", 0.0)
    changed = ("run", tiny / "job.toml", "--set", "counting.window=2")
    before = files_of(tiny / "w")
    refused = run(*changed)
    assert refused.exit_code == 2
    assert "counting.window was 3, is 2" in refused.output
    assert "vectors will be computed again because it rests on core; it took" in refused.output
    assert "--replace" in refused.output
    assert files_of(tiny / "w").items() >= before.items()
    assert "counting.window was 3, is 2" in run("plan", *changed[1:]).output
    assert "counting.window was 3, is 2" in run("status", *changed[1:]).output
    succeed(*changed, "--replace")
    assert again(tiny, "counting.window=2").ran == ()


def test_an_interrupted_stage_is_work_too(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state, "ASKED_SECONDS", 1000.0)
    for stage in ("core", "vectors", "evaluation"):
        forget_stage(tiny / "w", stage)
    with monkeypatch.context() as patch:
        patch.setattr(Stage, "commit", interrupt)
        patch.setattr("distembed.storage.journal.time", SimpleNamespace(monotonic=count(0, 2000).__next__))
        with pytest.raises(KeyboardInterrupt):
            computed(tiny)
    with pytest.raises(ReplaceError, match="core"):
        again(tiny, "psdvec.n_components=3")


def test_other_versions_keep_what_is_done_and_repair_it_as_a_whole(
    tiny: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job_file = (tiny / "w" / "job.toml").read_bytes()
    made = de.Workspace.open(tiny / "w").stages()["core"].made_with
    assert made["numpy"]
    monkeypatch.setattr(provenance, "made_with", lambda: {**made, "numpy": "9.9"})
    done = run("run", tiny / "job.toml")
    assert "kept, though made with other versions" in done.output
    assert "nothing to do" in done.output
    assert (tiny / "w" / "job.toml").read_bytes() == job_file
    (tiny / "w" / "arrays.zarr" / "core_vectors" / "c" / "0" / "0").write_bytes(b"")
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
    monkeypatch.setattr(provenance, "made_with", lambda: {**made, "numpy": "9.9"})
    counted = corpus.added_runs
    # as other versions might
    monkeypatch.setattr(corpus, "added_runs", lambda *given, **more: counted(*given, **more) * 2)
    next((tiny / "w/arrays.zarr/cooccurrence/000000").rglob("c/0")).unlink()
    shutil.copytree(tiny, tmp_path / "whole")
    ran = ("cooccurrence", "core", "vectors", "evaluation")
    assert computed(tmp_path / "whole").ran == ran
    with monkeypatch.context() as patch:
        patch.setattr(Stage, "commit", interrupt)
        with pytest.raises(KeyboardInterrupt):
            computed(tiny)
    assert "core" in de.Workspace.open(tiny / "w").stages()
    with monkeypatch.context() as patch:
        patch.setattr(stage_module, "remove_stage", interrupt)
        with pytest.raises(KeyboardInterrupt):
            computed(tiny)
    assert "rests on cooccurrence, whose content is another now" in run("status", tiny / "job.toml").output
    assert computed(tiny).ran == ran[1:]
    assert verify_job(open_job(str(tiny / "job.toml"))) == verify_job(
        open_job(str(tmp_path / "whole/job.toml"))
    )


def test_temporary_outputs_go_though_the_run_was_killed_before_they_went(
    tiny: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    forget_stage(tiny / "w", "cooccurrence")
    with monkeypatch.context() as patch:
        patch.setattr(stage_module, "remove_journal", interrupt)
        with pytest.raises(KeyboardInterrupt):
            again(tiny)
    assert "cooccurrence" in de.Workspace.open(tiny / "w").stages()
    runs = tiny / "w/cooccurrence_runs"
    assert list(runs.iterdir())
    assert computed(tiny).ran == ()
    assert not runs.exists()
    assert not (tiny / "w/journal/cooccurrence").exists()


def test_a_run_says_what_it_mends_and_verify_is_silent_then(tiny: Path) -> None:
    _, whole = verify_job(open_job(str(tiny / "job.toml")))
    (tiny / "w/manifest/core.json").unlink()
    (tiny / "w/manifest/copies/vectors.json").write_bytes(b"{}")
    (tiny / "w/arrays.zarr/zarr.json").write_bytes(b"")
    (tiny / "w/arrays.zarr/stray").write_bytes(b"x")
    (tiny / "w/workspace.json").write_bytes(b"")
    (tiny / "w/job.toml").unlink()
    sentences = verify_job(open_job(str(tiny / "job.toml")))[0]
    assert "workspace.json: truncated" in sentences
    assert "manifest/core.json: missing (stage core)" in sentences
    named = {sentence.partition(":")[0] for sentence in sentences}
    assert len(named) == 5
    done = run("run", tiny / "job.toml")
    assert "repaired 5 files: all " in done.output
    assert all(f"{name} (" in done.output for name in named)
    assert verify_job(open_job(str(tiny / "w"))) == ([], whole)


@pytest.mark.parametrize("damaged", ["vocabulary.parquet", "tokens/*/part*"])
@pytest.mark.parametrize(
    "damage", [Path.unlink, lambda path: path.write_bytes(b"x")], ids=["deleted", "written over"]
)
def test_what_a_plan_would_read_is_repaired_in_a_job_that_is_to_go_on(
    tiny: Path, damaged: str, damage: Callable[[Path], object]
) -> None:
    """A plan is made before anything is repaired, and counts by what earlier stages have kept."""
    _, whole = verify_job(open_job(str(tiny / "job.toml")))
    forget_stage(tiny / "w", "core")
    for path in (tiny / "w").glob(damaged):
        damage(path)
    succeed("plan", tiny / "job.toml")
    succeed("run", tiny / "job.toml")
    assert verify_job(open_job(str(tiny / "job.toml"))) == ([], whole)


def interrupt(*_: object, **__: object) -> None:
    """End a run here, as Ctrl-C does."""
    raise KeyboardInterrupt


# --- the report and the copy of the job -----------------------------------------------------------------------


def test_a_report_that_is_not_whole_is_drawn_again(tiny: Path) -> None:
    report = tiny / "w" / REPORT.name
    for damage in (report.unlink, lambda: report.write_bytes(report.read_bytes()[:100])):
        damage()
        assert "report/index.html" in run("verify", tiny / "w").output
        assert again(tiny).ran == ("report",)
        assert report.read_bytes().endswith(b"</html>\n")


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
    succeed("explore", tiny / "w")
    assert {REPORT.name, EXPLORER.name, "vocabulary.parquet"} < set(holders(tiny / "w", "zyzzyva"))
    (tiny / "text" / "b.txt").unlink()
    done = succeed("run", tiny / "job.toml")
    assert "explorer will be computed again because it rests on" in done.output
    assert holders(tiny / "w", "zyzzyva") == []
    assert (tiny / "w" / REPORT.name).exists()
    assert not (tiny / "w" / EXPLORER.name).exists()


def test_nothing_is_written_into_a_workspace_from_outside(tiny: Path) -> None:
    for place in ("w/vectors.txt", "static:w/report/model"):
        refused = run("export", tiny / "w", "--to", place.replace("w/", f"{tiny}/w/"))
        assert refused.exit_code == 2
        assert f"lies in the workspace {tiny}/w, which holds only what its job makes" in " ".join(
            refused.output.split()
        )
    with pytest.raises(ValueError, match="lies in the workspace"):
        de.run_job(str(tiny / "job.toml")).export(tiny / "w" / "vectors.txt")


def test_a_report_is_of_this_job_and_of_the_data_that_is_there(tiny: Path) -> None:
    report = tiny / "w" / REPORT.name
    assert again(tiny, "report.words=['word7']").ran == ("report",)
    assert "word7" in report.read_text()
    done = run("run", tiny / "job.toml", "--set", "counting.window=2", "--until", "cooccurrence")
    assert "stopped after cooccurrence; the same command without --until goes on" in done.output
    assert not report.exists()
    refused = run("report", tiny / "job.toml")
    assert refused.exit_code == 2
    assert "stage cooccurrence is outdated, because counting.window was 2, is 3" in refused.output


def test_the_report_of_another_version_is_drawn_again_when_it_is_asked_for(
    tiny: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = (tiny / "w" / REPORT.name).stat().st_mtime_ns
    succeed("report", tiny / "job.toml")
    assert (tiny / "w" / REPORT.name).stat().st_mtime_ns == before
    versions = {**provenance.made_with(), "distembed": "another"}
    monkeypatch.setattr(provenance, "made_with", lambda: versions)
    succeed("report", tiny / "job.toml")
    assert de.Workspace.open(tiny / "w").stages()["report"].made_with["distembed"] == "another"


def test_the_copy_of_the_job_is_the_job_as_it_was_run(tiny: Path) -> None:
    before = files_of(tiny / "w")
    assert again(tiny, "resources.memory_limit='3GiB'").ran == ()
    assert files_of(tiny / "w") == before
    assert computed(tiny, "resources.memory_limit='3GiB'", "evaluation.unknown='zero'").ran == ("evaluation",)
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
        succeed(*command)
    assert str(tiny / "w") in run("run", place).output


def test_status_tells_how_far_a_stage_is(tiny: Path) -> None:
    reopen_stage(tiny / "w", "core", "core_vectors")
    assert "core_vectors 0 of 1 blocks" in run("status", tiny / "w").output


def test_a_count_that_no_word_reaches_is_an_error_of_the_vocabulary(tiny: Path) -> None:
    with pytest.raises(ValueError, match="min_count is 5000 and the largest count of a word is 120"):
        again(tiny, "vocabulary.min_count=5000", "job.workspace='new'")
    assert list(de.Workspace.open(tiny / "new").stages()) == ["tokens"]


@pytest.mark.parametrize(
    ("block_memory", "stage"), [("2GiB", "cooccurrence"), ("1MiB", "evaluation")], ids=["next", "last"]
)
def test_a_later_stage_is_refused_as_soon_as_its_sizes_are_counted(
    tiny: Path, block_memory: str, stage: str
) -> None:
    """The run computed its core for minutes before it refused the stage after it."""
    settings = ("resources.memory_limit='540MiB'", f"resources.block_memory='{block_memory}'")
    with pytest.raises(MemoryError, match=f"a task of stage {stage}"):
        again(tiny, *settings, "job.workspace='new'")
    assert set(de.Workspace.open(tiny / "new").stages()) == {"tokens", "vocabulary"}


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


def test_a_job_file_is_read_once_with_the_sections_that_override_it(
    tiny: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts: list[Path] = []
    read = load.read_small
    monkeypatch.setattr(load, "read_small", lambda path, **most: texts.append(path) or read(path, **most))
    text = (tiny / "job.toml").read_text().replace("n_components = 4\n", "n_components = 0\n")
    (tiny / "job.toml").write_text(text)
    assert de.run_job(tiny / "job.toml", psdvec={"n_components": 4}).ran == ()
    assert texts == [tiny / "job.toml"]
