"""Why two words of a psdvec job are near."""

from __future__ import annotations

from distembed.pipeline.explain.record import Asked, Explanation
from distembed.pipeline.systems.psdvec.config import PSDVecJob
from distembed.pipeline.words.explanation import explain_words
from distembed.storage.workspace import Workspace


def explain(job: PSDVecJob, workspace: Workspace, asked: Asked) -> Explanation:
    """Explain the cosine of two words; see `distembed.pipeline.words.explanation.explain_words`."""
    return explain_words(workspace, asked, window=job.counting.window)
