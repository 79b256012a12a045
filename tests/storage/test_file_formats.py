"""The page of file formats: its reader, which uses no distembed, and its rules give what distembed gives."""

import json
import re
import struct
import zlib
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from distembed.counting.blocks import Run
from distembed.counting.runs import writing_runs
from distembed.execution import compute
from distembed.storage.records import VERSION
from distembed.storage.workspace import Workspace

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "file_formats.md"


@pytest.fixture(scope="module")
def reader():
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    assert "distembed" not in blocks[0]
    names: dict[str, Any] = {}
    exec(blocks[0], names)
    return names


def digest_of(data):
    return blake2b(data, digest_size=16).hexdigest()


def digest_of_json(value):
    return digest_of(json.dumps(value, sort_keys=True, separators=(",", ":")).encode())


def digest_of_output(record):
    spec = record["spec"]
    head = [spec["kind"], spec.get("shape", []), spec.get("dtype", ""), spec["row_blocks"]]
    head += [spec["constant"]] if "constant" in spec else []
    files = [
        [digest[:32] for _, (_, digest, _) in sorted(block["files"].items())] for block in record["blocks"]
    ]
    summaries = [block.get("summary", {}) for block in record["blocks"]]
    return digest_of_json([head, [digest_of_json([*each]) for each in zip(files, summaries, strict=True)]])


def test_the_reader_gives_the_arrays_that_distembed_gives(finished, reader):
    folder, workspace = finished[0], Workspace.open(finished[0])
    np.testing.assert_array_equal(reader["dense"](folder, "vectors"), compute(workspace.array("vectors")))
    counts = compute(workspace.array("cooccurrence"))
    expected = (counts.data, counts.indices, counts.indptr)
    for mine, theirs in zip(expected, reader["csr"](folder, "cooccurrence"), strict=True):
        np.testing.assert_array_equal(mine, theirs)


def test_the_reader_finds_a_flipped_byte(copy, reader):
    record = reader["committed_outputs"](copy)["vectors"]
    assert reader["damaged_files"](copy, record) == []
    chunk = next(iter(copy.glob("arrays.zarr/vectors/c/*/*")))
    data = bytearray(chunk.read_bytes())
    data[100] ^= 1
    chunk.write_bytes(data)
    assert reader["damaged_files"](copy, record) == [str(chunk.relative_to(copy))]


def test_the_digests_of_the_page_lead_to_the_last_line_of_verify(finished, reader):
    commits = [json.loads(file.read_bytes()) for file in Path(finished[0], "manifest").glob("*.json")]
    for commit in commits:
        seal = commit.pop("seal")
        assert seal == digest_of_json(commit)
        parts = [VERSION, commit["stage"], commit["parameters"], commit["inputs"]]
        assert commit["fingerprint"] == digest_of_json(parts)
    of_stages = {
        commit["stage"]: digest_of_json(
            {name: digest_of_output(record) for name, record in commit["outputs"].items()}
        )
        for commit in commits
        if not any(record["spec"]["kind"] == "page" for record in commit["outputs"].values())
    }
    assert digest_of_json(of_stages) == finished[1]


def test_partial_counts_are_laid_out_as_the_page_says(tmp_path):
    file = tmp_path / "part-000000.counts"
    with writing_runs(str(file)) as append:
        for run in ([0, 1, 3], [0, 0, 0]):
            size = run[-1]
            append(
                1, Run(np.array(run), np.array([4, 0, 70_000][:size], np.int32), np.array([5, 6, 7][:size]))
            )
    data = file.read_bytes()
    n_segments, checksum, mark = struct.unpack("<2q8s", data[-24:])
    assert (n_segments, mark) == (2, b"DECOUNT5")
    index = data[-24 - 56 * n_segments : -24]
    assert checksum == zlib.crc32(index)
    first, last = struct.iter_unpack("<7q", index)
    segment = data[: last[1]]
    assert first == (1, 0, 2, 3, 4, 2, zlib.crc32(segment))
    assert last == (1, len(segment), 2, 0, 2, 2, zlib.crc32(bytes(8)))
    assert np.frombuffer(segment, "<i4", 2).tolist() == [1, 2]
    assert np.frombuffer(segment, "<i4", 3, 8).tolist() == [4, 0, 70_000]
    assert np.frombuffer(segment, "<u2", 3, 20).tolist() == [5, 6, 7]
