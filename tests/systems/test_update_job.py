"""Vectors after a change of the text: from scratch, from those before, or those before and new words beside them."""

from __future__ import annotations

import random
import shutil
import signal
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import distembed as de
from distembed.factorization import drift_blocks
from distembed.linalg.blocks import directions
from distembed.storage.schema import NEXT
from tests.commands import run, succeed, watched

NEW_WORDS = ("novel", "modern")


def with_more_text(folder: Path) -> Path:
    """Add a file with two new words to the text of the tiny job."""
    words = random.Random(1).choices([*(f"word{i}" for i in range(40)), *NEW_WORDS], k=400)
    lines = [" ".join(words[i : i + 20]) for i in range(0, len(words), 20)]
    (folder / "text" / "b.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder


def run_again(folder: Path, update: str, *settings: str) -> tuple[de.Workspace, str]:
    """Run the job with the text that is there now."""
    words = [word for setting in (f"psdvec.update={update}", *settings) for word in ("--set", setting)]
    done = succeed("run", folder / "job.toml", "--replace", *words)
    return de.Workspace.open(str(folder / "w")), done.output


def vectors_of(workspace: de.Workspace) -> pd.DataFrame:
    words = workspace.table("vocabulary")["word"].to_pylist()
    return pd.DataFrame(workspace.array("vectors").compute(), index=words)


def objective_of(workspace: de.Workspace) -> list[float]:
    found: list[float] = workspace.table("objective")["weighted_squared_error"].to_pylist()
    return found


def from_scratch(folder: Path, *settings: str) -> de.Workspace:
    """Run the job with the text that is there now in a workspace of its own."""
    words = [word for setting in settings for word in ("--set", setting)]
    succeed("run", folder / "job.toml", "--workspace", folder / "fresh", "--until", "vectors", *words)
    return de.Workspace.open(str(folder / "fresh"))


def test_an_update_may_give_way_to_scratch_when_the_text_changes(tiny: Path) -> None:
    workspace, _ = run_again(tiny, "frozen")
    assert "previous" in workspace.stages()
    workspace, _ = run_again(with_more_text(tiny), "scratch")
    assert workspace.describe("vectors").digest == from_scratch(tiny).describe("vectors").digest
    assert "previous" not in workspace.stages()


def test_nothing_is_kept_of_vectors_of_a_text_that_was_withdrawn(tiny: Path) -> None:
    run_again(with_more_text(tiny), "warm")
    done = succeed("withdraw", tiny / "w", "--files", tiny / "text" / "b.txt")
    workspace = de.Workspace.open(str(tiny / "w"))
    assert not set(NEW_WORDS) & set(workspace.table("vocabulary")["word"].to_pylist()), done.output
    assert workspace.stages()["previous"].facts["n_words"] == 0
    files = [path for path in (tiny / "w").rglob("*") if path.is_file()]
    assert not [path for path in files if any(word.encode() in path.read_bytes() for word in NEW_WORDS)]


def test_frozen_leaves_old_vectors_and_solves_new_words(tiny: Path) -> None:
    before = vectors_of(de.Workspace.open(str(tiny / "w")))
    workspace, output = run_again(with_more_text(tiny), "frozen")
    after = vectors_of(workspace)
    pd.testing.assert_frame_equal(after.loc[before.index], before, check_exact=True)
    assert set(after.index) - set(before.index) == set(NEW_WORDS)
    assert (np.linalg.norm(after.loc[list(NEW_WORDS)], axis=1) > 0).all()
    assert "core: 40 words known, 2 words new" in output
    previous, core = (workspace.stages()[name].facts for name in ("previous", "core"))
    assert (
        core["noncore_scale"] == previous["noncore_scale"]
    )  # the weights of the fit, and not of the new words
    drift = workspace.table("drift").to_pandas()
    np.testing.assert_allclose(drift["cosine"], 1, atol=1e-6)
    assert (drift["neighbors_kept"] == 1).all()
    assert "nothing to do" in run_again(tiny, "frozen")[1]


def test_a_new_word_does_not_depend_on_the_others_that_are_new(tiny: Path) -> None:
    alone = Path(shutil.copytree(tiny, tiny.parent / "alone"))
    both, _ = run_again(with_more_text(tiny), "frozen")
    one, _ = run_again(with_more_text(alone), "frozen", "vocabulary.max_size=41")
    word = one.table("vocabulary")["word"].to_pylist()[-1]
    assert word in NEW_WORDS
    # The probabilities differ by the tokens of the word that is left out.
    np.testing.assert_allclose(vectors_of(one).loc[word], vectors_of(both).loc[word], rtol=0.02, atol=2e-3)


def test_warm_is_as_good_as_scratch(tiny: Path) -> None:
    settings = ("psdvec.n_iter=6", "psdvec.solver=krylov")
    with_more_text(tiny)
    fresh = objective_of(from_scratch(tiny, *settings))
    shutil.rmtree(tiny / "fresh")
    (tiny / "text" / "b.txt").rename(tiny / "b.txt")
    run_again(tiny, "scratch", *settings)
    (tiny / "b.txt").rename(tiny / "text" / "b.txt")
    workspace, _ = run_again(tiny, "warm", *settings)
    warm = objective_of(workspace)
    assert warm[-1] <= fresh[-1] * 1.01
    assert all(later <= earlier * (1 + 1e-6) for earlier, later in pairwise(warm))
    facts = workspace.stages()["drift"].facts
    assert (facts["n_shared"], facts["n_new"], facts["n_gone"]) == (40, 2, 0)
    report = (tiny / "w" / "report" / "index.html").read_text(encoding="utf-8")
    assert "Words that moved" in report
    assert "40 words had a vector before, 2 are new" in report


def test_without_earlier_vectors_warm_solves_from_scratch(tiny: Path) -> None:
    done = succeed("run", tiny / "job.toml", "--workspace", tiny / "new", "--set", "psdvec.update=warm")
    assert "no earlier vectors: they are solved from scratch" in done.output
    first, new = (de.Workspace.open(str(tiny / name)) for name in ("w", "new"))
    assert new.describe("vectors").digest == first.describe("vectors").digest


@pytest.mark.parametrize("update", ["warm", "frozen"])
def test_a_killed_update_ends_with_the_same_bytes(tiny: Path, update: str) -> None:
    killed = Path(shutil.copytree(tiny, tiny.parent / "killed"))
    before = vectors_of(de.Workspace.open(str(tiny / "w")))
    whole, _ = run_again(with_more_text(tiny), update)
    with_more_text(killed)
    words = (killed / "job.toml", "--replace", "--set", f"psdvec.update={update}")
    for stage in ("previous", "cooccurrence", "core", "drift"):
        commit = killed / "w" / NEXT / "manifest" / f"{stage}.json"
        code, output = watched(killed / f"{stage}.log", *words, kill=f"{commit}:1")
        assert code == -signal.SIGKILL, (stage, output)
        pd.testing.assert_frame_equal(vectors_of(de.Workspace.open(str(killed / "w"))), before)
    succeed("run", *words)
    again = de.Workspace.open(str(killed / "w"))
    for name in ("previous_vectors", "core_vectors", "vectors", "drift"):
        assert again.describe(name).digest == whole.describe(name).digest, name


def test_a_damaged_copy_is_not_mended_from_other_vectors(tiny: Path) -> None:
    with_more_text(tiny)
    settings = ("--set", "psdvec.update=warm", "--set", "psdvec.solver=krylov", "--set", "psdvec.n_iter=3")
    succeed("run", tiny / "job.toml", "--replace", *settings)
    files = [path for path in (tiny / "w/arrays.zarr/previous_vectors").rglob("*") if "c" in path.parts]
    chunk = next(path for path in files if path.is_file())
    chunk.write_bytes(chunk.read_bytes()[:-1])
    done = run("run", tiny / "job.toml", *settings)
    assert done.exit_code == 2
    assert "the copy of the earlier vectors" in done.output
    assert 'set psdvec.update = "scratch"' in done.output


def test_other_components_are_one_sentence(tiny: Path) -> None:
    with_more_text(tiny)
    settings = ("--replace", "--set", "psdvec.update=frozen", "--set", "psdvec.n_components=5")
    done = run("run", tiny / "job.toml", *settings)
    assert done.exit_code == 2
    assert "the earlier vectors have 4 components and psdvec.n_components is 5" in done.output


def test_finished_core_vectors_stay_and_other_words_are_solved(tiny: Path) -> None:
    first = vectors_of(de.Workspace.open(str(tiny / "w")))
    core = first.index[:20]
    de.WordVectors(list(core), first.loc[core].to_numpy(np.float32)).save(tiny / "core.safetensors")
    found = ("--set", "psdvec.core_vectors=core.safetensors", "--workspace", tiny / "given")
    succeed("run", tiny / "job.toml", *found)
    given = vectors_of(de.Workspace.open(str(tiny / "given")))
    pd.testing.assert_frame_equal(given.loc[core], first.loc[core], check_exact=True)
    assert (np.linalg.norm(given.drop(index=core), axis=1) > 0).all()
    assert "nothing to do" in succeed("run", tiny / "job.toml", *found).output
    done = run("run", tiny / "job.toml", *found, "--set", "psdvec.n_components=3", "--replace")
    assert done.exit_code == 2
    assert "have 4 components and psdvec.n_components is 3" in done.output
    de.WordVectors([f"no {word}" for word in core], first.loc[core].to_numpy(np.float32)).save(
        tiny / "other.safetensors"
    )
    done = run(
        "run", tiny / "job.toml", *found, "--set", "psdvec.core_vectors=other.safetensors", "--replace"
    )
    assert (
        "other.safetensors have none of the words of the core: are they of one language, and written"
        in done.output
    )
    done = run("run", tiny / "job.toml", *found, "--set", "psdvec.update=warm")
    assert done.exit_code == 2
    assert "leave one out" in done.output


def test_finished_core_vectors_are_those_of_the_split(tiny: Path) -> None:
    """With the vectors of a core that was solved before, the other words get those of the job that solved both."""
    settings = ("--set", "psdvec.n_core=20", "--until", "vectors")
    succeed("run", tiny / "job.toml", "--workspace", tiny / "split", *settings)
    split = vectors_of(de.Workspace.open(str(tiny / "split")))
    de.WordVectors(list(split.index[:20]), split[:20].to_numpy(np.float32)).save(tiny / "core.safetensors")
    given = ("--set", "psdvec.core_vectors=core.safetensors", "--until", "vectors")
    succeed("run", tiny / "job.toml", "--workspace", tiny / "given", *given)
    found = vectors_of(de.Workspace.open(str(tiny / "given")))
    np.testing.assert_allclose(found, split, atol=1e-5)


# --- the drift ----------------------------------------------------------------------------------------------------


def test_a_rotation_is_no_drift() -> None:
    draw = np.random.default_rng(0)
    first = directions(draw.standard_normal((50, 6)))
    turn = np.linalg.qr(draw.standard_normal((6, 6)))[0]
    second = first @ turn
    np.testing.assert_allclose(drift_blocks.rotation(first, second), turn, atol=1e-12)
    np.testing.assert_allclose(drift_blocks.cosines(first @ turn, second), 1)
    assert (drift_blocks.neighbors_kept(first, second, 50, 10) == 1).all()


def test_neighbors_that_change_are_counted() -> None:
    first = directions(np.array([[1, 0.0], [1, 0.1], [0, 1], [0.1, 1]]))
    second = first[[0, 2, 1, 3]]
    np.testing.assert_array_equal(drift_blocks.neighbors_kept(first, second, 4, 1), [0, 0, 0, 0])
    np.testing.assert_array_equal(drift_blocks.neighbors_kept(first, first, 9, 9), np.ones(4))
    assert drift_blocks.neighbors_kept(first[:1], first[:1], 5, 5).tolist() == [1]
