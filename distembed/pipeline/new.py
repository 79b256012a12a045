"""A commented job file for a user's own files: every key of a system, its type, its default, and what it means.

What the files decide, and what a system requires beside them, are values; every other key stands as a comment with
its default, so that the file runs as it is and says what can be changed.
"""

from __future__ import annotations

import glob
import os
import textwrap
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from distembed.display import plural
from distembed.files import replacing
from distembed.formats.names import suffix_of
from distembed.pipeline import demos, sniff
from distembed.pipeline.inputs import is_input
from distembed.pipeline.keys import Key, keys_of, sentence, toml_value
from distembed.pipeline.sections import JobError

Settings = dict[str, Any]
"""Values by `section.key`."""

WIDTH = 100
FULL_SIZE_WORDS = 300
"""With fewer words than this in a text that is read whole, the defaults of larger ones are lowered."""
SMALL_FILES = 8
"""More files than this are no small text."""
MIN_COUNTS = (5, 2, 1)
COMPONENTS = ("psdvec.n_components", "wordspaces.n_components")


def write_new_job(system: str, files: Sequence[str], target: str | Path) -> dict[str, Any]:
    """Write a job file for files of a user, and return the values that it sets.

    Parameters
    ----------
    system : str
        A name of the registry.
    files : sequence of str
        What the system reads, in the order of its sections; none takes the inputs of its demo.
    target : path
        The job file to write; a relative workspace lies beside it.

    Raises
    ------
    JobError
        The job file exists, or the system reads another number of files.
    """
    target = Path(target)
    if target.exists():
        raise JobError(f"{target} is there already: give another name with --to, or remove it")
    keys = keys_of(system)
    settings = {
        "job.system": system,
        "job.title": f"{system}: {_title_of(files)}",
        "job.workspace": f"{target.stem}-workspace",
        **(
            settings_of_files(system, keys, files, target.parent)
            if files
            else _settings_of_demo(system, keys)
        ),
    }
    with replacing(str(target)) as partial:
        Path(partial).write_text(
            job_text(keys, settings, demos.required_tables(system, keys)), encoding="utf-8"
        )
    return settings


def settings_of_files(system: str, keys: Sequence[Key], files: Sequence[str], folder: Path) -> Settings:
    """Return where the files of a user go, and the keys of their sections that fit them."""
    wanted = [key for key in keys if key.required and is_input(key.annotation)]
    if len(wanted) == 1 and _takes_several(wanted[0]):
        found = _settings_of_input(wanted[0], keys, files, folder)
        one = len(files) == 1  # of several, the first says nothing of the size of all
        return found | (_for_a_small_text({key.place for key in keys}, files[0]) if one else {})
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
    return settings | _for_a_small_text({key.place for key in keys}, files[0])


def _settings_of_input(key: Key, keys: Sequence[Key], files: Sequence[str], folder: Path) -> Settings:
    """Return where the files of one input go, and the keys of its section that fit the first of them."""
    names = {other.name for other in keys if other.section == key.section}
    places = [_relative(file, folder) for file in _as_glob(files)]
    found = sniff.settings_for(names, next(filter(sniff.is_filled, files), files[0]))
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
    names = [os.path.basename(file) for file in files[:3]]  # noqa: PTH119
    more = [f"{len(files) - 3} more"] if len(files) > 3 else []
    return ", ".join([*names, *more]) or "an example"


def _is_parallel(wanted: Sequence[Key]) -> bool:
    """Return whether all inputs are texts, which one file may hold in fields of its records."""
    return all(key.name == "paths" for key in wanted)


def _field_of_side(file: str, number: int) -> str:
    fields = sniff.longest_fields(sniff.records_of(sniff.first_file(file)))
    if len(fields) < 2:
        raise JobError(f"{file} has no two fields of text: give one file for each of the two collections")
    return fields[number]


def _relative(file: str, folder: Path) -> str:
    return file if "://" in file else os.path.relpath(file, folder)


def _for_a_small_text(places: set[str], file: str) -> Settings:
    """Return lower thresholds for a text of a few words, for which the defaults leave too few of them."""
    paths = sniff.files_at(file)
    if "vocabulary.min_count" not in places or suffix_of(paths[0]) in (".xml", ".parquet", ".pq"):
        return {}
    samples = list(map(sniff.sample_of, paths[:SMALL_FILES]))
    counts = sum(map(sniff.word_counts, samples), Counter[str]()).values()
    is_whole = len(paths) <= SMALL_FILES and all(sample.is_whole for sample in samples)
    enough = {least: sum(count >= least for count in counts) for least in MIN_COUNTS}
    least = next((least for least in MIN_COUNTS if enough[least] >= FULL_SIZE_WORDS), MIN_COUNTS[-1])
    components = max(2, min(100, enough[least] // 3))
    if not is_whole or (least == MIN_COUNTS[0] and components == 100):
        return {}
    found: Settings = {"vocabulary.min_count": least}
    return found | {place: components for place in COMPONENTS if place in places}


def _settings_of_demo(system: str, keys: Sequence[Key]) -> Settings:
    """Return what the demo of a system sets, where it reads files of installed packages."""
    tree = demos.job_of(system)
    if tree is None or demos.has_own_inputs(system):
        wanted = " ".join(key.place for key in keys if key.required and is_input(key.annotation))
        raise JobError(
            f"name the files that {system} reads ({wanted}), or type: distembed demo {system}, which brings its own"
        )
    places = {key.place for key in keys if key.section != "job"}
    return {
        f"{section}.{name}": value
        for section, table in tree.items()
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
