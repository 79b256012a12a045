"""Keys that have no effect under the other settings of a job are named, and decide nothing."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import pytest
import tomli_w

from distembed.job.keys import Key, keys_of, toml_value
from distembed.job.load import parse_job
from distembed.job.model import Job, JobError, tagged
from distembed.job.plan import plan_job
from distembed.job.registry import SYSTEMS
from distembed.job.run import run_stages
from distembed.job.stage import system_named, system_of
from distembed.storage.workspace import Workspace
from tests.commands import run

IDLE = [
    ("psdvec", ["psdvec.n_iter=1"], ["psdvec.n_passes=3"]),
    ("psdvec", [], ["matrices.disk='1GiB'", "matrices.metric='euclidean'"]),
    ("psdvec", [], ["subwords.min_n=2", "subwords.weight=1", "subwords.random_state=3", "counting.seed=3"]),
    ("psdvec", ["corpus.paths=['a.jsonl.gz']"], ["corpus.delimiter=';'", "corpus.quotes='none'"]),
    ("psdvec", ["corpus.paths=['a.jsonl']"], ["corpus.redirects=true"]),
    ("psdvec", ["corpus.paths=['*.jsonl']"], ["corpus.layout='blocks'", "corpus.namespaces=[1]"]),
    ("psdvec", ["corpus.format='text'"], ["corpus.text_field='body'", "corpus.title_field='name'"]),
    ("psdvec", ["corpus.format='tsv'"], ["corpus.delimiter=';'"]),
    ("psdvec", ["corpus.format='parquet'"], ["corpus.encoding='latin-1'"]),
    ("psdvec", ["corpus.pattern='shlex:split'"], ["corpus.apostrophes=true"]),
    ("topics", ["topics.method='nmf'"], ["topics.shift=3", "topics.semantic_weight=2", "coherence.frequency_weight=0"]),
    ("topics", [], ["topics.solver='hals'", "topics.n_topics_range=[2, 3]"]),
    ("topics", [], ["topics.n_neighbors=3"]),
    (
        "topics",
        ["topics.method='spherical_kmeans'"],
        ["topics.init='random'", "topics.tol=0.1", "topics.graph_weight=2"],
    ),
    ("topics", ["topics.n_starts=1"], ["topics.choose='objective'"]),
    ("imputation", [], ["domain.names_from='a'"]),
    ("imputation", [], ["domain.max_missing=0.5", "domain.first='2001'"]),
    ("transfer", [], ["first.vectors='v.txt'", "features.drop=['a']", "evaluation.topic_share=0.3"]),
    ("transfer", ["features.path='f.csv'"], ["topics.n_topics=5", "topics.random_state=2"]),
    ("transfer", ["pairs.path='p.tsv'"], ["pairs.share=0.5", "pairs.random_state=5"]),
    ("transfer", ["pairs.path='p'", "others.a={paths=['a'], pairs='q'}"], ["pairs.share=0.5"]),
    (
        "transfer",
        ["representation.kind='tf_idf'", "alignment.propagate=false"],
        ["representation.n_components=5", "representation.random_state=5"],
    ),
    ("comparison", [], ["parts.column='year'", "parts.id_column='name'"]),
    ("wordspaces", [], ["hal.window=3", "bigrams.window=2", "evaluation.keep_words=false"]),
]  # fmt: skip
"""A system, settings, and keys that have no effect under them."""

LEAST = {
    "comparison": "[corpus]\npaths = ['text']",
    "psdvec": "[corpus]\npaths = ['text']",
    "topics": "[corpus]\npaths = ['text']",
    "imputation": "[domain]\npath = 'd.csv'\n[known]\npath = 'k.txt'",
    "transfer": "[first]\npaths = ['a.jsonl']\n[second]\npaths = ['b.jsonl']",
    "wordspaces": "[corpus]\npaths = ['text']\n[recipes.a]\nof = 'contexts'\nmethod = 'ppmi'",
}
"""The least job of each system, after its section `[job]`."""


def least_job(system: str, *settings: str) -> Job:
    text = f"[job]\nsystem = '{system}'\nworkspace = 'w'\n{LEAST[system]}\n"
    return parse_job(text, name="job.toml", folder=Path(), settings=settings)


def parameters_of(job: Job) -> dict[str, Any]:
    return {spec.name: spec.parameters(job) for spec in system_of(job).stages(job)}


@pytest.mark.parametrize(("system", "settings", "idle"), IDLE)
def test_a_key_without_effect_is_named_and_decides_nothing(
    system: str, settings: list[str], idle: list[str]
) -> None:
    plain, job = least_job(system, *settings), least_job(system, *settings, *idle)
    assert plain.idle == ()
    assert len(job.idle) == len({key.partition(".")[::2] for key in idle})
    for setting in idle:
        place = setting.partition("=")[0]
        named = [
            line
            for line in job.idle
            if line.startswith((f"{place} = ", f"the section [{place.split('.')[0]}]"))
        ]
        assert len(named) == 1, (setting, job.idle)
        assert " has no effect: it needs " in named[0]
    assert parameters_of(job) == parameters_of(plain)
    assert job.model_dump() == plain.model_dump()
    again = parse_job(tomli_w.dumps(job.model_dump(mode="json", exclude_none=True)), name="w", folder=Path())
    assert again.idle == ()  # the copy in a workspace


def test_each_declared_rule_is_tried() -> None:
    """Of the keys that a rule names one is tried in some system that has it."""
    tried = {setting.partition("=")[0].split(".")[-1] for _, _, idle in IDLE for setting in idle} | {"hal"}
    for system in SYSTEMS:
        job = system_named(system).job
        sections = [
            model for field in job.model_fields.values() for model in tagged(field.annotation).values()
        ]
        for model in (job, *sections):
            for rule in getattr(model, "effects", ()):
                assert (
                    not rule.keys
                    or tried & {*rule.keys}
                    or rule.keys in (("contexts",), ("bigrams",), ("join",), ("counting",))
                ), rule


@pytest.mark.parametrize(
    "setting", ["corpus.delimiter=';'", "corpus.layout='blocks'", "corpus.namespaces=[1]"]
)
def test_a_folder_may_hold_texts_of_any_format(setting: str) -> None:
    assert least_job("psdvec", setting).idle == ()


@pytest.mark.parametrize(
    "settings",
    [
        ("counting.subsample=0.1", "counting.seed=3"),
        ("subwords.enabled=true", "subwords.min_n=2"),
        ("psdvec.n_passes=3", "psdvec.random_state=3"),
        ("corpus.paths=['a.csv', 'b.jsonl']", "corpus.delimiter=';'"),
        ("counting.seed=0", "subwords.min_n=3"),  # the defaults
    ],
)
def test_a_key_with_effect_is_not_named(settings: tuple[str, ...]) -> None:
    assert least_job("psdvec", *settings).idle == ()


def test_plan_and_run_name_a_key_without_effect(tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("a b c d a b c d\n" * 5)
    (tmp_path / "job.toml").write_text(
        "[job]\nworkspace = 'w'\n[corpus]\npaths = ['text.txt']\n[counting]\nseed = 3\n[psdvec]\nn_components = 2\n"
    )
    for command in ("plan", "run"):
        words = ("--until", "tokens") if command == "run" else ()
        done = run(command, tmp_path / "job.toml", *words)
        assert "counting.seed = 3 has no effect: it needs counting.subsample" in done.output


READ_ELSEWHERE = {"job", "resources", "plan", "report", "paper.NAME", "recipes.NAME"}
"""Sections that decide no content; a recipe refuses the keys that its method does not have."""


@pytest.mark.parametrize("system", list(SYSTEMS))
def test_every_key_of_a_report_is_read_by_it(system: str) -> None:
    module = Path(str(import_module(SYSTEMS[system]).__file__)).parent
    files = [*module.glob("*.py"), *(module.parents[1] / "words").glob("*.py")]
    source = "".join(file.read_text(encoding="utf-8") for file in files if file.name != "config.py")
    own = "".join(
        file.read_text(encoding="utf-8") for file in module.glob("*.py") if file.name != "config.py"
    )
    for key in (key.name for key in keys_of(system) if key.section == "report"):
        assert f"report.{key}" in (source if "words.stages" in own else own) or f'"{key}"' in own, key


TABLES = "recipes.of_{0}={{of='{0}', method='counts'}}"
WITH = {
    "comparison": ("parts.column='year'",),
    "psdvec": (
        "subwords.enabled=true", "counting.weighting='dynamic'", "counting.subsample=0.1", "sides.weight=0.5",
    ),
    "imputation": ("known.min_count=2", "known.counts='c.csv'", "imputation.method='residuals'", "domain.names='n'"),
    "transfer": (
        "features.path='f.csv'", "features.second='g.csv'", "alignment.propagate=false", "others.a.paths=['o.jsonl']",
    ),
    "topics": ("topics.n_topics='auto'", "topics.graph_weight=2", "counting.weighting='dynamic'"),
    "wordspaces": (
        *(TABLES.format(table) for table in ("contexts", "bigrams", "hal")),
        *(f"{table}.weighting='dynamic'" for table in ("contexts", "bigrams", "hal")),
        "recipes.b={of='contexts', method='ppmi'}", "recipes.c={of='b', method='lsa'}",
        "wordspaces.spaces=['of_contexts', 'of_bigrams', 'of_hal', 'c']",
    ),
}  # fmt: skip
"""Settings under which keys have an effect that have none in the least job."""


def values_of(key: Key) -> Iterator[str]:
    """Yield values that a key may take, as TOML writes them: those of a list of choices, and some of any type."""
    yield "['c']"
    yield from (toml_value(choice) for choice in choices_of(key.annotation))
    yield from (
        "true",
        "false",
        "3",
        "2",
        "0.3",
        "0.6",
        "'x'",
        "['x']",
        "[3]",
        "[0.3]",
        "12345",
        "'64KiB'",
        "['nmf']",
        "['pmi']",
        "'c'",
    )


def choices_of(annotation: Any) -> Iterator[Any]:
    if get_origin(annotation) is Literal:
        yield from get_args(annotation)
    else:
        for inner in get_args(annotation):
            yield from choices_of(inner)


def decides(system: str, key: Key, settings: tuple[str, ...]) -> bool:
    """Return whether a key changes a parameter of a stage under some settings, or is named as one without effect."""
    place = key.place.replace("NAME", "a")
    before = parameters_of(least_job(system, *settings))
    for value in values_of(key):
        try:
            job = least_job(system, *settings, f"{place}={value}")
        except JobError:
            continue
        if job.idle or parameters_of(job) != before:
            return True
    return False


@pytest.mark.parametrize("system", list(SYSTEMS))
def test_every_key_decides_something_or_is_named(system: str) -> None:
    """A key that is no parameter of any stage and not named is accepted and ignored."""
    keys = [
        key
        for key in keys_of(system)
        if key.section not in READ_ELSEWHERE and len(list(choices_of(key.annotation))) != 1
    ]
    unread = {
        key.place
        for key in keys
        if not decides(system, key, ()) and not decides(system, key, WITH.get(system, ()))
    }
    assert unread == UNREAD.get(system, set())


UNREAD: dict[str, set[str]] = {}


# --- settings that do not fit ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "settings",
    [("psdvec.ridge=[2, 4]",), ("psdvec.ridge=[2, 4]", "psdvec.bands=[10]"), ("psdvec.bands=[10, 20]",)],
)
def test_bands_without_a_ridge_each_are_refused_when_a_job_is_loaded(settings: tuple[str, ...]) -> None:
    with pytest.raises(
        JobError, match=r"psdvec: ridge has \d values? and bands has \d sizes?; give one ridge"
    ):
        least_job("psdvec", *settings)
    least_job("psdvec", "psdvec.ridge=[2, 4]", "psdvec.bands=[10, 20]")


@pytest.mark.parametrize(
    ("value", "shown"), [("['c']", r"\['c'\]"), ("inf", "inf"), ("nan", "nan"), ("1e400GiB", "'1e400GiB'")]
)
def test_what_is_no_size_is_refused(value: str, shown: str) -> None:
    with pytest.raises(
        JobError, match=rf"resources\.block_memory = {shown}: this is no size: give a size, such as 64MiB"
    ):
        least_job("psdvec", f"resources.block_memory={value}")


def test_more_core_words_than_words_are_refused_before_pairs_are_counted(tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("a b c d a b c d\n" * 5)
    job = least_job(
        "psdvec", f"corpus.paths=['{tmp_path}/text.txt']", "vocabulary.min_count=1", f"job.workspace='{tmp_path}/w'",
        "psdvec.n_components=2", "psdvec.n_core=5",
    )  # fmt: skip
    with pytest.raises(ValueError, match="n_core is 5 but there are 4 words"):
        run_stages(job)
    assert sorted(Workspace.open(tmp_path / "w").stages()) == ["tokens", "vocabulary"]
    with pytest.raises(ValueError, match="n_core is 5 but there are 4 words"):
        plan_job(job)
