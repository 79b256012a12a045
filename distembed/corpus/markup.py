"""Converts wikitext to plain text in one compiled pass over UTF-8 bytes.

The scanner copies text to the output and keeps a stack of the open constructs (templates, links, tables).
Each entry records where its output began: a template or table that closes truncates the output to that place,
and a link that closes keeps its last section. Every byte is read once, nesting costs nothing, and a construct
that never closes removes nothing. At most `MAX_DEPTH` constructs are open at once (MediaWiki itself stops
expanding at 40); deeper ones are text.

Letters: `i` is a place in the source, `o` (field OUT) the length of the output.
"""

from __future__ import annotations

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


@_part
def matches(src: np.ndarray, i: int, a: int, b: int) -> bool:
    """Return whether the two characters `a`, `b` are at `i`."""
    return i + 1 < len(src) and src[i] == a and src[i + 1] == b


@_part
def emit(out: np.ndarray, fields: np.ndarray, byte: int) -> None:
    """Append a byte to the output."""
    out[fields[OUT]] = byte
    fields[OUT] += 1


@_part
def push(stack: np.ndarray, fields: np.ndarray, kind: int) -> None:
    """Open a construct at this place of the output; beyond the maximum depth only the number of constructs is kept."""
    depth = fields[DEPTH]
    if depth == MAX_DEPTH:
        fields[BEYOND + kind] += 1
        return
    stack[depth, KIND] = kind
    stack[depth, BEGIN] = fields[OUT]
    stack[depth, PIPE] = -1
    fields[DEPTH] += 1
    fields[OPEN + kind] += 1


@_part
def pop(stack: np.ndarray, fields: np.ndarray, kind: int) -> int:
    """Close the innermost construct of a kind, with the unclosed ones inside it; return its place or -1."""
    if fields[BEYOND + kind] > 0:
        fields[BEYOND + kind] -= 1
        return -1
    if fields[OPEN + kind] == 0:
        return -1
    while True:
        fields[DEPTH] -= 1
        top = stack[fields[DEPTH], KIND]
        fields[OPEN + top] -= 1
        if top == kind:
            return fields[DEPTH]


@_part
def pop_and_cut(stack: np.ndarray, fields: np.ndarray, kind: int) -> bool:
    """Close a construct and remove its output; return False if none was open."""
    entry = pop(stack, fields, kind)
    if entry >= 0:
        fields[OUT] = stack[entry, BEGIN]
    return entry >= 0


@_part
def lower(byte: int) -> int:
    """Return an ASCII letter in lower case, any other byte as it is."""
    return byte + 32 if 65 <= byte <= 90 else byte


@_part
def is_dropped_target(
    out: np.ndarray, begin: int, end: int, names: np.ndarray, name_stops: np.ndarray
) -> bool:
    """Return whether a link target is in a namespace whose links are not text (files, categories)."""
    while begin < end and out[begin] == 32:
        begin += 1
    first = 0
    for stop in name_stops:
        n = stop - first
        if begin + n < end and out[begin + n] == 58:
            k = 0
            while k < n and (
                lower(out[begin + k]) == names[first + k] or (out[begin + k] == 95 and names[first + k] == 32)
            ):
                k += 1
            if k == n:
                return True
        first = stop
    return False


@_part
def is_language_link(out: np.ndarray, begin: int, end: int) -> bool:
    """Return whether a target is "fr:…" or "zh-yue:…": a link to another language, shown in the margin."""
    k, dash = begin, False
    while k < end and (97 <= out[k] <= 122 or (dash and out[k] == 45) or (k >= begin + 2 and out[k] == 45)):
        dash = dash or out[k] == 45
        k += 1
    return k < end and out[k] == 58 and (2 <= k - begin <= 3 or (dash and k - begin <= 12))


@_part
def close_link(
    stack: np.ndarray, fields: np.ndarray, out: np.ndarray, names: np.ndarray, name_stops: np.ndarray
) -> None:
    """Close a link: keep the text after its first bar, or the target; keep nothing of a file or a category."""
    entry = pop(stack, fields, LINK)
    if entry < 0:
        return
    begin, pipe, end = stack[entry, BEGIN], stack[entry, PIPE], fields[OUT]
    target_end = end if pipe < 0 else pipe
    if is_dropped_target(out, begin, target_end, names, name_stops) or (
        pipe < 0 and is_language_link(out, begin, target_end)
    ):
        fields[OUT] = begin
        return
    source = pipe
    if pipe < 0:
        source = begin + 1 if begin < end and out[begin] == 58 else begin
    for k in range(end - source):
        out[begin + k] = out[source + k]
    fields[OUT] = begin + end - source


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
def open_bracket(src: np.ndarray, i: int, out: np.ndarray, stack: np.ndarray, fields: np.ndarray) -> int:
    """Open an internal link, or an external link after its URL, at [."""
    if matches(src, i, 91, 91):
        push(stack, fields, LINK)
        return i + 2
    end = url_end(src, i + 1)
    if end == i + 1:
        emit(out, fields, 91)
        return i + 1
    push(stack, fields, EXTERNAL)
    return end


@_part
def close_bracket(
    src: np.ndarray,
    i: int,
    out: np.ndarray,
    stack: np.ndarray,
    fields: np.ndarray,
    names: np.ndarray,
    stops: np.ndarray,
) -> int:
    """Close the innermost link, at ]."""
    depth = fields[DEPTH]
    if depth > 0 and stack[depth - 1, KIND] == EXTERNAL:
        pop(stack, fields, EXTERNAL)
        return i + 1
    if matches(src, i, 93, 93):
        close_link(stack, fields, out, names, stops)
        return i + 2
    emit(out, fields, 93)
    return i + 1


@_part
def brace(src: np.ndarray, i: int, out: np.ndarray, stack: np.ndarray, fields: np.ndarray) -> int:
    """Open or close a template or parameter, at { or }."""
    byte = src[i]
    if not matches(src, i, byte, byte):
        emit(out, fields, byte)
        return i + 1
    if byte == 123:
        push(stack, fields, TEMPLATE)
        return (
            i + 3
            if matches(src, i + 1, 123, 123) is False and i + 2 < len(src) and src[i + 2] == 123
            else i + 2
        )
    pop_and_cut(stack, fields, TEMPLATE)
    return i + 2


@_part
def bar(i: int, out: np.ndarray, stack: np.ndarray, fields: np.ndarray) -> int:
    """End the target of a link at its first bar."""
    depth = fields[DEPTH]
    if depth > 0 and stack[depth - 1, KIND] == LINK and stack[depth - 1, PIPE] < 0:
        stack[depth - 1, PIPE] = fields[OUT]
    else:
        emit(out, fields, 124)
    return i + 1


@_part
def quotes(src: np.ndarray, i: int, out: np.ndarray, fields: np.ndarray) -> int:
    """Drop apostrophes that are markup: two, three or five in a row, and three of four."""
    k = i
    while k < len(src) and src[k] == 39:
        k += 1
    if k - i in (1, 4):
        emit(out, fields, 39)
    return k


@_part
def underscore(src: np.ndarray, i: int, out: np.ndarray, fields: np.ndarray) -> int:
    """Drop a switch such as __NOTOC__."""
    k = i + 2
    if matches(src, i, 95, 95):
        while k < len(src) and k < i + 32 and 65 <= src[k] <= 90:
            k += 1
        if k > i + 2 and matches(src, k, 95, 95):
            return k + 2
    emit(out, fields, 95)
    return i + 1


@_part
def begin_line(src: np.ndarray, i: int, stack: np.ndarray, fields: np.ndarray) -> int:
    """Drop list marks and heading signs at the beginning of a line; open and close tables."""
    n, k = len(src), i
    while k < n and (src[k] == 32 or src[k] == 58 or src[k] == 9):
        k += 1
    if matches(src, k, 123, 124):
        push(stack, fields, TABLE)
        return k + 2
    if matches(src, k, 124, 125) and not (k + 2 < n and src[k + 2] == 125) and fields[OPEN + TABLE] > 0:
        pop_and_cut(stack, fields, TABLE)
        return k + 2
    k = i
    while k < n and (src[k] == 42 or src[k] == 35 or src[k] == 58 or src[k] == 59):
        k += 1
    if k == i:
        while k < n and src[k] == 61:
            k += 1
        fields[HEADING] = k > i
    return k


@_part
def end_line(src: np.ndarray, i: int, out: np.ndarray, stack: np.ndarray, fields: np.ndarray) -> int:
    """End a line: no link target or text of a URL continues beyond it."""
    while fields[DEPTH] > 0:
        top = fields[DEPTH] - 1
        if not (stack[top, KIND] == EXTERNAL or (stack[top, KIND] == LINK and stack[top, PIPE] < 0)):
            break
        fields[DEPTH] = top
        fields[OPEN + stack[top, KIND]] -= 1
    if fields[HEADING]:
        # What is still open keeps its places in the output: nothing before them is cut.
        top = fields[DEPTH] - 1
        least = max(stack[top, BEGIN], stack[top, PIPE]) if top >= 0 else 0
        while fields[OUT] > least and (out[fields[OUT] - 1] == 61 or out[fields[OUT] - 1] == 32):
            fields[OUT] -= 1
        fields[HEADING] = 0
    emit(out, fields, 10)
    return begin_line(src, i + 1, stack, fields)


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
def find_closing_tag(src: np.ndarray, i: int, name: int) -> int:
    """Return where the closing tag of a name begins, at or after `i`, or -1."""
    for k in range(i, len(src) - 2):
        if src[k] == 60 and src[k + 1] == 47 and tag_name(src, k + 2)[0] == name:
            return k
    return -1


@_part
def comment(src: np.ndarray, i: int, fields: np.ndarray) -> int:
    """Skip a comment; one without an end is skipped as four characters."""
    if fields[NO_COMMENT_END] == 0:
        for k in range(i + 4, len(src) - 2):
            if src[k] == 45 and src[k + 1] == 45 and src[k + 2] == 62:
                return k + 3
        fields[NO_COMMENT_END] = 1
    return i + 4


@_part
def element(src: np.ndarray, i: int, which: int, name: int, out: np.ndarray, fields: np.ndarray) -> int:
    """Drop an element, or keep it verbatim, starting after its opening tag; return its end."""
    if fields[NO_TAG_END + which]:
        return i
    close = find_closing_tag(src, i, name)
    if close < 0:
        # Looked for only once: a thousand unclosed tags cost no more than one.
        fields[NO_TAG_END + which] = 1
        return i
    if which >= FIRST_VERBATIM:
        for k in range(i, close):
            emit(out, fields, src[k])
    end = tag_end(src, close + 2)
    return close + 2 if end < 0 else end + 1


@_part
def angle(src: np.ndarray, i: int, out: np.ndarray, stack: np.ndarray, fields: np.ndarray) -> int:  # noqa: C901 - one branch a kind of tag
    """Skip a comment, a tag, or a whole element, at <."""
    if matches(src, i + 1, 33, 45) and i + 3 < len(src) and src[i + 3] == 45:
        return comment(src, i, fields)
    closing = i + 1 < len(src) and src[i + 1] == 47
    name, k = tag_name(src, i + 1 + closing)
    end = tag_end(src, k) if k > i + 1 + closing else -1
    if end < 0:
        emit(out, fields, 60)
        return i + 1
    self_closing = src[end - 1] == 47
    if name == TABLE_HASH:
        if closing:
            pop_and_cut(stack, fields, HTML_TABLE)
        elif not self_closing:
            push(stack, fields, HTML_TABLE)
    for parting in PARTING_HASHES:
        if parting == name:
            emit(out, fields, 32)
    if not closing and not self_closing:
        for which in range(len(DROPPED_HASHES)):
            if DROPPED_HASHES[which] == name:
                return element(src, end + 1, which, name, out, fields)
    return end + 1


@njit(cache=True, nogil=True, _nrt=False)
def strip(
    src: np.ndarray,
    out: np.ndarray,
    stack: np.ndarray,
    fields: np.ndarray,
    names: np.ndarray,
    name_stops: np.ndarray,
) -> int:
    """Write the plain text of `src` to `out`, which has the same length; return the length of the text.

    Parameters
    ----------
    src : uint8 array
        Wikitext.
    out : uint8 array
        Output.
    stack : int64 array (MAX_DEPTH, 3)
        Working memory.
    fields : int64 array (N_FIELDS,)
        Working memory, all zeros.
    names : uint8 array
        The lower-case names of the namespaces whose links are dropped, one after the other.
    name_stops : int array
        The end of each name.
    """
    i = begin_line(src, 0, stack, fields)
    while i < len(src):
        byte = src[i]
        if not SPECIAL[byte]:
            out[fields[OUT]] = byte
            fields[OUT] += 1
            i += 1
        elif byte == 10:
            i = end_line(src, i, out, stack, fields)
        elif byte == 91:
            i = open_bracket(src, i, out, stack, fields)
        elif byte == 93:
            i = close_bracket(src, i, out, stack, fields, names, name_stops)
        elif byte == 60:
            i = angle(src, i, out, stack, fields)
        elif byte == 124:
            i = bar(i, out, stack, fields)
        elif byte == 39:
            i = quotes(src, i, out, fields)
        elif byte == 95:
            i = underscore(src, i, out, fields)
        else:
            i = brace(src, i, out, stack, fields)
    return fields[OUT]
