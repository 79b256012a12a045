"""Files of word-level evaluation sets, plain or `.xz`, recognized by what stands in them.

`docs/reference/evaluation_files.md` shows each format with an example.

- similarity: two words and a score, separated by tabs, semicolons, bars, commas or spaces, with or without a header,
  the score with a point or a comma, `#` comments; see `distembed.evaluation.similarity_files`
- analogy: `a a2 b b2`, with or without `: section` lines (questions-words.txt); CSV
  `,type,word1,word2,word3,target`
- synonym: `question | answer | distractor | ...`, the answer first
- categorization: CSV `,category,word`
- association: tabs, with columns CUE, TARGET and FSG, as in the University of South Florida norms; answers
  that are no words are dropped
- antonyms: tabs, with columns `word` and `antonym`, as `{distembed}/evaluation/sets/deese.tsv` has them
- priming: CSV, with the Semantic Priming Project's columns TargetWord, Prime, Relation1, Relation2 and the
  priming effects in ms at 200 and 1200 ms
"""

from __future__ import annotations

import csv
import io
import lzma
from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import compress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from distembed.corpus.paths import files_below
from distembed.evaluation.similarity_files import PairsError, read_scored_pairs
from distembed.files import read_small
from distembed.formats.encodings import decoded
from distembed.formats.names import suffix_of, without_compression

FORMATS_PAGE = "docs/reference/evaluation_files.md"
SHOWN_FILES = 10
"""Files that were passed over that are named."""

SET_SUFFIXES = (".txt", ".csv", ".tsv")


class WordSetError(ValueError):
    """An error in a file that is not an evaluation set of a known format, or in one of its lines."""


SETS_BYTES, SET_COPIES = 2**26, 100
"""Bytes of what is computed for words, and those of the sets over the bytes of their files. Twelve sets of 2.4 MB, the
largest of them compressed, took 284 MB."""


class SimilaritySet(NamedTuple):
    """Word pairs with human scores."""

    name: str
    pairs: list[tuple[str, str]]
    scores: NDArray[np.float64]


class AnalogySet(NamedTuple):
    """Questions `a is to a2 as b is to b2`; section i is the section of question i."""

    name: str
    questions: list[tuple[str, str, str, str]]
    sections: list[str]


class SynonymSet(NamedTuple):
    """Questions with their options, the right one first."""

    name: str
    questions: list[str]
    options: list[tuple[str, ...]]


class CategorySet(NamedTuple):
    """Words with their categories; a word may stand in several."""

    name: str
    words: list[str]
    categories: list[str]


class AssociationSet(NamedTuple):
    """Answers to cues: the share of people who answered cue i with target i, float64 (n,)."""

    name: str
    pairs: list[tuple[str, str]]
    strengths: NDArray[np.float64]


class PrimingSet(NamedTuple):
    """Related prime-target pairs, the relations of each, and the priming measured.

    `milliseconds` is float64 (n, 2): reaction time to the target after an unrelated prime minus that after
    the prime, when it follows the prime by 200 and by 1200 ms; NaN where none was measured.
    """

    name: str
    pairs: list[tuple[str, str]]
    relations: list[tuple[str, ...]]
    milliseconds: NDArray[np.float64]


class AntonymSet(NamedTuple):
    """Pairs of words that are antonyms."""

    name: str
    pairs: list[tuple[str, str]]


WordSet = SimilaritySet | AnalogySet | SynonymSet | CategorySet | AssociationSet | PrimingSet | AntonymSet
ASK_ALL_WORDS = (AnalogySet, AntonymSet)
"""Sets whose scores depend on all words of the vectors, and not only on those of the set."""
Lines = list[tuple[int, str]]
CsvRows = list[tuple[int, list[str]]]


class FoundSets(NamedTuple):
    """The evaluation sets at some paths, and the files that were passed over, each with the reason."""

    sets: list[WordSet]
    passed_over: list[str]

    @property
    def omissions(self) -> str:
        """The first files that were passed over, in one line; "" where there are none."""
        names, more = ", ".join(self.passed_over[:SHOWN_FILES]), len(self.passed_over) - SHOWN_FILES
        return f"passed over: {names}{f' and {more} more' if more > 0 else ''}" if names else ""


def find_word_sets(sets: str | Path | Iterable[str | Path | SimilaritySet]) -> list[WordSet]:
    """Read evaluation sets from a folder and all below it, from a file, or from several of either.

    Lists of pairs that are read already are taken as they are.

    In a folder, files of other formats are passed over and so is everything in a folder named
    `crosslingual`, whose pairs need one space for two languages; a file given by name must be a set.
    `look_for_word_sets` lists what was passed over.

    Raises
    ------
    WordSetError
        A file given by name is not a set, a set holds a bad line, or a folder holds no set at all.
    FileNotFoundError
        There is no such file or folder.
    """
    return look_for_word_sets(sets).sets


def look_for_word_sets(
    sets: str | Path | Iterable[str | Path | SimilaritySet], *, besides: Collection[Path] = ()
) -> FoundSets:
    """Read evaluation sets as `find_word_sets`, and list the files of folders that are no sets.

    The files `besides` are sets of another kind, and are not listed.

    Raises
    ------
    WordSetError, FileNotFoundError
        As `find_word_sets`.
    """
    paths = [sets] if isinstance(sets, str | Path) else list(sets)
    found = [
        FoundSets([path], []) if isinstance(path, SimilaritySet) else _sets_at(Path(path), besides)
        for path in paths
    ]
    return FoundSets(
        [s for each in found for s in each.sets], [f for each in found for f in each.passed_over]
    )


def words_of(word_set: WordSet) -> set[str]:
    """Return all words of a set as they are written, with underscores for spaces."""
    fields = [field for name, field in word_set._asdict().items() if name in _WORD_FIELDS]
    return {word.replace(" ", "_") for field in fields for word in _flat(field)}


def _flat(field: Iterable[str | tuple[str, ...]]) -> list[str]:
    return [word for item in field for word in ((item,) if isinstance(item, str) else item)]


def some_items(word_set: Any, kept: NDArray[np.bool_]) -> Any:
    """Return the items of a set that are kept; all its fields but the name have one entry for each item."""
    parts = {
        name: values[kept] if isinstance(values, np.ndarray) else list(compress(values, kept))
        for name, values in word_set._asdict().items()
        if name != "name"
    }
    return word_set._replace(**parts)


def read_word_set(path: str | Path) -> WordSet:
    """Read one evaluation set; WordSetError where it is of no known format."""
    path = Path(path)
    word_set = _recognize(path)
    if word_set is None:
        first = next((line for _, line in _content_lines(path)), "")
        raise WordSetError(
            f"{path} is no evaluation set of a known format: its first line is {first[:60]!r}, and a list of pairs "
            f"has two words and a score per line, separated by tabs, semicolons, bars, commas or spaces; the other "
            f"formats are in {FORMATS_PAGE}"
        )
    return word_set


def _sets_at(path: Path, besides: Collection[Path] = ()) -> FoundSets:
    if not path.is_dir():
        return FoundSets([] if path in besides else [read_word_set(path)], [])
    found = FoundSets([], [])
    files = set(files_below(path))
    for file in sorted(files - set(besides)):
        name = file.relative_to(path)
        if "crosslingual" in name.parts:
            found.passed_over.append(f"{name} (its pairs need one space for two languages)")
        elif suffix_of(file.name) not in SET_SUFFIXES:
            found.passed_over.append(f"{name} (not {', '.join(SET_SUFFIXES)})")
        elif (word_set := _recognize(file)) is None:
            found.passed_over.append(f"{name} (of no known format)")
        else:
            found.sets.append(word_set)
    if not found.sets and not files & set(besides):
        passed = f", only {', '.join(found.passed_over[:3])}" if found.passed_over else ""
        raise WordSetError(f"{path} holds no evaluation set{passed}; the formats are in {FORMATS_PAGE}")
    return found


def _recognize(path: Path) -> WordSet | None:
    """Read a file by its header or its first line, or return None."""
    lines = _content_lines(path)
    if not lines:
        return None
    table = _read_table(path, lines[0][1])
    if table is not None:
        return table
    header = _header(lines[0][1], ",")
    if header in _CSV_READERS:
        return _CSV_READERS[header](path, _named_rows(path, header[1:], ","))
    return _scored_pairs(path, lines) or _recognize_by_line(path, lines)


def _recognize_by_line(path: Path, lines: Lines) -> WordSet | None:
    """Read a set whose lines are words between spaces or bars, or return None."""
    first = lines[0][1]
    if "|" in first:
        return _read_synonyms(path, lines)
    of_four_words = all(len(line.split()) == 4 for _, line in lines[:2])
    return _read_analogies(path, lines) if first.startswith(":") or of_four_words else None


def _scored_pairs(path: Path, lines: Lines) -> SimilaritySet | None:
    """Read a list of pairs with scores, or return None."""
    try:
        found = read_scored_pairs(lines)
    except PairsError as error:
        raise _bad_line(path, error.line, error.text, error.expected) from error
    return None if found is None else SimilaritySet(stem(path), found[0], np.array(found[1]))


def _read_table(path: Path, first_line: str) -> WordSet | None:
    """Read a file with named columns among others, or return None."""
    for (delimiter, columns), reader in _TABLE_READERS.items():
        if set(columns) <= set(_header(first_line, delimiter)):
            return reader(path, _named_rows(path, columns, delimiter))
    return None


def _header(line: str, delimiter: str) -> tuple[str, ...]:
    return tuple(field.strip().strip('"') for field in line.split(delimiter))


def _content_lines(path: Path) -> Lines:
    numbered = enumerate(text_of(path).splitlines(), start=1)
    lines = ((number, line.rstrip().lstrip(" ")) for number, line in numbered)
    return [(number, line) for number, line in lines if line and not line.lstrip().startswith("#")]


def text_of(path: Path) -> str:
    """Return the text of a file of any encoding that `detect_encoding` tells, unpacked where its name ends in .xz.

    Raises
    ------
    WordSetError
        If the file is damaged.
    """
    try:
        text = decoded(read_small(path))
    except (lzma.LZMAError, EOFError) as error:
        raise WordSetError(f"{path} is not a whole xz file ({error}); copy it again") from error
    except UnicodeDecodeError as error:
        raise WordSetError(
            f"{path}: byte {error.start} is not {error.encoding} like the rest; correct it, or save the file as UTF-8"
        ) from error
    return text.replace("\r\n", "\n")


def _fields(line: str) -> list[str]:
    return [field.strip() for field in line.split("\t")] if "\t" in line else line.split()


def _is_number(field: str) -> bool:
    try:
        return bool(np.isfinite(float(field)))
    except ValueError:
        return False


def _bad_line(path: Path, number: int, line: str, expected: str) -> WordSetError:
    return WordSetError(
        f"{path}, line {number}: {line[:60]!r}, expected {expected}; correct or remove the line"
    )


def _read_analogies(path: Path, lines: Lines) -> AnalogySet:
    questions, sections, section = [], [], ""
    for number, line in lines:
        if line.startswith(":"):
            section = line[1:].strip()
            continue
        fields = _fields(line)
        if len(fields) != 4:
            raise _bad_line(path, number, line, "four words")
        questions.append((fields[0], fields[1], fields[2], fields[3]))
        sections.append(section)
    return AnalogySet(stem(path), questions, sections)


def _read_synonyms(path: Path, lines: Lines) -> SynonymSet:
    questions, options = [], []
    for number, line in lines:
        question, *choices = (" ".join(field.split()) for field in line.split("|"))
        if len(choices) < 2 or not all([question, *choices]):
            raise _bad_line(path, number, line, "question | answer | distractor ...")
        questions.append(question)
        options.append(tuple(choices))
    return SynonymSet(stem(path), questions, options)


def _named_rows(path: Path, columns: Sequence[str], delimiter: str) -> CsvRows:
    """Return the fields of the named columns of each row below the header, with its line."""
    header, rows = _header_and_rows(path, delimiter)
    missing = next((column for column in columns if column not in header), None)
    if missing is not None:
        raise _bad_line(path, 1, delimiter.join(header), f"a column {missing}")
    places = [header.index(column) for column in columns]
    for number, row in rows:
        if len(row) != len(header):
            raise _bad_line(path, number, delimiter.join(row), f"{len(header)} columns")
    return [(number, [row[place] for place in places]) for number, row in rows]


def _header_and_rows(path: Path, delimiter: str) -> tuple[list[str], CsvRows]:
    """Return the fields of the header and of the rows below it, each with its line; comments and empty rows are none.

    Between tabs, quotes are characters like others, unless the header is in quotes.
    """
    has_quotes = delimiter == "," or _content_lines(path)[0][1].startswith('"')
    text = io.StringIO(text_of(path), newline="")
    quoting = csv.QUOTE_MINIMAL if has_quotes else csv.QUOTE_NONE
    reader = csv.reader(text, delimiter=delimiter, quoting=quoting, strict=True)  # type: ignore[arg-type]
    rows: CsvRows = []
    try:
        for row in reader:
            fields = [field.strip() for field in row]
            if any(fields) and not fields[0].startswith("#"):
                rows.append((reader.line_num, fields))
    except csv.Error as error:
        number = rows[-1][0] + 1 if rows else 1
        raise _bad_line(path, number, str(error), "quotes around whole fields") from error
    return rows[0][1], rows[1:]


def _check_rows(path: Path, rows: CsvRows, is_whole: Callable[[list[str]], bool], expected: str) -> None:
    for number, row in rows:
        if not is_whole(row):
            raise _bad_line(path, number, "\t".join(row), expected)


def _csv_analogies(path: Path, rows: CsvRows) -> AnalogySet:
    return AnalogySet(stem(path), [(r[1], r[2], r[3], r[4]) for _, r in rows], [r[0] for _, r in rows])


def _csv_categories(path: Path, rows: CsvRows) -> CategorySet:
    distinct = list(dict.fromkeys((row[1], row[0]) for _, row in rows))
    return CategorySet(stem(path), [word for word, _ in distinct], [category for _, category in distinct])


def _tsv_associations(path: Path, rows: CsvRows) -> AssociationSet:
    rows = [(number, row) for number, row in rows if row[1]]  # the norms have an answer that was no word
    _check_rows(
        path,
        rows,
        lambda row: bool(row[0]) and _is_number(row[2]) and 0 <= float(row[2]) <= 1,
        "cue, target and a share between 0 and 1",
    )
    strengths = np.array([float(row[2]) for _, row in rows])
    return AssociationSet(stem(path), [(row[0], row[1]) for _, row in rows], strengths)


def _tsv_antonyms(path: Path, rows: CsvRows) -> AntonymSet:
    _check_rows(path, rows, all, "a word and its antonym")
    return AntonymSet(stem(path), [(row[0], row[1]) for _, row in rows])


_PRIMING_COLUMNS = (
    "Prime",
    "TargetWord",
    "Relation1",
    "Relation2",
    "LDT 200ms RT Priming",
    "LDT 1200ms RT Priming",
)
_RELATION_SPELLINGS = {
    "fpa": "forward phrasal",
    "bpa": "backward phrasal",
    "antonymn": "antonym",
    "unclassifed": "unclassified",
}
"""As written in the file of the Semantic Priming Project: its short names, and its misprints."""


def _csv_priming(path: Path, rows: CsvRows) -> PrimingSet:
    for number, row in rows:
        if not (row[0] and row[1] and all(_is_number(field) or not field for field in row[4:])):
            raise _bad_line(path, number, ",".join(row), "prime, target and priming in milliseconds")
    measured = [[float(field) if field else np.nan for field in row[4:]] for _, row in rows]
    pairs = [(row[0], row[1]) for _, row in rows]
    relations = [_relation_names(row[2:4]) for _, row in rows]
    return PrimingSet(stem(path), pairs, relations, np.array(measured).reshape(-1, 2))


def _relation_names(fields: Sequence[str]) -> tuple[str, ...]:
    names = [field.lower() for field in fields if field] or ["unclassified"]
    return tuple(dict.fromkeys(_RELATION_SPELLINGS.get(name, name) for name in names))


def stem(path: Path) -> str:
    """Return the name of a file without its endings."""
    return without_compression(path.name).rpartition(".")[0]


_WORD_FIELDS = ("pairs", "questions", "options", "words")

_TABLE_READERS: dict[tuple[str, tuple[str, ...]], Callable[[Path, CsvRows], WordSet]] = {
    ("\t", ("CUE", "TARGET", "FSG")): _tsv_associations,
    ("\t", ("word", "antonym")): _tsv_antonyms,
    (",", _PRIMING_COLUMNS): _csv_priming,
}

_CSV_READERS: dict[tuple[str, ...], Callable[[Path, CsvRows], WordSet]] = {
    ("", "type", "word1", "word2", "word3", "target"): _csv_analogies,
    ("", "category", "word"): _csv_categories,
}
