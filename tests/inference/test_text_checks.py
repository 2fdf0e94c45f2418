"""Text as people write it passes without a word; tokens, pieces and entities do not."""

import html
import random
import re
from itertools import islice

import pytest

from septuagint.data.demo.corpus import generate_pairs
from septuagint.inference.text_checks import find_blanks, find_oddities

ENGLISH = [
    "The well-known author, who is 83, doesn't like it.",
    'He said: "I can\'t wait ... really!"',
    "It costs .5 cents, and .NET is free.",
    "Write to a@b.org, or to @home.",
    "AT&T and R&D; that was all.",
]
FRENCH = [
    "Où est-il allé ? Personne ne le sait !",
    "Il a dit : « C'est l'homme ; je le connais. »",
    "Vraiment\u00a0? Oui\u202f!",
    "Attention : danger !",
]
JAPANESE = [
    "彼らはついにそれが真実だと認めた。",
    "山田 太郎さんは、東京 に住んでいる。",
    "本当ですか？ はい、そうです。",
    "Python 3 で 書いた。",
]
THAI = ["ฉันเห็นแมวในสวนเมื่อเช้านี้ แล้วมันก็วิ่งหนีไป", "วันนี้อากาศดีมาก เราไปเดินเล่นกันเถอะ นะครับ"]
JAPANESE_TOKENS = ["彼 ら は つい に それ が 真実 だ と 認め た 。", "それ は 本当 か ？", "彼女 は 親切 だ"]
THAI_TOKENS = ["ฉัน เห็น แมว ใน สวน เมื่อ เช้า นี้", "วันนี้ อากาศ ดี มาก"]


def tokenise(line: str) -> str:
    """What the tokenizer of Moses does, in short."""
    line = re.sub(r"n't\b", " n't", line)
    line = re.sub(r"(?<=\w)-(?=\w)", " @-@ ", line)
    return " ".join(re.sub(r"([.,!?:;\"«»]+)(?=\s|$)|([\"«])", r" \1\2 ", line).split())


@pytest.mark.parametrize("lines", [ENGLISH, FRENCH, JAPANESE, THAI, [], ["", " "]])
def test_text_looks_like_text(lines):
    assert find_oddities(lines, "text") == []


def test_lines_that_are_empty_on_both_sides_are_nothing_to_warn_of():
    assert find_blanks(["a", "", " "], ["b", "\t", ""], "text") == []
    assert find_blanks(["a", ""], ["", ""], "text") == []  # the other side has the gap
    [warning] = find_blanks(["a", "", " ", ""], ["b", "", "c", "d"], "text")
    assert warning.startswith("text: 2 of 4 lines are empty where the other side is not, line 3 first; ")


def test_the_demo_looks_like_text_and_its_tokens_do_not():
    for lines in zip(*islice(generate_pairs(seed=1), 300), strict=True):
        assert find_oddities(lines, "demo") == []
        [warning] = find_oddities([tokenise(line) for line in lines], "demo")
        assert "look tokenised" in warning


@pytest.mark.parametrize(
    "lines",
    [
        [tokenise(line) for line in ENGLISH],
        [tokenise(line) for line in FRENCH] + ["Il est là ."],
        ["a well @-@ known author", "A 3 @,@ 000 km road"],
        ["they do n't know", "I could n’t say"],
        JAPANESE_TOKENS,
        [line.rstrip(" 。") for line in JAPANESE_TOKENS],
        THAI_TOKENS,
    ],
)
def test_tokens_are_told_with_the_reason_and_the_cure(lines):
    [warning] = find_oddities(lines, "references in test.de")
    assert warning.startswith("references in test.de: ")
    assert "look tokenised" in warning and "not comparable" in warning and "sacremoses" in warning


def test_pieces_are_told_once_and_with_their_cure():
    sentencepiece = ["▁The ▁cat ▁sat .", "▁The re ▁is ▁a ▁dog , ▁is n ' t ▁there ?"]
    bpe = ["The c@@ at sat.", "The@@ re is a d@@ og."]
    for lines in (sentencepiece, bpe):
        [warning] = find_oddities(lines, "translations")
        assert "look like subword pieces" in warning and "spm_decode" in warning


def test_pieces_of_tokens_are_told_as_both():
    warnings = find_oddities(["The c@@ at sat .", "The@@ re is a d@@ og ."], "translations")
    assert [("pieces" in warning, "tokenised" in warning) for warning in warnings] == [(True, False), (False, True)]


def test_entities_are_told():
    lines = [html.escape(line) for line in ENGLISH]
    [warning] = find_oddities(lines, "references")
    assert "3 of 5 lines have HTML entities" in warning
    assert "html.unescape" in warning
    assert find_oddities([html.unescape(line) for line in lines], "references") == []


def test_a_warning_shows_one_line_in_short():
    [warning] = find_oddities(["word " * 100 + "."] * 2, "references")
    assert len(warning) < 400 and '"word word' in warning and '…"' in warning


@pytest.mark.parametrize("odd", ["The cat sat .", "The c@@ at sat.", "Tom &amp; Jerry", "彼 ら は つい に"])
def test_single_odd_lines_are_let_pass_and_do_not_depend_on_their_place(odd):
    lines = [*ENGLISH * 100, odd]
    random.Random(1).shuffle(lines)
    assert find_oddities(lines, "references") == []
    assert find_oddities([odd], "references") == []
