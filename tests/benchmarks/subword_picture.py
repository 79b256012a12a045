"""Draw known words beside composed ones: ``python -m tests.benchmarks.subword_picture VECTORS FILE.svg``.

VECTORS is a workspace, job file or vector file with n-grams. Strings that are not in its vocabulary stand beside the
four words that are nearest to each.
"""

from __future__ import annotations

import sys

from distembed.job.opening import load_vectors, parse_source
from distembed.views.report.figures import save_figure
from distembed.views.report.maps import map_drawing, plane

STRINGS = [
    "hyperinflated", "microbrewer", "bioluminescently", "recontextualize", "tolkienesque", "kingliest", "misremembered",
    "photosynthesizer",
]  # fmt: skip
N_NEAR = 4


def main() -> None:
    """Draw the strings that are unknown, and the words nearest to each."""
    source, target = sys.argv[1:3]
    vectors = load_vectors(parse_source(source))
    strings = [string for string in STRINGS if string not in vectors]
    near = [word for string in strings for word, _ in vectors.most_similar(string, n=N_NEAR)]
    names = list(dict.fromkeys([*strings, *near]))
    points, _ = plane(vectors.normalized()[names].astype("float64"), "tsne", 0)
    groups = ["composed from its n-grams" if name in strings else "word of the vocabulary" for name in names]
    save_figure(target, map_drawing(points, names, groups).drawing)
    for string in strings:
        print(f"{string}: {', '.join(word for word, _ in vectors.most_similar(string, n=N_NEAR))}")


if __name__ == "__main__":
    main()
