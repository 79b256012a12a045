"""Word and document embeddings by matrix methods, out of core, on Dask and Zarr.

The data path, and the module of each step::

    documents      corpus.readers        read_corpus
    -> token ids   corpus.tokenizer      Tokenizer, Tokens
    -> vocabulary  corpus.vocabulary     build_vocabulary, Vocabulary
    -> counts      counting              count_cooccurrences, count_document_terms
    -> association weighting             ppmi, tf_idf; pmi, log-entropy; read_pmi of a workspace
    -> vectors     factorization         PSDVec, LSA, NMF, OrthogonalNMF, SemanticNMF, SphericalKMeans
    -> any string  factorization         SubwordMap, SubwordTable
    -> vectors     manifold              LatentSemanticImputation, LocalityPreservingProjection,
                                         FeaturePreservingEmbedding, SemisupervisedAlignment
    -> numbers     evaluation            evaluate, evaluate_tagging, explain_similarity, weat
    text -> vector encoding              TextEncoder, write_static_model
    WordVectors    vectors               neighbors, analogies, and the formats of the field
    a whole job    pipeline.jobs         run_job

A name is imported when it is first used, so that `import distembed` costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from distembed.compiled import find_place

_HOME = {
    "read_corpus": "corpus.readers",
    "Tokenizer": "corpus.tokenizer",
    "build_vocabulary": "corpus.vocabulary",
    "Vocabulary": "corpus.vocabulary",
    "count_cooccurrences": "counting.cooccurrence",
    "count_document_terms": "counting.documents",
    "ppmi": "weighting.pmi",
    "tf_idf": "weighting.documents",
    "PSDVec": "factorization.psdvec",
    "LSA": "factorization.lsa",
    "NMF": "factorization.nmf",
    "OrthogonalNMF": "factorization.nmf",
    "SemanticNMF": "factorization.nmf",
    "SphericalKMeans": "factorization.clustering",
    "SubwordMap": "factorization.subwords",
    "LatentSemanticImputation": "manifold.imputation",
    "LocalityPreservingProjection": "manifold.projection",
    "FeaturePreservingEmbedding": "manifold.feature_preserving",
    "SemisupervisedAlignment": "manifold.alignment",
    "TextEncoder": "encoding.encoder",
    "write_static_model": "encoding.static",
    "evaluate": "evaluation.words",
    "evaluate_sentences": "evaluation.sentences",
    "evaluate_tagging": "evaluation.tagging",
    "weat": "evaluation.bias",
    "explain_similarity": "evaluation.contexts",
    "WordVectors": "vectors",
    "SubwordTable": "vectors.subwords",
    "Workspace": "storage.workspace",
    "read_neighbors": "pipeline.graphs",
    "read_pmi": "pipeline.association",
    "run_job": "pipeline.jobs",
}

__all__ = [
    "LSA",
    "NMF",
    "FeaturePreservingEmbedding",
    "LatentSemanticImputation",
    "LocalityPreservingProjection",
    "OrthogonalNMF",
    "PSDVec",
    "SemanticNMF",
    "SemisupervisedAlignment",
    "SphericalKMeans",
    "SubwordMap",
    "SubwordTable",
    "TextEncoder",
    "Tokenizer",
    "Vocabulary",
    "WordVectors",
    "Workspace",
    "__version__",
    "build_vocabulary",
    "count_cooccurrences",
    "count_document_terms",
    "evaluate",
    "evaluate_sentences",
    "evaluate_tagging",
    "explain_similarity",
    "ppmi",
    "read_corpus",
    "read_neighbors",
    "read_pmi",
    "run_job",
    "tf_idf",
    "weat",
    "write_static_model",
]

find_place(Path(__file__).parent)

if TYPE_CHECKING:
    __version__: str

    from distembed.corpus.readers import read_corpus
    from distembed.corpus.tokenizer import Tokenizer
    from distembed.corpus.vocabulary import Vocabulary, build_vocabulary
    from distembed.counting.cooccurrence import count_cooccurrences
    from distembed.counting.documents import count_document_terms
    from distembed.encoding.encoder import TextEncoder
    from distembed.encoding.static import write_static_model
    from distembed.evaluation.bias import weat
    from distembed.evaluation.contexts import explain_similarity
    from distembed.evaluation.sentences import evaluate_sentences
    from distembed.evaluation.tagging import evaluate_tagging
    from distembed.evaluation.words import evaluate
    from distembed.factorization.clustering import SphericalKMeans
    from distembed.factorization.lsa import LSA
    from distembed.factorization.nmf import NMF, OrthogonalNMF, SemanticNMF
    from distembed.factorization.psdvec import PSDVec
    from distembed.factorization.subwords import SubwordMap
    from distembed.manifold.alignment import SemisupervisedAlignment
    from distembed.manifold.feature_preserving import FeaturePreservingEmbedding
    from distembed.manifold.imputation import LatentSemanticImputation
    from distembed.manifold.projection import LocalityPreservingProjection
    from distembed.pipeline.association import read_pmi
    from distembed.pipeline.graphs import read_neighbors
    from distembed.pipeline.jobs import run_job
    from distembed.storage.workspace import Workspace
    from distembed.vectors import WordVectors
    from distembed.vectors.subwords import SubwordTable
    from distembed.weighting.documents import tf_idf
    from distembed.weighting.pmi import ppmi


def __getattr__(name: str) -> Any:
    """Import a public name from its module; the version is that of the installed package."""
    if name == "__version__":
        return _version()
    if name not in _HOME:
        raise AttributeError(f"module 'distembed' has no attribute {name!r}")
    return getattr(import_module(f"distembed.{_HOME[name]}"), name)


def _version() -> str:
    """Return the version of the installed package, which its tag gave it when it was built."""
    from importlib.metadata import PackageNotFoundError, version  # noqa: PLC0415 - only who asks waits for it

    try:
        return version("distembed")
    except PackageNotFoundError:  # a folder of sources on the path
        return "0+unknown"


def __dir__() -> list[str]:
    """List the public names, imported or not."""
    return sorted(__all__)
