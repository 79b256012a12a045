"""Counts of another vocabulary and other partitions, added to and subtracted from, against counting all at once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

from distembed.counting import CooccurrenceOptions, count_partition, merge_row_block
from distembed.counting.blocks import BORDER, OUTSIDE, Run
from distembed.counting.partial_counts import NONE_GAINED, Counted
from distembed.counting.renumbered import Part, renumbered
from distembed.counting.renumbering_blocks import near_gained, renumber_rows, select_entries
from tests.counting.partitions import vocabulary_of, write_partition

WORDS = "abcdefgh"
DOCUMENTS = st.lists(
    st.lists(st.sampled_from([*WORDS, None]), min_size=6, max_size=16), min_size=1, max_size=3
)
SUBSETS = st.lists(st.sampled_from(WORDS), min_size=4, unique=True)


def near_by_hand(words: Sequence[int], gained: Sequence[bool], window: int) -> list[int]:
    new = [place for place, word in enumerate(words) if word >= 0 and gained[word]]
    return [
        word if word == BORDER or any(abs(place - other) <= window for other in new) else OUTSIDE
        for place, word in enumerate(words)
    ]


@given(
    st.lists(st.integers(-2, 4), max_size=30).map(lambda words: np.array(words, np.int32)),
    st.lists(st.booleans(), min_size=5, max_size=5).map(np.array),
    st.integers(1, 4),
)
def test_what_is_left_near_new_words(words, gained, window):
    left = near_gained(words, gained, window)
    expected = near_by_hand(words.tolist(), gained.tolist(), window)
    if left is None:
        assert not any(word >= 0 for word in expected)
    else:
        assert left.tolist() == expected


@settings(deadline=None, max_examples=25)
@given(
    st.lists(DOCUMENTS, min_size=3, max_size=3),
    SUBSETS,
    SUBSETS,
    st.sampled_from(["left", "right", "symmetric"]),
    st.sampled_from([None, 3]),
)
def test_kept_gone_and_new_partitions_add_up_to_all_counts(
    tmp_path_factory, partitions, old_words, new_words, direction, draw
):
    root = tmp_path_factory.mktemp("counts")
    kept, gone, new = (write_partition(str(root / f"p{n}"), one) for n, one in enumerate(partitions))
    weighting = "flat" if draw is None else "dynamic"
    options = CooccurrenceOptions(window=2, direction=direction, weighting=weighting, draw=draw)
    old, now = vocabulary_of(old_words), vocabulary_of(new_words)

    def merged(vocabulary, parts, earlier=()):
        blocks = (0, len(vocabulary) // 2, len(vocabulary)) if len(vocabulary) > 1 else (0, len(vocabulary))
        gained = earlier[0].gained if earlier else NONE_GAINED
        counts = [
            count_partition(
                place, vocabulary, options, blocks, str(root / f"{number}-{len(earlier)}.counts"),
                number=sum(map(ord, place[-2:])), what=Counted(part=part, gained=gained),
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
    counts = renumbered(lambda block: csr_array(pieces[block]), rows, old, now)
    parts = [(kept, Part("gained", 0)), (new, Part()), (gone, Part("others", 0, -1))]
    assert merged(now, parts, [counts]).tolist() == merged(now, [(kept, Part()), (new, Part())]).tolist()


def test_counts_that_would_fall_below_zero_are_refused(tmp_path):
    place = write_partition(str(tmp_path / "p"), [["a", "b"]])
    words = vocabulary_of(["a", "b"])
    options = CooccurrenceOptions(window=1, direction="left")
    counts = renumbered(lambda _: csr_array((2, 2), dtype=np.int32), (2,), words, words)
    what = Counted(part=Part("others", 0, -1), gained=counts.gained)
    gone = count_partition(place, words, options, (0, 2), str(tmp_path / "c"), what=what)
    with pytest.raises(ValueError, match="a count would be -1 without what is gone"):
        merge_row_block([gone], (0, 2), 0, earlier=[counts])


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
