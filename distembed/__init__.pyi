"""The public names and the modules that define them: type checkers and `lazy_loader` read this file."""

from .corpus.readers import read_corpus as read_corpus
from .corpus.texts import read_texts as read_texts
from .corpus.tokenizer import Tokenizer as Tokenizer
from .corpus.vocabulary import Vocabulary as Vocabulary
from .corpus.vocabulary import build_vocabulary as build_vocabulary
from .counting.cooccurrence import count_cooccurrences as count_cooccurrences
from .counting.documents import count_document_terms as count_document_terms
from .counting.tables import read_counts as read_counts
from .encoding.encoder import TextEncoder as TextEncoder
from .encoding.static import write_static_model as write_static_model
from .evaluation.contexts import explain_similarity as explain_similarity
from .evaluation.sentences import evaluate_sentences as evaluate_sentences
from .evaluation.words import evaluate as evaluate
from .factorization.clustering import SphericalKMeans as SphericalKMeans
from .factorization.joined_vectors import join_vectors as join_vectors
from .factorization.lsa import LSA as LSA
from .factorization.nmf import NMF as NMF
from .factorization.nmf import SemanticNMF as SemanticNMF
from .factorization.psdvec import PSDVec as PSDVec
from .factorization.subwords import SubwordMap as SubwordMap
from .job.checkpoints import checkpoints as checkpoints
from .manifold.feature_preserving import FeaturePreservingEmbedding as FeaturePreservingEmbedding
from .manifold.imputation import LatentSemanticImputation as LatentSemanticImputation
from .manifold.projection import LocalityPreservingProjection as LocalityPreservingProjection
from .neighbors.distances import pairwise_distances as pairwise_distances
from .neighbors.search import nearest_neighbors as nearest_neighbors
from .neighbors.spanning_tree import spanning_tree as spanning_tree
from .storage.workspace import Workspace as Workspace
from .vectors import WordVectors as WordVectors
from .vectors.subwords import SubwordTable as SubwordTable
from .views.finished_job import impute as impute
from .views.finished_job import read_distances as read_distances
from .views.finished_job import read_pmi as read_pmi
from .views.finished_job import run_job as run_job
from .views.finished_job import topics as topics
from .weighting.documents import log_entropy as log_entropy
from .weighting.documents import tf_idf as tf_idf
from .weighting.pmi import directional_contexts as directional_contexts
from .weighting.pmi import pmi as pmi
from .weighting.pmi import ppmi as ppmi
from .weighting.pmi import smoothed_pmi as smoothed_pmi

__version__: str
