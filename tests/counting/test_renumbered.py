"""Counts of another vocabulary and other partitions, added to and subtracted from, against counting all at once."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

from distembed.counting import CooccurrenceOptions, count_partition, merge_row_block
from distembed.counting.blocks import Run
from distembed.counting.partial_counts import Counted
from distembed.counting.renumbered import Part, renumbered
from distembed.counting.renumbering_blocks import renumber_rows, select_entries
from tests.counting.partitions import vocabulary_of, write_partition

WORDS = "abcdefgh"
DOCUMENTS = st.lists(
    st.lists(st.sampled_from([*WORDS, None]), min_size=6, max_size=16), min_size=1, max_size=3
)
SUBSETS = st.lists(st.sampled_from(WORDS), min_size=4, unique=True)


@settings(deadline=None, max_examples=25)
@given(
    st.lists(DOCUMENTS, min_size=3, max_size=3),
    SUBSETS,
    SUBSETS,
    st.sampled_from(["left", "right", "symmetric"]),
    st.sampled_from([("flat", None), ("dynamic", 3), ("dynamic", None), ("harmonic", None)]),
    st.sampled_from([None, 0.02, 0.2]),
    st.sampled_from(["keep_position", "remove"]),
    st.sampled_from(["together", "apart"]),
)
def test_kept_gone_and_new_partitions_add_up_to_all_counts(
    tmp_path_factory, partitions, old_words, new_words, direction, weights, subsample, oov, positions
):
    root = tmp_path_factory.mktemp("counts")
    kept, gone, new = (
        write_partition(str(root / f"p{n}"), one, row_tokens=5) for n, one in enumerate(partitions)
    )
    if positions == "apart":
        direction, weights = "left", ("flat", None)
    options = CooccurrenceOptions(
        window=2, direction=direction, positions=positions, weighting=weights[0], draw=weights[1],
        subsample=subsample, oov=oov, block_memory=2**16,
    )  # fmt: skip
    old, now = (vocabulary_of(words, np.arange(9, 9 + len(words)) ** 2) for words in (old_words, new_words))

    def merged(vocabulary, parts, earlier=()):
        blocks = (0, len(vocabulary) // 2, len(vocabulary)) if len(vocabulary) > 1 else (0, len(vocabulary))
        counts = [
            count_partition(
                place, vocabulary, options, blocks, str(root / f"{number}-{len(earlier)}.counts"),
                number=sum(map(ord, place[-2:])),
                what=Counted(part=part, earlier=earlier[0] if part.source == 0 else None),
            )
            for number, (place, part) in enumerate(parts)
        ]  # fmt: skip
        found = [
            merge_row_block(counts, blocks, block, earlier=earlier).toarray()
            for block in range(len(blocks) - 1)
        ]
        return np.concatenate(found)

    before = merged(old, [(kept, Part()), (gone, Part())])
    cut = len(old) // 2
    rows = (cut, len(old) - cut) if cut else (len(old),)
    pieces = np.split(before, np.cumsum(rows)[:-1])
    counts = renumbered(lambda block: csr_array(pieces[block]), rows, old, now, options.units.denominator)
    assert counts.is_exact(options)
    parts = [(kept, Part("changed", 0)), (new, Part()), (gone, Part("had", 0, -1))]
    assert merged(now, parts, [counts]).tolist() == merged(now, [(kept, Part()), (new, Part())]).tolist()


def test_counts_that_would_fall_below_zero_are_refused(tmp_path):
    place = write_partition(str(tmp_path / "p"), [["a", "b"]])
    words = vocabulary_of(["a", "b"])
    options = CooccurrenceOptions(window=1, direction="left")
    counts = renumbered(lambda _: csr_array((2, 2), dtype=np.int32), (2,), words, words)
    what = Counted(part=Part("had", 0, -1), earlier=counts)
    gone = count_partition(place, words, options, (0, 2), str(tmp_path / "c"), what=what)
    with pytest.raises(ValueError, match="a count would be -1 without what is gone"):
        merge_row_block([gone], (0, 2), 0, earlier=[counts])


@pytest.mark.parametrize(("largest", "is_exact"), [(2**23 - 1, True), (2**23, False)])
def test_fractions_are_kept_as_long_as_they_say_how_many_units_they_are(largest, is_exact):
    words = vocabulary_of(["a", "b"], [2**24, 3])
    options = CooccurrenceOptions(window=3, direction="left", weighting="dynamic")
    units = np.array([[largest, 1], [2, 0]])
    stored = csr_array((units / 3).astype(np.float32))
    counts = renumbered(lambda block: stored[[block]], (1, 1), words, words, options.units.denominator)
    assert counts.is_exact(options) == is_exact
    if is_exact:
        [first, second] = counts.runs(0, 2)
        assert [*first.values, *second.values] == [largest, 1, 2]


def test_forged_counts_are_refused_and_not_read_beside():
    values = np.ones(2, np.int32)
    for indptr, indices in (([0, 2], [0, 9]), ([0, 5], [0, 1]), ([0, 2, 1], [0, 1])):
        run = Run(np.array(indptr), np.array(indices, np.int32), values)
        with pytest.raises(ValueError, match="not there"):
            renumber_rows(run, np.zeros(1, np.int64), np.arange(3, dtype=np.int32))


def test_chosen_entries_keep_their_rows():
    run = Run(np.array([0, 2, 3]), np.array([0, 1, 2], np.int32), np.array([5, 0, 7], np.int32))
    left = select_entries(run, run.values > 0)
    assert [part.tolist() for part in left] == [[0, 1, 2], [0, 2], [5, 7]]
