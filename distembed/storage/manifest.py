"""Manifests and block records: what a stage announced, began and finished, as sealed JSON files."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import datetime
from functools import lru_cache
from typing import Any

import pyarrow.parquet as pq

from distembed.storage.files import Folder
from distembed.storage.schema import (
    MANIFEST,
    Begun,
    BlockRecord,
    FileRecord,
    ManifestError,
    NewerFormatError,
    Output,
    OutputRecord,
    StageManifest,
    begun_from_json,
    block_from_json,
    block_to_json,
    check_output,
    files_from_json,
    manifest_from_json,
    manifest_to_json,
    output_from_json,
    output_to_json,
    seal,
    unseal,
)

KEPT_BYTES = 2**16
"""A manifest of up to so many bytes is parsed once: a run asks for the same ones hundreds of times."""


_ITEM = re.compile(r"(\d{4,}/)?part-\d{6}")
"""How the names of the files of an item begin, in the folder of their output."""


def may_own(output: Output, name: str) -> bool:
    """Return whether a file is named as those in the folder of an output are: others there are the user's."""
    inner = name.removeprefix(f"{output.location}/")
    is_item = output.kind == "files" and _ITEM.match(inner) is not None
    return inner != name and (output.is_array or is_item)


def manifest_file(stage: str) -> str:
    """Return the name of the file whose presence commits a stage."""
    return f"{MANIFEST}/{stage}.json"


def begun_file(stage: str) -> str:
    """Return the name of the file written when a stage begins."""
    return f"{MANIFEST}/{stage}/stage.json"


def output_file(output: Output) -> str:
    """Return the name of the file that announces an output."""
    return f"{output.records}/output.json"


def block_file(output: Output, index: int) -> str:
    """Return the name of the file with the record of a block."""
    return f"{output.records}/blocks/{index:06d}.json"


def read_sealed(folder: Folder, name: str) -> dict[str, Any] | None:
    """Return the body of a sealed file; None if it does not exist.

    Raises
    ------
    ManifestError
        If it is damaged.
    """
    try:
        data = folder.read_record(name)
    except FileNotFoundError:
        return None
    return unseal(data, folder.path(name))


def read_manifest(folder: Folder, stage: str) -> StageManifest | None:
    """Return the commit of a stage; None if there is none.

    Raises
    ------
    ManifestError
        If it is damaged or in a newer format.
    """
    try:
        data = folder.read_record(manifest_file(stage))
    except FileNotFoundError:
        return None
    parse = _parse if len(data) <= KEPT_BYTES else _parse.__wrapped__
    return parse(data, stage, folder.path(manifest_file(stage)))


@lru_cache(maxsize=256)
def _parse(data: bytes, stage: str, path: str) -> StageManifest:
    return manifest_from_json(unseal(data, path), stage)


def write_manifest(folder: Folder, manifest: StageManifest) -> None:
    """Commit a stage in one atomic write."""
    folder.write(manifest_file(manifest.stage), seal(manifest_to_json(manifest)), durable=True)


def committed(folder: Folder) -> dict[str, StageManifest]:
    """Return the readable commits by stage; `verify` reports the damaged ones."""
    return commits_of(folder, committed_names(folder.directly_in(MANIFEST)))


def commits_of(folder: Folder, stages: Iterable[str]) -> dict[str, StageManifest]:
    """Return the readable commits among those of some stages, by stage."""
    found = {stage: tolerant(read_manifest, folder, stage) for stage in stages}
    return {stage: manifest for stage, manifest in found.items() if manifest is not None}


def has_any(folder: Folder) -> bool:
    """Return whether a folder holds a whole record that a stage has begun or is committed."""
    try:
        files = folder.find(MANIFEST)
    except FileNotFoundError:  # a bucket that is not there
        return False
    names = [
        *map(manifest_file, committed_names(files)),
        *map(begun_file, begun_names(files)),
    ]
    return any(tolerant(read_sealed, folder, name) is not None for name in names)


def committed_output(folder: Folder, name: str) -> OutputRecord | None:
    """Return the record of a committed output; None if no stage has it.

    The manifest of the stage that announced the output is read before those of others: that of a stage of
    tens of thousands of items takes a second, and each of their tasks asks for the vocabulary.
    """
    stages = committed_names(folder.directly_in(MANIFEST))
    stages.sort(key=lambda stage: not folder.exists(f"{MANIFEST}/{stage}/{name}/output.json"))
    for stage in stages:
        manifest = tolerant(read_manifest, folder, stage)
        if manifest is not None and name in manifest.outputs:
            return manifest.outputs[name]
    return None


def committed_names(files: Iterable[str]) -> list[str]:
    """Return the stages whose manifest is among the files of a workspace, sorted."""
    inner = (name[len(MANIFEST) + 1 :] for name in files if name.startswith(f"{MANIFEST}/"))
    return sorted(name[: -len(".json")] for name in inner if "/" not in name and name.endswith(".json"))


def begun_names(files: Iterable[str]) -> list[str]:
    """Return the stages that have begun, committed or not, sorted."""
    inner = (name.split("/") for name in files)
    return sorted({parts[1] for parts in inner if len(parts) == 3 and parts[2] == "stage.json"})


def tolerant(read: Any, *arguments: Any) -> Any:
    """Call `read`, with None in place of a damaged record: on resume that means it was never written."""
    try:
        return read(*arguments)
    except NewerFormatError:
        raise
    except ManifestError:
        return None


def begun_text(made: Begun | StageManifest) -> bytes:
    """Return the record that a stage has begun: from what it is computed, and with which versions."""
    body = {
        "fingerprint": made.fingerprint,
        "parameters": dict(made.parameters),
        "inputs": dict(made.inputs),
        "input_digests": dict(made.input_digests),
        "made_with": dict(made.made_with),
    }
    return seal(body)


def read_begun(folder: Folder, stage: str) -> Begun | None:
    """Return from what a stage that has begun is computed, None if it has not begun or its record is damaged."""
    body = tolerant(read_sealed, folder, begun_file(stage))
    found: Begun | None = None if body is None else tolerant(begun_from_json, body, stage)
    return found


def interrupted(folder: Folder) -> dict[str, Begun]:
    """Return the inputs of every stage that has begun and is not committed."""
    return {
        stage: begun._replace(seconds=_seconds_between_records(folder, stage))
        for stage in set(begun_names(folder.find(MANIFEST))) - committed(folder).keys()
        if (begun := read_begun(folder, stage)) is not None
    }


def _seconds_between_records(folder: Folder, stage: str) -> float:
    """Return the seconds from the oldest to the newest record of a stage; 0 if the store has no file times."""
    infos = folder.fs.find(folder.inside(f"{MANIFEST}/{stage}"), detail=True).values()
    times = [info.get("mtime") or info.get("LastModified") or info.get("updated") for info in infos]
    seconds = [t.timestamp() if isinstance(t, datetime) else t for t in times]
    known = [float(t) for t in seconds if isinstance(t, int | float)]
    return max(known) - min(known) if known else 0.0


def write_output(folder: Folder, output: Output, files: Mapping[str, FileRecord]) -> None:
    """Announce an output, with its files that belong to no block."""
    folder.write(output_file(output), output_text(output, files))


def output_text(output: Output, files: Mapping[str, FileRecord]) -> bytes:
    """Return what announces an output."""
    listed = {name: list(record) for name, record in files.items()}
    return seal({"spec": output_to_json(output), "files": listed})


def read_output(folder: Folder, name: str) -> OutputRecord | None:
    """Return an announced output without its blocks from its file, None if absent or damaged."""
    try:
        data = folder.read_record(name)
    except FileNotFoundError:
        return None
    return tolerant(_read_announced, data, name, folder.path(name))


@lru_cache(maxsize=256)
def _read_announced(data: bytes, name: str, path: str) -> OutputRecord:
    body = unseal(data, path)
    spec = output_from_json(body.get("spec", {}))
    if output_file(spec) != name:
        raise ManifestError(f"{name} announces output {spec.name!r} of stage {spec.stage!r}.")
    return OutputRecord(spec, (), files_from_json(body.get("files", {}), spec.location))


def write_block_record(folder: Folder, output: Output, block: BlockRecord) -> None:
    """Record one block, after its data."""
    folder.write(block_file(output, block.index), block_text(block))


def block_text(block: BlockRecord) -> bytes:
    """Return the record of a block."""
    return seal(block_to_json(block))


def read_blocks(folder: Folder, output: Output) -> dict[int, BlockRecord]:
    """Return the readable records of an output's blocks by index."""
    there = folder.find(output.records)
    found = {}
    for index in range(len(output.row_blocks)):
        if block_file(output, index) in there:
            found[index] = tolerant(_read_block, folder, output, index)
    return {index: block for index, block in found.items() if block is not None}


def _read_block(folder: Folder, output: Output, index: int) -> BlockRecord | None:
    body = read_sealed(folder, block_file(output, index))
    return None if body is None else block_from_json(body, output, index)


def announced(folder: Folder, stage: str) -> dict[str, OutputRecord]:
    """Return the outputs that a stage has announced, by name, without their blocks."""
    files = folder.find(f"{MANIFEST}/{stage}")
    found = (read_output(folder, name) for name in sorted(files) if name.endswith("/output.json"))
    return {record.spec.name: record for record in found if record is not None}


def remove_output(folder: Folder, spec: Output) -> None:
    """Remove the data of an output, then its block records, then its announcement, so that it can be stored again."""
    remove_data(folder, spec)
    folder.remove(f"{spec.records}/blocks")
    folder.remove(spec.records)


def remove_data(folder: Folder, spec: Output) -> None:
    """Remove the data of an output, and no folder or file of the user that lies where a record names one."""
    if spec.kind == "files":
        names = list(folder.find(spec.location))
        own = [name for name in names if may_own(spec, name)]
        for name in own if len(own) < len(names) else [spec.location]:
            folder.remove(name)
    elif spec.is_array or _is_as_announced(folder, spec):
        folder.remove(spec.location)


def _is_as_announced(folder: Folder, spec: Output) -> bool:
    """Return whether a file has the bytes, or the rows and columns, of the output that was announced in its place."""
    try:
        path = folder.regular(spec.location)
        if spec.kind == "bytes":
            return bool(folder.fs.size(path) == spec.shape[0])
        with folder.fs.open(path, "rb") as file:
            found = pq.read_metadata(file)
        return (found.num_rows, len(found.schema.to_arrow_schema())) == spec.shape
    except (OSError, ValueError):
        return False


def remove_stage(folder: Folder, stage: str) -> None:
    """Remove a stage: first the commit, then the data, and last the record that it began."""
    manifest = tolerant(read_manifest, folder, stage)
    specs = [record.spec for record in announced(folder, stage).values()]
    specs += [] if manifest is None else [record.spec for record in manifest.outputs.values()]
    folder.remove(manifest_file(stage))
    for spec in specs:
        remove_output(folder, spec)
    folder.remove(f"{MANIFEST}/{stage}")


def contents(folder: Folder, stages: Iterable[str]) -> dict[str, str]:
    """Return the digest of what each stage has committed, "" of one that is not committed."""
    done = commits_of(folder, stages)
    return {stage: done[stage].content if stage in done else "" for stage in stages}


def replaced(stage: StageManifest | Begun, done: Mapping[str, StageManifest]) -> list[str]:
    """Return the inputs of a stage of which something else is committed now than it was computed from."""

    def differs(known: str, now: StageManifest) -> bool:
        return now.fingerprint != stage.inputs[known] or now.content != stage.input_digests[known]

    return [name for name in stage.inputs if name in done and differs(name, done[name])]


def dependents(folder: Folder, stage: str) -> list[str]:
    """Return every stage that has `stage` among its inputs, directly or through others, the most distant first."""
    return _dependents(_known(folder, committed(folder)), stage)


def _dependents(known: Mapping[str, StageManifest | Begun], stage: str) -> list[str]:
    found: list[str] = []
    front = {stage}
    while front:
        front = {
            name for name, made in known.items() if made.inputs.keys() & front and name not in (*found, stage)
        }
        found.extend(sorted(front))
    return found[::-1]


def outdated(folder: Folder) -> list[str]:
    """Return every stage that rests on a commit which has been replaced, each before those it depends on.

    Such a stage was computed from something else than what is committed of an input, or depends on such a commit.
    What rests on a stage that is not committed is judged when that is.
    """
    done = committed(folder)
    known = _known(folder, done)
    found: dict[str, None] = {}
    for name, made in known.items():
        if replaced(made, done):
            found.update(dict.fromkeys([*(_dependents(known, name) if name in done else ()), name]))
    return list(found)


def _known(folder: Folder, done: Mapping[str, StageManifest]) -> dict[str, StageManifest | Begun]:
    """Return what every stage was or is being computed from, committed or begun."""
    names = sorted({*done, *begun_names(folder.find(MANIFEST))})
    found = {name: done.get(name) or read_begun(folder, name) for name in names}
    return {name: made for name, made in found.items() if made is not None}


def blocks_done(folder: Folder, stage: str) -> dict[str, tuple[int, int]]:
    """Return how many blocks of each announced output of a stage are recorded, and of how many."""
    files = folder.find(f"{MANIFEST}/{stage}")
    return {
        name: (
            sum(file.startswith(f"{record.spec.records}/blocks/") for file in files),
            len(record.spec.row_blocks),
        )
        for name, record in announced(folder, stage).items()
    }


def check_place(folder: Folder, spec: Output, known: dict[str, Output]) -> None:
    """Refuse an output whose place is taken, inside that of another, or reserved for the workspace itself.

    Parameters
    ----------
    folder : Folder
        The workspace.
    spec : Output
        The output.
    known : dict
        The outputs that are announced, by the file that announces them. It is filled the first time, and `spec` is
        added: the single writer of a workspace need not list its records again.

    Raises
    ------
    ValueError
        If so; the message names the other output.
    """
    check_output(spec)
    if not known:
        files = [name for name in folder.find(MANIFEST) if name.endswith("/output.json")]
        found = {name: read_output(folder, name) for name in files}
        known |= {name: record.spec for name, record in found.items() if record is not None}
    for name, other in list(known.items()):
        if name == output_file(spec) or not _collide(spec, other):
            continue
        if folder.exists(name) and folder.exists(begun_file(other.stage)):
            raise ValueError(
                f"Output {spec.name!r} of stage {spec.stage!r} would share its place with "
                f"{other.name!r} of stage {other.stage!r}: give it another name."
            )
        del known[name]  # it was removed since
    known[output_file(spec)] = spec


def _collide(one: Output, other: Output) -> bool:
    pairs = ((f"{one.name}/", f"{other.name}/"), (f"{one.location}/", f"{other.location}/"))
    return any(a.startswith(b) or b.startswith(a) for a, b in pairs)
