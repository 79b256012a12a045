"""What the cost of the coherence of topics says, against the arrays that runs make."""

from __future__ import annotations
