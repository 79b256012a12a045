"""Train gensim's skip-gram or fastText on the tokens that distembed counts, as the rival outside.

``python -m tests.benchmarks.gensim_vectors skipgram|fasttext SIZE MAX_WORDS WINDOW OUT.bin TEXT.xz...`` reads
``[a-z]+`` of the lowercased text as ``pattern = "ascii"`` does, trains five epochs on one thread (5 negatives, sample
1e-4) and writes the vectors, to be judged with ``distembed evaluate A.bin B.bin --sets ... --same-words``.
"""

from __future__ import annotations

import lzma
import re
import sys
import tempfile
import time
from pathlib import Path

from gensim.models import FastText, Word2Vec

MAX_LINE = 5_000  # gensim silently drops what follows the 10,000th word of a line
SETTINGS = {
    "sg": 1, "negative": 5, "sample": 1e-4, "epochs": 5, "workers": 1, "min_count": 5, "seed": 1,
}  # fmt: skip


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


def main(method: str, size: str, max_words: str, window: str, out: str, *texts: str) -> None:
    trainer = {"skipgram": Word2Vec, "fasttext": FastText}[method]
    with tempfile.TemporaryDirectory() as folder:
        corpus = Path(folder) / "corpus.txt"
        print(f"{write_lines(list(texts), corpus):,} tokens", flush=True)
        wall, cpu = time.perf_counter(), time.process_time()
        model = trainer(
            corpus_file=str(corpus),
            vector_size=int(size),
            max_final_vocab=int(max_words),
            window=int(window),
            **SETTINGS,
        )
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        print(f"{method}: {len(model.wv):,} words, {wall:.0f} s wall, {cpu:.0f} s CPU", flush=True)
    model.wv.save_word2vec_format(out, binary=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
