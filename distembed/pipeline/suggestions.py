"""What somebody most likely meant by a key that a job does not have.

The key may be spelt otherwise, stand in another section, or bear the name that another program gives it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import get_args

from pydantic import BaseModel

from distembed.pipeline.keys import section_model
from distembed.pipeline.sections import Job
from distembed.spelling import did_you_mean, spelled_like

MUCH_ALIKE = 0.8
"""How alike two names of different sections are, from 0 to 1, where one is taken for the other."""

OTHER_NAMES = {
    "min_documents": ("min_df", "no_below", "min_doc_freq"),
    "max_share": ("max_df", "no_above"),
    "max_size": ("max_features", "vocab_size", "max_vocab", "max_vocab_size", "max_final_vocab", "max_words"),
    "min_count": ("min_freq", "min_frequency", "min_tf"),
    "n_components": (
        "dim",
        "dims",
        "dimension",
        "dimensions",
        "vector_size",
        "size",
        "d",
        "k",
        "rank",
        "n_dims",
    ),
    "n_topics": ("num_topics", "n_components", "k", "n_clusters", "topics"),
    "n_iter": ("epochs", "iterations", "iter", "max_iter", "n_iterations", "rounds"),
    "n_neighbors": ("k", "n_neighbours", "topn", "neighbors", "neighbours"),
    "random_state": ("seed", "random_seed"),
    "subsample": ("sample", "t"),
    "window": ("window_size", "context", "context_size"),
    "stop_words": ("stopwords",),
    "lowercase": ("lower", "lower_case", "case"),
    "pattern": ("token_pattern", "tokenizer", "regex"),
    "standardize": ("standardise", "scale", "normalize"),
    "paths": ("path", "files", "file", "input", "inputs", "documents"),
    "path": ("paths", "file", "table", "input"),
    "name_column": ("index", "index_col", "id_column", "names_column"),
    "sets": ("set", "paths", "files"),
    "workers": ("n_jobs", "threads", "n_workers", "processes"),
    "memory_limit": ("memory", "max_memory"),
    "partition_bytes": ("split_bytes", "chunk_bytes", "chunk_size", "blocksize"),
    "oov": ("outside", "unknown"),
}
"""Names that other programs, and people, give to the keys of a job."""


def suggestion(job: type[Job], parents: Sequence[str], unknown: str) -> str:
    """Return the rest of a sentence on an unknown key: what was most likely meant, or what there is.

    Parameters
    ----------
    job : type
        The model of the job file.
    parents : sequence of str
        The sections above the key; none for an unknown section.
    unknown : str
        The key.
    """
    here = list(_model_at(job, parents).model_fields)
    elsewhere = {f"{name}.{key}": key for name, key in _all_keys(job) if parents and name != parents[0]}
    found = (
        next(iter(spelled_like(unknown, here)), None)
        or _renamed(unknown, {key: key for key in here})
        or next((place for place, key in elsewhere.items() if key == unknown), None)
        or _renamed(unknown, elsewhere)
        or _nearest_place(unknown, elsewhere)
    )
    if not parents and found is None:
        found = next((f"{name}.{key}" for name, key in _all_keys(job) if key == unknown), None)
    return did_you_mean([found] if found else [], otherwise=f"the keys here are {', '.join(here)}")


def _all_keys(job: type[Job]) -> list[tuple[str, str]]:
    sections = {name: section_model(field) for name, field in job.model_fields.items()}
    return [(name, key) for name, model in sections.items() if model for key in model.model_fields]


def _nearest_place(unknown: str, places: dict[str, str]) -> str | None:
    nearest = spelled_like(unknown, places.values(), alike=MUCH_ALIKE)
    return next((place for place, key in places.items() if key in nearest), None)


def _renamed(unknown: str, places: dict[str, str]) -> str | None:
    return next((place for place, key in places.items() if unknown.lower() in OTHER_NAMES.get(key, ())), None)


def _model_at(job: type[Job], parents: Sequence[str]) -> type[BaseModel]:
    model: type[BaseModel] = job
    for name in parents:
        if name not in model.model_fields:  # the key of a table of tables, such as recipes.lsa
            continue
        annotation = model.model_fields[name].annotation
        candidates = [annotation, *get_args(annotation)]
        model = next(c for c in candidates if isinstance(c, type) and issubclass(c, BaseModel))
    return model
