"""Samples of a corpus: whole where it is small, a few beginnings where it is large, and the same each time."""

import gzip
import io
import json
import lzma
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import distembed as de
from distembed.corpus.sample import CorpusSample, sample_bundles, sample_parts
from distembed.formats.pieces import xz_text_bytes

N_DOCUMENTS = 4000


def text_of(number: int) -> str:
    """Return a document of ten tokens: eight of its own two words, one of all, and one that comes once."""
    own = f"{'abcdefghij'[number % 10] * 3} {'klmnopqrst'[number % 10] * 3} "
    return own * 4 + f"all new{letters(number)}"


def letters(number: int) -> str:
    return "".join(chr(97 + int(digit)) for digit in str(number))


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the same documents as text, JSON lines, gzip and Parquet."""
    folder = tmp_path_factory.mktemp("corpus")
    texts = [text_of(number) for number in range(N_DOCUMENTS)]
    (folder / "a.txt").write_text("\n".join(texts) + "\n")
    (folder / "a.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    (folder / "a.txt.gz").write_bytes(gzip.compress("\n".join(texts).encode()))
    table = pa.table({"text": texts})  # one row group, whose bytes are those of the text
    pq.write_table(table, folder / "a.parquet", compression="none", use_dictionary=False)
    return folder


def sampled(path: Path, *, max_bytes: int, partition_bytes: int = 1 << 14) -> CorpusSample:
    corpus = de.read_corpus(path, partition_bytes=partition_bytes)
    return sample_bundles(corpus.bundles, corpus.tokenizer, max_bytes=max_bytes)


@pytest.mark.parametrize("name", ["a.txt", "a.jsonl", "a.txt.gz", "a.parquet"])
def test_a_small_corpus_is_counted_whole(files: Path, name: str) -> None:
    sample = sampled(files / name, max_bytes=1 << 24, partition_bytes=1 << 24)
    assert sample.is_whole
    assert (sample.n_documents, sample.n_tokens) == (N_DOCUMENTS, 10 * N_DOCUMENTS)
    counts = dict(zip(sample.words.to_pylist(), sample.counts.tolist(), strict=True))
    assert counts["all"] == N_DOCUMENTS
    assert counts["aaa"] == 4 * N_DOCUMENTS // 10
    assert sample.document_counts[sample.words.index("aaa").as_py()] == N_DOCUMENTS // 10
    assert len(counts) == 21 + N_DOCUMENTS


@pytest.mark.parametrize("name", ["a.txt", "a.jsonl", "a.parquet"])
def test_a_part_of_a_corpus_stands_for_its_share_of_the_bytes(
    files: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("distembed.corpus.sample.SAMPLE_PIECE", 1 << 12)
    sample = sampled(files / name, max_bytes=1 << 15)
    assert not sample.is_whole
    n_bytes = (files / name).stat().st_size
    assert pytest.approx(sample.n_tokens * n_bytes / sample.n_bytes, rel=0.3) == 10 * N_DOCUMENTS
    again = sampled(files / name, max_bytes=1 << 15)
    np.testing.assert_array_equal(sample.counts, again.counts)


def test_files_that_are_read_together_share_the_bytes_of_a_sample(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("distembed.corpus.sample.SAMPLE_PIECE", 1 << 10)
    for name in "ab":
        (tmp_path / f"{name}.txt").write_text("one two three\n" * 600)  # 8,400 bytes
    corpus = de.read_corpus(tmp_path / "*.txt")
    sample = sample_bundles([corpus.partitions], corpus.tokenizer, max_bytes=12_000)
    assert 12_000 <= sample.n_bytes < 14_000
    assert not sample.is_whole


def test_a_named_function_is_not_called(files: Path) -> None:
    tokenizer = de.Tokenizer(pattern="no.such.module:function")
    corpus = de.read_corpus(files / "a.txt", tokenizer=tokenizer)
    sample = sample_bundles(corpus.bundles, tokenizer)
    assert sample.n_tokens == 10 * N_DOCUMENTS
    assert not sample.is_whole  # what the function finds is not known


def test_segments_end_where_a_window_does(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("One two three. Four five! Six\nseven\n")
    for border, lengths in (("document", [6, 1]), ("sentence", [3, 2, 1, 1])):
        corpus = de.read_corpus(tmp_path / "a.txt", tokenizer=de.Tokenizer(border=border))
        sample = sample_bundles(corpus.bundles, corpus.tokenizer)
        assert sorted(sample.lengths.tolist()) == sorted(lengths)
        tokens = corpus.tokenize()
        assert sorted(sample_parts(tokens).lengths.tolist()) == sorted(lengths)


def test_token_parts_say_what_the_text_does(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    corpus = de.read_corpus(files / "a.txt", partition_bytes=1 << 16)
    tokens = corpus.tokenize()
    whole = sample_parts(tokens)
    assert whole.is_whole
    assert (whole.n_documents, whole.n_tokens) == (N_DOCUMENTS, 10 * N_DOCUMENTS)
    first = sample_parts(tokens, max_words=1)
    assert not first.is_whole
    assert first.n_tokens < whole.n_tokens
    monkeypatch.setattr("distembed.corpus.sample.SAMPLE_DICTIONARIES", 1)
    assert sample_parts(tokens).n_tokens == first.n_tokens


def test_an_xz_file_stands_for_the_text_it_unpacks_to(tmp_path: Path) -> None:
    """Its beginning, which is compressed less than the rest, stands for its share of the text and not of the file."""
    drawn = np.random.default_rng(0).integers(97, 123, (30_000, 80), dtype=np.uint8)
    drawn[:, 7::8], drawn[:, -1] = ord(" "), ord("\n")
    text = drawn.tobytes() + drawn[:1].tobytes() * 60_000
    (tmp_path / "a.txt.xz").write_bytes(lzma.compress(text, preset=0))
    sample, size = sampled(tmp_path / "a.txt.xz", max_bytes=1), (tmp_path / "a.txt.xz").stat().st_size
    assert not sample.is_whole
    assert sample.n_tokens * size / sample.n_bytes == pytest.approx(900_000, rel=0.03)


@pytest.mark.parametrize("size", [0, 1, 100_000])
def test_the_indexes_of_an_xz_file_give_the_size_of_its_text(size: int) -> None:
    stream = lzma.compress(np.random.default_rng(0).bytes(size))
    assert xz_text_bytes(io.BytesIO(stream)) == size
    assert xz_text_bytes(io.BytesIO(stream + stream + bytes(8) + stream + bytes(4))) == 3 * size


@pytest.mark.parametrize("damage", [bytes(64), b"YZ", b"\xff" * 62 + b"YZ", bytes(60) + b"\0\0YZ"])
def test_what_is_no_whole_xz_file_has_no_size(damage: bytes) -> None:
    stream = lzma.compress(b"some text")
    for data in (damage, damage + stream, stream[:-1], stream[4:]):
        assert xz_text_bytes(io.BytesIO(data)) is None
