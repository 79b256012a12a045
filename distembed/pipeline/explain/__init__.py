"""Explanations of single results: what every system's explanation is made of, and how it is written."""
