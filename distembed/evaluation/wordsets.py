"""Files of word-level evaluation sets, plain or `.xz`, recognized by what stands in them.

`docs/reference/evaluation_files.md` shows each format with an example.

- similarity: two words and a score, separated by tabs, semicolons, bars, commas or spaces, with or without a header,
  the score with a point or a comma, `#` comments; see `distembed.evaluation.similarity_files`
- analogy: `a a2 b b2`, with or without `: section` lines (questions-words.txt); columns
  `,type,word1,word2,word3,target`
- synonym: `question | answer | distractor | ...`, the answer first
- categorization: columns `,category,word`
- normed priming: columns CUE, TARGET and FSG, as in the University of South Florida norms; answers
  that are no words are dropped
- antonyms: columns `word` and `antonym`, as `{distembed}/evaluation/sets/deese.tsv` has them
- priming: the Semantic Priming Project's columns TargetWord, Prime, Relation1, Relation2 and the
  priming effects in ms at 200 and 1200 ms

Columns have tabs, commas or semicolons between them, and other columns may stand among them.

Sets of sentences, for an encoder of texts:

- pairs: ``subset  score  sentence1  sentence2``, four columns between tabs without a header, as in the shared tasks on
  semantic textual similarity (STS)
- classified texts: ``label  text``, two columns between tabs without a header; or JSON lines with the fields `label`
  and `text`, to which a field `title` or `subject` is added. Of files of a folder whose names end in ``-train``,
  ``-dev`` and ``-test`` one set is made, and so of a file of JSON lines whose field `split` (`lewissplit` of
  Reuters-21578) names the part of each text; another file is for cross-validation. Texts without a label, or of no
  part, are left out.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from itertools import compress, islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from distembed.corpus.paths import files_at
from distembed.dtypes import Float64s, Mask
from distembed.evaluation.similarity_files import (
    LineError,
    Lines,
    Row,
    Rows,
    guess_columns,
    parse_number,
    read_delimited,
)
from distembed.files import read_head, read_small
from distembed.formats.encodings import HEAD_BYTES, EncodingError, utf8
from distembed.formats.names import suffix_of, without_compression
from distembed.formats.tables import read_table, texts_of
from distembed.urls import url_to_fs

FORMATS_PAGE = "docs/reference/evaluation_files.md"
SHOWN_FILES = 10
"""Files that were passed over that are named."""

SET_SUFFIXES = (".txt", ".csv", ".tsv")

SETS_BYTES, SET_COPIES = 2**26, 100
"""Bytes of what is computed for words, and those of the sets over the bytes of their files. Twelve sets of 2.4 MB, the
largest of them compressed, took 284 MB."""

NO_VALUES: Float64s = np.empty(0)

ROLES = ("word1", "word2", "score")
GUESSED_ROWS = 20
"""Rows from which columns are detected."""


PARTS = ("train", "dev", "test")

SPLIT_FIELDS = ("split", "lewissplit")
"""The fields of JSON lines that name the part of a text."""

TITLE_FIELDS = ("title", "subject")
"""The fields of JSON lines that are part of the text."""

LINES_A_LABEL = 5
"""Lines that each label of a file of classified texts has on average, at least: others are no classes."""


class WordSetError(ValueError):
    """An error in a file that is not an evaluation set of a known format, or in one of its lines."""


class EvaluationSet(NamedTuple):
    """Items to score word vectors by.

    Attributes
    ----------
    name : str
    task : str
        A name of `distembed.evaluation.words.TASKS`, or "sentences" or "classification".
    items : sequence of tuples of str
        The words of each item: of a pair two; of an analogy ``a, a2, b, b2``; of a synonym the question, its answer and
        the other options; of a category one word. Or two sentences, or one text.
    values : float64 array (n,) or (n, 2)
        The human score of a pair; the share of people who answered a cue with a target; of priming the milliseconds,
        reaction time to the target after an unrelated prime minus that after the prime, when it follows the prime by
        200 and by 1200 ms, NaN where none was measured. Empty for other tasks.
    groups : sequence
        The section of an analogy, the category of a word, the relations (a tuple) of a prime, the label of a text and
        its part ("train", "dev" or "test", "" for cross-validation). Empty for other tasks.
    """

    name: str
    task: str
    items: Sequence[tuple[str, ...]]
    values: Float64s = NO_VALUES
    groups: Sequence[Any] = ()

    @property
    def words(self) -> set[str]:
        """All words as they are written, with underscores for spaces."""
        return {word.replace(" ", "_") for item in self.items for word in item}

    def part(self, kept: Mask) -> EvaluationSet:
        """Return the set of the items that are kept, bool (n,)."""
        return self._replace(
            items=list(compress(self.items, kept)),
            values=self.values[kept] if self.values.size else self.values,
            groups=list(compress(self.groups, kept)),
        )


class FoundSets(NamedTuple):
    """The evaluation sets at some paths, and the files that were passed over, each with the reason."""

    sets: list[EvaluationSet]
    passed_over: list[str]

    @property
    def omissions(self) -> str:
        """The first files that were passed over, in one line; "" where there are none."""
        names, more = ", ".join(self.passed_over[:SHOWN_FILES]), len(self.passed_over) - SHOWN_FILES
        return f"passed over: {names}{f' and {more} more' if more > 0 else ''}" if names else ""


def find_sets(
    sets: str | Path | Iterable[str | Path | EvaluationSet], *, sentences: bool = False
) -> FoundSets:
    """Read evaluation sets from a folder and all below it, from a file, or from several of either, each file once.

    Sets that are read already are taken as they are.

    In a folder, files of other formats are passed over and so is everything in a folder named
    `crosslingual`, whose pairs need one space for two languages; a file given by name must be a set.
    Sets of `sentences`, which need an encoder of texts, are read where they are wanted; else their files are of no
    known format.

    Raises
    ------
    WordSetError
        A file given by name is not a set, a set holds a bad line or has texts for training and none for the test, or a
        folder holds no set at all.
    FileNotFoundError
        There is no such file or folder.
    """
    suffixes = (*SET_SUFFIXES, *([".jsonl"] if sentences else []))
    found, passed_over = dict[Any, EvaluationSet](), list[str]()
    for place, path in enumerate([sets] if isinstance(sets, str | Path) else sets):
        if isinstance(path, EvaluationSet):
            found[place] = path
            continue
        if not Path(path).is_dir():
            found[Path(url_to_fs(path)[1])] = read_set(path, sentences=sentences)
            continue
        inside, n_passed = dict[Path, EvaluationSet](), len(passed_over)
        for file in sorted(Path(path) / one.path for one in files_at(str(path))):
            name = file.relative_to(path)
            if "crosslingual" in name.parts:
                passed_over.append(f"{name} (its pairs need one space for two languages)")
            elif suffix_of(file.name) not in suffixes:
                passed_over.append(f"{name} (not {', '.join(suffixes)})")
            elif (one := _recognize(file, _content_lines(file), sentences)) is None:
                passed_over.append(f"{name} (of no known format)")
            else:
                inside[Path(url_to_fs(file)[1])] = one
        if not inside:
            passed = ", ".join(passed_over[n_passed:][:3])
            raise WordSetError(
                f"{path} holds no evaluation set{passed and f', only {passed}'}; the formats are in {FORMATS_PAGE}"
            )
        found |= inside
    return FoundSets(_with_parts_joined(found), passed_over)


def read_set(path: str | Path, *, sentences: bool = False) -> EvaluationSet:
    """Read one evaluation set; WordSetError where it is of no known format."""
    path = Path(path)
    lines = _content_lines(path)
    if (one := _recognize(path, lines, sentences)) is None:
        first = lines[0][1].strip() if lines else ""
        raise WordSetError(
            f"{path} is no evaluation set of a known format: its first line is {first[:60]!r}, and a list of pairs "
            f"has two words and a score per line, separated by tabs, semicolons, bars, commas or spaces; the other "
            f"formats are in {FORMATS_PAGE}"
        )
    return one


def _recognize(path: Path, lines: Lines, sentences: bool) -> EvaluationSet | None:
    """Return the set in some lines, by its header or its first line; None where it is of no known format."""
    if not lines:
        return None
    suffix = suffix_of(path.name)
    try:
        if suffix == ".jsonl":
            found = json_rows(lines) if sentences else None
        else:
            found = sentence_rows(lines) if sentences and suffix == ".tsv" else None
            found = (
                found
                or read_delimited(lines)
                or _read_lines([(n, line.rstrip().lstrip(" ")) for n, line in lines])
            )
    except LineError as error:
        raise WordSetError(
            f"{path}, line {error.line}: {error.text[:60]!r}, expected {error.expected}; correct or remove the line"
        ) from error
    if not found or not found[1]:
        return None
    items, values, groups = zip(*found[1], strict=True)
    return EvaluationSet(
        _stem(path.name),
        found[0],
        list(items),
        NO_VALUES if values[0] is None else np.array(values, np.float64),
        () if groups[0] is None else list(groups),
    )


def _with_parts_joined(sets: Mapping[Any, EvaluationSet]) -> list[EvaluationSet]:
    """Return sets by their files, those of classified texts whose parts are in several of a folder as one each."""
    joined: dict[Any, EvaluationSet] = {}
    for place, one in sets.items():
        if one.task != "classification":
            joined[place] = one
            continue
        name, _, part = one.name.rpartition("-")
        if part not in PARTS or not name:
            name, part = one.name, ""
        key = getattr(place, "parent", None), name
        before = joined.get(key, one._replace(name=name, items=[], groups=[]))
        groups = [*before.groups, *((label, own or part) for label, own in one.groups)]
        joined[key] = before._replace(items=[*before.items, *one.items], groups=groups)
    for one in joined.values():
        parts = sorted({part for _, part in one.groups}) if one.task == "classification" else [""]
        if parts != [""] and not {"train", "test"} <= set(parts):
            raise WordSetError(
                f"the set {one.name} has the parts {', '.join(parts)}: give its files {one.name}-train and "
                f"{one.name}-test both, or texts of both parts in one file of JSON lines"
            )
    return list(joined.values())


def _content_lines(path: Path) -> Lines:
    """Return the lines of a file in UTF-8 or with a byte-order mark, unpacked where its name ends in .xz.

    JSON lines, which may be of any size, are read whole only if the first of them has a label; else there are none.

    Raises
    ------
    WordSetError
        If the file is damaged, or in another encoding.
    """
    try:
        if suffix_of(path.name) == ".jsonl":
            head = read_head(path, HEAD_BYTES).replace(b"\0", b"")  # without the zeros of UTF-16
            if b'"label"' not in next(filter(bytes.strip, head.split(b"\n")), b""):
                return []
        text = utf8(read_small(path), str(path), has_option=False).decode()
    except EOFError as error:
        raise WordSetError(f"{path} cannot be unpacked to its end ({error}); copy it again") from error
    except EncodingError as error:
        raise WordSetError(str(error)) from None
    numbered = enumerate(text.replace("\r\n", "\n").replace("\r", "\n").split("\n"), start=1)
    return [(number, line) for number, line in numbered if line.strip() and not line.lstrip().startswith("#")]


def _stem(name: str) -> str:
    return Path(without_compression(name)).stem


# ---- lines without a header ---------------------------------------------------------------------------------------


def _read_lines(lines: Lines) -> Rows | None:
    first = lines[0][1]
    rows, section = list[Row](), ""
    if "|" in first:
        for place, line in lines:
            words = tuple(" ".join(field.split()) for field in line.split("|"))
            if len(words) < 3 or not all(words):
                raise LineError(place, line, "question | answer | distractor ...")
            rows.append((words, None, None))
        return "synonym", rows
    if not first.startswith(":") and any(len(line.split()) != 4 for _, line in lines[:2]):
        return None
    for place, line in lines:
        if line.startswith(":"):
            section = line[1:].strip()
            continue
        words = tuple(field.strip() for field in line.split("\t")) if "\t" in line else tuple(line.split())
        if len(words) != 4:
            raise LineError(place, line, "four words")
        rows.append((words, None, section))
    return "analogy", rows


# ---- sentences ----------------------------------------------------------------------------------------------------


def sentence_rows(lines: Lines) -> Rows | None:
    """Return the pairs of sentences or the classified texts in lines of tabs, None where they are others.

    Raises
    ------
    LineError
        If a line is not like the first.
    """
    rows = [line.split("\t") for _, line in lines]
    if len(rows[0]) == 4 and parse_number(rows[0][1]) is not None:
        expected = "subset, score and two sentences between tabs"
        is_bad = [len(row) != 4 or parse_number(row[1]) is None for row in rows]
    elif len(rows[0]) == 2 and LINES_A_LABEL * len({row[0] for row in rows}) <= len(rows):
        expected, is_bad = "a label and a text between tabs", [len(row) != 2 for row in rows]
    else:
        return None
    if any(is_bad):
        raise LineError(*lines[is_bad.index(True)], expected)
    if len(rows[0]) == 4:
        return "sentences", [((first, second), parse_number(score), None) for _, score, first, second in rows]
    return "classification", [((text,), None, (label, "")) for label, text in rows]


def json_rows(lines: Lines) -> Rows:
    """Return the texts of JSON lines that have a label, and a part where the lines have parts.

    Raises
    ------
    LineError
        If a line is no JSON, or has no text.
    """
    rows, field = list[Row](), ""
    for place, line in lines:
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise LineError(place, line, f"JSON ({error})") from error
        if not isinstance(record, dict) or not isinstance(record.get("text"), str):
            raise LineError(place, line, "a field 'text' that is a string")
        if place == lines[0][0]:
            field = next((name for name in SPLIT_FIELDS if name in record), "")
        part = str(record.get(field, "")).lower() if field else ""
        if record.get("label") is not None and (not field or part in PARTS):
            text = "\n".join(str(record[name]) for name in (*TITLE_FIELDS, "text") if record.get(name))
            rows.append(((text,), None, (str(record["label"]), part)))
    return "classification", rows


# ---- lists whose columns are named --------------------------------------------------------------------------------


def read_pairs(path: str, columns: Mapping[str, str], *, needs_scores: bool = True) -> EvaluationSet:
    """Return the pairs of a list as an evaluation set.

    Parameters
    ----------
    path : str
        A CSV file of any delimiter, with a header or without, or a Parquet file.
    columns : mapping of str to str
        The names of columns, by "word1", "word2" and "score"; those that are not given are guessed.
    needs_scores : bool
        Whether pairs without a score are left out, and a list without any is an error; else their score is NaN.

    Raises
    ------
    ValueError
        If a column is not there, or no two columns of words or no scores are found.
    """
    table = read_table(path, has_options=False)
    found = {name: texts_of(column) for name, column in table.columns.items()}
    if any(parse_number(name) is not None for name in found):  # the first row is no header
        names = ["word1", "word2", *(f"column{number}" for number in range(3, len(found) + 1))]
        cells = zip(names, found.items(), strict=True)
        found = {name: [first, *values] for name, (first, values) in cells}
    for role, name in columns.items():
        if role not in ROLES or name not in found:
            asked, known = (role, ROLES) if role not in ROLES else (name, tuple(found))
            raise ValueError(f"--columns {role}={name}: there is no {asked} among {', '.join(known)}")
    rows = list(islice(zip(*found.values(), strict=True), GUESSED_ROWS))
    guessed = {} if {"word1", "word2"} <= columns.keys() else guess_columns(list(found), rows)
    roles = {**guessed, **columns}
    if roles["word1"] == roles["word2"]:
        raise ValueError(
            f"both words are taken from the column {roles['word1']!r}: give --columns word1=NAME,word2=NAME"
        )
    if needs_scores and "score" not in roles:
        raise ValueError(f"{path} has no column that is surely the score: give --columns score=NAME")
    texts = found[roles["score"]] if "score" in roles else [""] * len(found[roles["word1"]])
    scores = np.array([parse_number(text) for text in texts], np.float64)
    pairs = list(zip(found[roles["word1"]], found[roles["word2"]], strict=True))
    kept = np.array([all(pair) for pair in pairs], np.bool_) & ~(needs_scores & np.isnan(scores))
    if needs_scores and not kept.any():
        raise ValueError(f"{path} has no pair with a number in the column {roles['score']!r}: name another")
    return EvaluationSet(_stem(path), "similarity", pairs, scores).part(kept)
