"""Topic transfer between two large made collections: what each stage takes beside its plan; a kill and a resume.

``python -m tests.benchmarks.transfer_scale FOLDER --documents 100000 --kill-after 300`` makes two collections of so
many documents each (two languages whose word vectors differ by a known rotation and by noise; a translation loses
and moves words), runs their job in a process of its own, kills it with SIGKILL once it has run so long, runs it again
to its end, and prints for each stage the planned and the measured memory, and how well the topics were carried. With
``--whole`` the job also runs without a kill in a second workspace, and the digests of both must be equal.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

import distembed as de
from distembed.job.opening import open_job
from tests.benchmarks.measures import distembed, run_main, run_twice, tell
from tests.benchmarks.plans_and_runs import stage_table

N_COMPONENTS, N_TOPICS, N_WORDS, N_TOKENS = 100, 20, 5000, 60
KEPT_SHARE = 0.8
"""Share of the words of a document that its translation has."""
NOISE = 1.0
"""Length of the noise of a word vector, in that of its topic and own part, after the rotation."""
WRITTEN_AT_ONCE = 10_000

JOB = """
[job]
system = "transfer"
title = "{n_documents:,} documents in each of two made languages"
workspace = "{{workspace}}"
[first]
paths = ["first-*.jsonl"]
vectors = "first.txt"
[second]
paths = ["second-*.jsonl"]
vectors = "second.txt"
[representation]
kind = "psdvec"
n_components = {n_components}
[topics]
n_topics = {n_topics}
n_iter = 30
[evaluation]
shares = []
[resources]
workers = {workers}
memory_limit = "2GiB"
"""


def word(number: int, language: str) -> str:
    return language + "".join(chr(ord("a") + int(digit)) for digit in str(number))


def make_collections(folder: Path, n_documents: int, seed: int = 0) -> None:
    """Write both collections and the vectors of their words."""
    rng = np.random.default_rng(seed)
    of_topics = rng.dirichlet(np.full(N_WORDS, 0.05), N_TOPICS)
    _write_vectors(folder, of_topics, rng)
    names = {language: np.array([word(w, language) for w in range(N_WORDS)]) for language in "eg"}
    for part, begin in enumerate(range(0, n_documents, WRITTEN_AT_ONCE)):
        size = min(WRITTEN_AT_ONCE, n_documents - begin)
        words = _documents(of_topics, size, rng)
        order = rng.permuted(np.tile(np.arange(N_TOKENS), (size, 1)), axis=1)
        moved = np.take_along_axis(words, order[:, : round(KEPT_SHARE * N_TOKENS)], axis=1)
        for side, language, chosen in (("first", "e", words), ("second", "g", moved)):
            lines = [
                json.dumps({"id": f"document {begin + row}", "text": " ".join(names[language][line])})
                for row, line in enumerate(chosen)
            ]
            (folder / f"{side}-{part:03}.jsonl").write_text("\n".join(lines) + "\n")


def _documents(of_topics: np.ndarray, n_documents: int, rng: np.random.Generator) -> np.ndarray:
    shares = rng.dirichlet(np.full(N_TOPICS, 0.2), n_documents).cumsum(axis=1)
    draws = rng.random((n_documents, N_TOKENS))
    topics = np.minimum((draws[:, :, None] > shares[:, None]).sum(axis=2), N_TOPICS - 1)
    words = np.empty_like(topics)
    for topic, weights in enumerate(of_topics):
        here = topics == topic
        found = np.searchsorted(weights.cumsum(), rng.random(here.sum()))
        words[here] = np.minimum(found, N_WORDS - 1)
    return words


def _write_vectors(folder: Path, of_topics: np.ndarray, rng: np.random.Generator) -> None:
    """Write vectors of the words of the first language, and those turned and with noise for the second."""
    shares = of_topics / of_topics.sum(axis=0)
    vectors = shares.T @ rng.standard_normal((N_TOPICS, N_COMPONENTS))
    vectors += rng.standard_normal(vectors.shape)
    rotation = np.linalg.qr(rng.standard_normal((N_COMPONENTS, N_COMPONENTS)))[0]
    turned = vectors @ rotation + NOISE * rng.standard_normal(vectors.shape)
    for side, language, rows in (("first", "e", vectors), ("second", "g", turned)):
        words = [word(w, language) for w in range(N_WORDS)]
        de.WordVectors(words, rows.astype(np.float32)).save(folder / f"{side}.txt")


def quality(path: Path) -> str:
    """Return how far the carried topics are from those of the counterparts whose pair was not known."""
    workspace = de.Workspace.open(open_job(str(path)).job.workspace)
    pairs = workspace.table("pairs")
    first, second = (np.asarray(pairs[side])[~np.asarray(pairs["known"])] for side in ("first", "second"))
    topics = workspace.array("topics").compute()
    true, carried = topics[first], workspace.array("second_topics").compute()[second]
    shuffled = carried[np.random.default_rng(0).permutation(len(carried))]
    mean = np.nanmean(topics, axis=0)
    scores = {"carried": carried, "column mean": mean, "carried, shuffled": shuffled}
    errors = {name: float(np.sqrt(np.nanmean((values - true) ** 2))) for name, values in scores.items()}
    aligned = workspace.table("aligned")
    right = np.mean(np.array(aligned["id"]) == np.array(aligned["counterpart"]))
    return f"RMSE {errors}; likeliest counterpart right for {right:.1%} of the documents"


def show(job: Path) -> None:
    tell(stage_table(open_job(str(job)).job.workspace), quality(job), sep="\n\n")


def main(
    folder: Path, *, documents: int = 10_000, workers: int = 2, kill_after: float | None = None,
    whole: bool = False, plan_only: bool = False,
) -> None:  # fmt: skip
    folder.mkdir(parents=True, exist_ok=True)
    make_collections(folder, documents)
    values = {
        "n_documents": documents,
        "workers": workers,
        "n_components": N_COMPONENTS,
        "n_topics": N_TOPICS,
    }
    job = JOB.format(**values)
    if not plan_only:
        run_twice(folder, job, show, kill_after=kill_after, whole=whole)
        return
    (folder / "killed.toml").write_text(job.replace("{workspace}", "killed"))
    distembed("plan", folder / "killed.toml")


if __name__ == "__main__":
    run_main(main)
