"""The commands on vectors: `distembed evaluate|neighbors`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click
import numpy as np

from distembed.cli.command_line import PLACE, Outside, choice, command, number, read_source, target
from distembed.cli.failures import fail
from distembed.display import plural
from distembed.encoding.encoder import Weighting, Whitening
from distembed.evaluation import words as evaluation
from distembed.evaluation.items import item_table
from distembed.evaluation.scoring import FEW_KNOWN, Case, Policy, Score, Unknown
from distembed.evaluation.sentences import SENTENCE_TASKS, evaluate_sentences
from distembed.evaluation.words import case_advice
from distembed.evaluation.wordsets import EvaluationSet, FoundSets, find_sets, read_pairs
from distembed.formats.names import unknown_format
from distembed.job.model import locate
from distembed.job.opening import load_vectors, names_of, parse_source
from distembed.job.tables import Piece, Table, neighbors_table
from distembed.job.terminal import neighbor_line, safe_scores, shown, write
from distembed.vectors import Neighbor, UnknownWordError, WordVectors
from distembed.views.export import TableFormat, table_format, write_table
from distembed.views.texts import open_encoder


@command(
    "distembed evaluate vectors.txt --sets wordeval/",
    "distembed evaluate runs/psdvec --sets {gensim}/test/test_data/wordsim353.tsv",
    "distembed evaluate a.txt b.bin --sets wordeval/ --same-words --json scores.json",
    "distembed evaluate vectors.txt --sets priming.csv --columns word1=Prime,word2=Target,score=RT",
    "distembed evaluate runs/psdvec --sets pairs.csv --columns word1=cue,word2=target --items cosines.csv",
)
@click.argument("vectors", type=PLACE, nargs=-1, required=True)
@click.option(
    "--sets",
    "sets",
    type=PLACE,
    multiple=True,
    required=True,
    help="A folder or file of evaluation sets, {package}/PATH inside an installed package; may be repeated.",
)
@click.option("--json", "json_file", type=click.Path(dir_okay=False), help="Write the scores there as well.")
@click.option("--same-words", is_flag=True, help="Judge several vector files on the words they share.")
@click.option("--max-words", type=click.IntRange(min=1), help="Read only the first N vectors of a file.")
@click.option(
    "--case",
    type=choice(Case),
    default="auto",
    show_default=True,
    help="How words of the sets are looked up: as written and then in lower case (auto), in lower case, "
    "as written (keep), or also as any word of the vocabulary that differs only in case (ignore).",
)
@click.option(
    "--unknown",
    type=choice(Unknown),
    help="Items with a word that has no vector: left out (skip, the default), counted as wrong (zero), or answered "
    "with a vector composed from the word's character n-grams (subwords; of sentences the default where the vectors "
    "have them).",
)
@click.option(
    "--weighting",
    type=choice(Weighting),
    help="How sentences become vectors: by smooth inverse frequency (default), or as plain means of word vectors.",
)
@click.option(
    "--whitening",
    type=choice(Whitening),
    help="Even out the spread of the words in sentences (default: full, of few words half; of the plain mean none).",
)
@click.option(
    "--columns",
    default="",
    metavar="ROLE=NAME,...",
    help="Read the sets as lists of pairs with a score, as priming, by word1=NAME,word2=NAME,score=NAME; columns that "
    "are not named are guessed. With --items a list needs no score.",
)
@click.option(
    "--items",
    type=Outside(readable=False),
    metavar="FILE",
    help="Write each item of the word sets with its cosine or, of a question, whether it is answered rightly, and "
    "whether its words are known: a table that ends in .csv, .tsv or .parquet.",
)
@click.option("--few", is_flag=True, help="Show scores of fewer than 10 known items, too.")
def evaluate(
    vectors: tuple[str, ...],
    sets: tuple[str, ...],
    json_file: str | None,
    same_words: bool,
    max_words: int | None,
    case: Case,
    unknown: Unknown | None,
    weighting: Weighting | None,
    whitening: Whitening | None,
    columns: str,
    items: str | None,
    few: bool,
) -> None:
    """Score word vectors on evaluation sets, in one table.

    The sets hold similarities, analogies, synonyms, categories or sentences. VECTORS are vector files, workspaces or
    job files. Where no item of any set is known, the exit code is 1 and the message says why. Sentences (pairs with a
    score, and texts with a label) are encoded as `distembed encode` does.
    """
    items_format = None if items is None else format_of(items)
    sources = {path: parse_source(path) for path in vectors}
    files = {path: load_vectors(source, max_words=max_words) for path, source in sources.items()}
    places: tuple[Any, ...] = tuple(locate(path, Path()) for path in sets)
    if columns:
        places = tuple(read_pairs(path, roles_of(columns), needs_scores=items is None) for path in places)
    found = find_sets(places, sentences=True)
    sentences = [one for one in found.sets if one.task in SENTENCE_TASKS]
    words = [one for one in found.sets if one.task not in SENTENCE_TASKS]
    if items and not words:
        raise click.UsageError("--items writes the items of word sets, and --sets names none")
    scores: dict[str, list[Score]] = {path: [] for path in vectors}
    options: dict[str, Any] = {"case": case}
    if unknown is not None:
        options["unknown"] = unknown
    policy = Policy(**options)
    if words:
        scores = evaluation.compare(files, words, same_words=same_words, **options)
    if sentences:
        # Unknown words of a sentence cannot count as wrong.
        encoding: dict[str, Any] = {"weighting": weighting, "whitening": whitening}
        encoding["unknown"] = None if unknown == "zero" else unknown
        for path, source in sources.items():
            encoder = open_encoder(source, vectors=files[path], **encoding)
            scores[path] = scores[path] + evaluate_sentences(encoder, sentences)
    _write_scores(scores, few=few)
    _write_advice(found, words, files, policy)
    if items and items_format:
        rows = item_table(evaluation.on_common_words(files) if same_words else files, words, policy)
        table = Table(rows.schema, None, rows.num_rows, [Piece(rows, None)], "items")
        write_table(items, table, format=items_format)
        write(shown(f"{plural(rows.num_rows, 'item')} in {items}"))
    if json_file:
        records = {path: evaluation.score_records(column) for path, column in scores.items()}
        Path(json_file).write_text(json.dumps(records, indent=1) + "\n", encoding="utf-8")


def _write_scores(scores: dict[str, list[Score]], *, few: bool) -> None:
    one = len(scores) == 1
    safe = {
        shown(path): safe_scores([score if few else score.in_report for score in found])
        for path, found in scores.items()
    }
    write(evaluation.format_scores(*safe.values()) if one else evaluation.format_comparison(safe))
    if not few and any(score.in_report != score for found in scores.values() for score in found):
        write(FEW_KNOWN)


def _write_advice(
    found: FoundSets, words: list[EvaluationSet], files: dict[str, WordVectors], policy: Policy
) -> None:
    """Write which files were passed over, and whether another case would know more words."""
    if found.omissions:
        write(shown(found.omissions), err=True)
    for path, model in files.items():
        if advice := case_advice(model.words, words, policy):
            write(f"{shown(path)}: {shown(advice)}", err=True)


def roles_of(columns: str) -> dict[str, str]:
    """Return the columns that --columns names, by what they hold."""
    roles = {}
    for part in filter(None, columns.split(",")):
        role, sign, name = part.partition("=")
        if not sign:
            raise click.UsageError(f"--columns takes ROLE=NAME, as word1=stimulus, and not {part!r}")
        roles[role.strip()] = name.strip()
    return roles


@command(
    "distembed neighbors runs/psdvec king music",
    "distembed neighbors vectors.bin king -n 5",
    "distembed neighbors runs/psdvec king music --to neighbors.csv",
)
@click.argument("vectors", type=PLACE)
@click.argument("words", nargs=-1, required=True)
@number("How many neighbors of each word.", default=10)
@target("Write a table, a row per neighbor, to a file that ends in .csv, .tsv or .parquet.", required=False)
def neighbors(vectors: str, words: tuple[str, ...], n: int, target: str | None) -> None:
    """Print the nearest words by cosine.

    VECTORS is a vector file, a workspace or a job file. The names of a table may be given as the table has them or as
    the vectors do. A word that has no vector of its own is composed from its character n-grams where VECTORS has them,
    and its line says so. A word that is known in other letters only, as tabelle for Tabelle, is taken, and a line says
    so. Words that have no vector at all are listed at the end, with words that are spelt like them; the exit code is
    then 1.
    """
    source, unknown = read_source(vectors), list[str]()
    model, in_table = load_vectors(source), names_of(source)
    found: dict[str, list[Neighbor]] = {}
    for word in words:
        try:
            known = word if word in in_table else _known(model, word)
            found[known] = model.most_similar(known if known in model else in_table.get(known, known), n=n)
        except UnknownWordError as error:
            unknown.append(str(error))
    if target:
        table = neighbors_table(found)
        write_table(target, table, format=format_of(target))
        write(shown(f"{table.contents} of {plural(len(found), 'word')} in {target}"))
    else:
        for word, near in found.items():
            origin = _origin(word, model, in_table)
            write(_of_one_direction(model, word, near) or neighbor_line(word, near, origin=origin))
    if unknown:
        fail("; ".join(unknown), code=1)


SAME = 0.9995
"""The least cosine that is printed as 1.000."""


def _of_one_direction(model: WordVectors, word: str, near: list[Neighbor]) -> str:
    """Return a line on a word whose neighbors all have its direction, as words of one topic have; "" for others."""
    if word not in model or len(near) < 2 or near[-1].similarity < SAME:
        return ""
    same = [each.word for each in model.most_similar(word, n=len(model) - 1) if each.similarity >= SAME]
    order = np.argsort(-np.linalg.norm(model[same], axis=1), kind="stable")[: len(near)]
    heaviest = ", ".join(shown(same[row]) for row in order.tolist())
    return (
        f"{shown(word)}: {heaviest}; the heaviest of {len(same):,} words that have its direction, as words of one "
        "topic alone have"
    )


def _origin(word: str, model: WordVectors, in_table: dict[str, str]) -> str:
    """Return where the vector of a word comes from, "" where it has its own."""
    if word in model:
        return ""
    return f"in the vectors {in_table[word]!r}" if word in in_table else model.describe(word)


def _known(model: WordVectors, word: str) -> str:
    """Return a word, or the one that the vectors have in its place, which differs in case alone."""
    row = -1 if word in model else int(model.index([word], ignore_case=True)[0])
    if row < 0:
        return word
    write(shown(f"{word} has no vector, and {model.words[row]} is taken for it"), err=True)
    return model.words[row]


def format_of(target: str) -> TableFormat:
    """Return the format of a table by the end of its name."""
    if (found := table_format(target)) is None:
        raise unknown_format(target, (".csv", ".tsv", ".parquet"))
    return found
