"""The walk of a linguist: German text in five encodings and formats, and a list of pairs from a spreadsheet."""

from __future__ import annotations

import gzip
import json
import lzma
from pathlib import Path

import pytest

from tests.commands import run, succeed

JOB = """
[job]
workspace = "runs/german"
[corpus]
paths = ["texts/*"]
text_field = "Inhalt"
encoding = "cp1252"
lowercase = false
[vocabulary]
min_count = 2
[psdvec]
n_components = 20
n_iter = 2
[evaluation]
sets = ["sets"]
[report]
words = ["Tabelle", "datei", "Zauberlehrling"]
n_map_words = 20
[resources]
workers = 2
"""

PAIRS = (
    "Wort 1;Wort 2;Urteil\r\nTabelle;Zelle;8,5\r\nDatei;Dokument;9,0\r\nSeite;Zeichenfolge;1,5\r\nFarbe;Linie;4,0\r\n"
    "Datum;Zahl;5,0\r\nFunktion;Wert;6,0\r\nGröße;Symbol;1,0\r\n"
)


@pytest.fixture(scope="module")
def folder(shared: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a job, its texts in five encodings and formats, and a list of pairs."""
    source = shared / "data/parallel/libreoffice_help_en_de_fr.jsonl.xz"
    with lzma.open(source, "rt", encoding="utf-8") as file:
        pages = [json.loads(line) for line, _ in zip(file, range(300), strict=False)]
    folder = tmp_path_factory.mktemp("walk")
    texts, sets = folder / "texts", folder / "sets"
    texts.mkdir()
    sets.mkdir()
    lines = ["\r\n".join(" ".join(page["de"].split()) for page in pages[k::5]) + "\r\n" for k in range(3)]
    (texts / "utf8.txt").write_bytes(lines[0].encode())
    (texts / "old.txt").write_bytes(lines[1].encode("cp1252", "replace"))
    (texts / "windows.txt").write_bytes(lines[2].encode("utf-16"))
    rows = [f'{page["id"]};"{page["de"].replace(chr(34), chr(34) * 2)}"\r\n' for page in pages[3::5]]
    (texts / "table.csv").write_bytes(("Nummer;Inhalt\r\n" + "".join(rows)).encode("cp1252", "replace"))
    with gzip.open(texts / "records.jsonl.gz", "wt", encoding="utf-8") as records:
        records.writelines(
            json.dumps({"Inhalt": page["de"]}, ensure_ascii=False) + "\n" for page in pages[4::5]
        )
    (sets / "pairs.csv").write_bytes(PAIRS.encode("utf-16"))
    (sets / "notes.txt").write_text("Pairs that I judged myself.\n")
    (folder / "lower.csv").write_bytes(PAIRS.lower().encode())
    (folder / "german.toml").write_text(JOB)
    return folder


def test_from_raw_files_to_scores(folder: Path) -> None:
    job = folder / "german.toml"
    planned = run("plan", job).output
    done = succeed("run", job)
    for printed in (planned, done.output):
        assert "tokens: files: 3 text, 1 JSON lines, 1 CSV" in printed
        assert "evaluation: passed over: notes.txt (of no known format)" in printed
    assert all(text in done.output for text in (" 7/7\n", "Words: as written, then lower case, unknown skip"))
    assert "report.words without a vector: datei (there is Datei), Zauberlehrling" in done.output
    assert "report.words without a vector" in (folder / "runs/german/report/index.html").read_text()
    succeed("report", folder / "runs/german", "--figures", folder / "figures", "--format", "pdf")
    drawn = list((folder / "figures").glob("*.pdf"))
    assert drawn
    assert all(path.read_bytes().startswith(b"%PDF") for path in drawn)
    lower = run("evaluate", folder / "runs/german", "--sets", folder / "lower.csv")
    assert lower.exit_code == 2
    assert 'with case = "ignore" 14 of their 14 words are known' in lower.output
    succeed("evaluate", folder / "runs/german", "--sets", folder / "lower.csv", "--case", "ignore")
