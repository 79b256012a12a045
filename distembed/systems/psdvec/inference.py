"""Vectors of words that a psdvec job has not seen, solved against its core words from the counts of other texts."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import NamedTuple

import dask.array as da
import numpy as np
from scipy.sparse import block_diag, csr_array

from distembed.corpus.partitions import Tokens
from distembed.corpus.vocabulary import Vocabulary, build_vocabulary
from distembed.counting.cooccurrence import CooccurrenceOptions, count_cooccurrences
from distembed.display import plural
from distembed.dtypes import Float32s
from distembed.execution import compute
from distembed.factorization.joined_vectors import joined_rows
from distembed.factorization.psdvec import PSDVec
from distembed.factorization.psdvec_core import pairs_between
from distembed.files import read_small
from distembed.job.stage import read_subwords, read_vectors, removed_directions
from distembed.linalg.blocks import without_directions
from distembed.linalg.operators import whole_csr
from distembed.stages.corpus import vocabulary_of
from distembed.stages.corpus_sections import corpus_of, counting_options
from distembed.storage.workspace import Workspace
from distembed.systems.psdvec import outputs
from distembed.systems.psdvec.job import PSDVecJob, SidesSection
from distembed.systems.psdvec.sides import means_of, weights_of
from distembed.systems.psdvec.stages import NONCORE
from distembed.vectors import WordVectors
from distembed.vectors.subwords import add_spelling
from distembed.views.export import ExportOptions, export_vectors
from distembed.views.texts import NewFiles
from distembed.weighting.documents import select_pairs
from distembed.weighting.pmi import directional_contexts, marginals, ppmi

LISTED = 5
"""Words that are named where several have no vector."""


class NewWords(NamedTuple):
    """The new words of texts.

    Attributes
    ----------
    counted : Vocabulary
        The words of the job and the new ones, as often as they stand in the texts.
    words : list of str
        The new words, in falling count.
    remarks : list of str
        What is to be said of words that get no vector.
    """

    counted: Vocabulary
    words: list[str]
    remarks: list[str]


def infer(job: PSDVecJob, workspace: Workspace, texts: NewFiles) -> str:
    """Write the vectors of a job and, after them, those of the new words of texts.

    The texts are tokenized and counted as the job says, and each new word is solved against the job's core vectors by
    `PSDVec.transform`, with the weights of the job's own fit.

    Raises
    ------
    ValueError
        If the texts hold no new word, or no core word.
    KeyError
        If the job has no vectors yet.
    """
    known, model = read_vectors(workspace), fitted_model(job, workspace)
    tokens = corpus_of(texts.section_of(job.corpus)).tokenize()
    new = _new_words(job, known, tokens, texts)
    vectors = solved(counting_options(job), model, known.words[: model.n_core_], tokens, new)
    used = vectors.any(axis=1)
    if job.sides is not None:
        parts = [vectors, new_sides(job.sides, workspace, tokens, new)]
        vectors = compute(joined_rows(parts, weights_of(job), means_of(job, workspace)))
    if job.subwords.enabled and job.subwords.weight:  # as the job stores its own
        table, weight = read_subwords(workspace), job.subwords.weight
        vectors = add_spelling(vectors, table.compose(new.words), table.mean, weight=weight)
    if (removed := removed_directions(workspace)) is not None:
        vectors = without_directions(vectors, *removed)
    words, left_out = ([new.words[row] for row in np.flatnonzero(chosen)] for chosen in (used, ~used))
    remarks = new.remarks
    if left_out:
        remarks = [*remarks, f"{_named(left_out)} stood near no core word and are left out"]
    if not words:
        raise ValueError(f"no new word stands near a core word: {'; '.join(remarks)}")
    rows = np.concatenate([known.vectors, vectors[used]])
    enlarged = WordVectors([*known.words, *words], rows, subwords=known.subwords)
    written = export_vectors(enlarged, texts.target, ExportOptions(space=texts.space))
    return "; ".join([f"{plural(len(words), 'new word')}; {written}", *remarks])


def fitted_model(job: PSDVecJob, workspace: Workspace) -> PSDVec:
    """Return the fitted estimator of a finished job, ready for `PSDVec.transform`."""
    core, counts = outputs.CORE_VECTORS.read(workspace), vocabulary_of(workspace).counts.astype(float)
    row_totals = np.asarray(outputs.ROW_TOTALS.read(workspace)["n_pairs"])
    model, done, n_core = PSDVec(**job.psdvec.options), workspace.stages(), len(core)
    # Where all words are core, new ones are weighed as these are.
    facts = done["core"].facts | (done[NONCORE].facts if job.psdvec.has_noncore else {})
    model.core_vectors_, model.n_core_ = core, n_core
    model.core_counts_, model.core_row_totals_ = counts[:n_core], row_totals[:n_core]
    model.noncore_cutoff_, model.noncore_scale_ = float(facts["weight_cutoff"]), float(facts["weight_scale"])
    model.total_count_ = float(counts.sum())
    model._fitted_options = model.get_params(deep=False)
    return model


def new_sides(section: SidesSection, workspace: Workspace, tokens: Tokens, new: NewWords) -> Float32s:
    """Return the vectors (m, d) of new words by the words on their left and right; zeros where none is known."""
    pairs = count_cooccurrences(tokens, new.counted, **asdict(section.counting_options()))
    rows = whole_csr(directional_contexts(pairs)[new.counted.index(new.words)])
    # The columns are those of the vocabulary twice, on the left and on the right: they get the numbers that the job
    # gives its words, and contexts that it does not know are left out.
    column_of = vocabulary_of(workspace).index(new.counted.words)
    known, n_words = np.flatnonzero(column_of >= 0), len(vocabulary_of(workspace))
    cells = (np.ones(known.size, rows.dtype), (known, column_of[known]))
    places = csr_array(cells, shape=(len(column_of), n_words))
    contexts = csr_array(rows @ block_diag([places, places], format="csr"))
    totals = np.asarray(outputs.SIDES_TOTALS.read(workspace)["n_pairs"])
    axes = compute(outputs.SIDES_AXES.read(workspace))
    weighted = ppmi(contexts, column_totals=totals, **section.pmi_options)
    return np.asarray(weighted @ axes, np.float32)


def solved(
    counting: CooccurrenceOptions, model: PSDVec, core: tuple[str, ...], tokens: Tokens, new: NewWords
) -> Float32s:
    """Return the vectors (m, d) of new words, from their counts with the core words in the texts."""
    counts = count_cooccurrences(tokens, new.counted, **asdict(counting))
    n_core, n = len(core), len(core) + len(new.words)
    rows = new.counted.index([*core, *new.words]).astype(np.int64)
    if not (rows[:n_core] >= 0).any():
        raise ValueError(
            f"the texts hold none of the {n_core:,} core words of the job: are they of its language, and read as its "
            "[corpus] says?"
        )
    totals = np.where(rows >= 0, marginals(counts).rows[rows], 0.0)
    occurrences = np.where(rows >= 0, new.counted.counts[rows], 0).astype(np.float64)
    pairs: da.Array = select_pairs(counts, rows)
    vectors = model.transform(
        pairs_between(pairs, slice(n_core, n), slice(n_core)),
        pairs_between(pairs, slice(n_core), slice(n_core, n)),
        occurrences[n_core:],
        new_row_totals=totals[n_core:],
        core_counts=occurrences[:n_core],
        core_row_totals=totals[:n_core],
    )
    return np.asarray(compute(vectors))


def _new_words(job: PSDVecJob, known: WordVectors, tokens: Tokens, texts: NewFiles) -> NewWords:
    """Return the words of the texts that the job lacks, or those of a list among them."""
    found = build_vocabulary(tokens, min_count=1)
    lacking = known.index(found.words) < 0
    remarks: list[str] = []
    if texts.words is not None:
        lines = map(str.strip, read_small(Path(texts.words)).decode("utf-8-sig").splitlines())
        listed = list(dict.fromkeys(filter(None, lines)))
        if not listed:
            raise ValueError(f"{texts.words} holds no word: give one per line")
        own = [word for word in listed if word in known]
        rows = zip(listed, found.index(listed), strict=True)
        absent = [word for word, row in rows if row < 0 and word not in own]
        remarks = [f"{_named(own)} of the list had a vector already"] if own else []
        remarks += [f"{_named(absent)} of the list do not stand in the texts"] if absent else []
        lacking &= np.isin(np.array(found.words, object), np.array(listed, object))
    fewest = texts.min_count or (job.vocabulary.min_count if texts.words is None else 1)
    chosen = lacking & (found.counts >= fewest)
    words = [found.words[row] for row in np.flatnonzero(chosen)]
    if not words:
        rare = f", of {plural(int(lacking.sum()), 'word')} that it lacks" if lacking.any() else ""
        reason = f"the texts hold no new word that stands there {plural(fewest, 'time')} or more{rare}"
        raise ValueError("; ".join([reason, *remarks]))
    kept = np.flatnonzero(chosen | (known.index(found.words) >= 0))
    return NewWords(found.take(kept), words, remarks)


def _named(words: list[str]) -> str:
    """Return how many words there are, with the first of them."""
    return f"{plural(len(words), 'word')} ({', '.join(words[:LISTED])}{', …' if len(words) > LISTED else ''})"
