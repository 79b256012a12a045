r"""A tokenizer and a list of words as a `tokenizer.json`, the file of the `tokenizers` library.

Everything that loads static models (sentence-transformers, model2vec, transformers) reads this file and no Python
of ours, so the tokenizer is told in its terms: a chain of normalizers, a regular expression that cuts words out of
the text, and a table of words. `distembed.corpus.blocks` is the scanner whose words the expression repeats.

The regular expression is Oniguruma's, and knows the letters of its own version of Unicode: where that is newer than
Python's, letters of scripts that were added since belong to words as well. Its compatibility form (NFKC) is of an
older one, Unicode 12, which lacks 70 characters that nearly no text has.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Sequence
from typing import Any

from distembed.corpus.normalization import ASSIGNED
from distembed.corpus.tokenizer import APOSTROPHES, INVISIBLE, MIDDLES, Tokenizer, extends_words

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
