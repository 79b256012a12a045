"""Word and document embeddings by matrix methods, out of core, on Dask and Zarr.

The data path, and the module of each step::

    documents      corpus.readers        read_corpus
    -> token ids   corpus.tokenizer      Tokenizer, Tokens
    -> vocabulary  corpus.vocabulary     build_vocabulary, Vocabulary
    -> counts      counting              count_cooccurrences, count_document_terms
    -> association weighting             pmi, ppmi, smoothed_pmi, tf_idf, log_entropy; read_pmi of a workspace
    -> vectors     factorization         PSDVec, LSA, NMF, SemanticNMF, SphericalKMeans
    -> any string  factorization         SubwordMap, SubwordTable
    -> vectors     manifold              LatentSemanticImputation, LocalityPreservingProjection,
                                         FeaturePreservingEmbedding
    -> vectors     factorization         join_vectors, of several files or models
    -> graphs      neighbors             pairwise_distances, nearest_neighbors, spanning_tree; read_distances
    -> numbers     evaluation            evaluate, explain_similarity
    text -> vector encoding              TextEncoder, write_static_model
    WordVectors    vectors               neighbors, analogies, and the formats of the field
    a whole job    views.finished_job    run_job

A name is imported when it is first used, from the module that `__init__.pyi` names, so that `import distembed` costs
nothing.
"""

from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import lazy_loader

from distembed.compiled import find_place

find_place(Path(__file__).parent)

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

try:
    __version__ = version("distembed")
except PackageNotFoundError:  # a folder of sources on the path
    __version__ = "0+unknown"
