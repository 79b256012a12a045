"""The graph of the nearest neighbors of the rows of any matrix."""
