"""Print the effect sizes of the packaged WEAT tests by the package `wefe`, on vectors drawn from a seed.

``python -m tests.benchmarks.weat_by_wefe`` needs `pip install wefe`, which brings its own environment; run it there, in
the root of the checkout. `tests/evaluation/test_bias.py` keeps what it printed and compares `distembed.weat` with it.
"""

from __future__ import annotations

import tomllib
from pathlib import Path

import numpy as np

from tests.benchmarks.measures import needed, run_main

TESTS = Path(__file__).parents[2] / "distembed/evaluation/sets/weat.toml"


def main() -> None:
    metrics, queries, models = map(needed, ("wefe.metrics", "wefe.query", "wefe.word_embedding_model"))
    content = tomllib.loads(TESTS.read_text(encoding="utf-8"))
    lists = content["words"]
    words = sorted({word for each in lists.values() for word in each})
    keyed = needed("gensim.models").KeyedVectors(12)
    keyed.add_vectors(words, np.random.default_rng(7).normal(size=(len(words), 12)).astype(np.float32))
    model = models.WordEmbeddingModel(keyed, "drawn")
    for test in content["tests"]:
        query = queries.Query(*([lists[name] for name in test[side]] for side in ("targets", "attributes")))
        found = metrics.WEAT().run_query(query, model, return_effect_size=True)
        print(f'    "{test["name"]}": {found["result"]:.6f},')


if __name__ == "__main__":
    run_main(main)
