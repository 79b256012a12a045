"""A job file: one TOML, checked whole before anything runs.

Every section is a frozen pydantic model that refuses unknown keys, so a misspelt option is an error that
names the nearest real one and never a silent default.
"""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, Literal, Self, get_args

from dask.utils import parse_bytes
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

Bytes = Annotated[int, BeforeValidator(parse_bytes), Field(gt=0)]
"""A size in bytes, written `268435456` or `"256MiB"`."""


class JobError(ValueError):
    """A job file that cannot be run as it is written."""


class Section(BaseModel):
    """A part of a job file: frozen, and closed to unknown keys."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class JobSection(Section):
    """`[job]`: what is run and where its workspace is."""

    system: Literal["psdvec", "imputation", "wordspaces"] = "psdvec"
    title: str = "distembed job"
    workspace: str = Field(min_length=1)


class CorpusSection(Section):
    """`[corpus]`: the documents and how they become tokens."""

    paths: tuple[str, ...] = Field(min_length=1)
    format: Literal["auto", "mediawiki", "text", "jsonl", "parquet"] = "auto"
    layout: Literal["line", "blocks"] = "line"
    encoding: str = "utf-8"
    errors: Literal["strict", "replace", "ignore"] = "strict"
    namespaces: tuple[int, ...] = (0,)
    redirects: bool = False
    text_field: str = "text"
    pattern: str = "unicode"
    lowercase: bool = True
    numbers: bool = False
    apostrophes: bool = False
    border: Literal["document", "line", "sentence"] = "document"
    min_border_tokens: int = Field(default=1, ge=1)
    split_bytes: Bytes = parse_bytes("32MiB")


class VocabularySection(Section):
    """`[vocabulary]`: which words get a vector."""

    min_count: int = Field(default=5, ge=1)
    max_size: int | None = Field(default=None, ge=1)
    keep: tuple[str, ...] = ()


class CountingSection(Section):
    """`[counting]`: what counts as a word's context."""

    window: int = Field(default=3, ge=1)
    direction: Literal["left", "right", "symmetric"] = "left"
    weighting: Literal["flat", "harmonic", "ramp", "dynamic"] = "flat"
    draw: int | None = Field(default=None, ge=0)
    subsample: float | None = Field(default=None, gt=0)
    seed: int = Field(default=0, ge=0)
    outside: Literal["keep", "close"] = "keep"


class PSDVecSection(Section):
    """`[psdvec]`: the factorization (`distembed.PSDVec`)."""

    n_components: int = Field(default=100, ge=1)
    n_core: int | None = Field(default=None, ge=1)
    smoothing: float = Field(default=0.02, gt=0, lt=1)
    n_iter: int = Field(default=4, ge=1)
    ridge: float | tuple[float, ...] = 2.0
    bands: tuple[int, ...] | None = None
    background_weight: float = Field(default=0.0, ge=0, le=1)
    solver: Literal["krylov", "dense"] = "krylov"
    random_state: int = Field(default=0, ge=0)

    @model_validator(mode="after")
    def _core_spans_the_components(self) -> Self:
        if self.n_core is not None and self.n_components > self.n_core:
            raise ValueError(
                f"n_components = {self.n_components} is more than n_core = {self.n_core}; lower it, or raise n_core"
            )
        return self


class DomainSection(Section):
    """`[domain]`: the table of what is known of every name; see `distembed.pipeline.tables`."""

    path: str = Field(min_length=1)
    name_column: str | None = None
    columns: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()
    transform: Literal["none", "return_correlation"] = "none"
    first: str | None = None
    last: str | None = None
    standardise: bool = False
    names: str | None = None
    names_from: str = "from"
    names_to: str = "to"
    names_label: str | None = None
    label_column: str | None = None


class KnownSection(Section):
    """`[known]`: the vectors there are, a vector file or a table with a column of names."""

    path: str = Field(min_length=1)
    format: Literal["auto", "vectors", "table"] = "auto"
    name_column: str | None = None
    drop: tuple[str, ...] = ()
    max_words: int | None = Field(default=None, ge=1)
    keep_others: bool = True


class MatchingSection(Section):
    """`[matching]`: which differences of spelling two names may have and still be one."""

    ignore_case: bool = False
    ignore_underscores: bool = True


class ImputationSection(Section):
    """`[imputation]`: the estimator (`distembed.LatentSemanticImputation`)."""

    min_degree: int = Field(default=8, ge=1)
    solver: Literal["krylov", "power"] = "krylov"
    tol: float = Field(default=1e-6, gt=0)
    max_iter: int = Field(default=10_000, ge=1)
    weights: Literal["simplex", "normalise_after"] = "simplex"
    metric: Literal["euclidean", "cosine"] = "euclidean"
    neighbors: Literal["exact", "approximate"] = "exact"
    lazy: bool = False
    floor: float = Field(default=0.1, gt=0)


class ContextsSection(CountingSection):
    """`[contexts]`: which words are counted beside a word, for word x word spaces."""

    window: int = Field(default=5, ge=1)
    direction: Literal["left", "right", "symmetric"] = "symmetric"


class HalSection(CountingSection):
    """`[hal]`: what HAL counts after a word; what stands before it is counted likewise."""

    window: int = Field(default=10, ge=1)
    direction: Literal["left"] = "left"
    weighting: Literal["flat", "harmonic", "ramp", "dynamic"] = "ramp"


Method = Literal[
    "counts", "ppmi", "tf_idf", "log_entropy", "lsa", "lpp", "eigenmaps", "random_projection", "psdvec"
]

METHOD_OPTIONS: dict[str, tuple[str, ...]] = {
    "counts": ("n_columns", "stop_words"),
    "ppmi": ("n_columns", "stop_words", "context_smoothing"),
    "tf_idf": (),
    "log_entropy": (),
    "lsa": ("n_components", "exponent", "n_dropped", "random_state"),
    "lpp": (
        "n_components", "n_neighbors", "affinity", "symmetry", "graph_of", "alpha", "unit_rows",
        "random_state",
    ),
    "eigenmaps": ("n_components", "n_neighbors", "affinity", "symmetry", "random_state"),
    "random_projection": ("n_components", "random_state"),
    "psdvec": ("n_components", "smoothing", "n_iter", "random_state"),
}  # fmt: skip
"""The options that each method of a recipe has."""

COUNTED: dict[str, tuple[str, ...]] = {
    "documents": ("counts", "tf_idf", "log_entropy"),
    "contexts": ("counts", "ppmi", "psdvec"),
    "bigrams": ("counts", "ppmi", "psdvec"),
    "hal": ("counts", "ppmi"),
}
"""The tables of counts, and the methods that make a space of each; the other methods reduce a space."""

SPARSE_METHODS = ("counts", "ppmi", "tf_idf", "log_entropy")
"""Methods whose spaces are sparse: as many columns as there are documents or words."""

GRAPH_METHODS = ("lpp", "eigenmaps")
"""Methods that start from a graph of neighbours."""


class RecipeSection(Section):
    """`[recipes.NAME]`: a space, made of counts or of another recipe's space by one method."""

    of: str
    method: Method
    title: str = ""
    n_columns: int | None = Field(default=None, ge=1)
    stop_words: Literal["keep", "drop"] = "keep"
    context_smoothing: float = Field(default=1.0, gt=0)
    n_components: int = Field(default=300, ge=1)
    exponent: float = 1.0
    n_dropped: int = Field(
        default=0, ge=0
    )  # first components left out of LSA: the first tells frequent words from rare
    n_neighbors: int = Field(default=20, ge=1)
    affinity: Literal["cosine", "binary", "gaussian", "local", "polynomial"] = "cosine"
    symmetry: Literal["union", "mutual"] = "union"
    graph_of: str | None = None
    alpha: float = Field(default=0.01, gt=0)
    unit_rows: bool = False
    smoothing: float = Field(default=0.02, gt=0, lt=1)
    n_iter: int = Field(default=4, ge=1)
    random_state: int = Field(default=0, ge=0)

    @model_validator(mode="after")
    def _method_has_the_options(self) -> Self:
        known = METHOD_OPTIONS[self.method]
        for option in sorted(self.model_fields_set - {"of", "method", "title", *known}):
            raise ValueError(
                f"method {self.method!r} has no {option}; it has {', '.join(known) or 'no options'}"
            )
        return self

    @property
    def graph_source(self) -> str:
        """Return the space whose neighbours the graph joins."""
        return self.graph_of or self.of

    def options(self, *others: str) -> dict[str, Any]:
        """Return the options of the method, and the sources it reads."""
        names = {"of", "method", *METHOD_OPTIONS[self.method], *others}
        return self.model_dump(mode="json", include=names)


class WordSpacesSection(Section):
    """`[wordspaces]`: which recipes are made and scored, in the order of the tables; by default all.

    The space named by `vectors`, a dense one, is what `distembed neighbors` and `distembed export` read.
    `n_components` is that of recipes that do not say.
    """

    spaces: tuple[str, ...] = ()
    n_components: int = Field(default=300, ge=1)
    vectors: str | None = None


class ScoringSection(Section):
    """`[evaluation]` of word spaces: the sets, and whether their words are in the vocabulary however rare."""

    sets: tuple[str, ...] = ()
    keep_words: bool = True


class EvaluationSection(Section):
    """`[evaluation]`: folders or files of evaluation sets, and what is done to the vectors first."""

    sets: tuple[str, ...] = ()
    remove_mean: bool = False
    n_components_removed: int = Field(default=0, ge=0)


class ReportSection(Section):
    """`[report]`: what the report shows beside the figures of every run."""

    words: tuple[str, ...] = ()
    n_neighbors: int = Field(default=8, ge=1)
    n_map_words: int = Field(default=300, ge=1)


class ResourcesSection(Section):
    """`[resources]`: memory and workers; none of it changes a bit of the result but `block_memory`."""

    block_memory: Bytes = parse_bytes("64MiB")
    workers: int | None = Field(default=None, ge=1)
    memory_limit: Bytes = parse_bytes("2GiB")


class Job(Section):
    """What every job file has; `made_with` is what a run writes into the copy in its workspace, and is not read."""

    job: JobSection
    report: ReportSection = ReportSection()
    resources: ResourcesSection = ResourcesSection()
    made_with: dict[str, str] = Field(default={}, exclude=True)

    def located(self, folder: Path) -> Self:  # noqa: ARG002 - a job without inputs is as it is
        """Return the job with its inputs looked up from the folder of its file."""
        return self


class PSDVecJob(Job):
    """A job of `system = "psdvec"`: a corpus in, word vectors out."""

    corpus: CorpusSection
    vocabulary: VocabularySection = VocabularySection()
    counting: CountingSection = CountingSection()
    psdvec: PSDVecSection = PSDVecSection()
    evaluation: EvaluationSection = EvaluationSection()

    def located(self, folder: Path) -> Self:
        """Return the job with its inputs looked up from the folder of its file."""
        paths = tuple(locate(path, folder) for path in self.corpus.paths)
        sets = tuple(locate(path, folder) for path in self.evaluation.sets)
        return self.model_copy(
            update={
                "corpus": self.corpus.model_copy(update={"paths": paths}),
                "evaluation": self.evaluation.model_copy(update={"sets": sets}),
            }
        )


class ImputationJob(Job):
    """A job of `system = "imputation"`: a domain table and known vectors in, the missing vectors out."""

    domain: DomainSection
    known: KnownSection
    matching: MatchingSection = MatchingSection()
    imputation: ImputationSection = ImputationSection()

    def located(self, folder: Path) -> Self:
        """Return the job with its inputs looked up from the folder of its file."""
        names = None if self.domain.names is None else locate(self.domain.names, folder)
        domain = {"path": locate(self.domain.path, folder), "names": names}
        known = {"path": locate(self.known.path, folder)}
        return self.model_copy(
            update={
                "domain": self.domain.model_copy(update=domain),
                "known": self.known.model_copy(update=known),
            }
        )


class WordSpacesJob(Job):
    """A job of `system = "wordspaces"`: a corpus in, many word spaces and their scores side by side out."""

    corpus: CorpusSection
    vocabulary: VocabularySection = VocabularySection()
    contexts: ContextsSection = ContextsSection()
    bigrams: CountingSection = CountingSection()
    hal: HalSection = HalSection()
    recipes: dict[Annotated[str, Field(pattern=r"^[a-z0-9_]+$")], RecipeSection] = Field(min_length=1)
    wordspaces: WordSpacesSection = WordSpacesSection()
    evaluation: ScoringSection = ScoringSection()

    @model_validator(mode="before")
    @classmethod
    def _components_of_all(cls, tree: Any) -> Any:
        """Give recipes without a number of components that of `[wordspaces]`."""
        try:
            default = tree["wordspaces"]["n_components"]
            return {
                **tree,
                "recipes": {name: _with_components(r, default) for name, r in tree["recipes"].items()},
            }
        except (KeyError, TypeError, AttributeError):  # nothing to give, or a fault that the fields will name
            return tree

    @model_validator(mode="after")
    def _recipes_fit_together(self) -> Self:
        for name in self.wordspaces.spaces:
            if name not in self.recipes:
                raise ValueError(f"wordspaces.spaces names {name!r}, {_nearest(name, self.recipes)}")
        for name, recipe in self.recipes.items():
            _check_sources(name, recipe, self.recipes)
        vectors, needed = self.wordspaces.vectors, self.needed()
        if vectors is not None and (vectors not in needed or self.recipes[vectors].method in SPARSE_METHODS):
            dense = [name for name in needed if self.recipes[name].method not in SPARSE_METHODS]
            raise ValueError(
                f"wordspaces.vectors is {vectors!r}; name a dense space of the job: {', '.join(dense)}"
            )
        return self

    @property
    def spaces(self) -> tuple[str, ...]:
        """Return the recipes whose spaces are scored."""
        return self.wordspaces.spaces or tuple(self.recipes)

    def needed(self) -> tuple[str, ...]:
        """Return the recipes to make, those that others start from first."""
        order: dict[str, None] = {}
        for name in self.spaces:
            self._add_needed(name, order, ())
        return tuple(order)

    def _add_needed(self, name: str, order: dict[str, None], path: tuple[str, ...]) -> None:
        if name in path:
            raise ValueError(f"recipes.{name} starts from itself: {' <- '.join([*path, name])}")
        recipe = self.recipes[name]
        for source in (recipe.of, recipe.graph_source):
            if source not in COUNTED:
                self._add_needed(source, order, (*path, name))
        order[name] = None

    def located(self, folder: Path) -> Self:
        """Return the job with its inputs looked up from the folder of its file."""
        paths = tuple(locate(path, folder) for path in self.corpus.paths)
        sets = tuple(locate(path, folder) for path in self.evaluation.sets)
        return self.model_copy(
            update={
                "corpus": self.corpus.model_copy(update={"paths": paths}),
                "evaluation": self.evaluation.model_copy(update={"sets": sets}),
            }
        )


def _with_components(recipe: dict[str, Any], default: int) -> dict[str, Any]:
    reduces = "n_components" in METHOD_OPTIONS.get(recipe.get("method", ""), ())
    return {"n_components": default, **recipe} if reduces else recipe


def _check_sources(name: str, recipe: RecipeSection, recipes: dict[str, RecipeSection]) -> None:
    if name in COUNTED:
        raise ValueError(f"recipes.{name} bears the name of a table of counts; choose another name")
    if recipe.of in COUNTED:
        allowed = COUNTED[recipe.of]
    else:
        counting = {method for methods in COUNTED.values() for method in methods}
        allowed = tuple(method for method in METHOD_OPTIONS if method not in counting)
    for source in (recipe.of, recipe.graph_source):
        if source not in recipes and source not in COUNTED:
            raise ValueError(
                f"recipes.{name} starts from {source!r}, {_nearest(source, [*recipes, *COUNTED])}"
            )
    if recipe.method not in allowed:
        raise ValueError(
            f"recipes.{name} makes {recipe.method!r} of {recipe.of!r}; of that there is {', '.join(allowed)}"
        )
    if recipe.graph_source in COUNTED and recipe.method in GRAPH_METHODS:
        raise ValueError(
            f"recipes.{name}: graph_of = {recipe.graph_of!r} is a table of counts; name a recipe"
        )


def _nearest(name: str, known: Iterable[str]) -> str:
    """Say that there is no such recipe, and which is spelled most like it."""
    known = list(known)
    nearest = difflib.get_close_matches(name, known, n=1, cutoff=0.4)
    return (
        f"which is not there; {f'did you mean {nearest[0]}?' if nearest else 'there are ' + ', '.join(known)}"
    )


JOBS: dict[str, type[Job]] = {
    "psdvec": PSDVecJob,
    "imputation": ImputationJob,
    "wordspaces": WordSpacesJob,
}
"""The sections of each system."""


def load_job(path: str | Path, *, settings: tuple[str, ...] = (), workspace: str | None = None) -> Job:
    """Read and check a job file.

    Parameters
    ----------
    path
        A TOML file. Relative inputs are relative to its folder; the workspace to the current one.
    settings
        `"section.key=value"` overrides, the value written as in TOML (a bare word is taken as a string).
    workspace
        Overrides `job.workspace`.

    Raises
    ------
    JobError
        The file is not TOML, a key is unknown (the nearest is named), or a value is not allowed.
    FileNotFoundError
        There is no such file.
    """
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise FileNotFoundError(f"there is no job file {path}; jobs/ in the source holds examples") from None
    try:
        tree = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise JobError(f"{path} is not valid TOML: {error}") from None
    for setting in settings:
        _override(tree, setting)
    if workspace is not None:
        tree.setdefault("job", {})["workspace"] = workspace
    model = _model_of(tree)
    try:
        job = model.model_validate(tree)
    except ValidationError as error:
        raise JobError(f"{path}: {_first_fault(error, model)}") from None
    return job.located(path.parent)


def _model_of(tree: dict[str, Any]) -> type[Job]:
    """Return the model of the system a file asks for; where there is no such system, one that will say so."""
    section = tree.get("job")
    system = section.get("system", "psdvec") if isinstance(section, dict) else "psdvec"
    return JOBS.get(system, PSDVecJob) if isinstance(system, str) else PSDVecJob


def _override(tree: dict[str, Any], setting: str) -> None:
    key, equals, value = setting.partition("=")
    *tables, name = key.strip().split(".")
    if not (equals and tables and name):
        raise JobError(
            f"the setting {setting!r} is not of the form section.key=value, as psdvec.n_components=50"
        )
    try:
        parsed = tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        parsed = value.strip()
    for table in tables:
        tree = tree.setdefault(table, {})
    tree[name] = parsed


def _first_fault(error: ValidationError, job: type[Job]) -> str:
    """Say the first fault of a job in one sentence, with the nearest key where one is unknown."""
    fault = error.errors()[0]
    where = ".".join(str(part) for part in fault["loc"])
    if fault["type"] == "extra_forbidden":
        *parents, unknown = (str(part) for part in fault["loc"])
        known = list(_model_at(job, tuple(parents)).model_fields)
        nearest = difflib.get_close_matches(unknown, known, n=1, cutoff=0.4)
        hint = f"did you mean {nearest[0]}?" if nearest else f"the keys here are {', '.join(known)}"
        return f"unknown key {where}; {hint}"
    if fault["type"] == "missing":
        return f"{where} is required and not there; add it"
    if fault["type"] == "value_error" and isinstance(fault["input"], dict):
        return f"{where}: {fault['ctx']['error']}".removeprefix(": ")
    return f"{where} = {fault['input']!r} is not allowed: {fault['msg'].lower()}"


def _model_at(job: type[Job], parents: tuple[str, ...]) -> type[BaseModel]:
    model: type[BaseModel] = job
    for name in parents:
        if name not in model.model_fields:  # the key of a table of tables, such as recipes.lsa
            continue
        annotation = model.model_fields[name].annotation
        candidates = [annotation, *get_args(annotation)]
        model = next(c for c in candidates if isinstance(c, type) and issubclass(c, BaseModel))
    return model


def locate(path: str, folder: Path) -> str:
    """Return where an input is: `{package}/file` in a package, a URL as it is, else in `folder`.

    Raises
    ------
    JobError
        The package is not installed.
    """
    if path.startswith("{"):
        package, _, rest = path[1:].partition("}")
        spec = find_spec(package)
        if spec is None or not spec.submodule_search_locations:
            raise JobError(
                f"{path} lies in the Python package {package}, which is not installed; "
                f"type: pip install 'distembed[demo]' (or pip install {package})"
            )
        return str(Path(spec.submodule_search_locations[0]) / rest.lstrip("/"))
    if "://" in path or Path(path).is_absolute():
        return path
    return str(folder / path)
