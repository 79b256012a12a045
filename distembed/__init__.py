"""Word and document embeddings by matrix methods, out of core, on Dask and Zarr."""

__version__ = "0.1.0"
