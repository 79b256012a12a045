"""Train gensim's skip-gram or fastText on the tokens that distembed counts, as the rival outside.

``python -m benchmarks.gensim_vectors skipgram|fasttext OUT.bin TEXT.xz... --size 200 --max-words 30000``
reads ``[a-z]+`` of the lowercased text as ``pattern = "ascii"`` does, trains on one thread and writes the vectors,
to be judged with ``distembed evaluate A.bin B.bin --sets ... --same-words``. A TEXT that ends in .txt is taken as
tokenized lines, as ``--lines FILE`` keeps them.
"""

from __future__ import annotations

import re
import tempfile
from pathlib import Path
from typing import Any, Literal

from benchmarks.inputs import open_text
from benchmarks.measures import needed, run_main, spent, tell

models = needed("gensim.models")

MAX_LINE = 5_000  # gensim silently drops what follows the 10,000th word of a line
TRAINERS = {"skipgram": models.Word2Vec, "fasttext": models.FastText}


def write_lines(texts: tuple[str, ...], out: Path) -> int:
    """Write the words of the ``texts``, a line of them at a time; return how many there are."""
    n_tokens = 0
    with out.open("w") as lines:
        for text in texts:
            with open_text(text) as source:
                for line in source:
                    words = re.findall("[a-z]+", line.lower())
                    n_tokens += len(words)
                    for begin in range(0, len(words), MAX_LINE):
                        lines.write(" ".join(words[begin : begin + MAX_LINE]) + "\n")
    return n_tokens


def trained(method: str, corpus: Path, size: int, max_words: int, **settings: Any) -> Any:
    """Return the trained model; print its settings and what it cost."""
    options = {
        "vector_size": size,
        "max_final_vocab": max_words,
        "sg": 1,
        "workers": 1,
        "min_count": 5,
        "seed": 1,
    }
    found = spent(TRAINERS[method], corpus_file=str(corpus), **options, **settings)
    tell(f"{method} {settings}: {len(found.result.wv):,} words, {found}")
    return found.result


def main(
    method: Literal["skipgram", "fasttext"], out: Path, *texts: str, size: int = 200, max_words: int = 30_000,
    epochs: int = 5, window: int = 5, sample: float = 1e-4, negative: int = 5,
    lines: Path | None = None,
) -> None:  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        corpus = Path(texts[0])
        if corpus.suffix != ".txt":
            corpus = lines or Path(folder) / "corpus.txt"
            tell(f"{write_lines(texts, corpus):,} tokens")
        tuned = {"epochs": epochs, "window": window, "sample": sample, "negative": negative}
        found = trained(method, corpus, size, max_words, **tuned)
    found.wv.save_word2vec_format(str(out), binary=True)


if __name__ == "__main__":
    run_main(main)
