"""The encoding of a text from its first bytes: a byte-order mark, the form of UTF-8, or else Windows-1252.

UTF-8 is recognized by its form: text of another encoding is hardly ever valid UTF-8. Among the encodings of one byte
per character nothing tells one from another but the language, so that what is not UTF-8 is taken for Windows-1252,
as browsers do. It has the letters of western European languages; Latin-1 is a part of it.
"""

from __future__ import annotations

import codecs
import contextlib
import re

import numpy as np
import pyarrow as pa
from charset_normalizer import from_bytes
from numpy.typing import NDArray

HEAD_BYTES = 1 << 18
"""Bytes at the beginning of a file from which its encoding is recognized."""

MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
"""Byte-order marks, the longer ones first where one begins another."""

ONE_BYTE = "cp1252"
"""The encoding assumed for text that has no byte-order mark and is not UTF-8: Windows-1252."""

MULTIBYTE = re.compile(rb"[\xc2-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}|[\xf0-\xf4][\x80-\xbf]{3}")
CUT = re.compile(rb"(?:[\xc2-\xf4]|[\xe0-\xf4][\x80-\xbf]|[\xf0-\xf4][\x80-\xbf]{2})\Z")
"""The beginning of a character at the end of the bytes that were read."""

NOT_ASCII = re.compile(rb"[\x80-\xff]")


def detect_encoding(head: bytes) -> str:
    """Return the encoding of a text from its first bytes.

    Parameters
    ----------
    head : bytes
        The first `HEAD_BYTES` of the text, or all of it where it is shorter.

    Returns
    -------
    str
        The encoding of the byte-order mark; ``"utf-8"`` where most of what is not ASCII has the form of UTF-8, so that
        a damaged byte does not turn a whole file into another encoding; else ``"cp1252"``.

    Examples
    --------
    >>> from distembed.formats.encodings import detect_encoding
    >>> detect_encoding("Äpfel".encode("latin-1"))
    'cp1252'
    >>> detect_encoding("Äpfel".encode("utf-8"))
    'utf-8'
    """
    for mark, name in MARKS:
        if head.startswith(mark):
            return name
    is_cut = len(head) >= HEAD_BYTES
    with contextlib.suppress(UnicodeDecodeError):  # a hundred times as fast as what follows
        codecs.utf_8_decode(head, "strict", not is_cut)
        return "utf-8"
    head = CUT.sub(b"", head) if is_cut else head
    valid = MULTIBYTE.findall(head)
    n_other = len(NOT_ASCII.findall(head)) - sum(map(len, valid))
    return "utf-8" if len(valid) >= n_other else ONE_BYTE


GUESSED_BYTES = 1 << 14
"""What is read for a guess, from the first byte on that is not ASCII."""

COMMON_NAMES = {
    "euc_jis_2004": "euc_jp",
    "euc_jisx0213": "euc_jp",
    "cp932": "shift_jis",
    "cp949": "euc_kr",
}
"""What encodings that contain a common one are called: the text mostly has the characters of the common one."""


def guess_encoding(head: bytes) -> tuple[str, str] | None:
    """Return the encoding that charset-normalizer takes a text for; None where it finds none, or for Windows-1252.

    With it comes a line that reads otherwise in it than in Windows-1252.

    Parameters
    ----------
    head : bytes
        The beginning of a text that is not UTF-8.
    """
    first = NOT_ASCII.search(head)
    if first is None:
        return None
    begin = max(head.rfind(b"\n", 0, first.start()) + 1, first.start() - GUESSED_BYTES // 2)
    piece = head[begin : begin + GUESSED_BYTES]
    western = piece.decode(ONE_BYTE, "replace")
    others = re.findall(r"[^\x00-\x7f]", western.lower())
    if len(others) < len(re.findall("[A-Za-z]", western)) and any(
        set(others) - SIGNS <= set(letters) for letters in ALPHABETS
    ):
        return None  # mostly ASCII letters, and the others those of one language
    best = from_bytes(piece, cp_isolation=list(CANDIDATES)).best()
    encoding = COMMON_NAMES.get(best.encoding, best.encoding) if best is not None else ONE_BYTE
    text = piece.decode(encoding, "replace")
    if text == western:
        return None
    lines = zip(text.splitlines(), western.splitlines(), strict=False)
    shown = next((line for line, other in lines if line != other), "")
    return encoding, shown.strip()[:SHOWN_CHARACTERS]


SHOWN_CHARACTERS = 30

CANDIDATES = (
    "cp1250", "cp1251", "cp1252", "cp1253", "cp1254", "cp1255", "cp1256", "cp1257", "iso8859_2", "koi8_r", "koi8_u",
    "cp437", "cp850", "cp852", "cp866", "shift_jis", "cp932", "euc_jp", "gb18030", "big5", "euc_kr", "cp949",
)  # fmt: skip
"""What files are in. Of all encodings of Python, a rare one often fits a short text best."""

ALPHABETS = (
    "äöüß", "àâæçéèêëîïôœùûüÿ", "áéíñóúüç¿¡ªº", "áâãàçéêíóôõúüªº", "àèéìíòóùú", "æøåäöéü", "áðéíóúýþæö", "éèëïöü",
)  # fmt: skip
"""Letters of western European languages, each with its own."""

SIGNS = set("„“”‚‘’–—…€£«»§°·©®×½²\xa0")


NO_CHARSETS = frozenset({"idna", "punycode", "raw-unicode-escape", "undefined", "unicode-escape"})
"""Codecs of Python that read text, and are no encoding of a file."""


def text_encoding(name: str) -> str | None:
    """Return Python's name of an encoding of text that a file declares; None where it is none.

    Examples
    --------
    >>> from distembed.formats.encodings import text_encoding
    >>> text_encoding("Latin1"), text_encoding("zlib")
    ('iso8859-1', None)
    """
    try:
        known = codecs.lookup(name).name
        b"a".decode(known, "replace")
    except (LookupError, UnicodeError):
        return None
    return None if known.replace("_", "-") in NO_CHARSETS else known


class EncodingError(ValueError):
    """Text that is not in the encoding that is said or assumed: the file, the line, the byte, and a guess."""


def utf8(data: bytes, name: str, encoding: str = "utf-8", *, has_option: bool = True) -> bytes:
    """Return a whole text in UTF-8 without its byte-order mark.

    Parameters
    ----------
    data : bytes
    name : str
        The file, for the error.
    encoding : str
        That of a text without a byte-order mark.
    has_option : bool
        Whether the user can give the encoding; otherwise the error says to save the file as UTF-8.

    Raises
    ------
    EncodingError
        If there is no such encoding, or the text is not in it; the error names the line, the byte and the encoding that
        charset-normalizer takes the text for.

    Examples
    --------
    >>> from distembed.formats.encodings import utf8
    >>> utf8("Äpfel".encode("utf-16"), "a.txt").decode()
    'Äpfel'
    """
    encoding = next((marked for mark, marked in MARKS if data.startswith(mark)), encoding)
    known = text_encoding(encoding)
    if known is None:
        raise EncodingError(f'{name}: there is no encoding {encoding!r}: set encoding = "utf-8" or "latin-1"')
    if is_utf8(known) and holds_utf8(data := data.removeprefix(codecs.BOM_UTF8)):
        return data
    try:
        return data.decode(known).removeprefix("\ufeff").encode()
    except UnicodeDecodeError as error:
        place = error.start
    line = data.count(b"\n", 0, place) + 1
    fault = f"{name} is not {known}: line {line} holds the byte {data[place]:#04x}"
    window = data[max(0, place - GUESSED_BYTES) : place + GUESSED_BYTES]
    remedy, likely = "set encoding to that of the file", ""
    if detect_encoding(window) == ONE_BYTE:
        guess = guess_encoding(window)
        encoding = guess[0] if guess else ONE_BYTE
        remedy, likely = f'set encoding = "{encoding}"', f". It may be {encoding}"
    raise EncodingError(f"{fault}{likely}: correct it, or {remedy if has_option else 'save it as UTF-8'}")


def holds_utf8(data: bytes | NDArray[np.uint8]) -> bool:
    """Return whether bytes are valid UTF-8, without decoding them."""
    bounds = pa.py_buffer(np.array([0, len(data)], np.int64))
    try:
        pa.LargeStringArray.from_buffers(1, bounds, pa.py_buffer(data)).validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def is_utf8(encoding: str) -> bool:
    """Return whether text of this encoding can be scanned as it is."""
    return codecs.lookup(encoding).name in {"utf-8", "ascii"}
