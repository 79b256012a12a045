"""Association to vectors: PSDVec, LSA, NMF, clustering."""
