"""Vectors of names that an imputation job has not seen, from their rows of a table like the job's."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from distembed.display import plural
from distembed.execution import one_blas_thread
from distembed.formats.tables import some
from distembed.job.stage import read_vectors
from distembed.job.tables import Table, with_numbers
from distembed.manifold.correspondences import known_rows
from distembed.manifold.imputation import OPTIONS_OF_FIT
from distembed.manifold.imputation_systems import infer as impute_new
from distembed.manifold.regressions import LinearRidge, fit_known
from distembed.storage.workspace import Workspace
from distembed.systems.imputation import outputs
from distembed.systems.imputation.job import ImputationJob
from distembed.systems.imputation.solving import REGRESSORS
from distembed.tables.domain import read_new_rows
from distembed.tables.names import folding
from distembed.tables.rows import Scales
from distembed.vectors import WordVectors
from distembed.views.export import ExportOptions, export_vectors, table_format, write_table
from distembed.views.texts import NewFiles


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
    domain, fold = read_new_rows(names, columns, scales), folding(job.matching)
    vocabulary = outputs.VOCABULARY.read(workspace).to_pydict()
    taken = {fold(name) for name in (*known.words, *vocabulary["name"])}
    is_new = np.array([fold(name) not in taken for name in domain.names])
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
