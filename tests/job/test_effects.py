"""Each key of a job decides something under its method, and is refused under others."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import pytest
import tomli_w

from distembed.job.keys import Key, keys_of, toml_value
from distembed.job.load import checked_job
from distembed.job.model import Job, JobError
from distembed.job.registry import SYSTEMS
from distembed.job.stage import system_of

LEAST = dict.fromkeys(("comparison", "psdvec", "topics"), "[corpus]\npaths = ['text']") | {
    "imputation": "[domain]\npath = 'd.csv'\n[known]\npath = 'k.txt'",
    "transfer": "[collections.first]\npaths = ['a.jsonl']\n[collections.second]\npaths = ['b.jsonl']",
    "wordspaces": "[corpus]\npaths = ['text']\n[recipes.a]\nof = 'contexts'\nmethod = 'ppmi'",
}
"""The least job of each system, after its section `[job]`."""


def least_job(system: str, *settings: str) -> Job:
    text = f"[job]\nsystem = '{system}'\nworkspace = 'w'\n{LEAST[system]}\n"
    return checked_job(text, name="job.toml", folder=Path(), settings=settings)


def parameters_of(job: Job) -> dict[str, Any]:
    return {spec.name: spec.parameters(job) for spec in system_of(job).stages(job)}


REFUSED = [
    ("topics", ["topics.method='nmf'", "topics.shift=3"], "methods with it are consensus, semantic_nmf"),
    ("topics", ["topics.method='orthogonal_nmf'", "topics.solver='hals'"], "are consensus, semantic_nmf, nmf"),
    ("topics", ["topics.method='spherical_kmeans'", "topics.init='random'"], "semantic_nmf, nmf, orthogonal_nmf"),
    ("transfer", ["representation.kind='tf_idf'", "alignment.propagate=false", "representation.n_components=5"],
     "'tf_idf' has no such key: methods with it are lsa"),
    ("imputation", ["domain.max_missing=0.5"], "methods with it are return_correlation"),
    ("wordspaces", ["recipes.a.alpha=0.5"], "'ppmi' has no such key: methods with it are lpp"),
]  # fmt: skip
"""A system, settings whose last one has no effect under the method of the others, and a part of the error."""

NOT_FITTING = [
    ("topics", ["topics.method='nmff'"], "'nmff' is not allowed: input should be 'consensus', 'semantic_nmf', "),
    ("topics", ["topics.method=['nmf']"], "topics.method = "),
    ("topics", ["topics.compare_with=3"], "topics.compare_with = 3 is not allowed: input should be a list"),
    ("transfer", ["representation.kind='tf_idf'"], "set alignment.propagate = false, or representation.kind = 'lsa'"),
    ("psdvec", ["psdvec.ridge=[2, 4]"], "ridge has 2 values and bands has 1 size; give one ridge"),
    ("psdvec", ["psdvec.ridge=[2, 4]", "psdvec.bands=[10]"], "ridge has 2 values and bands has 1 size; give one"),
    ("psdvec", ["psdvec.bands=[10, 20]"], "and bands has 2 sizes; give one ridge"),
    *(("psdvec", [f"resources.block_memory={value}"], f"resources.block_memory = {value}: this is no size: give a size")
      for value in ("['c']", "inf", "nan", "'1e400GiB'")),
]  # fmt: skip
"""A system, settings that do not fit each other or the type of a key, and a part of the error."""


@pytest.mark.parametrize(("system", "settings", "sentence"), REFUSED + NOT_FITTING)
def test_keys_that_do_not_fit_are_refused_when_a_job_is_loaded(system, settings, sentence):
    with pytest.raises(JobError) as refused:
        least_job(system, *settings)
    assert sentence in str(refused.value)
    if (system, settings, sentence) in REFUSED:
        assert f"unknown key {settings[-1].partition('=')[0]}; " in str(refused.value)


TAKEN = [
    ("topics", ["topics.method='nmf'", "topics.compare_with=['semantic_nmf']"], "topics.shift=3"),
    ("topics", [], "topics.shift=3"),
    ("topics", ["topics.method='semantic_nmf'", "topics.compare_with=['nmf']"], "topics.solver='hals'"),
    ("imputation", ["domain.transform='return_correlation'"], "domain.max_missing=0.5"),
    ("psdvec", ["psdvec.ridge=[2, 4]", "psdvec.bands=[10, 20]"], "psdvec.n_iter=3"),
]
"""A system, settings, and a key of a method that they have, be it only to compare it."""


@pytest.mark.parametrize(("system", "settings", "key"), TAKEN)
def test_a_key_of_a_method_that_is_compared_is_taken_and_kept(system, settings, key):
    job = least_job(system, *settings, key)
    assert parameters_of(job) != parameters_of(least_job(system, *settings))
    text = tomli_w.dumps(job.model_dump(mode="json", exclude_none=True))
    assert checked_job(text, name="w", folder=Path()) == job  # the copy in a workspace


@pytest.mark.parametrize("system", list(SYSTEMS))
def test_every_key_of_a_report_is_read_by_it(system):
    module = Path(str(import_module(SYSTEMS[system]).__file__)).parent
    source = "".join(file.read_text() for file in module.glob("*.py") if file.name != "config.py")
    for key in (key.name for key in keys_of(system) if key.section == "report"):
        assert f"report.{key}" in source or f'"{key}"' in source, key


READ_ELSEWHERE = {"job", "resources", "plan", "report", "paper.NAME", "recipes.NAME", "matrices.disk"}
"""Sections and keys that decide no content; a recipe refuses the keys that its method does not have."""
TABLES = "recipes.of_{0}={{of='{0}', method='counts'}}"
WITH = {
    "psdvec": [(
        "subwords.enabled=true", "counting.weighting='dynamic'", "counting.subsample=0.1", "sides.weight=0.5",
        "matrices.keep=['distances']", "psdvec.n_core=1000",
    )],
    "imputation": [("domain.transform='return_correlation'", "domain.names='n'", "matrices.keep=['distances']")],
    "transfer": [(
        "collections.first.features='f.csv'", "collections.second.features='g.csv'", "alignment.propagate=false",
        "collections.a.paths=['o.jsonl']",
    )],
    "topics": [("topics.graph_weight=2", "counting.weighting='dynamic'")],
    "wordspaces": [
        (
            *(TABLES.format(table) for table in ("contexts", "hal")),
            *(f"{table}.weighting='dynamic'" for table in ("contexts", "hal")),
            "recipes.b={of='contexts', method='ppmi'}", "recipes.c={of='b', method='lsa'}",
            "wordspaces.spaces=['of_contexts', 'of_hal', 'c']", "evaluation.sets=['s']",
        ),
        (
            "recipes.b={of='contexts', method='ppmi'}", "recipes.c={of='b', method='lsa'}",
            "wordspaces.vectors='c'", "matrices.keep=['distances']",
        ),
    ],
}  # fmt: skip
"""Settings under which keys have an effect that have none in the least job."""
VALUES = ("true", "false", "3", "2", "0.3", "0.6", "'x'", "['x']", "[3]", "[0.3]", "12345", "'64KiB'", "['nmf']",
          "['pmi']", "'c'")  # fmt: skip
"""Values of any type that a key may take, as TOML writes them."""


def choices_of(annotation: Any) -> Iterator[Any]:
    if get_origin(annotation) is Literal:
        yield from get_args(annotation)
    else:
        for inner in get_args(annotation):
            yield from choices_of(inner)


def decides(system: str, key: Key, settings: tuple[str, ...]) -> bool:
    """Return whether a key changes a parameter of a stage under some settings."""
    place = key.place.replace("NAME", "a")
    before = parameters_of(least_job(system, *settings))
    for value in ("['c']", *map(toml_value, choices_of(key.annotation)), *VALUES):
        try:
            job = least_job(system, *settings, f"{place}={value}")
        except JobError:
            continue
        if parameters_of(job) != before:
            return True
    return False


@pytest.mark.parametrize("system", list(SYSTEMS))
def test_every_key_decides_something(system):
    """A key that is no parameter of any stage is accepted and ignored."""
    keys = [
        key
        for key in keys_of(system)
        if not READ_ELSEWHERE & {key.section, key.place} and len(list(choices_of(key.annotation))) != 1
    ]
    choices = [(), *WITH.get(system, [])]
    assert [key.place for key in keys if not any(decides(system, key, one) for one in choices)] == []
