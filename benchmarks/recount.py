"""Count words and pairs of a finished job again, from its raw files, and compare them with what the job has stored.

Nothing of distembed runs here. Plain Python reads texts whose documents blank lines divide (`layout = "blocks"`), takes
runs of the letters a to z for words (`pattern = "ascii"`), and counts the words to the right within a flat window; Zarr
and Arrow open the workspace.

    python -m benchmarks.recount runs/english FILE.txt.xz ...
"""

import lzma
import random
import re
import sys
from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq
import zarr

N_ROWS, N_PAIRS = 100, 1000


def documents(files):
    """Yield the words of each document; its first line is the title, and is no text."""
    for file in files:
        with (lzma.open if file.endswith(".xz") else open)(file, "rt", encoding="utf-8") as lines:
            text = lines.read()
        for block in re.split(r"\n(?:[^\S\n]*\n)+", text.strip("\n")):
            yield [word.lower() for word in re.findall("[A-Za-z]+", block.partition("\n")[2])]


def stored_rows(folder, wanted):
    """Return the stored counts of each wanted row, by column."""
    group, found = zarr.open_group(str(folder / "arrays.zarr"), mode="r")["cooccurrence"], {}
    start = 0
    for number, n_rows in enumerate(group.attrs["row_blocks"]):
        indptr, indices, data = (group[f"{number:06d}"][name][:] for name in ("indptr", "indices", "data"))
        for row in range(start, start + n_rows):
            if row in wanted:
                own = slice(*indptr[row - start : row - start + 2])
                found[row] = dict(zip(indices[own].tolist(), data[own].tolist(), strict=True))
        start += n_rows
    return found


def main(workspace, *files):
    folder, draw = Path(workspace), random.Random(0)
    table = pq.read_table(folder / "vocabulary.parquet")
    words = table["word"].to_pylist()
    window = int(re.search(r"^window = (\d+)", (folder / "job.toml").read_text(), re.MULTILINE)[1])
    rows = set(draw.sample(range(len(words)), N_ROWS))
    pairs = [(draw.randrange(len(words)), draw.randrange(len(words))) for _ in range(N_PAIRS)]
    place_of = {word: place for place, word in enumerate(words)}
    watched = rows | {row for row, _ in pairs}
    occurrences, counts = Counter(), {row: Counter() for row in watched}
    for tokens in documents(files):
        occurrences.update(tokens)
        places = [place_of.get(token, -1) for token in tokens]
        for at, left in enumerate(places):
            if left in watched:
                counts[left].update(right for right in places[at + 1 : at + 1 + window] if right >= 0)
    stored = stored_rows(folder, watched)
    of_words = [occurrences[word] for word in words] == table["count"].to_pylist()
    of_rows = sum(counts[row] == stored[row] for row in rows)
    of_pairs = sum(counts[row][column] == stored[row].get(column, 0) for row, column in pairs)
    equal = "equal" if of_words else "DIFFER"
    print(f"{occurrences.total():,} tokens; counts of {len(words):,} words {equal}")
    print(f"rows equal: {of_rows} of {N_ROWS}; pairs equal: {of_pairs} of {N_PAIRS}")
    print(f"pairs in these rows: {sum(sum(counts[row].values()) for row in rows):,}")
    return 0 if of_words and of_rows == N_ROWS and of_pairs == N_PAIRS else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
