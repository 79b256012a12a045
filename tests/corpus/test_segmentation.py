"""Text without spaces: its script is told, ICU cuts it, and a function that fails says where."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest

import distembed as de
from distembed.corpus.inspection import inspect_corpus
from distembed.corpus.records import CorpusError
from distembed.corpus.tokenizer import scripts_without_spaces

CHINESE = "今天天气很好，我们去公园散步。"


@pytest.mark.parametrize(
    ("text", "names"),
    [
        (CHINESE, ["Chinese"]),
        ("吾輩は猫である。名前はまだ無い。どこで生れたかとんと見当がつかぬ。", ["Japanese"]),
        ("ภาษาไทยเป็นภาษาที่สวยงาม", ["Thai"]),
        ("ភាសាខ្មែរជាភាសារបស់", ["Khmer"]),
        ("A report on 東京 and Kyoto, with few words of it in Japanese.", []),
        ("한국어는 띄어쓰기를 한다", []),
        ("हिन्दी भाषा", []),
        ("", []),
    ],
)
def test_the_script_is_told(text: str, names: list[str]) -> None:
    found = scripts_without_spaces(text)
    assert [script.name for script, _ in found] == names
    assert all(0.2 <= share <= 1.01 for _, share in found)


def notes(path: Path, text: str, **options: str) -> list[str]:
    path.write_text(text, encoding="utf-8")
    return inspect_corpus(de.read_corpus(path, tokenizer=de.Tokenizer(**options)))


def test_a_plan_shows_words_and_names_tokenizers(tmp_path: Path) -> None:
    found = notes(tmp_path / "a.txt", 20 * f"{CHINESE}\n")
    assert "words: 今天天气很好, 我们去公园散步" in found
    [warning] = [note for note in found if "without spaces" in note]
    assert warning.startswith("100% of the letters are Chinese")
    for advice in ('pattern="icu"', "distembed[icu]", "jieba"):
        assert advice in warning
    assert notes(tmp_path / "b.txt", "one two three\n") == ["files: 1 text", "words: one, two, three"]


def test_icu_cuts_words_and_leaves_out_signs(tmp_path: Path) -> None:
    pytest.importorskip("icu4py", reason="ICU is an extra: pip install 'distembed[icu]'")
    words = set(de.Tokenizer(pattern="icu")(f"{CHINESE} Don't ภาษาไทย 1999\n"))
    assert {"今天", "天气", "公园", "don't", "ภาษา", "ไทย"} <= words
    assert not {"，", "1999", " "} & words
    assert "1999" in de.Tokenizer(pattern="icu", numbers=True)("in 1999")
    assert not [note for note in notes(tmp_path / "b.txt", CHINESE, pattern="icu") if "spaces" in note]


def test_icu_is_an_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "icu4py", None)
    with pytest.raises(ImportError, match=r"pip install 'distembed\[icu\]'"):
        de.Tokenizer(pattern="icu").function()


def test_a_function_that_fails_is_named_with_file_and_document(tmp_path: Path) -> None:
    def fragile(text: str) -> list[str]:
        return text.split() if "bad" not in text else text.split()[99:][0]

    (tmp_path / "a.txt").write_text("good\ngood too\nbad one\n")
    docs = de.read_corpus(tmp_path / "a.txt", tokenizer=de.Tokenizer(pattern=fragile))
    message = (
        r"fragile.* failed in .*a.txt, document a.txt:14, at 'bad one': IndexError: list index out of range"
    )
    with pytest.raises(CorpusError, match=message):
        docs.tokenize()


def test_a_function_is_called_by_one_thread_at_a_time(tmp_path: Path) -> None:
    inside, most = 0, 0

    def slow(text: str) -> list[str]:
        nonlocal inside, most
        inside += 1
        most = max(most, inside)
        time.sleep(0.01)
        inside -= 1
        return text.split()

    for number in range(8):
        (tmp_path / f"{number}.txt").write_text("some words\n")
    assert de.read_corpus(tmp_path, tokenizer=de.Tokenizer(pattern=slow)).tokenize().n_documents == 8
    assert most == 1
