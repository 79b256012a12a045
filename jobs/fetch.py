"""Bring the data of jobs: python jobs/fetch.py JOB.toml ... (needs pooch: pip install pooch).

Each `{data}/PATH` that a job names is downloaded, prepared and checked by its SHA-256. The folder is $DISTEMBED_DATA,
else `distembed` in the user's cache, as for `distembed run`; what is there stays. registry.txt has the addresses.
"""

import csv
import hashlib
import html
import io
import json
import lzma
import os
import re
import sys
import tarfile
from fnmatch import fnmatch
from pathlib import Path

import pooch

FOLDER = Path(os.environ.get("DISTEMBED_DATA") or pooch.os_cache("distembed")).expanduser()
BORDERS = {
    "enwiki2018-0": ("", "Decade (Neil Young album)"), "enwiki2018-1": ("Decade (Neil Young album)", "Id Software"),
    "enwiki2018-2": ("Id Software", "Panama"), "enwiki2018-3": ("Panama", ""), "enwiki2018-new": ("", ""),
    "simplewiki2021-0": ("", "Tanggu Truce"), "simplewiki2021-1": ("Tanggu Truce", ""),
}  # fmt: skip
"""The title of the first page of a file of Wikipedia, and of the first page of the next one."""


def copy(sources, _name):
    return sources[0]


def crlf(sources, _name):
    return sources[0].replace(b"\r\n", b"\n").replace(b"\n", b"\r\n")


def pages(sources, name):
    """Return pages that WikiExtractor wrote, without short and repeated ones, as blocks of lines under their titles."""
    blocks, ids, titles = {}, set(), []
    for text in map(bytes.decode, sources):
        if text.startswith("{"):
            found = [(page["id"], page["title"], page["text"]) for page in map(json.loads, text.splitlines())]
        else:
            found = re.findall(r'<doc id="(\d+)" [^\n]*>\n([^\n]*)\n?(.*?)\n?</doc>', text, re.DOTALL)
        for ident, title, page in found:
            plain = re.sub("<[^<>]{1,80}>", " ", html.unescape(page))
            lines = [re.sub(r"[ \t]+", " ", line).strip() for line in plain.split("\n")]
            body = "\n".join(filter(None, lines))
            if ident not in ids and body not in blocks and len(body.split()) >= 20:
                ids.add(ident)
                titles.append(title if text.startswith("{") else html.unescape(title).strip())
                blocks[body] = f"{titles[-1]}\n{body}\n"
    first, end = (titles.index(title) if title else None for title in BORDERS[name])
    return "\n".join(list(blocks.values())[first:end]).encode()


def smart(sources, _name):
    """Return title and abstract of the documents of CLASSIC4."""
    rows = []
    for source, (label, fields) in zip(
        sources, [("cacm", "TW"), ("cisi", "TW"), ("med", "TW"), ("cran", "W")], strict=True
    ):
        text = source.decode("latin-1").replace("\r\n", "\n")
        for number, body in re.findall(
            r"^\.I +(\d+)[^\n]*\n(.*?)(?=^\.I |\Z)", text, re.DOTALL | re.MULTILINE
        ):
            parts = re.findall(r"^\.([A-Z]) *\n(.*?)(?=^\.[A-Z] *\n|\Z)", body, re.DOTALL | re.MULTILINE)
            if words := " ".join(" ".join(part for field, part in parts if field in fields).split()):
                rows.append({"id": f"{label}.{number}", "label": label, "text": words})
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode()


def associations(sources, _name):
    """Return the tables of free association norms as one with tabs; a cell without letter or digit is empty."""
    lines = [line for source in sources for line in source.decode("latin-1").splitlines() if "," in line]
    head, *rows = ([cell.strip() for cell in line.split(",")] for line in lines)
    rows = ([cell if re.search("[0-9A-Za-z]", cell) else "" for cell in row] for row in rows if row != head)
    return "\n".join(["\t".join(row) for row in (head, *rows)] + [""]).encode()


def prices(sources, _name):
    """Return closing prices of companies, 2015 to 2018; of two files of one, of that which begins earlier."""
    symbols = {row["Symbol"] for row in csv.DictReader(io.StringIO(sources[0].decode("utf-8-sig")))}
    symbols -= {"BHF", "CHK", "CSRA", "MON", "PX", "SNI", "TWX", "XL"}
    files = {}
    for archive, pattern in zip(
        sources[1:], (r"stock_dfs/([^/]+)\.csv$", r"/([^/]+)_data\.csv$"), strict=True
    ):
        with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
            for member in sorted(tar.getmembers(), key=lambda one: one.name):
                if member.isfile() and (found := re.search(pattern, member.name)):
                    symbol, text = found[1].replace("-", "/"), tar.extractfile(member).read()
                    files[symbol] = min(
                        files.get(symbol, text), text, key=lambda one: one.split(b"\n", 2)[1][:4]
                    )
    closes = {}
    for symbol in sorted(symbols & files.keys()):
        rows = csv.DictReader(io.StringIO(files[symbol].decode("utf-8-sig").lower()))
        closes[symbol] = {row["date"]: row["close"] for row in rows}
    dates = sorted(
        {date for each in closes.values() for date in each if "2015-01-02" <= date <= "2018-12-31"}
    )
    cells = ([f"{float(each[d]):.4f}" if each.get(d) else "" for each in closes.values()] for d in dates)
    lines = [["date", *closes], *([date, *row] for date, row in zip(dates, cells, strict=True))]
    return "".join(",".join(line) + "\r\n" for line in lines).encode()


def numbered(address):
    found = re.fullmatch(r"(.*)\{(\d+)\.\.(\d+)\}(.*)", address)
    if not found:
        return [address]
    before, first, last, after = found.groups()
    return [f"{before}{n:0{len(first)}}{after}" for n in range(int(first), int(last) + 1)]


def fetch(path, digest, how, addresses):
    """Download the sources of a file that is not there, make it of them, and check it."""
    target = FOLDER / path
    if target.exists():
        return
    sources = []
    for address in (each for given in addresses for each in numbered(given)):
        name = re.sub(r"[^\w.-]+", "_", address.partition("//")[2])
        sources.append(Path(pooch.retrieve(address, None, name, FOLDER / "sources")).read_bytes())
    content = globals()[how](sources, target.name.partition(".")[0])
    if (found := hashlib.sha256(content).hexdigest()) != digest:
        sys.exit(f"the sources of {path} in {FOLDER / 'sources'} make {found}, not {digest}: remove them")
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(lzma.compress(content) if target.suffix == ".xz" else content)
    print(target)


def main(jobs):
    lines = Path(__file__).with_name("registry.txt").read_text().splitlines()
    files = [line.split() for line in lines if not line.startswith("#")]
    text = "".join(Path(job).read_text() for job in jobs)
    for name in sorted(set(re.findall(r"\{data\}/([^\s\"',\])]+)", text))):
        wanted = [file for file in files if fnmatch(file[0], name) or file[0].startswith(f"{name}/")]
        for path, digest, how, *addresses in wanted:
            fetch(path, digest, how, addresses)
        if not list(FOLDER.glob(name)):
            print(f"{FOLDER / name} is not there, and docs/data.md says where it comes from")


if __name__ == "__main__":
    main(sys.argv[1:]) if sys.argv[1:] else sys.exit(__doc__)
