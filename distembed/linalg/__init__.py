"""Distributed linear algebra shared by the factorizations."""
