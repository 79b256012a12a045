"""What a finished job, or a file of vectors, cannot give: each command ends with one sentence, and writes nothing."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from distembed.vectors import WordVectors
from distembed.vectors.subwords import SubwordTable
from tests.commands import run, run_once, written_once
from tests.small_jobs import imputation, topics


@pytest.fixture(scope="module")
def places(finished, tmp_path_factory):
    """Return the workspaces of finished jobs by the name of their method."""
    small = {"TOPICS": ("topics-of-classes", topics.write), "IMPUTATION": ("imputation", imputation.write)}
    jobs = {name: written_once(tmp_path_factory, *job) for name, job in small.items()}
    return {"PSDVEC": finished[0]} | {name: run_once(tmp_path_factory, job)[0] for name, job in jobs.items()}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Return the folder of the commands, with a few files."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "lines.txt").write_text("the city and its music\n")
    pq.write_table(pa.table({"text": pa.array([], pa.string())}), "none.parquet")
    table = SubwordTable(np.eye(2, 3), np.zeros(3), ngrams=("kin", "que"))
    WordVectors(["king", "queen"], np.eye(2, 3), subwords=table).save("v.safetensors")
    comparison = '[job]\nsystem = "comparison"\nworkspace = "w"\n[corpus]\npaths = ["lines.txt"]\n'
    (tmp_path / "comparison.toml").write_text(comparison)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.tex").touch()
    return tmp_path


REFUSALS = [
    ("export TOPICS --what names --to x.csv", "has no table of names: give --what documents or topics or shares"),
    ("export TOPICS --what topics --to x.npy", "an npy file holds numbers alone, and this table has none"),
    ("export TOPICS --what topics --to x.txt", "word2vec files hold words and vectors only, not topics"),
    ("export TOPICS --what document_terms --to x.npz", "the format of x.npz cannot be detected from its name"),
    ("export TOPICS --to x.csv --space _", "csv keeps words and numbers as they are: leave it out"),
    ("export PSDVEC --what counts --to c.npy", "none beside its columns word, context, count; choose .parquet, .csv"),
    ("export PSDVEC --what pmi --to c.csv", 'has no table of pmi: matrices.keep = ["pmi"] in the job file keeps it'),
    ("export PSDVEC --what distances --to d.npy", 'keeps no distances: give matrices.keep = ["distances"] in the job'),
    ("export v.safetensors --what topics --to t.csv", "is a file of word vectors and has no topics"),
    ("export v.safetensors --to v.csv --space _", "leave it out"),
    ("export v.safetensors --to v.xls", "detected from its name: end it in .txt, .bin, .glove, .parquet or "),
    ("export v.safetensors --to v.parqet", "v.parqet cannot be detected from its name: did you mean .parquet?"),
    ("export v.safetensors --to v.txt --format word2vek", "no format 'word2vek' to write v.txt in; did you mean word"),
    ("export v.safetensors --to static:full", "no model folder that distembed has written: name another folder"),
    ("export v.safetensors --to static:m --space _", "--space"),
    ("export v.safetensors --to v.bin --weighting mean", "--weighting"),
    ("neighbors PSDVEC kinggg --to n.csv", "n.csv is not written, because it would have no rows. the word 'kinggg'"),
    ("neighbors v.safetensors king --to n.docx", "end it in .json, .html, .csv, .tsv or .parquet"),
    ("infer TOPICS lines.txt --to o.csv --min-count 2", "not words: leave out --words, --min-count and --space"),
    ("infer TOPICS lines.txt --to t.xyz", "cannot be detected from its name: end it in .parquet"),
    ("encode PSDVEC lines.txt --to v.xls", "cannot be detected from its name: end it in .parquet, .csv, .tsv or .npy"),
    ("encode PSDVEC lines.txt --to no/v.parquet", "there is no folder"),
    ("encode PSDVEC absent.txt --to v.npy", "absent.txt matches no file"),
    ("encode PSDVEC lines.txt --to v.npy --a -1", "a is -1.0: give "),
    ("encode PSDVEC lines.txt --to v.npy --unknown subwords", "no table of n-grams"),
    ("encode PSDVEC none.parquet --to v.npy", "there is no text in none.parquet"),
    ("explain PSDVEC music art city", "3 words given: name one, for its passages, or the two whose"),
    ("explain PSDVEC music music", "both words are 'music'"),
    ("explain PSDVEC music musik", "did you mean"),
    ("explain PSDVEC musik", "there is no word 'musik' among "),
    ("explain TOPICS d1000", "there is no document 'd1000' among 62; did you mean"),
    ("explain TOPICS alone", "the document 'alone' holds no word of the vocabulary"),
    ("explain TOPICS d1 9", "there is no topic '9': give a number from 0 to 2"),
    ("explain TOPICS d1 0 1", "3 names given: name a document's id and, if you like, the number of a topic"),
    ("explain comparison.toml a b", "are not explained: explain takes psdvec, topics and imputation"),
    ("infer comparison.toml lines.txt --to b.csv", "infers nothing of new files; topics, psdvec and imputation jobs"),
    ("explore v.safetensors", "name the page with --to page.html"),
    ("explain IMPUTATION name_3", "has a known vector, which the job took as it is"),
    ("explain IMPUTATION name~333", "there is no name 'name 333' among 60; did you mean"),
    ("explain IMPUTATION name~33 name~34", "2 names given: name one imputed name"),
]  # fmt: skip


@pytest.mark.parametrize(("command", "sentence"), REFUSALS)
def test_what_cannot_be_given_is_refused_in_one_sentence(places, folder, command, sentence):
    """A tilde stands for a blank within a word."""
    before = sorted(folder.rglob("*"))
    done = run(*(places.get(word, word.replace("~", " ")) for word in command.split()))
    assert (done.exit_code, done.output.count("\n")) == (2, 1), done.output
    assert sentence in done.output
    assert sorted(folder.rglob("*")) == before
