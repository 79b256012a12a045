"""Vocabularies: exact counts whatever the number of partitions and the memory given."""

from __future__ import annotations

import collections
import lzma
import pickle
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

import distembed as de
from distembed.corpus import partitions, records
from distembed.corpus import vocabulary as module
from distembed.corpus.partitions import Tokens
from distembed.corpus.readers import read_corpus
from distembed.corpus.records import CorpusError
from distembed.corpus.stop_words import function_words, stop_words_of
from distembed.corpus.tokenizer import Tokenizer
from distembed.corpus.vocabulary import Vocabulary, build_vocabulary
from distembed.counting.cooccurrence import count_cooccurrences
from distembed.counting.documents import count_document_terms
from distembed.demos import title_counts


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    rng = np.random.default_rng(1)
    words = np.array([f"{chr(97 + k % 26)}{chr(97 + k // 26 % 26)}é" for k in range(600)])
    path = tmp_path_factory.mktemp("v") / "t.txt"
    path.write_text("\n".join(" ".join(words[rng.zipf(1.3, 30) % 600]) for _ in range(500)), encoding="utf-8")
    return path


def expected(path):
    lines = path.read_text(encoding="utf-8").split("\n")
    counts = collections.Counter(word for line in lines for word in line.split())
    documents = collections.Counter(word for line in lines for word in set(line.split()))
    order = sorted(counts, key=lambda word: (-counts[word], word))
    return [(word, counts[word], documents[word]) for word in order]


def rows(vocabulary):
    counts = vocabulary.counts.tolist(), vocabulary.document_counts.tolist()
    return list(zip(vocabulary.words, *counts, strict=True))


@pytest.mark.parametrize("partition_bytes", [1 << 20, 3000])
@pytest.mark.parametrize("words_in_memory", [1 << 20, 1000, 300])
def test_counts_are_exact(corpus, partition_bytes, words_in_memory):
    docs = read_corpus(corpus, partition_bytes=partition_bytes)
    everything = expected(corpus)
    build = lambda **options: rows(build_vocabulary(docs, words_in_memory=words_in_memory, **options))  # noqa: E731
    assert build() == everything
    assert build(min_count=20) == [row for row in everything if row[1] >= 20]
    assert build(max_size=10) == everything[:10]
    kept = {everything[-1][0], everything[3][0], "absent"}
    assert build(max_size=5, keep=kept) == [*everything[:4], everything[-1]]
    assert build(min_count=50, keep=kept) == [row for row in everything if row[1] >= 50 or row[0] in kept]


def test_buckets_are_bounded_and_in_the_scratch_folder(corpus, tmp_path, monkeypatch):
    docs, opened, real = read_corpus(corpus, partition_bytes=3000), set(), module.ParquetFile
    monkeypatch.setattr(module, "MAX_BUCKETS", 4)
    monkeypatch.setattr(module, "ParquetFile", lambda path: opened.add(path) or real(path))
    assert rows(build_vocabulary(docs, words_in_memory=40, scratch=tmp_path)) == expected(corpus)
    assert len(opened) == 3 * 4
    assert all(tmp_path in path.parents for path in opened)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("layout", ["line", "file"])
@pytest.mark.parametrize("pattern", ["unicode", "tests.corpus.test_vocabulary:tokens_of_line"])
def test_dictionaries_of_bounded_size_change_no_count(corpus, tmp_path, monkeypatch, pattern, layout):
    monkeypatch.setattr(records, "TEXT_BYTES", 2000)
    (tmp_path / "names.txt").write_text("b a\n")
    options = {"border": "line", "phrases_file": str(tmp_path / "names.txt")}
    docs = read_corpus(corpus, tokenizer=Tokenizer(pattern=pattern, **options), layout=layout)
    partition = replace(docs.partitions[0], piece_bytes=2000)
    summaries = []
    for limit in (10**6, 64):
        monkeypatch.setattr(partitions, "DICTIONARY_WORDS", limit)
        target = str(tmp_path / f"part-{limit}")
        summaries.append(partitions.tokenize_partition(partition, docs.tokenizer, target))
    whole, many = (Tokens((str(tmp_path / f"part-{limit}"),)) for limit in (10**6, 64))
    assert summaries[1].n_words > 2 * summaries[0].n_words
    assert replace(summaries[1], n_words=0) == replace(summaries[0], n_words=0)
    assert many.documents(many.partitions[0]) == whole.documents(whole.partitions[0])
    vocabulary = build_vocabulary(many)
    assert rows(vocabulary) == rows(build_vocabulary(whole))
    for count in (count_cooccurrences, count_document_terms):
        counted = [count(tokens, vocabulary).compute() for tokens in (whole, many)]
        assert abs(counted[0] - counted[1]).sum() == 0


def tokens_of_line(text):
    return text.split()


def test_a_task_with_more_documents_than_numbers_is_refused(tmp_path, monkeypatch):
    (tmp_path / "a.txt").write_text("a\na\na\na\n")
    monkeypatch.setattr(partitions, "LARGEST_ID", 4)
    assert read_corpus(tmp_path / "a.txt").tokenize().n_documents == 4
    monkeypatch.setattr(partitions, "LARGEST_ID", 3)
    with pytest.raises(CorpusError, match=r"a\.txt has over 3 documents or distinct words in one task"):
        read_corpus(tmp_path / "a.txt").tokenize()


def test_words_have_their_places_here_and_in_a_file(tmp_path):
    """Of a table of others only the words and their counts are needed, in any order and of any integer type."""
    path, vocabulary = tmp_path / "v.parquet", Vocabulary(["the", "é"], [5, 2], [1, 1])
    vocabulary.save(path)
    assert rows(Vocabulary.load(path)) == rows(pickle.loads(pickle.dumps(vocabulary))) == rows(vocabulary)
    words, counts = pa.array(["a", "b"]).dictionary_encode(), pa.array([3, 2], pa.int32())
    columns = {"rank": [1, 2], "count": counts, "word": words}
    pq.write_table(pa.table(columns), path)
    assert rows(Vocabulary.load(path)) == [("a", 3, -1), ("b", 2, -1)]
    pq.write_table(pa.table({**columns, "document_count": [2, 1]}), path)
    assert rows(Vocabulary.load(path)) == [("a", 3, 2), ("b", 2, 1)]
    assert vocabulary.index(["é", "no", "the"]).tolist() == [1, -1, 0]
    assert vocabulary.index(pa.chunked_array([["é"], ["x"]])).dtype == np.int32
    assert vocabulary.index([]).tolist() == []
    assert [word in vocabulary for word in ("the", "no", 5)] == [True, False, False]
    assert len(vocabulary) == 2


def test_agreement_with_the_reference_counts(shared):
    with lzma.open(shared / "reference/psdvec_small_unigrams.tsv.xz", "rt", encoding="utf-8") as lines:
        fields = [line.split() for line in lines]
    reference = {pair[0]: int(pair[1]) for pair in fields if len(pair) == 2 and pair[1].isdecimal()}
    vocabulary = build_vocabulary(read_corpus(shared / "reference/psdvec_small_corpus.txt.xz"), min_count=20)
    assert dict(zip(vocabulary.words, vocabulary.counts.tolist(), strict=True)) == reference


def test_a_share_of_the_documents_is_compared_exactly():
    """29 of 100 are a share of 0.29, although 0.29 * 100 is a little less than 29 in floating point."""
    words = [f"w{chr(97 + k // 26)}{chr(97 + k % 26)}" for k in range(100)]
    tokens = de.read_texts([" ".join(words[:n]) for n in range(1, 101)]).tokenize()
    for percent in (1, 7, 28, 29, 57, 58, 99):
        assert len(build_vocabulary(tokens, max_share=percent / 100)) == percent


SUNS = ["sun moon the", "sun sea the", "sun moon rare the", "sun sky sky the"]
TREES = ["of of of of graph graph graph trees trees trees survey"]


@pytest.mark.parametrize(
    ("texts", "options", "words"),
    [
        (SUNS, {}, "sun the moon sky rare sea"),
        (SUNS, {"min_documents": 2, "max_share": 0.9}, "moon"),
        (SUNS, {"stop_words": "english"}, "sun moon sky rare sea"),
        (SUNS, {"stop_words": ["the"], "max_size": 2}, "sun moon"),
        (SUNS, {"max_share": 0.4, "keep": ["sun"]}, "sun sky rare sea"),
        # the most frequent words were cut to the size, and kept words with them, where there were stop words
        (TREES, {"max_size": 2, "keep": ["survey"]}, "of survey"),
        (TREES, {"max_size": 2, "keep": ["survey"], "stop_words": "english"}, "graph survey"),
        (TREES, {"max_size": 2, "keep": ["survey"], "stop_words": ["of"]}, "graph survey"),
        (TREES, {"keep": ["of"], "stop_words": ["of"], "words_in_memory": 2}, "of graph trees survey"),
    ],
)  # fmt: skip
def test_what_is_rare_common_or_a_stop_word_is_left_out_and_what_is_kept_stays(texts, options, words):
    every, chosen = build_vocabulary(texts), build_vocabulary(texts, **options)
    assert chosen.words == words.split()
    assert rows(chosen) == rows(every.take(every.index(chosen.words)))


def test_a_vocabulary_fits_what_takes_words_or_counts():
    vocabulary, counts = title_counts()
    model = de.PSDVec(n_components=2, n_core=6, smoothing=0.1)
    expected = np.asarray(model.fit(counts, vocabulary.counts).vectors_)
    np.testing.assert_array_equal(np.asarray(model.fit(counts, vocabulary).vectors_), expected)
    assert de.WordVectors(vocabulary, expected).words == tuple(vocabulary)
    assert vocabulary.to_pandas()["count"].tolist() == vocabulary.counts.tolist()


def test_a_list_of_ones_own(tmp_path):
    path = tmp_path / "liste.txt"
    path.write_bytes("# Füllwörter\r\nDie\r\nfür\r\n\r\nähm\r\n".encode("utf-16"))
    own = stop_words_of("none", file=path)
    assert own == {"die", "für", "ähm"}
    assert stop_words_of("english", file=path) == stop_words_of("english") | own
    docs = de.read_texts(["Die die Ähm Haus"], tokenizer=de.Tokenizer(lowercase=False))
    assert de.build_vocabulary(docs, stop_words=own).words == ["Haus"]


@pytest.mark.parametrize("apostrophes", [False, True])
def test_the_english_list_fits_what_the_tokenizer_makes_of_contractions(apostrophes):
    assert stop_words_of("english") > ENGLISH_STOP_WORDS
    text = "I don't think it's the lake; we’ll see, they won't, isn't the town's lake won?"
    docs = de.read_texts([text], tokenizer=de.Tokenizer(apostrophes=apostrophes))
    words = set(de.build_vocabulary(docs, stop_words="english").words)
    assert words == {"think", "lake", "won", "town's" if apostrophes else "town"}


def test_the_language_is_that_of_the_most_frequent_words():
    nouns = ["haus", "katze", "baum", "stadt"]
    german = ["die", "der", "und", "in", "nach", "zu", "den", "das", "mit", "von", *nouns]
    found = function_words(german)
    assert [word for word in german if word not in found] == nouns
    assert {"the", "of"} <= found
    assert function_words(["haus", "katze", "baum"] * 20) == stop_words_of("english")
