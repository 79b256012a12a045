"""Pickles name the module of a class: those that were written before a class moved must open."""

from __future__ import annotations

import pickle

import pytest

import distembed as de


@pytest.mark.parametrize(
    ("module", "name"),
    [("distembed.manifold.alignment", "FeaturePreservingEmbedding")],
)
def test_a_pickle_from_before_a_move_opens(module: str, name: str) -> None:
    assert pickle.loads(f"c{module}\n{name}\n.".encode()) is getattr(de, name)
