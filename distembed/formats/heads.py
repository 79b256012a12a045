"""The beginning of a file that is no text: what it is, and how to get its text."""

from __future__ import annotations

import contextlib
import re
import tarfile

from distembed.formats.names import suffix_of

_RENAME = "save it as plain text, or give it the extension of its format"
_UNZIP = ("a ZIP archive or an office document", "unpack it (unzip FILE), or save it as plain text or CSV")
_TAR = ("a tar archive", "unpack it (tar -xf FILE), and give the folder with its files")
_HTML = (
    "an HTML page",
    "give the file that the page leads to, or the texts of pages as JSON lines (trafilatura --json)",
)
OLD_OFFICE = ("an old office document", "save it as plain text or CSV")
BEGINNINGS = {
    b"%PDF": ("a PDF file", "save it as plain text (pdftotext FILE)"),
    b"PK\x03\x04": _UNZIP,
    b"PK\x05\x06": _UNZIP,
    b"\xd0\xcf\x11\xe0": OLD_OFFICE,
    b"7z\xbc\xaf\x27\x1c": ("a 7z archive", "unpack it (7z x FILE)"),
    b"Rar!\x1a\x07": ("a RAR archive", "unpack it (unrar x FILE)"),
    b"\x1f\x8b": ("compressed with gzip", _RENAME),
    b"BZh": ("compressed with bzip2", _RENAME),
    b"\xfd7zXZ": ("compressed with xz", _RENAME),
    b"\x28\xb5\x2f\xfd": ("compressed with Zstandard", _RENAME),
    b"PAR1": ("a Parquet file", _RENAME),
    b"\x89HDF\r\n\x1a\n": ("an HDF5 file", _RENAME),
    b"\x93NUMPY": ("an array of NumPy", _RENAME),
    b"SQLite format 3\0": (
        "a database of SQLite",
        "save a table of it as CSV (sqlite3 -header -csv FILE 'SELECT …')",
    ),
}
"""The first bytes of files that are no text, whatever their name, with what they are and what to do."""

PACKED_TAR = (".tgz", ".tbz", ".tbz2", ".txz", ".tzst")
"""How the names of tar archives end that say nothing else of their compression."""

HTML_SUFFIXES = (".html", ".htm", ".xhtml")
HTML = re.compile(rb"(?:\xef\xbb\xbf)?\s*<(?:!doctype\s+html|html)\b", re.IGNORECASE)


def sniffed(data: bytes, name: str) -> tuple[str, str]:
    """Return what a file is that is no plain text, and how to get its text; "" for text.

    Parameters
    ----------
    data : bytes
        The first `encodings.HEAD_BYTES` of the file, unpacked, or all of it.
    name : str
        Its path or URL.

    Examples
    --------
    >>> from distembed.formats.heads import sniffed
    >>> sniffed(b"%PDF-1.5", "a.txt")[0]
    'a PDF file'
    """
    found = next((meaning for begin, meaning in BEGINNINGS.items() if data.startswith(begin)), ("", ""))
    is_tar = data[257:262] == b"ustar"
    if not is_tar:
        with contextlib.suppress(tarfile.HeaderError):  # of before 1988, by its checksum
            tarfile.TarInfo.frombuf(data[: tarfile.BLOCKSIZE], "utf-8", "surrogateescape")
            is_tar = True
    if is_tar or (found[0] and name.lower().endswith(PACKED_TAR)):
        found = _TAR
    elif HTML.match(data) or suffix_of(name) in HTML_SUFFIXES:
        found = _HTML
    return found
