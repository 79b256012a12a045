"""Draw known words beside composed ones: ``python -m tests.benchmarks.subword_picture VECTORS FOLDER``.

VECTORS is a workspace, job file or vector file with n-grams. Strings that are not in its vocabulary stand beside the
four words that are nearest to each.
"""

from __future__ import annotations

from distembed.job.opening import load_vectors, parse_source
from distembed.views.report.figures import figures_saved
from distembed.views.report.maps import word_map
from tests.benchmarks.measures import run_main

STRINGS = [
    "hyperinflated", "microbrewer", "bioluminescently", "recontextualize", "tolkienesque", "kingliest", "misremembered",
    "photosynthesizer",
]  # fmt: skip
N_NEAR = 4


def main(source: str, folder: str) -> None:
    vectors = load_vectors(parse_source(source))
    strings = [string for string in STRINGS if string not in vectors]
    near = {string: [word for word, _ in vectors.most_similar(string, n=N_NEAR)] for string in strings}
    names = list(dict.fromkeys([*strings, *(word for words in near.values() for word in words)]))
    groups = ["composed from its n-grams" if name in strings else "word of the vocabulary" for name in names]
    with figures_saved(folder, "svg", origin=source):
        word_map(names, vectors.normalized()[names], title="Subwords", groups=groups)
    for string, words in near.items():
        print(f"{string}: {', '.join(words)}")


if __name__ == "__main__":
    run_main(main)
