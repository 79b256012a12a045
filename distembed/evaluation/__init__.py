"""VECTORS -> NUMBERS: evaluations of words, sentences and documents."""
