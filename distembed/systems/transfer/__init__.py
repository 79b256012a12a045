"""Two parallel collections to topics of the second."""
