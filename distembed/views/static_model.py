"""The vectors of a job, or of a file, as a static model folder with a card that says where they come from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import tomli_w

from distembed.display import first_words, plural
from distembed.encoding.encoder import TextEncoder, rows_in_words
from distembed.encoding.static import model_card, unreadable_words, write_static_model
from distembed.evaluation.words import SCORE_HEADINGS, score_rows
from distembed.job.model import Job
from distembed.job.opening import Source, VectorFile, job_of
from distembed.job.stage import system_of
from distembed.stages.outputs import EVALUATION
from distembed.stages.words import shown_scores
from distembed.storage.workspace import Workspace
from distembed.views.texts import open_encoder

STATIC = "static:"
"""How the name of a target begins that is a model folder."""

PLACES = {"paths", "sets", "path"}
"""Keys of a job that hold places of one machine, which are none of a reader's."""

SECTIONS = ("vocabulary", "counting", "psdvec", "subwords")
"""The sections of a job that a card shows, where the job has them."""


def export_static(source: Source, target: str, **options: Any) -> str:
    """Write vectors as a folder for sentence-transformers and model2vec, and return in words what was written.

    Parameters
    ----------
    source : Job, Workspace or VectorFile
        A workspace gives the counts of the words and the tokenizer.
    target : str
        "static:" and the folder.
    **options
        Those of `TextEncoder`; None stands for the default.

    Raises
    ------
    ValueError, FileExistsError, FileNotFoundError
        As `write_static_model`, and where there are no vectors at `source`.
    """
    folder = Path(target.removeprefix(STATIC))
    job = None if isinstance(source, VectorFile) else job_of(source)
    encoder = open_encoder(job or source, unknown="skip", **options)
    left_out = _left_out(encoder)
    about = [] if job is None else _about(job, Workspace.open(job.job.workspace))
    about += [f"## Left out\n\n{'; '.join(left_out)}.\n"] if left_out else []
    card = model_card(folder.absolute().name, encoder, about="\n".join(about))
    write_static_model(target.removeprefix(STATIC), encoder, card=card)
    n_words, d = encoder.rows_.shape
    notes = [
        f"{plural(n_words, 'word')} x {plural(d, 'dimension')} in {folder}, {rows_in_words(encoder)}",
        "load it with SentenceTransformer(DIR) or StaticModel.from_pretrained(DIR), compare by cosine",
        *left_out,
    ]
    return "; ".join(notes)


def _left_out(encoder: TextEncoder) -> list[str]:
    """Return what the folder does not hold of the vectors, in sentences."""
    notes = []
    if getattr(encoder.vectors, "subwords", None) is not None:
        notes.append("the n-grams are left out: these libraries compose no words")
    if lost := unreadable_words(encoder):
        notes.append(
            f"{len(lost):,} of {plural(len(encoder.vectors), 'word')} never come out of a text as the tokenizer cuts "
            f"it ({first_words(lost)})"
        )
    return notes


def _about(job: Job, workspace: Workspace) -> list[str]:
    """Return the corpus of a job, the sections that decide its vectors, and their scores, as parts of a card."""
    about, done, section = list[str](), workspace.stages(), getattr(job, "corpus", None)
    if section is not None and "tokens" in done:
        facts = done["tokens"].facts
        files = ", ".join(f"`{str(path).rsplit('/', 1)[-1]}`" for path in section.paths)
        size = f"{plural(facts['n_documents'], 'document')}, {plural(facts['n_tokens'], 'token')}"
        about.append(f"## Corpus\n\n{job.job.title or 'A corpus'}: {size}, from {files}.\n")
    whole = job.model_dump(mode="json", exclude_none=True)
    settings = {
        name: {key: value for key, value in whole[name].items() if key not in PLACES}
        for name in SECTIONS
        if name in whole
    }
    digest = workspace.digest(spec.name for spec in system_of(job).stages(job))
    written = f"```toml\n{tomli_w.dumps(settings)}```\n\nDigest of the job: `{digest}`.\n"
    about.append(f"## Settings\n\n{written}")
    if "evaluation" in done and EVALUATION.name in done["evaluation"].outputs:
        rows = [SCORE_HEADINGS[:-1], ("---",) * (len(SCORE_HEADINGS) - 1)]
        rows += [row[:-1] for row in score_rows(shown_scores(workspace, EVALUATION))]
        lines = "\n".join(f"| {' | '.join(cell.replace('|', ' ') for cell in row)} |" for row in rows)
        about.append(f"## Scores of the word vectors\n\nBefore the weights were folded in.\n\n{lines}\n")
    return about
