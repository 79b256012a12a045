"""Numbers, bytes and seconds written for people."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any


def format_number(value: float) -> str:
    """Write a number for reading: whole numbers grouped by thousands, others to four significant digits."""
    if not math.isfinite(value):
        return "–" if math.isnan(value) else ("∞" if value > 0 else "−∞")
    if float(value).is_integer() and abs(value) < 1e15:
        return f"{int(value):,}".replace("-", "−")
    return with_typeset_sign(f"{value:,.0f}" if 1e4 <= abs(value) < 1e15 else f"{value:.4g}")


def format_bytes(n_bytes: float) -> str:
    """Write a number of bytes in the binary unit that leaves one to four digits before the point."""
    if not math.isfinite(n_bytes):
        return "–"
    power = min(int(math.log2(abs(n_bytes)) // 10), 6) if abs(n_bytes) >= 1 else 0
    unit = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")[power]
    return f"{n_bytes / 1024**power:.{1 if power else 0}f} {unit}"


def format_size(n_bytes: int) -> str:
    """Write a number of bytes without loss as a job file takes it: `64MiB`, or plain digits."""
    units = (("GiB", 30), ("MiB", 20), ("KiB", 10))
    return next(
        (f"{n_bytes >> power}{unit}" for unit, power in units if n_bytes % (1 << power) == 0), str(n_bytes)
    )


def measured(facts: Mapping[str, Any], name: str) -> float | None:
    """Return a number that a stage recorded; None where its record has none: another program may have written it."""
    value = facts.get(name)
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def format_seconds(seconds: float) -> str:
    """Write a duration as seconds, minutes or hours."""
    if not math.isfinite(seconds):
        return "–"
    if round(seconds, 1) < 60:
        return f"{seconds:.{2 if seconds < 10 else 1}f} s"
    whole = round(seconds)
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{round(whole / 60) // 60:,} h {round(whole / 60) % 60:02d} min"


def with_typeset_sign(number: str) -> str:
    """Write a number's signs as a reader expects them: a true minus, no padded exponent."""
    return number.replace("e-0", "e-").replace("e+0", "e").replace("e+", "e").replace("-", "−")
