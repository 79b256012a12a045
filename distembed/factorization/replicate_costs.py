"""What solving words in parts of a text, and in samples of each part, takes."""

from __future__ import annotations

from typing import NamedTuple

from distembed.costs import PAIR_BYTES, SCRATCH_FACTOR, Cost

VALUES_OF_A_PAIR = 6
"""Numbers of four bytes of a pair of a word in each sample: its count, weight, moment, and products on the way."""


class SampleSizes(NamedTuple):
    """The words and core words, the groups of all parts, their pairs, and the most pairs of a word."""

    n_words: int
    n_core: int
    n_parts: int
    n_groups: int
    n_pairs: int
    n_row_blocks: int

    @property
    def totals_bytes(self) -> int:
        """The bytes of the pairs and occurrences of all words in all groups."""
        return 2 * 8 * self.n_words * self.n_groups


def part_vectors_cost(sizes: SampleSizes, n_components: int, *, batch_words: int, pair_bytes: float) -> Cost:
    """Return what solving the words of each part takes, one part after the other."""
    return _solving(
        sizes, n_components, 1, batch_words, pair_bytes, 4 * n_components * sizes.n_words * sizes.n_parts
    )


def word_differences_cost(
    sizes: SampleSizes,
    n_components: int,
    n_samples: int,
    n_measures: int,
    *,
    batch_words: int,
    pair_bytes: float,
) -> Cost:
    """Return what solving the words of all parts in all samples takes, where a stored pair takes so many bytes."""
    return _solving(sizes, n_components, n_samples, batch_words, pair_bytes, 4 * n_measures * sizes.n_words)


def _solving(
    sizes: SampleSizes, n_components: int, n_samples: int, batch_words: int, pair_bytes: float, written: int
) -> Cost:
    n_batches, k = -(-sizes.n_words // batch_words), n_components
    block = PAIR_BYTES * sizes.n_pairs // max(1, sizes.n_row_blocks)
    core = 4 * sizes.n_core * k + 2 * 8 * sizes.n_core * n_samples
    word = 4 * sizes.n_core * (k + sizes.n_groups + VALUES_OF_A_PAIR * n_samples)
    vectors = 4 * batch_words * k + 4 * sizes.n_parts * n_samples * k
    return Cost(
        n_batches * (1 + sizes.n_groups),
        int(pair_bytes * sizes.n_pairs),
        written,
        int(SCRATCH_FACTOR * block) + core + word + vectors + sizes.totals_bytes,
        sizes.totals_bytes,
    )
