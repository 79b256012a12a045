"""The small real example of each system, from files that installed packages carry.

The job files lie in `distembed/demos`, one per system. Two of them need inputs that no package carries in a form
that a job reads: these are cut out of files that gensim and scikit-learn carry when a demo is laid out.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from sklearn.datasets import load_digits

from distembed.job.model import locate
from distembed.vectors import WordVectors

JOB_FILE = "job.toml"


def job_text_of(system: str) -> str:
    """Return the text of the demo job of a system."""
    return (files("distembed") / "demos" / f"{system}.toml").read_text(encoding="utf-8")


def job_of(system: str) -> dict[str, Any]:
    """Return the demo job of a system as TOML has it."""
    return tomllib.loads(job_text_of(system))


def lay_out(system: str, folder: str | Path) -> Path:
    """Write the job file and the inputs of a demo into a folder; a job file that is there stays as it is.

    Parameters
    ----------
    system : str
        A name of the registry.
    folder : path
        Made where it is not there.

    Returns
    -------
    Path
        The job file.

    Raises
    ------
    JobError
        A package that carries the input is not installed.
    """
    job = Path(folder) / JOB_FILE
    job.parent.mkdir(parents=True, exist_ok=True)
    if not job.exists():
        make_inputs = _INPUTS.get(system)
        if make_inputs is not None:
            make_inputs(job.parent)
        job.write_text(job_text_of(system), encoding="utf-8")
    return job


def _write_halves(folder: Path) -> None:
    """Write the odd and the even sentences of each of 300 news stories as two parallel collections."""
    file = Path(locate("{gensim}/test/test_data/lee_background.cor", Path()))
    stories = file.read_text(encoding="latin-1").splitlines()
    sentences = [re.split(r"(?<=[.!?])\s+", story) for story in stories]
    for number, name in enumerate(("odd", "even")):
        records = (
            json.dumps({"id": str(story), "text": " ".join(found[number::2])})
            for story, found in enumerate(sentences)
        )
        (folder / f"{name}.jsonl").write_text("\n".join(records) + "\n", encoding="utf-8")


def _write_digits(folder: Path) -> None:
    """Write the upper halves of scanned digits as a table, and the lower halves of a third of them as vectors."""
    digits = load_digits()
    called = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
    names = np.array([f"{called[digit]}_{number:04d}" for number, digit in enumerate(digits.target)])
    upper, lower = digits.data[:, :32], digits.data[:, 32:]
    labels = np.array([str(digit) for digit in digits.target])
    pixels = {f"pixel {number}": column for number, column in enumerate(upper.T)}
    table = pa.table({"name": names, "digit": labels, **pixels})
    pq.write_table(table, folder / "upper_halves.parquet", write_page_checksum=True)
    WordVectors(names[:600].tolist(), lower[:600].astype(np.float32)).save(folder / "lower_halves.txt")


_INPUTS: dict[str, Callable[[Path], None]] = {"transfer": _write_halves, "imputation": _write_digits}
