"""A job file for a user's own files: what was found in them, what was chosen, and the keys that people change."""

from __future__ import annotations

import glob
import json
import os
import re
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import groupby, islice, pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from distembed.corpus.inspection import FORMAT_NAMES, sample_text
from distembed.corpus.paths import FoundFile, files_at, find_files, format_of, is_hidden, name_files
from distembed.corpus.planning import CONTROL
from distembed.corpus.readers import Corpus, read_corpus
from distembed.corpus.records import FEWEST_SIGNS
from distembed.corpus.stop_words import language_of
from distembed.display import format_bytes, plural
from distembed.dtypes import Floats
from distembed.files import damage_told, replacing
from distembed.formats.delimited import delimiter_of, first_rows
from distembed.formats.encodings import (
    HEAD_BYTES,
    NOT_ASCII,
    ONE_BYTE,
    detect_encoding,
    guess_encoding,
)
from distembed.formats.heads import sniffed
from distembed.formats.names import suffix_of
from distembed.formats.parquet import ParquetFile, read_batches
from distembed.formats.streams import reading
from distembed.formats.tables import read_table, texts_of
from distembed.job import demos
from distembed.job.inputs import is_input
from distembed.job.keys import Key, keys_of, toml_value
from distembed.job.model import JobError
from distembed.job.stage import system_named
from distembed.job.terminal import shown as in_one_line
from distembed.linalg.chunks import evenly_spaced
from distembed.urls import opened

SAMPLE_BYTES, SAMPLE_RECORDS, SAMPLE_DOCUMENTS, SAMPLE_FILES = 1 << 20, 50, 1000, 1000
"""What is read of a file, of its records, of a corpus for its language, and for its encoding."""
WIDTH, COMMENTED = 100, 30
"""Columns of a line of a job file, and where its comments begin."""
FEW_FILES = 8
"""More files than this become a glob, which takes later ones, too."""
WORDS_PER_COMPONENT, FEWEST_WORDS, FEW_COMPONENTS = 75, 3, 50
"""Words that a component of word vectors needs: on 400,000 tokens of Wikipedia, 8,000 words, 100 components score
better than 400, and on 2 million, 22,000 words, the two are level. Up to `FEW_COMPONENTS` take no more than
`FEWEST_WORDS` each; a text that has not even these keeps its rare words.
"""
DOCUMENTS_PER_TOPIC = 10
"""Fewer documents than so many for each topic say nothing that another start says again."""

FIELD_NAMES = {
    "text_field": ("text", "body", "content", "article", "abstract", "review", "message"),
    "id_field": ("id", "_id", "doc_id", "docid", "document_id", "uid", "respondent_id", "response_id", "case_id"),
    "title_field": ("title", "headline", "subject"),
    "label_field": ("label", "class", "category", "topic", "section"),
}  # fmt: skip
"""What fields of records are mostly called, in lower case, with an underscore in place of other signs."""

NUMBER = re.compile(r"[-+]?(?=[.,]*\d)[\d.,]+(?:[eE][-+]?\d+)?")
DIVIDED = {"line": "one per line", "blocks": "between blank lines", "mediawiki": "one per page"}

Settings = dict[str, Any]
"""Values by `section.key`, or by the key where the section is known."""


class Found(NamedTuple):
    """What the files of an input seem to be: the keys that follow from it, and sentences about it for the user."""

    settings: Settings
    lines: list[str]
    language: str = "none"
    n_documents: int = 0
    counts: Floats | None = None
    """About how often each word stands in a text."""


def write_new_job(
    system: str, files: Sequence[str], target: str | Path, *, preset: str | None = None
) -> list[str]:
    """Write a job file for files of a user, and return in a few lines what they were taken for.

    Parameters
    ----------
    system : str
        A name of the registry.
    files : sequence of str
        What the system reads, in the order of its sections.
    target : path
        The job file to write; a relative workspace lies beside it.
    preset : str, optional
        The name of settings of the system that belong together; by default its first, the best known.

    Raises
    ------
    JobError
        The job file exists, the system reads another number of files, or it has no such preset.
    FileNotFoundError, CorpusError
        Nothing lies at a path, or nothing that can be read.
    """
    target, keys, presets = Path(target), keys_of(system), system_named(system).presets
    if target.exists():
        raise JobError(f"{target} is there already: give another name with --to, or remove it")
    if preset is not None and preset not in presets:
        there = f"it has {', '.join(presets)}" if presets else "it has none: leave --preset out"
        raise JobError(f"{system} has no preset {preset!r}; {there}")
    own, first, lines = look_at_inputs(system, keys, files, target.parent)
    best = _by_place(presets[preset] if preset else next(iter(presets.values()), {}))
    chosen = own | best if preset else settings_that_fit(keys, best, first) | own
    # Tables of tables, such as recipes, are those of the demo.
    own_tables = {key.section.removesuffix(".NAME") for key in keys if key.section.endswith(".NAME")}
    missing = own_tables - {place.partition(".")[0] for place in chosen}
    required = _by_place({name: table for name, table in demos.job_of(system).items() if name in missing})
    # A workspace in a folder that the job reads would be read: it lies beside that folder.
    read = [Path(file).resolve() for file in files if "://" not in file]
    above = [place for place in read if place.is_dir() and target.resolve().is_relative_to(place)]
    beside = min(above, default=target.resolve()).parent / f"{target.stem}-workspace"
    names = [
        (file.rstrip("/").rpartition("/")[2] if "://" in file else Path(file).resolve().name)
        for file in files
    ]
    settings = {
        "job.system": system,
        "job.title": f"{system}: {name_files(names)}",
        "job.workspace": os.path.relpath(beside, target.resolve().parent),
        **required,
        **chosen,
    }
    with replacing(str(target)) as partial:
        text = job_text(keys, system_named(system).job.first_keys, settings, lines)
        Path(partial).write_text(text, encoding="utf-8")
    return lines


def _by_place(sections: Mapping[str, Mapping[str, Any]]) -> Settings:
    return {f"{section}.{key}": value for section, table in sections.items() for key, value in table.items()}


# --- what is found -----------------------------------------------------------------------------------------------


def look_at_inputs(
    system: str, keys: Sequence[Key], files: Sequence[str], folder: Path
) -> tuple[Settings, Found, list[str]]:
    """Return the settings that follow from the inputs, whose paths are relative to a folder, the first, and all lines.

    Raises
    ------
    JobError
        The system reads another number of files.
    """
    defaults = {key.place: key.default for key in keys}
    wanted = [
        (key.section, key.section.replace("NAME", name), key.name)
        for key in keys
        if key.required and is_input(key.annotation)
        for name in (("first", "second") if key.section.endswith(".NAME") else ("",))
    ]
    is_text = {name for *_, name in wanted} == {"paths"}
    given = [[file] for file in files] if len(wanted) > 1 else [list(files)]
    fields = [""] * len(wanted)
    if is_text and len(files) == 1 < len(wanted):  # records with a field for each collection
        records = records_of(find_files(list(files))[0].url)
        longest = longest_fields(records)[: len(wanted)]
        given, fields = given * len(wanted), [name for name in records if name in longest]
        if len(fields) < len(wanted):
            raise JobError(
                f"{files[0]} has no two fields of text: give one file for each of the two collections"
            )
    if not files or len(given) != len(wanted):
        places = ", ".join(f"{section}.{name}" for _, section, name in wanted)
        raise JobError(
            f"{system} reads {plural(len(wanted), 'file')}, {places}: give {len(wanted)} and not {len(files)}, or "
            f"type: distembed demo {system}"
        )
    settings: Settings = {}
    inputs: list[Found] = []
    lines: list[str] = []
    for (model, section, name), paths, field in zip(wanted, given, fields, strict=True):
        names = {key.name for key in keys if key.section == model}
        found = look_at_texts(paths, names, field) if is_text else look_at_table(paths[0], names)
        inputs.append(found)
        lines += [f"{section}: {line}" if len(wanted) > 1 else line for line in found.lines]
        listed = _as_glob(paths)
        if is_text:
            listed = [one for path in listed for one in _without_job(path, folder)]
        named = [path if "://" in path else os.path.relpath(path, folder) for path in listed]
        own = found.settings | {name: named if is_text else named[0]}
        if f"{model}.stop_words" in defaults:
            own["stop_words"] = found.language
        settings |= {f"{section}.{key}": value for key, value in own.items()}
    first = inputs[0]
    if first.language != "none" and defaults.get("vocabulary.stop_words", "none") != "none":
        settings["vocabulary.stop_words"] = first.language
    if "parts.column" in defaults and "label_field" not in first.settings:  # each file is a part
        settings["parts.column"] = "file"
    return settings, first, lines


def look_at_texts(paths: Sequence[str], names: set[str], text_field: str = "") -> Found:
    """Return what texts seem to be: their files, documents, language and encoding, and what of them is left out.

    Parameters
    ----------
    paths : sequence of str
        Files, folders, globs or URLs.
    names : set of str
        The keys of the section.
    text_field : str, optional
        The field of records that holds the text; by default that with such a name, else the longest.
    """
    files = find_files(list(paths))
    filled = [file for file in files if file.size] or files
    first, kind = filled[0].url, format_of(filled[0].url)
    encoding, encoded = encoding_of(filled)
    found: Settings = {}
    if kind == "text":
        found["layout"] = text_layout(_text_of(first))
    elif kind != "mediawiki":
        found |= text_fields(records_of(first)) | ({"text_field": text_field} if text_field else {})
    found |= {"encoding": encoding, "bad_records": "skip"}
    settings = {name: value for name, value in found.items() if name in names and value is not None}
    with warnings.catch_warnings(action="ignore"):  # it says below what is left out
        corpus = read_corpus(list(paths), **settings)
    if not corpus.refused:
        settings.pop("bad_records", None)
    sample, n_bytes = sample_text(corpus.bundles, corpus.tokenizer), sum(p.n_bytes for p in corpus.partitions)
    growth = max(1.0, n_bytes / max(1, sample.n_bytes))
    n_documents, counts = round(growth * sample.n_documents), Counter[str]()
    for document in islice(corpus.documents(), SAMPLE_DOCUMENTS):
        counts.update(re.findall(r"[^\W\d_]+", document.text[:SAMPLE_BYTES].lower()))
    language = language_of([word for word, _ in counts.most_common()])
    kinds = Counter({part.url: FORMAT_NAMES[part.format] for part in corpus.partitions}.values())
    links = plural(sum(os.path.islink(file.url) for file in files), "link")  # noqa: PTH114
    divided = DIVIDED.get(found.get("layout", kind), "one per record")
    lines = [
        f"files: {', '.join(f'{n:,} {name}' for name, n in kinds.items())}, {format_bytes(n_bytes)}; {links}",
        f"documents: about {_rounded(n_documents)}, {divided}; about {_rounded(growth * sample.n_tokens)} tokens",
        f"language: {'not recognized' if language == 'none' else language}",
        f"encoding: {encoded}",
        f"left out: {'; '.join(_left_out(paths, corpus)) or 'nothing'}",
    ]
    return Found(settings, lines, language, n_documents, growth * sample.counts)


def _rounded(number: float) -> str:
    return f"{float(f'{number:.1e}'):,.0f}"


def encoding_of(files: Sequence[FoundFile]) -> tuple[str | None, str]:
    """Return the encoding that the first file which is not UTF-8 seems to have, None where all are, and a sentence."""
    lined = [file.url for file in files if format_of(file.url) in ("text", "jsonl", "csv", "tsv")]
    for url in (lined[int(number)] for number in evenly_spaced(len(lined), SAMPLE_FILES)):
        head = _beginning_of(url, HEAD_BYTES)
        encoding, is_binary = detect_encoding(head), 100 * len(CONTROL.findall(head)) > len(head)
        if encoding == ONE_BYTE and not is_binary and not sniffed(head, url)[0]:
            guess = guess_encoding(head) if len(NOT_ASCII.findall(head)) >= FEWEST_SIGNS else None
            encoding = guess[0] if guess else encoding
            return encoding, f"{os.path.basename(url)} is not UTF-8, and seems to be {encoding}"  # noqa: PTH119
    return None, "UTF-8, or what a file says itself"


def _left_out(paths: Sequence[str], corpus: Corpus) -> list[str]:
    """Return what of some paths is not read: files that cannot be, hidden ones, and folders behind links."""
    found = [record.reason.rstrip(".") for record in corpus.refused[:1]]
    found += [f"{len(corpus.refused) - 1} more that cannot be read"] if len(corpus.refused) > 1 else []
    for folder in map(Path, filter(os.path.isdir, paths)):
        every = list(folder.rglob("*"))
        n_hidden = sum(is_hidden(one.relative_to(folder).as_posix()) for one in every if one.is_file())
        found += [plural(n_hidden, "hidden file")] if n_hidden else []
        found += [f"the folder behind the link {one}" for one in every if one.is_symlink() and one.is_dir()]
    return found


def text_layout(text: str) -> str:
    """Return how the documents of a text are divided: by its lines, or by blank lines."""
    lines = [line.strip() for line in text.splitlines()]
    empty = lines.count("")
    # Where single lines stand between empty ones, each is a document: as a block it would be a title and no text.
    continued = sum(bool(line and after) for line, after in pairwise(lines))
    return "blocks" if len(lines) > 3 and empty > len(lines) / 20 and 2 * continued > empty else "line"


def look_at_table(path: str, names: set[str]) -> Found:
    """Return what a table, or a file of vectors, seems to be; `names` are the keys of its section."""
    files, found = find_files([path]), dict[str, Any]()
    if format_of(path) in ("csv", "tsv"):
        delimiter = delimiter_of(_text_of(files[0].url), path)
        found = {
            "encoding": encoding_of(files)[0],
            "delimiter": None if delimiter in ",\t" else delimiter,
        }
    records = records_of(files[0].url)
    for (
        name,
        values,
    ) in records.items():  # the first of which most are no numbers, but not marks of missing ones
        texts = [str(value).strip() for value in values if value not in (None, "")]
        if texts and 2 * sum(map(bool, map(NUMBER.fullmatch, texts))) <= len(texts):
            found["name_column"] = name
            break
    settings = {name: value for name, value in found.items() if name in names and value}
    about = f"a table of {plural(len(records), 'column')}" if records else "vectors"
    about += "".join(f", {name} {toml_value(value)}" for name, value in settings.items())
    return Found(settings, [f"{path}, {about}"])


# --- records -----------------------------------------------------------------------------------------------------

Records = Mapping[str, list[Any]]
"""The first values of each field."""


def _beginning_of(path: str, n_bytes: int) -> bytes:
    with reading(path, JobError) as file:
        return file.read(n_bytes)


def _text_of(path: str) -> str:
    data = _beginning_of(path, SAMPLE_BYTES)
    return data.decode(detect_encoding(data[:HEAD_BYTES]), "replace").removeprefix("\ufeff")


def records_of(path: str) -> Records:
    """Return the first values of each field of JSON lines, Parquet, CSV, TSV or a workbook; nothing of other files."""
    kind = format_of(path)
    rows: list[dict[str, Any]] = []
    if suffix_of(path) in (".xlsx", ".xlsm"):
        return {name: texts_of(column) for name, column in read_table(path).columns.items()}
    if kind == "parquet":
        with damage_told(path, JobError, "a Parquet file"), opened(path, "rb") as file:
            batch = next(read_batches(ParquetFile(file), SAMPLE_RECORDS), None)
            return {} if batch is None else batch.to_pydict()
    if kind == "jsonl":
        for line in _text_of(path).splitlines()[:SAMPLE_RECORDS]:
            with suppress(ValueError, RecursionError):  # the job names the line
                rows.append(json.loads(line))
    elif kind in ("csv", "tsv"):
        text = _text_of(path)
        header, *below = first_rows(text, delimiter_of(text, path), n_rows=SAMPLE_RECORDS) or [[]]
        rows = [dict(zip(map(str.strip, header), row, strict=True)) for row in below]
    rows = [row for row in rows if isinstance(row, dict)]
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: [row.get(name) for row in rows] for name in names}


def text_fields(records: Records) -> dict[str, Any]:
    """Return the fields of the text, the id, the title and the class of documents, by name; the text else by length."""
    lowered = {re.sub(r"\W+", "_", name.strip().lower()): name for name in records}
    found = {
        key: next((lowered[name] for name in usual if name in lowered), None)
        for key, usual in FIELD_NAMES.items()
    }
    return found | {"text_field": found["text_field"] or next(iter(longest_fields(records)), None)}


def longest_fields(records: Records) -> list[str]:
    """Return the fields of text, the longest first."""
    texts = {name: sum(len(v) for v in values if isinstance(v, str)) for name, values in records.items()}
    return sorted((name for name in texts if texts[name]), key=lambda name: -texts[name])


# --- what is chosen, and written ---------------------------------------------------------------------------------


def settings_that_fit(keys: Sequence[Key], best: Settings, text: Found) -> Settings:
    """Return the best settings with no more components and topics than a text has words and documents for.

    A text that has not even the words for a few components keeps its rare words; if that is not enough, it gets none
    of the best settings, such as vectors of sides, which need pairs of words.
    """
    if text.counts is None:
        return best
    rare = {"vocabulary.min_count": 1}
    defaults = {
        key.place: key.default for key in keys if key.section != "sides"
    }  # there only where it is written
    for settings in (best, best | rare, rare):
        every = defaults | settings
        n_words = int(np.count_nonzero(text.counts >= every.get("vocabulary.min_count", 1)))
        few = min(FEW_COMPONENTS, n_words // FEWEST_WORDS)
        n_components = max(few, n_words // WORDS_PER_COMPONENT)
        room = {
            "psdvec.n_components": n_components,
            "sides.n_components": max(1, n_components // 2),
            "wordspaces.n_components": min(n_words // FEWEST_WORDS, text.n_documents),
            "topics.n_topics": text.n_documents // DOCUMENTS_PER_TOPIC,
        }
        small = {place: max(2, most) for place, most in room.items() if (every.get(place) or 0) > most}
        if few == FEW_COMPONENTS:
            break
    return settings | small


def _without_job(path: str, folder: Path) -> list[str]:
    """Return a path, or of a folder that the job file lies in globs of the files that are there now, by their ends."""
    place = Path(path)
    if "://" in path or not place.is_dir() or not folder.resolve().is_relative_to(place.resolve()):
        return [path]
    ends = {Path(file.path).suffix for file in files_at(path)} - {".toml"}
    return [f"{glob.escape(path)}/**/*{end}" for end in sorted(ends)] if all(ends) else [path]


def _as_glob(paths: Sequence[str]) -> list[str]:
    """Return one glob in place of many files of a folder, if it names these and no others."""
    if len(paths) > FEW_FILES:
        folder, name = os.path.split(paths[0])
        pattern = os.path.join(glob.escape(folder), f"*{Path(name).suffix}")  # noqa: PTH118
        if sorted(glob.glob(pattern)) == sorted(paths):  # noqa: PTH207
            return [pattern]
    return list(paths)


def job_text(keys: Sequence[Key], shown: Sequence[str], settings: Settings, lines: Sequence[str]) -> str:
    """Return the text of a job file.

    Parameters
    ----------
    keys : sequence of Key
        All keys of the system.
    shown : sequence of str
        The keys that stand in it with their default where they are not set.
    settings : mapping
        The values that are set, a table with a name of its own by `section.NAME`.
    lines : sequence of str
        What the input was taken for.
    """
    head = f"`distembed keys {settings['job.system']}` lists all keys. Paths are relative to this file."
    text = [f"# {in_one_line(line)}" for line in (head, *lines)]
    for section, group in groupby(keys, key=lambda key: key.section.removesuffix(".NAME")):
        known = {key.place: key for key in group}
        rows = [place for place in known if place in settings or place in shown]
        rows += [place for place in settings if place.startswith(f"{section}.") and place not in known]
        text += ["", f"[{section}]"] if rows else []
        for place in rows:
            value, name = (
                settings[place] if place in settings else known[place].default,
                place.partition(".")[2],
            )
            line = f"{name} = {toml_value(value)}"
            if len(line) > WIDTH and isinstance(value, list):
                line = "\n".join([f"{name} = [", *(f"    {toml_value(item)}," for item in value), "]"])
            text.append(line.ljust(COMMENTED) + (f"  # {_brief(known[place])}" if place in known else ""))
    return "\n".join(text) + "\n"


def _brief(key: Key) -> str:
    """Return the first clause of what a key means, with its choices where they are few."""
    clause = re.split(r"[;:(]|\. |\.$", key.meaning)[0].strip()
    if not key.kind.startswith('"') or len(key.kind) > WIDTH:
        return clause
    return key.kind if clause.startswith('"') else f"{clause}: {key.kind}"
