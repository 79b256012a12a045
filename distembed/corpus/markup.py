"""Converts wikitext to plain text in one compiled pass over UTF-8 bytes.

The scanner copies text to the output and keeps a stack of the open constructs (templates, links, tables).
Each entry records where its output began: a template or table that closes truncates the output to that place,
and a link that closes keeps its last section. Every byte is read once, nesting costs nothing, and a construct
that never closes removes nothing. At most `MAX_DEPTH` constructs are open at once (MediaWiki itself stops
expanding at 40); deeper ones are text.

Letters: `i` is a place in the source, `o` (field OUT) the length of the output.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numba.extending import register_jitable

# A part of `strip` is called by compiled functions only. It needs no function for Python and no cache of its own, and
# it is compiled once for all constants: to `njit` each constant that a function is called with is another type.
_part = register_jitable(_nrt=False, no_cpython_wrapper=True, no_cfunc_wrapper=True)

MAX_DEPTH = 64
# Longer "tags" are a less-than sign in running text.
MAX_TAG_BYTES = 2000

TEMPLATE, LINK, EXTERNAL, TABLE, HTML_TABLE, N_KINDS = range(6)
KIND, BEGIN, PIPE = range(3)
OUT, DEPTH, HEADING, NO_COMMENT_END, OPEN, BEYOND, NO_TAG_END = 0, 1, 2, 3, 4, 4 + N_KINDS, 4 + 2 * N_KINDS

# Elements that go with all they hold; the rest of the names are only tags, which go alone.
DROPPED = [
    "ref", "math", "chem", "ce", "gallery", "timeline", "syntaxhighlight", "source", "score", "imagemap",
    "hiero", "templatestyles", "graph", "mapframe", "maplink", "style", "script", "inputbox",
    "categorytree", "dynamicpagelist", "templatedata", "includeonly",
]  # fmt: skip
VERBATIM = ("nowiki", "pre")
# Tags that part the words on their two sides.
PARTING = [
    "br", "p", "div", "li", "ul", "ol", "dl", "dd", "dt", "hr", "blockquote", "center", "table", "tr", "td",
    "th", "h1", "h2", "h3", "h4", "h5", "h6", "poem", "section", "gallery",
]  # fmt: skip


def name_hash(name: str) -> int:
    """Return the hash of a tag name that `tag_name` computes."""
    h = 0
    for byte in name.encode():
        h = (h * 131 + byte) & 0x7FFFFFFF
    return h


DROPPED_HASHES = np.array([name_hash(name) for name in (*DROPPED, *VERBATIM)], np.int64)
FIRST_VERBATIM = len(DROPPED)
PARTING_HASHES = np.array([name_hash(name) for name in PARTING], np.int64)
TABLE_HASH = name_hash("table")
N_FIELDS = NO_TAG_END + len(DROPPED_HASHES)
SPECIAL = np.isin(np.arange(256), np.frombuffer(b"{}[]<|'\n_", np.uint8))


class Strip(NamedTuple):
    """What a pass over wikitext reads and writes.

    Attributes
    ----------
    src : uint8 array, the wikitext
    out : uint8 array as long, the output
    stack : int64 array (MAX_DEPTH, 3), the open constructs
    fields : int64 array (N_FIELDS,), the counters named above, all zeros at the beginning
    names : uint8 array, the lower-case names of the namespaces whose links are dropped, one after the other
    name_stops : int array, the end of each name
    """

    src: np.ndarray
    out: np.ndarray
    stack: np.ndarray
    fields: np.ndarray
    names: np.ndarray
    name_stops: np.ndarray


@_part
def matches(src: np.ndarray, i: int, a: int, b: int) -> bool:
    """Return whether the two characters `a`, `b` are at `i`."""
    return i + 1 < len(src) and src[i] == a and src[i + 1] == b


@_part
def emit(s: Strip, byte: int) -> None:
    """Append a byte to the output."""
    s.out[s.fields[OUT]] = byte
    s.fields[OUT] += 1


@_part
def push(s: Strip, kind: int) -> None:
    """Open a construct at this place of the output; beyond the maximum depth only the number of constructs is kept."""
    fields, depth = s.fields, s.fields[DEPTH]
    if depth == MAX_DEPTH:
        fields[BEYOND + kind] += 1
        return
    s.stack[depth, KIND] = kind
    s.stack[depth, BEGIN] = fields[OUT]
    s.stack[depth, PIPE] = -1
    fields[DEPTH] += 1
    fields[OPEN + kind] += 1


@_part
def pop(s: Strip, kind: int) -> int:
    """Close the innermost construct of a kind, with the unclosed ones inside it; return its place or -1."""
    fields = s.fields
    if fields[BEYOND + kind] > 0:
        fields[BEYOND + kind] -= 1
        return -1
    if fields[OPEN + kind] == 0:
        return -1
    while True:
        fields[DEPTH] -= 1
        top = s.stack[fields[DEPTH], KIND]
        fields[OPEN + top] -= 1
        if top == kind:
            return fields[DEPTH]


@_part
def pop_and_cut(s: Strip, kind: int) -> None:
    """Close a construct, if one is open, and remove its output."""
    entry = pop(s, kind)
    if entry >= 0:
        s.fields[OUT] = s.stack[entry, BEGIN]


@_part
def lower(byte: int) -> int:
    """Return an ASCII letter in lower case, any other byte as it is."""
    return byte + 32 if 65 <= byte <= 90 else byte


@_part
def is_dropped_target(s: Strip, begin: int, end: int, is_alone: bool) -> bool:
    """Return whether a link target is in a namespace whose links are not text (files, categories).

    Nor is one that stands alone as "fr:…" or "zh-yue:…": a link to another language, shown in the margin.
    """
    out, k, dash = s.out, begin, False
    while is_alone and k < end and (97 <= out[k] <= 122 or (out[k] == 45 and (dash or k >= begin + 2))):
        dash = dash or out[k] == 45
        k += 1
    if is_alone and k < end and out[k] == 58 and (2 <= k - begin <= 3 or (dash and k - begin <= 12)):
        return True
    while begin < end and out[begin] == 32:
        begin += 1
    first = 0
    for stop in s.name_stops:
        n = stop - first
        if begin + n < end and out[begin + n] == 58:
            k = 0
            while k < n and (
                lower(out[begin + k]) == s.names[first + k]
                or (out[begin + k] == 95 and s.names[first + k] == 32)
            ):
                k += 1
            if k == n:
                return True
        first = stop
    return False


@_part
def close_link(s: Strip) -> None:
    """Close a link: keep the text after its first bar, or the target; keep nothing of a file or a category."""
    out, entry = s.out, pop(s, LINK)
    if entry < 0:
        return
    begin, pipe, end = s.stack[entry, BEGIN], s.stack[entry, PIPE], s.fields[OUT]
    if is_dropped_target(s, begin, end if pipe < 0 else pipe, pipe < 0):
        s.fields[OUT] = begin
        return
    source = pipe
    if pipe < 0:
        source = begin + 1 if begin < end and out[begin] == 58 else begin
    for k in range(end - source):
        out[begin + k] = out[source + k]
    s.fields[OUT] = begin + end - source


@_part
def url_end(src: np.ndarray, i: int) -> int:
    """Return the end of the URL that begins at `i`, or `i` where none does."""
    n, k = len(src), i
    while k < n and k < i + 10 and 97 <= lower(src[k]) <= 122:
        k += 1
    relative = matches(src, i, 47, 47)
    scheme = k < n and k > i + 2 and src[k] == 58 and (matches(src, k + 1, 47, 47) or k - i == 6)
    if not (relative or scheme):
        return i
    while k < n and src[k] > 32 and src[k] != 93 and src[k] != 91:
        k += 1
    return k


@_part
def bracket(s: Strip, i: int) -> int:
    """Open an internal link, or an external link after its URL, at [; close the innermost link at ]."""
    src, byte, top = s.src, s.src[i], s.fields[DEPTH] - 1
    if byte == 91 and matches(src, i, 91, 91):
        push(s, LINK)
        return i + 2
    end = url_end(src, i + 1) if byte == 91 else i + 1
    if end > i + 1:
        push(s, EXTERNAL)
        return end
    if byte == 93 and top >= 0 and s.stack[top, KIND] == EXTERNAL:
        pop(s, EXTERNAL)
        return i + 1
    if byte == 93 and matches(src, i, 93, 93):
        close_link(s)
        return i + 2
    emit(s, byte)
    return i + 1


@_part
def punctuation(s: Strip, i: int) -> int:
    """End the target of a link at its first bar; drop apostrophes that are markup, and a switch such as __NOTOC__.

    Those are two, three or five in a row, and three of four.
    """
    src, byte, top, k = s.src, s.src[i], s.fields[DEPTH] - 1, i + 1
    if byte == 124 and top >= 0 and s.stack[top, KIND] == LINK and s.stack[top, PIPE] < 0:
        s.stack[top, PIPE] = s.fields[OUT]
        return k
    if byte == 39:
        while k < len(src) and src[k] == 39:
            k += 1
        if k - i in (1, 4):
            emit(s, 39)
        return k
    if byte == 95 and matches(src, i, 95, 95):
        k += 1
        while k < len(src) and k < i + 32 and 65 <= src[k] <= 90:
            k += 1
        if k > i + 2 and matches(src, k, 95, 95):
            return k + 2
    emit(s, byte)
    return i + 1


@_part
def begin_line(s: Strip, i: int) -> int:
    """Drop list marks and heading signs at the beginning of a line; open and close tables."""
    src, n, k = s.src, len(s.src), i
    while k < n and (src[k] == 32 or src[k] == 58 or src[k] == 9):
        k += 1
    if matches(src, k, 123, 124):
        push(s, TABLE)
        return k + 2
    if matches(src, k, 124, 125) and not (k + 2 < n and src[k + 2] == 125) and s.fields[OPEN + TABLE] > 0:
        pop_and_cut(s, TABLE)
        return k + 2
    k = i
    while k < n and (src[k] == 42 or src[k] == 35 or src[k] == 58 or src[k] == 59):
        k += 1
    if k == i:
        while k < n and src[k] == 61:
            k += 1
        s.fields[HEADING] = k > i
    return k


@_part
def end_line(s: Strip, i: int) -> int:
    """End a line: no link target or text of a URL continues beyond it."""
    fields, stack, top = s.fields, s.stack, s.fields[DEPTH] - 1
    while top >= 0 and (stack[top, KIND] == EXTERNAL or (stack[top, KIND] == LINK and stack[top, PIPE] < 0)):
        fields[OPEN + stack[top, KIND]] -= 1
        top -= 1
    fields[DEPTH] = top + 1
    if fields[HEADING]:
        # What is still open keeps its places in the output: nothing before them is cut.
        least = max(stack[top, BEGIN], stack[top, PIPE]) if top >= 0 else 0
        while fields[OUT] > least and (s.out[fields[OUT] - 1] == 61 or s.out[fields[OUT] - 1] == 32):
            fields[OUT] -= 1
        fields[HEADING] = 0
    emit(s, 10)
    return begin_line(s, i + 1)


@_part
def tag_name(src: np.ndarray, i: int) -> tuple[int, int]:
    """Return the hash of the tag name at `i` and its end."""
    h, k = 0, i
    while k < len(src) and k < i + 32 and (97 <= lower(src[k]) <= 122 or (k > i and 48 <= src[k] <= 57)):
        h = (h * 131 + lower(src[k])) & 0x7FFFFFFF
        k += 1
    return h, k


@_part
def tag_end(src: np.ndarray, i: int) -> int:
    """Return the place of the > that ends a tag, or -1."""
    for k in range(i, min(len(src), i + MAX_TAG_BYTES)):
        if src[k] == 62:
            return k
        if src[k] == 60:
            return -1
    return -1


@_part
def comment(s: Strip, i: int) -> int:
    """Skip a comment; one without an end is skipped as four characters."""
    if s.fields[NO_COMMENT_END] == 0:
        for k in range(i + 4, len(s.src) - 2):
            if s.src[k] == 45 and s.src[k + 1] == 45 and s.src[k + 2] == 62:
                return k + 3
        s.fields[NO_COMMENT_END] = 1
    return i + 4


@_part
def element(s: Strip, i: int, which: int) -> int:
    """Drop an element, or keep it verbatim, starting after its opening tag; return its end."""
    src, close = s.src, i
    if s.fields[NO_TAG_END + which]:
        return i
    while close < len(src) - 2 and not (
        matches(src, close, 60, 47) and tag_name(src, close + 2)[0] == DROPPED_HASHES[which]
    ):
        close += 1
    if close >= len(src) - 2:
        # Looked for only once: a thousand unclosed tags cost no more than one.
        s.fields[NO_TAG_END + which] = 1
        return i
    if which >= FIRST_VERBATIM:
        for k in range(i, close):
            emit(s, src[k])
    end = tag_end(src, close + 2)
    return close + 2 if end < 0 else end + 1


@_part
def angle(s: Strip, i: int) -> int:
    """Skip a comment, a tag, or a whole element, at <."""
    src = s.src
    if matches(src, i + 1, 33, 45) and i + 3 < len(src) and src[i + 3] == 45:
        return comment(s, i)
    closing = i + 1 < len(src) and src[i + 1] == 47
    name, k = tag_name(src, i + 1 + closing)
    end = tag_end(src, k) if k > i + 1 + closing else -1
    if end < 0:
        emit(s, 60)
        return i + 1
    is_opening = not closing and src[end - 1] != 47
    if name == TABLE_HASH and closing:
        pop_and_cut(s, HTML_TABLE)
    elif name == TABLE_HASH and is_opening:
        push(s, HTML_TABLE)
    for parting in PARTING_HASHES:
        if parting == name:
            emit(s, 32)
    for which in range(len(DROPPED_HASHES) if is_opening else 0):
        if DROPPED_HASHES[which] == name:
            return element(s, end + 1, which)
    return end + 1


@_part
def strip_one(s: Strip) -> int:
    """Write the plain text of wikitext to the output; return its length."""
    src, out, fields = s.src, s.out, s.fields
    i = begin_line(s, 0)
    while i < len(src):
        byte = src[i]
        if not SPECIAL[byte]:
            out[fields[OUT]] = byte
            fields[OUT] += 1
            i += 1
        elif byte == 10:
            i = end_line(s, i)
        elif byte in (91, 93):
            i = bracket(s, i)
        elif byte == 60:
            i = angle(s, i)
        elif byte in (123, 125) and matches(src, i, byte, byte):  # of a template or a parameter
            if byte == 123:
                push(s, TEMPLATE)
            else:
                pop_and_cut(s, TEMPLATE)
            i += 2
        else:
            i = punctuation(s, i)
    return fields[OUT]


@njit(cache=True, nogil=True)
def strip(
    src: np.ndarray, stops: np.ndarray, names: np.ndarray, name_stops: np.ndarray, out: np.ndarray
) -> np.ndarray:
    """Write the plain text of wikitexts, which end at `stops`, one after the other; return where each ends, int64 (n,).

    One call for many: a thread that lets others run for each short text waits for them each time.
    """
    ends, n, begin = np.empty(len(stops), np.int64), 0, 0
    stack, fields = np.zeros((MAX_DEPTH, 3), np.int64), np.zeros(N_FIELDS, np.int64)
    for row, stop in enumerate(stops):
        fields[:] = 0
        n += strip_one(Strip(src[begin:stop], out[n:], stack, fields, names, name_stops))
        begin, ends[row] = stop, n
    return ends
