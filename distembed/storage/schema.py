"""Names, records and digests: what a workspace on disk consists of, without touching a disk.

Layout, relative to the workspace::

    workspace.json                            the format and its version
    lock.json                                 who writes at the moment
    verified.json                             when all was last found as it was written
    manifest/<stage>.json                     the commit of a stage, written last
    manifest/<stage>/stage.json               its parameters and inputs, written first
    manifest/<stage>/<output>/output.json     what one output is going to be
    manifest/<stage>/<output>/000007.json     the record of one block, written after its data
    arrays.zarr/<output>/000007/              one row block: a Zarr array, or data, indices, indptr of a CSR
    <output>.parquet, <output>                one file
    <output>/part-000007*                     the files of one item (<output>/0000/part-000007* of more than 1,000)

Every JSON document here ends with a ``seal``, the digest of the rest, so that a flipped byte in a record is
seen like one in the data.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import ntpath
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

FORMAT = "distembed workspace"
VERSION = 1
DIGEST_BYTES = 16
"""Length of every digest (BLAKE2b): 128 bits guard against damage, not against an adversary."""

WORKSPACE_FILE = "workspace.json"
LOCK_FILE = "lock.json"
MANIFEST = "manifest"
ARRAYS = "arrays.zarr"
VERIFIED_FILE = "verified.json"
RESERVED = (WORKSPACE_FILE, LOCK_FILE, VERIFIED_FILE, MANIFEST, ARRAYS)
"""Places at the top of a workspace that no plain output may take."""
_DTYPE = re.compile(r"\|(b1|[iu]1)|<([iu][248]|f(2|4|8|16)|c(8|16|32))")
"""The types of numbers that arrays are stored as, little-endian on every machine."""
KINDS = ("dense", "csr", "table", "bytes", "files")
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*(/[A-Za-z0-9_][A-Za-z0-9_.-]*)*")


class ManifestError(ValueError):
    """An error in a record of a workspace, which is damaged or was written by a newer version."""


class NewerFormatError(ManifestError):
    """An error in a record that a newer version of this package has written."""


class DamagedError(OSError):
    """An error in a stored block, whose content is not what was written."""


class LockedError(OSError):
    """An error because another run is writing the workspace."""


class OutsideError(OSError):
    """An error in a name, or in a symbolic link on its path, that leads out of the workspace."""


class Problem(NamedTuple):
    """One problem found on disk; ``block`` is -1 if it does not concern a block."""

    stage: str
    output: str
    block: int
    file: str
    what: str


class FileRecord(NamedTuple):
    """The size in bytes and the digest of a file as it was written."""

    size: int
    digest: str


MANY_ITEMS, FOLDER_ITEMS = 1_000, 100
"""A files output of more items than the first has them in numbered folders of so many as the second.

The files of an item are found by listing their folder: of a thousand items that takes longer than all else.
"""


@dataclass(frozen=True)
class Output:
    """The description of an output of a stage before any of it is stored.

    ``kind`` is dense, csr, table, bytes or files. ``shape`` and ``row_blocks`` count rows and columns for
    arrays; a table or plain file has one block; for files ``row_blocks`` has a 1 per item. ``constant`` is to be
    added to every cell of a sparse array, those that are not stored too.

    Examples
    --------
    >>> import distembed as de
    >>> output = de.Workspace.open("runs/titles").describe("vectors").spec  # of the example of run_job
    >>> output.kind, output.shape, output.dims
    ('dense', (16, 3), ('word', 'component'))
    """

    stage: str
    name: str
    kind: str
    row_blocks: tuple[int, ...]
    shape: tuple[int, ...] = ()
    dtype: str = ""
    dims: tuple[str, ...] = ()
    units: str = ""
    meaning: str = ""
    temporary: bool = False
    constant: float = 0.0

    @property
    def is_array(self) -> bool:
        """Return whether the output is a dense or sparse array."""
        return self.kind in ("dense", "csr")

    @property
    def location(self) -> str:
        """Return the folder or file of the output, relative to the workspace."""
        if self.is_array:
            return f"{ARRAYS}/{self.name}"
        return f"{self.name}.parquet" if self.kind == "table" else self.name

    def block_location(self, index: int) -> str:
        """Return the folder, file or file-name prefix of one block, relative to the workspace.

        Examples
        --------
        >>> import distembed as de
        >>> output = de.Workspace.open("runs/titles").describe("cooccurrence").spec
        >>> output.block_location(0)
        'arrays.zarr/cooccurrence/000000'
        """
        if self.is_array:
            return f"{self.location}/{index:06d}"
        if self.kind != "files":
            return self.location
        inner = f"/{index // FOLDER_ITEMS:04d}" if self.shape[0] > MANY_ITEMS else ""
        return f"{self.location}{inner}/part-{index:06d}"

    @property
    def without_rows(self) -> Output:
        """Return the output without its row blocks: small enough to travel with each of many tasks."""
        return replace(self, row_blocks=())

    @property
    def records(self) -> str:
        """Return the folder of the records of this output."""
        return f"{MANIFEST}/{self.stage}/{self.name}"


@dataclass(frozen=True)
class BlockRecord:
    """The record of one block: the digest of its content, its files, and a small summary for items of files.

    ``key`` says what an item of files was made from, or is ""; it takes no part in a digest.

    Examples
    --------
    >>> import distembed as de
    >>> record = de.Workspace.open("runs/titles").describe("vectors")  # of the example of run_job
    >>> [(block.index, len(block.digest)) for block in record.blocks]
    [(0, 32)]
    """

    index: int
    digest: str
    files: Mapping[str, FileRecord]
    summary: Mapping[str, Any] = field(default_factory=dict)
    key: str = ""


@dataclass(frozen=True)
class OutputRecord:
    """The record of a committed output; ``dropped`` means that a temporary one was removed intentionally.

    Examples
    --------
    >>> import distembed as de
    >>> record = de.Workspace.open("runs/titles").describe("vectors")  # of the example of run_job
    >>> record.dropped, len(record.blocks), record.spec.shape
    (False, 1, (16, 3))
    """

    spec: Output
    blocks: tuple[BlockRecord, ...]
    files: Mapping[str, FileRecord] = field(default_factory=dict)
    dropped: bool = False

    @property
    def digest(self) -> str:
        """Return the digest of the content: kind, shape, type and the digests of the blocks in order."""
        spec = self.spec
        head = [
            spec.kind,
            spec.shape,
            spec.dtype,
            spec.row_blocks,
            *([spec.constant] if spec.constant else []),
        ]
        return digest_of_json([head, [block.digest for block in self.blocks]])


@dataclass(frozen=True, repr=False)
class StageManifest:
    """The commit of one stage.

    ``inputs`` holds the fingerprints of the stages that it was computed from, ``input_digests`` the digests of their
    content ("" of one that was not committed). ``facts`` (seconds, bytes of memory) and ``made_with`` (the versions
    and the processor that computed it) take no part in any digest.

    Examples
    --------
    >>> import distembed as de
    >>> manifest = de.Workspace.open("runs/titles").stages()["vectors"]  # of the example of run_job
    >>> sorted(manifest.outputs), manifest.parameters["psdvec"]["smoothing"]
    (['vectors'], 0.1)
    """

    stage: str
    fingerprint: str
    parameters: Mapping[str, Any]
    inputs: Mapping[str, str]
    outputs: Mapping[str, OutputRecord]
    facts: Mapping[str, Any]
    made_with: Mapping[str, str] = field(default_factory=dict)
    input_digests: Mapping[str, str] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"StageManifest({self.stage}: {len(self.outputs)} outputs)"

    @property
    def digest(self) -> str:
        """Return the digest of the content of all outputs that are not temporary."""
        kept = {name: record.digest for name, record in self.outputs.items() if not record.spec.temporary}
        return digest_of_json(kept)

    @cached_property
    def content(self) -> str:
        """Return the digest of what later stages read: as `digest`; of temporary outputs where there are no others."""
        is_temporary = all(record.spec.temporary for record in self.outputs.values())
        every = {name: record.digest for name, record in self.outputs.items()}
        return digest_of_json(every) if is_temporary else self.digest


class StageFacts(dict[str, Any]):
    """The facts of a stage, which says in one sentence what its record lacks."""

    def __missing__(self, name: str) -> Any:
        raise ManifestError(f"The record of a stage lacks its fact {name!r}: run the job again to repair it.")


class Begun(NamedTuple):
    """The inputs with which an interrupted stage was begun, and the seconds between its first and last records."""

    fingerprint: str
    parameters: Mapping[str, Any]
    inputs: Mapping[str, str]
    made_with: Mapping[str, str]
    input_digests: Mapping[str, str]
    seconds: float


def check_name(name: str, what: str) -> str:
    """Return `name` if it is a valid file name on every store.

    Raises
    ------
    ValueError
        If it is empty or absolute, leads to a parent folder, or holds unusual characters.
    """
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ValueError(f"{what} {name!r} must be made of letters, digits, '_', '-', '.' and inner '/'.")
    return name


def check_inside(name: str) -> str:
    """Return `name` if it is a relative path with ``/`` that stays inside its folder.

    Raises
    ------
    OutsideError
        If it is empty or absolute, or has a component that is empty, ``.`` or ``..``.
    """
    parts = name.split("/")
    if {"", ".", ".."} & set(parts) or "\\" in name or "\0" in name or ntpath.splitdrive(name)[0]:
        raise OutsideError(
            f"{name!r} could lead out of the workspace: names inside are relative, without '..'."
        )
    return name


def check_output(output: Output) -> Output:
    """Return `output` if its names are valid and its place is not reserved for the workspace itself.

    Raises
    ------
    ValueError
        If they are not.
    """
    check_stage(output.stage)
    check_name(output.name, "Output name")
    if output.kind not in KINDS:
        raise ValueError(f"Output {output.name!r} is of kind {output.kind!r}, which is none of {KINDS}.")
    if not output.is_array and output.location.split("/", maxsplit=1)[0] in RESERVED:
        raise ValueError(
            f"Output {output.name!r} would lie among the workspace's own files: give it another name."
        )
    return output


def check_stage(name: str) -> str:
    """Return `name` if it is a valid stage name, which names one folder of records.

    Raises
    ------
    ValueError
        If it is not.
    """
    if "/" in check_name(name, "Stage name"):
        raise ValueError(f"Stage name {name!r} must not contain '/'.")
    return name


def canonical_json(value: object, what: str = "value") -> bytes:
    """Return the canonical JSON text of `value`: sorted keys, no spaces, no NaN.

    Raises
    ------
    TypeError
        If `value` cannot be written as JSON.
    """
    try:
        return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()
    except (TypeError, ValueError) as error:
        message = f"The {what} must be made of finite numbers, strings, lists and dictionaries: {error}."
        raise TypeError(message) from error


def digest_of_json(value: object, what: str = "value") -> str:
    """Return the digest of the canonical JSON of `value`."""
    return new_digest(canonical_json(value, what)).hexdigest()


def new_digest(data: bytes = b"") -> hashlib.blake2b:
    """Return the running digest that every checksum of a workspace uses."""
    return hashlib.blake2b(data, digest_size=DIGEST_BYTES)


def seal(body: Mapping[str, Any]) -> bytes:
    """Return `body` as one line of JSON that contains its own digest."""
    return canonical_json({**body, "seal": digest_of_json(body, "record")}, "record") + b"\n"


def unseal(data: bytes, file: str) -> dict[str, Any]:
    """Return the body of a sealed document.

    Raises
    ------
    ManifestError
        If it is not a JSON object, its seal does not match, or a byte of its layout was changed.
    NewerFormatError
        If its seal matches and it is of a newer format, whose layout may be another.
    """
    try:
        body: dict[str, Any] = json.loads(data)
        is_laid_out = data == canonical_json(body) + b"\n"
        is_sealed = body.pop("seal") == digest_of_json(body)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        is_laid_out = is_sealed = False
    if is_sealed:
        _refuse_newer(body.get("version"), file)
    if not (is_sealed and is_laid_out):
        raise ManifestError(f"{file} is damaged (its seal does not fit): run the job again to repair it.")
    return body


def _refuse_newer(version: object, file: str) -> None:
    if isinstance(version, int) and version > VERSION:
        raise NewerFormatError(
            f"{file} was written by a newer distembed: its format has version {version}, and this one reads up to "
            f"{VERSION}: install a newer distembed."
        )


def fingerprint(stage: str, parameters: Mapping[str, Any], inputs: Mapping[str, str]) -> str:
    """Return the digest of everything a stage is computed from: its name, parameters and fingerprints of inputs."""
    return digest_of_json([VERSION, stage, parameters, inputs], f"parameters of stage {stage!r}")


def output_to_json(output: Output) -> dict[str, Any]:
    """Return an `Output` as a dictionary for JSON."""
    return asdict(output)


def output_from_json(body: Mapping[str, Any]) -> Output:
    """Return the `Output` that `output_to_json` wrote.

    Raises
    ------
    ManifestError
        If it is not what `output_to_json` writes, or one of its names could lead out of its place.
    """
    with _as_written("an output"):
        lists = {key: tuple(body[key]) for key in ("row_blocks", "shape", "dims")}
        output = check_output(Output(**{**body, **lists}))
        sizes = (*output.row_blocks, *output.shape)
        texts = (output.dtype, *output.dims, output.units, output.meaning)
        _demand(all(_is_size(size) for size in sizes), "a size")
        _demand(not output.is_array or output.shape[0] == sum(output.row_blocks), "the number of rows")
        _demand(all(isinstance(text, str) for text in texts), "a text")
        _demand(not output.is_array or _DTYPE.fullmatch(output.dtype) is not None, "the dtype of an array")
        _demand(output.kind != "csr" or len(output.shape) == 2, "the shape of a sparse array")
        _demand(isinstance(output.constant, float), "a number")
        return output


def block_to_json(block: BlockRecord) -> dict[str, Any]:
    """Return a `BlockRecord` as a dictionary for JSON."""
    files = {name: list(record) for name, record in block.files.items()}
    body = {"index": block.index, "digest": block.digest, "files": files, "summary": dict(block.summary)}
    return {**body, "key": block.key} if block.key else body


def block_from_json(body: Mapping[str, Any], output: Output, index: int) -> BlockRecord:
    """Return the `BlockRecord` that `block_to_json` wrote for block `index` of an output.

    Raises
    ------
    ManifestError
        If it is not what `block_to_json` writes, or a file of it does not lie in the place of its block.
    """
    with _as_written(f"block {index} of output {output.name!r}"):
        _demand(body["index"] == index, "the number of the block")
        key = body.get("key", "")
        _demand(all(isinstance(text, str) for text in (body["digest"], key)), "the digest or key")
        _demand(isinstance(body["summary"], dict), "the summary")
        files = files_from_json(body["files"], output.block_location(index))
        return BlockRecord(index, body["digest"], files, body["summary"], key)


def manifest_to_json(manifest: StageManifest) -> dict[str, Any]:
    """Return a `StageManifest` as a dictionary for JSON."""
    outputs = {name: _record_to_json(record) for name, record in manifest.outputs.items()}
    return {
        "version": VERSION,
        "stage": manifest.stage,
        "fingerprint": manifest.fingerprint,
        "parameters": dict(manifest.parameters),
        "inputs": dict(manifest.inputs),
        "input_digests": dict(manifest.input_digests),
        "outputs": outputs,
        "facts": dict(manifest.facts),
        "made_with": dict(manifest.made_with),
    }


def manifest_from_json(body: Mapping[str, Any], stage: str) -> StageManifest:
    """Return the `StageManifest` that `manifest_to_json` wrote for a stage.

    Raises
    ------
    ManifestError
        If it is not what `manifest_to_json` writes, or a name in it could lead out of its place.
    """
    with _as_written(f"stage {stage!r}"):
        _demand(check_stage(body["stage"]) == stage, "the name of the stage")
        outputs = {name: _record_from_json(record) for name, record in body["outputs"].items()}
        for name, record in outputs.items():
            _demand((record.spec.stage, record.spec.name) == (stage, name), "the name of an output")
        begun = begun_from_json(body, stage)
        _demand(isinstance(body["facts"], dict), "the facts")
        return StageManifest(
            stage,
            begun.fingerprint,
            begun.parameters,
            begun.inputs,
            outputs,
            StageFacts(body["facts"]),
            begun.made_with,
            begun.input_digests,
        )


def begun_from_json(body: Mapping[str, Any], stage: str) -> Begun:
    """Return what a stage has been begun with, as its record says, which knows no time.

    Raises
    ------
    ManifestError
        If one is missing or of another kind.
    """
    with _as_written(f"stage {stage!r}"):
        _demand(isinstance(body["fingerprint"], str), "the fingerprint")
        _demand(isinstance(body["parameters"], dict) and isinstance(body["inputs"], dict), "the parameters")
        for name in body["inputs"]:
            check_stage(name)
        for key in ("made_with", "input_digests"):
            texts = body[key]
            _demand(isinstance(texts, dict) and all(isinstance(v, str) for v in texts.values()), key)
        names = ("fingerprint", "parameters", "inputs", "made_with", "input_digests")
        return Begun(**{name: body[name] for name in names}, seconds=0.0)


def files_from_json(files: Mapping[str, Any], place: str) -> dict[str, FileRecord]:
    """Return the records of files that all lie in one place: a file, a folder, or a prefix not followed by a digit.

    Raises
    ------
    ManifestError
        If one lies elsewhere, or has no size and digest.
    """
    with _as_written(f"the files of {place}"):
        records = {name: FileRecord(*record) for name, record in files.items()}
        for name, record in records.items():
            lies_there = check_inside(name).startswith(place) and not name[len(place) :][:1].isdigit()
            _demand(lies_there, f"the file {name!r}")
            _demand(_is_size(record.size) and isinstance(record.digest, str), "a size or digest")
        return records


def _record_to_json(record: OutputRecord) -> dict[str, Any]:
    return {
        "spec": output_to_json(record.spec),
        "blocks": [block_to_json(block) for block in record.blocks],
        "files": {name: list(file) for name, file in record.files.items()},
        "dropped": record.dropped,
    }


def _record_from_json(body: Mapping[str, Any]) -> OutputRecord:
    spec = output_from_json(body["spec"])
    _demand(len(body["blocks"]) == len(spec.row_blocks), "the number of blocks")
    blocks = tuple(block_from_json(block, spec, index) for index, block in enumerate(body["blocks"]))
    _demand(isinstance(body["dropped"], bool), "whether it was dropped")
    return OutputRecord(spec, blocks, files_from_json(body["files"], spec.location), body["dropped"])


@contextlib.contextmanager
def _as_written(what: str) -> Iterator[None]:
    """Raise one kind of error for a record whose seal fits but which this package did not write."""
    try:
        yield
    except ManifestError:
        raise
    except (LookupError, TypeError, ValueError, AttributeError, OutsideError) as error:
        raise ManifestError(f"The record of {what} cannot be used: {error}. Run the job again.") from error


def _demand(holds: bool, what: str) -> None:
    if not holds:
        raise ValueError(f"{what} is not what this package writes")


def _is_size(value: object) -> bool:
    return type(value) is int and value >= 0
