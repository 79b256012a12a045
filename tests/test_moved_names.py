"""Pickles name the module of a class: those that were written before a class moved must open."""

from __future__ import annotations

import pickle
from importlib import import_module

import pytest


@pytest.mark.parametrize(
    ("before", "now", "name"),
    [
        ("counting.cooccurrence", "counting.cooccurrence_options", "CooccurrenceOptions"),
        ("counting.cooccurrence", "counting.partial_counts", "PartialCounts"),
        ("storage.stage", "storage.file_items", "FileItem"),
        ("vectors.word_vectors", "vectors.word_table", "UnknownWordError"),
    ],
)
def test_a_pickle_from_before_a_move_opens(before: str, now: str, name: str) -> None:
    found = pickle.loads(f"cdistembed.{before}\n{name}\n.".encode())
    assert found is getattr(import_module(f"distembed.{now}"), name)
