"""A commented job file for a user's own files: every key of a system, its type, its default, and what it means.

What the files decide, and what a system requires beside them, are values; every other key stands as a comment with
its default, so that the file runs as it is and says what can be changed.
"""

from __future__ import annotations

import glob
import itertools
import json
import os
import re
import textwrap
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

from distembed.corpus.heads import with_encoding
from distembed.corpus.paths import format_of, is_hidden
from distembed.corpus.streams import Partition
from distembed.display import plural
from distembed.files import damage_told, replacing
from distembed.formats.delimited import delimiter_of, first_rows, separated
from distembed.formats.encodings import HEAD_BYTES, decoded, detect_encoding
from distembed.formats.heads import sniffed
from distembed.formats.names import TABLE_SUFFIXES, compression_of, suffix_of
from distembed.formats.parquet import ParquetFile, read_batches
from distembed.formats.streams import reading
from distembed.formats.tables import read_table, texts_of
from distembed.job import demos
from distembed.job.inputs import is_input
from distembed.job.keys import Key, keys_of, sentence, toml_value
from distembed.job.model import JobError
from distembed.job.stage import system_named
from distembed.urls import opened
from distembed.vectors import WordVectors

SAMPLE_BYTES = 1 << 20
SAMPLE_RECORDS = 50

FIELD_NAMES = {
    "text_field": ("text", "body", "content", "article", "abstract", "review", "message"),
    "id_field": (
        "id",
        "_id",
        "doc_id",
        "docid",
        "document_id",
        "uid",
        "respondent_id",
        "response_id",
        "case_id",
    ),
    "title_field": ("title", "headline", "subject"),
    "label_field": ("label", "class", "category", "topic", "section"),
}
"""What fields of records are mostly called, in lower case, with an underscore in place of other signs."""

FEWEST_DOCUMENTS = 3
"""Fewer files than this are taken for parts of one text."""
DOCUMENT_BYTES = (1000, 8 << 20)
"""The size of a file that is one document: from a page to the longest books."""

NUMBER = re.compile(r"[-+]?(?=[.,]*\d)[\d.,]+(?:[eE][-+]?\d+)?")
DATE = re.compile(r"\d{1,4}([./-])\d{1,2}\1\d{2,4}(?!\d)")
"""A day, whatever the order of its parts; a time may follow."""

Records = Mapping[str, list[Any]]
"""The first values of each field."""


class Sample(NamedTuple):
    """The beginning of a text; `is_whole` says whether the file ends with it."""

    text: str
    encoding: str
    is_whole: bool


def first_file(path: str) -> str:
    """Return the first of the files that `files_at` finds."""
    return files_at(path)[0]


def files_at(path: str) -> list[str]:
    """Return the file itself, or those of a folder or a glob that are not empty, in order.

    Raises
    ------
    FileNotFoundError
        Nothing lies at the path, or nothing is in it.
    """
    if "://" in path:
        return [path]
    pattern = os.path.join(path, "**") if os.path.isdir(path) else path  # noqa: PTH112, PTH118
    every = sorted(one for one in glob.glob(pattern, recursive=True) if os.path.isfile(one))  # noqa: PTH113, PTH207
    found = [one for one in every if one == path or not is_hidden(os.path.basename(one))]  # noqa: PTH119
    if not found and os.path.isfile(path):  # noqa: PTH113 - a name with brackets is no glob of itself
        found = [path]
    if not found:
        raise FileNotFoundError(f"there is no file {path}: give a file, a folder or a quoted glob")
    filled = [one for one in found if os.path.getsize(one)]  # noqa: PTH202
    if not filled:
        raise FileNotFoundError(f"{path} is empty: give a file that holds text, a table or vectors")
    return filled


def is_filled(path: str) -> bool:
    """Return whether something is in a file, or may be in what is no local file."""
    return not os.path.isfile(path) or os.path.getsize(path) > 0  # noqa: PTH113, PTH202


def settings_for(names: Iterable[str], path: str) -> dict[str, Any]:
    """Return the keys of a section, of those in `names`, that fit a file.

    Parameters
    ----------
    names : iterable of str
        The keys that the section has.
    path : str
        A file, a folder, a glob or a URL.
    """
    known, file = set(names), first_file(path)
    _refuse_unreadable(file, is_text="text_field" in known)
    records = records_of(file)
    if "text_field" in known:
        found = text_fields(records) if records else _layout_of(path, file)
    elif "name_column" in known and records:
        column = next((name for name in records if not _are_numbers(records[name])), None)
        is_prices = column is not None and _are_dates(records[column])  # a table whose rows are days
        found = {"name_column": column, "transform": "return_correlation" if is_prices else None}
        text, named = separated(sample_of(file).text if format_of(file) in ("csv", "tsv") else "")
        delimiter = named or delimiter_of(text, file)
        found |= {"delimiter": None if delimiter in ",\t" else delimiter, "skip_rows": 1 if named else None}
    else:
        found = {}
    return {name: value for name, value in found.items() if name in known and value is not None}


def _refuse_unreadable(file: str, *, is_text: bool) -> None:
    """Refuse a file that no job can read, by its beginning."""
    kind = format_of(file)
    if is_text and kind not in ("mediawiki", "parquet"):
        part = Partition(file, kind, compression=compression_of(file), errors="replace", section="corpus")
        with_encoding(part, None)
    elif suffix_of(file) == ".bin":
        WordVectors.load(file, max_words=1)
    elif kind == "text" and not is_text and suffix_of(file) not in TABLE_SUFFIXES:
        head = sniffed(_beginning_of(file, HEAD_BYTES), file)
        if head.what:
            raise JobError(f"{file} is {head.what}: {head.remedy}")


def _beginning_of(path: str, n_bytes: int) -> bytes:
    with reading(path, JobError) as file:
        return file.read(n_bytes)


def text_fields(records: Records) -> dict[str, Any]:
    """Return which fields hold the text, the id, the title and the class of a document, by name or by length."""
    lowered = {re.sub(r"\W+", "_", name.strip().lower()): name for name in records}
    found = {
        key: next((lowered[name] for name in usual if name in lowered), None)
        for key, usual in FIELD_NAMES.items()
    }
    longest = longest_fields(records)
    return found | {"text_field": found["text_field"] or (longest[0] if longest else None)}


def longest_fields(records: Records) -> list[str]:
    """Return the fields of text, the longest first."""
    texts = {name: sum(len(v) for v in values if isinstance(v, str)) for name, values in records.items()}
    return sorted((name for name in texts if texts[name]), key=lambda name: -texts[name])


def _layout_of(path: str, file: str) -> dict[str, Any]:
    """Return the layout of texts: each file a document where a folder or a glob holds several that are no parts."""
    if format_of(file) != "text":
        return {}
    files = [file] if os.path.isfile(path) else files_at(path)  # noqa: PTH113
    return {"layout": "file"} if are_documents(files) else text_layout(sample_of(file))


def are_documents(files: Sequence[str]) -> bool:
    """Return whether several text files are a document each: names that differ in more than a number, and a long text.

    The parts of one corpus mostly have numbers, and are large; a file of a few lines is a list.
    """
    names = {re.sub(r"\d+", "", os.path.basename(file)) for file in files}  # noqa: PTH119
    if len(files) < FEWEST_DOCUMENTS or any("://" in file or format_of(file) != "text" for file in files):
        return False
    size = sorted(map(os.path.getsize, files))[len(files) // 2]
    return 2 * len(names) > len(files) and DOCUMENT_BYTES[0] <= size <= DOCUMENT_BYTES[1]


def text_layout(sample: Sample) -> dict[str, Any]:
    """Return the layout of a text where empty lines part the documents; the job detects the encoding of each file."""
    lines = [line.strip() for line in sample.text.splitlines()]
    empty = lines.count("")
    # Where single lines stand between empty ones, each is a document: as a block it would be a title and no text.
    continued = sum(bool(line and after) for line, after in itertools.pairwise(lines))
    is_blocks = len(lines) > 3 and empty > len(lines) / 20 and 2 * continued > empty
    return {"layout": "blocks" if is_blocks else None}


def sample_of(path: str) -> Sample:
    """Return the beginning of a text file in the encoding that it seems to have."""
    data = _beginning_of(path, SAMPLE_BYTES + 1)
    encoding = detect_encoding(data[:HEAD_BYTES])
    text = decoded(data[:SAMPLE_BYTES], encoding, errors="replace")
    return Sample(text, encoding, is_whole=len(data) <= SAMPLE_BYTES)


def word_counts(sample: Sample) -> Counter[str]:
    """Return how often each word stands in a sample, about as the tokenizer cuts it."""
    return Counter(re.findall(r"[^\W\d_]+", sample.text.lower()))


def records_of(path: str) -> Records:
    """Return the first values of each field of JSON lines, Parquet, CSV, TSV or a workbook; nothing of other files."""
    if suffix_of(path) in (".xlsx", ".xlsm"):
        return {name: texts_of(column) for name, column in read_table(path).columns.items()}
    kind = format_of(path)
    if kind == "parquet":
        with damage_told(path, JobError, "a Parquet file"), opened(path, "rb") as file:
            batch = next(read_batches(ParquetFile(file), SAMPLE_RECORDS), None)
            return {} if batch is None else batch.to_pydict()
    if kind not in ("jsonl", "csv", "tsv"):
        return {}
    text = sample_of(path).text
    return _of_json(text.splitlines()[:SAMPLE_RECORDS]) if kind == "jsonl" else _of_csv(text, path)


def _of_json(lines: list[str]) -> Records:
    found: dict[str, list[Any]] = {}
    for line in lines:
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            continue
        for name, value in record.items() if isinstance(record, dict) else ():
            found.setdefault(name, []).append(value)
    return found


def _of_csv(text: str, path: str) -> Records:
    text, named = separated(text)
    delimiter = named or delimiter_of(text, path)
    header, *rows = first_rows(text, delimiter, n_rows=SAMPLE_RECORDS) or [[]]
    columns = zip(*rows, strict=True) if rows else [()] * len(header)
    return {name.strip(): list(values) for name, values in zip(header, columns, strict=True)}


def _are_numbers(values: list[Any]) -> bool:
    """Return whether most values are numbers; those that are not may be marks of missing ones."""
    texts = [str(value).strip() for value in values if value not in (None, "")]
    numbers = [text for text in texts if NUMBER.fullmatch(text) and not DATE.match(text)]
    return not texts or 2 * len(numbers) > len(texts)


def _are_dates(values: list[Any]) -> bool:
    texts = [str(value).strip() for value in values if value not in (None, "")]
    return bool(texts) and all(map(DATE.match, texts))


Settings = dict[str, Any]
"""Values by `section.key`."""

WIDTH = 100
FULL_SIZE_WORDS = 300
"""With fewer words than this in a text that is read whole, the defaults of larger ones are lowered."""
SMALL_FILES = 8
"""More files than this are no small text."""
MIN_COUNTS = (5, 2, 1)
MOST_COMPONENTS = 100
"""Components of a job that no preset gives any."""
IS_SMALL = "vocabulary.min_count"
"""The setting that a small text is given."""
COMPONENTS = ("psdvec.n_components", "wordspaces.n_components")


def write_new_job(
    system: str, files: Sequence[str], target: str | Path, *, preset: str | None = None
) -> dict[str, Any]:
    """Write a job file for files of a user, and return the values that it sets.

    Parameters
    ----------
    system : str
        A name of the registry.
    files : sequence of str
        What the system reads, in the order of its sections; none takes the inputs of its demo.
    target : path
        The job file to write; a relative workspace lies beside it.
    preset : str, optional
        The name of settings of the system that belong together; by default its first, the best known.

    Raises
    ------
    JobError
        The job file exists, the system reads another number of files, or it has no such preset.
    """
    target = Path(target)
    if target.exists():
        raise JobError(f"{target} is there already: give another name with --to, or remove it")
    keys = keys_of(system)
    if files:
        chosen = preset_of(system, preset, keys)
        found = settings_of_files(system, keys, files, target.parent, chosen.settings)
        if preset is None and IS_SMALL in found:  # settings for a large text would leave little of it
            chosen = Preset({}, {})
            found = settings_of_files(system, keys, files, target.parent, {})
    else:
        chosen, found = Preset({}, {}), _settings_of_demo(system, keys)
    settings = {
        "job.system": system,
        "job.title": f"{system}: {_title_of(files)}",
        "job.workspace": f"{target.stem}-workspace",
        **(chosen.settings | found if preset is None else found | chosen.settings),
    }
    tables = _no_wider(chosen.tables, settings) or demos.required_tables(system, keys)
    with replacing(str(target)) as partial:
        Path(partial).write_text(job_text(keys, settings, tables), encoding="utf-8")
    return settings


class Preset(NamedTuple):
    """Settings of a system that belong together: values by `section.key`, and tables with a name of their own."""

    settings: Settings
    tables: Mapping[str, Mapping[str, Any]]


def preset_of(system: str, name: str | None, keys: Sequence[Key]) -> Preset:
    """Return a preset of a system, by default its first; a system may have none.

    Raises
    ------
    JobError
        If the system has no preset of that name.
    """
    presets = system_named(system).presets
    if name is not None and name not in presets:
        there = f"it has {', '.join(presets)}" if presets else "it has none: leave --preset out"
        raise JobError(f"{system} has no preset {name!r}; {there}")
    sections = next(iter(presets.values()), {}) if name is None else presets[name]
    named = {key.section.removesuffix(".NAME") for key in keys if key.section.endswith(".NAME")}
    settings = {
        f"{section}.{key}": value
        for section, table in sections.items()
        if section not in named
        for key, value in table.items()
    }
    return Preset(settings, {section: sections[section] for section in sections.keys() & named})


def _no_wider(tables: Mapping[str, Any], settings: Settings) -> dict[str, Any]:
    """Return tables of which none asks for more components than the job was given for a small text."""
    most = min((settings[place] for place in COMPONENTS if place in settings), default=None)
    return {
        section: {name: _with_at_most(table, most) for name, table in named.items()}
        for section, named in tables.items()
    }


def _with_at_most(table: Mapping[str, Any], most: int | None) -> dict[str, Any]:
    if most is None or "n_components" not in table:
        return dict(table)
    return {**table, "n_components": min(most, table["n_components"])}


def settings_of_files(
    system: str, keys: Sequence[Key], files: Sequence[str], folder: Path, chosen: Settings
) -> Settings:
    """Return where the files of a user go, and the keys of their sections that fit them beside those of a preset."""
    most = next((chosen[place] for place in COMPONENTS if place in chosen), MOST_COMPONENTS)
    wanted = _inputs_of(keys)
    if len(wanted) == 1 and _takes_several(wanted[0]):
        found = _settings_of_input(wanted[0], keys, files, folder)
        one = len(files) == 1  # of several, the first says nothing of the size of all
        return found | (_for_a_small_text({key.place for key in keys}, files[0], most) if one else {})
    if len(files) not in (1, len(wanted)) or (len(files) < len(wanted) and not _is_parallel(wanted)):
        places = ", ".join(key.place for key in wanted)
        raise JobError(
            f"{system} reads {plural(len(wanted), 'file')}, {places}: give {len(wanted)} and not {len(files)}, "
            f"or type: distembed demo {system}"
        )
    settings: Settings = {}
    for number, key in enumerate(wanted):
        file = files[min(number, len(files) - 1)]
        settings |= _settings_of_input(key, keys, [file], folder)
        if len(files) < len(wanted):
            settings[f"{key.section}.text_field"] = _field_of_side(file, number)
    return settings | _for_a_small_text({key.place for key in keys}, files[0], most)


def _inputs_of(keys: Sequence[Key]) -> list[Key]:
    """Return the keys whose files every job reads, and not only one with a table of a name."""
    return [
        key for key in keys if key.required and is_input(key.annotation) if not key.section.endswith(".NAME")
    ]


def _settings_of_input(key: Key, keys: Sequence[Key], files: Sequence[str], folder: Path) -> Settings:
    """Return where the files of one input go, and the keys of its section that fit the first of them."""
    names = {other.name for other in keys if other.section == key.section}
    places = [(file if "://" in file else os.path.relpath(file, folder)) for file in _as_glob(files)]
    found = settings_for(names, next(filter(is_filled, files), files[0]))
    if "layout" in names and are_documents(files):
        found["layout"] = "file"
    return {
        key.place: places if _takes_several(key) else places[0],
        **{f"{key.section}.{name}": value for name, value in found.items()},
    }


def _as_glob(files: Sequence[str]) -> Sequence[str]:
    """Return one glob in place of many files where it names these and no others: it takes later ones too."""
    folders, suffixes = ({part(file) for file in files} for part in (os.path.dirname, _suffix))
    if len(files) <= SMALL_FILES or len(folders) + len(suffixes) > 2 or "://" in files[0]:
        return files
    folder, suffix = folders.pop(), suffixes.pop()
    pattern = os.path.join(glob.escape(folder), f"*{suffix}")  # noqa: PTH118
    same = suffix and sorted(glob.glob(pattern)) == sorted(files)  # noqa: PTH207
    return [pattern] if same else files


def _suffix(file: str) -> str:
    return os.path.splitext(file)[1]  # noqa: PTH122


def _takes_several(key: Key) -> bool:
    """Return whether an input is a list of files."""
    return key.kind.startswith("a list")


def _title_of(files: Sequence[str]) -> str:
    """Return the names of the files as a part of a title: the first three, and how many more there are."""
    names = [os.path.basename(file.rstrip("/")) for file in files[:3]]  # noqa: PTH119
    more = [f"{len(files) - 3} more"] if len(files) > 3 else []
    return ", ".join([*names, *more]) or "an example"


def _is_parallel(wanted: Sequence[Key]) -> bool:
    """Return whether all inputs are texts, which one file may hold in fields of its records."""
    return all(key.name == "paths" for key in wanted)


def _field_of_side(file: str, number: int) -> str:
    fields = longest_fields(records_of(first_file(file)))
    if len(fields) < 2:
        raise JobError(f"{file} has no two fields of text: give one file for each of the two collections")
    return fields[number]


def _for_a_small_text(places: set[str], file: str, most: int) -> Settings:
    """Return lower thresholds for a text of a few words, for which the defaults leave too few of them."""
    paths = files_at(file)
    if "vocabulary.min_count" not in places or format_of(paths[0]) in ("mediawiki", "parquet"):
        return {}
    samples = list(map(sample_of, paths[:SMALL_FILES]))
    counts = sum(map(word_counts, samples), Counter[str]()).values()
    is_whole = len(paths) <= SMALL_FILES and all(sample.is_whole for sample in samples)
    enough = {least: sum(count >= least for count in counts) for least in MIN_COUNTS}
    least = next((least for least in MIN_COUNTS if enough[least] >= FULL_SIZE_WORDS), MIN_COUNTS[-1])
    components = max(2, min(most, enough[least] // 3))
    if not is_whole or (least == MIN_COUNTS[0] and components == most):
        return {}
    found: Settings = {"vocabulary.min_count": least}
    return found | {place: components for place in COMPONENTS if place in places}


def _settings_of_demo(system: str, keys: Sequence[Key]) -> Settings:
    """Return what the demo of a system sets, where it reads files of installed packages."""
    if demos.has_own_inputs(system):
        wanted = " ".join(key.place for key in _inputs_of(keys))
        raise JobError(
            f"name the files that {system} reads ({wanted}), or type: distembed demo {system}, which brings its own"
        )
    places = {key.place for key in keys if key.section != "job"}
    return {
        f"{section}.{name}": value
        for section, table in demos.job_of(system).items()
        for name, value in table.items()
        if f"{section}.{name}" in places
    }


# --- the text ----------------------------------------------------------------------------------------------------


def job_text(keys: Sequence[Key], settings: Settings, tables: Mapping[str, Any]) -> str:
    """Return the text of a job file.

    Parameters
    ----------
    keys : sequence of Key
        All keys of the system.
    settings : mapping
        The values that are set.
    tables : mapping
        The tables of tables that the system requires, by the name of their section: `{"recipes": {"lsa": {…}}}`.
    """
    lines = [
        "# A job of distembed: type `distembed plan` and `distembed run` with the name of this file.",
        "# A line that begins with # is a comment. A key that is a comment has the default that it shows.",
        "# Paths are relative to this file.",
    ]
    for section, group in groupby(keys, key=lambda key: key.section):
        found = list(group)
        if section.endswith(".NAME"):
            lines += _tables(section, found, tables.get(section.removesuffix(".NAME"), {}))
        else:
            lines += ["", *_comment(sentence(found[0].about)), f"[{section}]"]
            lines += [line for key in found for line in _key_lines(key, settings)]
    return "\n".join(lines) + "\n"


def _tables(section: str, keys: list[Key], tables: Mapping[str, Any]) -> list[str]:
    lines = ["", *_comment(f"{keys[0].about} The keys of each:")]
    for key in keys:
        default = "" if key.default is None else f" = {toml_value(key.default)}"
        lines += [f"#   {key.name}{default}", *_comment(f"{key.meaning} {key.kind}", indent="#       ")]
    for name, table in tables.items():
        lines += ["", f"[{section.removesuffix('NAME')}{name}]"]
        lines += [f"{key} = {toml_value(value)}" for key, value in table.items()]
    return lines


def _key_lines(key: Key, settings: Settings) -> list[str]:
    comment = _comment(f"{key.meaning} {key.kind[0].upper()}{key.kind[1:]}.")
    if key.place in settings:
        is_default = key.default is None or key.default == settings[key.place]
        default = "" if is_default else f"    # default: {toml_value(key.default)}"
        return ["", *comment, f"{key.name} = {_written(settings[key.place])}{default}"]
    return ["", *comment, f"# {key.name} = {'' if key.default is None else toml_value(key.default)}".rstrip()]


def _written(value: Any) -> str:
    """Return a value as TOML, a long list with a line for each of its items."""
    text = toml_value(value)
    if not isinstance(value, (list, tuple)) or len(text) <= WIDTH:
        return text
    return "\n".join(["[", *(f"    {toml_value(item)}," for item in value), "]"])


def _comment(text: str, *, indent: str = "# ") -> list[str]:
    return textwrap.wrap(text, WIDTH, initial_indent=indent, subsequent_indent=indent)
