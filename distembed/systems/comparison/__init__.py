"""How words differ between parts of a corpus: vectors solved against one core, and the noise of each difference."""
