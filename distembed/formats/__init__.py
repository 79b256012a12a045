"""Opening files of any format: compression, encoding, delimiters, Parquet, and what is no text."""
