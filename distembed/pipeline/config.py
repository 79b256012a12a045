"""A job file: one TOML, checked whole before anything runs.

Every section is a frozen pydantic model that refuses unknown keys, so a misspelt option is an error that
names the nearest real one and never a silent default.
"""

from __future__ import annotations

import difflib
import tomllib
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

    system: Literal["psdvec", "imputation", "transfer"] = "psdvec"
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


class CollectionSection(Section):
    """`[first]` or `[second]`: a collection of documents; its texts may be one field of records that hold both."""

    paths: tuple[str, ...] = Field(min_length=1)
    format: Literal["auto", "mediawiki", "text", "jsonl", "parquet", "tsv"] = "auto"
    layout: Literal["line", "blocks"] = "line"
    encoding: str = "utf-8"
    text_field: str = "text"
    id_field: str | None = "id"
    title_field: str | None = None
    label_field: str | None = None
    pattern: str = "unicode"
    lowercase: bool = True
    numbers: bool = False
    apostrophes: bool = False
    split_bytes: Bytes = parse_bytes("32MiB")
    stop_words: Literal["none", "english"] = "none"
    vectors: str | None = None


class TermsSection(Section):
    """`[terms]`: which words of a collection count, and how (tf-idf)."""

    min_documents: int = Field(default=2, ge=1)
    max_share: float = Field(default=0.5, gt=0, le=1)
    max_size: int | None = Field(default=None, ge=1)
    sublinear: bool = True


class RepresentationSection(Section):
    """`[representation]`: the rows that neighbours are sought among."""

    kind: Literal["lsa", "tf_idf", "psdvec"] = "lsa"
    n_components: int = Field(default=150, ge=1)
    random_state: int = Field(default=0, ge=0)


class TopicsSection(Section):
    """`[topics]`: the proportions learnt on the first collection."""

    method: Literal["nmf", "semantic_nmf", "lda"] = "nmf"
    n_topics: int = Field(default=20, ge=2)
    n_iter: int = Field(default=200, ge=1)
    window: int = Field(default=10, ge=1)
    random_state: int = Field(default=0, ge=0)


class PairsSection(Section):
    """`[pairs]`: documents known to be the same: a share of those with equal ids, or a file of pairs of ids."""

    share: float = Field(default=0.05, gt=0, le=1)
    path: str | None = None
    random_state: int = Field(default=0, ge=0)


class AlignmentSection(Section):
    """`[alignment]`: the estimator (`distembed.FeaturePreservingEmbedding`)."""

    n_components: int = Field(default=20, ge=1)
    n_neighbors: int = Field(default=10, ge=1)
    affinity: Literal["binary", "cosine", "gaussian", "local"] = "local"
    symmetry: Literal["mutual", "union"] = "mutual"
    correspondence_weight: float = Field(default=1.0, gt=0)
    regularization: float = Field(default=0.1, ge=0)
    normalization: Literal["none", "symmetric"] = "none"
    propagate: bool = True
    max_iter: int = Field(default=50, ge=1)
    tol: float = Field(default=1e-4, ge=0)
    random_state: int = Field(default=0, ge=0)


class TransferEvaluationSection(Section):
    """`[evaluation]`: shares of the documents with a counterpart that are taken as known, and draws of each."""

    shares: tuple[Annotated[float, Field(gt=0, lt=1)], ...] = (0.01, 0.05, 0.1, 0.2, 0.5)
    n_seeds: int = Field(default=3, ge=1)
    n_aligned: int = Field(default=50, ge=1)


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


class TransferJob(Job):
    """A job of `system = "transfer"`: two collections and known pairs in, topics of the second one out."""

    first: CollectionSection
    second: CollectionSection
    terms: TermsSection = TermsSection()
    representation: RepresentationSection = RepresentationSection()
    topics: TopicsSection = TopicsSection()
    pairs: PairsSection = PairsSection()
    alignment: AlignmentSection = AlignmentSection()
    evaluation: TransferEvaluationSection = TransferEvaluationSection()

    @model_validator(mode="after")
    def _representation_fits(self) -> Self:
        missing = [name for name in ("first", "second") if getattr(self, name).vectors is None]
        if self.representation.kind == "psdvec" and missing:
            raise ValueError(
                f"representation.kind = 'psdvec' needs the vectors of a PSDVec job for each collection; give "
                f"{missing[0]}.vectors, a workspace or a vector file"
            )
        if self.representation.kind == "tf_idf" and self.alignment.propagate:
            raise ValueError(
                "alignment.propagate = true rotates one collection onto the other, and words of two languages "
                "are no common axes; set alignment.propagate = false, or representation.kind = 'lsa'"
            )
        return self

    def located(self, folder: Path) -> Self:
        """Return the job with its inputs looked up from the folder of its file."""
        sides = {name: _located_collection(getattr(self, name), folder) for name in ("first", "second")}
        path = None if self.pairs.path is None else locate(self.pairs.path, folder)
        return self.model_copy(update={**sides, "pairs": self.pairs.model_copy(update={"path": path})})


def _located_collection(section: CollectionSection, folder: Path) -> CollectionSection:
    paths = tuple(locate(path, folder) for path in section.paths)
    vectors = None if section.vectors is None else locate(section.vectors, folder)
    return section.model_copy(update={"paths": paths, "vectors": vectors})


JOBS: dict[str, type[Job]] = {"psdvec": PSDVecJob, "imputation": ImputationJob, "transfer": TransferJob}
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
    section, dot, name = key.strip().partition(".")
    if not (equals and dot and name):
        raise JobError(
            f"the setting {setting!r} is not of the form section.key=value, as psdvec.n_components=50"
        )
    try:
        parsed = tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        parsed = value.strip()
    tree.setdefault(section, {})[name] = parsed


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
        return f"{where}: {fault['ctx']['error']}"
    return f"{where} = {fault['input']!r} is not allowed: {fault['msg'].lower()}"


def _model_at(job: type[Job], parents: tuple[str, ...]) -> type[BaseModel]:
    model: type[BaseModel] = job
    for name in parents:
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
