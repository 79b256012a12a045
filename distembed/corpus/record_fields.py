"""Fields of JSON records, also those inside others, by names with dots."""

from __future__ import annotations

from typing import Any


def has_field(record: dict[str, Any], field: str) -> bool:
    """Return whether a record has a field, or one inside others by a name with dots."""
    return field in record or bool(_path_in(record, field))


def value_at(record: dict[str, Any], field: str) -> Any:
    """Return the value of a field, of one inside others by a name with dots as "doc.body.text"; None where none is."""
    if field in record:
        return record[field]
    return next(iter(_path_in(record, field)), None)


def _path_in(record: dict[str, Any], field: str) -> list[Any]:
    """Return a list of the value that a name with dots leads to, or an empty one."""
    inner: Any = record
    for name in field.split("."):
        if not isinstance(inner, dict) or name not in inner:
            return []
        inner = inner[name]
    return [inner]


def field_names(record: dict[str, Any], before: str = "") -> list[str]:
    """Return the names of the fields of a record, those inside others with dots, sorted."""
    names: list[str] = []
    for name, value in sorted(record.items()):
        inner = field_names(value, f"{before}{name}.") if isinstance(value, dict) else []
        names += inner or [f"{before}{name}"]
    return names
