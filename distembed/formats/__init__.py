"""Opening files of any format: compression, encoding, delimiters, Parquet, Zarr, and what is no text."""
