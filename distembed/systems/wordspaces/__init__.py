"""A corpus to word spaces, scored side by side."""
