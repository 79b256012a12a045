"""Read damaged and hostile files of every kind: each gives a result, or one sentence that names the file.

Run it as `python -m tests.campaigns fuzzing --seed 0 --times 500`: so many variants of each valid file of
`tests.campaigns._samples`. A variant that raises another error, takes longer than `SECONDS`, asks for more than `BYTES`
of memory, or ends the process is printed with its number, by which `--only NAME --first NUMBER --times 1` reads it
again, and is written to the folder `--kept`.
"""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import multiprocessing
import os
import re
import resource
import signal
import tempfile
import traceback
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import zstandard

from benchmarks.measures import tell, tell_head, tell_row
from distembed.storage.records import canonical_json, seal
from tests.campaigns._samples import Sample, all_samples

SECONDS, BYTES = 20, 2 << 30
"""What reading one variant of some kilobytes may take of the processor and of memory: more is a finding."""
STANDSTILL = 600
"""Seconds of wall time after which a process is considered to hang."""

PACKED = {
    ".gz": (gzip.decompress, gzip.compress),
    ".bz2": (bz2.decompress, bz2.compress),
    ".xz": (lzma.decompress, lzma.compress),
    ".zst": (
        lambda data: zstandard.ZstdDecompressor().stream_reader(data, read_across_frames=True).read(),
        zstandard.compress,
    ),
}
MARKS = (
    b"\0 \xff\xfe \xef\xbb\xbf \xed\xa0\x80 \xc3 \r \n\n \" ' < &#x110000; &#0; ]]> <!-- {{ [[ {| \t , ; nan inf -1 "
    b"1e400 0 99999999999999999999 2147483648 \xe2\x80\xae \xe2\x80\xa8 \xd9\xa1"
)
TOKENS = [*MARKS.split(b" "), b" ", b"1" * 5000]
NUMBERS = b"0 -1 4294967296 1e309 nan 0x7f 1_0".split()
NESTED = [*b'[ { {"a": (( {{ [[ <div> {| <!-- a. &amp; \0 a 9 \n'.split(b" "), b" "]
VALUES = json.loads(
    r'[null, true, "", "../../x", "/etc/passwd", "a\u0000b", "\ud800", [], {}, [[]], [null], {"": {}}, -1, 0]'
)
VALUES += [2**31, 2**63, 2**64, 10**400, 1e308]
"""What takes the place of a value of JSON."""


class Finding(NamedTuple):
    """A variant that was neither read nor refused."""

    name: str
    number: int
    what: str
    data: bytes


# ---- variants --------------------------------------------------------------------------------------------------


def variant(name: str, data: bytes, random: Random, other: bytes) -> bytes:
    """Return a variant of a file: of what is packed in it in one of two cases, else of its bytes."""
    inside = next((work for fits, work in INSIDE if fits(name, data)), None)
    if inside is not None and random.random() < 0.6:
        return inside(name, data, random, other)
    for _ in range(random.choice([1, 1, 1, 2, 4])):
        data = random.choice(CHANGES)(data, random, other)
    return data


def _flip(data: bytes, random: Random, other: bytes) -> bytes:
    changed = bytearray(data)
    for _ in range(random.choice([1, 1, 2, 8])):
        if changed:
            changed[random.randrange(len(changed))] ^= 1 << random.randrange(8)
    return bytes(changed)


def _cut(data: bytes, random: Random, other: bytes) -> bytes:
    start, stop = sorted(random.randrange(len(data) + 1) for _ in range(2))
    ways = [data[:start], data[start:], data[:start] + data[stop:], data[:start] + 2 * data[start:]]
    return random.choice(ways)


def _splice(data: bytes, random: Random, other: bytes) -> bytes:
    start, place = random.randrange(len(other) + 1), random.randrange(len(data) + 1)
    return data[:place] + other[start : start + random.choice([1, 8, 100])] + data[place:]


def _insert(data: bytes, random: Random, other: bytes) -> bytes:
    place, n = random.randrange(len(data) + 1), random.choice([0, 0, 1, 4])
    return data[:place] + random.choice(TOKENS) + data[place + n :]


def _nest(data: bytes, random: Random, other: bytes) -> bytes:
    place, n = random.randrange(len(data) + 1), random.choice([10, 1000, 100_000])
    return data[:place] + random.choice(NESTED) * n + data[place:]


def _number(data: bytes, random: Random, other: bytes) -> bytes:
    """Put an extreme number in the place of one, in digits or in bytes of either end."""
    found = list(re.finditer(rb"\d+", data))
    if found and random.random() < 0.5:
        start, stop = random.choice(found).span()
        return data[:start] + random.choice([*NUMBERS, b"9" * 18, b"9" * 25, b"9" * 5000]) + data[stop:]
    width, start = random.choice([1, 2, 4, 8]), random.randrange(len(data) + 1)
    half = 2 ** (8 * width - 1)
    value = random.choice([0, 1, 2 * half - 1, half, half - 1, 2 ** (6 * width)])
    return data[:start] + value.to_bytes(width, random.choice(["little", "big"])) + data[start + width :]


CHANGES = [_flip, _cut, _splice, _insert, _nest, _number, _number]


def _repacked(name: str, data: bytes, random: Random, other: bytes) -> bytes:
    ending = next(ending for ending in PACKED if name.endswith(ending))
    unpack, pack = PACKED[ending]
    return pack(variant(name.removesuffix(ending), unpack(data), random, other))


def _rezipped(name: str, data: bytes, random: Random, other: bytes) -> bytes:
    """Change a member of an archive, leave it out, or put it in twice; its checksum is right."""
    target = io.BytesIO()
    with (
        zipfile.ZipFile(io.BytesIO(data)) as source,
        zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive,
    ):
        chosen = random.choice(source.namelist())
        for member in source.namelist():
            content = source.read(member)
            if member == chosen and random.random() < 0.1:
                continue
            archive.writestr(member, variant(member, content, random, other) if member == chosen else content)
    return target.getvalue()


def _rebuilt(name: str, data: bytes, random: Random, other: bytes) -> bytes:
    """Put another value, or none, into JSON; a record of a workspace gets the seal that fits."""
    body = json.loads(data)
    is_sealed = isinstance(body, dict) and body.pop("seal", None) is not None
    _change_json(body, random)
    return seal(canonical_json(body)) if is_sealed else json.dumps(body).encode()


def _change_json(body: Any, random: Random) -> None:
    holder, keys = body, list(body) if isinstance(body, dict) else list(range(len(body)))
    while keys:
        key = random.choice(keys)
        inner = holder[key]
        if not isinstance(inner, dict | list) or not inner or random.random() < 0.2:
            break
        holder, keys = inner, list(inner) if isinstance(inner, dict) else list(range(len(inner)))
    if keys and random.random() < 0.2:
        del holder[key]
    elif keys:
        holder[key] = random.choice(VALUES)
    if isinstance(holder, dict) and random.random() < 0.1:
        holder[random.choice(["", "a", "../x", "__class__"])] = random.choice(VALUES)


def _relined(name: str, data: bytes, random: Random, other: bytes) -> bytes:
    lines = data.splitlines()
    number = random.randrange(len(lines))
    lines[number] = _rebuilt(name, lines[number], random, other)
    return b"\n".join(lines) + b"\n"


def _reheaded(name: str, data: bytes, random: Random, other: bytes) -> bytes:
    """Change the header of a safetensors file, whose length comes first."""
    n = int.from_bytes(data[:8], "little")
    header = _rebuilt(name, data[8 : 8 + n], random, other)
    return len(header).to_bytes(8, "little") + header + data[8 + n :]


INSIDE: list[tuple[Callable[[str, bytes], bool], Callable[[str, bytes, Random, bytes], bytes]]] = [
    (lambda name, data: name.endswith(tuple(PACKED)), _repacked),
    (lambda name, data: data.startswith(b"PK\3\4"), _rezipped),
    (lambda name, data: name.endswith(".json"), _rebuilt),
    (lambda name, data: name.endswith(".jsonl"), _relined),
    (lambda name, data: name.endswith(".safetensors"), _reheaded),
]


# ---- reading them ----------------------------------------------------------------------------------------------


def outcome(read: Callable[[str], Any], file: Path) -> str:
    """Return "" where a file is read, "refused" where a sentence of ours refuses it, or else the error."""
    try:
        read(str(file))
    except (ValueError, OSError) as error:
        sentence = str(error)
        # A set of sentences is named by what the names of its files have in common, and a workspace as a whole.
        is_named = any(name in sentence for name in (file.name, f"the set {file.stem}", f"{file.parent} "))
        if not (is_named or type(error).__module__.startswith("distembed.")):
            return _told(error)
        return "refused"
    except Exception as error:  # noqa: BLE001 - whatever else is raised is what is looked for
        return _told(error)
    return ""


def _told(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if "/distembed/" in frame.filename] or frames
    place = f"{Path(ours[-1].filename).name}:{ours[-1].lineno}"
    return f"{type(error).__name__} at {place}: {str(error)[:150]!r}"


def cases(
    name: str, sample: Sample, seed: int, others: list[bytes], numbers: range
) -> Iterator[tuple[int, bytes]]:
    """Yield the variants of a file by their numbers; each follows from the seed, the name and its number alone."""
    for number in numbers:
        random = Random(f"{seed} {name} {number}")
        yield number, variant(name, sample.data, random, random.choice(others))


def _read_all(
    pipe: Connection, name: str, sample: Sample, folder: Path, variants: Iterator[tuple[int, bytes]]
) -> None:
    """Send the number of each variant before it is read, and its outcome afterwards."""
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    for place, content in sample.beside:
        (folder / place).parent.mkdir(parents=True, exist_ok=True)
        (folder / place).write_bytes(content)
    file.write_bytes(sample.data)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    tempfile.tempdir = str(folder)
    # The first reading compiles the kernels, so that the limit applies to the data alone.
    pipe.send((-1, outcome(sample.read, file)))
    size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (size + BYTES, resource.RLIM_INFINITY))
    for number, data in variants:
        file.write_bytes(data)
        signal.setitimer(signal.ITIMER_PROF, SECONDS)  # whose signal ends the process
        pipe.send((number, None))
        pipe.send((number, outcome(sample.read, file)))


def tried(
    name: str, sample: Sample, seed: int, others: list[bytes], numbers: range
) -> tuple[Counter[str], list[Finding]]:
    """Read the variants of a file in processes of their own, and return how many were read, refused, or neither."""
    counts, findings, first = Counter[str](), list[Finding](), numbers.start

    def found(number: int, what: str) -> None:
        own = cases(name, sample, seed, others, range(number, number + 1))
        findings.append(Finding(name, number, what, sample.data if number < 0 else next(own)[1]))

    while first < numbers.stop:
        context, last = multiprocessing.get_context("fork"), -1
        pipe, end = context.Pipe(duplex=False)
        with tempfile.TemporaryDirectory() as folder:
            rest = cases(name, sample, seed, others, range(first, numbers.stop))
            process = context.Process(target=_read_all, args=(end, name, sample, Path(folder), rest))
            process.start()
            end.close()
            try:
                while pipe.poll(STANDSTILL):
                    last, result = pipe.recv()
                    if result is not None:
                        if result not in {"", "refused"} or (last < 0 and result):
                            found(last, result)
                        elif last >= 0:
                            counts[result] += 1
                found(last, f"no end after {STANDSTILL} s")
            except EOFError:
                process.join()
                if process.exitcode:
                    found(last, f"the process ended with {process.exitcode}")
            finally:
                process.kill()
                process.join()
        first = numbers.stop if last < 0 else last + 1
    return counts, findings


def main(*, seed: int = 0, times: int = 100, first: int = 0, only: str = "", kept: str = "") -> None:
    """Try so many variants of each file whose name begins with `only`."""
    with tempfile.TemporaryDirectory() as folder:
        samples = all_samples(Path(folder))
    others = [sample.data for sample in samples.values()]
    tell_head("file", "read", "refused", "findings")
    n_findings = 0
    for name, sample in samples.items():
        if name.startswith(only):
            counts, findings = tried(name, sample, seed, others, range(first, first + times))
            tell_row(name, counts[""], counts["refused"], len(findings))
            _show(findings, kept)
            n_findings += len(findings)
    assert not n_findings, f"{n_findings} variants were neither read nor refused"


def _show(findings: list[Finding], kept: str) -> None:
    """Print each kind of finding once, and keep its file."""
    for finding in {re.sub(r": .*", "", each.what): each for each in findings}.values():
        tell(f"{finding.name} {finding.number}: {finding.what}")
        if kept:
            Path(kept).mkdir(parents=True, exist_ok=True)
            Path(kept, f"{finding.number}-{finding.name.replace('/', '-')}").write_bytes(finding.data)
