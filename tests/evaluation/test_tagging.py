"""Vectors as features of a tagger: files of tagged words, spans as conlleval counts them, the tagger, the protocol."""

from __future__ import annotations

import lzma
from itertools import pairwise

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

import distembed as de
from distembed.cli.main import cli
from distembed.evaluation import tagging
from distembed.evaluation import tagging_blocks as blocks
from distembed.evaluation.scoring import Policy
from distembed.evaluation.sentence_files import find_sentence_sets
from distembed.evaluation.tagged_files import f1, find_tagged_sets, iob2, read_tagged, span_counts, spans
from distembed.evaluation.tagging_blocks import feature_matrix, shape
from tests.references.tagging import conlleval_spans, enumerated, sequence_score

TAGS = ["O", *(f"{position}-{kind}" for position in "BIESLU" for kind in ("NP", "VP"))]


# --- files ---------------------------------------------------------------------------------------------------


def test_files_of_tagged_words_are_found_and_joined_to_sets(tmp_path):
    (tmp_path / "eng").mkdir()
    text = "-DOCSTART- -X- O\n\nEU NNP B-ORG\nleft VBD O\n\nHe PRP O\n\n\n"
    (tmp_path / "eng" / "train.txt").write_text(text, encoding="utf-8")
    (tmp_path / "eng" / "test.txt.xz").write_bytes(lzma.compress(text.encode()))
    (tmp_path / "ner.testa").write_text("Rome\tU-LOC\nfell\tO\n", encoding="utf-8")
    (tmp_path / "ner.train").write_text("Rome\tU-LOC\nfell\tO\n", encoding="utf-8")
    (tmp_path / "ner.testb").write_text("Rome\tU-LOC\nfell\tO\n", encoding="utf-8")
    (tmp_path / "words.txt").write_text("king queen 3\nman woman 2\n", encoding="utf-8")
    (tmp_path / "picture.png").write_bytes(bytes(range(256)))
    found = find_tagged_sets([tmp_path])
    assert {each.name: each.dev is None for each in found.sets} == {"eng": True, "ner": False}
    assert len(found.files) == 5
    train = next(each for each in found.sets if each.name == "eng").train
    assert (train.words, train.tags) == (["EU", "left", "He"], ["B-ORG", "O", "O"])
    assert (train.given, train.starts.tolist()) == ([["NNP", "VBD", "PRP"]], [0, 2, 3])


def test_a_large_file_of_tagged_words_is_no_file_of_classified_texts(tmp_path):
    for part in ("train", "test"):
        (tmp_path / f"ner-{part}.tsv").write_text("Rome\tB-LOC\nfell\tO\n\n" * 20, encoding="utf-8")
    files = find_tagged_sets([tmp_path]).files
    assert len(find_sentence_sets([tmp_path]).sets) == 1
    assert find_sentence_sets([tmp_path], besides=files).sets == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a B-X\nb\n", r"line 2: 'b' has 1 columns and the first line has 2; give every word the same"),
        ("a B-X\n\nb NN\n", "line 3: the last column is 'NN', which is no tag; write O, or B-"),
        ("\n \n-DOCSTART- -X-\n", "f.conll has no words: give a word with its tag"),
    ],
)
def test_a_bad_line_is_named(tmp_path, text, message):
    (tmp_path / "f.conll").write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=message):
        read_tagged(tmp_path / "f.conll")


def test_a_file_that_should_be_a_part_is_read_whatever_it_holds(tmp_path):
    (tmp_path / "x-train.conll").write_text("a NP\nb O\n", encoding="utf-8")
    (tmp_path / "x-test.conll").write_text("a B-NP\nb O\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"x-train.conll, line 1: the last column is 'NP', which is no tag"):
        find_tagged_sets([tmp_path])


def test_a_set_without_a_part_or_with_unequal_columns_is_refused(tmp_path):
    (tmp_path / "x-train.conll").write_text("a NN B-X\nb NN O\n", encoding="utf-8")
    message = r"the set x of tagged words has the files x-train.conll: a part for"
    with pytest.raises(ValueError, match=message):
        find_tagged_sets([tmp_path])
    (tmp_path / "x-test.conll").write_text("a B-X\nb O\n", encoding="utf-8")
    message = r"different numbers of columns, 3 in x-train.conll, 2 in x-test.conll"
    with pytest.raises(ValueError, match=message):
        find_tagged_sets([tmp_path])
    (tmp_path / "x-test.iob").write_text("a B-X\nb O\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"x-test\.\w+ are both the part test of x: give one of them"):
        find_tagged_sets([tmp_path])


def test_a_file_without_blank_lines_is_one_sentence(tmp_path):
    for part in ("train", "test"):
        (tmp_path / f"x-{part}.conll").write_text("Ann B-PER\nlives O\n")
    with pytest.raises(ValueError, match=r"part of x has one sentence.*a blank line between sentences"):
        de.evaluate_tagging(de.WordVectors(["Ann"], [[1.0]]), tmp_path)


# --- spans ---------------------------------------------------------------------------------------------------


@given(st.lists(st.sampled_from(TAGS), max_size=8))
@settings(max_examples=120, deadline=None)
def test_spans_are_those_of_conlleval(tags):
    assert spans(tags) == conlleval_spans(tags)
    assert spans(iob2(tags)) == spans(tags)


def test_every_scheme_says_the_same_spans():
    iob = "I-A I-A B-A O I-B", "B-A I-A B-A O B-B"
    bilou, bioes = "B-A L-A U-A O U-B", "B-A E-A S-A O S-B"
    for tags in (*iob, bilou, bioes):
        assert spans(tags.split()) == [(0, 2, "A"), (2, 3, "A"), (4, 5, "B")]


def test_f1_counts_whole_spans_of_the_right_kind():
    true = [["B-A", "I-A", "O", "B-B"], ["B-A"]]
    guessed = [["B-A", "O", "O", "B-B"], ["B-B"]]
    counts = span_counts(true, guessed)
    assert counts.tolist() == [[1, 2, 2], [0, 1, 1]]
    assert f1(counts.sum(axis=0)) == pytest.approx(1 / 3)
    assert f1(np.zeros(3, np.int64)) == 0


# --- the random field ----------------------------------------------------------------------------------------


def small_input(seed, lengths=(6, 1, 5), n_tags=3):
    random = np.random.default_rng(seed)
    starts = np.concatenate([[0], np.cumsum(lengths)])
    n = starts[-1]
    features = csr_array((random.random((n, 5)) < 0.4).astype(float))
    place = lambda: np.eye(4)[random.integers(4, size=n)] * (random.random(n) < 0.8)[:, None]  # noqa: E731
    window = csr_array(place()), csr_array(place())
    inputs = blocks.TaggingInput(features, window, random.normal(size=(4, 6)), starts)
    like = blocks.zero_weights(inputs, n_tags)
    weights = blocks.reshape_like(random.normal(size=blocks.flat(like).size), like)
    return inputs, weights, random.integers(n_tags, size=n)


@pytest.mark.parametrize("seed", range(3))
def test_expectations_and_best_tags_are_those_of_all_sequences(seed):
    inputs, weights, _ = small_input(seed)
    scores, transitions = blocks.tag_scores(inputs, weights), 2 * weights.transitions
    every = [enumerated(scores[a:b], transitions) for a, b in pairwise(inputs.starts)]
    log_z, marginals, pairs = blocks.expectations(scores, transitions, inputs.starts)
    assert log_z == pytest.approx(sum(each[0] for each in every))
    np.testing.assert_allclose(marginals, np.concatenate([each[1] for each in every]), atol=1e-12)
    np.testing.assert_allclose(pairs, sum(each[2] for each in every), atol=1e-12)
    best = blocks.best_tags(scores, transitions, inputs.starts)
    assert best.tolist() == [tag for each in every for tag in each[3]]


def test_the_loss_is_the_penalized_likelihood_and_its_gradient_is_right():
    inputs, weights, tags = small_input(7)
    loss, gradient = blocks.penalized_loss(inputs, tags, weights, 0.3)
    scores = inputs.features @ weights.features
    for place, of_place in zip(inputs.window, weights.vectors, strict=True):
        scores += (place @ inputs.vectors) @ of_place
    expected = 0.3 * (blocks.flat(weights) ** 2).sum()
    for a, b in pairwise(inputs.starts):
        log_z = enumerated(scores[a:b], weights.transitions)[0]
        expected += log_z - sequence_score(scores[a:b], weights.transitions, tags[a:b])
    assert loss == pytest.approx(expected)
    values, step = blocks.flat(weights), 1e-5
    for place in range(values.size):
        moved = np.where(np.arange(values.size) == place, step, 0)
        near = [blocks.reshape_like(values + sign * moved, weights) for sign in (1, -1)]
        up, down = (blocks.penalized_loss(inputs, tags, each, 0.3)[0] for each in near)
        assert blocks.flat(gradient)[place] == pytest.approx((up - down) / (2 * step), abs=1e-5)


# --- features ------------------------------------------------------------------------------------------------


def test_features_of_the_training_part_that_occur_twice_are_kept():
    words = ["Anna", "runs", ".", "Anna", "sits", ".", "Anna", "flies", "."]
    matrix = feature_matrix(words, [], np.array([0, 3, 6, 9]), 6).toarray()
    assert set(np.unique(matrix)) == {0, 1}
    assert (matrix[:6].sum(axis=0) >= 2).all()
    assert np.array_equal(matrix[0], matrix[3])  # what differs in their window occurs once each
    assert not np.array_equal(matrix[0], matrix[1])
    assert matrix[7].sum() < matrix[0].sum()  # "flies" itself was never seen


def test_a_shape_is_short():
    assert [shape(word) for word in ("IBM", "iPhone7", "3.14", "é-É")] == ["X", "xXx9", "9.9", "x-X"]


# --- the protocol --------------------------------------------------------------------------------------------

WORDS = [f"w{i}" for i in range(120)]
IS_NAME = np.arange(120) % 3 == 0
"""Every third word is a name, which only its vector says where the word was not seen in training."""


def vectors(seed=0, *, told=True):
    random = np.random.default_rng(seed)
    matrix = random.normal(size=(120, 8))
    matrix[:, 0] = np.where(IS_NAME, 3, -3) if told else 0
    return de.WordVectors(WORDS, matrix)


def write_set(folder):
    random = np.random.default_rng(1)
    for part, low, high, n in (("train", 0, 60, 60), ("test", 60, 120, 20)):
        tagged = [f"{word} {'B-N' if is_name else 'O'}" for word, is_name in zip(WORDS, IS_NAME, strict=True)]
        sentences = ["\n".join(tagged[i] for i in random.integers(low, high, size=6)) for _ in range(n)]
        (folder / f"names-{part}.conll").write_text("\n\n".join(sentences) + "\n", encoding="utf-8")
    return folder


def test_vectors_that_tell_names_find_unseen_ones(tmp_path):
    folder = write_set(tmp_path)
    told, without = de.evaluate_tagging(vectors(), folder)
    untold, same = tagging.compare_tagging({"a": vectors(told=False)}, folder)["a"]
    assert told.value > 0.95
    assert max(untold.value, without.value) < 0.6
    assert same == without
    assert (told.known, told.total, told.metric) == (120, 120, "span F1")
    assert (without.known, without.metric) == (0, "span F1 without vectors")
    assert told.interval is not None
    assert "scale" in told.policy


def test_no_tested_or_choosing_sentence_is_fitted(tmp_path):
    corpus = tagging.corpus_of(find_tagged_sets([write_set(tmp_path)]).sets[0], 0)
    assert len(corpus.dev) == 6
    assert not set(corpus.dev) & set(corpus.choosing)
    assert not set(corpus.test) & set(corpus.train)
    assert set(corpus.dev) | set(corpus.choosing) == set(corpus.train)


def test_all_files_have_one_scale_whatever_their_units(tmp_path):
    corpus = tagging.corpus_of(find_tagged_sets([write_set(tmp_path)]).sets[0], 0)
    large = de.WordVectors(WORDS, 50 * vectors().vectors)
    found = [tagging.vectors_of(corpus, each, Policy()).matrix for each in (vectors(), large)]
    np.testing.assert_allclose(found[0], found[1], rtol=1e-5)
    assert found[0].std() == pytest.approx(1, rel=0.05)


def test_the_command_prints_both_rows_beside_word_sets(tmp_path):
    vectors().save(tmp_path / "v.txt")
    folder = tmp_path / "sets"
    folder.mkdir()
    write_set(folder)
    (folder / "pairs.txt").write_text("w1 w2 3\nw3 w4 2\nw5 w6 1\n", encoding="utf-8")
    done = CliRunner().invoke(cli, ["evaluate", str(tmp_path / "v.txt"), "--sets", str(folder)])
    assert done.exit_code == 0, done.output
    lines = done.output.splitlines()
    assert sum("names" in line and "span F1" in line for line in lines) == 2
    assert any("pairs" in line for line in lines)


def test_a_path_without_tagged_words_is_refused(tmp_path):
    with pytest.raises(ValueError, match="has no set of tagged words"):
        de.evaluate_tagging(vectors(), tmp_path)
