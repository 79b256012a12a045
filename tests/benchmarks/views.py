"""Join word vectors of several ways of counting one text, and score them by halves of the sets.

``python -m tests.benchmarks.views JOB FOLDER SETS`` counts the text of a job wide (window 5, dynamic, subsampled) and
narrow (window 2, flat, left and right apart), and factorizes each: view A is PSDVec of the wide counts, view B the
left singular vectors of PPMI of words with their left and their right contexts. Both are joined, the directions of
the spelling added, and the result is scored: options are chosen on half A of each set and reported on half B. Counts,
factorizations and spellings are kept in FOLDER, so that another join of them costs seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import dask
import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

import distembed as de
from distembed.evaluation import blocks
from distembed.evaluation.scoring import Policy, known_cosines, row_table
from distembed.evaluation.words import answer_analogies, choice_credits
from distembed.evaluation.wordsets import AnalogySet, SynonymSet, find_word_sets, half_of
from distembed.execution import one_blas_thread
from distembed.weighting.pmi import ppmi
from tests.benchmarks.inputs import counts_of
from tests.benchmarks.measures import DISTEMBED, peak_bytes, ran, run_main, spent, tell, tell_head, tell_row
from tests.benchmarks.rival_table import EIGHT

Rows = NDArray[np.float32]
Scores = dict[str, dict[str, float]]

N_THREADS = 2
SIDES = {"direction": "left", "weighting": "flat"}
COUNTED: dict[str, dict[str, Any]] = {
    "wide": {"window": 5, "direction": "left", "weighting": "dynamic", "subsample": 1e-4, "oov": "remove"},
    "narrow": {"window": 2, **SIDES},
    "next": {"window": 1, **SIDES},
    "three": {"window": 3, **SIDES},
    "broad": {"window": 10, "direction": "left", "weighting": "dynamic", "subsample": 1e-4, "oov": "remove"},
}
"""The ways of counting, by name."""
HALVES = ("A", "B", "all")
OTHERS = ("EN-RW-STANFORD", "EN-MEN-TR-3k", "EN-WS-353-REL", "simlex999")
ANALOGIES = {"google": 4, "msr": 2}
"""Of the analogies, every how many are asked."""


class View(NamedTuple):
    """Vectors of unit length about their mean, and the same of their spelling."""

    rows: Rows
    spelled: Rows


class Lab:
    """The counts, factorizations and spellings of one text, each made once and kept in a folder."""

    def __init__(self, job: str, folder: Path) -> None:
        self.job, self.folder = job, folder
        folder.mkdir(parents=True, exist_ok=True)
        self.counts("wide")
        vocabulary = np.load(folder / "vocabulary.npz")
        self.words, self.occurrences = vocabulary["words"].tolist(), vocabulary["counts"]

    def counts(self, name: str) -> sp.csr_array:
        """Return the counts of one way of counting."""
        file = self.folder / f"counts-{name}.npz"
        if not file.exists():
            options = [f"--set=counting.{key}={value}" for key, value in COUNTED[name].items()]
            workspace = self.folder / "workspace"
            command = (*DISTEMBED, "run", self.job, "--workspace", workspace, "--until", "cooccurrence")
            found = ran(*command, "--replace", "--workers", N_THREADS, *options)
            tell(f"counts {name}: {found}\n{found.output}")
            counts, occurrences, words = counts_of(str(workspace))
            sp.save_npz(file, counts, compressed=False)
            np.savez(self.folder / "vocabulary.npz", words=np.array(words), counts=occurrences)
        return sp.csr_array(sp.load_npz(file))

    def kept(self, name: str, make: Callable[[], Rows]) -> Rows:
        """Return the rows of a file of the folder; where it is missing, make them and print what they took."""
        file = self.folder / f"{name}.npy"
        if not file.exists():
            with dask.config.set(scheduler="threads", num_workers=N_THREADS), one_blas_thread():
                wall, cpu, made = spent(make)
            np.save(file, made)
            tell(f"{name}: {wall:.1f} s wall, {cpu:.1f} s CPU, peak so far {peak_bytes() / 2**20:,.0f} MiB")
        return np.load(file)

    def psdvec(self, counted: str, n_components: int, **options: Any) -> Rows:
        """Return PSDVec's vectors of one way of counting."""

        def make() -> Rows:
            model = de.PSDVec(n_components, **{"smoothing": 0.1, **options})
            return np.asarray(model.fit(self.counts(counted), self.occurrences).vectors_)

        return self.kept(_name("psdvec", counted, n_components, **options), make)

    def svd(self, contexts: str, n_components: int, n_passes: int = 3, **options: Any) -> Rows:
        """Return U S of the PPMI of words with several kinds of contexts, side by side."""

        def make() -> Rows:
            weighed = {"context_smoothing": 0.75, **options}
            parts = [ppmi(part, **weighed) for part in self.contexts(contexts)]
            association = sp.csr_array(sp.hstack(parts, format="csr"))
            association.eliminate_zeros()
            tell(f"{contexts}: {association.nnz:,} cells")
            return np.asarray(de.LSA(n_components, n_passes=n_passes, tol=None).fit_transform(association))

        return self.kept(_name("svd", contexts, n_components, passes=n_passes, **options), make)

    def contexts(self, name: str) -> list[sp.csr_array]:
        """Return the counts of words with each kind of context."""
        if name == "positions":  # R1 L1 R2 L2
            near = self.counts("next")
            far = sp.csr_array(self.counts("narrow") - near)
            far.eliminate_zeros()
            return [near, sp.csr_array(near.T), far, sp.csr_array(far.T)]
        counted, _, kind = name.partition("-")
        counts = self.counts(counted)
        return [sp.csr_array(counts + counts.T)] if kind == "sum" else [counts, sp.csr_array(counts.T)]

    def view(self, name: str, vectors: Rows, regularization: float, **options: Any) -> View:
        """Return a view: vectors about their mean, scaled to unit length, and what a map fitted to them composes."""
        rows = unit(vectors - vectors.mean(axis=0))

        def make() -> Rows:
            model = de.SubwordMap(regularization=regularization, validation_fraction=0, **options)
            return model.fit(self.words, rows).table_.centered().compose(self.words)

        return View(rows, self.kept(_name(name, "spelling", regularization, **options), make))


def _name(*parts: Any, **options: Any) -> str:
    return "-".join([*map(str, parts), *(f"{key}={value}" for key, value in options.items())])


def unit(rows: Rows) -> Rows:
    """Return rows scaled to unit length; a row of zeros stays zero."""
    lengths = np.sqrt(np.einsum("ij,ij->i", rows, rows))[:, None]
    return rows / np.where(lengths > 0, lengths, 1)


def exponent(vectors: Rows, power: float) -> Rows:
    """Return U S^power of U S."""
    values = np.sqrt(np.einsum("ij,ij->j", vectors, vectors, dtype=np.float64))
    return vectors * np.where(values > 0, values, 1).astype(np.float32) ** np.float32(power - 1)


def joined_first(views: Sequence[View], betas: Sequence[float], weight: Any = 1.0) -> Rows:
    """Join views, then add the direction of the spelling of the joined vectors.

    A subword map is linear in the vectors, so that the map of joined vectors is the maps of the views side by side.
    """
    rows = np.hstack([beta * view.rows for view, beta in zip(views, betas, strict=True)])
    spelled = np.hstack([beta * view.spelled for view, beta in zip(views, betas, strict=True)])
    return unit(rows - rows.mean(axis=0)) + weight * unit(spelled)


def spelled_first(views: Sequence[View], betas: Sequence[float], weights: Sequence[Any]) -> Rows:
    """Add the direction of the spelling to each view, then join them."""
    parts = zip(views, betas, weights, strict=True)
    return np.hstack(
        [beta * (unit(v.rows - v.rows.mean(axis=0)) + w * unit(v.spelled)) for v, beta, w in parts]
    )


def reduced(rows: Rows, n_components: int) -> Rows:
    """Return the first principal components of rows about their mean."""
    centered = rows - rows.mean(axis=0)
    return centered @ np.linalg.eigh(centered.T @ centered)[1][:, -n_components:]


class Judge:
    """The sets, looked up once in a vocabulary; it scores vectors of its words by halves of the sets."""

    def __init__(self, words: Sequence[str], sets: str, halves: Sequence[str] = HALVES) -> None:
        self.words, self.halves = words, halves
        wanted = {*EIGHT, *OTHERS, *ANALOGIES}
        found = [one for one in find_word_sets(sets.split(",")) if one.name in wanted]
        space = de.WordVectors(words, np.zeros((len(words), 1), np.float32))
        self.others = [
            (half, one.name, _looked_up(space, _half(one, half)))
            for half in halves
            for one in found
            if not isinstance(one, AnalogySet)
        ]
        analogies = [(h, one) for h in halves for one in found if isinstance(one, AnalogySet)]
        self.analogies = [(h, one.name, _known_questions(space, _half(one, h))) for h, one in analogies]

    def __call__(self, rows: Rows, *, n_removed: int = 1) -> Scores:
        """Return the scores by half: similarity and synonyms without principal components, analogies with them."""
        vectors = de.WordVectors(self.words, rows)
        cleaned = vectors.postprocess(n_components_removed=n_removed) if n_removed else vectors
        scores: Scores = {half: {} for half in self.halves}
        for half, name, (asked, human) in self.others:
            if human is None:
                known, credit = choice_credits(cleaned, asked, Policy())
                scores[half][name] = float(credit[known].mean())
            else:
                scores[half][name] = float(blocks.spearman(known_cosines(cleaned, asked), human))
        for half in self.halves:
            scores[half]["mean"] = float(np.mean([scores[half][name] for name in EIGHT]))
        distinct, places = np.unique(
            np.concatenate([asked for *_, asked in self.analogies]), axis=0, return_inverse=True
        )
        answers = answer_analogies(vectors, distinct[:, :3])
        stops = np.cumsum([len(asked) for *_, asked in self.analogies])[:-1]
        for (half, name, asked), at in zip(self.analogies, np.split(places, stops), strict=True):
            scores[half][f"{name} +"] = float((answers.add_row[at] == asked[:, 3]).mean())
            scores[half][f"{name} x"] = float((answers.mul_row[at] == asked[:, 3]).mean())
        return scores


def _half(word_set: Any, half: str) -> Any:
    return word_set if half == "all" else half_of(word_set, development=half == "A")


def _looked_up(space: Any, word_set: Any) -> tuple[Any, Any]:
    """Return the rows of the known pairs and their human scores, or questions and None."""
    if isinstance(word_set, SynonymSet):
        return word_set, None
    rows = row_table(space, word_set.pairs, Policy())
    known = (rows >= 0).all(axis=1)
    return rows[known], word_set.scores[known]


def _known_questions(space: Any, word_set: Any) -> Any:
    rows = row_table(space, word_set.questions[:: ANALOGIES[word_set.name]], Policy())
    return rows[(rows >= 0).all(axis=1)]


COLUMNS = ("mean", *OTHERS, *(f"{name} {sign}" for name in ANALOGIES for sign in "+x"))


def tell_scores(name: str, scores: Scores, halves: Sequence[str] = HALVES) -> None:
    """Print one row of a table: for each column its score on each half."""
    cells = ("; ".join(f"{100 * scores[half].get(c, np.nan):.1f}" for half in halves) for c in COLUMNS)
    tell_row(name, *cells)


def split(n_words: int, n_core: int) -> dict[str, Any]:
    """Return PSDVec's options with which the words after the first are solved against those."""
    third, rest = divmod(n_words - n_core, 3)
    bands = [third, third, third + rest]
    return {"n_core": n_core, "uniform_weight": 0.3, "ridge": [2.0, 4.0, 8.0], "bands": bands}


def main(
    job: str,
    folder: Path,
    sets: str,
    *,
    components_a: int = 400,
    components_b: int = 200,
    beta: float = 0.6,
    regularization_a: float = 0.025,
    regularization_b: float = 0.1,
    n_core: int = 0,
) -> None:
    lab = Lab(job, folder)
    judge = Judge(lab.words, sets)
    wide = lab.psdvec("wide", components_a, **(split(len(lab.words), n_core) if n_core else {}))
    narrow = exponent(lab.svd("narrow", 300)[:, :components_b], 0)
    a = lab.view(f"a-{components_a}-core={n_core}", wide, regularization_a)
    b = lab.view(f"b-{components_b}", narrow, regularization_b)
    tell_head("x 100: half A; half B; all", *COLUMNS)
    tell_scores("A", judge(wide))
    tell_scores("A, spelling", judge(spelled_first([a], [1], [1])))
    tell_scores("B", judge(narrow))
    joined = joined_first([a, b], [1, beta])
    tell_scores(f"[A, {beta} B], joined first", judge(joined))
    tell_scores(f"A, {beta} B, spelled first", judge(spelled_first([a, b], [1, beta], [1, 1])))
    tell_scores("joined first, PCA to 300", judge(reduced(joined, 300)))
    de.WordVectors(lab.words, joined).save(folder / "joined.safetensors")


if __name__ == "__main__":
    run_main(main)
