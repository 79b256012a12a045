"""`distembed encode`: files of texts to vectors, also after a stop."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

import distembed as de
from distembed.job.opening import parse_source
from distembed.job.progress import Reporter
from distembed.views import texts
from tests.commands import succeed

LINES = ["the city and its music", "", "ÄÖ qqqq 77", "music of the island, music", "war " * 200, "the state"]


@pytest.fixture(scope="module")
def workspace(finished):
    return finished[0]


@pytest.fixture
def lines(tmp_path):
    file = tmp_path / "lines.txt"
    file.write_text("\n".join(LINES), encoding="utf-8")
    return file


def table_at(path: Path) -> tuple[list[dict], np.ndarray]:
    table = pq.read_table(path)
    vectors = np.array(table["vector"].to_pylist(), dtype=np.float32)
    return table.drop_columns("vector").to_pylist(), vectors


def test_texts_are_written_with_their_heads_and_vectors(workspace, lines, tmp_path):
    target = tmp_path / "v.parquet"
    done = succeed("encode", workspace, lines, "--to", target)
    assert (
        "; weights from the counts of the words, whitening full (the default: best on the development part of STS-B); "
        "1 of 5 texts has no known word: the vector is zero; " in done.output
    )
    assert f"5 texts x 20 components in {target}" in done.output
    heads, vectors = table_at(target)
    assert [head["id"] for head in heads] == [f"lines.txt:{place}" for place in (0, 24, 37, 64, 865)]
    assert [head["n_tokens"] for head in heads] == [5, 2, 5, 200, 2]
    assert heads[3]["snippet"] == ("war " * 40)
    counts = de.Workspace.open(workspace).table("vocabulary")["count"].to_numpy()
    encoder = de.TextEncoder(texts.open_encoder(parse_source(str(workspace))).vectors, counts=counts)
    whole = [line for line in LINES if line]
    with pytest.warns(UserWarning, match="no known word"):
        assert np.array_equal(vectors, encoder.transform(whole))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["lines.txt", "v.parquet"]
    succeed("encode", workspace, lines, "--to", tmp_path / "v.npy")
    assert np.array_equal(np.load(tmp_path / "v.npy"), vectors)


def test_a_stopped_run_leaves_nothing_and_starts_again_to_the_same_bytes(workspace, tmp_path, monkeypatch):
    file = tmp_path / "many.txt"
    file.write_text("\n".join(f"the music of city number{i} and war" for i in range(400)), encoding="utf-8")
    corpus = de.read_corpus(file, partition_bytes=2000)
    encoder = texts.open_encoder(parse_source(str(workspace)))
    whole, target = tmp_path / "whole.parquet", tmp_path / "v.parquet"
    texts.encode_files(encoder, corpus, str(whole), Reporter())
    monkeypatch.setattr(texts, "TASKS_TOGETHER", 2)

    class Stopping(Reporter):
        """Ctrl-C when some partitions are done."""

        def advance(self, task, done, total, *, unit="blocks"):
            if done == 4:
                raise KeyboardInterrupt

    with pytest.raises(ValueError, match="npy files are not compressed as a whole"):  # before any is encoded
        texts.encode_files(encoder, corpus, str(tmp_path / "v.npy.gz"), Stopping())
    with pytest.raises(KeyboardInterrupt):
        texts.encode_files(encoder, corpus, str(target), Stopping())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["many.txt", "whole.parquet"]
    pieces, beside = texts._pieces, set[str]()
    monkeypatch.setattr(
        texts, "_pieces", lambda *of: beside.update(path.name for path in tmp_path.iterdir()) or pieces(*of)
    )
    texts.encode_files(encoder, corpus, str(target), Reporter())
    # The next run removes the folder of a run that was killed while it wrote its table, and there is nothing else.
    assert {name for name in beside if not name.startswith(".v.parquet.")} == {"many.txt", "whole.parquet"}
    assert target.read_bytes() == whole.read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["many.txt", "v.parquet", "whole.parquet"]


def test_a_text_longer_than_a_batch_and_very_many_short_ones(workspace, tmp_path, monkeypatch):
    monkeypatch.setattr("distembed.encoding.encoder.HELD_VALUES", 60)  # three texts at a time
    file = tmp_path / "t.txt"
    long = "music and war in the city " * 60_000
    file.write_text("\n".join(["the city", *["music"] * 10, long, "war"]), encoding="utf-8")
    succeed("encode", workspace, file, "--to", tmp_path / "v.parquet")
    heads, vectors = table_at(tmp_path / "v.parquet")
    assert [head["n_tokens"] for head in heads] == [2, *[1] * 10, 360_000, 1]
    assert [head["snippet"][:9] for head in heads[-3:]] == ["music", "music and", "war"]
    encoder = texts.open_encoder(parse_source(str(workspace)))
    assert np.array_equal(vectors[[0, 5, -2, -1]], encoder.transform(["the city", "music", long, "war"]))


def test_sentences_and_words_are_evaluated_in_one_table(workspace, tmp_path):
    items = (f"x\t{i}\tthe city {'war ' * i}\tthe music\n" for i in range(5))
    (tmp_path / "pairs.tsv").write_text("".join(items), encoding="utf-8")
    alone = succeed("evaluate", workspace, "--sets", tmp_path, "--whitening", "half")
    assert alone.output.splitlines()[1].split()[0] == "pairs"
    assert "SIF 0.001, whitening half, unknown skip" in alone.output
    (tmp_path / "words.txt").write_text("city music 3\nwar city 2\nmusic war 1\n", encoding="utf-8")
    alone = succeed("evaluate", workspace, "--sets", tmp_path / "pairs.tsv")
    assert "SIF 0.001, whitening full, unknown skip" in alone.output
    both = succeed("evaluate", workspace, workspace / "job.toml", "--sets", tmp_path, "--same-words")
    assert "--same-words is for sets of words" in both.stderr
    _, words, pairs, few = both.stdout.splitlines()
    assert (words.split()[3:], pairs.split()[0]) == (["–", "–", "3/3"], "pairs")
    assert "No score is shown of fewer than 10 known items." in few


def test_the_example_of_a_classifier_runs(workspace, tmp_path, monkeypatch, capsys):
    page = (Path(__file__).resolve().parents[2] / "docs" / "guide" / "text_vectors.md").read_text(
        encoding="utf-8"
    )
    code = re.search(r"<!-- run -->\n```python\n(.*?)```", page, re.DOTALL)
    assert code
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "quickstart").symlink_to(workspace)
    monkeypatch.chdir(tmp_path)
    exec(code[1], {})
    assert capsys.readouterr().out == "['place' 'war']\n"
