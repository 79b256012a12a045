"""Run a whole job on data that is in memory: the texts of a column, or a table and known vectors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from distembed.corpus.texts import Texts, store_texts
from distembed.job.stage import system_named
from distembed.manifold.imputation import is_frame
from distembed.scratch import Scratch
from distembed.storage.workspace import Workspace
from distembed.typing import Frame
from distembed.vectors import WordVectors
from distembed.views.finished_job import FinishedJob, Sections, run_job


class _Place(NamedTuple):
    """Where a job on data in memory lies: the folder of its inputs, its workspace, and what removes both, if any."""

    inputs: Path
    workspace: str
    scratch: Scratch | None


def topics(
    texts: Texts,
    *,
    n_topics: int = 10,
    workspace: str | Path | None = None,
    **sections: Mapping[str, object],
) -> FinishedJob:
    """Find the topics of texts in memory, as a job of the method "topics" does.

    Parameters
    ----------
    texts : sequence of str, column or data frame
        One document each; see `read_texts`. Titles, labels and further columns are in the table of documents.
    n_topics : int
        The number of topics.
    workspace : str or path, optional
        The folder of the results, beside which the texts are written, so that a later call finds them finished. By
        default a temporary folder, which is removed with what is returned.
    **sections : mappings
        Further keys of the job: ``vocabulary={"stop_words": "english"}``.

    Returns
    -------
    FinishedJob
        ``run.show()`` is its report, and ``run.export("documents.csv", what="documents")`` writes the topic of each
        document.

    Examples
    --------
    >>> import distembed as de
    >>> from distembed.demos import titles
    >>> texts = open(titles(), encoding="utf-8").read().splitlines()
    >>> run = de.topics(texts, n_topics=2, vocabulary={"stop_words": "english"})
    >>> run.arrays["document_factors"].shape
    (9, 2)
    """
    place = _place_of(workspace)
    corpus = store_texts(place.inputs, texts)
    head = {"system": "topics", "title": "Topics"}
    job: Sections = {"job": head, "corpus": corpus, "topics": {"n_topics": n_topics}}
    return _run(job, place, sections)


def impute(
    table: Frame,
    vectors: str | Path | WordVectors | Frame,
    *,
    workspace: str | Path | None = None,
    **sections: Mapping[str, object],
) -> FinishedJob:
    """Impute the missing vectors of the names of a table, as a job of the method "imputation" does.

    The method is the one that finds known names best when they are hidden, unless ``imputation`` says another.

    Parameters
    ----------
    table : data frame
        A row for each name, which is its index; columns of numbers are features, others are left out.
    vectors : WordVectors, data frame, str or path
        The known vectors: a frame has the names as its index; a path is a vector file, a table or a workspace.
    workspace : str or path, optional
        The folder of the results, beside which the inputs are written, so that a later call finds them finished. By
        default a temporary folder, which is removed with what is returned.
    **sections : mappings
        Further keys of the job: ``matching={"ignore_case": True}``.

    Returns
    -------
    FinishedJob
        ``run.vectors`` has the vectors of all names, ``run.show()`` is the report.

    Raises
    ------
    TypeError
        If the table is no data frame with an index.

    Examples
    --------
    >>> import distembed as de
    >>> import numpy as np
    >>> import pandas as pd
    >>> features = np.random.default_rng(0).normal(size=(40, 3))
    >>> table = pd.DataFrame(features, index=[f"name {i}" for i in range(40)], columns=["a", "b", "c"])
    >>> known = pd.DataFrame(features[:25] @ np.ones((3, 4)), index=table.index[:25])
    >>> run = de.impute(table, known)
    >>> len(run.vectors), run.tables["vocabulary"]["origin"].to_pylist().count("imputed")
    (40, 15)
    """
    if not is_frame(table):
        raise TypeError("the table must be a data frame with the names as its index: call set_index on it")
    place = _place_of(workspace)
    known: Any = vectors
    if not isinstance(known, (str, Path)):
        if is_frame(known):
            known = WordVectors(map(str, known.index), np.asarray(known.to_numpy(), np.float32))
        known.save(place.inputs / "known.safetensors")
        known = place.inputs / "known.safetensors"
    key, frame, written = "name", cast("Any", table), str(place.inputs / "table.parquet")
    while key in frame.columns:
        key += "_"
    columns = {key: pa.array([str(name) for name in frame.index], pa.string())}
    for number, column in enumerate(map(str, frame.columns)):
        cells = frame.iloc[:, number]
        values, missing = cells.to_numpy(), cells.isna()
        if values.dtype.kind not in "fiub":
            values = [None if gone else str(one) for one, gone in zip(values, missing, strict=True)]
        columns[column] = pa.array(values)
    pq.write_table(pa.table(columns), written, write_page_checksum=True)
    best = system_named("imputation").presets["best"]
    job = {
        "job": {"system": "imputation", "title": "Imputation"},
        "domain": {"path": written, "name_column": key},
        "known": {"path": str(known)},
        **best,
    }
    return _run(job, place, sections)


def _place_of(workspace: str | Path | None) -> _Place:
    scratch = None if workspace is not None and "://" not in str(workspace) else Scratch("distembed-")
    folder = Path(f"{workspace}-inputs") if scratch is None else Path(scratch.url) / "inputs"
    folder.mkdir(parents=True, exist_ok=True)
    own = f"{scratch.url}/workspace" if scratch is not None and workspace is None else str(workspace)
    return _Place(folder, own, scratch)


def _run(job: Sections, place: _Place, sections: Sections) -> FinishedJob:
    sectioned = {key: {**job.get(key, {}), **sections.get(key, {})} for key in {**job, **sections}}
    done = run_job(sectioned, workspace=place.workspace, replace=True)
    return replace(done, workspace=Workspace.open(place.workspace, lease=place.scratch))
