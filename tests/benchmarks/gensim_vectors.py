"""Train gensim's skip-gram or fastText on the tokens that distembed counts, as the rival outside.

``python -m tests.benchmarks.gensim_vectors skipgram|fasttext OUT.bin TEXT.xz... --size 200 --max-words 30000``
reads ``[a-z]+`` of the lowercased text as ``pattern = "ascii"`` does, trains on one thread and writes the vectors,
to be judged with ``distembed evaluate A.bin B.bin --sets ... --same-words``. A TEXT that ends in .txt is taken as
tokenized lines, as ``--lines FILE`` keeps them. ``--model FILE`` saves the whole fastText model in Facebook's format,
whose n-grams answer unknown words too.
"""

from __future__ import annotations

import argparse
import lzma
import re
import tempfile
import time
from pathlib import Path

from gensim.models import FastText, Word2Vec
from gensim.models.fasttext import save_facebook_model

MAX_LINE = 5_000  # gensim silently drops what follows the 10,000th word of a line
TRAINERS = {"skipgram": Word2Vec, "fasttext": FastText}
SETTINGS = {"epochs": 5, "window": 5, "sample": 1e-4, "negative": 5}
"""The options that are tuned, with their defaults; the other settings are fixed."""


def write_lines(texts: list[str], out: Path) -> int:
    """Write the words of the ``texts``, a line of them at a time; return how many there are."""
    n_tokens = 0
    with out.open("w") as lines:
        for text in texts:
            with lzma.open(text, "rt", encoding="utf-8") as source:
                for line in source:
                    words = re.findall("[a-z]+", line.lower())
                    n_tokens += len(words)
                    lines.writelines(
                        " ".join(words[i : i + MAX_LINE]) + "\n" for i in range(0, len(words), MAX_LINE)
                    )
    return n_tokens


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("method", choices=TRAINERS)
    parser.add_argument("out", type=Path)
    parser.add_argument("texts", nargs="+", metavar="TEXT")
    parser.add_argument("--size", type=int, default=200)
    parser.add_argument("--max-words", type=int, default=30_000)
    for name, default in SETTINGS.items():
        parser.add_argument(f"--{name}", type=type(default), default=default)
    parser.add_argument("--lines", type=Path, help="keep the tokenized lines in this file")
    parser.add_argument("--model", type=Path, help="save the fastText model in this file")
    return parser.parse_args()


def trained(corpus: Path, options: argparse.Namespace):
    """Return the trained model; print its settings and what it cost."""
    settings = {name: getattr(options, name) for name in SETTINGS}
    wall, cpu = time.perf_counter(), time.process_time()
    model = TRAINERS[options.method](
        corpus_file=str(corpus), vector_size=options.size, max_final_vocab=options.max_words,
        sg=1, workers=1, min_count=5, seed=1, **settings,
    )  # fmt: skip
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    print(
        f"{options.method} {settings}: {len(model.wv):,} words, {wall:.0f} s wall, {cpu:.0f} s CPU",
        flush=True,
    )
    return model


def main() -> None:
    options = parsed()
    with tempfile.TemporaryDirectory() as folder:
        corpus = Path(options.texts[0])
        if corpus.suffix != ".txt":
            corpus = options.lines or Path(folder) / "corpus.txt"
            print(f"{write_lines(options.texts, corpus):,} tokens", flush=True)
        model = trained(corpus, options)
    model.wv.save_word2vec_format(str(options.out), binary=True)
    if options.model:
        save_facebook_model(model, str(options.model))


if __name__ == "__main__":
    main()
