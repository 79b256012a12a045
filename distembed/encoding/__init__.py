"""TEXT -> VECTORS: the weighted mean of the word vectors of a text, and the texts nearest to another one."""

from distembed.encoding.encoder import TextEncoder
from distembed.encoding.static import write_static_model

__all__ = ["TextEncoder", "write_static_model"]
