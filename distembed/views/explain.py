"""Why two words of a finished workspace are near: contexts, their counts and PMI, and passages of the corpus."""

from __future__ import annotations

import math
from collections.abc import Sequence
from importlib import import_module
from itertools import chain, zip_longest
from typing import Any, NamedTuple, NoReturn

import numpy as np

from distembed.corpus.concordance import find_passages, place_of
from distembed.display import plural
from distembed.dtypes import Float64s, Int64s
from distembed.evaluation.contexts import SimilarityExplanation, explain_similarity
from distembed.job.model import Job
from distembed.job.stage import read_vectors, system_of
from distembed.linalg.operators import whole_csr
from distembed.spelling import did_you_mean
from distembed.stages.corpus import titled_tokens
from distembed.stages.corpus_sections import CorpusJob, corpus_of
from distembed.storage.workspace import Workspace
from distembed.vectors import WordVectors
from distembed.views.answers import Answer, known_words
from distembed.views.report.page import Passages, ShownTable
from distembed.weighting.pmi import marginals


class Request(NamedTuple):
    """What `distembed explain` was asked: the names, and how many terms and passages are shown."""

    names: tuple[str, ...]
    n: int
    n_passages: int


def explain_job(job: Job, request: Request) -> Answer:
    """Return why a result of a finished job is what it is, or the passages of one word where the method explains two.

    The file and the line of each document are told where the job's own file is known.

    Raises
    ------
    ValueError
        If the system explains nothing, or the names that were asked for cannot be explained.
    KeyError, FileNotFoundError
        If the job has not come so far, or does not know a name.
    """
    module = system_of(job).explanation
    if module is not None:
        explained: Answer = import_module(module).explain(job, Workspace.open(job.job.workspace), request)
    elif isinstance(job, CorpusJob) and len(request.names) == 1:
        explained = passages_of_word(Workspace.open(job.job.workspace), request.names[0], request.n)
    else:
        raise ValueError(
            f"results of the method {job.job.system} are not explained: "
            "explain takes psdvec, topics and imputation jobs, and one word of any corpus"
        )
    documents = dict.fromkeys(line.document for group in explained.passages for line in group.lines)
    if job.is_recorded or not isinstance(job, CorpusJob) or not documents:
        return explained
    try:
        corpus = corpus_of(job.corpus)
    except FileNotFoundError:
        return explained  # the files have gone since
    places = {document: place for document in documents if (place := place_of(corpus, document))}
    return explained._replace(facts={**explained.facts, "places": places}, places=places)


def passages_of_word(workspace: Workspace, word: str, n: int) -> Answer:
    """Return the first n passages of a word.

    Raises
    ------
    KeyError, ValueError
        If the corpus does not hold the word, or the tokens are not there any more.
    """
    words = workspace.table("vocabulary")["word"].to_pylist()
    (word,), notes = known_words([word], words)
    try:
        pair = word, word
        lines = find_passages(titled_tokens(workspace), [pair], window=0, n=n, several=True)[pair]
    except (KeyError, FileNotFoundError):
        raise ValueError(NO_TOKENS) from None
    if not lines:
        refuse_unknown("word", word, words)
    title = f"{word}: its first {plural(len(lines), 'passage')}"
    return Answer(title, notes, passages=[Passages(word, lines)])


COMPARED = 20_000
"""Names, at most, that an unknown one is compared with: a tenth of a second."""


def refuse_unknown(what: str, name: str, names: Sequence[str]) -> NoReturn:
    """Raise KeyError for a name that is not there, with up to three that are spelt like it, or the first ones."""
    first = f"the first are {', '.join(names[:3])}"
    advice = did_you_mean(name, names[:COMPARED], otherwise=first, n=3)
    raise KeyError(f"there is no {what} {name!r} among {len(names):,}; {advice}")


CONTEXTS_SEARCHED = 5
"""Contexts, the largest ones, whose passages are shown."""

LOWERING = 3
"""Contexts shown that pull the two words apart."""

NO_TOKENS = "The token partitions are not in the workspace any more: run the job again to see passages."


def explain_words(workspace: Workspace, request: Request, *, window: int) -> Answer:
    """Explain the cosine of two words of a workspace by their contexts.

    Parameters
    ----------
    workspace : Workspace
        With the arrays `vectors` and `core_vectors` of a psdvec job, and its counts.
    request : Request
        Two words; of one its passages are shown.
    window : int
        The window of the counts, in which passages are looked for.

    Raises
    ------
    UnknownWordError, ValueError
        If a word has no vector or a vector of zeros, or the words are more than two, or the same.
    """
    if len(request.names) == 1:
        return passages_of_word(workspace, request.names[0], request.n)
    if len(request.names) != 2:
        raise ValueError(
            f"{plural(len(request.names), 'word')} given: name one, for its passages, or the two whose similarity is "
            "to be explained"
        )
    vectors = read_vectors(workspace)
    (first, second), notes = known_words(request.names, vectors.words)
    contexts = vectors.head(workspace.array("core_vectors").shape[0])
    found = explain_similarity(
        vectors, first, second, contexts=contexts, n=request.n, n_lowering=min(LOWERING, request.n)
    )
    table, remark, passages = _table(found, workspace, vectors), "", list[Passages]()
    near = [one.word for one in found.raising if one.word not in (first, second)][:CONTEXTS_SEARCHED]
    # The words are contexts of each other: one pair is enough to show where.
    pairs = [(first, second), *((word, context) for context in near for word in (first, second))]
    try:
        tokens = titled_tokens(workspace)
        lines = find_passages(tokens, pairs, window=window, n=n) if (n := request.n_passages) else {}
    except (KeyError, FileNotFoundError):
        lines, remark = {}, NO_TOKENS
    if lines:
        groups = [Passages(f"{first} and {second}", lines[first, second][:n])]
        for context in near:  # the passages of both words in turn
            both = zip_longest(*(lines.get((word, context), []) for word in (first, second)))
            one_by_one = [one for one in chain.from_iterable(both) if one is not None]
            groups.append(Passages(f"passages with {context}", one_by_one[:n]))
        passages = [group for group in groups if group.lines]
    half = f"; half of it is reached by the {found.n_half:,} largest" if found.n_half > 1 else ""
    terms = f"The cosine is the sum of {plural(found.n_contexts, 'term')}, one for each context word{half}."
    if not any(all(row.get(f"with {word}") for word in (first, second)) for row in table.rows):
        terms += " None of these contexts was counted with both: they are near since their contexts are near."
    sentences = [*notes, terms, remark]
    return Answer(
        f"{first} and {second}: cosine {found.cosine:.3f}",
        [sentence for sentence in sentences if sentence],
        {
            **found._asdict(),
            "raising": [one._asdict() for one in found.raising],
            "lowering": [one._asdict() for one in found.lowering],
        },
        [table],
        passages,
    )


def _table(found: SimilarityExplanation, workspace: Workspace, vectors: WordVectors) -> ShownTable:
    """Return the contexts with their terms, counts and PMI; the column of terms adds up to the cosine.

    The rows of the two words and of the contexts are read, and no others.
    """
    named, pairs = [*found.raising, *found.lowering], workspace.array("cooccurrence")
    words, contexts = [found.first, found.second], [one.word for one in named]
    places, others = vectors.index(words), vectors.index(contexts)
    occurrences = workspace.table("vocabulary")["count"].to_numpy().astype(np.float64)
    shares = occurrences / occurrences.sum()
    stored = "row_totals" in {name for stage in workspace.stages().values() for name in stage.outputs}
    totals: Any = workspace.table("row_totals")["n_pairs"].to_numpy() if stored else marginals(pairs).rows

    def cells(rows: Int64s, columns: Int64s) -> Float64s:
        known, at = np.unique(rows, return_inverse=True)
        return whole_csr(pairs[known])[:, columns].toarray()[at].astype(np.float64)

    together, expected = cells(places, others), np.outer(totals[places], shares[others])
    if workspace.describe("cooccurrence").spec.dims[0] == "left_word":  # a cell holds one order of its words
        together = together + cells(others, places).T
        expected = expected + np.outer(shares[places], totals[others])
    rows, cosine = list[dict[str, Any]](), found.cosine or math.nan  # of 0 there are no shares
    for j, one in enumerate(named):
        rows.append({"context": one.word, "term": one.term, "%": 100 * one.term / cosine})
        for word, count, chance in zip(words, together[:, j].tolist(), expected[:, j].tolist(), strict=True):
            rows[-1][f"with {word}"] = count
            rows[-1][f"PMI {word}"] = math.log(count / chance) if count and chance else None
    n_others = found.n_contexts - len(named)
    sums = {
        f"other contexts that raise it (of {n_others:,})": found.other_raising,
        "other contexts that lower it": found.other_lowering,
        "outside the contexts": found.rest if abs(found.rest) > 1e-6 else 0.0,
        "cosine": found.cosine,
    }
    rows += [
        {"context": name, "term": value, "%": 100 * value / cosine} for name, value in sums.items() if value
    ]
    decimals = {"term": 4, "%": 1, **{f"PMI {word}": 2 for word in words}}
    caption = (
        "The terms add up to the cosine. Counts are of pairs within the window, in both orders; PMI is in nats, "
        "log of the count over that of independent words."
    )
    return ShownTable("contexts", rows, decimals, caption)
