"""Options read from the source are those of the imported estimator, dataclass or function."""

from __future__ import annotations

from importlib import import_module

import pytest

from distembed.option_source import options_in_source
from distembed.options import options_of

READ_BY_JOBS = (
    "distembed.factorization.psdvec:PSDVec",
    "distembed.factorization.subwords:SubwordMap",
    "distembed.factorization.nmf:NMF",
    "distembed.factorization.nmf:SemanticNMF",
    "distembed.manifold.imputation:LatentSemanticImputation",
    "distembed.manifold.feature_preserving:FeaturePreservingEmbedding",
    "distembed.corpus.readers:read_corpus",
    "distembed.corpus.tokenizer:Tokenizer",
    "distembed.corpus.vocabulary:build_vocabulary",
    "distembed.counting.cooccurrence:count_cooccurrences",
)


@pytest.mark.parametrize("place", READ_BY_JOBS)
def test_the_source_states_the_options_of_the_imported_class(place: str) -> None:
    module, _, name = place.partition(":")
    assert options_in_source(place) == options_of(getattr(import_module(module), name))


@pytest.mark.parametrize(
    ("place", "words"),
    [
        ("distembed.options:Nobody", "no function Nobody"),
        ("distembed.options:Option", "no __init__ of its own"),
    ],
)
def test_a_class_without_options_is_named(place: str, words: str) -> None:
    with pytest.raises(TypeError, match=words):
        options_in_source(place)
