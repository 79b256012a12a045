"""Names, records and digests: what a workspace on disk consists of, without touching a disk.

Layout, relative to the workspace::

    workspace.json                            the format and its version
    lock.json                                 who writes at the moment
    manifest/<stage>.json                     the commit of a stage, written last
    manifest/copies/<stage>.json              the same once more: a damaged byte costs no computation
    journal/<stage>/stage.json                while a stage runs: what it is made from
    journal/<stage>/worked.json               and for how long it has worked
    journal/<stage>/<output>/output.json      what one output is going to be
    journal/<stage>/<output>/000007.json      the record of one block, written after its data
    arrays.zarr/<output>/c/7/0                one row block of a dense array: one chunk of a Zarr array
    arrays.zarr/<output>/000007/              one row block of a sparse array: data, indices and indptr of a CSR
    <output>.parquet, <output>                one file
    <output>/<key>/                           the files of one item, whose key says what it is made from

Every JSON document here ends with a ``seal``, the digest of all before it, so that a flipped byte in a record is seen
like one in the data.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Mapping
from functools import cached_property
from typing import Annotated, Any, Literal, NamedTuple, Self, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, NonNegativeInt, model_validator

FORMAT = "distembed workspace"
VERSION = 2
DIGEST_BYTES = 16
"""Length of every digest (BLAKE2b): 128 bits guard against damage, not against an adversary."""
TAIL_BYTES = 4
"""Bytes at the end of a file that stand beside its digest: of a chunk of Zarr they are its own checksum."""
RECORD_BYTES = 1 << 28
"""A manifest, the longest record, has no more bytes, so that a stranger's takes no more memory."""
BLOCK_BYTES = 200
"""Bytes of a block in a manifest, at least."""

WORKSPACE_FILE = "workspace.json"
LOCK_FILE = "lock.json"
MANIFEST, COPIES, JOURNAL = "manifest", "manifest/copies", "journal"
ARRAYS = "arrays.zarr"
STATES = "checkpoints"
"""What the names of the states of stages begin with, which end with them."""
RESERVED = (WORKSPACE_FILE, LOCK_FILE, MANIFEST, JOURNAL, ARRAYS)
"""Places at the top of a workspace that no plain output may take."""
_DTYPE = re.compile(r"\|(b1|[iu]1)|<([iu][248]|f(2|4|8)|c(8|16))")
"""The types of numbers that arrays are stored as, little-endian on every machine."""
INDEX_DTYPES = ("<i4", "<i8")
"""The types of column numbers and of the positions where rows begin."""
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*(/[A-Za-z0-9_][A-Za-z0-9_.-]*)*")
_KEY = re.compile(r"[0-9a-f]{6,64}")
_INNER = re.compile(r"(/(?!\.{1,2}(/|$))[A-Za-z0-9_.-]+)+")
"""What follows the place of a block in the names of its files."""
ITEM = re.compile(r"[0-9a-f]{6,64}/")
"""How the names of the files of an item begin, in the folder of their output."""
_SEAL = b',"seal":"'


class ManifestError(ValueError):
    """An error in a record of a workspace, which is damaged or was written by another version."""


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
    """The size in bytes and the digest of a file as it was written; the digest ends with the file's last bytes."""

    size: NonNegativeInt
    digest: str
    version: str = ""
    """What an object store calls this content, so that a listing tells whether it has changed."""

    @property
    def tail(self) -> str:
        """Return the last bytes of the file in hexadecimal digits: of a chunk of Zarr they are its checksum."""
        return self.digest[2 * DIGEST_BYTES :]


def check_name(name: str, what: str = "Output name") -> str:
    """Return `name` if it is a valid file name on every store.

    Raises
    ------
    ValueError
        If it is empty or absolute, leads to a parent folder, or holds unusual characters.
    """
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ValueError(f"{what} {name!r} must be made of letters, digits, '_', '-', '.' and inner '/'.")
    return name


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


def check_free(name: str) -> None:
    """Refuse the name of a file that would lie where the workspace keeps its own.

    Raises
    ------
    ValueError
        If it would.
    """
    if name.split("/", maxsplit=1)[0] in RESERVED:
        raise ValueError(f"{name!r} would lie among the workspace's own files: give it another name.")


StageName = Annotated[str, AfterValidator(check_stage)]


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=False, ser_json_inf_nan="constants")


class Output(_Record):
    """The description of an output of a stage before any of it is stored.

    ``kind`` is dense, csr, table, bytes, page or files. ``shape`` and ``row_blocks`` count rows and columns for arrays;
    a table or plain file has one block; for files ``row_blocks`` has a 1 per item. A page is a file that is drawn from
    other outputs and shows how long they took: it takes part in no digest. ``constant`` is to be added to every cell of
    a sparse array, those that are not stored too. A temporary output ends with its stage.

    Examples
    --------
    >>> import distembed as de
    >>> output = de.Workspace.open("runs/titles").describe("vectors").spec  # of the example of run_job
    >>> output.kind, output.shape, output.dims
    ('dense', (16, 3), ('word', 'component'))
    """

    stage: StageName
    name: Annotated[str, AfterValidator(check_name)]
    kind: Literal["dense", "csr", "table", "bytes", "page", "files"]
    row_blocks: tuple[NonNegativeInt, ...]
    shape: tuple[NonNegativeInt, ...] = ()
    dtype: str = ""
    dims: tuple[str, ...] = ()
    units: str = ""
    meaning: str = ""
    temporary: bool = False
    constant: float = 0.0

    @model_validator(mode="after")
    def _check(self) -> Self:
        if not self.is_array:
            check_free(self.location)
            return self
        if self.shape[:1] != (sum(self.row_blocks),) or (self.kind == "csr" and len(self.shape) != 2):
            raise ValueError(f"Array {self.name!r} of shape {self.shape} has other rows than its blocks.")
        if not _DTYPE.fullmatch(self.dtype):
            raise ValueError(f"Array {self.name!r} has dtype {self.dtype!r}, which is not stored.")
        if self.kind == "dense" and not self.temporary and set(self.row_blocks[:-1]) - {self.chunk_rows}:
            raise ValueError(f"Array {self.name!r} is cut into chunks of different sizes.")
        return self

    @property
    def is_array(self) -> bool:
        """Return whether the output is a dense or sparse array."""
        return self.kind in ("dense", "csr")

    @property
    def chunk_rows(self) -> int:
        """Return the rows of a chunk of a dense array; each of a temporary one has those of its block."""
        return max(1, max(self.row_blocks, default=1))

    @property
    def location(self) -> str:
        """Return the folder or file of the output, relative to the workspace."""
        if self.is_array:
            return f"{ARRAYS}/{self.name}"
        return f"{self.name}.parquet" if self.kind == "table" else self.name

    def block_location(self, index: int, key: str = "") -> str:
        """Return the folder or file of one block, relative to the workspace.

        Examples
        --------
        >>> import distembed as de
        >>> workspace = de.Workspace.open("runs/titles")
        >>> workspace.describe("cooccurrence").spec.block_location(0)
        'arrays.zarr/cooccurrence/000000'
        >>> workspace.describe("vectors").spec.block_location(0)
        'arrays.zarr/vectors/c/0/0'
        """
        if self.kind == "files":
            return f"{self.location}/{key or f'{index:06d}'}"
        if self.kind == "dense":
            return f"{self.location}/c/{index}" + "/0" * (len(self.shape) - 1)
        return f"{self.location}/{index:06d}" if self.is_array else self.location

    def may_own(self, name: str) -> bool:
        """Return whether a file is named as those of the output are: others in its folder are the user's."""
        inner = name.removeprefix(f"{self.location}/")
        return inner != name and (self.is_array or (self.kind == "files" and ITEM.match(inner) is not None))

    @property
    def without_rows(self) -> Output:
        """Return the output with its first row block alone: small enough to travel with each of many tasks."""
        return self.model_copy(update={"row_blocks": self.row_blocks[:1]})

    @property
    def journal(self) -> str:
        """Return the folder of the journal of this output."""
        return f"{JOURNAL}/{self.stage}/{self.name}"


class Block(_Record):
    """The record of one block: its files, and a small summary.

    ``key`` says what an item of files was made from, or is ""; ``kernel`` is the processor and the BLAS kernel that
    computed it. Neither takes part in a digest.

    Examples
    --------
    >>> import distembed as de
    >>> record = de.Workspace.open("runs/titles").describe("vectors")  # of the example of run_job
    >>> [(block.index, len(block.digest)) for block in record.blocks]
    [(0, 32)]
    """

    index: NonNegativeInt
    files: dict[str, FileRecord]
    summary: dict[str, Any] = Field(default_factory=dict)
    key: str = ""
    kernel: str = ""

    @cached_property
    def digest(self) -> str:
        """Return the digest of the content: of the digests of its files, and the summary."""
        digests = [self.files[name].digest[: 2 * DIGEST_BYTES] for name in sorted(self.files)]
        return digest_of_json([digests, self.summary])

    @property
    def n_bytes(self) -> int:
        """Return the bytes of its files."""
        return sum(file.size for file in self.files.values())


class OutputRecord(_Record):
    """The record of an output: its description and its blocks; that of a stage that still runs may lack some.

    Examples
    --------
    >>> import distembed as de
    >>> record = de.Workspace.open("runs/titles").describe("vectors")  # of the example of run_job
    >>> len(record.blocks), record.spec.shape
    (1, (16, 3))
    """

    spec: Output
    blocks: tuple[Block, ...] = ()

    @model_validator(mode="after")
    def _check(self) -> Self:
        spec, indices = self.spec, [block.index for block in self.blocks]
        if indices != sorted(set(indices)) or (indices and indices[-1] >= len(spec.row_blocks)):
            raise ValueError(f"Output {spec.name!r} has other blocks than it says.")
        for block in self.blocks:
            check_block(spec, block)
        return self

    @cached_property
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

    @property
    def n_bytes(self) -> int:
        """Return the bytes of all its blocks on disk."""
        return sum(block.n_bytes for block in self.blocks)

    @property
    def files(self) -> list[str]:
        """Return the names of the files of all its blocks."""
        return [name for block in self.blocks for name in block.files]


LARGEST_FACT = 2**63
"""No count, size or time of a stage reaches it."""


class StageFacts(dict[str, Any]):
    """The facts of a stage, which says in one sentence what its record lacks; a number that cannot be is lacking."""

    def __init__(self, facts: Mapping[str, Any] | tuple[()] = ()) -> None:
        super().__init__(
            (name, value)
            for name, value in dict(facts).items()
            if not isinstance(value, int | float) or not abs(value) >= LARGEST_FACT
        )

    def __missing__(self, name: str) -> Any:
        raise ManifestError(f"The record of a stage lacks its fact {name!r}: run the job again to repair it.")


Seconds = Annotated[float, Field(ge=0, lt=LARGEST_FACT)]


class Worked(_Record):
    """How long a stage that runs has worked, but for pauses between runs, and how far it is in rounds or the like."""

    seconds: Seconds = 0.0
    unit: str = ""
    done: NonNegativeInt = 0
    total: NonNegativeInt | None = None
    left: Seconds | None = None
    """About how many seconds are left of these rounds; None where that is not known."""


class Begun(_Record):
    """What a stage is made from: the head of its journal while it runs, and of its manifest when it is done.

    ``inputs`` holds the fingerprints of the stages that it is computed from, ``input_digests`` the digests of their
    content ("" of one that was not committed). ``made_with``, the versions of the code, takes no part in a digest.
    ``worked`` is how long an interrupted stage had worked, and how far it was.
    """

    version: int
    stage: StageName
    fingerprint: str
    parameters: dict[str, Any]
    inputs: dict[StageName, str]
    input_digests: dict[str, str] = {}
    made_with: dict[str, str] = {}
    worked: Worked = Worked()


class StageManifest(Begun):
    """The commit of one stage. ``facts`` (seconds, bytes of memory) take no part in any digest.

    Examples
    --------
    >>> import distembed as de
    >>> manifest = de.Workspace.open("runs/titles").stages()["core"]  # of the example of run_job
    >>> sorted(manifest.outputs), manifest.parameters["psdvec"]["smoothing"]
    (['core_vectors', 'objective', 'row_totals'], 0.1)
    """

    outputs: dict[str, OutputRecord]
    facts: Annotated[dict[str, Any], AfterValidator(StageFacts)] = Field(default_factory=StageFacts)

    @model_validator(mode="after")
    def _check_outputs(self) -> Self:
        for name, record in self.outputs.items():
            if (record.spec.stage, record.spec.name) != (self.stage, name):
                raise ValueError(f"The manifest of {self.stage!r} holds an output of another name.")
            if len(record.blocks) != len(record.spec.row_blocks):
                raise ValueError(f"Output {name!r} lacks blocks.")
        return self

    def __repr__(self) -> str:
        return f"StageManifest({self.stage}: {len(self.outputs)} outputs)"

    @cached_property
    def digest(self) -> str:
        """Return the digest of the content of all outputs but pages."""
        records = {name: record for name, record in self.outputs.items() if record.spec.kind != "page"}
        return digest_of_json({name: record.digest for name, record in records.items()})

    def kernels(self) -> Counter[str]:
        """Return how many blocks each processor with its BLAS kernel computed."""
        blocks = (block for record in self.outputs.values() for block in record.blocks)
        return Counter(block.kernel for block in blocks if block.kernel)


class Header(_Record):
    """The first file of a workspace."""

    format: str
    version: int


def check_inside(name: str) -> str:
    """Return `name` if it is a relative path with ``/`` that stays inside its folder.

    Raises
    ------
    OutsideError
        If it is empty or absolute, or has a component that is empty, ``.`` or ``..``.
    """
    parts = name.split("/")
    if {"", ".", ".."} & set(parts) or "\\" in name or "\0" in name or ":" in parts[0]:
        raise OutsideError(
            f"{name!r} could lead out of the workspace: names inside are relative, without '..'."
        )
    return name


def check_block(spec: Output, block: Block) -> None:
    """Refuse the record of a block of which a file does not lie in the place of the block.

    Raises
    ------
    ValueError
        If so, or if its key is none.
    """
    if block.key and not _KEY.fullmatch(block.key):
        raise ValueError(f"the key {block.key!r} is not what this package writes")
    if spec.kind == "csr":
        length, kind = block.summary.get("n_values"), block.summary.get("index_dtype")
        if type(length) is not int or length < 0 or kind not in INDEX_DTYPES:
            raise ValueError(f"block {block.index} does not say how many values it has")
    place = spec.block_location(block.index, block.key)
    for name in block.files:
        if name != place and not (name.startswith(place) and _INNER.fullmatch(name, len(place))):
            raise ValueError(f"the file {name!r} does not lie in {place}")


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


def fingerprint(stage: str, parameters: Mapping[str, Any], inputs: Mapping[str, str]) -> str:
    """Return the digest of everything a stage is computed from: its name, parameters and fingerprints of inputs."""
    return digest_of_json([VERSION, stage, parameters, inputs], f"parameters of stage {stage!r}")


# --- sealed documents ------------------------------------------------------------------------------------------


def seal(body: bytes) -> bytes:
    """Return the text of a JSON object with a digest of all its bytes as the last key."""
    return body[:-1] + _SEAL + new_digest(body).hexdigest().encode() + b'"}\n'


def unseal(data: bytes, file: str) -> bytes:
    """Return the text of the JSON object that `seal` was given.

    Raises
    ------
    ManifestError
        If the seal does not fit; the message names `file`.
    """
    body = data.rpartition(_SEAL)[0]
    if not body or seal(body + b"}") != data:
        raise ManifestError(f"{file} is damaged (its seal does not fit): run the job again to repair it.")
    return body + b"}"


AnyRecord = TypeVar("AnyRecord", bound=_Record)


def dumped(record: _Record) -> bytes:
    """Return a record as a sealed document.

    Raises
    ------
    TypeError
        If a parameter, a fact or a summary is no JSON.
    ValueError
        If it has more than `RECORD_BYTES`.
    """
    data = seal(canonical_json(record.model_dump(mode="python", exclude_defaults=True), "record"))
    if len(data) > RECORD_BYTES:  # it could not be read again
        raise ValueError(
            f"A record would have {len(data):,} bytes, more than the {RECORD_BYTES:,} that are read: make fewer and "
            "larger blocks, of fewer files."
        )
    return data


def loaded(data: bytes, kind: type[AnyRecord], file: str) -> AnyRecord:
    """Return the record in a sealed document.

    Raises
    ------
    ManifestError
        If it is damaged, or not what this package writes.
    """
    body = unseal(data, file)
    try:
        return kind.model_validate_json(body)
    except ValueError as error:
        reason = str(error).replace("\n", " ")
        raise ManifestError(
            f"The record {file} is not what this package writes ({reason}): run the job again."
        ) from error
