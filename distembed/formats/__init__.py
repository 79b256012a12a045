"""Opening files of any format: compression, encoding, delimiters, Parquet, NumPy, Zarr, HDF5, and what is no text."""
