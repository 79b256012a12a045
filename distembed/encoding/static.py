"""A text encoder as a model folder that sentence-transformers and model2vec load as it is.

Both libraries give a text the mean of the rows of its words. The weights and the whitening of an encoder are linear,
so its folded rows are such a table, and one folder serves both::

    model.safetensors                  `embeddings`, float32 (n_words + 1, d): the rows, and zeros for unknown words
    tokenizer.json                     how texts become words, and the row of each word
    config.json                        what model2vec reads: no text is cut, no vector is scaled
    modules.json                       what sentence-transformers reads: one StaticEmbedding
    config_sentence_transformers.json  its similarity: the cosine
    README.md                          the model card

A text without unknown words has the encoder's vector in both. model2vec leaves unknown words out of the mean, as the
encoder does. sentence-transformers counts them in its divisor: the vector has the same direction, and is shorter by
the share of known words. Words are not composed from n-grams by either.

The tokenizer is told in the terms of `tokenizer.json`, the file of the `tokenizers` library: a chain of normalizers, a
regular expression that cuts words out of the text, and a table of words. `distembed.corpus.blocks` is the scanner whose
words the expression repeats. The expression is Oniguruma's, and knows the letters of its own version of Unicode: where
that is newer than Python's, letters of scripts that were added since belong to words as well. Its compatibility form
(NFKC) is of an older one, Unicode 12, which lacks 70 characters that nearly no text has.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.numpy

from distembed.corpus.tokenizer import (
    APOSTROPHES,
    ASSIGNED,
    INVISIBLE,
    MIDDLES,
    Tokenizer,
    extends_words,
    scanner,
)
from distembed.encoding.encoder import TextEncoder, batch_of
from distembed.files import replacing_folder

WRITER = "distembed"
"""What the configuration of a folder names as its writer: such a folder may be replaced."""


def write_static_model(folder: str | Path, encoder: TextEncoder, *, card: str | None = None) -> Path:
    """Write a text encoder as a folder for sentence-transformers and model2vec, which appears whole or not at all.

    Parameters
    ----------
    folder : str or Path
        A new or empty folder, or one that this function has written, which is replaced.
    encoder : TextEncoder
        Its words are looked up; those that it would compose are left out, because neither library can compose them.
    card : str, optional
        The text of README.md, the model card; by default a short one.

    Returns
    -------
    Path
        The folder.

    Raises
    ------
    FileExistsError
        If there is something else at `folder`.
    ValueError
        If the folder is a URL, or the tokenizer of the encoder is a Python function.

    Examples
    --------
    >>> import distembed as de
    >>> from tempfile import TemporaryDirectory
    >>> encoder = de.TextEncoder(de.WordVectors(["cat", "dog"], [[1, 0], [0, 1]]))
    >>> with TemporaryDirectory() as room:
    ...     folder = de.write_static_model(f"{room}/pets", encoder)
    ...     sorted(path.name for path in folder.iterdir() if path.suffix != ".json")
    ['README.md', 'model.safetensors']
    """
    if "://" in str(folder):
        raise ValueError(
            f"{folder} is a URL, and a model folder is written to a local disk: give a folder, and upload it after"
        )
    place = Path(folder).absolute()
    if not place.parent.is_dir():
        raise FileNotFoundError(f"there is no folder {place.parent} to write {place.name} in: make it first")
    try:
        found = json.loads((place / "config.json").read_text(encoding="utf-8"))
        is_ours = isinstance(found, dict) and found.get("written_by") == WRITER
    except (OSError, ValueError):
        is_ours = False
    if place.exists() and not (place.is_dir() and (is_ours or not any(place.iterdir()))):
        raise FileExistsError(
            f"{place} is there and is no model folder that distembed has written: name another folder, or remove it"
        )
    if not hasattr(encoder, "rows_"):
        encoder = encoder.fit()
    config = {
        "model_type": "model2vec",
        "architectures": ["StaticModel"],
        "tokenizer_name": WRITER,
        "embedding_dtype": "float32",
        "normalize": False,
        "max_length": None,
        "written_by": WRITER,
        "weighting": encoder.weighting,
        "whitening": encoder.whitening_,
    }
    static = {"idx": 0, "name": "0", "path": ".", "type": "sentence_transformers.models.StaticEmbedding"}
    transformers = {"model_type": "SentenceTransformer", "__version__": {}, "prompts": {}}
    cosine = {"default_prompt_name": None, "similarity_fn_name": "cosine"}
    files = {
        "tokenizer.json": tokenizer_json(encoder.tokenizer_, list(encoder.vectors_.words)),
        "README.md": card or model_card(place.name, encoder),
        "config.json": json.dumps(config, indent=2) + "\n",
        "modules.json": json.dumps([static], indent=2) + "\n",
        "config_sentence_transformers.json": json.dumps(transformers | cosine, indent=2) + "\n",
    }
    with replacing_folder(place) as partial:
        rows = np.vstack([encoder.rows_, np.zeros((1, encoder.n_features_out_), np.float32)])
        safetensors.numpy.save_file({"embeddings": rows}, partial / "model.safetensors", {"format": "pt"})
        for name, text in files.items():
            (partial / name).write_text(text, encoding="utf-8")
        # The library gives its own file to the owner alone.
        (partial / "model.safetensors").chmod((partial / "README.md").stat().st_mode)
    return place


def unreadable_words(encoder: TextEncoder) -> list[str]:
    """Return the words of an encoder that no text gives, because its tokenizer cuts or changes them."""
    words, rules = encoder.vectors_.words, replace(encoder.tokenizer_, border="document", min_border_tokens=1)
    tokens = scanner(replace(rules, phrases_file=None))  # tokenizer.json joins no words
    ids, stops, _ = tokens.scan(batch_of(words))
    known = tokens.words()["word"].to_pylist()
    found = ([known[number] for number in ids[begin:end]] for begin, end in pairwise([0, *stops.tolist()]))
    return [word for word, own in zip(words, found, strict=True) if own != [word]]


def model_card(name: str, encoder: TextEncoder, *, about: str = "") -> str:
    """Return the text of a model card: the head that a model hub reads, how to load the folder, what its rows are.

    Parameters
    ----------
    name : str
        The name of the model.
    encoder : TextEncoder
        A fitted one.
    about : str
        Sections of Markdown on where the vectors come from.
    """
    (n_words, d), options = encoder.rows_.shape, encoder.tokenizer_
    rows = "its word vector as it is"
    if encoder.weighting == "sif":
        rows = (
            f"`a / (a + p) · v / |v|` with a = {encoder.a:g} and p the share of the word among all tokens "
            f"(smooth inverse frequency; shares from {encoder.counts_source_})"
        )
    signs = " and ".join(name for name in ("numbers", "apostrophes") if getattr(options, name))
    return CARD.format(
        name=name,
        n_words=f"{n_words:,}",
        d=d,
        rows=rows if encoder.whitening_ == "none" else f"{rows}, then whitened (`{encoder.whitening_}`)",
        letters="ASCII letters" if options.pattern == "ascii" else "letters",
        signs=f", with {signs}" if signs else "",
        case="in lower case" if options.lowercase else "in the case of the text",
        about=f"\n{about.strip()}\n" if about.strip() else "",
    )


CARD = """---
library_name: sentence-transformers
pipeline_tag: sentence-similarity
tags: [sentence-transformers, model2vec, static-embeddings, word-vectors, distembed]
---

# {name}

A static text embedding model: the vector of a text is the mean of the rows of its words. {n_words} words,
{d} components, made by distembed from co-occurrence counts, without a neural network.

```python
from sentence_transformers import SentenceTransformer

SentenceTransformer("{name}").encode(["a text", "another text"])

from model2vec import StaticModel

StaticModel.from_pretrained("{name}").encode(["a text", "another text"])
```

Compare vectors by their cosine. The row of a word is {rows}.
Words are runs of {letters}{signs}, {case}. Words that the model does not know add nothing: model2vec leaves them out \
of the mean, and
sentence-transformers counts them in its divisor, which changes the length of a vector and not its direction. A text
without a known word has the zero vector.
{about}"""


# ---- tokenizer.json --------------------------------------------------------------------------------------------

UNKNOWN_WORD = "[UNK]"
"""What stands for every word that the table lacks."""

HEBREW = r"[\u05D0-\u05EA\u05EF-\u05F2\uFB1D\uFB1F-\uFB28\uFB2A-\uFB4F]"


def tokenizer_json(tokenizer: Tokenizer, words: Sequence[str]) -> str:
    """Return the JSON text of a tokenizer that gives word i the id i, and any other word the id `len(words)`.

    Parameters
    ----------
    tokenizer : Tokenizer
        Its pattern is "unicode" or "ascii". Borders of windows have no meaning here and are left out.
    words : sequence of str
        n distinct words.

    Returns
    -------
    str

    Raises
    ------
    ValueError
        If the pattern is a Python function.
    """
    if tokenizer.pattern not in {"unicode", "ascii"}:
        raise ValueError(
            f"pattern is {tokenizer.pattern!r}, a Python function, and tokenizer.json has none: "
            'only the patterns "unicode" and "ascii" can be written to it'
        )
    chain: list[dict[str, Any]] = []  # what is done to a text before its words are cut out
    if tokenizer.normalization != "none":
        chain.append({"type": tokenizer.normalization.upper()})
    if tokenizer.pattern == "ascii":
        chain.append(_replace(r"[^\x00-\x7F]", " "))  # some of them have an ASCII letter for their lower case
    else:
        # The inside of a character class of Python, its characters written by their numbers.
        points = (one if one == "-" else _escape(one) for one in INVISIBLE.pattern.strip("[]"))
        chain += [_replace(f"[{''.join(points)}]", ""), _replace(f"[{APOSTROPHES}]", "'")]
    if tokenizer.lowercase:
        chain += [_replace("\u0130", "i"), {"type": "Lowercase"}]
    known, unknown = set(words), UNKNOWN_WORD
    while unknown in known:
        unknown = f"[{unknown}]"
    vocabulary = {word: row for row, word in enumerate([*words, unknown])}
    cut = {
        "type": "Split",
        "pattern": {"Regex": word_expression(tokenizer)},
        "behavior": "Removed",
        "invert": True,
    }
    return json.dumps(
        {
            "version": "1.0",
            "truncation": None,
            "padding": None,
            "added_tokens": [],
            "normalizer": {"type": "Sequence", "normalizers": chain},
            "pre_tokenizer": cut,
            "post_processor": None,
            "decoder": None,
            "model": {"type": "WordLevel", "vocab": vocabulary, "unk_token": unknown},
        },
        ensure_ascii=False,
    )


def word_expression(tokenizer: Tokenizer) -> str:
    r"""Return the regular expression of one word, over text that was normalized.

    A word begins with a letter and goes on with letters, marks, and signs that stand before a further letter.
    """
    digits = tokenizer.numbers
    signs = "'" if tokenizer.apostrophes else ""
    if tokenizer.pattern == "ascii":
        letter = f"[A-Za-z{'0-9' if digits else ''}]"
        return f"{letter}(?:{letter}|[{signs}](?={letter}))*" if signs else f"{letter}+"
    letters = r"\p{L}\p{N}" if digits else r"\p{L}"
    # What belongs to the word before it, and is no mark.
    characters = (chr(point) for points in ASSIGNED for point in points if not INVISIBLE.match(chr(point)))
    kinds = ((one, unicodedata.category(one)) for one in characters)
    joiners = "".join(one for one, kind in kinds if kind[0] != "M" and extends_words(one, kind))
    marks = rf"\p{{M}}{_escape(joiners)}"
    sign = f"[{_escape(MIDDLES)}{signs}](?=[{letters}])"
    quotation = rf"{HEBREW}[{marks}]*[\x22\x27](?={HEBREW})"
    return f"(?=[{letters}])(?:{quotation}|[{letters}{marks}]|{sign})+"


def _replace(expression: str, content: str) -> dict[str, Any]:
    return {"type": "Replace", "pattern": {"Regex": expression}, "content": content}


def _escape(characters: str) -> str:
    return "".join(f"\\x{{{ord(character):X}}}" for character in characters)
