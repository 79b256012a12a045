"""What a finished imputation answers: why an imputed vector is what it is, and the vectors of new names.

An imputed vector is explained by the weights of the known vectors that add up to it, its neighbors and columns. New
names have rows of a table like that of the job.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from distembed.display import plural
from distembed.execution import compute, one_blas_thread
from distembed.formats.tables import some
from distembed.job.stage import names_in_table, read_vectors
from distembed.job.tables import Table, with_numbers
from distembed.linalg.operators import whole_csr
from distembed.manifold.correspondences import known_rows
from distembed.manifold.imputation import OPTIONS_OF_FIT, known_shares, strongest_paths
from distembed.manifold.imputation import infer as impute_new
from distembed.manifold.regressions import LinearRidge, fit_known
from distembed.storage.workspace import Workspace
from distembed.systems.imputation import outputs
from distembed.systems.imputation.job import ImputationJob
from distembed.systems.imputation.stages import METHODS, REGRESSORS
from distembed.tables.domain import read_new_rows
from distembed.tables.names import folded
from distembed.tables.rows import Scales
from distembed.vectors import WordVectors
from distembed.views.answers import Answer, known_words
from distembed.views.explain import Request, refuse_unknown
from distembed.views.export import ExportOptions, export_vectors, table_format, write_table
from distembed.views.report.page import ShownTable
from distembed.views.texts import NewFiles


def explain(job: ImputationJob, workspace: Workspace, request: Request) -> Answer:  # noqa: ARG001 - the same for every job
    """Explain the vector of an imputed name: the weights of known names that add up to it, its neighbors and columns.

    Raises
    ------
    KeyError
        If the table has no such name.
    ValueError
        If more than one name is asked for, the name is not an imputed one, or the vectors are not those of the graph.
    """
    if len(request.names) != 1:
        raise ValueError(
            f"{plural(len(request.names), 'name')} given: name one imputed name; spaces stand in quotes"
        )
    weights, graph = (whole_csr(one.read(workspace)) for one in (outputs.WEIGHTS, outputs.GRAPH))
    table = outputs.VOCABULARY.read(workspace).slice(0, weights.shape[0])
    known = np.array(table["origin"].to_pylist(), object) == "known"
    words, labels = ([one or "" for one in table[name].to_pylist()] for name in ("word", "label"))
    row = _imputed_row(request.names[0], words, workspace)
    if known[row]:
        raise ValueError(
            f"{words[row]!r} has a known vector, which the job took as it is: choose an imputed name"
        )
    method = workspace.stages()["vectors"].facts["method"]
    if method != "graph":
        raise ValueError(
            f"the vectors are those of {METHODS[method]}, which are no mixtures of known vectors along the graph: "
            'explain takes those of imputation.method = "graph"'
        )
    shares = known_shares(weights, known, row)
    n_shares = int((shares > 0).sum())
    order = np.argsort(-shares, kind="stable")[: min(request.n, n_shares)].tolist()
    rows: list[dict[str, Any]] = []
    for at, (steps, chance) in zip(order, strongest_paths(weights, known, row, order), strict=True):
        label = {"label": labels[at]} if any(labels) else {}
        share = {"share %": 100 * float(shares[at]), "path %": 100 * chance}
        path = " → ".join(words[step] for step in steps)
        rows.append({"known name": words[at], **label, **share, "strongest path": path})
    if n_shares > len(order):
        others = 100 * float(shares.sum() - shares[order].sum())
        rows.append({"known name": f"{n_shares - len(order):,} other known names", "share %": others})
    rows.append({"known name": "sum", "share %": 100 * float(shares.sum())})
    caption = (
        "A share is the probability that a walk over the weights, from the name on, ends at the known name; the "
        "strongest path is the most probable of these walks, and its percentage that of this one path."
    )
    # The largest difference of the mixture and the stored vector, relative to the vector's largest value.
    vectors, mixed = outputs.VECTORS.read(workspace), np.flatnonzero(shares)
    found, parts = (np.asarray(one, np.float64) for one in compute((vectors[[row]], vectors[mixed])))
    largest = max(np.abs(found).max(), np.finfo(float).tiny)
    difference = float(np.abs(shares[mixed] @ parts - found[0]).max() / largest)
    n_half = int(np.argmax(np.cumsum(-np.sort(-shares)) >= 0.5)) + 1
    sentence = (
        "The imputed vector is the sum of the known vectors, each times its share. The shares add up to one; "
        f"half of it is reached by {plural(n_half, 'name')}."
    )
    near, distance = weights[[row]], dict(zip(*(graph[[row]].indices, graph[[row]].data), strict=True))
    neighbors = [
        {
            "neighbor": words[at],
            "origin": "known" if known[at] else "imputed",
            "weight": weight,
            "distance": distance.get(at),
        }
        for weight, at in sorted(
            zip(near.data.tolist(), near.indices.tolist(), strict=True), key=lambda one: -one[0]
        )
    ]
    of_neighbors = (
        "The names that it is rebuilt from in the table, their weights, which sum to one, and distances."
    )
    return Answer(
        f"{words[row]}: a mixture of {plural(n_shares, 'known name')}",
        [sentence],
        {"name": words[row], "difference": difference},
        [
            ShownTable("known names", rows, {"share %": 2, "path %": 2}, caption),
            ShownTable("neighbors", neighbors, {"weight": 3, "distance": 3}, of_neighbors),
        ],
    )


def _imputed_row(name: str, words: list[str], workspace: Workspace) -> int:
    (name,), _ = known_words([name], words, names_in_table(workspace))
    if name not in words:
        left_out = {one["name"]: one["reason"] for one in outputs.LEFT_OUT.read(workspace).to_pylist()}
        if name in left_out:
            raise ValueError(f"{name!r} was left out of the table: {left_out[name]}")
        refuse_unknown("name", name, words)
    return words.index(name)


# --- new names -------------------------------------------------------------------------------------------------


def infer(job: ImputationJob, workspace: Workspace, new: NewFiles) -> str:
    """Write the vectors of a job and, after them, those of the new names of a table.

    A new name is rebuilt from the nearest rows of the job's table by `LatentSemanticImputation.infer`; a name that the
    job has already keeps its vector.

    Raises
    ------
    ValueError
        If the job's table has not the names in its rows, or the new one lacks a column, a number or a new name.
    KeyError
        If the job has no vectors yet.
    """
    if new.words is not None or new.min_count is not None:
        raise ValueError(
            "an imputation job infers the vectors of all new names of a table: leave out --words and --min-count"
        )
    if job.domain.transform == "return_correlation":
        raise ValueError(
            f"domain.transform is {job.domain.transform!r}: the names are compared by prices on the same days, so that "
            "a new series changes the table. Add it to domain.path and run the job again"
        )
    if len(new.paths) != 1:
        raise ValueError(
            f"{len(new.paths)} files are given, and an imputation job reads one table of new names"
        )
    path, known = new.paths[0], read_vectors(workspace)
    names = job.domain.model_copy(update={"path": path, "label_column": None, "names_label": None})
    if outputs.DOMAIN_COLUMNS.name in workspace.stages()["join"].outputs:
        table = outputs.DOMAIN_COLUMNS.read(workspace)
        columns, scales = (
            table["column"].to_pylist(),
            Scales(*(table[name].to_numpy() for name in Scales._fields)),
        )
    else:  # the table was one of vectors, which are taken as they are
        n = outputs.DOMAIN.read(workspace).shape[1]
        columns, scales = [f"component {k}" for k in range(n)], Scales(np.zeros(n), np.ones(n), np.zeros(n))
    domain, matching = read_new_rows(names, columns, scales), job.matching
    vocabulary = outputs.VOCABULARY.read(workspace).to_pydict()
    taken = {folded(name, matching) for name in (*known.words, *vocabulary["name"])}
    is_new = np.array([folded(name, matching) not in taken for name in domain.names])
    own = [name for name, fresh in zip(domain.names, is_new.tolist(), strict=True) if not fresh]
    if not is_new.any():
        raise ValueError(
            f"{path} holds no new name: {plural(len(own), 'name')} ({some(own)}) of it had a vector before"
        )
    remarks = [f"{plural(len(own), 'name')} ({some(own)}) had a vector already, which is kept"] if own else []
    vectors = _vectors(job, workspace, domain.matrix[is_new])
    words = [name for name, fresh in zip(domain.names, is_new.tolist(), strict=True) if fresh]
    enlarged = WordVectors([*known.words, *words], np.concatenate([known.vectors, vectors]))
    written = _written(enlarged, [*vocabulary["origin"], *["inferred"] * len(words)], new)
    return "; ".join([f"{plural(len(words), 'new name')}; {written}", *domain.notes, *remarks])


def _vectors(job: ImputationJob, workspace: Workspace, rows: NDArray[np.floating]) -> NDArray[np.float32]:
    """Return the vectors of new rows, (m, s), from those that the job has imputed."""
    X, Y = outputs.DOMAIN.read(workspace), outputs.KNOWN_VECTORS.read(workspace)
    method, known = workspace.stages()["vectors"].facts["method"], known_rows(Y, X.shape[0])
    with one_blas_thread():
        if method in REGRESSORS:
            model = fit_known(REGRESSORS[method], X, Y, known)
            return np.asarray(model.predict(rows.astype(np.float64)), np.float32)
        model = fit_known(LinearRidge(), X, Y, known) if method == "residuals" else None
    vectors = outputs.VECTORS.read(workspace)[: X.shape[0]]
    options = job.imputation.model_dump(include=set(OPTIONS_OF_FIT))
    return np.asarray(impute_new(rows, X, vectors, model=model, **options), np.float32)


def _written(vectors: WordVectors, origins: list[str], new: NewFiles) -> str:
    """Write words and vectors, in text and NumPy files as a table of a row per word, and return what was written."""
    chosen = table_format(new.target)
    if chosen is None:
        return export_vectors(vectors, new.target, ExportOptions(space=new.space))
    if new.space is not None:
        raise ValueError(f"{new.target} keeps spaces as they are: leave out --space")
    columns = pa.record_batch({"word": pa.array(vectors.words), "origin": pa.array(origins)})
    width = vectors.vectors.shape[1]
    rows = with_numbers(columns.schema, [(columns, vectors.vectors)], "vector", width)
    contents = f"{len(vectors):,} words x {width} dimensions"
    write_table(new.target, Table(rows, len(vectors), contents), format=chosen)
    return f"{contents} in {new.target}"
